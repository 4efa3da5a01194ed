//! The reader's end of a stream of changes, with a queue of its own: a slow reader costs memory up to a bound
//! and is then cut off, and never holds up a commit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use super::history::Change;

/// How many changes may wait for one reader.
const QUEUED: usize = 16 * 1024;

/// The store's end.
#[derive(Debug)]
pub(super) struct Subscriber {
    prefix: Arc<str>,
    from: u64,
    queue: mpsc::Sender<Arc<Change>>,
    fell_behind: Arc<AtomicBool>,
}

/// The changes of a collection from a revision on.
#[derive(Debug)]
pub struct Subscription {
    past: VecDeque<Arc<Change>>,
    queue: mpsc::Receiver<Arc<Change>>,
    fell_behind: Arc<AtomicBool>,
    seen: u64,
}

/// What a subscription yields.
#[derive(Clone, Debug)]
pub enum Next {
    /// A change.
    Change(Arc<Change>),
    /// The reader was too slow and has lost changes after this revision; it must list again.
    FellBehind(u64),
    /// The store has closed.
    Closed,
}

impl Subscriber {
    pub(super) fn new(prefix: &str, from: u64, past: VecDeque<Arc<Change>>) -> (Subscriber, Subscription) {
        let (sender, receiver) = mpsc::channel(QUEUED);
        let fell_behind = Arc::new(AtomicBool::new(false));
        let subscriber = Subscriber { prefix: prefix.into(), from, queue: sender, fell_behind: fell_behind.clone() };
        (subscriber, Subscription { past, queue: receiver, fell_behind, seen: from })
    }

    /// False when the reader has gone away.
    pub(super) fn is_open(&self) -> bool {
        !self.queue.is_closed()
    }

    /// Offers a change; false when the subscriber is to be dropped.
    pub(super) fn offer(&self, change: &Arc<Change>) -> bool {
        if change.revision <= self.from || !change.key.starts_with(&*self.prefix) {
            return self.is_open();
        }
        match self.queue.try_send(change.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.fell_behind.store(true, Ordering::Release);
                false
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

impl Subscription {
    /// The next change. Cancel-safe: a dropped call loses nothing.
    pub async fn next(&mut self) -> Next {
        let change = match self.past.pop_front() {
            Some(change) => Some(change),
            None => self.queue.recv().await,
        };
        match change {
            Some(change) => {
                self.seen = change.revision;
                Next::Change(change)
            }
            None if self.fell_behind.load(Ordering::Acquire) => Next::FellBehind(self.seen),
            None => Next::Closed,
        }
    }

    /// The next change if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<Change>> {
        let change = self.past.pop_front().or_else(|| self.queue.try_recv().ok())?;
        self.seen = change.revision;
        Some(change)
    }
}
