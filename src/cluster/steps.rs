//! Bringing a lab up as a list of steps: each looks first, acts only if it must, and can be undone.

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::base::failure::Chain;
use crate::cluster::ClusterError;

/// Something to say to the user: the id of a text in the catalogue (`assets/text/`) and what goes into its placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Say {
    /// The text's id.
    pub id: &'static str,
    /// Placeholders and their values.
    pub values: Vec<(&'static str, String)>,
}

impl Say {
    /// A text without placeholders.
    #[must_use]
    pub fn new(id: &'static str) -> Self {
        Say { id, values: Vec::new() }
    }

    /// Fills a placeholder.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &(impl ToString + ?Sized)) -> Self {
        self.values.push((name, value.to_string()));
        self
    }
}

/// What a step found when it looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing to do; this says what is there already.
    Done(Say),
    /// There is something to do.
    ToDo,
}

/// One step. `C` is what the steps of a backend share and hand on to each other.
pub trait Step<C: Send>: Send + Sync {
    /// What it will do: shown while it runs, and by `--dry-run`.
    fn describe(&self, context: &C) -> Say;

    /// Looks whether there is anything to do. Changes nothing outside.
    fn check<'a>(&'a self, context: &'a mut C) -> BoxFuture<'a, Result<Found, ClusterError>>;

    /// Does it, and says what was done. May be dropped half-way (Ctrl-C); [`Step::undo`] is called then.
    fn apply<'a>(&'a self, context: &'a mut C, report: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>>;

    /// Whether there is anything to take back of it; what there is not is not spoken of.
    fn can_undo(&self, context: &C) -> bool {
        let _ = context;
        true
    }

    /// Takes back what [`Step::apply`] made in this run, also when it was dropped half-way. What was there before stays.
    fn undo<'a>(&'a self, context: &'a mut C) -> BoxFuture<'a, Result<(), ClusterError>> {
        let _ = context;
        Box::pin(async { Ok(()) })
    }
}

/// What happens meanwhile, for the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepEvent {
    /// A step begins.
    Begin(Say),
    /// It goes on: so many bytes of so many (0: unknown).
    Bytes {
        /// What is being moved; `None` keeps the step's own text.
        what: Option<Say>,
        /// So far.
        done: u64,
        /// In all, where it is known.
        total: u64,
    },
    /// It has something to tell that outlives it, such as a warning.
    Note(Say),
    /// It is done.
    Done(Say),
    /// There was nothing to do.
    Already(Say),
    /// It failed, or was interrupted.
    Failed,
    /// What was made is being taken back: this step's part.
    Undoing(Say),
    /// It has been taken back.
    Undone(Say),
    /// A part could not be taken back.
    UndoFailed {
        /// Whose part.
        step: Say,
        /// Why.
        reason: String,
    },
    /// What was made is left as it is (`--retain`).
    Retained,
}

/// Where a step reports to.
pub type Reporter<'a> = &'a (dyn Fn(StepEvent) + Sync);

/// How a list of steps came to its end when it did not come through.
#[derive(Debug)]
pub enum Stopped {
    /// A step failed.
    Failed(ClusterError),
    /// The token was cancelled.
    Interrupted,
}

/// Runs the steps in order. When one fails or `cancel` is cancelled, what was made is undone in reverse, unless `retain`.
///
/// # Errors
/// Why it did not come through.
pub async fn run<C: Send>(
    steps: &[Box<dyn Step<C>>],
    context: &mut C,
    retain: bool,
    cancel: &CancellationToken,
    report: Reporter<'_>,
) -> Result<(), Stopped> {
    let mut made = Vec::new();
    let mut stopped = None;
    for step in steps {
        match one(step.as_ref(), context, cancel, report).await {
            Ok(true) => made.push(step),
            Ok(false) => {}
            Err((why, begun)) => {
                report(StepEvent::Failed);
                if begun {
                    made.push(step);
                }
                stopped = Some(why);
                break;
            }
        }
    }
    let Some(why) = stopped else { return Ok(()) };
    if retain {
        report(StepEvent::Retained);
        return Err(why);
    }
    for step in made.into_iter().rev() {
        if !step.can_undo(context) {
            continue;
        }
        report(StepEvent::Undoing(step.describe(context)));
        match step.undo(context).await {
            Ok(()) => report(StepEvent::Undone(step.describe(context))),
            Err(error) => report(StepEvent::UndoFailed { step: step.describe(context), reason: Chain(&error).to_string() }),
        }
    }
    Err(why)
}

/// Runs one step; says whether it did anything. An error says whether it had begun to.
async fn one<C: Send>(
    step: &dyn Step<C>,
    context: &mut C,
    cancel: &CancellationToken,
    report: Reporter<'_>,
) -> Result<bool, (Stopped, bool)> {
    report(StepEvent::Begin(step.describe(context)));
    let found = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err((Stopped::Interrupted, false)),
        found = step.check(context) => found.map_err(|error| (Stopped::Failed(error), false))?,
    };
    if let Found::Done(said) = found {
        report(StepEvent::Already(said));
        return Ok(false);
    }
    let said = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err((Stopped::Interrupted, true)),
        said = step.apply(context, report) => said.map_err(|error| (Stopped::Failed(error), true))?,
    };
    report(StepEvent::Done(said));
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::future::BoxFuture;
    use tokio_util::sync::CancellationToken;

    use super::{Found, Reporter, Say, Step, StepEvent, Stopped, run};
    use crate::cluster::ClusterError;

    #[derive(Clone, Copy)]
    enum Does {
        Nothing,
        Something,
        Fails,
        Hangs,
    }

    struct Numbered(&'static str, Does);

    impl Step<Vec<String>> for Numbered {
        fn describe(&self, _: &Vec<String>) -> Say {
            Say::new(self.0)
        }

        fn check<'a>(&'a self, _: &'a mut Vec<String>) -> BoxFuture<'a, Result<Found, ClusterError>> {
            let found = if matches!(self.1, Does::Nothing) { Found::Done(Say::new(self.0)) } else { Found::ToDo };
            Box::pin(async { Ok(found) })
        }

        fn apply<'a>(&'a self, context: &'a mut Vec<String>, _: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
            Box::pin(async move {
                context.push(format!("do {}", self.0));
                match self.1 {
                    Does::Fails => Err(ClusterError::NoHome),
                    Does::Hangs => std::future::pending().await,
                    Does::Nothing | Does::Something => Ok(Say::new(self.0)),
                }
            })
        }

        fn undo<'a>(&'a self, context: &'a mut Vec<String>) -> BoxFuture<'a, Result<(), ClusterError>> {
            Box::pin(async move {
                context.push(format!("undo {}", self.0));
                Ok(())
            })
        }
    }

    async fn play(last: Does, retain: bool) -> (Vec<String>, Option<Stopped>) {
        let steps: Vec<Box<dyn Step<Vec<String>>>> =
            vec![Box::new(Numbered("a", Does::Something)), Box::new(Numbered("b", Does::Nothing)), Box::new(Numbered("c", last))];
        let cancel = CancellationToken::new();
        let seen = Mutex::new(0);
        let report = |event: StepEvent| {
            if matches!(event, StepEvent::Begin(say) if say.id == "c") && matches!(last, Does::Hangs) {
                *seen.lock().expect("no panic") += 1;
            }
        };
        let mut log = Vec::new();
        let later = cancel.clone();
        let hangs = matches!(last, Does::Hangs);
        let interrupt = tokio::spawn(async move {
            if hangs {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                later.cancel();
            }
        });
        let end = run(&steps, &mut log, retain, &cancel, &report).await.err();
        interrupt.await.expect("it ends");
        (log, end)
    }

    #[tokio::test]
    async fn what_was_made_is_undone_in_reverse_and_nothing_else() {
        assert_eq!(play(Does::Something, false).await.0, ["do a", "do c"]);
        let (log, end) = play(Does::Fails, false).await;
        assert_eq!(log, ["do a", "do c", "undo c", "undo a"]);
        assert!(matches!(end, Some(Stopped::Failed(_))));
        let (log, end) = play(Does::Hangs, false).await;
        assert_eq!(log, ["do a", "do c", "undo c", "undo a"]);
        assert!(matches!(end, Some(Stopped::Interrupted)));
        assert_eq!(play(Does::Fails, true).await.0, ["do a", "do c"]);
    }
}
