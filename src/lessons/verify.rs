//! Verify: looks at the objects as they are, waits (bounded) for what is still on its way, and says exactly what is not yet right.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::lessons::LessonError;
use crate::lessons::check::{self, Outcome};
use crate::lessons::diagnose::{self, Quote};
use crate::lessons::format::Step;
use crate::lessons::journal::{Entry as Transition, Journal};
use crate::lessons::progress::LessonProgress;
use crate::lessons::session::Session;
use crate::lessons::transit;
use crate::lessons::view::{self, Objects, View};
use crate::timeline::state;

/// How long verify waits.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The bound of the whole wait; `None` takes the step's own.
    pub bound: Option<Duration>,
    /// After how long without any change a step that is not satisfied counts as settled.
    pub settled: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { bound: None, settled: Duration::from_millis(1500) }
    }
}

/// How long the watch history may take to arrive after the lists.
const HISTORY: Duration = Duration::from_millis(60);

/// How long the scheduler may take to try a pod again after its claim was created: its longest back-off, and a little.
const JUDGEMENT: Duration = Duration::from_secs(12);

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The step is done.
    Passed,
    /// Not yet.
    NotYet,
}

/// What verify found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `dralab/v1`.
    pub api_version: &'static str,
    /// `VerifyResult`.
    pub kind: &'static str,
    /// The lesson's id.
    pub lesson: String,
    /// The step's id.
    pub step: String,
    /// Its place, from 1.
    pub step_number: usize,
    /// How many steps the lesson has.
    pub steps: usize,
    /// The verdict on the step.
    pub result: Verdict,
    /// The whole lesson has passed.
    pub lesson_passed: bool,
    /// Expected states and conditions.
    pub checks: Vec<Outcome>,
    /// What happened since the step began.
    pub transitions: Vec<Transition>,
    /// False: what happened before the server's history began was not observed.
    pub history_complete: bool,
    /// What Kubernetes says about pods that do not run.
    pub kubernetes: Vec<Quote>,
    /// The check that is not right and has a computed diagnosis, and the id of the prose that answers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    /// How long verify waited.
    pub waited_ms: u64,
}

/// A computed diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The check.
    pub check: String,
    /// The prose: `say ID`.
    pub say: String,
}

/// Checks a step, with patience for what is on its way.
/// `live` gets each transition as it is seen.
///
/// # Errors
/// When the server cannot be reached or refuses.
pub async fn verify(
    session: &Session<'_>,
    step: &Step,
    progress: &LessonProgress,
    patience: Patience,
    live: &mut dyn FnMut(&Transition),
) -> Result<Report, LessonError> {
    let started = Instant::now();
    let own = step.expect.iter().map(|e| e.within).max().unwrap_or(10);
    let deadline = started + patience.bound.unwrap_or(Duration::from_secs(own));
    let mut view = view::open(&session.client, &session.kinds, session.names.namespace(), &session.extra_kinds(), &progress.since).await?;
    let mut journal = Journal::new(&progress.baseline);
    // Nothing is known of what was there before; what is there now is the beginning.
    if !view.complete && progress.since.is_empty() {
        journal = Journal::new(&view.objects.iter().map(|(key, object)| (key.clone(), state::of(object))).collect());
    }
    let mut last_change = Instant::now();
    let mut live_change = false;
    let outcomes = loop {
        let outcomes = evaluate(session, step, &view.objects);
        let satisfied = outcomes.iter().all(|o| o.passed);
        let now = Instant::now();
        let quiet = if satisfied {
            if live_change { Duration::from_millis(5) } else { HISTORY }
        } else if transit::moves(&view.objects) {
            deadline.saturating_duration_since(now)
        } else if transit::unjudged(&view.objects) {
            patience.settled.max(JUDGEMENT)
        } else {
            patience.settled
        };
        let until = if satisfied { last_change + quiet } else { deadline.min(last_change + quiet) };
        match tokio::time::timeout_at(until, view.next()).await {
            Ok(Some(change)) => {
                let seen = change?;
                live_change = seen.revision > view.listed;
                last_change = Instant::now();
                if let Some(transition) = journal.record(&seen) {
                    live(transition);
                }
            }
            Ok(None) => reopen(session, &mut view).await?,
            Err(_) => break outcomes,
        }
    };
    journal.complete(&view.objects);
    let passed = outcomes.iter().all(|o| o.passed);
    let diagnosis = step.checks.iter().zip(outcomes.iter().skip(step.expect.len())).filter(|(_, o)| !o.passed).find_map(|(c, _)| {
        check::diagnose(c, &session.names, &view.objects).map(|say| Diagnosis { check: c.id.clone(), say: say.to_owned() })
    });
    let (index, _) = session.entry.lesson.step(&step.id).unwrap_or((0, step));
    let steps = session.entry.lesson.steps.len();
    Ok(Report {
        api_version: "dralab/v1",
        kind: "VerifyResult",
        lesson: session.entry.lesson.id.clone(),
        step: step.id.clone(),
        step_number: index + 1,
        steps,
        result: if passed { Verdict::Passed } else { Verdict::NotYet },
        lesson_passed: passed && index + 1 == steps,
        checks: outcomes,
        transitions: journal.entries(),
        history_complete: view.complete,
        kubernetes: if passed { Vec::new() } else { diagnose::quotes(&view.objects) },
        diagnosis: if passed { None } else { diagnosis },
        waited_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

fn evaluate(session: &Session<'_>, step: &Step, objects: &Objects) -> Vec<Outcome> {
    let states = step.expect.iter().map(|e| check::reached(e, &session.names, objects));
    states.chain(step.checks.iter().map(|c| check::evaluate(c, &session.names, objects))).collect()
}

/// The server ends watches after a while; begin again from what is there.
async fn reopen(session: &Session<'_>, view: &mut View) -> Result<(), LessonError> {
    let listed = view.listed;
    *view = view::open(&session.client, &session.kinds, session.names.namespace(), &session.extra_kinds(), &listed.to_string()).await?;
    Ok(())
}
