//! managedFields: who owns which fields, and server-side apply.

use jiff::Timestamp;
use serde_json::Value;

use super::{Resource, Status, Subresource};

/// Updates `metadata.managedFields` of `new` after a create (`old` is `None`), update or patch by `manager`.
///
/// `new` is complete (defaults, metadata) but for managedFields, which are the caller's or, if it sent none, the
/// old ones. A change that changes no field must leave managedFields, times included, as they were.
pub fn update_managed(
    resource: &'static Resource,
    subresource: Subresource,
    manager: &str,
    old: Option<&Value>,
    new: &mut Value,
    now: Timestamp,
) {
    let _ = (resource, subresource, manager, old, new, now);
}

/// Merges an applied configuration into the live object (`None`: there is none yet) by field ownership.
///
/// The result has its managedFields updated for the apply. Admission runs on it afterwards.
///
/// # Errors
/// 409 with a cause per conflict, 400 for a malformed configuration.
pub fn server_side_apply(
    resource: &'static Resource,
    subresource: Subresource,
    manager: &str,
    live: Option<&Value>,
    applied: Value,
    force: bool,
    now: Timestamp,
) -> Result<Value, Status> {
    let _ = (resource, subresource, manager, force, now);
    let mut object = live.cloned().unwrap_or_else(|| applied.clone());
    json_patch::merge(&mut object, &applied);
    Ok(object)
}
