//! The verbs of the API in process: admission, patches, watch. HTTP routing and the controllers use the same calls.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::base::clock::SharedClock;
use crate::embedded::logs::Logs;
pub use crate::embedded::store::ChangeKind;
use crate::embedded::store::{Next, Store, StoreError, Subscription};

pub mod admission;
pub mod discovery;
pub mod document;
pub mod fields;
pub mod ids;
pub mod meta;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod proto;
pub mod selectors;
pub mod status;
pub mod strict;
pub mod table;
mod verbs;

pub use crate::validation::resource::{self, Resource, Subresource};
pub use crate::validation::schema;
pub use status::Status;
pub use verbs::{ListOptions, Page, Selected, WatchEvent, WatchOptions, Written};

use ids::{Ids, RandomIds};

/// A stored object, as it goes out (apiVersion, kind and resourceVersion set).
pub type Object = Arc<Value>;

/// Who calls: the field manager that managedFields will name, and the user.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Field manager, such as `kube-scheduler`.
    pub manager: String,
    /// User name, such as `system:kube-scheduler`; used by admission and messages.
    pub user: String,
}

impl Caller {
    /// A component of the cluster: user `system:NAME`.
    #[must_use]
    pub fn component(name: &str) -> Self {
        Caller { manager: name.to_owned(), user: format!("system:{name}") }
    }
}

/// Objects of one kind at one revision.
#[derive(Clone, Debug)]
pub struct List {
    /// The revision that the list shows.
    pub revision: u64,
    /// In key order (namespace, name).
    pub items: Vec<Object>,
}

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// Added, modified or deleted.
    pub kind: ChangeKind,
    /// The object after the change; for a deletion its last state with the revision of the deletion.
    pub object: Object,
    /// The object before the change.
    pub previous: Option<Object>,
    /// The revision of the change.
    pub revision: u64,
}

/// A stream of changes of one kind from a revision on. Ends when the store closes.
#[derive(Debug)]
pub struct Watch {
    changes: Subscription,
}

impl Watch {
    /// The next change; `None` when the store has closed. Cancel-safe. A reader that fell behind what is queued for
    /// it (16384 changes) gets `Err` with the 410 status and must list again.
    pub async fn next(&mut self) -> Option<Result<Change, Status>> {
        match self.changes.next().await {
            Next::Change(change) => Some(Ok(Change::from(&*change))),
            Next::FellBehind(seen) => Some(Err(too_old(seen, seen))),
            Next::Closed => None,
        }
    }

    /// The next change if there is one already: lets a reader take a burst at once.
    pub fn try_next(&mut self) -> Option<Change> {
        self.changes.try_next().map(|change| Change::from(&*change))
    }
}

impl From<&crate::embedded::store::Change> for Change {
    fn from(change: &crate::embedded::store::Change) -> Self {
        Change { kind: change.kind, object: change.object.clone(), previous: change.previous.clone(), revision: change.revision }
    }
}

/// 410 as a watch answers it; `oldest` is the oldest revision that a watch may start from.
fn too_old(asked: u64, oldest: u64) -> Status {
    Status::expired(format!("too old resource version: {asked} ({oldest})"))
}

/// The ways to patch an object.
#[derive(Clone, Debug)]
pub enum Patch {
    /// `application/merge-patch+json`.
    Merge(Value),
    /// `application/json-patch+json`.
    Json(Value),
    /// `application/strategic-merge-patch+json`.
    Strategic(Value),
    /// `application/apply-patch+yaml`; the manager is the caller's.
    Apply {
        /// The applied configuration.
        object: Value,
        /// Take fields over from other managers.
        force: bool,
    },
}

/// How strictly unknown and duplicate fields are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped in silence.
    Ignore,
    /// Dropped with a warning.
    #[default]
    Warn,
    /// Refused.
    Strict,
}

/// Options that writing verbs share.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Run everything but do not store.
    pub dry_run: bool,
    /// Unknown fields.
    pub field_validation: FieldValidation,
}

/// Options of a deletion (`metav1.DeleteOptions`).
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Seconds of grace; `None` is the kind's default (30 for pods that run).
    pub grace_period_seconds: Option<i64>,
    /// Foreground, Background or Orphan.
    pub propagation: Option<String>,
    /// Only if the uid is this one.
    pub uid: Option<String>,
    /// Only if the resourceVersion is this one.
    pub resource_version: Option<String>,
    /// Do not store.
    pub dry_run: bool,
}

/// What a deletion did.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// The object is gone; its last state.
    Gone(Object),
    /// Finalizers or grace keep it; its new state.
    Marked(Object),
}

/// The API. Cheap to clone; every call is synchronous and returns after the change is in the journal.
#[derive(Clone, Debug)]
pub struct Api {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    clock: SharedClock,
    ids: Arc<dyn Ids>,
    logs: Logs,
}

impl admission::Read for Api {
    fn read(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Object> {
        self.get(resource, namespace, name).ok()
    }
}

impl Api {
    /// The API over a store, with random ids.
    #[must_use]
    pub fn new(store: Store, clock: SharedClock) -> Self {
        Api::with_ids(store, clock, Arc::new(RandomIds))
    }

    /// The API over a store, with uids and name suffixes from `ids`.
    #[must_use]
    pub fn with_ids(store: Store, clock: SharedClock, ids: Arc<dyn Ids>) -> Self {
        Api { inner: Arc::new(Inner { store, clock, ids, logs: Logs::default() }) }
    }

    /// An API over a store that lives and dies with the process. It holds no object, not even a namespace.
    #[must_use]
    pub fn in_memory(clock: SharedClock) -> Self {
        Api::new(Store::in_memory(), clock)
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// What simulated containers printed: node agents write it, `pods/log` reads it.
    #[must_use]
    pub fn logs(&self) -> &Logs {
        &self.inner.logs
    }

    /// The lab's clock.
    #[must_use]
    pub fn clock(&self) -> &SharedClock {
        &self.inner.clock
    }

    /// The lab's time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    fn ids(&self) -> &dyn Ids {
        &*self.inner.ids
    }

    fn context<'a>(&'a self, caller: &'a Caller) -> admission::Context<'a> {
        admission::Context { caller, now: self.now(), objects: self }
    }

    /// One object. `namespace` is empty for cluster-scoped kinds.
    ///
    /// # Errors
    /// 404.
    pub fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Result<Object, Status> {
        match self.inner.store.get(resource.collection, &resource.key(namespace, name)) {
            Some(entry) => Ok(entry.object),
            None => Err(Status::not_found(resource, name)),
        }
    }

    /// All objects of a kind, in one namespace or (empty) everywhere.
    ///
    /// # Errors
    /// None today; the signature leaves room for a store that can fail to read.
    pub fn list(&self, resource: &'static Resource, namespace: &str) -> Result<List, Status> {
        let snapshot = self.inner.store.list(resource.collection, &resource.prefix(namespace));
        Ok(List { revision: snapshot.revision, items: snapshot.items.into_iter().map(|(_, object)| object).collect() })
    }

    /// Creates an object: defaults, validation, uid, generateName, managedFields.
    ///
    /// # Errors
    /// 400, 403, 404 (namespace), 409 AlreadyExists, 422, 500 (the journal cannot be written).
    pub fn create(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        self.create_with_warnings(caller, resource, namespace, object, options).map(|written| written.object)
    }

    /// Replaces an object or one of its subresources; a resourceVersion in it must be the current one.
    ///
    /// # Errors
    /// 400, 404, 409 Conflict, 422, 500 (the journal cannot be written).
    #[expect(clippy::too_many_arguments, reason = "an address, an object and its options")]
    pub fn update(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        subresource: Subresource,
        namespace: &str,
        name: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        self.update_with_warnings(caller, resource, subresource, namespace, name, object, options).map(|written| written.object)
    }

    /// Patches an object or one of its subresources.
    ///
    /// # Errors
    /// As [`Api::update`], and 409 for server-side apply conflicts.
    #[expect(clippy::too_many_arguments, clippy::needless_pass_by_value, reason = "the agreed seam")]
    pub fn patch(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        subresource: Subresource,
        namespace: &str,
        name: &str,
        patch: Patch,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        self.patch_with_warnings(caller, resource, subresource, namespace, name, &patch, options).map(|written| written.object)
    }

    /// Deletes an object, or marks it where grace or finalizers keep it.
    ///
    /// # Errors
    /// 403 (a namespace that may not go), 404, 409 (preconditions), 422 (options).
    pub fn delete(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        self.delete_object(caller, resource, namespace, name, options)
    }

    /// Deletes what `list` selects of a kind, in one namespace or (empty) everywhere; answers with what it was.
    ///
    /// # Errors
    /// As [`Api::delete`] and [`Api::list_page`]; an object that is gone meanwhile is none.
    pub fn delete_collection(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        namespace: &str,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Page, Status> {
        let page = self.list_page(resource, namespace, list)?;
        self.delete_objects(caller, resource, &page.items, options)?;
        Ok(page)
    }

    /// The pod binding: sets spec.nodeName once, PodScheduled=True and clears nominatedNodeName, as the real registry does.
    ///
    /// # Errors
    /// 404, 409 (bound already, being deleted, another uid).
    pub fn bind(&self, caller: &Caller, namespace: &str, pod: &str, uid: Option<&str>, node: &str) -> Result<(), Status> {
        self.bind_pod(caller, namespace, pod, uid, node)
    }

    /// Changes of a kind after revision `from` (as given by [`Api::list`]), in one namespace or (empty) everywhere.
    ///
    /// # Errors
    /// 410 when the history does not reach back to `from`; 500 when the store has closed.
    pub fn watch(&self, resource: &'static Resource, namespace: &str, from: u64) -> Result<Watch, Status> {
        match self.inner.store.subscribe(resource.collection, &resource.prefix(namespace), from) {
            Ok(changes) => Ok(Watch { changes }),
            Err(StoreError::TooOld { asked, oldest }) => Err(too_old(asked, oldest)),
            Err(error) => Err(Status::internal(error)),
        }
    }

    /// The revision of the latest change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.inner.store.revision()
    }
}

#[cfg(test)]
mod tests;
