//! What all shells of one container share: the clock, the log, files, signals.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::shell::Sink;
use crate::base::clock::SharedClock;

/// Commands in a row without any waiting, after which a script is slowed down: a busy loop in a lab pod must not
/// take a core of the learner's machine.
const BUSY: u32 = 2000;
/// How long each further command of a busy script waits.
const PAUSE: Duration = Duration::from_millis(5);
/// How many bytes the files of a container may hold together; a pipe and a line, each.
const FILES: usize = 1 << 20;

/// Takes the lines that a container prints.
pub trait Output: Send + Sync + std::fmt::Debug {
    /// One line, without its newline.
    fn line(&self, text: &str);
}

/// SIGTERM on its way to process 1.
#[derive(Debug, Default)]
pub struct Signals {
    pending: AtomicBool,
    wake: Notify,
}

impl Signals {
    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.pending.store(true, Ordering::SeqCst);
        self.wake.notify_waiters();
    }

    /// True once per signal.
    pub(super) fn take(&self) -> bool {
        self.pending.swap(false, Ordering::SeqCst)
    }

    /// Waits until a signal is there; does not take it.
    pub(super) async fn came(&self) {
        loop {
            let wake = self.wake.notified();
            tokio::pin!(wake);
            wake.as_mut().enable();
            if self.pending.load(Ordering::SeqCst) {
                return;
            }
            wake.await;
        }
    }
}

/// The surroundings of a container's processes.
#[derive(Debug)]
pub(super) struct World {
    pub(super) clock: SharedClock,
    pub(super) hostname: String,
    pub(super) signals: Arc<Signals>,
    output: Arc<dyn Output>,
    /// What was printed to the log since the last newline.
    partial: Mutex<String>,
    files: Mutex<BTreeMap<String, String>>,
    processes: AtomicU32,
    busy: AtomicU32,
    explained: AtomicBool,
    /// Told when the container first waits for something or ends.
    settled: Arc<Notify>,
}

impl World {
    pub(super) fn new(clock: SharedClock, hostname: String, signals: Arc<Signals>, output: Arc<dyn Output>, settled: Arc<Notify>) -> Self {
        World {
            clock,
            hostname,
            signals,
            output,
            partial: Mutex::default(),
            files: Mutex::default(),
            processes: AtomicU32::new(6),
            busy: AtomicU32::new(0),
            explained: AtomicBool::new(false),
            settled,
        }
    }

    /// Prints to a descriptor.
    pub(super) fn print(&self, sink: &Sink, text: &str) {
        match sink {
            Sink::Null => {}
            Sink::Buffer(buffer) => {
                let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
                if buffer.len() + text.len() <= FILES {
                    buffer.push_str(text);
                }
            }
            Sink::File(name) => {
                let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
                if files.values().map(String::len).sum::<usize>() + text.len() <= FILES {
                    files.entry(name.clone()).or_default().push_str(text);
                }
            }
            Sink::Log => {
                let mut partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
                partial.push_str(text);
                while let Some(end) = partial.find('\n') {
                    let line: String = partial.drain(..=end).collect();
                    self.output.line(line.trim_end_matches('\n'));
                }
                if partial.len() > FILES {
                    self.output.line(&std::mem::take(&mut *partial));
                }
            }
        }
    }

    /// Prints what has no newline yet; for the end of the container.
    pub(super) fn finish(&self) {
        self.settled.notify_one();
        let rest = std::mem::take(&mut *self.partial.lock().unwrap_or_else(PoisonError::into_inner));
        if !rest.is_empty() {
            self.output.line(&rest);
        }
    }

    /// Says once per container that commands are simulated.
    pub(super) fn explain(&self, command: &str) {
        if !self.explained.swap(true, Ordering::SeqCst) {
            self.output.line(&format!(
                "[dralab] this container is simulated: it knows the shell and a few commands, `{command}` is not one of them"
            ));
        }
    }

    /// The text of a file; `None` when it is not there.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        match name {
            "/dev/null" => Some(String::new()),
            "/etc/hostname" => Some(format!("{}\n", self.hostname)),
            _ => self.files.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned(),
        }
    }

    /// Opens a file for writing.
    pub(super) fn open(&self, name: &str, append: bool) -> Sink {
        match name {
            "/dev/null" => Sink::Null,
            "/dev/stdout" | "/dev/stderr" | "/proc/1/fd/1" | "/proc/1/fd/2" => Sink::Log,
            _ => {
                let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
                let file = files.entry(name.to_owned()).or_default();
                if !append {
                    file.clear();
                }
                Sink::File(name.to_owned())
            }
        }
    }

    /// Removes a file; false when it is not there.
    pub(super) fn remove(&self, name: &str) -> bool {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(name).is_some()
    }

    /// The names of the files, in order.
    pub(super) fn names(&self) -> Vec<String> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// The number of a new process.
    pub(super) fn next_process(&self) -> u32 {
        self.processes.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Called for every command: lets others run, and slows a busy script down.
    pub(super) async fn breathe(&self) {
        let busy = self.busy.fetch_add(1, Ordering::Relaxed);
        if busy >= BUSY {
            self.settled.notify_one();
            self.clock.sleep(PAUSE).await;
        } else if busy % 64 == 63 {
            tokio::task::yield_now().await;
        }
    }

    /// The script waited of its own accord.
    pub(super) fn slept(&self) {
        self.settled.notify_one();
        self.busy.store(0, Ordering::Relaxed);
    }
}
