//! Applying patches to objects: one module per kind of patch.

use serde_json::Value;

use super::{Patch, Resource, Status, schema};

mod json;
mod strategic;

/// The object that results from a merge, JSON or strategic merge patch. [`Patch::Apply`] is not for this function
/// but for [`super::fields::server_side_apply`]; here it merges.
///
/// # Errors
/// 400 and 422 with the API server's wording for a patch that cannot be applied.
pub fn apply(resource: &'static Resource, current: &Value, patch: &Patch) -> Result<Value, Status> {
    let mut object = current.clone();
    match patch {
        Patch::Merge(patch) | Patch::Apply { object: patch, .. } => {
            require_object(patch)?;
            json_patch::merge(&mut object, patch);
        }
        Patch::Json(patch) => json::apply(&mut object, patch)?,
        Patch::Strategic(patch) => {
            require_object(patch)?;
            let table = schema::table();
            strategic::merge(table, &table.kind(resource), &mut object, patch).map_err(|error| error.status())?;
        }
    }
    Ok(object)
}

fn require_object(patch: &Value) -> Result<(), Status> {
    let found = match patch {
        Value::Object(_) => return Ok(()),
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    let message = format!("error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}");
    Err(Status::new(400, "BadRequest", message))
}
