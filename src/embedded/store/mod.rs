//! JSON objects, one revision counter and the history that watches start from.
//!
//! The store knows nothing of Kubernetes' verbs: it keeps collections of keyed JSON objects, commits one change at
//! a time under an expectation about the object's revision, and tells subscribers. Reads never wait for the disk.
//!
//! Keys order as etcd's do: `namespace/name` (or `name`) compared as one string.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

mod history;
mod subscription;

use history::History;
pub use history::{Change, ChangeKind};
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
}

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
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    revision: u64,
    closed: bool,
    collections: HashMap<Arc<str>, Collection>,
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
        Store { state: Arc::new(Mutex::new(State { revision: 1, ..State::default() })) }
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
            return Ok(Snapshot { revision, items: Vec::new() });
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
        let object = Arc::new(object);
        let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        state.apply(collection, Change { key: key.into(), kind, object: object.clone(), previous, revision });
        Ok(Entry { object, revision })
    }

    /// Removes an object. Subscribers get its last state with the revision of the removal; so does the caller.
    ///
    /// # Errors
    /// [`StoreError::Expectation`]; nothing has changed then.
    pub fn remove(&self, collection: &str, key: &str, revision: u64) -> Result<Entry, StoreError> {
        let last = self.get(collection, key).ok_or(StoreError::Expectation { found: None })?;
        self.remove_as(collection, key, revision, (*last.object).clone())
    }

    /// Removes an object whose last state, as subscribers and the caller see it, is `last`.
    ///
    /// # Errors
    /// [`StoreError::Expectation`]; nothing has changed then.
    pub fn remove_as(&self, collection: &str, key: &str, revision: u64, mut last: Value) -> Result<Entry, StoreError> {
        let mut state = self.writable()?;
        let next = state.revision + 1;
        let previous = state.expected(collection, key, Expect::Revision(revision))?;
        set_revision(&mut last, next);
        let object = Arc::new(last);
        state.apply(collection, Change { key: key.into(), kind: ChangeKind::Deleted, object: object.clone(), previous, revision: next });
        Ok(Entry { object, revision: next })
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

    /// Ends all subscriptions and refuses further commits; reads go on.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for collection in state.collections.values_mut() {
            collection.subscribers.clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writable(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.lock();
        if state.closed { Err(StoreError::Closed) } else { Ok(state) }
    }
}

impl State {
    fn collection(&mut self, name: &str) -> &mut Collection {
        self.collections.entry(Arc::from(name)).or_default()
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

    fn apply(&mut self, collection: &str, change: Change) {
        self.revision = change.revision;
        let collection = self.collection(collection);
        match change.kind {
            ChangeKind::Deleted => {
                collection.objects.remove(&change.key);
            }
            ChangeKind::Added | ChangeKind::Modified => {
                collection.objects.insert(change.key.clone(), Entry { object: change.object.clone(), revision: change.revision });
            }
        }
        let change = Arc::new(change);
        collection.subscribers.retain(|subscriber| subscriber.offer(&change));
        collection.history.push(change);
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
