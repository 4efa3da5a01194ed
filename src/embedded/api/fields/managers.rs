//! `metadata.managedFields` as sets per manager, and back.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::set::FieldSet;

/// More managers of operation Update than this are merged into [`ANCIENT`].
const MOST_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// How a manager came to its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// Server-side apply.
    Apply,
    /// Anything else.
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// One manager's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    /// RFC 3339, whole seconds; none for a manager that never changed the object.
    pub(super) time: Option<String>,
    pub(super) set: FieldSet,
}

impl Entry {
    /// The same manager: appliers whatever their version.
    pub(super) fn is(&self, other: &Entry) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// As conflicts name it.
    pub(super) fn show(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// Time as managedFields write it.
pub(super) fn seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The entries of a list; `None` where the list is not well formed.
pub(super) fn decode(list: &Value) -> Option<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    for item in list.as_array()? {
        let text = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
        let operation = match item["operation"].as_str()? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let set = if item["fieldsV1"].is_null() { FieldSet::default() } else { FieldSet::from_json(&item["fieldsV1"])? };
        entries.push(Entry {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: item["time"].as_str().map(str::to_owned),
            set,
        });
    }
    Some(entries)
}

/// The list in upstream's order: appliers first, then by time, manager, version and subresource.
pub(super) fn encode(mut entries: Vec<Entry>) -> Value {
    entries.retain(|entry| !entry.set.is_empty());
    let parsed = |entry: &Entry| entry.time.as_ref().and_then(|time| time.parse::<Timestamp>().ok());
    entries.sort_by(|a, b| {
        (a.operation, parsed(a), &a.manager, &a.api_version, &a.subresource).cmp(&(
            b.operation,
            parsed(b),
            &b.manager,
            &b.api_version,
            &b.subresource,
        ))
    });
    let list = entries.iter().map(|entry| {
        let mut item = json!({
            "manager": entry.manager, "operation": entry.operation.text(), "apiVersion": entry.api_version,
            "fieldsType": "FieldsV1", "fieldsV1": entry.set.to_json(),
        });
        if let Some(time) = &entry.time {
            item["time"] = json!(time);
        }
        if !entry.subresource.is_empty() {
            item["subresource"] = json!(entry.subresource);
        }
        item
    });
    Value::Array(list.collect())
}

/// Merges the oldest updaters where there are too many.
pub(super) fn cap(entries: &mut Vec<Entry>) {
    while entries.iter().filter(|entry| entry.operation == Operation::Update).count() > MOST_UPDATERS {
        let oldest = |entries: &[Entry]| {
            let updaters = entries.iter().enumerate().filter(|(_, e)| e.operation == Operation::Update && e.manager != ANCIENT);
            updaters.min_by(|(_, a), (_, b)| a.time.cmp(&b.time)).map(|(at, _)| at)
        };
        let Some(at) = oldest(entries) else { return };
        let gone = entries.remove(at);
        let found = entries.iter_mut().find(|e| e.manager == ANCIENT && e.api_version == gone.api_version);
        match found {
            Some(ancient) => {
                ancient.set = ancient.set.union(&gone.set);
                ancient.time = ancient.time.clone().max(gone.time);
            }
            None => entries.push(Entry { manager: ANCIENT.to_owned(), subresource: String::new(), ..gone }),
        }
    }
}
