//! Lists and watches answer as a recorded API server did (tests/cases/wire).

use std::time::Duration;

use dralab::embedded::api::resource::CONFIGMAPS;
use dralab::embedded::api::{DeleteOptions, Patch, Subresource, WriteOptions};
use serde_json::{Value, json};

use crate::api_support::{Answer, Lab};

fn cases(file: &str) -> Vec<Value> {
    let path = format!("{}/tests/cases/wire/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Sends a recorded request; the clock goes on while the answer is waited for.
async fn replay(lab: &Lab, case: &Value, step: Duration) -> Answer {
    let accept = [("accept", case["accept"].as_str().unwrap())];
    let method = case["method"].as_str().unwrap_or("GET");
    let answer = lab.send(method, case["path"].as_str().unwrap(), &accept, "");
    tokio::pin!(answer);
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = tokio::task::yield_now() => lab.clock.advance(step),
        }
    }
}

fn configmap(lab: &Lab, namespace: &str, name: &str, revision: u64, labels: &Value) {
    lab.next_is(revision);
    let object = lab.create(&CONFIGMAPS, namespace, json!({"metadata": {"name": name, "labels": labels}, "data": {"v": "0"}}));
    assert_eq!(object["metadata"]["resourceVersion"], revision.to_string());
}

fn patch(lab: &Lab, namespace: &str, name: &str, revision: u64, change: Value) {
    lab.next_is(revision);
    let options = WriteOptions::default();
    let done = lab.api.patch(&lab.caller, &CONFIGMAPS, Subresource::Main, namespace, name, Patch::Merge(change), &options).unwrap();
    assert_eq!(done["metadata"]["resourceVersion"], revision.to_string());
}

fn delete(lab: &Lab, namespace: &str, name: &str, revision: u64) {
    lab.next_is(revision);
    lab.api.delete(&lab.caller, &CONFIGMAPS, namespace, name, &DeleteOptions::default()).unwrap();
    assert_eq!(lab.api.revision(), revision);
}

#[tokio::test]
async fn lists_are_the_recorded_ones() {
    let lab = Lab::new("2026-12-01T02:08:54Z");
    lab.namespace("s33");
    lab.namespace("s34");
    configmap(&lab, "s33", "kube-root-ca.crt", 3933, &Value::Null);
    for n in 0..7 {
        configmap(&lab, "s33", &format!("c{n}"), 3934 + n, &json!({"odd": (n % 2).to_string()}));
    }
    lab.next_is(3942);
    let mut done = 0;
    for case in cases("lists.jsonl") {
        let (step, label) = (case["step"].as_u64().unwrap(), case["label"].as_str().unwrap());
        let scenario = case["scenario"].as_str().unwrap();
        match (scenario, step) {
            ("33", 4) => {
                configmap(&lab, "s33", "c5b", 3942, &Value::Null);
                delete(&lab, "s33", "c6", 3943);
            }
            // By then others had written to the recorded cluster.
            ("33", 18) => lab.next_is(3952),
            _ => {}
        }
        let answer = replay(&lab, &case, Duration::from_millis(500)).await;
        assert_eq!(u64::from(answer.code), case["code"].as_u64().unwrap(), "{scenario} {step} {label}: {}", answer.text());
        assert_eq!(answer.header("retry-after"), case["retryAfter"].as_str().unwrap_or(""), "{label}");
        let partial = case["accept"].as_str().unwrap().contains("PartialObjectMetadataList");
        let mut body = answer.json();
        for item in body["items"].as_array_mut().into_iter().flatten() {
            let metadata = item["metadata"].as_object_mut().unwrap();
            if partial {
                metadata.remove("uid");
                metadata.remove("managedFields");
                metadata.remove("creationTimestamp");
            } else {
                metadata.retain(|name, _| name == "name" || name == "resourceVersion");
                item.as_object_mut().unwrap().retain(|name, _| name == "metadata");
            }
        }
        let mut recorded = case["body"].clone();
        for item in recorded["items"].as_array_mut().into_iter().flatten() {
            item["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
        }
        assert_eq!(body, recorded, "{scenario} {step} {label}");
        done += 1;
    }
    assert_eq!(done, 28);
}

/// What of an event was recorded.
fn reduced(event: &Value) -> Value {
    let object = &event["object"];
    let metadata = &object["metadata"];
    if object["kind"] == "Table" {
        let row = &object["rows"][0]["object"];
        return json!({
            "type": event["type"], "kind": "Table", "columns": object["columnDefinitions"].as_array().map_or(0, Vec::len),
            "rv": metadata["resourceVersion"], "row": row["metadata"]["name"], "rowKind": row["kind"],
        });
    }
    let annotations = if event["type"] == "BOOKMARK" { metadata["annotations"].clone() } else { Value::Null };
    json!({
        "type": event["type"], "kind": object["kind"], "name": metadata["name"], "rv": metadata["resourceVersion"],
        "labels": metadata["labels"], "annotations": annotations,
    })
}

#[tokio::test]
async fn watches_are_the_recorded_ones() {
    let lab = Lab::new("2026-12-01T02:07:39Z");
    lab.namespace("s32");
    configmap(&lab, "s32", "kube-root-ca.crt", 3601, &Value::Null);
    configmap(&lab, "s32", "c0", 3603, &json!({"k": "a"}));
    configmap(&lab, "s32", "c1", 3604, &json!({"k": "a"}));
    configmap(&lab, "s32", "new", 3605, &json!({"k": "a"}));
    patch(&lab, "s32", "new", 3607, json!({"data": {"v": "1"}}));
    delete(&lab, "s32", "new", 3608);
    let mut done = 0;
    for case in cases("streams.jsonl") {
        let label = case["label"].as_str().unwrap();
        // On the recorded cluster the history reached back to the beginning of the namespace; ours has forgotten
        // revision 1 like that of scenario 34.
        if label == "resourceVersion=1 (compacted)" {
            continue;
        }
        if label == "one object by field selector" {
            patch(&lab, "s32", "c0", 3734, json!({"data": {"v": "2"}}));
            patch(&lab, "s32", "c1", 3748, json!({"metadata": {"labels": {"k": "b"}}}));
            patch(&lab, "s32", "c1", 3749, json!({"metadata": {"labels": {"k": "a"}}}));
        }
        let answer = replay(&lab, &case, Duration::from_millis(250)).await;
        assert_eq!(u64::from(answer.code), case["code"].as_u64().unwrap(), "{label}: {}", answer.text());
        if case["body"].is_object() {
            assert_eq!(answer.json(), case["body"], "{label}");
            continue;
        }
        // Bookmarks tell how far the whole store is, and when they come was chance; that they come is not.
        let marks = |events: &[Value]| events.iter().filter(|event| event["type"] == "BOOKMARK").count();
        let plain = |event: &Value| event["type"] != "BOOKMARK" || !event["annotations"].is_null();
        let without_revision = |event: &Value| {
            let mut event = event.clone();
            if event["type"] == "BOOKMARK" {
                event["rv"] = Value::Null;
            }
            event
        };
        let ours: Vec<Value> = answer.lines().iter().map(reduced).collect();
        let theirs = case["events"].as_array().unwrap();
        assert_eq!(marks(&ours) > 0, marks(theirs) > 0, "{label}: {ours:?}");
        let ours: Vec<Value> = ours.iter().filter(|event| plain(event)).map(without_revision).collect();
        let theirs: Vec<Value> = theirs.iter().filter(|event| plain(event)).map(without_revision).collect();
        assert_eq!(ours, theirs, "{label}");
        done += 1;
    }
    assert_eq!(done, 14);
}
