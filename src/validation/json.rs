//! Reading JSON objects the way Go's typed structs do: a field that is missing or null has its zero value.

use serde_json::{Map, Value};

/// What a missing field reads as.
pub(crate) static NULL: Value = Value::Null;

/// A field, or null.
pub(crate) fn field<'a>(object: &'a Value, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&NULL)
}

/// A string field; empty when it is not set.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    field(object, name).as_str().unwrap_or_default()
}

/// A pointer to a string: `None` when it is not set.
pub(crate) fn optional<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    field(object, name).as_str()
}

/// An integer field; zero when it is not set.
pub(crate) fn int(object: &Value, name: &str) -> i64 {
    field(object, name).as_i64().unwrap_or_default()
}

/// A pointer to a bool.
pub(crate) fn flag(object: &Value, name: &str) -> Option<bool> {
    field(object, name).as_bool()
}

/// A list field; empty when it is not set.
pub(crate) fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    field(object, name).as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The entries of a map field in key order.
pub(crate) fn entries<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    field(object, name).as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// How many entries a map field has.
pub(crate) fn size(object: &Value, name: &str) -> usize {
    field(object, name).as_object().map_or(0, Map::len)
}

/// True when a pointer field is set.
pub(crate) fn is_set(object: &Value, name: &str) -> bool {
    !field(object, name).is_null()
}

/// Sets a field if it is missing or null.
pub(crate) fn default(object: &mut Value, name: &str, value: impl FnOnce() -> Value) {
    if let Some(fields) = object.as_object_mut()
        && fields.get(name).is_none_or(Value::is_null)
    {
        fields.insert(name.to_owned(), value());
    }
}

/// Sets a string field if it is missing or empty.
pub(crate) fn default_text(object: &mut Value, name: &str, value: &str) {
    if text(object, name).is_empty()
        && let Some(fields) = object.as_object_mut()
    {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Removes a field.
pub(crate) fn remove(object: &mut Value, name: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(name);
    }
}

/// Sets a field of the metadata.
pub(crate) fn set_meta(object: &mut Value, name: &str, value: Value) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert(name.to_owned(), value);
    }
}

/// A list field to change in place.
pub(crate) fn list_mut<'a>(object: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Equality as Go's semantic `DeepEqual` sees it: unset, null and empty are the same.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(key, value)| same(value, b.get(key).unwrap_or(&NULL)))
                && b.iter().all(|(key, value)| a.contains_key(key) || is_empty(value))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (a, b) => a == b || (is_empty(a) && is_empty(b)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Raises `metadata.generation` where the spec is not what it was.
pub(crate) fn raise_if_changed(old: &Value, new: &mut Value) {
    let generation = int(field(old, "metadata"), "generation");
    let changed = !same(field(old, "spec"), field(new, "spec"));
    if generation > 0 || changed {
        set_meta(new, "generation", serde_json::json!(generation + i64::from(changed)));
    }
}
