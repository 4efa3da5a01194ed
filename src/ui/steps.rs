//! Steps of a longer command on stderr: a spinner or a bar on a terminal, a line each otherwise.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;

use crate::cluster::steps::{Say, StepEvent};
use crate::ui::terminal::{Style, Terminal};

/// A step that takes longer than this is told of at its beginning too where nothing can be redrawn.
const SLOW: Duration = Duration::from_secs(2);

/// A step that has begun. Ends with [`Step::done`] or [`Step::failed`]; dropped without either, it vanishes.
#[derive(Debug)]
pub struct Step {
    terminal: Terminal,
    bar: Option<ProgressBar>,
    in_bytes: bool,
}

/// Begins a step.
#[must_use]
pub fn begin(terminal: &Terminal, text: &str) -> Step {
    let bar = redraws(terminal).then(|| {
        let bar = ProgressBar::new_spinner();
        set_style(&bar, " {spinner} {msg}");
        bar.set_message(text.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    });
    Step { terminal: terminal.clone(), bar, in_bytes: false }
}

fn redraws(terminal: &Terminal) -> bool {
    terminal.manners.redraw && !terminal.manners.plain && !terminal.manners.quiet
}

/// The templates are constants of this file; one that did not parse would leave indicatif's own style.
fn set_style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
}

impl Step {
    /// Ends the step with what was done.
    pub fn done(self, text: &str) {
        self.clear();
        let mark = self.terminal.styled_err(Style::Good, self.terminal.good_mark());
        self.terminal.progress(format!(" {mark} {text}"));
    }

    /// Ends the step with what went wrong; the failure itself is rendered elsewhere.
    pub fn failed(self, text: &str) {
        self.clear();
        let mark = self.terminal.styled_err(Style::Bad, self.terminal.bad_mark());
        self.terminal.progress(format!(" {mark} {text}"));
    }

    /// Shows how far it is: bytes of a total, or of an unknown one (0).
    pub fn bytes(&mut self, what: Option<&str>, done: u64, total: u64) {
        let Some(bar) = &self.bar else { return };
        if !self.in_bytes {
            self.in_bytes = true;
            let template =
                if total > 0 { " {spinner} {msg} [{bar:24}] {bytes} of {total_bytes}, {eta} to go" } else { " {spinner} {msg} {bytes}" };
            set_style(bar, template);
        }
        if let Some(what) = what {
            bar.set_message(what.to_owned());
        }
        if total > 0 {
            bar.set_length(total);
        }
        bar.set_position(done);
    }

    /// Writes a line above the spinner.
    fn above(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.terminal.progress(line)),
            None => self.terminal.progress(line),
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Renders the events of a list of steps ([`crate::cluster::steps::run`]).
#[derive(Debug)]
pub struct StepLog<'a> {
    terminal: &'a Terminal,
    current: Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    step: Option<Step>,
    slow: Option<JoinHandle<()>>,
}

impl Current {
    fn end(&mut self) -> Option<Step> {
        if let Some(slow) = self.slow.take() {
            slow.abort();
        }
        self.step.take()
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        self.end();
    }
}

impl<'a> StepLog<'a> {
    /// A log that writes to this terminal.
    #[must_use]
    pub fn new(terminal: &'a Terminal) -> Self {
        StepLog { terminal, current: Mutex::new(Current::default()) }
    }

    /// Shows what happened.
    pub fn report(&self, event: StepEvent) {
        let terminal = self.terminal;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            StepEvent::Begin(say) => self.begin(&mut current, &self.text(&say)),
            StepEvent::Undoing(say) => {
                let text = self.text(&say);
                self.begin(&mut current, &terminal.text("step.undoing", &[("step", &text)]));
            }
            StepEvent::Bytes { what, done, total } => {
                if let Some(step) = &mut current.step {
                    step.bytes(what.map(|say| self.text(&say)).as_deref(), done, total);
                }
            }
            StepEvent::Note(say) => {
                let line = format!(" {} {}", terminal.styled_err(Style::Warn, "!"), self.text(&say));
                match &current.step {
                    Some(step) => step.above(&line),
                    None => terminal.progress(line),
                }
            }
            StepEvent::Done(say) => self.done(&mut current, &self.text(&say)),
            StepEvent::Already(say) => {
                let text = self.text(&say);
                self.done(&mut current, &terminal.text("step.already", &[("step", &text)]));
            }
            StepEvent::Failed => {
                if let Some(step) = current.end() {
                    step.failed(&terminal.text("step.failed", &[]));
                }
            }
            StepEvent::Undone(say) => {
                let text = self.text(&say);
                self.done(&mut current, &terminal.text("step.undone", &[("step", &text)]));
            }
            StepEvent::UndoFailed { step, reason } => {
                let text = terminal.text("step.undo-failed", &[("step", &self.text(&step)), ("reason", &reason)]);
                current.end().unwrap_or_else(|| begin(terminal, &text)).failed(&text);
            }
            StepEvent::Retained => {
                current.end();
                terminal.progress(terminal.text("step.retained", &[]));
            }
        }
    }

    fn text(&self, say: &Say) -> String {
        text(self.terminal, say)
    }

    fn begin(&self, current: &mut Current, text: &str) {
        current.end();
        current.step = Some(begin(self.terminal, text));
        if !redraws(self.terminal) && tokio::runtime::Handle::try_current().is_ok() {
            let terminal = self.terminal.clone();
            let line = format!(" {} {text} ...", terminal.item_mark());
            current.slow = Some(tokio::spawn(async move {
                tokio::time::sleep(SLOW).await;
                terminal.progress(line);
            }));
        }
    }

    fn done(&self, current: &mut Current, text: &str) {
        current.end().unwrap_or_else(|| begin(self.terminal, text)).done(text);
    }
}

/// A text of the catalogue with its placeholders filled in.
#[must_use]
pub fn text(terminal: &Terminal, say: &Say) -> String {
    let values: Vec<(&str, &dyn Display)> = say.values.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
    terminal.text(say.id, &values)
}

#[cfg(test)]
mod tests {
    use super::StepLog;
    use crate::cluster::steps::{Say, StepEvent};
    use crate::ui::terminal::{Manners, Terminal};
    use crate::ui::text::{Language, Texts};

    #[test]
    fn without_a_terminal_each_step_is_a_line() {
        let (terminal, _, err) = Terminal::in_memory(Manners::default(), Texts::new(Language::English));
        let log = StepLog::new(&terminal);
        let say = || Say::new("up.starting");
        for event in [
            StepEvent::Begin(say()),
            StepEvent::Bytes { what: None, done: 1, total: 2 },
            StepEvent::Note(Say::new("up.installed").with("objects", &3)),
            StepEvent::Done(Say::new("up.started").with("nodes", &2)),
            StepEvent::Begin(say()),
            StepEvent::Already(say()),
            StepEvent::Begin(say()),
            StepEvent::Failed,
            StepEvent::Undoing(say()),
            StepEvent::UndoFailed { step: say(), reason: "no".to_owned() },
            StepEvent::Undoing(say()),
            StepEvent::Undone(say()),
        ] {
            log.report(event);
        }
        let text = String::from_utf8(err.lock().expect("no panic").clone()).expect("UTF-8");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                " ! Installed the manifests (3 objects)",
                " [ok] Started the API server, scheduler, controllers and 2 nodes",
                " [ok] Starting the lab's process (already there)",
                " [no] Not done",
                " [no] Not undone: Starting the lab's process: no",
                " [ok] Undone: Starting the lab's process",
            ]
        );
    }
}
