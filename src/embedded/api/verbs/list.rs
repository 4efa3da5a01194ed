//! List as the wire knows it: selectors, pages over one consistent state, `resourceVersion` and its match rules.

use serde_json::{Value, json};

use super::super::selectors::Selector;
use super::super::status::Cause;
use super::super::{Api, Object, Resource, Status};
use super::continuation::Continue;
use crate::embedded::store::{Snapshot, StoreError};

/// `metav1.ListOptions` of a list; empty strings are absent parameters.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// What is selected.
    pub selector: Selector,
    /// Most objects per page; 0 or less is no limit.
    pub limit: i64,
    /// The token of the page before.
    pub continuation: String,
    /// `resourceVersion`.
    pub resource_version: String,
    /// `resourceVersionMatch`: Exact or NotOlderThan.
    pub version_match: String,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The revision that the list shows, the same for all its pages.
    pub revision: u64,
    /// In key order.
    pub items: Vec<Object>,
    /// Token of the next page, empty on the last one.
    pub continuation: String,
    /// How many objects are left, where the selectors select everything.
    pub remaining: Option<usize>,
}

impl Page {
    /// The list's `metadata`.
    #[must_use]
    pub fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if !self.continuation.is_empty() {
            metadata["continue"] = json!(self.continuation);
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }
}

impl Api {
    /// A page of a list.
    ///
    /// # Errors
    /// 400 and 422 for options that make no sense, 410 for a state that the history does not reach back to
    /// (with a new token where a token was too old), 504 for a revision that does not exist yet.
    pub fn list_page(&self, resource: &'static Resource, namespace: &str, options: &ListOptions) -> Result<Page, Status> {
        check(options)?;
        let prefix = resource.prefix(namespace);
        let collection = resource.collection;
        let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0);
        if !options.continuation.is_empty() {
            let from = Continue::parse(&options.continuation)?;
            let snapshot = match from.revision {
                // The token of an expired list: go on with what there is now.
                None => self.store().list(collection, &prefix),
                Some(revision) => self.store().list_at(collection, &prefix, revision).map_err(|error| expired_token(&error, &from))?,
            };
            return Ok(page(&snapshot, &prefix, Some(&from.key), limit, options));
        }
        let revision = match options.resource_version.as_str() {
            "" => None,
            version => Some(version.parse::<u64>().map_err(|_| not_a_number(version))?),
        };
        let current = self.store().revision();
        if let Some(revision) = revision.filter(|revision| *revision > current) {
            return Err(too_large(revision, current));
        }
        let exact = options.version_match == "Exact" || (options.version_match.is_empty() && limit.is_some() && revision > Some(0));
        let snapshot = match revision.filter(|_| exact) {
            Some(revision) => self
                .store()
                .list_at(collection, &prefix, revision)
                .map_err(|_| Status::expired("The resourceVersion for the provided list is too old."))?,
            None => self.store().list(collection, &prefix),
        };
        // A list at version 0 is the cache's, which does not page.
        let limit = if revision == Some(0) { None } else { limit };
        Ok(page(&snapshot, &prefix, None, limit, options))
    }
}

fn page(snapshot: &Snapshot, prefix: &str, from: Option<&str>, limit: Option<usize>, options: &ListOptions) -> Page {
    // A token's key is relative to the namespace and ends with a zero byte: the first key after it is next.
    let start = from.map(|key| format!("{prefix}{}", key.strip_prefix('/').unwrap_or(key)));
    let mut items = Vec::new();
    let mut continuation = String::new();
    let mut remaining = None;
    let after = snapshot.items.iter().filter(|(key, _)| start.as_deref().is_none_or(|start| &**key >= start));
    let mut rest = after.filter(|(_, object)| options.selector.matches(object));
    let mut last: Option<&str> = None;
    while let Some((key, object)) = rest.next() {
        if limit == Some(items.len()) {
            let relative = last.unwrap_or_default().strip_prefix(prefix).unwrap_or_default();
            continuation = Continue { revision: Some(snapshot.revision), key: format!("/{relative}\0") }.token();
            remaining = options.selector.is_everything().then(|| 1 + rest.count());
            break;
        }
        last = Some(key);
        items.push(object.clone());
    }
    Page { revision: snapshot.revision, items, continuation, remaining }
}

fn forbidden(field: &str, why: &str) -> Status {
    let cause = Cause::new("FieldValueForbidden", field, format!("Forbidden: {why}"));
    Status::invalid_kind("ListOptions.meta.k8s.io", "", &[cause])
}

/// `ValidateListOptions` for lists.
fn check(options: &ListOptions) -> Result<(), Status> {
    let (version, matching) = (options.resource_version.as_str(), options.version_match.as_str());
    if !matching.is_empty() {
        if version.is_empty() {
            return Err(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if !options.continuation.is_empty() {
            return Err(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"));
        }
        if matching != "Exact" && matching != "NotOlderThan" {
            let message = format!("Unsupported value: \"{matching}\": supported values: \"Exact\", \"NotOlderThan\", \"\"");
            let cause = Cause::new("FieldValueNotSupported", "resourceVersionMatch", message);
            return Err(Status::invalid_kind("ListOptions.meta.k8s.io", "", &[cause]));
        }
        if matching == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            return Err(forbidden("resourceVersionMatch", why));
        }
    }
    if !options.continuation.is_empty() && !version.is_empty() && version != "0" {
        return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
    }
    Ok(())
}

/// A resourceVersion in a query that is no number.
pub(super) fn not_a_number(version: &str) -> Status {
    let quoted = Value::from(version);
    Status::new(500, "", format!("resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: invalid syntax"))
}

fn too_large(revision: u64, current: u64) -> Status {
    let mut status = Status::new(504, "Timeout", format!("Timeout: Too large resource version: {revision}, current: {current}"));
    status.details = json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1,
    });
    status
}

fn expired_token(error: &StoreError, from: &Continue) -> Status {
    if !matches!(error, StoreError::TooOld { .. }) {
        return super::storage_failure(error);
    }
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue \
         parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided \
         token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was \
         returned and now may show up in the list.",
    );
    status.metadata = json!({"continue": Continue { revision: None, key: from.key.clone() }.token()});
    status
}
