//! `lesson next` on a terminal: after the step is shown, a small menu stays until the learner leaves. It never goes on by itself.

use std::io;

use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::args::{Format, LessonCommand, VerifyArgs};
use crate::cli::cmd::{lesson, verify};

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Check,
    Hint,
    Again,
    GoOn,
    Leave,
}

impl Choice {
    const fn text(self) -> &'static str {
        match self {
            Choice::Check => "walk.check",
            Choice::Hint => "walk.hint",
            Choice::Again => "walk.again",
            Choice::GoOn => "walk.go-on",
            Choice::Leave => "walk.leave",
        }
    }
}

/// Whether there is somebody to walk with: both ends are terminals, and redrawing is welcome.
#[must_use]
pub fn is_welcome(app: &App) -> bool {
    app.environment.is_interactive() && app.environment.stdout_is_terminal && !app.terminal.manners.plain && !app.terminal.manners.quiet
}

/// Offers the menu until the learner leaves.
///
/// # Errors
/// When the lab goes away, or the learner interrupts.
pub async fn walk(app: &App) -> Result<u8, Failure> {
    let mut done = false;
    loop {
        let choices: &[Choice] =
            if done { &[Choice::GoOn, Choice::Again, Choice::Leave] } else { &[Choice::Check, Choice::Hint, Choice::Again, Choice::Leave] };
        match ask(app, choices)? {
            Choice::Leave => return Ok(0),
            Choice::Check => {
                let args = VerifyArgs { lesson: None, timeout: None, output: Format::Text };
                done = verify::run(app, &args).await? == 0;
            }
            Choice::Hint => {
                lesson::run(app, LessonCommand::Hint { id: None, all: false }).await?;
            }
            Choice::Again | Choice::GoOn => {
                done = false;
                lesson::run(app, LessonCommand::Next { skip: false }).await?;
            }
        }
    }
}

/// Asks; Esc leaves, Ctrl-C interrupts.
fn ask(app: &App, choices: &[Choice]) -> Result<Choice, Failure> {
    let texts: Vec<String> = choices.iter().map(|choice| app.terminal.text(choice.text(), &[])).collect();
    let prompt = app.terminal.text("walk.prompt", &[]);
    match dialoguer::Select::new().with_prompt(prompt).items(&texts).default(0).interact_opt() {
        Ok(Some(index)) => Ok(choices.get(index).copied().unwrap_or(Choice::Leave)),
        Ok(None) => Ok(Choice::Leave),
        Err(dialoguer::Error::IO(error)) if error.kind() == io::ErrorKind::Interrupted => {
            Err(Failure::new(Kind::Interrupted, "DL-INT-01", "interrupted (Ctrl-C)"))
        }
        Err(error) => Err(Failure::new(Kind::Failed, "DL-TERM-01", "the terminal cannot be asked").because(&error)),
    }
}
