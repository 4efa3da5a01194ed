//! The status that a kubelet writes for a pod (pure; upstream: `generateAPIPodStatus`, `status/generate.go`).

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::runtime::{Container, ContainerState, Ended, RestartPolicy, Runtime, Sandbox};
use crate::embedded::node::seconds;

/// Conditions that the kubelet owns, in the order in which it writes them.
const OWNED: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// How far a pod's end has come; the phase says that it is over only at the last stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its containers run, or will.
    Live,
    /// All its containers are stopped and its claims given up: it is over.
    Over,
}

/// The surroundings that a status names.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// The node's address.
    pub host: &'a str,
    /// The generation of the pod that the agent has acted on.
    pub generation: Option<i64>,
    /// The time.
    pub now: Timestamp,
}

/// Per container (by name): the claims it uses, with the ids of their devices.
pub type Devices<'a> = dyn Fn(&Value) -> Vec<(String, Vec<String>)> + 'a;

/// The new status of a pod: what the kubelet owns is computed, everything else in `pod.status` stays.
#[must_use]
pub fn generate(pod: &Value, runtime: &Runtime, stage: Stage, surroundings: &Surroundings<'_>, devices: &Devices<'_>) -> Value {
    let old = &pod["status"];
    let mut status: Map<String, Value> = old.as_object().cloned().unwrap_or_default();
    let computed = phase(pod, runtime, stage);
    let over = |phase: &str| phase == "Succeeded" || phase == "Failed";
    let before = old["phase"].as_str().unwrap_or("Pending");
    // A pod whose containers are still to be cleaned up keeps its phase; a pod that is over stays so.
    let written = if over(before) || (over(computed) && stage == Stage::Live) { before } else { computed };
    let generation = surroundings.generation;

    status.insert("observedGeneration".into(), json!(generation));
    status.insert("phase".into(), json!(written));
    status.insert("conditions".into(), conditions(pod, runtime, computed, generation, surroundings.now));
    status.insert("hostIP".into(), json!(surroundings.host));
    status.insert("hostIPs".into(), json!([{"ip": surroundings.host}]));
    if let Some(address) = &runtime.address {
        status.insert("podIP".into(), json!(address));
        status.insert("podIPs".into(), json!([{"ip": address}]));
    }
    status.insert("startTime".into(), json!(seconds(runtime.started)));
    let statuses = |list: &[Container], specs: &Value, main: bool| -> Vec<Value> {
        let specs = specs.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter()
            .zip(specs)
            .map(|(container, spec)| container_status(spec, container, main, stage, if main { devices(spec) } else { Vec::new() }))
            .collect()
    };
    if !runtime.init.is_empty() {
        status.insert("initContainerStatuses".into(), json!(statuses(&runtime.init, &pod["spec"]["initContainers"], false)));
    }
    let mut main = statuses(&runtime.containers, &pod["spec"]["containers"], true);
    // The kubelet sorts them by name.
    main.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    status.insert("containerStatuses".into(), json!(main));
    let resources = pod_resources(pod);
    if let Some(requests) = resources.get("requests") {
        status.insert("allocatedResources".into(), requests.clone());
    }
    status.insert("resources".into(), Value::Object(resources));
    Value::Object(status)
}

/// The status with only the sandbox condition brought up to date, which the kubelet writes as soon as the sandbox
/// stands (`OnPodSandboxReady`): all else stays as it was written before.
#[must_use]
pub fn sandbox_ready(pod: &Value, now: Timestamp) -> Value {
    let mut status = pod["status"].clone();
    for condition in status["conditions"].as_array_mut().into_iter().flatten().filter(|c| c["type"] == "PodReadyToStartContainers") {
        if condition["status"] != "True" {
            let generation = condition["observedGeneration"].clone();
            *condition = json!({
                "type": "PodReadyToStartContainers", "observedGeneration": generation, "status": "True",
                "lastProbeTime": null, "lastTransitionTime": seconds(now),
            });
        }
    }
    status
}

/// The phase that the containers' states make up (`getPhase`).
fn phase(pod: &Value, runtime: &Runtime, stage: Stage) -> &'static str {
    let policy = RestartPolicy::of(pod);
    let failed = |c: &Container| c.ended().is_some_and(|e| e.code != 0);
    if !runtime.init.is_empty() && !runtime.containers.iter().any(Container::was_started) {
        let broken = runtime.init.iter().any(|c| failed(c) && policy == RestartPolicy::Never);
        if broken || (stage == Stage::Over && runtime.init.iter().any(&failed)) {
            return "Failed";
        }
        if stage == Stage::Live {
            return "Pending";
        }
    }
    let waiting = runtime.containers.iter().any(|c| !c.running() && c.ended().is_none());
    if waiting {
        return if stage == Stage::Over { "Failed" } else { "Pending" };
    }
    if runtime.containers.iter().any(Container::running) {
        return "Running";
    }
    let all_well = !runtime.containers.iter().any(failed);
    let restarts = runtime.containers.iter().filter_map(Container::ended).any(|e| policy.restarts(e.code));
    match (stage, restarts, all_well) {
        (Stage::Live, true, _) => "Running",
        (_, _, true) => "Succeeded",
        (_, _, false) => "Failed",
    }
}

fn conditions(pod: &Value, runtime: &Runtime, phase: &str, generation: Option<i64>, now: Timestamp) -> Value {
    let old = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let never_started = !runtime.containers.iter().any(Container::was_started);
    // Upstream marks containers that never were as failed after it has computed the conditions.
    let phase = if phase == "Failed" && never_started && runtime.init.iter().all(|c| c.ended().is_none()) { "Pending" } else { phase };
    let names = |unready: &[&str]| format!("[{}]", unready.join(" "));

    let sandbox = match runtime.sandbox {
        Sandbox::Ready => ("True", "", String::new()),
        Sandbox::None => ("False", "PodSandboxNotReady", "no pod sandbox exists".to_owned()),
        Sandbox::Stopped => ("False", "PodSandboxNotReady", "pod sandbox is not ready".to_owned()),
    };
    let complete = |index: usize, c: &Container| if is_sidecar(pod, index) { c.running() } else { c.ended().is_some_and(|e| e.code == 0) };
    let incomplete: Vec<&str> = runtime.init.iter().enumerate().filter(|(i, c)| !complete(*i, c)).map(|(_, c)| c.name.as_str()).collect();
    let initialized = if phase == "Succeeded" {
        ("True", "PodCompleted", String::new())
    } else if !never_started || incomplete.is_empty() {
        ("True", "", String::new())
    } else {
        ("False", "ContainersNotInitialized", format!("containers with incomplete status: {}", names(&incomplete)))
    };
    let unready: Vec<&str> = runtime.containers.iter().filter(|c| !c.running()).map(|c| c.name.as_str()).collect();
    let ready = match phase {
        "Succeeded" => ("False", "PodCompleted", String::new()),
        "Failed" => ("False", "PodFailed", String::new()),
        _ if unready.is_empty() => ("True", "", String::new()),
        _ => ("False", "ContainersNotReady", format!("containers with unready status: {}", names(&unready))),
    };
    let gates = pod["spec"]["readinessGates"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pod_ready = if ready.0 == "True" { gated(gates, old) } else { ready.clone() };

    let mut all: Vec<Value> = old.iter().filter(|c| c["type"].as_str().is_none_or(|t| !OWNED.contains(&t))).cloned().collect();
    let values = [sandbox, initialized, pod_ready, ready, ("True", "", String::new())];
    for (kind, (state, reason, message)) in OWNED.iter().zip(values) {
        let before = old.iter().find(|c| c["type"] == *kind);
        let since = before.filter(|c| c["status"] == state).map(|c| c["lastTransitionTime"].clone());
        let mut condition = json!({
            "type": kind, "observedGeneration": generation, "status": state, "lastProbeTime": null,
            "lastTransitionTime": since.filter(|t| !t.is_null()).unwrap_or_else(|| json!(seconds(now))),
        });
        if !reason.is_empty() {
            condition["reason"] = json!(reason);
        }
        if !message.is_empty() {
            condition["message"] = json!(message);
        }
        all.push(condition);
    }
    Value::Array(all)
}

/// The Ready condition of a pod with readiness gates whose containers are ready.
fn gated(gates: &[Value], conditions: &[Value]) -> (&'static str, &'static str, String) {
    let mut messages = Vec::new();
    for gate in gates {
        let kind = gate["conditionType"].as_str().unwrap_or_default();
        match conditions.iter().find(|c| c["type"] == kind) {
            None => messages.push(format!("corresponding condition of pod readiness gate \"{kind}\" does not exist.")),
            Some(c) if c["status"] != "True" => {
                let status = c["status"].as_str().unwrap_or_default();
                messages.push(format!("the status of pod readiness gate \"{kind}\" is not \"True\", but {status}"));
            }
            Some(_) => {}
        }
    }
    if messages.is_empty() { ("True", "", String::new()) } else { ("False", "ReadinessGatesNotReady", messages.join(", ")) }
}

/// True for an init container that keeps running beside the others.
#[must_use]
pub fn is_sidecar(pod: &Value, index: usize) -> bool {
    pod["spec"]["initContainers"][index]["restartPolicy"] == "Always"
}

fn container_status(spec: &Value, container: &Container, main: bool, stage: Stage, devices: Vec<(String, Vec<String>)>) -> Value {
    let image = spec["image"].as_str().unwrap_or_default();
    let started = container.was_started();
    let state = match &container.state {
        ContainerState::Waiting { .. } if stage == Stage::Over && container.last.is_none() => json!({"terminated": {
            "exitCode": 137, "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated", "startedAt": null, "finishedAt": null,
        }}),
        ContainerState::Waiting { .. } if stage == Stage::Over => container.last.as_ref().map_or(json!({}), ended),
        ContainerState::Waiting { reason, message } if message.is_empty() => json!({"waiting": {"reason": reason}}),
        ContainerState::Waiting { reason, message } => json!({"waiting": {"reason": reason, "message": message}}),
        ContainerState::Running(since) => json!({"running": {"startedAt": seconds(*since)}}),
        ContainerState::Ended(end) => ended(end),
    };
    let completed_init = !main && container.ended().is_some_and(|e| e.code == 0);
    let mut status = json!({
        "name": container.name, "state": state,
        "lastState": container.last.as_ref().map_or(json!({}), ended),
        "ready": container.running() || completed_init,
        "restartCount": container.restarts,
        "image": if started { full_image(image) } else { image.to_owned() },
        "imageID": if started { image_id(image) } else { String::new() },
        "started": container.running(),
    });
    if started {
        status["containerID"] = json!(container.id);
        let resources = spec["resources"].as_object().cloned().unwrap_or_default();
        if let Some(requests) = resources.get("requests").filter(|r| r.as_object().is_some_and(|r| !r.is_empty())) {
            status["allocatedResources"] = requests.clone();
        }
        status["resources"] = Value::Object(resources);
        let id = spec["securityContext"]["runAsUser"].as_i64().unwrap_or(0);
        let group = spec["securityContext"]["runAsGroup"].as_i64().unwrap_or(0);
        status["user"] = json!({"linux": {"uid": id, "gid": group, "supplementalGroups": [group]}});
    }
    let mounts: Vec<Value> = spec["volumeMounts"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|mount| {
            let mut shown = json!({"name": mount["name"], "mountPath": mount["mountPath"]});
            if mount["readOnly"] == true {
                shown["readOnly"] = json!(true);
                shown["recursiveReadOnly"] = json!("Disabled");
            }
            shown
        })
        .collect();
    if !mounts.is_empty() {
        status["volumeMounts"] = json!(mounts);
    }
    let allocated: Vec<Value> = devices
        .into_iter()
        .map(|(name, ids)| {
            let resources: Vec<Value> = ids.into_iter().map(|id| json!({"resourceID": id, "health": "Unknown"})).collect();
            json!({"name": name, "resources": resources})
        })
        .collect();
    if !allocated.is_empty() {
        status["allocatedResourcesStatus"] = json!(allocated);
    }
    status
}

fn ended(end: &Ended) -> Value {
    let time = |at: Option<Timestamp>| at.map_or(Value::Null, |at| json!(seconds(at)));
    let mut terminated =
        json!({"exitCode": end.code, "reason": end.reason, "startedAt": time(end.started), "finishedAt": time(end.finished)});
    if !end.message.is_empty() {
        terminated["message"] = json!(end.message);
    }
    if !end.id.is_empty() {
        terminated["containerID"] = json!(end.id);
    }
    json!({"terminated": terminated})
}

/// What pod-level status says of resources: the sums over its containers.
fn pod_resources(pod: &Value) -> Map<String, Value> {
    use crate::model::quantity::Quantity;
    let mut sums: Map<String, Value> = Map::new();
    for kind in ["limits", "requests"] {
        let mut totals: std::collections::BTreeMap<&str, Quantity> = std::collections::BTreeMap::new();
        let containers = pod["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
        for container in containers {
            for (name, value) in container["resources"][kind].as_object().into_iter().flatten() {
                // Upstream adds up processor and memory only.
                if !matches!(name.as_str(), "cpu" | "memory") && !name.starts_with("hugepages-") {
                    continue;
                }
                if let Ok(quantity) = Quantity::parse(value.as_str().unwrap_or_default()) {
                    let sum = totals.get(name.as_str()).map_or(quantity.clone(), |before| before.add(&quantity));
                    totals.insert(name, sum);
                }
            }
        }
        if !totals.is_empty() {
            let totals: Map<String, Value> = totals.into_iter().map(|(name, sum)| (name.to_owned(), json!(sum.to_string()))).collect();
            sums.insert(kind.to_owned(), Value::Object(totals));
        }
    }
    sums
}

/// An image's name with registry and tag, as a runtime reports it.
fn full_image(image: &str) -> String {
    let (first, rest) = image.split_once('/').unwrap_or(("", image));
    let registry = first.contains(['.', ':']) || first == "localhost";
    let named = match (first.is_empty(), registry) {
        (true, _) => format!("docker.io/library/{rest}"),
        (false, true) => image.to_owned(),
        (false, false) => format!("docker.io/{image}"),
    };
    let last = named.rsplit('/').next().unwrap_or_default();
    if last.contains([':', '@']) { named } else { format!("{named}:latest") }
}

/// A stable id for an image's name, in the form of a digest.
fn image_id(image: &str) -> String {
    let first = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, image.as_bytes());
    let second = uuid::Uuid::new_v5(&first, image.as_bytes());
    format!("sha256:{}{}", first.simple(), second.simple())
}

#[cfg(test)]
mod tests {
    use super::full_image;

    #[test]
    fn images_are_named_in_full() {
        for (image, full) in [
            ("ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
            ("busybox", "docker.io/library/busybox:latest"),
            ("a/b:1", "docker.io/a/b:1"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
            ("localhost:5000/x", "localhost:5000/x:latest"),
        ] {
            assert_eq!(full_image(image), full);
        }
    }
}
