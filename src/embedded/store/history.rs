//! The last changes of a collection: what watches and consistent lists reach back into.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::StoreError;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It was changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// Key within the collection.
    pub key: Arc<str>,
    /// What happened.
    pub kind: ChangeKind,
    /// The object after the change; for a deletion its last state with the revision of the deletion.
    pub object: Arc<Value>,
    /// The object before the change.
    pub previous: Option<Arc<Value>>,
    /// The revision of the change.
    pub revision: u64,
}

/// Changes kept per collection. Bounds what a busy lab holds on to: a claim with its managedFields is some
/// 10 KiB in memory and two versions of it are alive per entry.
const KEPT: usize = 2048;

/// A ring of changes in the order of their revisions.
#[derive(Debug, Default)]
pub(super) struct History {
    changes: VecDeque<Arc<Change>>,
    /// Changes up to this revision have been forgotten.
    forgotten: u64,
}

impl History {
    pub(super) fn push(&mut self, change: Arc<Change>) {
        if self.changes.len() == KEPT
            && let Some(oldest) = self.changes.pop_front()
        {
            self.forgotten = oldest.revision;
        }
        self.changes.push_back(change);
    }

    /// Forgets everything up to `revision`.
    pub(super) fn forget(&mut self, revision: u64) {
        while self.changes.front().is_some_and(|change| change.revision <= revision) {
            self.changes.pop_front();
        }
        self.forgotten = self.forgotten.max(revision);
    }

    /// The changes after `revision`, oldest first.
    pub(super) fn since(&self, revision: u64) -> Result<impl DoubleEndedIterator<Item = &Arc<Change>>, StoreError> {
        if revision < self.forgotten {
            return Err(StoreError::TooOld { asked: revision, oldest: self.forgotten });
        }
        let start = self.changes.partition_point(|change| change.revision <= revision);
        Ok(self.changes.range(start..))
    }
}
