//! The one clock. Every delay in the embedded cluster and the driver reads it, so that tests and
//! `dralab dev lint` can advance it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::BoxFuture;
use jiff::Timestamp;

/// A source of time that can also be waited on.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Waits until the clock has passed `delay` from now.
    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()>;
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
        Timestamp::now()
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(delay))
    }
}

/// A clock that stands still until it is advanced.
#[derive(Clone, Debug)]
pub struct ManualClock {
    state: Arc<Mutex<Manual>>,
}

#[derive(Debug)]
struct Manual {
    now: Timestamp,
    sleepers: Vec<(Timestamp, oneshot::Sender<()>)>,
}

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        ManualClock { state: Arc::new(Mutex::new(Manual { now, sleepers: Vec::new() })) }
    }

    /// Moves the clock on and wakes whoever waited for a time that has now come.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = state.now.checked_add(by).unwrap_or(Timestamp::MAX);
        let now = state.now;
        let (due, waiting) = std::mem::take(&mut state.sleepers).into_iter().partition(|(at, _)| *at <= now);
        state.sleepers = waiting;
        drop(state);
        let due: Vec<(Timestamp, oneshot::Sender<()>)> = due;
        for (_, sleeper) in due {
            // A sleeper that was dropped needs no waking.
            let _ = sleeper.send(());
        }
    }

    /// How many waits are pending; lets a test see that a task has gone to sleep.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).sleepers.len()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).now
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        let (wake, woken) = oneshot::channel();
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let at = state.now.checked_add(delay).unwrap_or(Timestamp::MAX);
            if at <= state.now {
                return Box::pin(std::future::ready(()));
            }
            state.sleepers.push((at, wake));
        }
        Box::pin(async move {
            // The sender is dropped only with the clock itself; then nobody can advance it any more.
            let _ = woken.await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, ManualClock};
    use std::time::Duration;

    #[tokio::test]
    async fn a_sleeper_wakes_when_its_time_has_come() {
        let clock = ManualClock::new("2026-12-01T00:00:00Z".parse().unwrap_or(jiff::Timestamp::UNIX_EPOCH));
        let sleep = clock.sleep(Duration::from_secs(30));
        clock.advance(Duration::from_secs(29));
        assert_eq!(clock.sleepers(), 1);
        clock.advance(Duration::from_secs(1));
        sleep.await;
        assert_eq!(clock.sleepers(), 0);
    }
}
