//! ResourceSlice: preparation and validation (`pkg/registry/resource/resourceslice/strategy.go`,
//! `pkg/apis/resource/validation`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::field::{Bad, Faults, Path, duplicate, invalid, required, too_long, too_many};
use super::json::{default, entries, field, flag, int, is_set, list, list_mut, optional, remove, same, set_meta, size, text};
use super::meta::{self, Naming};
use super::{device, go, names, node_selector};
use crate::model::features::{Feature, Features};

/// Devices of a slice.
const DEVICES: usize = 128;
/// Devices of a slice that uses taints, counters or list attributes.
const ADVANCED_DEVICES: usize = 64;
/// Counter sets of a slice.
const COUNTER_SETS: usize = 8;
/// Counters of a set, and of what a device consumes of one set.
const COUNTERS: usize = 32;

const NODES: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

/// Defaults of a new or changed slice (`now` is RFC 3339); fields whose gate is off and that were not in use go.
fn defaults(slice: &mut Value, old: Option<&Value>, features: Features, now: &str) {
    if !slice["spec"].is_object() {
        slice["spec"] = json!({});
    }
    let spec = &mut slice["spec"];
    if !spec["pool"].is_object() {
        spec["pool"] = json!({});
    }
    let pool = &mut spec["pool"];
    for name in ["generation", "resourceSliceCount"] {
        default(pool, name, || json!(0));
    }
    default(pool, "name", || json!(""));
    default(spec, "driver", || json!(""));
    // Quantities are no pointers in Go: one that is missing is zero.
    let zero = |map: &mut Value, name: &str| {
        for amount in map.get_mut(name).and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
            default(amount, "value", || json!("0"));
        }
    };
    list_mut(spec, "sharedCounters").for_each(|set| zero(set, "counters"));
    for device in list_mut(spec, "devices") {
        zero(device, "capacity");
        list_mut(device, "consumesCounters").for_each(|consumed| zero(consumed, "counters"));
        for taint in list_mut(device, "taints") {
            default(taint, "timeAdded", || json!(now));
        }
    }
    let was = |used: fn(&Value) -> bool| old.is_some_and(|old| list(field(old, "spec"), "devices").iter().any(used));
    if !features.has(Feature::ListTypeAttributes) && !was(|device| entries(device, "attributes").any(|(_, value)| has_list(value))) {
        for device in list_mut(spec, "devices") {
            for attribute in device.get_mut("attributes").and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
                for name in ["ints", "bools", "strings", "versions"] {
                    remove(attribute, name);
                }
            }
        }
    }
    if !features.has(Feature::NodeAllocatableResources) && !was(|device| size(device, "nodeAllocatableResources") > 0) {
        list_mut(spec, "devices").for_each(|device| remove(device, "nodeAllocatableResources"));
    }
    if !features.has(Feature::DeviceCompatibilityGroups)
        && !was(|device| list(device, "consumesCounters").iter().any(|consumed| is_set(consumed, "compatibilityGroups")))
    {
        for device in list_mut(spec, "devices") {
            list_mut(device, "consumesCounters").for_each(|consumed| remove(consumed, "compatibilityGroups"));
        }
    }
    let had = |name: &str| old.is_some_and(|old| is_set(field(old, "spec"), name));
    if !features.has(Feature::OptionalNodeOperations) && !had("skipNodeOperations") {
        remove(spec, "skipNodeOperations");
    }
    if !features.has(Feature::PartitionableDevicesType) && !had("partitionTypeAttribute") {
        remove(spec, "partitionTypeAttribute");
    }
}

fn has_list(attribute: &Value) -> bool {
    ["ints", "bools", "strings", "versions"].iter().any(|name| is_set(attribute, name))
}

/// A new slice has generation 1.
pub(crate) fn prepare_create(slice: &mut Value, features: Features, now: &str) {
    defaults(slice, None, features, now);
    set_meta(slice, "generation", json!(1));
}

/// A change of the spec raises the generation.
pub(crate) fn prepare_update(old: &Value, new: &mut Value, features: Features, now: &str) {
    defaults(new, Some(old), features, now);
    super::json::raise_if_changed(old, new);
}

/// Validates a new slice, or with `old` a changed one.
pub(crate) fn validate(old: Option<&Value>, slice: &Value, faults: &mut Faults) {
    match old {
        None => meta::validate(slice, false, Naming::Subdomain, true, faults),
        Some(old) => meta::validate_update(old, slice, faults),
    }
    let (spec, path) = (field(slice, "spec"), Path::new("spec"));
    let old = old.map(|old| field(old, "spec"));
    let (driver, pool) = (text(spec, "driver"), field(spec, "pool"));
    driver_name(driver, &path.child("driver"), faults);
    self::pool(pool, &path.child("pool"), faults);
    if let Some(old) = old {
        immutable(field(field(old, "pool"), "name"), field(pool, "name"), &path.child("pool").child("name"), faults);
        immutable(field(old, "driver"), field(spec, "driver"), &path.child("driver"), faults);
        immutable(field(old, "nodeName"), field(spec, "nodeName"), &path.child("nodeName"), faults);
    }
    nodes(spec, &path, faults);
    let (devices, counter_sets) = (list(spec, "devices"), list(spec, "sharedCounters"));
    if is_set(spec, "sharedCounters") && is_set(spec, "devices") {
        faults.push(invalid(&path, "", "only one of `sharedCounters` or `devices` is allowed"));
    }
    let advanced = devices.iter().any(|device| {
        !list(device, "taints").is_empty()
            || !list(device, "consumesCounters").is_empty()
            || entries(device, "attributes").any(|(_, attribute)| has_list(attribute))
    });
    let most = if advanced { ADVANCED_DEVICES } else { DEVICES };
    let at = path.child("devices");
    if devices.len() > most {
        faults.push(too_many(&at, devices.len(), most));
    } else {
        let per_device = flag(spec, "perDeviceNodeSelection") == Some(true);
        for (number, entry) in devices.iter().enumerate() {
            let was = old.and_then(|old| list(old, "devices").iter().find(|was| text(was, "name") == text(entry, "name")));
            device::validate(was, entry, per_device, &at.index(number), faults);
        }
        let mut seen = BTreeSet::new();
        for (number, device) in devices.iter().enumerate() {
            if !seen.insert(text(device, "name")) {
                faults.push(duplicate(&at.index(number), text(device, "name")));
            }
        }
    }
    self::counter_sets(counter_sets, &path.child("sharedCounters"), faults);
}

fn immutable(old: &Value, new: &Value, path: &Path, faults: &mut Faults) {
    if !same(old, new) {
        faults.push(invalid(path, Bad::value(new), "field is immutable"));
    }
}

fn nodes(spec: &Value, path: &Path, faults: &mut Faults) {
    let mut set = Vec::new();
    if let Some(name) = optional(spec, "nodeName") {
        if name.is_empty() {
            faults.push(invalid(&path.child("nodeName"), name, "must be either unset or set to a non-empty string"));
        } else {
            set.push("`nodeName`");
            faults.each(&path.child("nodeName"), name, names::subdomain(name));
        }
    }
    if is_set(spec, "nodeSelector") {
        set.push("`nodeSelector`");
        let (selector, at) = (field(spec, "nodeSelector"), path.child("nodeSelector"));
        node_selector::validate(selector, &at, faults);
        if list(selector, "nodeSelectorTerms").len() != 1 {
            let shown = go::print("[NodeSelectorTerm", field(selector, "nodeSelectorTerms"), go::Form::Internal);
            faults.push(invalid(&at.child("nodeSelectorTerms"), Bad::raw(shown), "must have exactly one node selector term"));
        }
    }
    for (name, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match flag(spec, name) {
            Some(true) => set.push(shown),
            Some(false) => faults.push(invalid(&path.child(name), false, "must be either unset or set to true")),
            None => {}
        }
    }
    match set.len() {
        0 => faults.push(required(path, NODES)),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", set.join(", "));
            faults.push(invalid(path, &shown, format!("{NODES}, but multiple fields are set")));
        }
    }
}

/// A driver name: a DNS subdomain of at most 63 characters, in any case.
pub(crate) fn driver_name(name: &str, path: &Path, faults: &mut Faults) {
    if name.is_empty() {
        faults.push(required(path, ""));
        return;
    }
    if name.len() > 63 {
        faults.push(too_long(path, 63));
    }
    faults.each(path, name, names::subdomain(&name.to_lowercase()));
}

/// A pool name: DNS subdomains between slashes.
pub(crate) fn pool_name(name: &str, path: &Path, faults: &mut Faults) {
    if name.is_empty() {
        faults.push(required(path, ""));
        return;
    }
    if name.len() > 253 {
        faults.push(too_long(path, 253));
    }
    for part in name.split('/') {
        faults.each(path, part, names::subdomain(part));
    }
}

fn pool(pool: &Value, path: &Path, faults: &mut Faults) {
    pool_name(text(pool, "name"), &path.child("name"), faults);
    let (count, generation) = (int(pool, "resourceSliceCount"), int(pool, "generation"));
    if count <= 0 {
        faults.push(invalid(&path.child("resourceSliceCount"), count, "must be greater than zero"));
    }
    if generation < 0 {
        faults.push(invalid(&path.child("generation"), generation, "must be greater than or equal to zero"));
    }
}

fn counter_sets(sets: &[Value], path: &Path, faults: &mut Faults) {
    if sets.len() > COUNTER_SETS {
        faults.declare(too_many(path, sets.len(), COUNTER_SETS));
        return;
    }
    let mut seen = BTreeSet::new();
    for (number, set) in sets.iter().enumerate() {
        if !seen.insert(text(set, "name")) {
            faults.declare(duplicate(&path.index(number), Bad::raw(go::print("CounterSet", set, go::Form::Versioned))));
        }
    }
    for (number, set) in sets.iter().enumerate() {
        counters(set, "name", &path.index(number), faults);
    }
}

/// A named set of counters: of a slice (`name`), or what a device consumes of one (`counterSet`).
pub(crate) fn counters(set: &Value, name: &str, path: &Path, faults: &mut Faults) {
    let set_name = text(set, name);
    if set_name.is_empty() {
        faults.declare(required(&path.child(name), ""));
    } else {
        faults.declare_each(&path.child(name), set_name, names::short_name(set_name));
    }
    let (count, at) = (size(set, "counters"), path.child("counters"));
    if count == 0 {
        faults.declare(required(&at, ""));
    } else if count > COUNTERS {
        faults.push(too_many(&at, count, COUNTERS));
    }
    for (key, _) in entries(set, "counters") {
        faults.declare_each(&at, key, names::short_name(key));
    }
}

/// Conditions that a device waits for before a pod is bound.
pub(crate) fn binding_conditions(object: &Value, path: &Path, faults: &mut Faults) {
    const MOST: usize = 4;
    let (wanted, failing) = (list(object, "bindingConditions"), list(object, "bindingFailureConditions"));
    let (at, failure_at) = (path.child("bindingConditions"), path.child("bindingFailureConditions"));
    for (list, at) in [(wanted, &at), (failing, &failure_at)] {
        if list.len() > MOST {
            faults.declare(too_many(at, list.len(), MOST));
            continue;
        }
        for (number, name) in list.iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            faults.each(&at.index(number), name, names::qualified(name));
        }
    }
    let mut seen = BTreeSet::new();
    for (number, name) in wanted.iter().filter_map(Value::as_str).enumerate() {
        if !seen.insert(name) {
            faults.push(duplicate(&at.index(number), name));
        }
    }
    let mut seen_failing = BTreeSet::new();
    for (number, name) in failing.iter().filter_map(Value::as_str).enumerate() {
        if !seen_failing.insert(name) {
            faults.push(duplicate(&failure_at.index(number), name));
        }
        if seen.contains(name) {
            let why = "bindingFailureConditions must not overlap with bindingConditions";
            faults.push(invalid(&failure_at.index(number), name, why));
        }
    }
    if wanted.is_empty() && !failing.is_empty() {
        let why = "bindingConditions are required to use bindingFailureConditions";
        faults.push(invalid(&at, Bad::value(field(object, "bindingConditions")), why));
    }
    if failing.is_empty() && !wanted.is_empty() {
        let why = "bindingFailureConditions are required to use bindingConditions";
        faults.push(invalid(&failure_at, Bad::value(field(object, "bindingFailureConditions")), why));
    }
}
