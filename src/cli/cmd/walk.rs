//! `lesson next` on a terminal: after the step is shown, a small menu stays until the learner leaves. It never goes on by itself.

use crate::base::failure::Failure;
use crate::cli::app::App;
use crate::cli::args::{Format, LessonCommand, VerifyArgs};
use crate::cli::cmd::{lesson, verify};
use crate::ui;

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
    let chosen = ui::ask::choose(&prompt, &texts)?;
    Ok(chosen.and_then(|index| choices.get(index).copied()).unwrap_or(Choice::Leave))
}
