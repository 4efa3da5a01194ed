//! Who made a change, and when: from managedFields, from conditions, or by the rule that only one component does it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::{items, text};

/// What an [`Author`] was derived from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Basis {
    /// A managedFields entry that is new or newer and owns the changed field.
    ManagedFields,
    /// A managedFields entry that is new or newer; which field it is for cannot be told.
    LatestWriter,
    /// Nothing in the object names the writer, but only this component makes such a change.
    Rule,
    /// Nothing tells.
    #[default]
    Unknown,
}

/// Who made a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Author {
    /// Field manager, such as `kube-scheduler`; empty where nothing tells.
    pub manager: String,
    /// `Apply` or `Update`; empty where nothing tells.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub operation: String,
    /// Subresource, such as `status`; empty for the object itself.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub subresource: String,
    /// Where this comes from.
    pub basis: Basis,
}

impl Author {
    pub(super) fn rule(manager: &str) -> Self {
        Author { manager: manager.to_owned(), basis: Basis::Rule, ..Author::default() }
    }
}

/// An author and the time that its entry tells (whole seconds, RFC 3339; empty where nothing tells).
pub(super) type Signed = (Author, String);

/// Who wrote the field at `path` (as in managedFields, such as `["f:status", "f:allocation"]`) between the two states.
pub(super) fn of_field(old: Option<&Value>, new: &Value, path: &[&str]) -> Option<Signed> {
    let changed = changed_entries(old, new);
    let owner = changed.iter().copied().filter(|entry| owns(entry, path)).max_by_key(|entry| text(&entry["time"]));
    owner.map(|entry| signed(entry, Basis::ManagedFields))
}

/// Who wrote last between the two states.
pub(super) fn latest(old: Option<&Value>, new: &Value) -> Option<Signed> {
    changed_entries(old, new).into_iter().max_by_key(|entry| text(&entry["time"])).map(|entry| signed(entry, Basis::LatestWriter))
}

/// Entries of the new state that the old one does not have just so.
fn changed_entries<'a>(old: Option<&Value>, new: &'a Value) -> Vec<&'a Value> {
    let before = old.map(|old| items(&old["metadata"]["managedFields"])).unwrap_or_default();
    items(&new["metadata"]["managedFields"]).iter().filter(|entry| !before.contains(entry)).collect()
}

fn owns(entry: &Value, path: &[&str]) -> bool {
    let mut fields = &entry["fieldsV1"];
    for step in path {
        match fields.get(step) {
            Some(below) => fields = below,
            None => return false,
        }
    }
    true
}

fn signed(entry: &Value, basis: Basis) -> Signed {
    let field = |name: &str| text(&entry[name]).to_owned();
    let author = Author { manager: field("manager"), operation: field("operation"), subresource: field("subresource"), basis };
    (author, field("time"))
}
