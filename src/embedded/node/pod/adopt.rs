//! What an agent finds of a pod's earlier life (pure).

use jiff::Timestamp;
use serde_json::Value;

use super::processes::KILLED;
use super::runtime::{Container, ContainerState, Ended, Runtime, Sandbox};
use crate::embedded::node::seconds;

/// What an agent that (re)starts knows of a pod from its status; for a new pod, that nothing was done yet.
pub(super) fn adopt(pod: &Value, now: Timestamp) -> Runtime {
    let status = &pod["status"];
    let time = |value: &Value| value.as_str().and_then(|at| at.parse::<Timestamp>().ok());
    let has_init = pod["spec"]["initContainers"].as_array().is_some_and(|list| !list.is_empty());
    let waiting = if has_init { "PodInitializing" } else { "ContainerCreating" };
    let containers = |specs: &Value, statuses: &Value| -> Vec<Container> {
        let list = specs.as_array().into_iter().flatten().map(|spec| {
            let name = spec["name"].as_str().unwrap_or_default();
            let known = statuses.as_array().into_iter().flatten().find(|s| s["name"] == name);
            let mut container = Container::new(name, waiting);
            if let Some(known) = known {
                let ended = |state: &Value| {
                    let t = &state["terminated"];
                    t.is_object().then(|| Ended {
                        code: t["exitCode"].as_i64().and_then(|c| i32::try_from(c).ok()).unwrap_or(KILLED),
                        reason: t["reason"].as_str().unwrap_or_default().to_owned(),
                        message: t["message"].as_str().unwrap_or_default().to_owned(),
                        started: time(&t["startedAt"]),
                        finished: time(&t["finishedAt"]),
                        id: t["containerID"].as_str().unwrap_or_default().to_owned(),
                    })
                };
                known["containerID"].as_str().unwrap_or_default().clone_into(&mut container.id);
                container.restarts = known["restartCount"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
                container.last = ended(&known["lastState"]);
                if let Some(since) = time(&known["state"]["running"]["startedAt"]) {
                    container.state = ContainerState::Running(since);
                } else if let Some(end) = ended(&known["state"]) {
                    container.state = ContainerState::Ended(end);
                } else if let Some(reason) = known["state"]["waiting"]["reason"].as_str() {
                    let message = known["state"]["waiting"]["message"].as_str().unwrap_or_default().to_owned();
                    container.state = ContainerState::Waiting { reason: reason.to_owned(), message };
                }
            }
            container
        });
        list.collect()
    };
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stands = conditions.iter().any(|c| c["type"] == "PodReadyToStartContainers" && c["status"] == "True");
    Runtime {
        started: time(&status["startTime"]).unwrap_or_else(|| truncated(now)),
        sandbox: if stands { Sandbox::Ready } else { Sandbox::None },
        address: status["podIP"].as_str().map(str::to_owned),
        init: containers(&pod["spec"]["initContainers"], &status["initContainerStatuses"]),
        containers: containers(&pod["spec"]["containers"], &status["containerStatuses"]),
    }
}

/// Whole seconds, as the API keeps times.
fn truncated(at: Timestamp) -> Timestamp {
    seconds(at).parse().unwrap_or(at)
}
