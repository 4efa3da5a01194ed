//! Label and field selectors of lists, watches and collections.

mod fields;
mod labels;

use serde_json::Value;

use super::{Resource, Status};

/// What a request selects of a kind's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    labels: Vec<labels::Requirement>,
    fields: Vec<fields::Term>,
}

impl Selector {
    /// Reads the `labelSelector` and `fieldSelector` of a request.
    ///
    /// # Errors
    /// 400 with the API server's wording.
    pub fn parse(resource: &'static Resource, labels: &str, fields: &str) -> Result<Self, Status> {
        let labels = labels::parse(labels).map_err(Status::bad_request)?;
        let fields = fields::parse(resource, fields).map_err(Status::bad_request)?;
        Ok(Selector { labels, fields })
    }

    /// True when everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|requirement| requirement.matches(&object["metadata"]["labels"]))
            && self.fields.iter().all(|term| term.matches(object))
    }
}
