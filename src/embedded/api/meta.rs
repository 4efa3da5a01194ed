//! Reading and writing `metadata` of JSON objects.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A string at `metadata.FIELD`, or empty.
#[must_use]
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// `metadata.name`.
#[must_use]
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// `metadata.namespace`, empty for cluster-scoped kinds.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.uid`.
#[must_use]
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// True once a deletion has begun.
#[must_use]
pub fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// `metadata.finalizers`.
#[must_use]
pub fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_str).collect())
}

/// A label's value.
#[must_use]
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"].get(key)?.as_str()
}

/// The metadata as a map, made if there is none; `None` when the object or its metadata is no map.
pub(super) fn map(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let fields = object.as_object_mut()?;
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    metadata.as_object_mut()
}

/// Sets a field of the metadata, or removes it (`Value::Null`).
pub(super) fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(metadata) = map(object) {
        if value.is_null() {
            metadata.remove(field);
        } else {
            metadata.insert(field.to_owned(), value);
        }
    }
}

/// Sets a field of the metadata to what `from` has there.
pub(super) fn keep(object: &mut Value, from: &Value, field: &str) {
    set(object, field, from["metadata"].get(field).cloned().unwrap_or(Value::Null));
}

/// RFC 3339 in whole seconds, as `metav1.Time` is written.
#[must_use]
pub fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Raises `metadata.generation` where the kind has one.
pub(super) fn raise_generation(object: &mut Value) {
    if let Some(generation) = object["metadata"]["generation"].as_i64().filter(|generation| *generation > 0) {
        set(object, "generation", json!(generation + 1));
    }
}
