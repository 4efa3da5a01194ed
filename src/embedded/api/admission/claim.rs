//! ResourceClaim and ResourceClaimTemplate: preparation and validation of metadata and spec
//! (`pkg/registry/resource/resourceclaim*/strategy.go`, `pkg/apis/resource/validation`).

use serde_json::{Value, json};

use super::field::{Bad, Faults, Path, forbidden, internal, invalid};
use super::json::{field, is_set, list_mut, remove, same, text};
use super::meta::{self, Naming};
use super::{Context, device_claim, go};
use crate::embedded::api::resource::NAMESPACES;
use crate::model::features::{Feature, Features};

/// The label that a namespace needs for admin access, with value `true`.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";

/// Fills `spec.devices` as Go's structs do: the list of requests is there even when it is nil.
fn complete_spec(holder: &mut Value, features: Features) {
    if !holder["spec"].is_object() {
        holder["spec"] = json!({});
    }
    let spec = &mut holder["spec"];
    if !spec["devices"].is_object() {
        spec["devices"] = json!({});
    }
    let devices = &mut spec["devices"];
    if !devices["requests"].is_array() {
        devices["requests"] = Value::Null;
    }
    device_claim::defaults(devices);
    drop_disabled(devices, features);
}

/// Removes fields whose gate is off.
fn drop_disabled(devices: &mut Value, features: Features) {
    let drop = |request: &mut Value| {
        if !features.has(Feature::DerivedAttributes) {
            remove(request, "derivedAttributes");
        }
        if !features.has(Feature::ConsumableCapacity) {
            remove(request, "capacity");
        }
    };
    for request in list_mut(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly") {
            drop(exactly);
        }
        list_mut(request, "firstAvailable").for_each(drop);
    }
}

/// A new claim has no status, whatever the caller sent.
pub(super) fn prepare_create(claim: &mut Value, features: Features) {
    complete_spec(claim, features);
    claim["status"] = json!({});
}

/// A change of the claim itself keeps its status.
pub(super) fn prepare_update(old: &Value, new: &mut Value, features: Features) {
    complete_spec(new, features);
    new["status"] = old.get("status").cloned().unwrap_or_else(|| json!({}));
}

/// Validates a new claim.
pub(super) fn validate_create(claim: &Value, context: &Context<'_>, faults: &mut Faults) {
    let devices = field(field(claim, "spec"), "devices");
    admin(claim, device_claim::admin_request(devices), context, faults);
    meta::validate(claim, true, Naming::Subdomain, true, faults);
    device_claim::validate(devices, &Path::new("spec").child("devices"), context.features(), faults);
}

/// Validates a changed claim: its spec is immutable.
pub(super) fn validate_update(old: &Value, new: &Value, faults: &mut Faults) {
    meta::validate(new, true, Naming::Subdomain, true, faults);
    meta::validate_update(old, new, faults);
    if !same(field(old, "spec"), field(new, "spec")) {
        faults.declare(invalid(&Path::new("spec"), Bad::nil(), "field is immutable"));
    }
}

/// Refuses admin access outside namespaces that are labelled for it. `at` is where it is asked for.
pub(super) fn admin(object: &Value, at: Option<Path>, context: &Context<'_>, faults: &mut Faults) {
    let Some(path) = at else { return };
    let name = text(field(object, "metadata"), "namespace");
    let Some(namespace) = context.objects.read(&NAMESPACES, "", name) else {
        let why = format!("could not retrieve namespace to verify admin access: namespaces {} not found", go::quote(name));
        faults.push(internal(&path, why));
        return;
    };
    if text(field(field(&namespace, "metadata"), "labels"), ADMIN_LABEL) != "true" {
        let why = format!("admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace");
        faults.push(forbidden(&path, why));
    }
}

/// Completes a template: `spec.metadata` is always there.
pub(super) fn prepare_template(template: &mut Value, features: Features) {
    if !template["spec"].is_object() {
        template["spec"] = json!({});
    }
    if !is_set(&template["spec"], "metadata") {
        template["spec"]["metadata"] = json!({});
    }
    complete_spec(&mut template["spec"], features);
}

/// Validates a new template.
pub(super) fn validate_template(template: &Value, context: &Context<'_>, faults: &mut Faults) {
    let spec = field(template, "spec");
    let devices = field(field(spec, "spec"), "devices");
    admin(template, device_claim::admin_request(devices), context, faults);
    meta::validate(template, true, Naming::Subdomain, true, faults);
    let path = Path::new("spec");
    meta::validate_template(field(spec, "metadata"), &path.child("metadata"), faults);
    device_claim::validate(devices, &path.child("spec").child("devices"), context.features(), faults);
}

/// Validates a changed template: it must be as good as a new one, and its spec is immutable.
pub(super) fn validate_template_update(old: &Value, new: &Value, context: &Context<'_>, faults: &mut Faults) {
    validate_template(new, context, faults);
    meta::validate_update(old, new, faults);
    let spec = field(new, "spec");
    if !same(field(old, "spec"), spec) {
        let bad = Bad::raw(go::print("ResourceClaimTemplateSpec", spec, go::Form::Internal));
        faults.push(invalid(&Path::new("spec"), bad, "field is immutable"));
    }
}
