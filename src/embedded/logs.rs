//! What simulated containers printed: written by the node agents, read by the API's `pods/log`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

/// One printed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it was printed.
    pub at: Timestamp,
    /// The line, without its newline.
    pub text: String,
}

/// The lines of one container and whether more may come.
#[derive(Clone, Debug, Default)]
pub struct ContainerLog {
    /// All lines so far.
    pub lines: Vec<Line>,
    /// True once the container has ended.
    pub ended: bool,
    /// What its processes have around them, for further commands in it.
    pub surroundings: Option<Arc<Surroundings>>,
}

/// What the processes of a container have around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The environment, in order.
    pub environment: Vec<(String, String)>,
    /// The host name.
    pub hostname: String,
}

/// By pod uid and container name.
type ByContainer = HashMap<(String, String), watch::Sender<Arc<ContainerLog>>>;

/// The logs of all containers of a lab, by pod uid and container name.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    inner: Arc<Mutex<ByContainer>>,
}

impl Logs {
    /// Appends a line.
    pub fn append(&self, pod_uid: &str, container: &str, line: Line) {
        self.change(pod_uid, container, |log| log.lines.push(line));
    }

    /// A new instance of the container starts: its log begins anew.
    pub fn begin(&self, pod_uid: &str, container: &str, surroundings: Surroundings) {
        self.change(pod_uid, container, |log| {
            *log = ContainerLog { surroundings: Some(Arc::new(surroundings)), ..ContainerLog::default() }
        });
    }

    /// Says that the container has ended.
    pub fn end(&self, pod_uid: &str, container: &str) {
        self.change(pod_uid, container, |log| log.ended = true);
    }

    /// Forgets the logs of a pod that is gone.
    pub fn forget(&self, pod_uid: &str) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).retain(|(uid, _), _| uid != pod_uid);
    }

    /// The log of a container and its changes; `None` when it never started.
    #[must_use]
    pub fn follow(&self, pod_uid: &str, container: &str) -> Option<watch::Receiver<Arc<ContainerLog>>> {
        let logs = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        logs.get(&(pod_uid.to_owned(), container.to_owned())).map(watch::Sender::subscribe)
    }

    fn change(&self, pod_uid: &str, container: &str, change: impl FnOnce(&mut ContainerLog)) {
        let mut logs = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let log =
            logs.entry((pod_uid.to_owned(), container.to_owned())).or_insert_with(|| watch::channel(Arc::new(ContainerLog::default())).0);
        log.send_modify(|log| change(Arc::make_mut(log)));
    }
}
