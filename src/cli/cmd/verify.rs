//! `verify`.

use std::time::Duration;

use crate::base::clock::{Clock as _, SystemClock};
use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::args::{Format, VerifyArgs};
use crate::cli::cmd::lab::lab_command;
use crate::cli::cmd::lesson::{current_step, named, open_progress, session};
use crate::lessons::library::Entry;
use crate::lessons::session::Session;
use crate::lessons::verify::{self, Patience, Verdict};
use crate::lessons::{self, Library};
use crate::ui;

/// `verify`.
///
/// # Errors
/// When the lab is not up, no lesson has begun, or the server cannot be asked.
pub async fn run(app: &App, args: &VerifyArgs) -> Result<u8, Failure> {
    let library = Library::embedded().map_err(Failure::from)?;
    // The lock is not held while verify waits: the learner may ask for a hint meanwhile.
    let progress = lessons::progress::read(&app.folder().progress()).map_err(Failure::from)?;
    let entry = named(&library, &progress, args.lesson.as_deref()).map_err(Failure::from)?;
    let Some(lesson) = progress.lessons.get(&entry.lesson.id).cloned() else {
        return Err(Failure::new(Kind::Usage, "DL-LESSON-03", format!("lesson \"{}\" has not begun", entry.lesson.id))
            .hint(format!("begin it: `{}`", lab_command(app, &format!("lesson reset {}", entry.lesson.id)))));
    };
    let session = session(app, entry).await?;
    let step = current_step(entry, &progress)?;
    let json = args.output == Format::Json;
    let patience = Patience { bound: args.timeout.map(Duration::from_secs), ..Patience::default() };
    let report = verify::verify(&session, step, &lesson, patience, &mut |_| {}).await.map_err(Failure::from)?;
    record(app, entry, &session, &report).await?;
    if json {
        let text = serde_json::to_string(&report)
            .map_err(|error| Failure::new(Kind::Failed, "DL-OUT-02", "the answer cannot be written").because(&error))?;
        app.terminal.line(text)?;
    } else {
        ui::lesson::report(&app.terminal, entry, &session.names, &report, true)?;
        if let (Some(predict), Verdict::Passed) = (&step.predict, report.result) {
            let made = lesson.predictions.get(&predict.ask);
            let id = match made {
                Some(made) if *made == predict.is => "verify.predicted-right",
                Some(_) => "verify.predicted-wrong",
                None => "verify.not-predicted",
            };
            app.terminal.line(app.terminal.text(id, &[("made", &made.cloned().unwrap_or_default()), ("is", &predict.is)]))?;
        }
        after(app, entry, &session, &report)?;
    }
    Ok(if report.result == Verdict::Passed { 0 } else { Kind::NotSatisfied.exit_code() })
}

/// Records the verdict: an attempt, the next step's begin, or that the lesson has passed.
async fn record(app: &App, entry: &Entry, session: &Session<'_>, report: &verify::Report) -> Result<(), Failure> {
    let mut file = open_progress(app)?;
    file.progress.lessons.entry(entry.lesson.id.clone()).or_default().attempts += 1;
    if report.result == Verdict::Passed {
        if report.lesson_passed {
            lessons::run::passed(&mut file.progress, &entry.lesson.id, SystemClock.now());
        } else if let Some(step) = entry.lesson.steps.get(report.step_number) {
            session.begin(step, &mut file.progress, SystemClock.now()).await.map_err(Failure::from)?;
        }
    }
    file.save().map_err(Failure::from)
}

/// The next command, and what the lesson says at its end.
fn after(app: &App, entry: &Entry, session: &Session<'_>, report: &verify::Report) -> Result<(), Failure> {
    match report.result {
        Verdict::Passed if report.lesson_passed => {
            ui::lesson::section(&app.terminal, entry, &session.names, "done")?;
            app.terminal.line(app.terminal.text("verify.lesson-passed", &[("command", &lab_command(app, "lesson next"))]))
        }
        Verdict::Passed => app.terminal.line(app.terminal.text("verify.step-passed", &[("command", &lab_command(app, "lesson next"))])),
        Verdict::NotYet => app.terminal.line(
            app.terminal.text("verify.not-yet", &[("hint", &lab_command(app, "lesson hint")), ("command", &lab_command(app, "verify"))]),
        ),
    }
}
