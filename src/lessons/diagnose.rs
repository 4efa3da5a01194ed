//! Why a step is not yet right: Kubernetes' own words first, unchanged.

use serde::Serialize;
use serde_json::Value;

use crate::lessons::view::Objects;

/// A sentence of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Quote {
    /// The object that it is about.
    pub object: String,
    /// The reason of the event or condition.
    pub reason: String,
    /// The sentence.
    pub message: String,
    /// Who said it: `scheduler`, `kubelet`, … as the event or the condition tells.
    pub from: String,
}

/// What Kubernetes says about the pods that do not run: the scheduler's condition, and the latest warning about the pod.
#[must_use]
pub fn quotes(objects: &Objects) -> Vec<Quote> {
    let mut quotes: Vec<Quote> = Vec::new();
    for (key, pod) in objects.iter().filter(|(key, _)| key.starts_with("pod/")) {
        let phase = pod["status"]["phase"].as_str().unwrap_or("Pending");
        if phase == "Running" || phase == "Succeeded" {
            continue;
        }
        let unscheduled =
            pod["status"]["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "PodScheduled" && c["status"] == "False");
        if let Some(condition) = unscheduled {
            push(&mut quotes, key, &condition["reason"], &condition["message"], "kube-scheduler");
            continue;
        }
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let uid = &pod["metadata"]["uid"];
        let warning = objects
            .iter()
            .filter(|(key, e)| {
                key.starts_with("event/")
                    && e["type"] == "Warning"
                    && e["involvedObject"]["name"] == name
                    && e["involvedObject"]["uid"] == *uid
            })
            .max_by_key(|(_, e)| time(e).to_owned());
        if let Some((_, event)) = warning {
            let from = [&event["source"]["component"], &event["reportingComponent"]]
                .into_iter()
                .find_map(|v| v.as_str().filter(|s| !s.is_empty()))
                .unwrap_or("Kubernetes");
            push(&mut quotes, key, &event["reason"], &event["message"], from);
        }
    }
    quotes
}

fn push(quotes: &mut Vec<Quote>, object: &str, reason: &Value, message: &Value, from: &str) {
    let message = message.as_str().unwrap_or_default().trim().to_owned();
    if message.is_empty() || quotes.iter().any(|q| q.message == message) {
        return;
    }
    quotes.push(Quote {
        object: object.to_owned(),
        reason: reason.as_str().unwrap_or_default().to_owned(),
        message,
        from: from.to_owned(),
    });
}

fn time(event: &Value) -> &str {
    [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::quotes;
    use serde_json::json;

    #[test]
    fn the_schedulers_sentence_comes_unchanged_and_once() {
        let pod = |name: &str| {
            json!({"metadata": {"name": name, "uid": name}, "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available: 1 cannot allocate all claims."}]}})
        };
        let objects = [("pod/a".to_owned(), pod("a")), ("pod/b".to_owned(), pod("b"))].into();
        let quotes = quotes(&objects);
        assert_eq!(quotes.len(), 1);
        assert_eq!(
            (quotes[0].object.as_str(), quotes[0].message.as_str()),
            ("pod/a", "0/2 nodes are available: 1 cannot allocate all claims.")
        );
    }
}
