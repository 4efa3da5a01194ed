//! The simulated processes of a pod's containers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, Id, JoinSet};

use super::environment::expand;
use super::runtime::Which;
use crate::base::clock::SharedClock;
use crate::embedded::logs::{Line, Logs, Surroundings};
use crate::embedded::node::container::{Output, Process, Program, Signals};

/// How many lines of a container are kept.
const LINES: u32 = 50_000;
/// The exit code of a process that was killed.
pub(super) const KILLED: i32 = 137;

/// What runs in a pod. Everything is killed when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Processes {
    tasks: JoinSet<i32>,
    running: HashMap<Which, (Id, AbortHandle, Arc<Signals>)>,
}

/// What a container is started with.
pub(super) struct Start<'a> {
    pub(super) pod_uid: &'a str,
    pub(super) container: &'a Value,
    pub(super) hostname: &'a str,
    pub(super) environment: Vec<(String, String)>,
    /// What its log says first.
    pub(super) note: Option<&'a str>,
}

impl Processes {
    /// Starts a container's program; comes back when it waits for something for the first time, so that its traps
    /// are set and what it prints at once is in the log.
    pub(super) async fn start(&mut self, which: Which, start: Start<'_>, logs: &Logs, clock: &SharedClock) {
        let name = start.container["name"].as_str().unwrap_or_default();
        let surroundings = Surroundings { environment: start.environment.clone(), hostname: start.hostname.to_owned() };
        logs.begin(start.pod_uid, name, surroundings);
        let output = Arc::new(LogOutput {
            logs: logs.clone(),
            clock: Arc::clone(clock),
            pod_uid: start.pod_uid.to_owned(),
            container: name.to_owned(),
            lines: AtomicU32::new(0),
        });
        if let Some(note) = start.note {
            output.line(note);
        }
        let words = |value: &Value| -> Vec<String> {
            let known = |name: &str| start.environment.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(|word| expand(word, known)).collect()
        };
        let image = start.container["image"].as_str().unwrap_or_default();
        let program = Program::new(&words(&start.container["command"]), &words(&start.container["args"]), image);
        let signals = Arc::new(Signals::default());
        let settled = Arc::new(Notify::new());
        let process = Process {
            environment: start.environment,
            hostname: start.hostname.to_owned(),
            clock: Arc::clone(clock),
            signals: Arc::clone(&signals),
            output,
            settled: Arc::clone(&settled),
        };
        let handle = self.tasks.spawn(program.run(process));
        self.running.insert(which, (handle.id(), handle, signals));
        settled.notified().await;
    }

    /// The next container that ends, with its exit code; `None` when none runs. Cancel-safe.
    pub(super) async fn ended(&mut self) -> Option<(Which, i32)> {
        loop {
            let (id, code) = match self.tasks.join_next_with_id().await? {
                Ok((id, code)) => (id, code),
                Err(error) => (error.id(), KILLED),
            };
            let which = self.running.iter().find(|(_, (known, ..))| *known == id).map(|(which, _)| *which);
            if let Some(which) = which {
                self.running.remove(&which);
                return Some((which, code));
            }
        }
    }

    /// Sends SIGTERM to all.
    pub(super) fn terminate(&self) {
        self.running.values().for_each(|(_, _, signals)| signals.terminate());
    }

    /// Sends SIGKILL to all.
    pub(super) fn kill(&self) {
        self.running.values().for_each(|(_, handle, _)| handle.abort());
    }

    /// True when nothing runs.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

#[derive(Debug)]
struct LogOutput {
    logs: Logs,
    clock: SharedClock,
    pod_uid: String,
    container: String,
    lines: AtomicU32,
}

impl Output for LogOutput {
    fn line(&self, text: &str) {
        let text = match self.lines.fetch_add(1, Ordering::Relaxed) {
            LINES => "[dralab] further lines of this container are not kept",
            lines if lines > LINES => return,
            _ => text,
        };
        self.logs.append(&self.pod_uid, &self.container, Line { at: self.clock.now(), text: text.to_owned() });
    }
}
