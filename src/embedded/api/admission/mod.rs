//! What each kind does to an object before it is stored: defaults, fields that a caller may not set, generation,
//! validation. The verbs call these in upstream's order (`registry/rest` BeforeCreate and BeforeUpdate): metadata
//! has been filled in (uid, name, creationTimestamp) before `prepare_*`, managedFields are updated after it.
//!
//! The rules themselves are in `crate::validation`, which knows no server. JSON in, JSON and a Status out. Paths, wording and order of faults are the API server's
//! (`pkg/apis/{core,resource}/validation` and the declarative rules of the API types).

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;

use super::{Caller, Object, Resource, Status, Subresource};
use crate::embedded::events::seconds;
use crate::model::features::Features;

mod claim;
mod claim_status;
mod core;
mod pod_defaults;
mod pod_update;
mod refusal;

#[cfg(test)]
mod tests;

pub use refusal::status;

use crate::validation::json::raise_if_changed;
use crate::validation::meta::Naming;
use crate::validation::{class, device_claim, field, go, json, meta, names, node_selector, pod, pod_spec, slice};
use field::Faults;

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

impl Context<'_> {
    /// The gates in force: those of a default cluster of Kubernetes 1.37.
    fn features(&self) -> Features {
        static LATEST: LazyLock<Features> = LazyLock::new(Features::latest);
        *LATEST
    }
}

/// Defaults, and drops what a creation may not set (status); sets `metadata.generation` where the kind has one.
///
/// # Errors
/// 403 from admission plugins.
pub fn prepare_create(resource: &'static Resource, object: &mut Value, context: &Context<'_>) -> Result<(), Status> {
    let features = context.features();
    json::remove(&mut object["metadata"], "generation");
    match resource.plural {
        "pods" => pod_defaults::prepare_create(object, context)?,
        "resourceclaims" => claim::prepare_create(object, features),
        "resourceclaimtemplates" => claim::prepare_template(object, features),
        "resourceslices" => slice::prepare_create(object, features, &seconds(context.now)),
        "deviceclasses" => class::prepare_create(object),
        "namespaces" => core::prepare_namespace(object),
        "nodes" => core::node_defaults(object),
        "secrets" => core::prepare_secret(object),
        "events" => core::event_defaults(object),
        _ => {}
    }
    Ok(())
}

/// Validates an object that is about to be created.
///
/// # Errors
/// 422 with a cause per fault.
pub fn validate_create(resource: &'static Resource, object: &Value, context: &Context<'_>) -> Result<(), Status> {
    let mut faults = Faults::default();
    let found = &mut faults;
    match resource.plural {
        "pods" => pod::validate_create(object, found),
        "resourceclaims" => claim::validate_create(object, context, found),
        "resourceclaimtemplates" => claim::validate_template(object, context, found),
        "resourceslices" => slice::validate(None, object, found),
        "deviceclasses" => class::validate(None, object, context.features(), found),
        "namespaces" => core::validate_namespace(object, found),
        "nodes" => core::validate_node(None, object, found),
        "configmaps" => core::validate_config_map(None, object, found),
        "secrets" => core::validate_secret(None, object, found),
        "serviceaccounts" => core::validate_service_account(None, object, found),
        "events" => core::validate_event(object, found),
        _ => meta::validate(object, resource.namespaced, Naming::Subdomain, true, found),
    }
    refusal::check(faults, resource, object)
}

/// Defaults, keeps what this endpoint may not change (status on the object itself, all but status on `/status`)
/// and raises `metadata.generation` where the spec changed.
///
/// # Errors
/// None today; admission plugins of later kinds may refuse.
pub fn prepare_update(
    resource: &'static Resource,
    subresource: Subresource,
    old: &Value,
    new: &mut Value,
    context: &Context<'_>,
) -> Result<(), Status> {
    let features = context.features();
    match (resource.plural, subresource) {
        ("pods", Subresource::Status) => pod_defaults::prepare_status(old, new),
        ("pods", _) => pod_defaults::prepare_update(old, new),
        ("resourceclaims", Subresource::Status) => claim_status::prepare(old, new),
        ("resourceclaims", _) => claim::prepare_update(old, new, features),
        ("resourceclaimtemplates", _) => claim::prepare_template(new, features),
        ("resourceslices", _) => slice::prepare_update(old, new, features, &seconds(context.now)),
        ("deviceclasses", _) => class::prepare_update(old, new),
        ("namespaces", subresource) => core::prepare_namespace_update(subresource, old, new),
        ("nodes", subresource) => core::prepare_node_update(subresource, old, new),
        ("secrets", _) => core::prepare_secret(new),
        ("events", _) => core::event_defaults(new),
        _ => {}
    }
    Ok(())
}

/// Validates a change of an object or one of its subresources.
///
/// # Errors
/// 422 with a cause per fault.
pub fn validate_update(
    resource: &'static Resource,
    subresource: Subresource,
    old: &Value,
    new: &Value,
    context: &Context<'_>,
) -> Result<(), Status> {
    let mut faults = Faults::default();
    let found = &mut faults;
    // What `BeforeUpdate` checks for every kind comes first, and may so be said twice among the causes.
    meta::validate(new, resource.namespaced, Naming::PathSegment, false, found);
    meta::validate_change(old, new, found);
    match (resource.plural, subresource) {
        ("pods", Subresource::Status) => pod_update::validate_status(old, new, found),
        ("pods", _) => pod_update::validate(old, new, found),
        ("resourceclaims", Subresource::Status) => claim_status::validate(old, new, context, found),
        ("resourceclaims", _) => claim::validate_update(old, new, found),
        ("resourceclaimtemplates", _) => claim::validate_template_update(old, new, context, found),
        ("resourceslices", _) => slice::validate(Some(old), new, found),
        ("deviceclasses", _) => class::validate(Some(old), new, context.features(), found),
        ("namespaces", subresource) => core::validate_namespace_update(subresource, old, new, found),
        ("nodes", _) => core::validate_node(Some(old), new, found),
        ("configmaps", _) => core::validate_config_map(Some(old), new, found),
        ("secrets", _) => core::validate_secret(Some(old), new, found),
        ("serviceaccounts", _) => core::validate_service_account(Some(old), new, found),
        ("events", _) => core::validate_event(new, found),
        _ => {}
    }
    refusal::check(faults, resource, new)
}
