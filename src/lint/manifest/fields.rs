//! Versions and shapes, unknown fields, wrong types, and what the API server's validation says.

use serde_json::Value;

use super::finding::{ManifestFinding, Rule};
use super::pods::pod_spec_path;
use super::subject::{Subject, World};
use crate::base::nearest::nearest;
use crate::lint::convert::{FLAT, changes_shape};
use crate::model::features::Features;
use crate::validation::offline;

pub(super) fn check(subject: &Subject, world: &World<'_>, found: &mut Vec<ManifestFinding>) {
    if subject.is_dra() {
        version(subject, found);
        if let Some(schema) = dra_schema(subject.kind()) {
            object(subject, world, schema, &subject.object, "", found);
        }
    } else if subject.kind() == "Pod" {
        object(subject, world, "io.k8s.api.core.v1.Pod", &subject.object, "", found);
    } else if let Some(path) = pod_spec_path(subject.kind()) {
        let template = path.trim_end_matches(".spec");
        let pointer = format!("/{}", template.replace('.', "/"));
        if let Some(template_object) = subject.object.pointer(&pointer) {
            let mut pod = template_object.clone();
            if let Some(fields) = pod.as_object_mut() {
                let mut metadata = fields.remove("metadata").filter(Value::is_object).unwrap_or_else(|| serde_json::json!({}));
                metadata["name"] = "pod".into();
                fields.insert("metadata".to_owned(), metadata);
            }
            object(subject, world, "io.k8s.api.core.v1.Pod", &pod, &format!("{template}."), found);
        }
    }
}

fn dra_schema(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "ResourceClaim" => "io.k8s.api.resource.v1.ResourceClaim",
        "ResourceClaimTemplate" => "io.k8s.api.resource.v1.ResourceClaimTemplate",
        "ResourceSlice" => "io.k8s.api.resource.v1.ResourceSlice",
        "DeviceClass" => "io.k8s.api.resource.v1.DeviceClass",
        _ => return None,
    })
}

/// Older versions, and shapes that are not those of the version that the object names.
fn version(subject: &Subject, found: &mut Vec<ManifestFinding>) {
    let version = subject.api_version().rsplit('/').next().unwrap_or_default();
    let flat = matches!(version, "v1alpha3" | "v1beta1");
    let shape = wrong_shape(&subject.document.object, flat);
    if let Some((path, here, there)) = shape {
        let mut finding = subject.finding(Rule::Shape, &path, |finding| {
            finding.with("version", version).with("here", here).with("there", there);
        });
        finding.converted = Some(subject.object.clone());
        found.push(finding);
    }
    if version != "v1" && subject.kind() != "ResourcePoolStatusRequest" && !subject.kind().starts_with("DeviceTaintRule") {
        let mut finding = subject.finding(Rule::OldVersion, "apiVersion", |finding| {
            finding.with("version", version);
        });
        if changes_shape(&subject.document.object) {
            finding.converted = Some(subject.object.clone());
        }
        found.push(finding);
    }
}

/// The first field in the shape of other versions: its path, how it is written, how this version wants it.
fn wrong_shape(object: &Value, flat: bool) -> Option<(String, &'static str, &'static str)> {
    for path in ["spec.devices", "spec.spec.devices"] {
        let pointer = format!("/{}", path.replace('.', "/"));
        let requests = object.pointer(&pointer).and_then(|devices| devices.get("requests")).and_then(Value::as_array);
        for (number, request) in requests.into_iter().flatten().enumerate() {
            let at = format!("{path}.requests[{number}]");
            if flat && request.get("exactly").is_some() {
                return Some((format!("{at}.exactly"), "exactly:", "the request itself, without `exactly:`"));
            }
            if let Some(field) = FLAT.iter().find(|field| !flat && request.get(**field).is_some()) {
                return Some((format!("{at}.{field}"), field, "`exactly:`"));
            }
        }
    }
    let devices = object.pointer("/spec/devices").and_then(Value::as_array);
    for (number, device) in devices.into_iter().flatten().enumerate() {
        if !flat && device.get("basic").is_some() {
            return Some((format!("spec.devices[{number}].basic"), "basic:", "the device itself, without `basic:`"));
        }
        if flat && (device.get("attributes").is_some() || device.get("capacity").is_some()) {
            let field = if device.get("attributes").is_some() { "attributes" } else { "capacity" };
            return Some((format!("spec.devices[{number}].{field}"), field, "`basic:`"));
        }
    }
    None
}

/// Unknown fields, wrong types and faults of an object; `prefix` is where it lies in the document.
fn object(subject: &Subject, world: &World<'_>, schema: &'static str, object: &Value, prefix: &str, found: &mut Vec<ManifestFinding>) {
    let Some(read) = offline::read(schema, object) else { return };
    for path in &read.unknown {
        unknown(subject, schema, path, &format!("{prefix}{path}"), found);
    }
    if let Some(fault) = &read.fault {
        // Go names the struct's field: `… into Go struct field T.spec.devices of type …`.
        let path = fault.split(" field ").nth(1).and_then(|rest| rest.split_whitespace().next()).and_then(|name| name.split_once('.'));
        let path = path.map(|(_, path)| format!("{prefix}{path}")).unwrap_or_default();
        found.push(subject.finding(Rule::WrongType, &path, |finding| {
            finding.with("message", fault);
        }));
        return;
    }
    let kind = schema.rsplit('.').next().unwrap_or_default();
    // Fields whose gate is off are told by the gate and not judged as if they were dropped.
    for error in offline::faults(kind, &read.object, all_but_cel_gates(world)) {
        if covered(&error.path, found, prefix) {
            continue;
        }
        let path = format!("{prefix}{}", error.path);
        found.push(subject.finding(Rule::Invalid, &path, |finding| {
            finding.with("message", error.body());
        }));
    }
}

/// The gates of the target for selectors, all others on.
fn all_but_cel_gates(world: &World<'_>) -> Features {
    use crate::model::features::Feature::{ConsumableCapacity, ListTypeAttributes};
    [ConsumableCapacity, ListTypeAttributes]
        .into_iter()
        .fold(Features::all(), |features, gate| if world.target.features.has(gate) { features } else { features.without(gate) })
}

/// Whether another rule said more of that very field.
fn covered(path: &str, found: &[ManifestFinding], prefix: &str) -> bool {
    found
        .iter()
        .any(|finding| finding.rule == Rule::Source && format!("{prefix}{path}").starts_with(finding.path.trim_end_matches(".source")))
}

fn unknown(subject: &Subject, schema: &'static str, inner: &str, path: &str, found: &mut Vec<ManifestFinding>) {
    let (parent, name) = inner.rsplit_once('.').unwrap_or(("", inner));
    if name == "source" && parent.ends_with(']') && parent.contains("resourceClaims[") {
        found.push(subject.finding(Rule::Source, path, |_| {}));
        return;
    }
    if name == "tolerations" && subject.is_dra() {
        found.push(subject.finding(Rule::TolerationPlace, path, |_| {}));
        return;
    }
    // Told as a whole already.
    if found.iter().any(|finding| finding.rule == Rule::Shape && finding.object == subject.title() && finding.path == path) {
        return;
    }
    let known = offline::fields_at(schema, parent);
    let near = nearest(name, known.iter().copied());
    let rule = if near.is_some() { Rule::NearField } else { Rule::UnknownField };
    found.push(subject.finding(rule, path, |finding| {
        finding
            .with("name", name)
            .with("near", near.unwrap_or("-"))
            .with("fields", if known.is_empty() { "-".to_owned() } else { known.join(", ") });
    }));
}
