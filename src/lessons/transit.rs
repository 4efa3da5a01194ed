//! What is still on its way, so that verify does not judge too early.

use serde_json::Value;

use crate::lessons::view::Objects;

/// Something moves: a pod that is bound and not yet running, or an object that is being deleted and that nothing holds.
#[must_use]
pub fn moves(objects: &Objects) -> bool {
    objects.iter().any(|(key, object)| {
        let deleting = object["metadata"]["deletionTimestamp"].is_string() && !held(key, object, objects);
        let starting = key.starts_with("pod/")
            && object["spec"]["nodeName"].is_string()
            && matches!(object["status"]["phase"].as_str(), None | Some("Pending"));
        (deleting && !key.starts_with("event/")) || starting
    })
}

/// A claim that is being deleted stays as long as a pod that nobody deletes uses it.
fn held(key: &str, object: &Value, objects: &Objects) -> bool {
    key.starts_with("resourceclaim/")
        && items(&object["status"]["reservedFor"]).any(|consumer| {
            let pod = consumer["name"].as_str().and_then(|name| objects.get(&format!("pod/{name}")));
            pod.is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_string() && !ended(pod))
        })
}

/// A pod waits, all its claims are there, and the scheduler has said nothing about it since it and they have been as they are.
#[must_use]
pub fn unjudged(objects: &Objects) -> bool {
    objects.iter().filter(|(key, _)| key.starts_with("pod/")).any(|(_, pod)| {
        if pod["spec"]["nodeName"].is_string() || ended(pod) {
            return false;
        }
        let said = objects
            .iter()
            .filter(|(key, event)| key.starts_with("event/") && event["involvedObject"]["uid"] == pod["metadata"]["uid"])
            .filter(|(_, event)| event["reason"] == "FailedScheduling")
            .map(|(_, event)| revision(event))
            .max();
        let mut latest = if said.is_none() { revision(pod) } else { 0 };
        for entry in items(&pod["spec"]["resourceClaims"]) {
            let generated =
                || items(&pod["status"]["resourceClaimStatuses"]).find(|s| s["name"] == entry["name"]).map(|s| &s["resourceClaimName"]);
            let name = entry["resourceClaimName"].as_str().or_else(|| generated().and_then(Value::as_str));
            match name.and_then(|name| objects.get(&format!("resourceclaim/{name}"))) {
                Some(claim) => latest = latest.max(revision(claim)),
                None => return false,
            }
        }
        said.is_none_or(|said| said < latest)
    })
}

fn ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|r| r.parse().ok()).unwrap_or(0)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::{moves, unjudged};
    use crate::lessons::view::Objects;
    use serde_json::{Value, json};

    fn objects(of: &[(&str, Value)]) -> Objects {
        of.iter().map(|(key, object)| ((*key).to_owned(), object.clone())).collect()
    }

    #[test]
    fn a_claim_that_a_running_pod_holds_does_not_move() {
        let claim = json!({"metadata": {"deletionTimestamp": "t"}, "status": {"reservedFor": [{"name": "p"}]}});
        let pod = |deleting: bool| json!({"metadata": {"deletionTimestamp": deleting.then_some("t")}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        assert!(!moves(&objects(&[("resourceclaim/c", claim.clone()), ("pod/p", pod(false))])));
        assert!(moves(&objects(&[("resourceclaim/c", claim.clone()), ("pod/p", pod(true))])));
        assert!(moves(&objects(&[("resourceclaim/c", claim)])));
        assert!(moves(&objects(&[("pod/p", json!({"spec": {"nodeName": "n"}}))])), "bound, and not yet running");
    }

    #[test]
    fn the_scheduler_has_to_speak_after_the_claim_was_made() {
        let pod = json!({"metadata": {"uid": "u", "resourceVersion": "5"}, "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}});
        let claim = |at: u32| json!({"metadata": {"resourceVersion": at.to_string()}});
        let event = |at: u32| json!({"metadata": {"resourceVersion": at.to_string()}, "reason": "FailedScheduling", "involvedObject": {"uid": "u"}});
        assert!(!unjudged(&objects(&[("pod/p", pod.clone())])), "without its claim nobody will speak");
        assert!(unjudged(&objects(&[("pod/p", pod.clone()), ("resourceclaim/c", claim(4))])));
        assert!(!unjudged(&objects(&[("pod/p", pod.clone()), ("resourceclaim/c", claim(4)), ("event/e", event(6))])));
        assert!(unjudged(&objects(&[("pod/p", pod), ("resourceclaim/c", claim(7)), ("event/e", event(6))])), "a new claim");
    }
}
