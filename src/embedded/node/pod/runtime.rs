//! What the agent knows of a pod's containers, and what comes next (pure; upstream: `computePodActions`, `doBackOff`).

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// The first wait before a container that ended twice is started again (`initialCrashLoopBackOff`).
const BACKOFF_FIRST: Duration = Duration::from_secs(10);
/// The longest (`MaxContainerBackOff`).
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Exit code.
    pub code: i32,
    /// `Completed`, `Error`, …
    pub reason: String,
    /// More words, if any.
    pub message: String,
    /// When it began; unknown for one that never ran.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// Its id, if it had one.
    pub id: String,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// It does not run yet, or not for the moment.
    Waiting {
        /// `ContainerCreating`, `PodInitializing`, `CrashLoopBackOff`, …
        reason: String,
        /// More words, if any.
        message: String,
    },
    /// It runs since then.
    Running(Timestamp),
    /// It has ended.
    Ended(Ended),
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: ContainerState,
    /// How it ended the last time, when it has been started again or waits for that.
    pub last: Option<Ended>,
    /// How often it was started again.
    pub restarts: u32,
    /// The id of its current or last instance.
    pub id: String,
    /// The wait that the next failure will bring, once it has failed.
    pub backoff: Option<Duration>,
    /// When a start that could not be made is tried again.
    pub retry: Option<Timestamp>,
}

impl Container {
    /// A container that has not been started.
    #[must_use]
    pub fn new(name: &str, reason: &str) -> Self {
        Container {
            name: name.to_owned(),
            state: ContainerState::Waiting { reason: reason.to_owned(), message: String::new() },
            last: None,
            restarts: 0,
            id: String::new(),
            backoff: None,
            retry: None,
        }
    }

    /// True while it runs.
    #[must_use]
    pub fn running(&self) -> bool {
        matches!(self.state, ContainerState::Running(_))
    }

    /// How its latest instance ended, if it did.
    #[must_use]
    pub fn ended(&self) -> Option<&Ended> {
        match &self.state {
            ContainerState::Ended(ended) => Some(ended),
            ContainerState::Waiting { .. } => self.last.as_ref(),
            ContainerState::Running(_) => None,
        }
    }

    /// True once an instance of it was started.
    #[must_use]
    pub fn was_started(&self) -> bool {
        !self.id.is_empty()
    }

    /// When it may be started (again): `None` at once.
    #[must_use]
    pub fn not_before(&self) -> Option<Timestamp> {
        let rested = || self.ended()?.finished?.checked_add(self.backoff?).ok();
        self.retry.max(rested())
    }

    /// Takes note that it is being started after an end: the next wait is twice as long, from 10 s to 300 s; one
    /// that has run for ten minutes begins anew.
    pub fn raise_backoff(&mut self) {
        let lasted = self.ended().and_then(|e| Some(e.finished?.duration_since(e.started?)));
        let well = lasted.is_some_and(|lasted| lasted.as_secs() >= 2 * i64::try_from(BACKOFF_MAX.as_secs()).unwrap_or(i64::MAX));
        self.backoff = Some(match self.backoff {
            Some(backoff) if !well => (backoff * 2).min(BACKOFF_MAX),
            _ => BACKOFF_FIRST,
        });
    }
}

/// The sandbox that a pod's containers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// Not made yet.
    None,
    /// It stands.
    Ready,
    /// It was taken down.
    Stopped,
}

/// A pod as the node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// When the agent first saw it.
    pub started: Timestamp,
    /// Its sandbox.
    pub sandbox: Sandbox,
    /// Its address, once its containers are started.
    pub address: Option<String>,
    /// Init containers, in order.
    pub init: Vec<Container>,
    /// Containers, in order.
    pub containers: Vec<Container>,
}

/// Which containers are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Whatever their exit code.
    Always,
    /// When it is not 0.
    OnFailure,
    /// Not at all.
    Never,
}

impl RestartPolicy {
    /// Of a pod.
    #[must_use]
    pub fn of(pod: &Value) -> Self {
        match pod["spec"]["restartPolicy"].as_str() {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        }
    }

    /// True when a container that ended so is started again.
    #[must_use]
    pub fn restarts(self, code: i32) -> bool {
        match self {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => code != 0,
            RestartPolicy::Never => false,
        }
    }
}

/// One of a pod's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Which {
    /// An init container.
    Init(usize),
    /// A container.
    Main(usize),
}

/// What the agent does next for a pod whose sandbox stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Start these.
    Start(Vec<Which>),
    /// Nothing until something ends or this time has come.
    Wait(Option<Timestamp>),
    /// All have ended and none is started again.
    Finished,
}

impl Runtime {
    /// A container.
    #[must_use]
    pub fn get(&self, which: Which) -> Option<&Container> {
        match which {
            Which::Init(index) => self.init.get(index),
            Which::Main(index) => self.containers.get(index),
        }
    }

    /// A container, to change.
    pub fn get_mut(&mut self, which: Which) -> Option<&mut Container> {
        match which {
            Which::Init(index) => self.init.get_mut(index),
            Which::Main(index) => self.containers.get_mut(index),
        }
    }

    /// All containers with their places, init containers first.
    pub fn all(&self) -> impl Iterator<Item = (Which, &Container)> {
        let init = self.init.iter().enumerate().map(|(i, c)| (Which::Init(i), c));
        init.chain(self.containers.iter().enumerate().map(|(i, c)| (Which::Main(i), c)))
    }

    /// What comes next. `sidecar` says of an init container whether it keeps running beside the others
    /// (`restartPolicy: Always` of its own).
    #[must_use]
    pub fn next(&self, policy: RestartPolicy, sidecar: impl Fn(usize) -> bool, now: Timestamp) -> Step {
        let mut start = Vec::new();
        let mut wait: Option<Timestamp> = None;
        let mut due = |which: Which, container: &Container| match container.not_before().filter(|at| *at > now) {
            Some(at) => wait = Some(wait.map_or(at, |before| before.min(at))),
            None => start.push(which),
        };
        let begun = self.containers.iter().any(Container::was_started);
        for (index, container) in self.init.iter().enumerate() {
            if sidecar(index) {
                if !container.running() {
                    due(Which::Init(index), container);
                    if !container.was_started() {
                        // The next one waits until this one was started.
                        return step(start, wait);
                    }
                }
                continue;
            }
            if begun {
                continue;
            }
            match container.ended() {
                Some(ended) if ended.code == 0 => {}
                _ if container.running() => return step(start, wait),
                // A failed init container is started again unless the pod never restarts.
                Some(_) if policy == RestartPolicy::Never => return Step::Finished,
                _ => {
                    due(Which::Init(index), container);
                    return step(start, wait);
                }
            }
        }
        let mut live = false;
        for (index, container) in self.containers.iter().enumerate() {
            match container.ended() {
                None if container.running() => live = true,
                Some(ended) if !policy.restarts(ended.code) => {}
                _ => {
                    live = true;
                    due(Which::Main(index), container);
                }
            }
        }
        if live { step(start, wait) } else { Step::Finished }
    }
}

fn step(start: Vec<Which>, wait: Option<Timestamp>) -> Step {
    if start.is_empty() { Step::Wait(wait) } else { Step::Start(start) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::{Container, ContainerState, Ended, RestartPolicy, Runtime, Sandbox, Step, Which};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).expect("a time")
    }

    fn pod(init: usize, main: usize) -> Runtime {
        let list = |count| (0..count).map(|i| Container::new(&format!("c{i}"), "ContainerCreating")).collect();
        Runtime { started: at(0), sandbox: Sandbox::Ready, address: None, init: list(init), containers: list(main) }
    }

    fn run(pod: &mut Runtime, which: Which) {
        let container = pod.get_mut(which).expect("there");
        container.id = "id".into();
        container.state = ContainerState::Running(at(0));
    }

    fn end(pod: &mut Runtime, which: Which, code: i32, second: i64) {
        let ended = Ended {
            code,
            reason: "Error".into(),
            message: String::new(),
            started: Some(at(0)),
            finished: Some(at(second)),
            id: "id".into(),
        };
        pod.get_mut(which).expect("there").state = ContainerState::Ended(ended);
    }

    #[test]
    fn init_containers_run_in_order_then_all_others() {
        let mut pod = pod(2, 2);
        let next = |pod: &Runtime| pod.next(RestartPolicy::Never, |_| false, at(1));
        for index in 0..2 {
            assert_eq!(next(&pod), Step::Start(vec![Which::Init(index)]));
            run(&mut pod, Which::Init(index));
            assert_eq!(next(&pod), Step::Wait(None));
            end(&mut pod, Which::Init(index), 0, 1);
        }
        assert_eq!(next(&pod), Step::Start(vec![Which::Main(0), Which::Main(1)]));
        run(&mut pod, Which::Main(0));
        run(&mut pod, Which::Main(1));
        end(&mut pod, Which::Main(0), 3, 1);
        assert_eq!(next(&pod), Step::Wait(None));
        end(&mut pod, Which::Main(1), 0, 1);
        assert_eq!(next(&pod), Step::Finished);
    }

    #[test]
    fn a_failed_init_container_ends_a_pod_that_never_restarts() {
        let mut pod = pod(1, 1);
        run(&mut pod, Which::Init(0));
        end(&mut pod, Which::Init(0), 1, 1);
        assert_eq!(pod.next(RestartPolicy::Never, |_| false, at(2)), Step::Finished);
        assert_eq!(pod.next(RestartPolicy::Always, |_| false, at(2)), Step::Start(vec![Which::Init(0)]));
    }

    #[test]
    fn a_sidecar_stays_and_is_started_again() {
        let mut pod = pod(1, 1);
        let next = |pod: &Runtime| pod.next(RestartPolicy::Never, |_| true, at(5));
        assert_eq!(next(&pod), Step::Start(vec![Which::Init(0)]));
        run(&mut pod, Which::Init(0));
        assert_eq!(next(&pod), Step::Start(vec![Which::Main(0)]));
        run(&mut pod, Which::Main(0));
        end(&mut pod, Which::Init(0), 1, 2);
        assert_eq!(next(&pod), Step::Start(vec![Which::Init(0)]));
        end(&mut pod, Which::Main(0), 0, 2);
        run(&mut pod, Which::Init(0));
        assert_eq!(next(&pod), Step::Finished);
    }

    #[test]
    fn the_wait_doubles() {
        let mut pod = pod(0, 1);
        let which = Which::Main(0);
        run(&mut pod, which);
        end(&mut pod, which, 0, 1);
        let mut waits = Vec::new();
        for _ in 0..7 {
            let step = pod.next(RestartPolicy::Always, |_| false, at(1));
            waits.push(match step {
                Step::Start(_) => 0,
                Step::Wait(Some(until)) => until.duration_since(at(1)).as_secs(),
                _ => -1,
            });
            pod.get_mut(which).expect("there").raise_backoff();
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300]);
        assert_eq!(pod.next(RestartPolicy::OnFailure, |_| false, at(1)), Step::Finished);
        end(&mut pod, which, 1, 700);
        pod.get_mut(which).expect("there").raise_backoff();
        assert_eq!(pod.containers[0].backoff, Some(Duration::from_secs(10)), "it ran well for long");
    }
}
