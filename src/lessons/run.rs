//! Lessons played unattended with their solutions.

use jiff::Timestamp;
use serde::Serialize;

use crate::lessons::LessonError;
use crate::lessons::actions::{self, Did};
use crate::lessons::format::Step;
use crate::lessons::journal::Entry as Transition;
use crate::lessons::progress::{LessonProgress, Progress};
use crate::lessons::session::Session;
use crate::lessons::verify::{self, Patience, Report, Verdict};

/// How a lesson ended.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Ended {
    /// Every step passed.
    Passed,
    /// A step did not.
    Failed {
        /// What verify found.
        report: Box<Report>,
    },
    /// The cluster lacks what it needs.
    Skipped {
        /// What it lacks.
        because: String,
    },
}

/// What happens meanwhile, for the terminal.
#[derive(Debug)]
pub enum Event<'e> {
    /// A step has begun.
    Step(&'e Step),
    /// An action was carried out.
    Did(&'e Did),
    /// A transition was seen.
    Transition(&'e Transition),
    /// A step was verified.
    Verified(&'e Report),
}

/// Plays a lesson: begins it anew, and for each step carries out the solution and verifies.
///
/// # Errors
/// When the server cannot be reached or refuses something that should work.
pub async fn unattended(
    session: &Session<'_>,
    progress: &mut Progress,
    now: Timestamp,
    patience: Patience,
    events: &mut (dyn FnMut(Event<'_>) + Send),
) -> Result<Ended, LessonError> {
    if let Some(lack) = session.lacks().await? {
        return Ok(Ended::Skipped { because: lack.need });
    }
    session.reset(progress, now).await?;
    for (index, step) in session.entry.lesson.steps.iter().enumerate() {
        if index > 0 {
            session.begin(step, progress, now).await?;
        }
        events(Event::Step(step));
        for action in &step.solve {
            let did = actions::perform(&session.client, &session.kinds, session.entry, "solution", &session.names, session.manager, action)
                .await?;
            events(Event::Did(&did));
        }
        let report = verify_step(session, step, progress, patience, events).await?;
        events(Event::Verified(&report));
        if report.result != Verdict::Passed {
            return Ok(Ended::Failed { report: Box::new(report) });
        }
    }
    passed(progress, &session.entry.lesson.id, now);
    Ok(Ended::Passed)
}

async fn verify_step(
    session: &Session<'_>,
    step: &Step,
    progress: &Progress,
    patience: Patience,
    events: &mut (dyn FnMut(Event<'_>) + Send),
) -> Result<Report, LessonError> {
    let since = progress.lessons.get(&session.entry.lesson.id).cloned().unwrap_or_else(LessonProgress::default);
    verify::verify(session, step, &since, patience, &mut |t| events(Event::Transition(t))).await
}

/// Records that a lesson has passed.
pub fn passed(progress: &mut Progress, lesson: &str, now: Timestamp) {
    let entry = progress.lessons.entry(lesson.to_owned()).or_default();
    entry.passed_at.get_or_insert(now);
}
