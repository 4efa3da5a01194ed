//! Questions on a terminal.

use std::io;

use crate::base::failure::{Failure, Kind};

/// Asks a question that is answered with yes or no; Enter and Esc are no.
///
/// # Errors
/// As [`choose`].
pub fn confirm(prompt: &str) -> Result<bool, Failure> {
    let asked = dialoguer::Confirm::new().with_prompt(prompt).default(false).interact_opt();
    asked.map(Option::unwrap_or_default).map_err(broken_off)
}

/// Lets the learner choose one of the items; `None`: Esc, nothing chosen.
///
/// # Errors
/// On Ctrl-C, and when the terminal cannot be asked.
pub fn choose(prompt: &str, items: &[String]) -> Result<Option<usize>, Failure> {
    dialoguer::Select::new().with_prompt(prompt).items(items).default(0).interact_opt().map_err(broken_off)
}

fn broken_off(error: dialoguer::Error) -> Failure {
    let dialoguer::Error::IO(failed) = error;
    // The question hides the cursor and does not show it again when it is broken off.
    let restored = console::Term::stderr().show_cursor();
    if failed.kind() == io::ErrorKind::Interrupted {
        return Failure::new(Kind::Interrupted, "DL-INT-01", "interrupted (Ctrl-C)");
    }
    let failure = Failure::new(Kind::Failed, "DL-TERM-01", "the terminal cannot be asked").because(&failed);
    match restored {
        Ok(()) => failure,
        Err(error) => failure.because(&error),
    }
}
