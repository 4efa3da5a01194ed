//! `paths`: the operations of each served kind, with what kubectl looks for in them (the query parameter
//! `fieldValidation`, the kind, the schema of the answer).

use serde_json::{Map, Value, json};

use super::super::resource::{RESOURCES, Resource};
use super::super::schema::schema_name;
use super::components::{meta, reference};

/// The paths of a group; `base` is `api/v1` or `apis/GROUP/v1`.
pub(super) fn of_group(group: &str, base: &str) -> Value {
    let mut paths = Map::new();
    for resource in RESOURCES.iter().filter(|resource| resource.group == group) {
        let (everywhere, plural) = (format!("/{base}/{}", resource.plural), resource.plural);
        let collection = if resource.namespaced { format!("/{base}/namespaces/{{namespace}}/{plural}") } else { everywhere.clone() };
        let item = format!("{collection}/{{name}}");
        if resource.namespaced {
            paths.insert(everywhere, with_parameters(json!({"get": list(resource)}), &[]));
        }
        let scope: &[&str] = if resource.namespaced { &["namespace"] } else { &[] };
        let named: &[&str] = if resource.namespaced { &["name", "namespace"] } else { &["name"] };
        let mut of_collection = json!({"get": list(resource), "post": write(resource, "post", "create")});
        if resource.kind != "Namespace" {
            of_collection["delete"] = delete(resource, "deletecollection");
        }
        paths.insert(collection, with_parameters(of_collection, scope));
        let mut of_item = object(resource);
        of_item["delete"] = delete(resource, "delete");
        paths.insert(item.clone(), with_parameters(of_item, named));
        if resource.has_status {
            paths.insert(format!("{item}/status"), with_parameters(object(resource), named));
        }
        if resource.kind == "Pod" {
            paths.insert(format!("{item}/log"), with_parameters(json!({"get": log(resource)}), named));
            paths.insert(format!("{item}/binding"), with_parameters(json!({"post": binding(resource)}), named));
        }
        if resource.kind == "Namespace" {
            paths.insert(format!("{item}/finalize"), with_parameters(json!({"put": write(resource, "put", "put")}), named));
        }
    }
    Value::Object(paths)
}

fn object(resource: &Resource) -> Value {
    json!({
        "get": operation(resource, "get", &[], &schema_name(resource)),
        "put": write(resource, "put", "put"),
        "patch": write(resource, "patch", "patch"),
    })
}

fn with_parameters(mut path: Value, names: &[&str]) -> Value {
    let in_path = names.iter().map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    path["parameters"] = Value::Array(in_path.chain([query("pretty", "string")]).collect());
    path
}

fn query(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

fn operation(resource: &Resource, action: &str, parameters: &[(&str, &str)], answer: &str) -> Value {
    let parameters: Vec<Value> = parameters.iter().map(|(name, kind)| query(name, kind)).collect();
    json!({
        "parameters": parameters,
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": reference(answer)}}},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
    })
}

fn list(resource: &Resource) -> Value {
    let parameters = [
        ("allowWatchBookmarks", "boolean"),
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("timeoutSeconds", "integer"),
        ("watch", "boolean"),
    ];
    operation(resource, "list", &parameters, &format!("{}List", schema_name(resource)))
}

fn write(resource: &Resource, method: &str, action: &str) -> Value {
    let mut parameters = vec![("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
    let types: &[&str] = if method == "patch" {
        parameters.push(("force", "boolean"));
        &[
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ]
    } else {
        &["application/json"]
    };
    let body = if method == "patch" { meta("Patch") } else { schema_name(resource) };
    let mut operation = operation(resource, action, &parameters, &schema_name(resource));
    operation["requestBody"] = request(types, &body);
    if method != "put" {
        operation["responses"]["201"] =
            json!({"description": "Created", "content": {"application/json": {"schema": reference(&schema_name(resource))}}});
    }
    operation
}

fn request(types: &[&str], schema: &str) -> Value {
    let content: Map<String, Value> = types.iter().map(|t| ((*t).to_owned(), json!({"schema": reference(schema)}))).collect();
    json!({"content": content, "required": true})
}

fn delete(resource: &Resource, action: &str) -> Value {
    let mut parameters = vec![("dryRun", "string"), ("gracePeriodSeconds", "integer"), ("propagationPolicy", "string")];
    if action == "deletecollection" {
        parameters.extend([("fieldSelector", "string"), ("labelSelector", "string")]);
    }
    let mut operation = operation(resource, action, &parameters, &meta("Status"));
    operation["requestBody"] = json!({"content": {"application/json": {"schema": reference(&meta("DeleteOptions"))}}});
    operation
}

fn log(resource: &Resource) -> Value {
    let parameters =
        [("container", "string"), ("follow", "boolean"), ("previous", "boolean"), ("tailLines", "integer"), ("timestamps", "boolean")];
    let mut operation = operation(resource, "get", &parameters, "");
    operation["responses"]["200"] = json!({"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}});
    operation
}

fn binding(resource: &Resource) -> Value {
    const BINDING: &str = "io.k8s.api.core.v1.Binding";
    let mut operation =
        operation(resource, "post", &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")], BINDING);
    operation["requestBody"] = request(&["application/json"], BINDING);
    operation["x-kubernetes-group-version-kind"]["kind"] = json!("Binding");
    operation
}
