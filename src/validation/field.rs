//! Field errors as data (apimachinery `util/validation/field`).

use serde_json::Value;

use super::go;

/// Where in an object a fault is: `spec.devices.requests[0].exactly.count`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// A top-level field.
    #[must_use]
    pub fn new(field: &str) -> Self {
        Path(field.to_owned())
    }

    /// A field of the object at this path.
    #[must_use]
    pub fn child(&self, field: &str) -> Self {
        Path(format!("{}.{field}", self.0))
    }

    /// An entry of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Path(format!("{}[{index}]", self.0))
    }

    /// An entry of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Path(format!("{}[{key}]", self.0))
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What kind of fault it is (`field.ErrorType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A reference to something that is not there.
    NotFound,
    /// A missing value.
    Required,
    /// A value that must be unique.
    Duplicate,
    /// A malformed value.
    Invalid,
    /// A value outside an enumeration.
    NotSupported,
    /// A value that is not allowed in this state.
    Forbidden,
    /// A string or raw value that is too long.
    TooLong,
    /// A list or map with too many entries.
    TooMany,
    /// A fault of the server.
    Internal,
}

impl Fault {
    /// `reason` of a cause in the Status.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Fault::NotFound => "FieldValueNotFound",
            Fault::Required => "FieldValueRequired",
            Fault::Duplicate => "FieldValueDuplicate",
            Fault::Invalid => "FieldValueInvalid",
            Fault::NotSupported => "FieldValueNotSupported",
            Fault::Forbidden => "FieldValueForbidden",
            Fault::TooLong => "FieldValueTooLong",
            Fault::TooMany => "FieldValueTooMany",
            Fault::Internal => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Fault::NotFound => "Not found",
            Fault::Required => "Required value",
            Fault::Duplicate => "Duplicate value",
            Fault::Invalid => "Invalid value",
            Fault::NotSupported => "Unsupported value",
            Fault::Forbidden => "Forbidden",
            Fault::TooLong => "Too long",
            Fault::TooMany => "Too many",
            Fault::Internal => "Internal error",
        }
    }
}

/// A refused value as Go prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad(String);

impl Bad {
    /// A Go nil.
    #[must_use]
    pub fn nil() -> Self {
        Bad("null".to_owned())
    }

    /// Text that is printed as it stands, such as JSON of a Go struct.
    #[must_use]
    pub fn raw(text: impl Into<String>) -> Self {
        Bad(text.into())
    }

    /// A JSON value that Go holds as it is (strings quoted, the rest as JSON).
    #[must_use]
    pub fn value(value: &Value) -> Self {
        match value {
            Value::String(text) => text.as_str().into(),
            other => Bad(go::compact(other)),
        }
    }
}

impl From<&str> for Bad {
    fn from(text: &str) -> Self {
        Bad(go::quote(text))
    }
}

impl From<&String> for Bad {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<i64> for Bad {
    fn from(number: i64) -> Self {
        Bad(number.to_string())
    }
}

impl From<usize> for Bad {
    fn from(number: usize) -> Self {
        Bad(number.to_string())
    }
}

impl From<bool> for Bad {
    fn from(flag: bool) -> Self {
        Bad(flag.to_string())
    }
}

/// One fault of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// What kind of fault.
    pub fault: Fault,
    /// Where.
    pub path: String,
    /// The refused value, as Go prints it; `None` for the kinds that do not show it.
    pub bad: Option<String>,
    /// What is wrong with it.
    pub detail: String,
}

impl FieldError {
    fn new(fault: Fault, path: &Path, bad: Option<Bad>, detail: impl Into<String>) -> Self {
        FieldError { fault, path: path.0.clone(), bad: bad.map(|bad| bad.0), detail: detail.into() }
    }

    /// The message without the path (`ErrorBody`).
    #[must_use]
    pub fn body(&self) -> String {
        let mut body = self.fault.words().to_owned();
        if let Some(bad) = &self.bad {
            body.push_str(": ");
            body.push_str(bad);
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

/// A missing value.
pub(crate) fn required(path: &Path, detail: &str) -> FieldError {
    FieldError::new(Fault::Required, path, None, detail)
}

/// A malformed value.
pub(crate) fn invalid(path: &Path, bad: impl Into<Bad>, detail: impl Into<String>) -> FieldError {
    FieldError::new(Fault::Invalid, path, Some(bad.into()), detail)
}

/// A value that is there already.
pub(crate) fn duplicate(path: &Path, bad: impl Into<Bad>) -> FieldError {
    FieldError::new(Fault::Duplicate, path, Some(bad.into()), "")
}

/// A reference to something that is not there.
pub(crate) fn not_found(path: &Path, bad: impl Into<Bad>, detail: impl Into<String>) -> FieldError {
    FieldError::new(Fault::NotFound, path, Some(bad.into()), detail)
}

/// A value that is not allowed here and now.
pub(crate) fn forbidden(path: &Path, detail: impl Into<String>) -> FieldError {
    FieldError::new(Fault::Forbidden, path, None, detail)
}

/// A string of more than `max` bytes.
pub(crate) fn too_long(path: &Path, max: usize) -> FieldError {
    FieldError::new(Fault::TooLong, path, None, format!("may not be more than {max} bytes"))
}

/// A string of more than `max` characters, in the wording of declarative validation.
pub(crate) fn too_many_characters(path: &Path, max: usize) -> FieldError {
    FieldError::new(Fault::TooLong, path, None, format!("may not be more than {max} characters"))
}

/// A list with `count` entries where `max` are allowed.
pub(crate) fn too_many(path: &Path, count: usize, max: usize) -> FieldError {
    let items = if max == 1 { "item" } else { "items" };
    FieldError::new(Fault::TooMany, path, Some(count.into()), format!("must have at most {max} {items}"))
}

/// A value outside an enumeration.
pub(crate) fn not_supported(path: &Path, bad: &str, supported: &[&str]) -> FieldError {
    let supported: Vec<String> = supported.iter().map(|value| go::quote(value)).collect();
    // Enumerations are string types of their own in Go, which print as JSON.
    let bad = Bad::raw(go::compact(&Value::String(bad.to_owned())));
    FieldError::new(Fault::NotSupported, path, Some(bad), format!("supported values: {}", supported.join(", ")))
}

/// The server could not check.
pub(crate) fn internal(path: &Path, detail: impl Into<String>) -> FieldError {
    FieldError::new(Fault::Internal, path, None, detail)
}

/// The faults of one object: those of hand-written validation first, then those of declarative validation, which
/// the API server appends.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    written: Vec<FieldError>,
    declared: Vec<FieldError>,
}

impl Faults {
    /// Adds a fault that hand-written validation finds.
    pub(crate) fn push(&mut self, error: FieldError) {
        self.written.push(error);
    }

    /// Adds a fault that the declarative rules of the API types find (`+k8s:` tags).
    pub(crate) fn declare(&mut self, error: FieldError) {
        self.declared.push(error);
    }

    /// Adds one `Invalid` per message.
    pub(crate) fn each(&mut self, path: &Path, value: &str, messages: Vec<String>) {
        self.written.extend(messages.into_iter().map(|message| invalid(path, value, message)));
    }

    /// As [`Faults::each`], by a declarative rule.
    pub(crate) fn declare_each(&mut self, path: &Path, value: &str, messages: Vec<String>) {
        self.declared.extend(messages.into_iter().map(|message| invalid(path, value, message)));
    }

    /// Takes over the faults of parts of the object that the two kinds of validation visit in different orders:
    /// `written` is the order of the hand-written one, `declared` that of the API type's fields. Both name places in `parts`.
    pub(crate) fn take(&mut self, mut parts: Vec<Faults>, written: &[usize], declared: &[usize]) {
        for at in written {
            self.written.extend(parts.get_mut(*at).map(|part| std::mem::take(&mut part.written)).unwrap_or_default());
        }
        for at in declared {
            self.declared.extend(parts.get_mut(*at).map(|part| std::mem::take(&mut part.declared)).unwrap_or_default());
        }
    }

    /// All faults, in the API server's order.
    #[must_use]
    pub(crate) fn into_errors(self) -> Vec<FieldError> {
        // The API server lets equal hand-written faults through once, as it drops those that a declarative rule covers.
        let mut errors: Vec<FieldError> = Vec::new();
        for error in self.written {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        errors.extend(self.declared);
        errors
    }
}
