//! Requests to a real cluster and its answers (`tests/cases/admission`), judged through the API in process.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::base::clock::ManualClock;
use crate::embedded::api::resource::{NAMESPACES, RESOURCES};
use crate::embedded::api::{
    Api, Caller, DeleteOptions, Deleted, FieldValidation, Patch, Resource, Status, Subresource, WriteOptions, strict,
};

fn api() -> Api {
    let clock = ManualClock::new("2026-12-01T02:11:00Z".parse().expect("a time"));
    Api::in_memory(Arc::new(clock))
}

fn caller() -> Caller {
    Caller { manager: "recorder".to_owned(), user: "kubernetes-admin".to_owned() }
}

fn namespace(api: &Api, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    api.create(&caller(), &NAMESPACES, "", object, &WriteOptions::default()).expect("a namespace");
}

/// The resource, namespace, name and subresource that a path names.
fn route(path: &str) -> Option<(&'static Resource, String, String, Subresource)> {
    let path = path.split('?').next()?;
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", "v1", rest @ ..] => ("", rest),
        ["apis", group, "v1", rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, plural, rest @ ..] => (*namespace, [&[*plural], rest].concat()),
        rest => ("", rest.to_vec()),
    };
    let plural = *rest.first()?;
    let found = RESOURCES.iter().find(|known| known.group == group && known.plural == plural)?;
    let subresource = if rest.get(2) == Some(&"status") { Subresource::Status } else { Subresource::Main };
    Some((found, namespace.to_owned(), rest.get(1).copied().unwrap_or_default().to_owned(), subresource))
}

fn play(api: &Api, row: &Value) -> Result<Value, Status> {
    let path = row["path"].as_str().expect("a path");
    let (resource, namespace, name, subresource) = route(path).expect("a resource");
    let mode = match path.split_once("fieldValidation=").map(|(_, mode)| mode) {
        Some("Strict") => FieldValidation::Strict,
        Some("Ignore") => FieldValidation::Ignore,
        _ => FieldValidation::Warn,
    };
    let options = WriteOptions { field_validation: mode, ..WriteOptions::default() };
    let kind = row["type"].as_str().unwrap_or("application/json");
    let body = match &row["body"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let read = || strict::decode(resource, body.as_bytes(), kind == "application/yaml", mode).map(|(object, _)| object);
    match row["method"].as_str().expect("a method") {
        "POST" => api.create(&caller(), resource, &namespace, read()?, &options).map(|object| (*object).clone()),
        "PUT" => api.update(&caller(), resource, subresource, &namespace, &name, read()?, &options).map(|object| (*object).clone()),
        "PATCH" => {
            let patch = match kind {
                "application/merge-patch+json" => Patch::Merge(row["body"].clone()),
                "application/json-patch+json" => Patch::Json(row["body"].clone()),
                _ => Patch::Strategic(row["body"].clone()),
            };
            api.patch(&caller(), resource, subresource, &namespace, &name, patch, &options).map(|object| (*object).clone())
        }
        _ => {
            let options = DeleteOptions {
                grace_period_seconds: path.contains("gracePeriodSeconds=0").then_some(0),
                uid: row.pointer("/body/preconditions/uid").and_then(Value::as_str).map(str::to_owned),
                ..DeleteOptions::default()
            };
            match api.delete(&caller(), resource, &namespace, &name, &options)? {
                Deleted::Gone(object) | Deleted::Marked(object) => Ok((*object).clone()),
            }
        }
    }
}

/// Random parts of names and ids, which no two clusters share.
fn normalised(text: &str) -> String {
    let pattern =
        regex::Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|kube-api-access-[a-z0-9]{5}|gen-[a-z0-9]{5}")
            .expect("a pattern");
    pattern.replace_all(text, "#").into_owned()
}

fn answer(object: &Value) -> Value {
    let mut object = object.clone();
    for name in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp"] {
        super::json::remove(&mut object["metadata"], name);
    }
    serde_json::from_str(&normalised(&object.to_string())).expect("JSON")
}

#[test]
fn scenario_29_is_answered_as_the_real_cluster_did() {
    let api = api();
    namespace(&api, "s29");
    namespace(&api, "default");
    let mut faults = Vec::new();
    let mut judged = 0;
    for line in include_str!("../../../../tests/cases/admission/invalid-objects.jsonl").lines() {
        let row: Value = serde_json::from_str(line).expect("a case");
        let label = row["label"].as_str().expect("a label");
        // Content types and methods are HTTP's to refuse.
        if matches!(label, "claim: unknown content type" | "claim: POST to an item path" | "claim: PATCH with application/json") {
            continue;
        }
        judged += 1;
        let (code, got) = match play(&api, &row) {
            Ok(object) => (row["code"].as_u64().unwrap_or_default(), answer(&object)),
            Err(status) => {
                let body = serde_json::from_str(&normalised(&status.body().to_string())).expect("JSON");
                (u64::from(status.code), body)
            }
        };
        let expected: Value = serde_json::from_str(&normalised(&row["answer"].to_string())).expect("JSON");
        if row["code"].as_u64() != Some(code) || !super::same(&got, &expected) {
            faults.push(format!("{label}\n  expected {} {expected}\n  got      {code} {got}", row["code"]));
        }
    }
    assert!(judged > 100, "only {judged} cases were judged");
    assert!(faults.is_empty(), "{} of {judged} differ:\n{}", faults.len(), faults.join("\n"));
}
