//! What the API server says of a manifest, as far as no server is needed for it.

use serde::de::DeserializeSeed as _;
use serde_json::{Value, json};

use super::decode::{Reader, Sink};
use super::field::{Faults, FieldError, Path};
use super::json::field;
use super::meta::Naming;
use super::schema::{self, Node};
use super::{class, device_claim, meta, pod, pod_spec, slice};
use crate::model::features::Features;

/// An object read strictly.
#[derive(Clone, Debug)]
pub struct Read {
    /// With what its kind knows, and nothing else.
    pub object: Value,
    /// Paths of fields that the kind does not have.
    pub unknown: Vec<String>,
    /// The first value of a wrong type, in Go's words.
    pub fault: Option<String>,
}

/// Reads an object by a schema such as `io.k8s.api.resource.v1.ResourceClaim`; `None` where there is no such schema.
#[must_use]
pub fn read(schema_name: &str, object: &Value) -> Option<Read> {
    let table = schema::table();
    let node = table.named(schema_name)?;
    let mut sink = Sink::new(table);
    let object = Reader::new(&node, &mut sink).deserialize(object).ok()?;
    let unknown = sink.unknown.iter().filter_map(|text| Some(text.split_once('"')?.1.trim_end_matches('"').to_owned())).collect();
    Some(Read { object, unknown, fault: sink.fault() })
}

/// The fields that the struct at a path of a schema has; empty where the path leads to no struct.
#[must_use]
pub fn fields_at(schema_name: &str, path: &str) -> Vec<&'static str> {
    let table = schema::table();
    let Some(root) = table.named(schema_name) else { return Vec::new() };
    let mut node = &root;
    for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
        let next = match node {
            Node::List { items, .. } if step.ends_with(']') => Some(items.as_ref()),
            node => node.child(table, step.trim_end_matches(']')),
        };
        let Some(next) = next else { return Vec::new() };
        node = next;
    }
    match node {
        Node::Struct(id) => table.get(*id).map(|found| found.fields.keys().map(String::as_str).collect()).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The faults of a new object of `resource.k8s.io/v1` or a pod, which has been [`read`]. What needs other objects (admin access,
/// service accounts) is not asked. A namespace that is not set counts as `default`.
#[must_use]
pub fn faults(kind: &str, object: &Value, features: Features) -> Vec<FieldError> {
    let mut object = object.clone();
    let mut faults = Faults::default();
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let namespaced = matches!(kind, "Pod" | "ResourceClaim" | "ResourceClaimTemplate");
    if namespaced && object["metadata"].get("namespace").is_none() {
        object["metadata"]["namespace"] = json!("default");
    }
    // The API server makes a name of generateName.
    if object["metadata"].get("name").is_none() && object["metadata"].get("generateName").is_some_and(Value::is_string) {
        object["metadata"]["name"] = json!("generated");
    }
    let found = &mut faults;
    match kind {
        "Pod" => {
            pod_spec::spec_defaults(&mut object);
            pod::validate_create(&object, found);
        }
        "ResourceClaim" => {
            if let Some(devices) = object.pointer_mut("/spec/devices") {
                device_claim::defaults(devices);
            }
            meta::validate(&object, true, Naming::Subdomain, true, found);
            device_claim::validate(field(field(&object, "spec"), "devices"), &Path::new("spec").child("devices"), features, found);
        }
        "ResourceClaimTemplate" => {
            if let Some(devices) = object.pointer_mut("/spec/spec/devices") {
                device_claim::defaults(devices);
            }
            meta::validate(&object, true, Naming::Subdomain, true, found);
            let (spec, path) = (field(&object, "spec"), Path::new("spec"));
            meta::validate_template(field(spec, "metadata"), &path.child("metadata"), found);
            device_claim::validate(field(field(spec, "spec"), "devices"), &path.child("spec").child("devices"), features, found);
        }
        "ResourceSlice" => {
            slice::prepare_create(&mut object, Features::all(), "1970-01-01T00:00:00Z");
            slice::validate(None, &object, found);
        }
        "DeviceClass" => {
            class::prepare_create(&mut object);
            class::validate(None, &object, features, found);
        }
        _ => {}
    }
    faults.into_errors()
}
