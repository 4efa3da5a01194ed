//! The 422 Status that field errors become (apimachinery `api/errors.NewInvalid`).

use serde_json::{Value, json};

use super::super::{Resource, Status};
use super::field::{Faults, FieldError};
use super::go;

/// Ok, or the 422 Status.
pub(super) fn check(faults: Faults, resource: &Resource, object: &Value) -> Result<(), Status> {
    let errors = faults.into_errors();
    if errors.is_empty() {
        return Ok(());
    }
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    Err(status(resource, name, &errors))
}

/// `errors.NewInvalid`: 422 with a cause per fault. The message lists equal texts once.
#[must_use]
pub fn status(resource: &Resource, name: &str, errors: &[FieldError]) -> Status {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = format!("{}: {}", error.path, error.body());
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let list = match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let kind = if resource.group.is_empty() { resource.kind.to_owned() } else { format!("{}.{}", resource.kind, resource.group) };
    let mut status = Status::new(422, "Invalid", format!("{kind} {} is invalid: {list}", go::quote(name)));
    let mut details = serde_json::Map::new();
    if !name.is_empty() {
        details.insert("name".to_owned(), json!(name));
    }
    if !resource.group.is_empty() {
        details.insert("group".to_owned(), json!(resource.group));
    }
    details.insert("kind".to_owned(), json!(resource.kind));
    let causes: Vec<Value> =
        errors.iter().map(|error| json!({"reason": error.fault.reason(), "message": error.body(), "field": error.path})).collect();
    details.insert("causes".to_owned(), Value::Array(causes));
    status.details = Value::Object(details);
    status
}
