//! The verbs of the API in process: admission, patches, watch. HTTP routing and the controllers use the same calls.

use std::sync::Arc;

use serde_json::Value;

pub mod admission;
pub mod discovery;
pub mod document;
pub mod fields;
pub mod openapi;
pub mod patch;
pub mod proto;
pub mod resource;
pub mod schema;
pub mod status;
pub mod strict;
pub mod table;

pub use resource::{Resource, Subresource};
pub use status::Status;

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

/// A stream of changes of one kind from a revision on. Ends when the store closes.
#[derive(Debug)]
pub struct Watch {}

impl Watch {
    /// The next change; `None` when the store has closed. Cancel-safe. A reader that fell behind what the
    /// history keeps gets `Err` with the 410 status and must list again.
    pub async fn next(&mut self) -> Option<Result<Change, Status>> {
        unimplemented!()
    }
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
pub struct Api {}

impl Api {
    /// One object. `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Result<Object, Status> {
        let _ = (resource, namespace, name);
        unimplemented!()
    }

    /// All objects of a kind, in one namespace or (empty) everywhere.
    pub fn list(&self, resource: &'static Resource, namespace: &str) -> Result<List, Status> {
        let _ = (resource, namespace);
        unimplemented!()
    }

    /// Creates an object: defaults, validation, uid, generateName, managedFields.
    pub fn create(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        let _ = (caller, resource, namespace, object, options);
        unimplemented!()
    }

    /// Replaces an object or one of its subresources; a resourceVersion in it must be the current one.
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
        let _ = (caller, resource, subresource, namespace, name, object, options);
        unimplemented!()
    }

    /// Patches an object or one of its subresources.
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
        let _ = (caller, resource, subresource, namespace, name, patch, options);
        unimplemented!()
    }

    /// Deletes an object, or marks it where grace or finalizers keep it.
    pub fn delete(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let _ = (caller, resource, namespace, name, options);
        unimplemented!()
    }

    /// The pod binding: sets spec.nodeName once, PodScheduled=True and clears nominatedNodeName, as the real registry does.
    pub fn bind(&self, caller: &Caller, namespace: &str, pod: &str, uid: Option<&str>, node: &str) -> Result<(), Status> {
        let _ = (caller, namespace, pod, uid, node);
        unimplemented!()
    }

    /// Changes of a kind after revision `from` (as given by [`Api::list`]), in one namespace or (empty) everywhere.
    pub fn watch(&self, resource: &'static Resource, namespace: &str, from: u64) -> Result<Watch, Status> {
        let _ = (resource, namespace, from);
        unimplemented!()
    }

    /// The revision of the latest change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        unimplemented!()
    }
}
