//! Kubernetes' own words about a pod or a claim, unchanged.

use serde_json::Value;

use super::finding::Quote;
use super::objects::Objects;
use crate::scheduling::view::Key;

/// What conditions and events say about a pod that is of use here: the scheduler's condition, the latest warning of each
/// reason, and what it waits for.
#[must_use]
pub fn of_pod(objects: &Objects, key: &Key) -> Vec<Quote> {
    let Some(pod) = objects.raw("Pod", key) else { return Vec::new() };
    let name = format!("pod/{}", key.name);
    let mut quotes = Vec::new();
    for condition in pod["status"]["conditions"].as_array().into_iter().flatten() {
        let waits = condition["type"] == "PodScheduled" && condition["status"] == "False";
        if waits || (condition["type"] == "DisruptionTarget" && condition["status"] == "True") {
            let from = if waits { "kube-scheduler" } else { "kube-controller-manager" };
            push(&mut quotes, &name, &condition["reason"], &condition["message"], from);
        }
    }
    events(objects, "Pod", key, &name, pod, &mut quotes);
    quotes
}

/// What events say about a claim.
#[must_use]
pub fn of_claim(objects: &Objects, key: &Key) -> Vec<Quote> {
    let Some(claim) = objects.raw("ResourceClaim", key) else { return Vec::new() };
    let name = format!("resourceclaim/{}", key.name);
    let mut quotes = Vec::new();
    events(objects, "ResourceClaim", key, &name, claim, &mut quotes);
    for device in claim["status"]["devices"].as_array().into_iter().flatten() {
        for condition in device["conditions"].as_array().into_iter().flatten() {
            let from = device["driver"].as_str().unwrap_or_default();
            push(&mut quotes, &name, &condition["type"], &condition["message"], from);
        }
    }
    quotes
}

fn events(objects: &Objects, kind: &str, key: &Key, name: &str, object: &Value, quotes: &mut Vec<Quote>) {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let events = objects.events_about(kind, key, uid);
    let mut reasons: Vec<&str> = Vec::new();
    for event in events.iter().rev() {
        let reason = event["reason"].as_str().unwrap_or_default();
        let matters = event["type"] == "Warning" || matches!(reason, "BindingConditionsPending" | "DeviceTaintManagerEviction");
        if !matters || reasons.contains(&reason) {
            continue;
        }
        reasons.push(reason);
        let from = [&event["source"]["component"], &event["reportingComponent"], &event["reportingController"]]
            .into_iter()
            .find_map(|value| value.as_str().filter(|text| !text.is_empty()))
            .unwrap_or("Kubernetes");
        let message = if event["message"].is_string() { &event["message"] } else { &event["note"] };
        push(quotes, name, &event["reason"], message, from);
    }
}

fn push(quotes: &mut Vec<Quote>, object: &str, reason: &Value, message: &Value, from: &str) {
    let message = message.as_str().unwrap_or_default().trim().to_owned();
    if message.is_empty() || quotes.iter().any(|quote: &Quote| quote.message == message) {
        return;
    }
    let reason = reason.as_str().unwrap_or_default().to_owned();
    quotes.push(Quote { object: object.to_owned(), reason, message, from: from.to_owned() });
}
