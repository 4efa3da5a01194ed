//! The cells of a row, per kind, in the order of its columns.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::Resource;
use super::duration::{since, time};
use super::pod;

/// A string, empty where there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The items of a list, none where there is no list.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// `<none>` for an empty string.
pub(super) fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "<unknown>" } else { text }
}

/// The cells of `object`'s row.
pub(super) fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Value {
    let name = object["metadata"]["name"].clone();
    let age = json!(since(time(&object["metadata"]["creationTimestamp"]), now));
    let count = |field: &str| object[field].as_object().map_or(0, serde_json::Map::len);
    match resource.kind {
        "Pod" => Value::Array(pod::cells(object, now)),
        "Node" => node(object, &age),
        "Event" => event(object, now),
        "Namespace" => json!([name, text(&object["status"]["phase"]), age]),
        "ConfigMap" => json!([name, count("data") + count("binaryData"), age]),
        "Secret" => json!([name, text(&object["type"]), count("data"), age]),
        "ResourceClaim" => json!([name, claim_state(object), age]),
        "ResourceSlice" => {
            let spec = &object["spec"];
            json!([name, text(&spec["nodeName"]), text(&spec["driver"]), text(&spec["pool"]["name"]), age])
        }
        _ => json!([name, age]),
    }
}

/// The conditions of `object`'s row.
pub(super) fn conditions(resource: &Resource, object: &Value) -> Option<Value> {
    if resource.kind == "Pod" { pod::conditions(object) } else { None }
}

/// What kubectl calls the state of a claim (upstream: `resourceClaimState`).
fn claim_state(claim: &Value) -> String {
    let deleted = !claim["metadata"]["deletionTimestamp"].is_null();
    let allocated = claim["status"]["allocation"].is_object();
    let reserved = allocated && !items(&claim["status"]["reservedFor"]).is_empty();
    let words = [(deleted, "deleted"), (!deleted && !allocated, "pending"), (allocated, "allocated"), (reserved, "reserved")];
    let words: Vec<&str> = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    words.join(",")
}

fn node(node: &Value, age: &Value) -> Value {
    let (status, info) = (&node["status"], &node["status"]["nodeInfo"]);
    let ready = items(&status["conditions"]).iter().find(|c| c["type"] == "Ready");
    let mut states = vec![match ready.map(|c| c["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }];
    if node["spec"]["unschedulable"] == true {
        states.push("SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = items(&status["addresses"]).iter().find(|a| a["type"] == *kind);
        or_none(found.map_or("", |a| text(&a["address"]))).to_owned()
    };
    let kernel = match (text(&info["kernelVersion"]), text(&info["architecture"])) {
        ("", _) => "<unknown>".to_owned(),
        (kernel, "") => kernel.to_owned(),
        (kernel, architecture) => format!("{kernel} ({architecture})"),
    };
    json!([
        node["metadata"]["name"],
        states.join(","),
        or_none(&roles(node)),
        age,
        text(&info["kubeletVersion"]),
        address("InternalIP"),
        address("ExternalIP"),
        or_unknown(text(&info["osImage"])),
        kernel,
        or_unknown(text(&info["containerRuntimeVersion"])),
    ])
}

/// The roles that a node's labels name, sorted.
fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object();
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    roles.join(",")
}

fn event(event: &Value, now: Timestamp) -> Value {
    let first = time(&event["firstTimestamp"]).or_else(|| time(&event["eventTime"]));
    let series = &event["series"];
    let (last, count) = if series.is_object() {
        (time(&series["lastObservedTime"]), series["count"].as_i64().unwrap_or(0))
    } else {
        (time(&event["lastTimestamp"]).or(first), event["count"].as_i64().filter(|count| *count != 0).unwrap_or(1))
    };
    let object = &event["involvedObject"];
    let kind = text(&object["kind"]).to_lowercase();
    let target = if text(&object["name"]).is_empty() { kind } else { format!("{kind}/{}", text(&object["name"])) };
    let either = |one: &Value, other: &Value| match text(one) {
        "" => text(other).to_owned(),
        one => one.to_owned(),
    };
    let component = either(&event["source"]["component"], &event["reportingComponent"]);
    let instance = either(&event["source"]["host"], &event["reportingInstance"]);
    let source = if instance.is_empty() { component } else { format!("{component}, {instance}") };
    json!([
        since(last, now),
        text(&event["type"]),
        text(&event["reason"]),
        target,
        text(&object["fieldPath"]),
        source,
        text(&event["message"]).trim(),
        since(first, now),
        count,
        event["metadata"]["name"],
    ])
}
