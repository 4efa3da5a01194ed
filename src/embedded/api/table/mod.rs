//! Server-side printing: `meta.k8s.io/v1` Tables with the columns that kubectl shows
//! (upstream: pkg/printers/internalversion).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Object, Resource};

mod columns;
mod duration;
mod pod;
mod rows;

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
    let api = format!("meta.k8s.io/{version}");
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": rows::cells(resource, object, now)});
            if let Some(conditions) = rows::conditions(resource, object) {
                row["conditions"] = conditions;
            }
            row["object"] = match include {
                IncludeObject::None => Value::Null,
                IncludeObject::Metadata => {
                    json!({"kind": "PartialObjectMetadata", "apiVersion": api, "metadata": object["metadata"]})
                }
                IncludeObject::Object => (**object).clone(),
            };
            row
        })
        .collect();
    let definitions = if columns { columns::definitions(resource) } else { Value::Null };
    let mut table = json!({"kind": "Table", "apiVersion": api, "columnDefinitions": definitions, "rows": rows});
    table["metadata"] = metadata;
    table
}

#[cfg(test)]
mod tests;
