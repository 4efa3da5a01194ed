use std::collections::BTreeSet;

use super::super::resource::RESOURCES;
use super::super::schema::schema_name;
use super::*;

fn get(path: &str) -> Value {
    serde_json::from_slice(&serve(path, "application/json").expect(path).body).expect("JSON")
}

fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("$ref", Value::String(target)) => drop(into.insert(target.clone())),
                    _ => references(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}

#[test]
fn the_index_leads_to_the_documents() {
    let index = serve("/openapi/v3", "*/*").expect("the index");
    assert_eq!(index.content_type, "text/plain; charset=utf-8");
    let index: Value = serde_json::from_slice(&index.body).expect("JSON");
    for path in ["api/v1", "apis/resource.k8s.io/v1"] {
        let url = index["paths"][path]["serverRelativeURL"].as_str().expect("a url");
        let (path, hash) = url.split_once("?hash=").expect("a hash");
        let document = serve(path, "application/json").expect("a document");
        assert_eq!(document.etag, Some(format!("\"{hash}\"")));
    }
    assert_eq!(serve("/openapi/v3/apis/apps/v1", "*/*"), None);
    assert_eq!(serve("/openapi/v2", "*/*"), None);
}

#[test]
fn every_reference_is_there() {
    for path in ["/openapi/v3/api/v1", "/openapi/v3/apis/resource.k8s.io/v1"] {
        let document = get(path);
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 20);
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("a local reference").to_owned();
            assert!(document.pointer(&pointer).is_some(), "{path}: {reference}");
        }
    }
}

/// What kubectl asks of the documents before it validates or explains.
#[test]
fn kubectl_finds_what_it_needs() {
    for resource in RESOURCES {
        let base = if resource.group.is_empty() { "api/v1".to_owned() } else { format!("apis/{}/v1", resource.group) };
        let document = get(&format!("/openapi/v3/{base}"));
        let scope = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
        let item = &document["paths"][format!("/{base}/{scope}{}/{{name}}", resource.plural)];
        let patch = &item["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], resource.kind);
        assert!(
            patch["parameters"].as_array().is_some_and(|list| list.iter().any(|p| p["name"] == "fieldValidation" && p["in"] == "query"))
        );
        let answer = &item["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
        assert_eq!(answer, &json!(format!("#/components/schemas/{}", schema_name(resource))));
        let component = &document["components"]["schemas"][schema_name(resource)];
        assert_eq!(component["x-kubernetes-group-version-kind"][0]["kind"], resource.kind);
    }
}

/// The list extensions of resource.k8s.io/v1, as a real server publishes them.
#[test]
fn list_types_are_as_recorded() {
    let recorded: Value = serde_json::from_str(include_str!("../../../../tests/cases/discovery/list-types.json")).expect("JSON");
    let document = get("/openapi/v3/apis/resource.k8s.io/v1");
    let mut compared = 0;
    for (name, wanted) in recorded.as_object().expect("a map") {
        let (owner, field) = name.split_once('.').expect("a field");
        let schema = &document["components"]["schemas"][format!("io.k8s.api.resource.v1.{owner}")];
        if schema.is_null() && owner.starts_with("DeviceTaintRule") {
            continue;
        }
        let extensions: Map<String, Value> = schema["properties"][field]
            .as_object()
            .expect(name)
            .iter()
            .filter(|(key, _)| key.starts_with("x-kubernetes-"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        assert_eq!(Value::Object(extensions), *wanted, "{name}");
        compared += 1;
    }
    assert!(compared > 30);
}

/// As a real server publishes them.
#[test]
fn enums_and_required_fields() {
    let document = get("/openapi/v3/api/v1");
    let schemas = &document["components"]["schemas"];
    let policy = &schemas["io.k8s.api.core.v1.Container"]["properties"]["imagePullPolicy"];
    assert_eq!(policy["enum"], json!(["Always", "IfNotPresent", "Never"]));
    assert_eq!(schemas["io.k8s.api.core.v1.LocalObjectReference"].get("required"), None);
    assert_eq!(schemas["io.k8s.api.core.v1.Pod"].get("required"), None);
    assert_eq!(schemas["io.k8s.api.core.v1.Event"]["required"], json!(["involvedObject", "metadata"]));
    let slice = &get("/openapi/v3/apis/resource.k8s.io/v1")["components"]["schemas"]["io.k8s.api.resource.v1.ResourceSliceSpec"];
    assert_eq!(slice["properties"]["skipNodeOperations"]["items"]["enum"], json!(["*", "NodePrepareResources", "NodeUnprepareResources"]));
    // Every enum of the table is used.
    let used = include_str!("enums.txt").lines().filter(|line| !line.starts_with('#')).filter(|line| {
        let (owner, field) = line.split(' ').next().and_then(|name| name.split_once('.')).expect("a field");
        let find = |document: &Value| {
            let name = [format!("io.k8s.api.core.v1.{owner}"), format!("io.k8s.api.resource.v1.{owner}")];
            name.iter().any(|name| {
                let schema = &document["components"]["schemas"][name]["properties"][field.trim_end_matches("[]")];
                schema["enum"].is_array() || schema["items"]["enum"].is_array()
            })
        };
        find(&document) || find(&get("/openapi/v3/apis/resource.k8s.io/v1"))
    });
    assert_eq!(used.count(), include_str!("enums.txt").lines().count() - 1);
}
