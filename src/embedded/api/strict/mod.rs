//! Reading request bodies: unknown and duplicate fields by `fieldValidation`, wrong types, apiVersion and kind.
//!
//! What upstream's decoders do to an object happens here too: fields that the kind does not have are dropped, and so
//! are nulls and empty lists and maps (`omitempty`). Wording: k8s.io/apimachinery's serializers and sigs.k8s.io/json.

use serde::de::DeserializeSeed;
use serde_json::{Value, json};

use super::resource::RESOURCES;
use super::{FieldValidation, Patch, Resource, Status, schema};

use crate::validation::decode::{Reader, Sink};

/// Reads the body of a create or update.
///
/// `yaml` is true for `application/yaml`. Returns the object and the warnings for the answer's `Warning` headers
/// (texts such as `unknown field "spec.x"`).
///
/// # Errors
/// 400 for a body that cannot be read, is of another kind or has a value of a wrong type, and under `Strict` for
/// unknown or duplicate fields.
pub fn decode(resource: &'static Resource, body: &[u8], yaml: bool, mode: FieldValidation) -> Result<(Value, Vec<String>), Status> {
    let unrecognized = |error: String| {
        let kind = resource.kind;
        bad(format!("the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {error}"))
    };
    let table = schema::table();
    let mut sink = Sink::new(table);
    let node = table.kind(resource);
    let mut object = if yaml {
        let value = parse_yaml(body)?;
        Reader::new(&node, &mut sink).deserialize(value).map_err(|error| bad(error.to_string()))?
    } else {
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let read = Reader::new(&node, &mut sink).deserialize(&mut deserializer);
        read.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| unrecognized(describe(&error, body)))?
    };
    if !object.is_object() {
        return Err(unrecognized(format!("json: cannot unmarshal {} into Go value of type struct", go_kind(&object))));
    }
    let kind = type_meta(resource, &object)?;
    let warnings = judge(resource, &kind, sink, mode)?;
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.into();
    Ok((object, warnings))
}

/// Checks an object that was made by a patch or in process: the same, without duplicate keys (a `Value` has none).
///
/// # Errors
/// 400 for values of a wrong type, and for unknown fields under `Strict`.
pub fn check(resource: &'static Resource, object: &mut Value, mode: FieldValidation) -> Result<Vec<String>, Status> {
    let table = schema::table();
    let mut sink = Sink::new(table);
    let node = table.kind(resource);
    *object = Reader::new(&node, &mut sink).deserialize(object.take()).map_err(|error| bad(error.to_string()))?;
    judge(resource, resource.kind, sink, mode)
}

/// Checks what a patch made of an object, as [`check`] does.
///
/// # Errors
/// 422 on the patch, with what upstream shows of it.
pub fn check_patched(resource: &'static Resource, object: &mut Value, patch: &Patch, mode: FieldValidation) -> Result<Vec<String>, Status> {
    let table = schema::table();
    let mut sink = Sink::new(table);
    let node = table.kind(resource);
    let before = object.take();
    *object = Reader::new(&node, &mut sink).deserialize(&before).map_err(|error| bad(error.to_string()))?;
    let refused = mode == FieldValidation::Strict && !sink.unknown.is_empty();
    let strategic = matches!(patch, Patch::Strategic(_));
    let why = match sink.fault() {
        Some(_) if strategic && sink.plain.is_some() => sink.plain.unwrap_or_default(),
        Some(wrong) => wrong,
        None if refused => format!("strict decoding error: {}", sink.unknown.join(", ")),
        None => return Ok(if mode == FieldValidation::Warn { sink.unknown } else { Vec::new() }),
    };
    let shown = match patch {
        Patch::Strategic(patch) => go_value(patch),
        _ => before.to_string(),
    };
    let message = format!("Invalid value: {shown:?}: {why}");
    let mut status = Status::new(422, "Invalid", format!(" \"\" is invalid: patch: {message}"));
    status.details = json!({"causes": [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]});
    Err(status)
}

/// A value as Go prints it (`%+v`).
pub(super) fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            format!("map[{}]", map.iter().map(|(key, value)| format!("{key}:{}", go_value(value))).collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

fn bad(message: impl Into<String>) -> Status {
    Status::new(400, "BadRequest", message)
}

fn judge(resource: &Resource, kind: &str, sink: Sink<'_>, mode: FieldValidation) -> Result<Vec<String>, Status> {
    let refuse = |why: &str| {
        let (version, expected) = (resource.version, resource.kind);
        bad(format!("{kind} in version \"{version}\" cannot be handled as a {expected}: {why}"))
    };
    if let Some(error) = sink.fault() {
        return Err(refuse(&error));
    }
    match mode {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(sink.unknown),
        FieldValidation::Strict if sink.unknown.is_empty() => Ok(Vec::new()),
        FieldValidation::Strict => Err(refuse(&format!("strict decoding error: {}", sink.unknown.join(", ")))),
    }
}

/// The body's kind, after checking that it and apiVersion are the endpoint's. Both may be left out.
fn type_meta(resource: &Resource, object: &Value) -> Result<String, Status> {
    let kind = object["kind"].as_str().filter(|kind| !kind.is_empty()).unwrap_or(resource.kind);
    let api = resource.api_version();
    let version = object["apiVersion"].as_str().filter(|version| !version.is_empty()).unwrap_or(&api);
    let (group, short) = version.rsplit_once('/').unwrap_or(("", version));
    let known = |group: &str, kind: &str| RESOURCES.iter().any(|r| r.group == group && r.kind == kind);
    let expected = resource.kind;
    let served_before = group == "resource.k8s.io" && matches!(short, "v1beta1" | "v1beta2" | "v1alpha3");
    if known(group, kind) && version == api {
        if kind == expected {
            return Ok(kind.to_owned());
        }
        let internal = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
        return Err(bad(format!(
            "{kind} in version \"{short}\" cannot be handled as a {expected}: converting ({short}.{kind}) to ({internal}.{expected}): unknown conversion"
        )));
    }
    if known(group, kind) && (short == "v1" || served_before) {
        return Err(bad(format!("the API version in the data ({version}) does not match the expected API version ({api})")));
    }
    Err(bad(format!(
        "{kind} in version \"{short}\" cannot be handled as a {expected}: no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""
    )))
}

/// How Go names the kind of a JSON value in errors.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A syntax error as Go's decoder words it, with the beginning of the body.
fn describe(error: &serde_json::Error, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let shown: String = if text.is_empty() { "<empty>".to_owned() } else { text.chars().take(80).collect() };
    if error.is_eof() {
        return format!("unexpected end of JSON input ({shown})");
    }
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    match line.chars().nth(error.column().saturating_sub(1)) {
        Some(found) => format!("invalid character {found:?} looking for beginning of value ({shown})"),
        None => format!("{error} ({shown})"),
    }
}

/// The body of a JSON, merge or strategic merge patch.
///
/// # Errors
/// 400 for a body that is not JSON.
pub fn parse_patch(body: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(body).map_err(|_| bad("invalid JSON patch"))
}

/// Any JSON body, such as a patch or DeleteOptions.
///
/// # Errors
/// 400 for a body that is not JSON.
pub fn parse_json(body: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(body).map_err(|error| bad(format!("error decoding body: {}", describe(&error, body))))
}

/// Any YAML (and so JSON) body, such as an apply patch.
///
/// # Errors
/// 400 for a body that is not YAML.
pub fn parse_yaml(body: &[u8]) -> Result<Value, Status> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let text = std::str::from_utf8(body).map_err(|error| bad(format!("error decoding YAML: {error}")))?;
    serde_saphyr::from_str(text).map_err(|error| bad(format!("error decoding YAML: {error}")))
}

#[cfg(test)]
mod tests;
