//! Request bodies: bounded, by content type; options that come in a body or in the query.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use super::query::Query;
use crate::embedded::api::status::Cause;
use crate::embedded::api::{DeleteOptions, FieldValidation, Patch, Resource, Status, WriteOptions, proto, strict};

/// The API server's own limit.
pub(super) const MOST: usize = 3 * 1024 * 1024;

/// Reads a body to its end.
///
/// # Errors
/// 413 for more than 3 MiB, 400 for one that breaks off.
pub(super) async fn collect<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, MOST).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {MOST}")))
        }
        Err(error) => Err(Status::bad_request(error.to_string())),
    }
}

/// The content type without its parameters.
pub(super) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

fn unknown_format() -> Status {
    Status::new(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// The object of a create or update, and warnings about it.
///
/// # Errors
/// 400 and 415.
pub(super) fn object(
    resource: &'static Resource,
    media_type: &str,
    body: &[u8],
    mode: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    match media_type {
        "" | "application/json" => strict::decode(resource, body, false, mode),
        "application/yaml" => strict::decode(resource, body, true, mode),
        "application/vnd.kubernetes.protobuf" => {
            let object = proto::decode(body)?;
            strict::decode(resource, object.to_string().as_bytes(), false, mode)
        }
        _ => Err(unknown_format()),
    }
}

/// Any object that is no resource, such as a Binding or a review.
///
/// # Errors
/// 400 and 415.
pub(super) fn any(media_type: &str, body: &[u8]) -> Result<Value, Status> {
    match media_type {
        "" | "application/json" => strict::parse_json(body),
        "application/yaml" => strict::parse_yaml(body),
        "application/vnd.kubernetes.protobuf" => proto::decode(body),
        _ => Err(unknown_format()),
    }
}

/// A patch by its content type.
///
/// # Errors
/// 400, 415, and 422 for options that do not go with the kind of patch.
pub(super) fn patch(media_type: &str, body: &[u8], query: &Query) -> Result<Patch, Status> {
    let force = query.flag("force");
    let patch = match media_type {
        "application/merge-patch+json" => Patch::Merge(strict::parse_patch(body)?),
        "application/json-patch+json" => Patch::Json(strict::parse_patch(body)?),
        "application/strategic-merge-patch+json" => Patch::Strategic(strict::parse_patch(body)?),
        "application/apply-patch+yaml" => {
            if query.text("fieldManager").is_empty() {
                let cause = Cause::new("FieldValueRequired", "fieldManager", "Required value: is required for apply patch");
                return Err(Status::invalid_kind("PatchOptions.meta.k8s.io", "", &[cause]));
            }
            return Ok(Patch::Apply { object: strict::parse_yaml(body)?, force: force.unwrap_or(false) });
        }
        _ => {
            let mut status = Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            status.details = serde_json::json!({});
            return Err(status);
        }
    };
    if force.is_some() {
        let cause = Cause::new("FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch");
        return Err(Status::invalid_kind("PatchOptions.meta.k8s.io", "", &[cause]));
    }
    Ok(patch)
}

/// `dryRun`, `fieldValidation`; `kind` is the options' name in messages, such as `CreateOptions`.
///
/// # Errors
/// 422.
pub(super) fn write_options(query: &Query, kind: &str) -> Result<WriteOptions, Status> {
    let dry_run = dry_run(query.all("dryRun"), kind)?;
    let field_validation = match query.text("fieldValidation") {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            let message = format!("Unsupported value: \"{other}\": supported values: \"Ignore\", \"Strict\", \"Warn\"");
            let cause = Cause::new("FieldValueNotSupported", "fieldValidation", message);
            return Err(Status::invalid_kind(&format!("{kind}.meta.k8s.io"), "", &[cause]));
        }
    };
    Ok(WriteOptions { dry_run, field_validation })
}

fn dry_run<'a>(values: impl Iterator<Item = &'a str>, kind: &str) -> Result<bool, Status> {
    let mut asked = false;
    for value in values.filter(|value| !value.is_empty()) {
        if value != "All" {
            let message = format!("Unsupported value: [\"{value}\"]: supported values: \"All\"");
            let cause = Cause::new("FieldValueNotSupported", "dryRun", message);
            return Err(Status::invalid_kind(&format!("{kind}.meta.k8s.io"), "", &[cause]));
        }
        asked = true;
    }
    Ok(asked)
}

/// `metav1.DeleteOptions` from the body, or from the query where there is no body.
///
/// # Errors
/// 400, 415 and 422.
pub(super) fn delete_options(media_type: &str, body: &[u8], query: &Query) -> Result<DeleteOptions, Status> {
    const KIND: &str = "DeleteOptions";
    let mut options = DeleteOptions {
        grace_period_seconds: query.number("gracePeriodSeconds")?,
        propagation: query.get("propagationPolicy").filter(|policy| !policy.is_empty()).map(str::to_owned),
        dry_run: dry_run(query.all("dryRun"), KIND)?,
        ..DeleteOptions::default()
    };
    if let Some(orphan) = query.flag("orphanDependents") {
        options.propagation = Some(if orphan { "Orphan" } else { "Background" }.to_owned());
    }
    if body.is_empty() {
        return Ok(options);
    }
    let sent = any(media_type, body)?;
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    if sent["gracePeriodSeconds"].is_i64() {
        options.grace_period_seconds = sent["gracePeriodSeconds"].as_i64();
    }
    if let Some(orphan) = sent["orphanDependents"].as_bool() {
        options.propagation = Some(if orphan { "Orphan" } else { "Background" }.to_owned());
    }
    options.propagation = text(&sent["propagationPolicy"]).or(options.propagation);
    options.uid = text(&sent["preconditions"]["uid"]);
    options.resource_version = text(&sent["preconditions"]["resourceVersion"]);
    if let Some(values) = sent["dryRun"].as_array() {
        options.dry_run |= dry_run(values.iter().filter_map(Value::as_str), KIND)?;
    }
    Ok(options)
}
