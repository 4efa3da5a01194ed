//! Writes objects with dry run and looks which fields come back: a gate that is off drops its fields without a word.

use futures::future::join_all;
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::base::clock::Clock;
use crate::client::{ClientError, Kinds};
use crate::doctor::Blind;
use crate::doctor::facts::{Dropped, Part, Probe, time};

/// One object that is written, and the fields that are looked for in the answer, as JSON pointers, each with its gate.
struct Question {
    kind: &'static str,
    object: Value,
    fields: &'static [(&'static str, &'static str, &'static str)],
}

fn questions() -> Vec<Question> {
    let metadata = json!({"generateName": "dralab-doctor-"});
    let slice = |spec: Value| {
        let mut object = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata,
            "spec": {"driver": "doctor.dralab.dev", "nodeName": "dralab-doctor", "pool": {"name": "dralab-doctor", "generation": 1, "resourceSliceCount": 1}}});
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        object
    };
    vec![
        Question {
            kind: "pods",
            object: json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {
                "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
                "containers": [{"name": "c", "image": "registry.k8s.io/pause", "resources": {"claims": [{"name": "c"}]}}]}}),
            fields: &[
                ("/spec/resourceClaims/0", "Pod spec.resourceClaims", "DynamicResourceAllocation"),
                ("/spec/containers/0/resources/claims/0", "Pod spec.containers.resources.claims", "DynamicResourceAllocation"),
            ],
        },
        Question {
            kind: "resourceclaims.resource.k8s.io",
            object: json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": {"requests": [
                {"name": "a", "firstAvailable": [{"name": "x", "deviceClassName": "gpu.example.com"}]},
                {"name": "b", "exactly": {"deviceClassName": "gpu.example.com", "tolerations": [{"key": "k", "operator": "Exists"}]}},
                {"name": "c", "exactly": {"deviceClassName": "gpu.example.com", "capacity": {"requests": {"memory": "1Gi"}}}}]}}}),
            fields: &[
                ("/spec/devices/requests/0/firstAvailable/0", "ResourceClaim spec.devices.requests.firstAvailable", "DRAPrioritizedList"),
                (
                    "/spec/devices/requests/1/exactly/tolerations/0",
                    "ResourceClaim spec.devices.requests.exactly.tolerations",
                    "DRADeviceTaints",
                ),
                (
                    "/spec/devices/requests/2/exactly/capacity",
                    "ResourceClaim spec.devices.requests.exactly.capacity",
                    "DRAConsumableCapacity",
                ),
            ],
        },
        Question {
            kind: "resourceslices.resource.k8s.io",
            object: slice(json!({"devices": [
                {"name": "a", "taints": [{"key": "k", "effect": "NoSchedule"}]},
                {"name": "b", "allowMultipleAllocations": true, "capacity": {"memory": {"value": "1Gi"}}},
                {"name": "c", "bindsToNode": true, "bindingConditions": ["example.com/Ready"], "bindingFailureConditions": ["example.com/Failed"]}]})),
            fields: &[
                ("/spec/devices/0/taints/0", "ResourceSlice spec.devices.taints", "DRADeviceTaints"),
                (
                    "/spec/devices/1/allowMultipleAllocations",
                    "ResourceSlice spec.devices.allowMultipleAllocations",
                    "DRAConsumableCapacity",
                ),
                ("/spec/devices/2/bindingConditions/0", "ResourceSlice spec.devices.bindingConditions", "DRADeviceBindingConditions"),
            ],
        },
        Question {
            kind: "resourceslices.resource.k8s.io",
            object: slice(json!({"sharedCounters": [{"name": "s", "counters": {"memory": {"value": "1Gi"}}}]})),
            fields: &[("/spec/sharedCounters/0", "ResourceSlice spec.sharedCounters", "DRAPartitionableDevices")],
        },
        Question {
            kind: "deviceclasses.resource.k8s.io",
            object: json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata,
                "spec": {"extendedResourceName": "dralab.dev/doctor"}}),
            fields: &[("/spec/extendedResourceName", "DeviceClass spec.extendedResourceName", "DRAExtendedResource")],
        },
    ]
}

/// Asks. What the server refuses is not judged; when it refuses everything, nothing can be said.
///
/// # Errors
/// When nothing was accepted, with the first refusal.
pub(super) async fn probe(client: &Client, kinds: &Kinds, clock: &dyn Clock) -> Part<Probe> {
    let before = clock.now();
    let questions = questions();
    let answers = join_all(questions.iter().map(|question| write(client, kinds, question))).await;
    let asked = (before, clock.now());
    let mut probe = Probe { server_time: None, asked, dropped: Vec::new() };
    let mut refusal = None;
    let mut accepted = false;
    for (question, answer) in questions.iter().zip(answers) {
        match answer {
            Ok(object) => {
                accepted = true;
                probe.server_time = probe.server_time.or_else(|| time(&object["metadata"]["creationTimestamp"]));
                let gone = question.fields.iter().filter(|(pointer, _, _)| object.pointer(pointer).is_none_or(Value::is_null));
                probe.dropped.extend(gone.map(|(_, field, gate)| Dropped { field: (*field).to_owned(), gate: (*gate).to_owned() }));
            }
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    match refusal {
        Some(error) if !accepted => Err(Blind::because(error)),
        _ => Ok(probe),
    }
}

async fn write(client: &Client, kinds: &Kinds, question: &Question) -> Result<Value, ClientError> {
    let kind = kinds.find(question.kind)?;
    let path = format!("{}?dryRun=All&fieldManager=dralab-doctor", kind.path(Some("default")));
    let wrong = |error: String| ClientError::Answer { what: path.clone(), reason: error };
    let body = serde_json::to_vec(&question.object).map_err(|error| wrong(error.to_string()))?;
    let request = Request::post(&path).header(http::header::CONTENT_TYPE, "application/json").body(body);
    Ok(client.request::<Value>(request.map_err(|error| wrong(error.to_string()))?).await?)
}
