//! Questions on a terminal.

use std::io;

use crate::base::failure::{Failure, Kind};

/// Lets the learner choose one of the items; `None`: Esc, nothing chosen.
///
/// # Errors
/// On Ctrl-C, and when the terminal cannot be asked.
pub fn choose(prompt: &str, items: &[String]) -> Result<Option<usize>, Failure> {
    let failed = match dialoguer::Select::new().with_prompt(prompt).items(items).default(0).interact_opt() {
        Ok(chosen) => return Ok(chosen),
        Err(dialoguer::Error::IO(error)) => error,
    };
    // The question hides the cursor and does not show it again when it is broken off.
    let restored = console::Term::stderr().show_cursor();
    if failed.kind() == io::ErrorKind::Interrupted {
        return Err(Failure::new(Kind::Interrupted, "DL-INT-01", "interrupted (Ctrl-C)"));
    }
    let failure = Failure::new(Kind::Failed, "DL-TERM-01", "the terminal cannot be asked").because(&failed);
    Err(match restored {
        Ok(()) => failure,
        Err(error) => failure.because(&error),
    })
}
