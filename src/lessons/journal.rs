//! What happened since the step began: transitions of claims and pods, in order, with who made them.
//!
//! Built from the watch history. A transition that nobody could see is `not observed`, never `failed`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::lessons::view::{Objects, Seen};
use crate::timeline::{self, Step, state};

/// The state before an object is there.
const NONE: &str = "none";

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
    /// The revision of the change: kinds are watched one by one, and this is their common order.
    #[serde(skip)]
    pub revision: u64,
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
        let to = if seen.deleted { "gone".to_owned() } else { state::of(&seen.object) };
        let from = self.states.get(&seen.key).cloned().unwrap_or_else(|| NONE.to_owned());
        let before = self.before.insert(seen.key.clone(), seen.object.clone());
        if from == to {
            return None;
        }
        if seen.deleted {
            self.states.remove(&seen.key);
        } else {
            self.states.insert(seen.key.clone(), to.clone());
        }
        let (by, at) = writer(&from, before.as_ref(), &seen.object, seen.deleted);
        self.entries.push(Entry { object: seen.key.clone(), from, to, at, by, result: "seen", revision: seen.revision });
        self.entries.last()
    }

    /// Adds what the objects show and the history did not: states that were reached while nobody could see how.
    pub fn complete(&mut self, objects: &Objects) {
        for (key, object) in objects.iter().filter(|(key, _)| key.starts_with("resourceclaim/") || key.starts_with("pod/")) {
            let now = state::of(object);
            let known = self.states.get(key).cloned().unwrap_or_else(|| NONE.to_owned());
            if known != now {
                let (by, at) = writer(&known, None, object, false);
                self.entries.push(Entry {
                    object: key.clone(),
                    from: known,
                    to: now.clone(),
                    at,
                    by,
                    result: "not-observed",
                    revision: u64::MAX,
                });
                self.states.insert(key.clone(), now);
            }
        }
    }

    /// The entries so far, in the order in which they happened.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = self.entries.clone();
        entries.sort_by_key(|e| e.revision);
        entries
    }
}

/// Who brought an object from a state to the one it is in, and when, by the timeline's rules. Without the object before
/// (it is from before the step, and only its state is known), what the object shows itself has to tell.
fn writer(from: &str, before: Option<&Value>, after: &Value, gone: bool) -> (String, String) {
    let mut transitions = match before {
        None if from.contains("allocated") && after["status"]["allocation"].is_null() => {
            let mut before = after.clone();
            before["status"] = json!({"allocation": {}});
            timeline::between(Some(&before), Some(after))
        }
        None if gone => Vec::new(),
        _ => timeline::between(before, Some(after).filter(|_| !gone)),
    };
    transitions.retain(|t| from == NONE || t.what != Step::Created);
    let telling = transitions.iter().rfind(|t| !t.by.manager.is_empty()).or(transitions.last());
    telling.map(|t| (t.by.manager.clone(), t.at.clone())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::Journal;
    use crate::lessons::view::Seen;
    use serde_json::{Value, json};

    fn seen(object: Value, deleted: bool) -> Seen {
        Seen { key: "resourceclaim/some-gpu".to_owned(), object, deleted, revision: 1 }
    }

    fn claim(status: &Value, managers: &[(&str, &str, &str, Value)]) -> Value {
        let fields: Vec<Value> =
            managers.iter().map(|(m, s, t, f)| json!({"manager": m, "subresource": s, "time": t, "fieldsV1": f})).collect();
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "some-gpu", "uid": "u", "managedFields": fields}, "spec": {}, "status": status})
    }

    fn life() -> [(Value, bool); 4] {
        let user = ("kubectl", "", "2026-12-01T02:00:04Z", json!({"f:spec": {}}));
        let owned = json!({"f:status": {"f:allocation": {}, "f:reservedFor": {"k:{\"uid\":\"p\"}": {}}}});
        let scheduler = ("kube-scheduler", "status", "2026-12-01T02:00:06Z", owned);
        let allocated = json!({"allocation": {"devices": {"results": []}}, "reservedFor": [{"name": "pod0", "uid": "p"}]});
        let pending = claim(&json!({}), std::slice::from_ref(&user));
        [(pending.clone(), false), (claim(&allocated, &[user, scheduler]), false), (pending.clone(), false), (pending, true)]
    }

    #[test]
    fn the_way_up_and_down_of_a_claim() {
        let mut journal = Journal::default();
        for (object, deleted) in life() {
            journal.record(&seen(object, deleted));
        }
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

    #[test]
    fn of_an_object_from_before_the_step_only_its_state_is_known() {
        let [_, (allocated, _), (pending, _), _] = life();
        let told = |baseline: &str, object: Value| {
            let mut journal = Journal::new(&[("resourceclaim/some-gpu".to_owned(), baseline.to_owned())].into());
            journal.record(&seen(object, false));
            journal.entries().iter().map(|e| format!("{} > {} by {}", e.from, e.to, e.by)).collect::<Vec<_>>()
        };
        assert_eq!(told("pending", allocated), ["pending > allocated,reserved by kube-scheduler"]);
        assert_eq!(told("allocated,reserved", pending.clone()), ["allocated,reserved > pending by kube-controller-manager"]);
        assert_eq!(told("pending", pending), [""; 0]);
    }
}
