//! Small inputs for the tables of this module.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use serde_json::{Value, json};

use super::{AllocatedState, Allocator, Features, Outcome};

/// Node `n1` in zone `a`.
pub(super) fn node() -> Node {
    serde_json::from_value(json!({"metadata": {"name": "n1", "labels": {"zone": "a"}}})).unwrap()
}

/// A slice of driver `d` on node `n1`, unless `rest` of its spec says otherwise.
pub(super) fn slice(name: &str, pool: &str, generation: i64, count: i64, rest: &Value) -> Arc<ResourceSlice> {
    let mut spec = json!({"driver": "d", "pool": {"name": pool, "generation": generation, "resourceSliceCount": count}});
    let places = ["nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"];
    if places.iter().all(|place| rest.get(place).is_none()) {
        spec["nodeName"] = json!("n1");
    }
    for (field, value) in rest.as_object().unwrap() {
        spec[field] = value.clone();
    }
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap())
}

/// The spec of a slice with devices of these names.
pub(super) fn devices(names: &[&str]) -> Value {
    json!({"devices": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()})
}

/// Claim `ns/c` with these requests.
pub(super) fn claim(requests: &Value) -> Arc<ResourceClaim> {
    whole_claim(&json!({"requests": requests}))
}

/// Claim `ns/c` with this `spec.devices`.
pub(super) fn whole_claim(devices: &Value) -> Arc<ResourceClaim> {
    Arc::new(serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": {"devices": devices}})).unwrap())
}

/// An allocator with the classes `any` and `other`, which select everything.
pub(super) fn allocator(features: Features, slices: &[Arc<ResourceSlice>]) -> Allocator {
    let class = |name: &str| -> Arc<DeviceClass> {
        let config = json!([{"opaque": {"driver": "d", "parameters": {"from": name}}}]);
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"config": config}})).unwrap())
    };
    let classes = ["any", "other"].map(|name| (name.to_owned(), class(name)));
    Allocator::new(features, slices, &BTreeMap::from(classes), AllocatedState::default())
}

/// The devices that were chosen as `request=pool/device`, or the message, or `does not fit`.
pub(super) fn summary(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Fits(results) => {
            let results = results.iter().filter_map(|result| result.devices.as_ref()?.results.as_ref()).flatten();
            results.map(|result| format!("{}={}/{}", result.request, result.pool, result.device)).collect::<Vec<_>>().join(" ")
        }
        Outcome::DoesNotFit => "does not fit".to_owned(),
        Outcome::NodeError(message) | Outcome::Invalid(message) => message.clone(),
        Outcome::GaveUp => "gave up".to_owned(),
    }
}
