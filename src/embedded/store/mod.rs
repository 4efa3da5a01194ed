//! JSON objects, one revision counter and the history that watches start from.
//!
//! The store knows nothing of Kubernetes' verbs: it keeps collections of keyed JSON objects, commits one change at
//! a time under an expectation about the object's revision, and tells subscribers. Reads never wait for the disk.
//!
//! Keys order as etcd's do: `namespace/name` (or `name`) compared as one string.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

mod history;
pub mod journal;
mod subscription;

use history::History;
pub use history::{Change, ChangeKind};
use journal::{Content, Journal, Keeper};
pub use journal::{OpenError, Recovery};
use subscription::Subscriber;
pub use subscription::{Next, Subscription};

/// Why the store refused a commit or a read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The expectation about the object's revision does not hold.
    #[error("the object is at revision {found:?}")]
    Expectation {
        /// The revision of the object now, `None` when there is none.
        found: Option<u64>,
    },
    /// The revision has left the history.
    #[error("revision {asked} is older than the history, which begins after {oldest}")]
    TooOld {
        /// The revision that was asked for.
        asked: u64,
        /// The oldest one that can be asked for.
        oldest: u64,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
    /// The journal could not be written; nothing has changed, and a later commit may succeed again.
    #[error("the lab's journal cannot be written: {0}")]
    Write(std::io::Error),
}

/// The revision of an empty store. Not 1: whoever asks for what was at revision 1 is told that it is too old, as by
/// any cluster that has lived for a while.
pub(crate) const FIRST: u64 = 1000;

/// What a commit expects of the object it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// That there is none.
    Absent,
    /// That it is at this revision.
    Revision(u64),
}

/// An object and the revision of its last change.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The object, `metadata.resourceVersion` included.
    pub object: Arc<Value>,
    /// The revision of its last change.
    pub revision: u64,
    /// Size of its record in the journal; 0 in memory.
    size: u64,
}

impl Entry {
    /// The same revision with another object: what a dry run would have stored.
    #[must_use]
    pub fn with(&self, object: Value) -> Self {
        Entry { object: Arc::new(object), ..self.clone() }
    }
}

/// The objects of a collection below a prefix, as they were at one revision.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The revision.
    pub revision: u64,
    /// Keys and objects, in key order.
    pub items: Vec<(Arc<str>, Arc<Value>)>,
}

/// The store. Cheap to clone; all clones are one store.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
    keeper: Arc<Mutex<Option<Keeper>>>,
    recovery: Option<Recovery>,
}

/// What the store and the journal's thread share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Tells the thread of the first commit after a sync, and of the end.
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    revision: u64,
    closed: bool,
    /// The journal's thread is to end.
    stopping: bool,
    /// The history begins after this revision.
    base: u64,
    collections: HashMap<Arc<str>, Collection>,
    journal: Option<Journal>,
    /// What the live objects' records take in the journal.
    live_bytes: u64,
}

#[derive(Debug, Default)]
struct Collection {
    objects: BTreeMap<Arc<str>, Entry>,
    history: History,
    subscribers: Vec<Subscriber>,
}

impl Store {
    /// A store that lives and dies with the process.
    #[must_use]
    pub fn in_memory() -> Self {
        let state = State { revision: FIRST, base: FIRST, ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new() });
        Store { shared, keeper: Arc::default(), recovery: None }
    }

    /// The store in a folder, made if there is none: all that was acknowledged, and the changes since the journal
    /// was last written afresh, so that watches can go on from before.
    ///
    /// # Errors
    /// [`OpenError`]; the files are as they were.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let opened = journal::open(dir)?;
        let mut state = State { revision: opened.base, base: opened.base, ..State::default() };
        for (content, size) in opened.content {
            state.replay(content, size);
        }
        state.journal = Some(opened.journal);
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new() });
        let keeper = Keeper::start(&shared).map_err(|source| OpenError::Io {
            what: "start the thread that keeps",
            file: dir.join(journal::FILE),
            source,
        })?;
        Ok(Store { shared, keeper: Arc::new(Mutex::new(Some(keeper))), recovery: opened.recovery })
    }

    /// What [`Store::open`] had to cut off: a write that the end of the process or a power cut left unfinished.
    #[must_use]
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// The revision of the latest change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// One object.
    #[must_use]
    pub fn get(&self, collection: &str, key: &str) -> Option<Entry> {
        self.lock().collections.get(collection)?.objects.get(key).cloned()
    }

    /// The objects whose key begins with `prefix`, now.
    #[must_use]
    pub fn list(&self, collection: &str, prefix: &str) -> Snapshot {
        let state = self.lock();
        let items = state.collections.get(collection).map_or_else(Vec::new, |collection| {
            below(&collection.objects, prefix).map(|(key, entry)| (key.clone(), entry.object.clone())).collect()
        });
        Snapshot { revision: state.revision, items }
    }

    /// The objects whose key begins with `prefix`, as they were at `revision`, by undoing the history since.
    ///
    /// # Errors
    /// [`StoreError::TooOld`] when the history does not reach back that far.
    pub fn list_at(&self, collection: &str, prefix: &str, revision: u64) -> Result<Snapshot, StoreError> {
        let state = self.lock();
        let Some(collection) = state.collections.get(collection) else {
            return if revision < state.base {
                Err(StoreError::TooOld { asked: revision, oldest: state.base })
            } else {
                Ok(Snapshot { revision, items: Vec::new() })
            };
        };
        let mut objects: BTreeMap<Arc<str>, Arc<Value>> =
            below(&collection.objects, prefix).map(|(key, entry)| (key.clone(), entry.object.clone())).collect();
        for change in collection.history.since(revision)?.rev().filter(|change| change.key.starts_with(prefix)) {
            match &change.previous {
                Some(previous) => objects.insert(change.key.clone(), previous.clone()),
                None => objects.remove(&change.key),
            };
        }
        Ok(Snapshot { revision, items: objects.into_iter().collect() })
    }

    /// Stores an object under the next revision, which is also written into its `metadata.resourceVersion`.
    ///
    /// # Errors
    /// [`StoreError::Expectation`]; nothing has changed then.
    pub fn put(&self, collection: &str, key: &str, expect: Expect, mut object: Value) -> Result<Entry, StoreError> {
        let mut state = self.writable()?;
        let revision = state.revision + 1;
        let previous = state.expected(collection, key, expect)?;
        set_revision(&mut object, revision);
        let size = self.record(&mut state, |journal| journal.put(collection, key, revision, &object))?;
        let object = Arc::new(object);
        let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        state.apply(collection, Change { key: key.into(), kind, object: object.clone(), previous, revision }, size);
        Ok(Entry { object, revision, size })
    }

    /// Removes an object. Subscribers get its last state with the revision of the removal; so does the caller.
    ///
    /// # Errors
    /// [`StoreError::Expectation`]; nothing has changed then.
    pub fn remove(&self, collection: &str, key: &str, revision: u64) -> Result<Entry, StoreError> {
        let mut state = self.writable()?;
        let next = state.revision + 1;
        let previous = state.expected(collection, key, Expect::Revision(revision))?;
        let mut last = previous.as_deref().cloned().unwrap_or_default();
        set_revision(&mut last, next);
        self.record(&mut state, |journal| journal.delete(collection, key, next))?;
        let object = Arc::new(last);
        let change = Change { key: key.into(), kind: ChangeKind::Deleted, object: object.clone(), previous, revision: next };
        state.apply(collection, change, 0);
        Ok(Entry { object, revision: next, size: 0 })
    }

    /// The changes after `from` to objects whose key begins with `prefix`: those in the history first, then those to come.
    ///
    /// # Errors
    /// [`StoreError::TooOld`] when the history does not reach back that far.
    pub fn subscribe(&self, collection: &str, prefix: &str, from: u64) -> Result<Subscription, StoreError> {
        let mut state = self.writable()?;
        let collection = state.collection(collection);
        let past = collection.history.since(from)?.filter(|change| change.key.starts_with(prefix)).cloned().collect();
        let (subscriber, subscription) = Subscriber::new(prefix, from, past);
        collection.subscribers.retain(Subscriber::is_open);
        collection.subscribers.push(subscriber);
        Ok(subscription)
    }

    /// The objects below `prefix` now, and the changes from then on: nothing falls between the two.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub fn list_and_subscribe(&self, collection: &str, prefix: &str) -> Result<(Snapshot, Subscription), StoreError> {
        let snapshot = self.list(collection, prefix);
        let subscription = self.subscribe(collection, prefix, snapshot.revision)?;
        Ok((snapshot, subscription))
    }

    /// Ends all subscriptions, refuses further commits and syncs what was committed; reads go on. The folder stays
    /// locked until the last clone of the store is gone.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for collection in state.collections.values_mut() {
            collection.subscribers.clear();
        }
        drop(state);
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(keeper);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Writes a record, where there is a journal; tells the thread of the first one after a sync.
    fn record(&self, state: &mut State, write: impl FnOnce(&mut Journal) -> std::io::Result<u64>) -> Result<u64, StoreError> {
        let Some(journal) = state.journal.as_mut() else { return Ok(0) };
        let was_dirty = journal.is_dirty();
        let size = write(journal).map_err(StoreError::Write)?;
        if !was_dirty {
            self.shared.wake.notify_all();
        }
        Ok(size)
    }

    fn writable(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.lock();
        if state.closed { Err(StoreError::Closed) } else { Ok(state) }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn collection(&mut self, name: &str) -> &mut Collection {
        if !self.collections.contains_key(name) {
            let mut collection = Collection::default();
            collection.history.forget(self.base);
            self.collections.insert(Arc::from(name), collection);
        }
        self.collections.entry(Arc::from(name)).or_default()
    }

    /// All objects with their collections and keys.
    fn live(&self) -> Vec<(Arc<str>, Arc<str>, Entry)> {
        let all = self.collections.iter();
        all.flat_map(|(name, collection)| collection.objects.iter().map(|(key, entry)| (name.clone(), key.clone(), entry.clone())))
            .collect()
    }

    /// Takes over a record of the journal.
    fn replay(&mut self, content: Content, size: u64) {
        match content {
            Content::Kept(entry) => {
                self.live_bytes += size;
                let kept = Entry { object: Arc::new(entry.object), revision: entry.revision, size };
                self.collection(&entry.collection).objects.insert(entry.key.into(), kept);
            }
            Content::Put(entry) => {
                let previous = self.object(&entry.collection, &entry.key);
                let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
                let object = Arc::new(entry.object);
                self.apply(&entry.collection, Change { key: entry.key.into(), kind, object, previous, revision: entry.revision }, size);
            }
            Content::Delete(entry) => {
                let previous = self.object(&entry.collection, &entry.key);
                let mut last = previous.as_deref().cloned().unwrap_or_default();
                set_revision(&mut last, entry.revision);
                let (kind, object) = (ChangeKind::Deleted, Arc::new(last));
                self.apply(&entry.collection, Change { key: entry.key.into(), kind, object, previous, revision: entry.revision }, 0);
            }
        }
    }

    fn object(&self, collection: &str, key: &str) -> Option<Arc<Value>> {
        Some(self.collections.get(collection)?.objects.get(key)?.object.clone())
    }

    /// The object now, if the expectation holds.
    fn expected(&self, collection: &str, key: &str, expect: Expect) -> Result<Option<Arc<Value>>, StoreError> {
        let entry = self.collections.get(collection).and_then(|collection| collection.objects.get(key));
        let found = entry.map(|entry| entry.revision);
        let wanted = match expect {
            Expect::Absent => None,
            Expect::Revision(revision) => Some(revision),
        };
        if found == wanted { Ok(entry.map(|entry| entry.object.clone())) } else { Err(StoreError::Expectation { found }) }
    }

    fn apply(&mut self, collection: &str, change: Change, size: u64) {
        self.revision = change.revision;
        let collection = self.collection(collection);
        let before = match change.kind {
            ChangeKind::Deleted => collection.objects.remove(&change.key),
            ChangeKind::Added | ChangeKind::Modified => {
                let entry = Entry { object: change.object.clone(), revision: change.revision, size };
                collection.objects.insert(change.key.clone(), entry)
            }
        };
        let live = before.map_or(0, |entry| entry.size);
        let change = Arc::new(change);
        collection.subscribers.retain(|subscriber| subscriber.offer(&change));
        collection.history.push(change);
        self.live_bytes = (self.live_bytes + size).saturating_sub(live);
    }
}

fn set_revision(object: &mut Value, revision: u64) {
    object["metadata"]["resourceVersion"] = Value::String(revision.to_string());
}

fn below<'a>(objects: &'a BTreeMap<Arc<str>, Entry>, prefix: &'a str) -> impl Iterator<Item = (&'a Arc<str>, &'a Entry)> {
    objects
        .range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded))
        .take_while(move |(key, _)| key.starts_with(prefix))
}

#[cfg(test)]
mod tests;
