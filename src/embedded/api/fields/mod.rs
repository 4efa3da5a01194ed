//! managedFields: who owns which fields, and server-side apply.
//!
//! The rules are upstream's: k8s.io/apimachinery `managedfields` over sigs.k8s.io/structured-merge-diff `merge`.
//! [`set`] is FieldsV1, [`typed`] objects under their schema, [`managers`] the list in an object's metadata.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Resource, Status, Subresource, schema};

mod apply;
mod blank;
mod managers;
mod set;
mod typed;

pub use apply::{check_applied, server_side_apply};

use managers::{Entry, Operation};
use set::FieldSet;
use typed::{Comparison, Typed};

/// Sets `metadata.managedFields` of a new object. `sent` is the object before admission: what admission adds has no
/// owner.
pub fn create_managed(resource: &'static Resource, manager: &str, sent: &Value, new: &mut Value, now: Timestamp) {
    let added = blank::admitted(resource, sent, new);
    update(resource, Subresource::Main, manager, None, new, &added, now);
}

/// Updates `metadata.managedFields` of `new` after an update or patch (or, with `old` `None`, a create) by `manager`.
///
/// `new` is complete (defaults, metadata) but for managedFields, which are the caller's or, if it sent none, the
/// old ones. A change that changes no field leaves managedFields, times included, as they were.
pub fn update_managed(
    resource: &'static Resource,
    subresource: Subresource,
    manager: &str,
    old: Option<&Value>,
    new: &mut Value,
    now: Timestamp,
) {
    update(resource, subresource, manager, old, new, &FieldSet::default(), now);
}

fn update(
    resource: &'static Resource,
    subresource: Subresource,
    manager: &str,
    old: Option<&Value>,
    new: &mut Value,
    added: &FieldSet,
    now: Timestamp,
) {
    let blank = blank::blank(resource);
    let live = old.unwrap_or(&blank);
    let mut entries = starting_entries(subresource, old, new);
    if entries.is_empty() && old.is_some() {
        // Nobody tracks this object's fields until somebody applies to it.
        return store(entries, new);
    }
    let comparison = compare(resource, subresource, live, new).exclude(added);
    disown(&mut entries, &comparison, None);
    let own = Entry {
        manager: manager.to_owned(),
        operation: Operation::Update,
        api_version: resource.api_version(),
        subresource: subresource_name(subresource).to_owned(),
        time: Some(managers::seconds(now)),
        set: comparison.modified.union(&comparison.added).difference(&blank::unowned()),
    };
    if !own.set.is_empty() {
        match entries.iter_mut().find(|entry| entry.is(&own)) {
            Some(entry) => *entry = Entry { set: entry.set.union(&own.set), ..own },
            None => entries.push(own),
        }
        managers::cap(&mut entries);
    }
    store(entries, new);
}

/// The entries to begin with: those the caller set by hand (`[{}]` means none) or the old ones.
fn starting_entries(subresource: Subresource, old: Option<&Value>, new: &Value) -> Vec<Entry> {
    if subresource == Subresource::Main {
        let given = &new["metadata"]["managedFields"];
        if given.as_array().is_some_and(|list| matches!(list.as_slice(), [Value::Object(entry)] if entry.is_empty())) {
            return Vec::new();
        }
        if let Some(entries) = managers::decode(given).filter(|entries| !entries.is_empty()) {
            return entries;
        }
    }
    old.and_then(|old| managers::decode(&old["metadata"]["managedFields"])).unwrap_or_default()
}

fn compare(resource: &'static Resource, subresource: Subresource, old: &Value, new: &Value) -> Comparison {
    let table = schema::table();
    let node = table.kind(resource);
    let mut without = blank::ignored(resource, subresource);
    without.insert(&set::fields(&["metadata", "managedFields"]));
    without.insert(&set::fields(&["metadata", "resourceVersion"]));
    Typed { schema: table, node: &node }.compare(old, new).exclude(&without)
}

/// Takes what changed from all entries but the one at `keep`.
fn disown(entries: &mut [Entry], comparison: &Comparison, keep: Option<usize>) {
    let changed = comparison.modified.union(&comparison.added).union(&comparison.removed);
    for (at, entry) in entries.iter_mut().enumerate() {
        if Some(at) != keep {
            entry.set = entry.set.difference(&changed);
        }
    }
}

fn subresource_name(subresource: Subresource) -> &'static str {
    match subresource {
        Subresource::Main => "",
        Subresource::Status => "status",
        Subresource::Finalize => "finalize",
    }
}

/// Writes the entries into the object.
fn store(entries: Vec<Entry>, object: &mut Value) {
    let list = managers::encode(entries);
    let empty = list.as_array().is_none_or(Vec::is_empty);
    let Some(object) = object.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        if empty {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), list);
        }
    }
}

/// A refused apply.
fn refuse(code: u16, reason: &'static str, message: impl Into<String>) -> Status {
    Status::new(code, reason, message)
}

#[cfg(test)]
mod tests;
