//! Fields and kinds that need a feature gate which is off by default in the target version.

use serde_json::Value;

use super::finding::{ManifestFinding, Rule};
use super::subject::{Subject, World};
use crate::model::features::Feature;
use crate::model::gates;

/// Kind, field (`*` is every entry of a list or map), gate (`pkg/registry/resource/*/strategy.go` of 1.37).
const FIELDS: &[(&str, &str, Feature)] = &[
    ("claim", "requests.*.exactly.adminAccess", Feature::AdminAccess),
    ("claim", "requests.*.exactly.tolerations", Feature::DeviceTaints),
    ("claim", "requests.*.exactly.capacity", Feature::ConsumableCapacity),
    ("claim", "requests.*.exactly.derivedAttributes", Feature::DerivedAttributes),
    ("claim", "requests.*.firstAvailable", Feature::PrioritizedList),
    ("claim", "requests.*.firstAvailable.*.tolerations", Feature::DeviceTaints),
    ("claim", "requests.*.firstAvailable.*.capacity", Feature::ConsumableCapacity),
    ("claim", "requests.*.firstAvailable.*.derivedAttributes", Feature::DerivedAttributes),
    ("claim", "constraints.*.distinctAttribute", Feature::ConsumableCapacity),
    ("DeviceClass", "spec.extendedResourceName", Feature::ExtendedResource),
    ("ResourceSlice", "spec.sharedCounters", Feature::PartitionableDevices),
    ("ResourceSlice", "spec.perDeviceNodeSelection", Feature::PartitionableDevices),
    ("ResourceSlice", "spec.skipNodeOperations", Feature::OptionalNodeOperations),
    ("ResourceSlice", "spec.partitionTypeAttribute", Feature::PartitionableDevicesType),
    ("ResourceSlice", "spec.devices.*.consumesCounters", Feature::PartitionableDevices),
    ("ResourceSlice", "spec.devices.*.consumesCounters.*.compatibilityGroups", Feature::DeviceCompatibilityGroups),
    ("ResourceSlice", "spec.devices.*.taints", Feature::DeviceTaints),
    ("ResourceSlice", "spec.devices.*.bindingConditions", Feature::DeviceBindingConditions),
    ("ResourceSlice", "spec.devices.*.bindingFailureConditions", Feature::DeviceBindingConditions),
    ("ResourceSlice", "spec.devices.*.bindsToNode", Feature::DeviceBindingConditions),
    ("ResourceSlice", "spec.devices.*.allowMultipleAllocations", Feature::ConsumableCapacity),
    ("ResourceSlice", "spec.devices.*.capacity.*.requestPolicy", Feature::ConsumableCapacity),
    ("ResourceSlice", "spec.devices.*.nodeAllocatableResources", Feature::NodeAllocatableResources),
    ("ResourceSlice", "spec.devices.*.attributes.*.ints", Feature::ListTypeAttributes),
    ("ResourceSlice", "spec.devices.*.attributes.*.bools", Feature::ListTypeAttributes),
    ("ResourceSlice", "spec.devices.*.attributes.*.strings", Feature::ListTypeAttributes),
    ("ResourceSlice", "spec.devices.*.attributes.*.versions", Feature::ListTypeAttributes),
];

pub(super) fn check(subject: &Subject, world: &World<'_>, found: &mut Vec<ManifestFinding>) {
    if !subject.is_dra() {
        return;
    }
    if subject.kind() == "DeviceTaintRule" && !world.target.features.has(Feature::DeviceTaintRules) {
        found.push(told(subject, world, "kind", "DeviceTaintRule", Feature::DeviceTaintRules));
    }
    let claim = match subject.kind() {
        "ResourceClaim" => Some("spec.devices"),
        "ResourceClaimTemplate" => Some("spec.spec.devices"),
        _ => None,
    };
    for (kind, field, gate) in FIELDS {
        let start = match (*kind, claim) {
            ("claim", Some(path)) => format!("{path}."),
            (kind, _) if kind == subject.kind() => String::new(),
            _ => continue,
        };
        if world.target.features.has(*gate) {
            continue;
        }
        let mut places = Vec::new();
        let steps: Vec<&str> = start.split('.').filter(|step| !step.is_empty()).chain(field.split('.')).collect();
        places_of(&subject.object, &steps, "", &mut places);
        let name = steps.last().copied().unwrap_or_default();
        // One entry says it for all others of the same list.
        if let Some(path) = places.first() {
            found.push(told(subject, world, path, name, *gate));
        }
    }
}

fn told(subject: &Subject, world: &World<'_>, path: &str, name: &str, gate: Feature) -> ManifestFinding {
    let rule = if gates::setting(gate.name(), world.target.minor).is_some() { Rule::Gate } else { Rule::NotInVersion };
    subject.finding(rule, path, |finding| {
        finding.with("field", name).with("gate", gate.name()).with("version", format!("1.{}", world.target.minor));
    })
}

/// The places where a field is set.
fn places_of(value: &Value, steps: &[&str], path: &str, places: &mut Vec<String>) {
    let Some((step, rest)) = steps.split_first() else {
        if !value.is_null() {
            places.push(path.to_owned());
        }
        return;
    };
    match (*step, value) {
        ("*", Value::Array(items)) => {
            items.iter().enumerate().for_each(|(number, item)| places_of(item, rest, &format!("{path}[{number}]"), places));
        }
        ("*", Value::Object(entries)) => {
            entries.iter().for_each(|(key, entry)| places_of(entry, rest, &format!("{path}[{key}]"), places));
        }
        (name, Value::Object(entries)) => {
            if let Some(entry) = entries.get(name) {
                let dot = if path.is_empty() { "" } else { "." };
                places_of(entry, rest, &format!("{path}{dot}{name}"), places);
            }
        }
        _ => {}
    }
}
