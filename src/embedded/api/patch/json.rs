//! `application/json-patch+json` (RFC 6902).

use serde_json::Value;

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
    let patch: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(|error| Status::new(400, "BadRequest", format!("error decoding patch: {error}")))?;
    json_patch::patch(object, &patch)
        .map_err(|_| Status::new(422, "Invalid", "the server rejected our request due to an error in our request"))
}
