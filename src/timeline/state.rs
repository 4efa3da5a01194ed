//! One word for the state of an object, as kubectl prints it.

use serde_json::Value;

/// The state of a claim: `pending`; `allocated`; `allocated,reserved`; with `deleted` in front while it is being
/// deleted (upstream: `printResourceClaim`).
#[must_use]
pub fn claim(claim: &Value) -> String {
    let deleted = is_deleting(claim);
    let mut words = Vec::new();
    if deleted {
        words.push("deleted");
    }
    if claim["status"]["allocation"].is_object() {
        words.push("allocated");
        if !items(&claim["status"]["reservedFor"]).is_empty() {
            words.push("reserved");
        }
    } else if !deleted {
        words.push("pending");
    }
    words.join(",")
}

/// The state of a pod, as in the column STATUS: the phase, or what says more: `Terminating`, the reason of a waiting
/// container, `Completed`, `Error`. Init containers are left to the phase.
#[must_use]
pub fn pod(pod: &Value) -> String {
    let status = &pod["status"];
    let phase = text(&status["phase"]);
    let ended = matches!(phase, "Succeeded" | "Failed");
    if is_deleting(pod) && !ended {
        return "Terminating".to_owned();
    }
    if let Some(reason) = status["reason"].as_str() {
        return reason.to_owned();
    }
    let conditions = items(&status["conditions"]);
    if conditions.iter().any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated") {
        return "SchedulingGated".to_owned();
    }
    let mut word = if phase.is_empty() { "Pending" } else { phase }.to_owned();
    let mut running = false;
    for container in items(&status["containerStatuses"]).iter().rev() {
        let state = &container["state"];
        if let Some(reason) = state["waiting"]["reason"].as_str().filter(|reason| !reason.is_empty()) {
            reason.clone_into(&mut word);
        } else if state["terminated"].is_object() {
            let terminated = &state["terminated"];
            word = match (terminated["reason"].as_str(), terminated["signal"].as_i64()) {
                (Some(reason), _) if !reason.is_empty() => reason.to_owned(),
                (_, Some(signal)) if signal != 0 => format!("Signal:{signal}"),
                _ => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or_default()),
            };
        } else if state["running"].is_object() && container["ready"] == true {
            running = true;
        }
    }
    if word == "Completed" && running {
        let ready = conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        word = if ready { "Running" } else { "NotReady" }.to_owned();
    }
    word
}

/// The state of a slice: how many devices it publishes in which generation of its pool, such as `8 devices, generation 1`.
#[must_use]
pub fn slice(slice: &Value) -> String {
    let generation = slice["spec"]["pool"]["generation"].as_i64().unwrap_or_default();
    match items(&slice["spec"]["devices"]).len() {
        1 => format!("1 device, generation {generation}"),
        count => format!("{count} devices, generation {generation}"),
    }
}

/// The word for an object by its kind; empty for kinds without states.
#[must_use]
pub fn of(object: &Value) -> String {
    match object["kind"].as_str() {
        Some("ResourceClaim") => claim(object),
        Some("Pod") => pod(object),
        Some("ResourceSlice") => slice(object),
        _ => String::new(),
    }
}

pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{claim, of, pod};

    /// The words of a recorded table (recordings/tables/resourceclaims.json).
    #[test]
    fn claims() {
        let object = |deleted: bool, status: Value| {
            let time = deleted.then_some("2026-12-01T02:00:00Z");
            json!({"kind": "ResourceClaim", "metadata": {"deletionTimestamp": time}, "status": status})
        };
        let reserved = json!({"allocation": {}, "reservedFor": [{"uid": "u"}]});
        let table = [
            (object(false, json!({})), "pending"),
            (object(false, json!({"allocation": {}})), "allocated"),
            (object(false, reserved.clone()), "allocated,reserved"),
            (object(true, json!({})), "deleted"),
            (object(true, json!({"allocation": {}})), "deleted,allocated"),
            (object(true, reserved), "deleted,allocated,reserved"),
        ];
        for (object, word) in table {
            assert_eq!(claim(&object), word);
        }
    }

    #[test]
    fn pods() {
        let waiting = |reason: &str| json!([{"state": {"waiting": {"reason": reason}}}]);
        let table = [
            (json!({"phase": "Pending"}), "Pending"),
            (json!({"phase": "Pending", "containerStatuses": waiting("ContainerCreating")}), "ContainerCreating"),
            (json!({"phase": "Running", "containerStatuses": waiting("CrashLoopBackOff")}), "CrashLoopBackOff"),
            (json!({"phase": "Running", "containerStatuses": [{"state": {"running": {}}, "ready": true}]}), "Running"),
            (json!({"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]}), "Completed"),
            (json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}), "ExitCode:3"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
            (
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}],
                    "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}, {"state": {"running": {}}, "ready": true}]}),
                "NotReady",
            ),
            (json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}), "SchedulingGated"),
        ];
        for (status, word) in table {
            assert_eq!(pod(&json!({"status": status})), word);
        }
        let deleting = json!({"kind": "Pod", "metadata": {"deletionTimestamp": "t"}, "status": {"phase": "Running"}});
        assert_eq!(of(&deleting), "Terminating");
    }
}
