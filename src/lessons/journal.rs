//! What happened since the step began: transitions of claims and pods, in order, with who made them.
//!
//! Built from the watch history. A transition that nobody could see is `not observed`, never `failed`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::lessons::check;
use crate::lessons::view::{Objects, Seen};

/// A change of an object's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// `kind/name`.
    pub object: String,
    /// The state before; `none` for a new object.
    pub from: String,
    /// The state after; `gone` for one that was deleted.
    pub to: String,
    /// When, as the writer recorded it (whole seconds); empty where nothing tells.
    pub at: String,
    /// Who made it: the field manager that wrote last.
    pub by: String,
    /// `seen`, or `not-observed` for a state that was reached while nobody could see how.
    pub result: &'static str,
}

/// The journal of a step.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    states: BTreeMap<String, String>,
    before: BTreeMap<String, Value>,
    entries: Vec<Entry>,
}

impl Journal {
    /// Begins with the states that the objects had when the step began.
    #[must_use]
    pub fn new(baseline: &BTreeMap<String, String>) -> Self {
        Journal { states: baseline.clone(), ..Journal::default() }
    }

    /// Records a change. Only changes of a claim's or pod's state are kept.
    pub fn record(&mut self, seen: &Seen) -> Option<&Entry> {
        if !(seen.key.starts_with("resourceclaim/") || seen.key.starts_with("pod/")) {
            return None;
        }
        let to = if seen.deleted { "gone".to_owned() } else { check::state(&seen.object) };
        let from = self.states.get(&seen.key).cloned().unwrap_or_else(|| "none".to_owned());
        let before = self.before.insert(seen.key.clone(), seen.object.clone());
        if from == to {
            return None;
        }
        if seen.deleted {
            self.states.remove(&seen.key);
        } else {
            self.states.insert(seen.key.clone(), to.clone());
        }
        let (by, at) = writer(before.as_ref(), &seen.object);
        self.entries.push(Entry { object: seen.key.clone(), from, to, at, by, result: "seen" });
        self.entries.last()
    }

    /// Adds what the objects show and the history did not: states that were reached while nobody could see how.
    pub fn complete(&mut self, objects: &Objects) {
        for (key, object) in objects.iter().filter(|(key, _)| key.starts_with("resourceclaim/") || key.starts_with("pod/")) {
            let now = check::state(object);
            let known = self.states.get(key).cloned().unwrap_or_else(|| "none".to_owned());
            if known != now {
                let (by, at) = writer(None, object);
                self.entries.push(Entry { object: key.clone(), from: known, to: now.clone(), at, by, result: "not-observed" });
                self.states.insert(key.clone(), now);
            }
        }
    }

    /// The entries so far.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// Who wrote last, and when: the managedFields entry that is new or newer than before, else the newest one.
/// A binding and a deletion leave no entry; then the writer is the one that alone can do it.
fn writer(before: Option<&Value>, after: &Value) -> (String, String) {
    let entries = |object: &Value| object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let old = before.map(entries).unwrap_or_default();
    let now = entries(after);
    let gone = old.iter().find(|e| !now.iter().any(|n| n["manager"] == e["manager"] && n["subresource"] == e["subresource"]));
    let changed: Vec<&Value> = now.iter().filter(|e| !old.contains(e)).collect();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    if before.is_some() && changed.is_empty() {
        let bound = before.is_some_and(|b| b["spec"]["nodeName"].is_null()) && after["spec"]["nodeName"].is_string();
        if bound {
            let condition = after["status"]["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "PodScheduled");
            return ("kube-scheduler".to_owned(), condition.map(|c| text(c, "lastTransitionTime")).unwrap_or_default());
        }
        if gone.is_some() {
            // Deallocation drops the scheduler's entry and adds none: only the claim controller does that.
            return ("kube-controller-manager".to_owned(), String::new());
        }
        let deleted = text(&after["metadata"], "deletionTimestamp");
        return (if deleted.is_empty() { String::new() } else { "a deletion".to_owned() }, deleted);
    }
    let latest = changed.into_iter().chain(now.iter().filter(|_| before.is_none())).max_by_key(|e| text(e, "time"));
    latest.map_or_else(Default::default, |e| (text(e, "manager"), text(e, "time")))
}

#[cfg(test)]
mod tests {
    use super::Journal;
    use crate::lessons::view::Seen;
    use serde_json::{Value, json};

    fn seen(object: Value, deleted: bool) -> Seen {
        Seen { key: "resourceclaim/some-gpu".to_owned(), object, deleted, revision: 1 }
    }

    fn claim(status: Value, managers: &[(&str, &str, &str)]) -> Value {
        let fields: Vec<Value> = managers.iter().map(|(m, s, t)| json!({"manager": m, "subresource": s, "time": t})).collect();
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "some-gpu", "managedFields": fields}, "spec": {}, "status": status})
    }

    #[test]
    fn the_way_up_and_down_of_a_claim() {
        let mut journal = Journal::default();
        let user = ("kubectl", "", "2026-12-01T02:00:04Z");
        let scheduler = ("kube-scheduler", "status", "2026-12-01T02:00:06Z");
        journal.record(&seen(claim(json!({}), &[user]), false));
        let allocated = json!({"allocation": {"devices": {"results": []}}, "reservedFor": [{"name": "pod0"}]});
        journal.record(&seen(claim(allocated, &[user, scheduler]), false));
        journal.record(&seen(claim(json!({}), &[user]), false));
        journal.record(&seen(claim(json!({}), &[user]), true));
        let lines: Vec<String> = journal.entries().iter().map(|e| format!("{} > {} by {}", e.from, e.to, e.by)).collect();
        assert_eq!(
            lines,
            [
                "none > pending by kubectl",
                "pending > allocated,reserved by kube-scheduler",
                "allocated,reserved > pending by kube-controller-manager",
                "pending > gone by "
            ]
        );
    }
}
