//! A device of a ResourceSlice: attributes, capacities, taints, counters, nodes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field::{Bad, Faults, Path, duplicate, forbidden, invalid, not_supported, required, too_long, too_many};
use super::json::{entries, field, flag, is_set, list, optional, same, size, text};
use super::slice::{binding_conditions, counters, driver_name};
use super::{capacity, go, names, node_selector};
use crate::model::semver::Semver;

/// Attributes and capacities of a device together.
const PROPERTIES: usize = 32;
/// Values of a device's attributes, each entry of a list counted.
const VALUES: usize = 48;
/// Taints of a device.
const TAINTS: usize = 16;
/// Counter sets that a device consumes from.
const CONSUMED: usize = 2;
/// Bytes of an attribute's string or version.
const VALUE: usize = 64;
/// Bytes of a qualified name: domain, slash and id.
const QUALIFIED: usize = 63 + 1 + 32;

const LISTS: [&str; 4] = ["ints", "bools", "strings", "versions"];
const MEMBERS: [&str; 8] = ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];
const ONE_NODE_CHOICE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";

/// Validates a device; `old` is the device of that name before the change.
pub(crate) fn validate(old: Option<&Value>, device: &Value, per_device_nodes: bool, path: &Path, faults: &mut Faults) {
    let name = text(device, "name");
    faults.each(&path.child("name"), name, names::label(name));
    let properties = size(device, "attributes") + size(device, "capacity");
    if properties > PROPERTIES {
        let why = format!("the total number of attributes and capacities must not exceed {PROPERTIES}");
        faults.push(invalid(path, properties, why));
    }
    let values: usize = entries(device, "attributes")
        .map(|(_, attribute)| LISTS.iter().map(|name| list(attribute, name).len()).sum::<usize>().max(1))
        .sum();
    if values > VALUES {
        faults.push(invalid(path, values, format!("the total number of attribute values must not exceed {VALUES}")));
    }
    let at = path.child("attributes");
    for (key, value) in entries(device, "attributes") {
        qualified_name(key, &at, faults);
        attribute(value, &at.key(&shortened(key)), faults);
    }
    if old.is_none_or(|old| !same(field(old, "capacity"), field(device, "capacity"))) {
        let shared = flag(device, "allowMultipleAllocations") == Some(true);
        let at = path.child("capacity");
        for (key, value) in entries(device, "capacity") {
            qualified_name(key, &at, faults);
            let policy = at.key(&shortened(key)).child("requestPolicy");
            match (is_set(value, "requestPolicy"), shared) {
                (false, _) => {}
                (true, false) => faults.push(forbidden(&policy, "allowMultipleAllocations must be true")),
                (true, true) => capacity::policy(field(value, "value"), field(value, "requestPolicy"), &policy, faults),
            }
        }
    }
    if old.is_none_or(|old| !same(field(old, "taints"), field(device, "taints"))) {
        let (taints, at) = (list(device, "taints"), path.child("taints"));
        if taints.len() > TAINTS {
            faults.push(too_many(&at, taints.len(), TAINTS));
        } else {
            for (number, entry) in taints.iter().enumerate() {
                taint(entry, &at.index(number), faults);
            }
        }
    }
    consumed(list(device, "consumesCounters"), &path.child("consumesCounters"), faults);
    nodes(device, per_device_nodes, path, faults);
    binding_conditions(device, path, faults);
}

/// A key in a path, cut in the middle where it is longer than any valid one.
fn shortened(key: &str) -> String {
    if key.len() <= QUALIFIED {
        return key.to_owned();
    }
    let keep = QUALIFIED - 3;
    let head: String = key.chars().take(keep.div_ceil(2)).collect();
    let tail: Vec<char> = key.chars().rev().take(keep / 2).collect();
    format!("{head}...{}", tail.into_iter().rev().collect::<String>())
}

/// `id` or `domain/id`.
fn qualified_name(name: &str, path: &Path, faults: &mut Faults) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [id] => identifier(id, path, faults),
        [domain, id] => {
            if domain.is_empty() {
                faults.push(invalid(path, "", "the domain must not be empty"));
            } else {
                driver_name(domain, path, faults);
            }
            if id.is_empty() {
                faults.push(invalid(path, "", "the name must not be empty"));
            } else {
                identifier(id, path, faults);
            }
        }
        // Upstream lets more slashes pass (a TODO of its own).
        _ => {}
    }
}

fn identifier(id: &str, path: &Path, faults: &mut Faults) {
    if id.len() > 32 {
        faults.push(too_long(path, 32));
    }
    faults.each(path, id, names::c_identifier(id));
}

fn attribute(attribute: &Value, path: &Path, faults: &mut Faults) {
    let set: Vec<&str> = MEMBERS.into_iter().filter(|member| is_set(attribute, member)).collect();
    if let Some(value) = optional(attribute, "string")
        && value.len() > VALUE
    {
        faults.push(too_long(&path.child("string"), VALUE));
    }
    if let Some(value) = optional(attribute, "version") {
        version(value, &path.child("version"), faults);
    }
    for member in ["bools", "ints", "strings", "versions"] {
        if is_set(attribute, member) && list(attribute, member).is_empty() {
            faults.push(invalid(&path.child(member), Bad::raw("[]"), "must not be empty if specified"));
        }
    }
    for (number, value) in list(attribute, "strings").iter().enumerate() {
        if value.as_str().is_some_and(|value| value.len() > VALUE) {
            faults.declare(too_long(&path.child("strings").index(number), VALUE));
        }
    }
    for (number, value) in list(attribute, "versions").iter().enumerate() {
        version(value.as_str().unwrap_or_default(), &path.child("versions").index(number), faults);
    }
    let all: Vec<String> = MEMBERS.iter().map(|member| format!("`{member}`")).collect();
    let all = all.join(", ");
    match set.len() {
        0 => faults.declare(invalid(path, "", format!("must specify one of: {all}"))),
        1 => {}
        _ => faults.declare(invalid(path, &format!("{{{}}}", set.join(", ")), format!("must specify exactly one of: {all}"))),
    }
}

fn version(value: &str, path: &Path, faults: &mut Faults) {
    if Semver::parse(value).is_err() {
        faults.push(invalid(path, value, "must be a string compatible with semver.org spec 2.0.0"));
    }
    if value.len() > VALUE {
        faults.push(too_long(path, VALUE));
    }
}

fn taint(taint: &Value, path: &Path, faults: &mut Faults) {
    let (key, value) = (text(taint, "key"), text(taint, "value"));
    faults.each(&path.child("key"), key, names::qualified(key));
    if !value.is_empty() {
        faults.each(&path.child("value"), value, names::label_value(value));
    }
    match text(taint, "effect") {
        "NoSchedule" | "NoExecute" | "None" => {}
        "" => faults.declare(required(&path.child("effect"), "")),
        other => faults.declare(not_supported(&path.child("effect"), other, &["NoExecute", "NoSchedule", "None"])),
    }
}

fn consumed(sets: &[Value], path: &Path, faults: &mut Faults) {
    if sets.len() > CONSUMED {
        faults.declare(too_many(path, sets.len(), CONSUMED));
        return;
    }
    let mut seen = BTreeSet::new();
    for (number, set) in sets.iter().enumerate() {
        if !seen.insert(text(set, "counterSet")) {
            let shown = go::print("DeviceCounterConsumption", set, go::Form::Versioned);
            faults.declare(duplicate(&path.index(number), Bad::raw(shown)));
        }
    }
    for (number, set) in sets.iter().enumerate() {
        counters(set, "counterSet", &path.index(number), faults);
    }
}

fn nodes(device: &Value, per_device: bool, path: &Path, faults: &mut Faults) {
    let choices = ["nodeName", "nodeSelector", "allNodes"];
    if !per_device {
        if choices.iter().any(|choice| is_set(device, choice)) {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            faults.push(invalid(path, Bad::nil(), why));
        }
        return;
    }
    let mut set = Vec::new();
    if let Some(name) = optional(device, "nodeName") {
        if name.is_empty() {
            faults.push(invalid(&path.child("nodeName"), name, "must not be empty"));
        } else {
            set.push("`nodeName`");
            faults.each(&path.child("nodeName"), name, names::subdomain(name));
        }
    }
    if is_set(device, "nodeSelector") {
        set.push("`nodeSelector`");
        node_selector::validate(field(device, "nodeSelector"), &path.child("nodeSelector"), faults);
    }
    match flag(device, "allNodes") {
        Some(true) => set.push("`allNodes`"),
        Some(false) => faults.push(invalid(&path.child("allNodes"), false, "must be either unset or set to true")),
        None => {}
    }
    match set.len() {
        0 => faults.push(required(path, ONE_NODE_CHOICE)),
        1 => {}
        _ => faults.push(invalid(path, &format!("{{{}}}", set.join(", ")), ONE_NODE_CHOICE)),
    }
}
