//! Update: preconditions, metadata that may not change, admission, managedFields, commit or final deletion.

use serde_json::{Value, json};

use super::super::{Api, Caller, Resource, Status, Subresource, WriteOptions, admission, fields, meta, resource, status::Cause, strict};
use super::{Object, ROUNDS, Written, match_namespace, storage_failure, well_formed};
use crate::embedded::store::{Entry, Expect, StoreError};

/// Who keeps the managedFields of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    /// They are computed from what changed.
    Compute,
    /// Server-side apply has set them.
    Set,
}

impl Api {
    /// [`Api::update`] with the warnings.
    ///
    /// # Errors
    /// As [`Api::update`].
    #[expect(clippy::too_many_arguments, reason = "an address, an object and its options; the agreed seam")]
    pub fn update_with_warnings(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        subresource: Subresource,
        namespace: &str,
        name: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        well_formed(resource, &mut object)?;
        let warnings = strict::check(resource, &mut object, options.field_validation)?;
        match_namespace(resource, namespace, &mut object)?;
        match_name(name, &mut object)?;
        for _ in 0..ROUNDS {
            let current = self.entry(resource, namespace, name)?;
            if let Some(object) = self.change(caller, resource, subresource, &current, object.clone(), options, Fields::Compute)? {
                return Ok(Written { object, warnings, created: false });
            }
        }
        Err(Status::modified(resource, name))
    }

    /// Brings one object from `current` to `new`; `None` when another write came between and the caller did not
    /// name the revision it wants to change.
    #[expect(clippy::too_many_arguments, reason = "the whole of one write, called from update and patch only")]
    pub(super) fn change(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        subresource: Subresource,
        current: &Entry,
        mut new: Value,
        options: &WriteOptions,
        managed: Fields,
    ) -> Result<Option<Object>, Status> {
        let old = &*current.object;
        let name = meta::name(old).to_owned();
        check_preconditions(resource, old, &new)?;
        keep_metadata(old, &mut new);
        let context = self.context(caller);
        admission::prepare_update(resource, subresource, old, &mut new, &context)?;
        check_metadata(resource, old, &new)?;
        admission::validate_update(resource, subresource, old, &new, &context)?;
        if managed == Fields::Compute {
            fields::update_managed(resource, subresource, &caller.manager, Some(old), &mut new, self.now());
        }
        // The version is the store's to set; with it equal, a change of nothing shows as equal objects.
        meta::keep(&mut new, old, "resourceVersion");
        let expect = Expect::Revision(current.revision);
        let key = resource.key(meta::namespace(old), &name);
        if is_final(resource, old, &new) {
            if options.dry_run {
                return Ok(Some(new.into()));
            }
            // As upstream's deleteWithoutFinalizers: watchers see the last state that was stored, the caller its own.
            return match self.store().remove(resource.collection, &key, current.revision) {
                Ok(_) => Ok(Some(new.into())),
                Err(StoreError::Expectation { .. }) => Ok(None),
                Err(error) => Err(storage_failure(&error)),
            };
        }
        if new == *old || options.dry_run {
            return Ok(Some(if new == *old { current.object.clone() } else { new.into() }));
        }
        match self.store().put(resource.collection, &key, expect, new) {
            Ok(entry) => Ok(Some(entry.object)),
            Err(StoreError::Expectation { .. }) => Ok(None),
            Err(error) => Err(storage_failure(&error)),
        }
    }
}

/// `ShouldDeleteDuringUpdate`: the last finalizer of a deleted object is gone, and no grace is left.
fn is_final(resource: &Resource, old: &Value, new: &Value) -> bool {
    let namespace_done = resource != &resource::NAMESPACES || new["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    meta::is_deleting(old)
        && meta::finalizers(new).is_empty()
        && old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && namespace_done
}

/// The name in a body must be the one on the URL; none is that one.
pub(super) fn match_name(name: &str, object: &mut Value) -> Result<(), Status> {
    let own = meta::name(object);
    if own.is_empty() {
        meta::set(object, "name", json!(name));
    } else if own != name {
        return Err(Status::bad_request(format!("the name of the object ({own}) does not match the name on the URL ({name})")));
    }
    Ok(())
}

fn check_preconditions(resource: &'static Resource, old: &Value, new: &Value) -> Result<(), Status> {
    let name = meta::name(old);
    let uid = meta::uid(new);
    if !uid.is_empty() && uid != meta::uid(old) {
        let key = format!("/registry/{}/{}", resource.plural, resource.key(meta::namespace(old), name));
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", meta::uid(old));
        let why = format!("StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}");
        return Err(Status::conflict(resource, name, why));
    }
    match &new["metadata"]["resourceVersion"] {
        Value::Null => Ok(()),
        Value::String(version) if version.is_empty() || version == "0" => Ok(()),
        Value::String(version) if version.parse::<u64>().is_err() => {
            let message = format!("Invalid value: \"{version}\": must be an unsigned integer");
            Err(Status::invalid(resource, name, &[Cause::new("FieldValueInvalid", "metadata.resourceVersion", message)]))
        }
        version if *version == old["metadata"]["resourceVersion"] => Ok(()),
        _ => Err(Status::modified(resource, name)),
    }
}

/// What BeforeUpdate takes over from the stored object, whatever the caller sent.
fn keep_metadata(old: &Value, new: &mut Value) {
    meta::keep(new, old, "generation");
    meta::keep(new, old, "uid");
    meta::keep(new, old, "selfLink");
    if !new["metadata"]["creationTimestamp"].is_string() {
        meta::keep(new, old, "creationTimestamp");
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if old["metadata"].get(field).is_none() || new["metadata"].get(field).is_none_or(Value::is_null) {
            meta::keep(new, old, field);
        }
    }
}

/// `ValidateObjectMetaAccessorUpdate`.
fn check_metadata(resource: &'static Resource, old: &Value, new: &Value) -> Result<(), Status> {
    let mut causes = Vec::new();
    if meta::is_deleting(old) {
        let had = meta::finalizers(old);
        let added: Vec<&str> = meta::finalizers(new).into_iter().filter(|finalizer| !had.contains(finalizer)).collect();
        if !added.is_empty() {
            let shown: Vec<String> = added.iter().map(|finalizer| Value::from(*finalizer).to_string()).collect();
            let message = format!(
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                shown.join(", ")
            );
            causes.push(Cause::new("FieldValueForbidden", "metadata.finalizers", message));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (before, after) = (&old["metadata"][field], &new["metadata"][field]);
        if before != after {
            let message = format!("Invalid value: {after}: field is immutable");
            causes.push(Cause::new("FieldValueInvalid", format!("metadata.{field}"), message));
        }
    }
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid(resource, meta::name(old), &causes)) }
}
