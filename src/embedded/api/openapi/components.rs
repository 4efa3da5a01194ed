//! `components.schemas`: k8s-openapi's schemas in upstream's form, with the list extensions that it leaves out.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::super::resource::{RESOURCES, Resource};
use super::super::schema::{Keys, ListRule, lists, schema_name};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A reference to a component.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Name of the component of a meta type, such as `DeleteOptions`.
pub(super) fn meta(kind: &str) -> String {
    format!("{META}.{kind}")
}

/// The schemas of a group's kinds, their lists, and all that these refer to.
pub(super) fn of_group(group: &str, types: &Map<String, Value>) -> Value {
    let mut out = Map::new();
    out.insert(
        meta("Patch"),
        json!({"description": "Patch is provided to give a concrete name and type to the Kubernetes PATCH request body.", "type": "object"}),
    );
    let mut queue = vec![meta("DeleteOptions"), meta("Status"), meta("ListMeta")];
    for resource in RESOURCES.iter().filter(|resource| resource.group == group) {
        queue.push(schema_name(resource));
        out.insert(format!("{}List", schema_name(resource)), list(resource));
    }
    if group.is_empty() {
        queue.push("io.k8s.api.core.v1.Binding".to_owned());
    }
    while let Some(name) = queue.pop() {
        let Some(schema) = types.get(&name).filter(|_| !out.contains_key(&name)) else { continue };
        let owner = name.rsplit('.').next().unwrap_or(&name);
        let mut schema = convert(schema, owner, &mut queue);
        scalar_form(owner, &mut schema);
        optional_in_upstream(owner, &mut schema);
        if lists::ATOMIC_STRUCTS.contains(&owner) {
            schema["x-kubernetes-map-type"] = json!("atomic");
        }
        if let Some(kind) = group_version_kind(&name) {
            schema["x-kubernetes-group-version-kind"] = json!([kind]);
        }
        out.insert(name, schema);
    }
    Value::Object(out)
}

fn group_version_kind(name: &str) -> Option<Value> {
    if name == "io.k8s.api.core.v1.Binding" {
        return Some(json!({"group": "", "kind": "Binding", "version": "v1"}));
    }
    let resource = RESOURCES.iter().find(|resource| schema_name(resource) == name)?;
    Some(json!({"group": resource.group, "kind": resource.kind, "version": resource.version}))
}

fn list(resource: &Resource) -> Value {
    let kind = resource.kind;
    json!({
        "description": format!("{kind}List is a list of {}.", resource.plural),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [reference(&meta("ListMeta"))]},
            "items": {"type": "array", "items": {"allOf": [reference(&schema_name(resource))]}},
        },
        "x-kubernetes-group-version-kind": [{"group": resource.group, "kind": format!("{kind}List"), "version": resource.version}],
    })
}

/// Types with an embedded reference, whose name upstream does not require.
const NAME_IS_OPTIONAL: &[&str] = &[
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "LocalObjectReference",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
];

/// k8s-openapi requires the metadata of every kind (upstream only that of events) and every name with a default.
fn optional_in_upstream(owner: &str, schema: &mut Value) {
    let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) else { return };
    required.retain(|field| {
        let optional = (field == "metadata" && owner != "Event") || (field == "name" && NAME_IS_OPTIONAL.contains(&owner));
        !optional
    });
    if required.is_empty()
        && let Some(schema) = schema.as_object_mut()
    {
        schema.remove("required");
    }
}

/// Quantities and the like are strings or numbers, which upstream says as `oneOf`.
fn scalar_form(owner: &str, schema: &mut Value) {
    let forms = match owner {
        "Quantity" => json!([{"type": "string"}, {"type": "number"}]),
        "IntOrString" => json!([{"type": "integer"}, {"type": "string"}]),
        _ => return,
    };
    if owner == "IntOrString" {
        schema["format"] = json!("int-or-string");
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("x-kubernetes-int-or-string");
        schema.insert("oneOf".to_owned(), forms);
    }
}

/// A schema with references to components; the names it refers to go to `queue`.
fn convert(schema: &Value, owner: &str, queue: &mut Vec<String>) -> Value {
    let Some(fields) = schema.as_object() else { return schema.clone() };
    let mut out = Map::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("$ref", Value::String(target)) => {
                let name = target.rsplit('/').next().unwrap_or(target);
                queue.push(name.to_owned());
                out.insert("allOf".to_owned(), json!([reference(name)]));
            }
            ("properties", Value::Object(properties)) => {
                let converted = properties.iter().map(|(field, schema)| {
                    let mut schema = convert(schema, owner, queue);
                    extend(&mut schema, owner, field);
                    (field.clone(), schema)
                });
                let converted: Map<String, Value> = converted.collect();
                out.insert(key.clone(), Value::Object(converted));
            }
            ("items" | "additionalProperties", _) => {
                out.insert(key.clone(), convert(value, owner, queue));
            }
            _ => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(out)
}

/// The values that fields may have, by type and field.
fn enums() -> &'static BTreeMap<&'static str, Vec<&'static str>> {
    static ENUMS: OnceLock<BTreeMap<&'static str, Vec<&'static str>>> = OnceLock::new();
    ENUMS.get_or_init(|| {
        let lines = include_str!("enums.txt").lines().filter(|line| !line.starts_with('#'));
        let entries = lines.filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.map(|word| word.trim_matches('"')).collect()))
        });
        entries.collect()
    })
}

/// What upstream says of a field beyond its type: enums and `x-kubernetes-` extensions.
fn extend(schema: &mut Value, owner: &str, field: &str) {
    if lists::ATOMIC_MAPS.contains(&(owner, field)) {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    if let Some(values) = enums().get(format!("{owner}.{field}").as_str()) {
        schema["enum"] = json!(values);
        let listed: Vec<String> = values.iter().map(|value| format!(" - `{value:?}`")).collect();
        let description = schema["description"].as_str().unwrap_or_default();
        schema["description"] = json!(format!("{description}\n\nPossible enum values:\n{}", listed.join("\n")));
    }
    if schema["type"] != "array" {
        return;
    }
    if let Some(values) = enums().get(format!("{owner}.{field}[]").as_str()) {
        schema["items"]["enum"] = json!(values);
    }
    let ListRule { keys, merge, retain_keys } = lists::rule(owner, field);
    schema["x-kubernetes-list-type"] = match keys {
        Keys::Atomic => json!("atomic"),
        Keys::Set => json!("set"),
        Keys::Map(keys) => {
            schema["x-kubernetes-list-map-keys"] = json!(keys);
            json!("map")
        }
    };
    if let Some(key) = merge {
        schema["x-kubernetes-patch-strategy"] = json!(if *retain_keys { "merge,retainKeys" } else { "merge" });
        if !key.is_empty() {
            schema["x-kubernetes-patch-merge-key"] = json!(key);
        }
    }
}
