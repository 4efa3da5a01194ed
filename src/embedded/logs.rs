//! What simulated containers printed: written by the node agents, read by the API's `pods/log`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

/// How many bytes of a container's log are kept, as a kubelet does (its `containerLogMaxSize`): the oldest lines go first.
const KEPT: usize = 10 << 20;

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
    /// The lines so far, without the oldest where there were very many.
    pub lines: Vec<Line>,
    /// How many lines came before these.
    pub dropped: usize,
    bytes: usize,
    /// True once the container has ended.
    pub ended: bool,
    /// What its processes have around them, for further commands in it.
    pub surroundings: Option<Arc<Surroundings>>,
}

impl ContainerLog {
    fn push(&mut self, line: Line, kept: usize) {
        self.bytes += line.text.len() + size_of::<Line>();
        self.lines.push(line);
        if self.bytes > kept {
            // Many at once, so that this is rare.
            let mut left = self.bytes;
            let count = self.lines.iter().take_while(|line| {
                let goes = left > kept / 2;
                left -= if goes { line.text.len() + size_of::<Line>() } else { 0 };
                goes
            });
            let count = count.count();
            self.lines.drain(..count);
            self.dropped += count;
            self.bytes = left;
        }
    }
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
        self.change(pod_uid, container, |log| log.push(line, KEPT));
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

#[cfg(test)]
mod tests {
    use super::{ContainerLog, Line};
    use jiff::Timestamp;

    #[test]
    fn the_oldest_lines_of_a_long_log_go() {
        let mut log = ContainerLog::default();
        for number in 0..1000_u32 {
            log.push(Line { at: Timestamp::UNIX_EPOCH, text: format!("{number:0100}") }, 20_000);
            assert!(log.bytes <= 20_000);
            assert_eq!(log.dropped + log.lines.len(), number as usize + 1);
        }
        assert!(log.lines.len() > 50);
        assert!(log.lines.last().is_some_and(|l| l.text.ends_with("0999")));
        assert!(log.lines.first().is_some_and(|l| l.text == format!("{:0100}", log.dropped)));
    }
}
