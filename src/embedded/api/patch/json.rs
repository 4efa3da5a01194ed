//! `application/json-patch+json` (RFC 6902).

use json_patch::{AddOperation, PatchOperation};
use serde_json::{Value, json};

use super::super::Status;

/// Operations in one patch beyond which upstream refuses it.
const MOST_OPERATIONS: usize = 10_000;

/// Applies a list of operations; `object` is unchanged when one fails.
pub(super) fn apply(object: &mut Value, patch: &Value) -> Result<(), Status> {
    let Some(operations) = patch.as_array() else {
        let message = "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch";
        return Err(Status::new(400, "BadRequest", message));
    };
    if operations.len() > MOST_OPERATIONS {
        let message = format!("The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}", operations.len());
        return Err(Status::new(413, "RequestEntityTooLarge", message));
    }
    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).map_err(|_| rejected())?;
    let before = object.clone();
    for operation in patch.0 {
        let operation = as_upstream(object, operation);
        if json_patch::patch(object, std::slice::from_ref(&operation)).is_err() {
            *object = before;
            return Err(rejected());
        }
    }
    Ok(())
}

/// Upstream says no more than this of operations that cannot be carried out.
fn rejected() -> Status {
    let mut status = Status::new(422, "Invalid", "the server rejected our request due to an error in our request");
    status.details = json!({});
    status
}

/// Upstream's `replace` of a key that a map does not have adds it.
fn as_upstream(object: &Value, operation: PatchOperation) -> PatchOperation {
    let PatchOperation::Replace(replace) = operation else { return operation };
    let parent = replace.path.as_str().rsplit_once('/').and_then(|(parent, _)| object.pointer(parent));
    let missing = parent.is_some_and(Value::is_object) && object.pointer(replace.path.as_str()).is_none();
    if missing { PatchOperation::Add(AddOperation { path: replace.path, value: replace.value }) } else { PatchOperation::Replace(replace) }
}
