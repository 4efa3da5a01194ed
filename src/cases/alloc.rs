//! Answers allocator cases.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::allocator::{AllocatedState, Allocator, ConsumedCapacity, Features, Outcome};
use crate::model::ids::DeviceId;
use crate::model::quantity::Quantity;

/// A search with more steps is given up; the longest recorded one has some 2,000.
const STEP_BUDGET: u64 = 20_000_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    node: Node,
    #[serde(default)]
    claims: Vec<Arc<ResourceClaim>>,
    #[serde(default)]
    device_classes: Vec<Arc<DeviceClass>>,
    #[serde(default)]
    resource_slices: Vec<Arc<ResourceSlice>>,
    #[serde(default)]
    allocated_state: State,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct State {
    devices: Vec<Device>,
    shared_devices: Vec<Shared>,
    aggregated_capacity: Vec<Aggregated>,
}

#[derive(Deserialize)]
struct Device {
    driver: String,
    pool: String,
    device: String,
}

#[derive(Deserialize)]
struct Shared {
    #[serde(flatten)]
    device: Device,
    #[serde(rename = "shareID", default)]
    share_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Aggregated {
    #[serde(flatten)]
    device: Device,
    #[serde(default)]
    consumed_capacity: BTreeMap<String, String>,
}

impl Device {
    fn id(&self) -> DeviceId {
        DeviceId::new(&self.driver, &self.pool, &self.device)
    }
}

impl State {
    fn read(self) -> Result<AllocatedState, String> {
        let mut state = AllocatedState { devices: self.devices.iter().map(Device::id).collect::<HashSet<_>>(), ..Default::default() };
        for shared in self.shared_devices {
            state.shared.entry(shared.device.id()).or_default().insert(shared.share_id);
        }
        for aggregated in self.aggregated_capacity {
            let mut consumed = ConsumedCapacity::new();
            for (name, amount) in aggregated.consumed_capacity {
                consumed.insert(name, Quantity::parse(&amount).map_err(|error| format!("quantity {amount:?}: {error}"))?);
            }
            state.aggregated_capacity.insert(aggregated.device.id(), consumed);
        }
        Ok(state)
    }
}

/// The answer to a case, without its file and name. What cannot be answered is skipped, with the reason.
pub(super) fn answer(case: &Value) -> Value {
    try_answer(case).unwrap_or_else(|reason| json!({"kind": "skipped", "skippedBecause": reason}))
}

fn try_answer(case: &Value) -> Result<Value, String> {
    let names: Vec<String> = Deserialize::deserialize(&case["features"]).map_err(|error| format!("features: {error}"))?;
    let features = Features::from_names(names).map_err(|error| error.to_string())?;
    let input = Input::deserialize(&case["input"]).map_err(|error| format!("input: {error}"))?;
    let state = input.allocated_state.read()?;
    let classes = input
        .device_classes
        .iter()
        .map(|class| (class.metadata.name.clone().unwrap_or_default(), Arc::clone(class)))
        .collect::<BTreeMap<_, _>>();
    let allocator = Allocator::new(features, &input.resource_slices, &classes, state).with_step_budget(STEP_BUDGET);
    let (outcome, steps) = allocator.allocate(&input.node, &input.claims);
    let (kind, allocations, message) = match outcome {
        Outcome::Fits(_) if input.claims.is_empty() => ("nothing-to-do", None, None),
        Outcome::Fits(allocations) => {
            let allocations = serde_json::to_value(allocations).map_err(|error| format!("allocations: {error}"))?;
            ("allocated", Some(allocations), None)
        }
        Outcome::DoesNotFit => ("does-not-fit", None, None),
        Outcome::NodeError(message) => ("node-error", None, Some(message)),
        Outcome::Invalid(message) => ("error", None, Some(message)),
        Outcome::GaveUp => ("gave-up", None, None),
    };
    Ok(json!({
        "kind": kind,
        "allocations": allocations,
        "errorMessage": message,
        "failedOnNodeOnly": kind == "node-error",
        "allocateOneInvocations": steps,
    }))
}

/// Whether the answer agrees with an outcome that is accepted: of the `experimental` allocator, or of the one that
/// Kubernetes picks. This is a loose check (devices and kind); `compare.py` is the judge.
pub(super) fn agrees(case: &Value, answer: &Value) -> bool {
    let default = case["defaultVariant"].as_str().unwrap_or_default();
    [&case["outcome"], &case["variantDifferences"][default]].iter().any(|outcome| outcome.is_object() && agrees_with(case, outcome, answer))
}

fn agrees_with(case: &Value, outcome: &Value, answer: &Value) -> bool {
    let nothing_to_do = case["input"]["claims"].as_array().is_none_or(Vec::is_empty);
    let kind = match (&outcome["errorMessage"], &outcome["allocations"]) {
        (Value::String(_), _) if outcome["failedOnNodeOnly"] == json!(true) => "node-error",
        (Value::String(_), _) => "error",
        (_, Value::Array(allocations)) if !allocations.is_empty() => "allocated",
        _ if nothing_to_do => "nothing-to-do",
        _ => "does-not-fit",
    };
    let message = answer["errorMessage"].as_str().unwrap_or_default();
    let substrings = case["errorSubstrings"].as_array().map(Vec::as_slice).unwrap_or_default();
    answer["kind"] == kind
        && devices(&outcome["allocations"]) == devices(&answer["allocations"])
        && (!kind.ends_with("error") || substrings.iter().all(|part| part.as_str().is_none_or(|part| message.contains(part))))
}

/// Request, driver, pool and device of each result, by claim.
fn devices(allocations: &Value) -> Vec<Vec<[&str; 4]>> {
    let allocations = allocations.as_array().map(Vec::as_slice).unwrap_or_default();
    allocations
        .iter()
        .map(|allocation| {
            let results = allocation["devices"]["results"].as_array().map(Vec::as_slice).unwrap_or_default();
            results
                .iter()
                .map(|result| ["request", "driver", "pool", "device"].map(|field| result[field].as_str().unwrap_or_default()))
                .collect()
        })
        .collect()
}
