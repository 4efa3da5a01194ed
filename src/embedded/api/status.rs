//! `metav1.Status` as an error: the API server's own reasons, codes and wording.

use serde_json::{Value, json};

use super::Resource;

/// A refused request, as the API server answers it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`; empty where the API server gives none.
    pub reason: &'static str,
    /// What kubectl shows.
    pub message: String,
    /// `details` of the Status, or null.
    pub details: Value,
    /// `metadata` of the Status where it has any (a new continue token), or null.
    pub metadata: Value,
}

/// One entry of `details.causes`: a field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, ...
    pub reason: &'static str,
    /// Without the field, such as `Required value: name or generateName is required`.
    pub message: String,
    /// Path, such as `metadata.name`.
    pub field: String,
}

impl Cause {
    /// A cause.
    #[must_use]
    pub fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Cause { reason, message: message.into(), field: field.into() }
    }
}

fn details(resource: &Resource, name: &str, kind: &str) -> Value {
    let mut details = json!({"kind": kind});
    if !name.is_empty() {
        details["name"] = json!(name);
    }
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    details
}

impl Status {
    /// A status without details.
    #[must_use]
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Status { code, reason, message: message.into(), details: Value::Null, metadata: Value::Null }
    }

    /// 404: there is no such object.
    #[must_use]
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let mut status = Status::new(404, "NotFound", format!("{} \"{name}\" not found", resource.qualified()));
        status.details = details(resource, name, resource.plural);
        status
    }

    /// 409: the name is taken.
    #[must_use]
    pub fn taken(resource: &Resource, name: &str) -> Self {
        let mut status = Status::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", resource.qualified()));
        status.details = details(resource, name, resource.plural);
        status
    }

    /// 409: the object is not what the caller took it for.
    #[must_use]
    pub fn conflict(resource: &Resource, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        let mut status = Status::new(409, "Conflict", message);
        status.details = details(resource, name, resource.plural);
        status
    }

    /// 409: another writer came first.
    #[must_use]
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict(resource, name, why)
    }

    /// 403.
    #[must_use]
    pub fn forbidden(resource: &Resource, name: &str, why: impl std::fmt::Display) -> Self {
        let mut status = Status::new(403, "Forbidden", format!("{} \"{name}\" is forbidden: {why}", resource.qualified()));
        status.details = details(resource, name, resource.plural);
        status
    }

    /// 422 with its causes. The message joins them as the API server does: one plain, several in brackets.
    #[must_use]
    pub fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        let mut status = Status::invalid_kind(&resource.qualified_kind(), name, causes);
        let mut about = details(resource, name, resource.kind);
        about["causes"] = status.details["causes"].clone();
        status.details = about;
        status
    }

    /// 422 of a kind that is no resource, such as `DeleteOptions.meta.k8s.io`.
    #[must_use]
    pub fn invalid_kind(kind: &str, name: &str, causes: &[Cause]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for cause in causes {
            let text = format!("{}: {}", cause.field, cause.message);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let text = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
        let mut status = Status::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {text}"));
        let (bare, group) = kind.split_once('.').unwrap_or((kind, ""));
        let listed: Vec<Value> =
            causes.iter().map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field})).collect();
        let mut about = json!({"kind": bare, "causes": listed});
        if !name.is_empty() {
            about["name"] = json!(name);
        }
        if !group.is_empty() {
            about["group"] = json!(group);
        }
        status.details = about;
        status
    }

    /// 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Status::new(400, "BadRequest", message)
    }

    /// 410: the revision has left the history.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Status::new(410, "Expired", message)
    }

    /// 500.
    #[must_use]
    pub fn internal(why: impl std::fmt::Display) -> Self {
        let mut status = Status::new(500, "InternalError", format!("Internal error occurred: {why}"));
        status.details = json!({"causes": [{"message": why.to_string()}]});
        status
    }

    /// The body that goes over the wire.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if self.reason.is_empty()
            && let Some(fields) = body.as_object_mut()
        {
            fields.remove("reason");
        }
        if !self.details.is_null() {
            body["details"] = self.details.clone();
        }
        if !self.metadata.is_null() {
            body["metadata"] = self.metadata.clone();
        }
        body
    }

    /// True for 404.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// True for 409 with reason Conflict (a stale resourceVersion).
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.code == 409 && self.reason == "Conflict"
    }

    /// True for 409 with reason AlreadyExists.
    #[must_use]
    pub fn already_exists(&self) -> bool {
        self.code == 409 && self.reason == "AlreadyExists"
    }
}
