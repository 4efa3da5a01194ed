//! `metav1.Status` as an error: the API server's own reasons, codes and wording.

use serde_json::{Value, json};

/// A refused request, as the API server answers it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`.
    pub reason: &'static str,
    /// What kubectl shows.
    pub message: String,
    /// `details` of the Status, or null.
    pub details: Value,
}

impl Status {
    /// A status without details.
    #[must_use]
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Status { code, reason, message: message.into(), details: Value::Null }
    }

    /// The body that goes over the wire.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            body["details"] = self.details.clone();
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
