//! Objects of `resource.k8s.io/v1alpha3`, `v1beta1` and `v1beta2` as `v1` has them.
//!
//! The shapes differ in three places: requests of `v1alpha3` and `v1beta1` are flat where later versions have `exactly`, devices
//! of slices have `basic` there, and capacities of `v1alpha3` are plain quantities (`pkg/apis/resource/v1beta1/conversion.go`).

use serde_json::{Map, Value, json};

/// The group of DRA's kinds.
pub const GROUP: &str = "resource.k8s.io";

/// An object as `resource.k8s.io/v1` has it; `None` if it is no object of that group. What is in the shape of `v1` already stays.
#[must_use]
pub fn to_v1(object: &Value) -> Option<Value> {
    let (group, _) = object.get("apiVersion")?.as_str()?.split_once('/')?;
    if group != GROUP {
        return None;
    }
    let mut converted = object.clone();
    converted["apiVersion"] = json!(format!("{GROUP}/v1"));
    match object.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "ResourceClaim" => claim(converted.pointer_mut("/spec/devices")),
        "ResourceClaimTemplate" => claim(converted.pointer_mut("/spec/spec/devices")),
        "ResourceSlice" => slice(converted.pointer_mut("/spec/devices")),
        _ => {}
    }
    Some(converted)
}

fn claim(devices: Option<&mut Value>) {
    let requests = devices.and_then(|devices| devices.get_mut("requests")).and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten() {
        let Some(fields) = request.as_object_mut() else { continue };
        let flat: Vec<String> =
            fields.keys().filter(|name| !matches!(name.as_str(), "name" | "exactly" | "firstAvailable")).cloned().collect();
        if flat.is_empty() || !flat.iter().any(|name| FLAT.contains(&name.as_str())) {
            continue;
        }
        let mut exactly = match fields.remove("exactly") {
            Some(Value::Object(exactly)) => exactly,
            _ => Map::new(),
        };
        for name in flat.into_iter().filter(|name| FLAT.contains(&name.as_str())) {
            if let Some(value) = fields.remove(&name) {
                exactly.entry(name).or_insert(value);
            }
        }
        fields.insert("exactly".to_owned(), Value::Object(exactly));
    }
}

/// The fields of a request that later versions have under `exactly`.
pub const FLAT: [&str; 8] =
    ["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity", "derivedAttributes"];

fn slice(devices: Option<&mut Value>) {
    for device in devices.and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(fields) = device.as_object_mut() else { continue };
        if let Some(Value::Object(basic)) = fields.remove("basic") {
            for (name, value) in basic {
                fields.entry(name).or_insert(value);
            }
        }
        for amount in fields.get_mut("capacity").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            if !amount.is_object() {
                *amount = json!({"value": amount.clone()});
            }
        }
    }
}

/// Whether converting changes more than the version's name.
#[must_use]
pub fn changes_shape(object: &Value) -> bool {
    to_v1(object).is_some_and(|converted| {
        let mut renamed = object.clone();
        renamed["apiVersion"] = converted["apiVersion"].clone();
        renamed != converted
    })
}

#[cfg(test)]
mod tests {
    use super::{changes_shape, to_v1};
    use serde_json::json;

    #[test]
    fn old_shapes_become_those_of_v1() {
        for (object, expected) in [
            (
                json!({"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "spec": {"devices": {"requests": [
                    {"name": "gpu", "deviceClassName": "c", "count": 2}, {"name": "alt", "firstAvailable": [{"name": "a"}]}]}}}),
                json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {"devices": {"requests": [
                    {"name": "gpu", "exactly": {"deviceClassName": "c", "count": 2}}, {"name": "alt", "firstAvailable": [{"name": "a"}]}]}}}),
            ),
            (
                json!({"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlice", "spec": {"devices": [
                    {"name": "d", "basic": {"attributes": {"a": {"int": 1}}, "capacity": {"memory": "80Gi"}}}]}}),
                json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": {"devices": [
                    {"name": "d", "attributes": {"a": {"int": 1}}, "capacity": {"memory": {"value": "80Gi"}}}]}}),
            ),
        ] {
            assert_eq!(to_v1(&object), Some(expected));
            assert!(changes_shape(&object));
        }
        assert_eq!(to_v1(&json!({"apiVersion": "v1", "kind": "Pod"})), None);
        assert!(!changes_shape(&json!({"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceClass"})));
        // Whatever the shape, nothing fails.
        for odd in [json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": 3}), json!({"apiVersion": 1}), json!(null)]
        {
            let _ = to_v1(&odd);
        }
    }
}
