//! Two outsiders judge: a real cluster's answers to invalid requests, through the API in process, and what the API
//! server's own strategies (`registry/rest` BeforeCreate and BeforeUpdate of 1.37.2) said of mutated objects
//! (`tests/cases/admission`).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Context, Read, prepare_create, prepare_update, validate_create, validate_update};
use crate::base::clock::ManualClock;
use crate::embedded::api::resource::{NAMESPACES, RESOURCES};
use crate::embedded::api::{
    Api, Caller, DeleteOptions, Deleted, FieldValidation, Object, Patch, Resource, Status, Subresource, WriteOptions, strict,
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
        if row["code"].as_u64() != Some(code) || !super::json::same(&got, &expected) {
            faults.push(format!("{label}\n  expected {} {expected}\n  got      {code} {got}", row["code"]));
        }
    }
    assert!(judged > 100, "only {judged} cases were judged");
    assert!(faults.is_empty(), "{} of {judged} differ:\n{}", faults.len(), faults.join("\n"));
}

/// Every object exists; no namespace is labelled.
struct World;

impl Read for World {
    fn read(&self, _resource: &'static Resource, _namespace: &str, name: &str) -> Option<Object> {
        Some(Arc::new(json!({"metadata": {"name": name}})))
    }
}

fn patched(base: &Value, patch: &Value) -> Value {
    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).expect("a patch");
    let mut object = base.clone();
    json_patch::patch(&mut object, &patch).expect("a patch that fits");
    object
}

fn judge(row: &Value, base: &Value) -> Result<(), Status> {
    let resource = RESOURCES.iter().copied().find(|resource| base["kind"] == resource.kind).expect("a resource");
    let caller = caller();
    let context = Context { caller: &caller, now: "2026-12-01T02:11:00Z".parse().expect("a time"), objects: &World };
    let mut new = patched(base, &row["patch"]);
    strict::check(resource, &mut new, FieldValidation::Ignore)?;
    let Some(old) = row.get("old") else {
        prepare_create(resource, &mut new, &context)?;
        return validate_create(resource, &new, &context);
    };
    let mut old = patched(base, old);
    strict::check(resource, &mut old, FieldValidation::Ignore)?;
    let (metadata, status) = (old["metadata"].clone(), old.get("status").cloned());
    prepare_create(resource, &mut old, &context)?;
    old["metadata"] = metadata;
    if let Some(status) = status {
        old["status"] = status;
    }
    let part = if row["part"] == "status" { Subresource::Status } else { Subresource::Main };
    prepare_update(resource, part, &old, &mut new, &context)?;
    validate_update(resource, part, &old, &new, &context)
}

#[test]
fn the_api_servers_own_validation_finds_the_same_faults_in_the_same_order() {
    let mut lines = include_str!("../../../../tests/cases/admission/validation.jsonl").lines();
    let first: Value = serde_json::from_str(lines.next().expect("the bases")).expect("JSON");
    let mut faults = Vec::new();
    let mut judged = 0;
    for line in lines {
        let row: Value = serde_json::from_str(line).expect("a case");
        let base = &first["bases"][usize::try_from(row["base"].as_u64().expect("a base")).expect("small")];
        let found: Vec<Value> = match judge(&row, base) {
            Ok(()) => Vec::new(),
            Err(status) => {
                let causes = status.details["causes"].as_array().cloned().unwrap_or_default();
                causes.iter().map(|cause| json!([cause["field"], cause["message"]])).collect()
            }
        };
        judged += 1;
        if json!(found) != row["causes"] {
            faults.push(format!("{} {}\n  expected {}\n  found    {}", base["kind"], row["patch"], row["causes"], json!(found)));
        }
    }
    assert!(judged > 200, "only {judged} cases were judged");
    assert!(faults.is_empty(), "{} of {judged} differ:\n{}", faults.len(), faults.join("\n"));
}
