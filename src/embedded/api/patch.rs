//! Applying patches to objects.

use serde_json::Value;

use super::{Patch, Resource, Status};

/// The object that results from a merge, JSON or strategic merge patch. [`Patch::Apply`] is not for this function
/// but for [`super::fields::server_side_apply`].
///
/// # Errors
/// 400 and 422 with the API server's wording for a patch that cannot be applied.
pub fn apply(resource: &'static Resource, current: &Value, patch: &Patch) -> Result<Value, Status> {
    let _ = resource;
    let mut object = current.clone();
    match patch {
        Patch::Merge(patch) | Patch::Strategic(patch) | Patch::Apply { object: patch, .. } => json_patch::merge(&mut object, patch),
        Patch::Json(patch) => {
            let patch: json_patch::Patch =
                serde_json::from_value(patch.clone()).map_err(|error| Status::new(400, "BadRequest", error.to_string()))?;
            json_patch::patch(&mut object, &patch).map_err(|error| Status::new(422, "Invalid", error.to_string()))?;
        }
    }
    Ok(object)
}
