//! `metadata` of every kind (apimachinery `api/validation/objectmeta.go`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::field::{Bad, Faults, Path, forbidden, invalid, required, too_long};
use super::json::{flag, int, list, text};
use super::{go, names};

/// The most bytes that the annotations of an object may have together.
const ANNOTATIONS: usize = 256 * 1024;

/// How a kind's names are checked.
#[derive(Clone, Copy)]
pub(crate) enum Naming {
    /// DNS subdomain: most kinds.
    Subdomain,
    /// DNS label: namespaces.
    Label,
    /// DNS subdomain by a declarative rule: device classes.
    Declared,
    /// Only what a URL path demands: what every update checks.
    PathSegment,
}

impl Naming {
    fn check(self, name: &str, prefix: bool) -> Vec<String> {
        match self {
            Naming::Subdomain if prefix => names::subdomain(&names::without_trailing_dash(name)),
            Naming::Label if prefix => names::label(&names::without_trailing_dash(name)),
            Naming::Subdomain => names::subdomain(name),
            Naming::Label => names::label(name),
            Naming::Declared => names::long_name(name),
            Naming::PathSegment => names::path_segment(name, prefix),
        }
    }
}

/// Validates metadata as on creation. `kube` adds the core API's rule for finalizer names.
pub(crate) fn validate(object: &Value, namespaced: bool, naming: Naming, kube: bool, faults: &mut Faults) {
    let path = Path::new("metadata");
    let meta = super::json::field(object, "metadata");
    let (name, prefix) = (text(meta, "name"), text(meta, "generateName"));
    if !prefix.is_empty() && !matches!(naming, Naming::Declared) {
        faults.each(&path.child("generateName"), prefix, naming.check(prefix, true));
    }
    if name.is_empty() {
        faults.push(required(&path.child("name"), "name or generateName is required"));
    } else if matches!(naming, Naming::Declared) {
        faults.declare_each(&path.child("name"), name, naming.check(name, false));
    } else {
        faults.each(&path.child("name"), name, naming.check(name, false));
    }
    let namespace = text(meta, "namespace");
    if !namespaced {
        if !namespace.is_empty() {
            faults.push(forbidden(&path.child("namespace"), "not allowed on this type"));
        }
    } else if namespace.is_empty() {
        faults.push(required(&path.child("namespace"), ""));
    } else {
        faults.each(&path.child("namespace"), namespace, names::label(namespace));
    }
    generation(meta, &path, faults);
    labels(meta, &path, faults);
    annotations(meta, &path, faults);
    owners(meta, &path, faults);
    finalizers(meta, &path, kube, faults);
}

/// Validates what an update may not do to metadata, with the core API's rule for finalizer names.
pub(crate) fn validate_update(old: &Value, new: &Value, faults: &mut Faults) {
    validate_change(old, new, faults);
    let path = Path::new("metadata").child("finalizers");
    for (number, name) in list(super::json::field(new, "metadata"), "finalizers").iter().filter_map(Value::as_str).enumerate() {
        kube_finalizer(name, &path.index(number), faults);
    }
}

/// Validates what an update may not do to the metadata of any kind.
pub(crate) fn validate_change(old: &Value, new: &Value, faults: &mut Faults) {
    let path = Path::new("metadata");
    let (old, meta) = (super::json::field(old, "metadata"), super::json::field(new, "metadata"));
    if super::json::is_set(old, "deletionTimestamp") {
        let had: BTreeSet<&str> = list(old, "finalizers").iter().filter_map(Value::as_str).collect();
        let extra: BTreeSet<&str> = list(meta, "finalizers").iter().filter_map(Value::as_str).filter(|name| !had.contains(name)).collect();
        if !extra.is_empty() {
            let extra: Vec<String> = extra.into_iter().map(go::quote).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                extra.join(", ")
            );
            faults.push(forbidden(&path.child("finalizers"), detail));
        }
    }
    generation(meta, &path, faults);
    if int(meta, "generation") < int(old, "generation") {
        faults.push(invalid(&path.child("generation"), int(meta, "generation"), "must not be decremented"));
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (was, is) = (super::json::field(old, field), super::json::field(meta, field));
        if !super::json::same(was, is) {
            faults.push(invalid(&path.child(field), Bad::value(is), "field is immutable"));
        }
    }
    labels(meta, &path, faults);
    annotations(meta, &path, faults);
    owners(meta, &path, faults);
}

/// Labels and annotations of the metadata that a template gives to what is made from it; nothing else may be set.
pub(crate) fn validate_template(meta: &Value, path: &Path, faults: &mut Faults) {
    annotations(meta, path, faults);
    labels(meta, path, faults);
    for field in [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ] {
        if !super::json::same(super::json::field(meta, field), &Value::Null) {
            faults.push(forbidden(&path.child(field), "cannot be set"));
        }
    }
}

fn generation(meta: &Value, path: &Path, faults: &mut Faults) {
    if int(meta, "generation") < 0 {
        faults.push(invalid(&path.child("generation"), int(meta, "generation"), "must be greater than or equal to 0"));
    }
}

/// Label keys and values.
pub(crate) fn labels(meta: &Value, path: &Path, faults: &mut Faults) {
    let path = path.child("labels");
    for (key, value) in super::json::entries(meta, "labels") {
        faults.each(&path, key, names::qualified(key));
        let value = value.as_str().unwrap_or_default();
        faults.each(&path, value, names::label_value(value));
    }
}

fn annotations(meta: &Value, path: &Path, faults: &mut Faults) {
    let path = path.child("annotations");
    let mut bytes = 0;
    for (key, value) in super::json::entries(meta, "annotations") {
        faults.each(&path, key, names::qualified(&key.to_lowercase()));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS {
        faults.push(too_long(&path, ANNOTATIONS));
    }
}

fn owners(meta: &Value, path: &Path, faults: &mut Faults) {
    let path = path.child("ownerReferences");
    let mut controller: Option<String> = None;
    for (number, owner) in list(meta, "ownerReferences").iter().enumerate() {
        let at = path.index(number);
        let version = text(owner, "apiVersion");
        if version.is_empty() {
            faults.push(required(&at.child("apiVersion"), "must not be empty"));
        } else if version.matches('/').count() > 1 || version.ends_with('/') {
            faults.push(invalid(&at.child("apiVersion"), version, "must be <group>/<version> or <version>"));
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                faults.push(required(&at.child(field), "must not be empty"));
            }
        }
        if version == "v1" && text(owner, "kind") == "Event" {
            let bad = Bad::raw(go::print("OwnerReference", owner, go::Form::Versioned));
            faults.push(invalid(&at, bad, "/v1, Kind=Event is disallowed from being an owner"));
        }
        if flag(owner, "controller") == Some(true) {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                Some(first) => {
                    let all = super::json::field(meta, "ownerReferences");
                    let bad = Bad::raw(go::print("[OwnerReference", all, go::Form::Versioned));
                    let detail =
                        format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}");
                    faults.push(invalid(&path, bad, detail));
                }
                None => controller = Some(this),
            }
        }
    }
}

fn finalizers(meta: &Value, path: &Path, kube: bool, faults: &mut Faults) {
    let path = path.child("finalizers");
    let names: Vec<&str> = list(meta, "finalizers").iter().filter_map(Value::as_str).collect();
    for name in &names {
        faults.each(&path, name, names::qualified(name));
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let bad = Bad::value(super::json::field(meta, "finalizers"));
        faults.push(invalid(&path, bad, "finalizer orphan and foregroundDeletion cannot be both set"));
    }
    if kube {
        for (number, name) in names.iter().enumerate() {
            kube_finalizer(name, &path.index(number), faults);
        }
    }
}

/// The core API's rule: a finalizer without a domain must be one of the known ones.
pub(crate) fn kube_finalizer(name: &str, path: &Path, faults: &mut Faults) {
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        faults.push(invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"));
    }
}
