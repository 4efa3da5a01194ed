//! The row of a pod: READY, STATUS and RESTARTS from phase, conditions and container states (upstream: `printPod`).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration::{since, time};
use super::rows::{items, or_none, text};

/// What the states of a pod's containers add up to.
struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let summary = summarize(pod);
    let restarts = match summary.last_restart {
        Some(at) if summary.restarts != 0 => format!("{} ({} ago)", summary.restarts, since(Some(at), now)),
        _ => summary.restarts.to_string(),
    };
    let gates = items(&spec["readinessGates"]);
    let passed = gates.iter().filter(|gate| condition_is(status, text(&gate["conditionType"]), "True")).count();
    let gates = if gates.is_empty() { "<none>".to_owned() } else { format!("{passed}/{}", gates.len()) };
    vec![
        pod["metadata"]["name"].clone(),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.reason),
        json!(restarts),
        json!(since(time(&pod["metadata"]["creationTimestamp"]), now)),
        json!(or_none(text(&status["podIPs"][0]["ip"]))),
        json!(or_none(text(&spec["nodeName"]))),
        json!(or_none(text(&status["nominatedNodeName"]))),
        json!(gates),
    ]
}

fn condition_is(status: &Value, kind: &str, value: &str) -> bool {
    items(&status["conditions"]).iter().any(|c| c["type"] == *kind && c["status"] == *value)
}

fn summarize(pod: &Value) -> Summary {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let phase = text(&status["phase"]);
    let mut reason = match text(&status["reason"]) {
        "" => phase.to_owned(),
        reason => reason.to_owned(),
    };
    if items(&status["conditions"]).iter().any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated") {
        reason = "SchedulingGated".to_owned();
    }
    let init = items(&spec["initContainers"]);
    let restartable = |name: &Value| init.iter().any(|c| c["name"] == *name && c["restartPolicy"] == "Always");
    let sidecars = init.iter().filter(|c| c["restartPolicy"] == "Always").count();
    let mut summary = Summary { ready: 0, total: items(&spec["containers"]).len() + sidecars, reason, restarts: 0, last_restart: None };
    let mut of_sidecars = (0, None);
    let mut initializing = false;
    for (index, container) in items(&status["initContainerStatuses"]).iter().enumerate() {
        let count = container["restartCount"].as_i64().unwrap_or(0);
        let finished = time(&container["lastState"]["terminated"]["finishedAt"]);
        summary.restarts += count;
        summary.last_restart = summary.last_restart.max(finished);
        let sidecar = restartable(&container["name"]);
        if sidecar {
            of_sidecars = (of_sidecars.0 + count, of_sidecars.1.max(finished));
        }
        let (waiting, terminated) = (&container["state"]["waiting"], &container["state"]["terminated"]);
        if terminated.is_object() && exit_code(terminated) == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            summary.ready += usize::from(container["ready"] == true);
            continue;
        }
        let why = if terminated.is_object() {
            ended(terminated)
        } else if !matches!(text(&waiting["reason"]), "" | "PodInitializing") {
            text(&waiting["reason"]).to_owned()
        } else {
            format!("{index}/{}", init.len())
        };
        summary.reason = format!("Init:{why}");
        initializing = true;
        break;
    }
    if !initializing || condition_is(status, "Initialized", "True") {
        (summary.restarts, summary.last_restart) = of_sidecars;
        containers(status, &mut summary);
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        if status["reason"] == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

/// The main containers: the first that waits or has ended names the pod's state.
fn containers(status: &Value, summary: &mut Summary) {
    let mut running = false;
    for container in items(&status["containerStatuses"]).iter().rev() {
        summary.restarts += container["restartCount"].as_i64().unwrap_or(0);
        summary.last_restart = summary.last_restart.max(time(&container["lastState"]["terminated"]["finishedAt"]));
        let (waiting, terminated) = (&container["state"]["waiting"], &container["state"]["terminated"]);
        if !text(&waiting["reason"]).is_empty() {
            summary.reason = text(&waiting["reason"]).to_owned();
        } else if terminated.is_object() {
            summary.reason = ended(terminated);
        } else if container["ready"] == true && container["state"]["running"].is_object() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" && running {
        let ready = condition_is(status, "Ready", "True");
        summary.reason = if ready { "Running" } else { "NotReady" }.to_owned();
    }
}

fn exit_code(terminated: &Value) -> i64 {
    terminated["exitCode"].as_i64().unwrap_or(0)
}

/// How a container ended: its reason, else its signal, else its exit code.
fn ended(terminated: &Value) -> String {
    match (text(&terminated["reason"]), terminated["signal"].as_i64().unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", exit_code(terminated)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// The row conditions of a pod that has ended; `kubectl get` can hide such rows.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(&pod["status"]["phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}
