//! Ctrl-C and SIGTERM: a command is dropped, or told to take back what it made.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use crate::base::failure::{Failure, Kind};
use crate::ui::terminal::Terminal;

/// The two signals.
pub(super) struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Interrupts {
    pub(super) fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let wrong = |error: std::io::Error| Failure::new(Kind::Failed, "DL-RUN-03", "signals cannot be listened to").because(&error);
        Ok(Interrupts {
            interrupt: signal(SignalKind::interrupt()).map_err(wrong)?,
            terminate: signal(SignalKind::terminate()).map_err(wrong)?,
        })
    }

    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "Ctrl-C",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// That a command was interrupted by a signal.
#[must_use]
pub fn interrupted(signal: &str) -> Failure {
    Failure::new(Kind::Interrupted, "DL-INT-01", format!("interrupted ({signal})"))
}

/// Runs work that a signal drops.
///
/// # Errors
/// Its failure, or that it was interrupted.
pub async fn droppable<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut interrupts = Interrupts::new()?;
    tokio::select! {
        biased;
        result = work => result,
        name = interrupts.next() => Err(interrupted(name)),
    }
}

/// Runs work that takes back what it made when its token is cancelled. The first signal cancels the token, the second ends the command at once;
/// `left` says then how to remove what may be left.
///
/// # Errors
/// Its failure, or that it was interrupted twice.
pub async fn undone<T, F>(terminal: &Terminal, left: &str, work: impl FnOnce(CancellationToken) -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut interrupts = Interrupts::new()?;
    let cancel = CancellationToken::new();
    let work = work(cancel.clone());
    tokio::pin!(work);
    tokio::select! {
        biased;
        result = &mut work => return result,
        _ = interrupts.next() => cancel.cancel(),
    }
    terminal.progress(terminal.text("up.interrupted", &[]));
    tokio::select! {
        biased;
        result = &mut work => result,
        name = interrupts.next() => Err(interrupted(name).hint(left)),
    }
}
