//! Commands in the background: `&`, `wait`, `kill`.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::{AbortHandle, Id, JoinSet};

use super::shell::{Io, NOT_FOUND, Shell};
use super::syntax::{Item, Script};

/// `128 + SIGTERM`, what `wait` gives when the signal cut it short.
const TERMINATED: i32 = 143;

/// Commands in the background. They end with the shell that started them.
#[derive(Default)]
pub(super) struct Jobs {
    set: JoinSet<i32>,
    numbers: HashMap<Id, u32>,
    handles: HashMap<u32, AbortHandle>,
    ended: HashMap<u32, i32>,
}

impl Shell {
    /// Starts an item of a list in the background.
    pub(super) fn spawn(&mut self, item: &Item, io: &Io) {
        let mut shell = self.subshell();
        let script = Script { items: vec![Item { background: false, ..item.clone() }] };
        let io = io.clone();
        let number = self.world.next_process();
        let handle = self.jobs.set.spawn(async move { shell.process(&script, &io).await });
        self.jobs.numbers.insert(handle.id(), number);
        self.jobs.handles.insert(number, handle);
        self.last_job = Some(number);
    }

    /// `wait`, for all jobs or one. A trapped signal cuts it short.
    pub(super) async fn wait(&mut self, number: Option<u32>) -> i32 {
        let trapped = self.is_main && self.traps.get("TERM").is_some_and(|text| !text.is_empty());
        let signals = Arc::clone(&self.world.signals);
        loop {
            if let Some(status) = number.and_then(|n| self.jobs.ended.remove(&n)) {
                return status;
            }
            if number.is_some_and(|n| !self.jobs.handles.contains_key(&n)) {
                return NOT_FOUND;
            }
            let ended = if trapped {
                tokio::select! {
                    biased;
                    () = signals.came() => return TERMINATED,
                    ended = self.jobs.set.join_next_with_id() => ended,
                }
            } else {
                self.jobs.set.join_next_with_id().await
            };
            match ended {
                None => return 0,
                Some(Ok((id, status))) => self.jobs.ended(id, status),
                Some(Err(error)) => self.jobs.ended(error.id(), TERMINATED),
            }
        }
    }

    /// `kill` of a job; false when there is no such job.
    pub(super) fn kill(&mut self, number: u32) -> bool {
        match self.jobs.handles.get(&number) {
            Some(handle) => {
                handle.abort();
                true
            }
            None => false,
        }
    }
}

impl Jobs {
    fn ended(&mut self, id: Id, status: i32) {
        if let Some(number) = self.numbers.remove(&id) {
            self.handles.remove(&number);
            self.ended.insert(number, status);
        }
    }
}
