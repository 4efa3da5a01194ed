//! `application/strategic-merge-patch+json`, as k8s.io/apimachinery `strategicpatch.StrategicMergeMapPatch` does it:
//! lists with a merge key merge item by item, directives steer the rest.

use serde_json::{Map, Value};

use super::super::Status;
use super::super::schema::{Node, Schema};
use super::super::strict::go_value;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// Why a strategic merge patch cannot be applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StrategicError {
    #[error("unknown patch type: {directive} in map: {map}")]
    Directive { directive: String, map: String },
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoMergeKey { item: String, key: String },
    #[error("delete patch type with no merge key defined")]
    DeleteWithoutKey,
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    #[error("invalid patch format of setElementOrder list")]
    ElementOrder,
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch { patch: String, order: String },
}

impl StrategicError {
    pub(super) fn status(&self) -> Status {
        match self {
            // Upstream does not expect these, and gives them no reason.
            StrategicError::Directive { .. } | StrategicError::NoMergeKey { .. } | StrategicError::DeleteWithoutKey => {
                Status::new(500, "", self.to_string())
            }
            _ => Status::new(400, "BadRequest", self.to_string()),
        }
    }
}

/// Merges `patch` into `object`, which is of type `node`.
pub(super) fn merge(schema: &Schema, node: &Node, object: &mut Value, patch: &Value) -> Result<(), StrategicError> {
    if let (Value::Object(original), Value::Object(patch)) = (object, patch) {
        merge_map(schema, node, original, patch)?;
    }
    Ok(())
}

fn merge_map(schema: &Schema, node: &Node, original: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), StrategicError> {
    match patch.get(PATCH) {
        None => {}
        Some(directive) => match directive.as_str() {
            Some("merge") => {}
            Some("delete") => {
                original.clear();
                return Ok(());
            }
            Some("replace") => {
                *original = patch.iter().filter(|(key, _)| *key != PATCH).map(|(k, v)| (k.clone(), v.clone())).collect();
                return Ok(());
            }
            _ => return Err(unknown_directive(directive, &Value::Object(patch.clone()))),
        },
    }
    retain_keys(original, patch)?;
    let ordered = merge_ordered(schema, node, original, patch)?;
    for (key, value) in patch {
        if key == PATCH || key == RETAIN_KEYS || key.starts_with(ELEMENT_ORDER) || ordered.contains(&key.as_str()) {
            continue;
        }
        if let Some(list) = key.strip_prefix(DELETE_FROM_LIST) {
            let gone = value.as_array().ok_or(StrategicError::PrimitiveList)?;
            if let Some(Value::Array(items)) = original.get_mut(list) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if value.is_null() {
            original.remove(key);
            continue;
        }
        let child = node.child(schema, key).unwrap_or(&Node::Any);
        match (original.get_mut(key), value) {
            (Some(Value::Object(original)), Value::Object(patch)) => merge_map(schema, child, original, patch)?,
            (Some(Value::Array(items)), Value::Array(patch)) => *items = merge_list(schema, child, items, patch)?,
            _ => {
                if let Some(value) = without_directives(value) {
                    original.insert(key.clone(), value);
                }
            }
        }
    }
    Ok(())
}

fn unknown_directive(directive: &Value, map: &Value) -> StrategicError {
    StrategicError::Directive { directive: go_value(directive), map: go_value(map) }
}

/// `$retainKeys`: of the original only these keys stay.
fn retain_keys(original: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), StrategicError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let keys: Option<Vec<&str>> = keys.as_array().map(|keys| keys.iter().filter_map(Value::as_str).collect());
    let keys = keys.ok_or(StrategicError::RetainKeys)?;
    let stray = |key: &String| !key.starts_with('$') && !keys.contains(&key.as_str());
    if patch.iter().any(|(key, value)| stray(key) && !value.is_null()) {
        return Err(StrategicError::RetainKeys);
    }
    original.retain(|key, _| keys.contains(&key.as_str()));
    Ok(())
}

/// The lists that have a `$setElementOrder`: merged and put into that order. Returns their names.
fn merge_ordered<'p>(
    schema: &Schema,
    node: &Node,
    original: &mut Map<String, Value>,
    patch: &'p Map<String, Value>,
) -> Result<Vec<&'p str>, StrategicError> {
    let mut done = Vec::new();
    for (key, order) in patch {
        let Some(list) = key.strip_prefix(ELEMENT_ORDER) else { continue };
        let order = order.as_array().ok_or(StrategicError::ElementOrder)?;
        let child = node.child(schema, list).unwrap_or(&Node::Any);
        let merge_key = merge_key(child).unwrap_or_default();
        let patched = match patch.get(list) {
            Some(Value::Array(items)) => Some(items),
            Some(Value::Null) => continue,
            Some(_) => return Err(StrategicError::ElementOrder),
            None => None,
        };
        if let Some(items) = patched {
            check_order(items, order, merge_key)?;
        }
        let before = original.get(list).and_then(Value::as_array).cloned();
        let merged = match (&before, patched) {
            (Some(before), None) => before.clone(),
            (None, Some(items)) => items.iter().filter_map(without_directives).collect(),
            (Some(before), Some(items)) => merge_list(schema, child, before, items)?,
            (None, None) => continue,
        };
        let sorted = sort(merged, order, &before.unwrap_or_default(), merge_key);
        original.insert(list.to_owned(), Value::Array(sorted));
        done.push(list);
    }
    Ok(done)
}

/// The patch's items must come in the order that `$setElementOrder` gives.
fn check_order(items: &[Value], order: &[Value], merge_key: &str) -> Result<(), StrategicError> {
    let mut rest = order.iter();
    let follows = items
        .iter()
        .filter(|item| item.get(PATCH).is_none())
        .all(|item| rest.any(|next| identity(next, merge_key) == identity(item, merge_key)));
    if follows {
        return Ok(());
    }
    let show = |values: &[Value]| Value::Array(values.to_vec()).to_string();
    Err(StrategicError::OrderMismatch { patch: show(items), order: show(order) })
}

fn merge_key(node: &Node) -> Option<&'static str> {
    match node {
        Node::List { rule, .. } => rule.merge,
        _ => None,
    }
}

/// What makes an item the same item: its merge key's value, or (scalars) itself.
fn identity<'v>(item: &'v Value, merge_key: &str) -> Option<&'v Value> {
    if merge_key.is_empty() { Some(item) } else { item.get(merge_key) }
}

fn merge_list(schema: &Schema, node: &Node, original: &[Value], patch: &[Value]) -> Result<Vec<Value>, StrategicError> {
    let (Some(key), Node::List { items: item_type, .. }) = (merge_key(node), node) else {
        return Ok(patch.iter().filter_map(without_directives).collect());
    };
    if key.is_empty() || patch.iter().chain(original).any(|item| !item.is_object()) {
        let mut merged: Vec<Value> = Vec::new();
        for item in original.iter().chain(patch) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return Ok(sort(merged, patch, original, ""));
    }
    let mut merged = original.to_vec();
    let mut plain = Vec::new();
    let mut replace = false;
    for item in patch {
        match item.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            None => plain.push(item.clone()),
            Some("delete") => {
                let wanted = item.get(key).ok_or(StrategicError::DeleteWithoutKey)?;
                merged.retain(|other| other.get(key) != Some(wanted));
            }
            Some("replace") => {
                replace = true;
                let rest: Map<String, Value> =
                    item.as_object().into_iter().flatten().filter(|(k, _)| *k != PATCH).map(|(k, v)| (k.clone(), v.clone())).collect();
                if !rest.is_empty() {
                    plain.push(Value::Object(rest));
                }
            }
            Some(_) => return Err(unknown_directive(&item[PATCH], item)),
        }
    }
    if replace {
        return Ok(plain);
    }
    for item in &plain {
        let wanted = item.get(key).ok_or_else(|| StrategicError::NoMergeKey { item: go_value(item), key: key.to_owned() })?;
        match merged.iter_mut().find(|other| other.get(key) == Some(wanted)) {
            Some(found) => merge(schema, item_type, found, item)?,
            None => merged.extend(without_directives(item)),
        }
    }
    Ok(sort(merged, &plain, original, key))
}

/// Items named by `order` in that order, the others where they stood among them before.
fn sort(items: Vec<Value>, order: &[Value], before: &[Value], merge_key: &str) -> Vec<Value> {
    let place = |list: &[Value], item: &Value| list.iter().position(|other| identity(other, merge_key) == identity(item, merge_key));
    let (mut named, mut others): (Vec<Value>, Vec<Value>) = items.into_iter().partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    others.sort_by_key(|item| place(before, item));
    let mut sorted = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => break,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(name)) => match (place(before, other), place(before, name)) {
                (Some(other), Some(name)) => other < name,
                _ => false,
            },
        };
        sorted.extend(if other_first { others.next() } else { named.next() });
    }
    sorted
}

/// A value that is new in the object: without directives and nulls. `None` for an item or map to delete.
fn without_directives(value: &Value) -> Option<Value> {
    match value {
        Value::Object(map) => {
            if map.get(PATCH).and_then(Value::as_str) == Some("delete") {
                return None;
            }
            let kept = map
                .iter()
                .filter(|(key, value)| {
                    let directive =
                        *key == PATCH || *key == RETAIN_KEYS || key.starts_with(DELETE_FROM_LIST) || key.starts_with(ELEMENT_ORDER);
                    !directive && !value.is_null()
                })
                .filter_map(|(key, value)| Some((key.clone(), without_directives(value)?)))
                .collect();
            Some(Value::Object(kept))
        }
        Value::Array(items) => Some(Value::Array(items.iter().filter_map(without_directives).collect())),
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests;
