//! Steps of a longer command on stderr: a spinner on a terminal, one line each otherwise.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::ui::terminal::{Style, Terminal};

/// A step that has begun. Ends with [`Step::done`] or [`Step::failed`]; dropped without either, it vanishes.
#[derive(Debug)]
pub struct Step {
    terminal: Terminal,
    bar: Option<ProgressBar>,
}

/// Begins a step.
#[must_use]
pub fn begin(terminal: &Terminal, text: &str) -> Step {
    let redraw = terminal.manners.redraw && !terminal.manners.plain && !terminal.manners.quiet;
    let bar = redraw.then(|| {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template(" {spinner} {msg}") {
            bar.set_style(style);
        }
        bar.set_message(text.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    });
    Step { terminal: terminal.clone(), bar }
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
