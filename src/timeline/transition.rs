//! The transitions between two states of an object.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::author::{self, Author, Signed};
use super::state::{self, is_deleting, items, text};

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    /// Kind.
    pub kind: String,
    /// Namespace; empty for kinds without.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "step")]
pub enum Step {
    /// It is there.
    Created,
    /// Somebody asked to delete it; finalizers or grace keep it.
    DeletionRequested,
    /// It is gone.
    Gone,
    /// Claim: the finalizer that keeps it while it is allocated was set.
    Protected,
    /// Claim: the finalizer was taken away.
    Released,
    /// Claim: devices were allocated.
    Allocated {
        /// `driver/pool/device`, in order.
        devices: Vec<String>,
    },
    /// Claim: the allocation was given up.
    Deallocated,
    /// Claim: somebody may use it.
    Reserved {
        /// Name of the consumer.
        consumer: String,
    },
    /// Claim: somebody may not use it any more.
    Unreserved {
        /// Name of the consumer.
        consumer: String,
    },
    /// Pod: the scheduler has picked a node and is preparing the binding.
    Nominated {
        /// The node.
        node: String,
    },
    /// Pod: no node takes it now.
    Unschedulable {
        /// Unschedulable or SchedulerError.
        reason: String,
        /// In the scheduler's words.
        message: String,
    },
    /// Pod: it is bound.
    Scheduled {
        /// The node.
        node: String,
    },
    /// Pod: the name of a generated claim is known.
    ClaimGenerated {
        /// The claim.
        claim: String,
    },
    /// Pod or slice: its state word changed, and none of the above says why.
    Became,
}

/// One transition of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    /// Which object.
    pub object: ObjectName,
    /// What happened.
    #[serde(flatten)]
    pub what: Step,
    /// State word before; empty for a new object.
    pub from: String,
    /// State word after; empty for one that is gone. Equal to `from` where the word does not change.
    pub to: String,
    /// When, as the writer recorded it (RFC 3339, whole seconds); empty where nothing tells.
    pub at: String,
    /// Who made it.
    pub by: Author,
}

/// The transitions between two states of one object, in the order in which they can have happened. `old` is `None` for
/// an object that is new, `new` for one that is gone; both present must have the same uid (else the first one is gone
/// and the other new). Kinds without states only come and go.
#[must_use]
pub fn between(old: Option<&Value>, new: Option<&Value>) -> Vec<Transition> {
    let uid = |object: &Value| text(&object["metadata"]["uid"]).to_owned();
    match (old, new) {
        (Some(old), Some(new)) if uid(old) != uid(new) => {
            let mut both = between(Some(old), None);
            both.extend(between(None, Some(new)));
            both
        }
        (None, None) => Vec::new(),
        (Some(old), None) => {
            let mut found = Finder::new(Some(old), old);
            found.to.clear();
            found.add(Step::Gone, None);
            found.transitions
        }
        (old, Some(new)) => {
            let mut found = Finder::new(old, new);
            found.run();
            found.transitions
        }
    }
}

struct Finder<'a> {
    old: Option<&'a Value>,
    new: &'a Value,
    object: ObjectName,
    from: String,
    to: String,
    transitions: Vec<Transition>,
}

const NULL: &Value = &Value::Null;

impl<'a> Finder<'a> {
    fn new(old: Option<&'a Value>, new: &'a Value) -> Self {
        let metadata = |field: &str| text(&new["metadata"][field]).to_owned();
        let object = ObjectName {
            kind: text(&new["kind"]).to_owned(),
            namespace: metadata("namespace"),
            name: metadata("name"),
            uid: metadata("uid"),
        };
        let from = old.map(state::of).unwrap_or_default();
        Finder { old, new, object, from, to: state::of(new), transitions: Vec::new() }
    }

    fn add(&mut self, what: Step, signed: Option<Signed>) {
        let (by, at) = signed.unwrap_or_default();
        self.transitions.push(Transition { object: self.object.clone(), what, from: self.from.clone(), to: self.to.clone(), at, by });
    }

    fn before(&self) -> &'a Value {
        self.old.unwrap_or(NULL)
    }

    fn field(&self, path: &[&str]) -> Option<Signed> {
        author::of_field(self.old, self.new, path)
    }

    fn run(&mut self) {
        if self.old.is_none() {
            let at = text(&self.new["metadata"]["creationTimestamp"]).to_owned();
            let (by, _) = author::latest(None, self.new).unwrap_or_default();
            self.add(Step::Created, Some((by, at)));
        }
        match self.object.kind.as_str() {
            "ResourceClaim" => self.claim(),
            "Pod" => self.pod(),
            _ => {}
        }
        if is_deleting(self.new) && !is_deleting(self.before()) {
            self.add(Step::DeletionRequested, Some((Author::default(), deletion_time(self.new))));
        }
        if self.transitions.is_empty() && self.from != self.to {
            let signed = author::latest(self.old, self.new);
            self.add(Step::Became, signed);
        }
    }

    fn claim(&mut self) {
        const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
        let protected = |object: &Value| items(&object["metadata"]["finalizers"]).iter().any(|name| name == FINALIZER);
        let (had, has) = (protected(self.before()), protected(self.new));
        if has && !had {
            let signed = self.field(&["f:metadata", "f:finalizers"]);
            self.add(Step::Protected, signed);
        }
        let devices = |object: &Value| -> Option<Vec<String>> {
            let allocation = object["status"]["allocation"].as_object()?;
            let results = allocation.get("devices").map(|devices| items(&devices["results"])).unwrap_or_default();
            Some(results.iter().map(|r| format!("{}/{}/{}", text(&r["driver"]), text(&r["pool"]), text(&r["device"]))).collect())
        };
        let (held, holds) = (devices(self.before()), devices(self.new));
        if held != holds && held.is_some() {
            // The scheduler's entry goes with the fields; who took them away leaves none. The release of a claim is the
            // claim controller's; the scheduler does it only for a claim that keeps a pod from its node.
            self.add(Step::Deallocated, Some((Author::rule("kube-controller-manager"), String::new())));
        }
        if let Some(devices) = holds.filter(|holds| held.as_ref() != Some(holds)) {
            let mut signed = self.field(&["f:status", "f:allocation"]);
            let exact = text(&self.new["status"]["allocation"]["allocationTimestamp"]);
            if let Some((_, at)) = signed.as_mut().filter(|_| !exact.is_empty()) {
                exact.clone_into(at);
            }
            self.add(Step::Allocated { devices }, signed);
        }
        let consumers = |object: &Value| -> BTreeSet<(String, String)> {
            let consumer = |c: &Value| (text(&c["name"]).to_owned(), text(&c["uid"]).to_owned());
            items(&object["status"]["reservedFor"]).iter().map(consumer).collect()
        };
        let (were, are) = (consumers(self.before()), consumers(self.new));
        for (consumer, uid) in are.difference(&were) {
            let signed = self.field(&["f:status", "f:reservedFor", &format!("k:{{\"uid\":\"{uid}\"}}")]);
            self.add(Step::Reserved { consumer: consumer.clone() }, signed);
        }
        for (consumer, _) in were.difference(&are) {
            let signed = (Author::rule("kube-controller-manager"), String::new());
            self.add(Step::Unreserved { consumer: consumer.clone() }, Some(signed));
        }
        if had && !has {
            self.add(Step::Released, Some((Author::rule("kube-controller-manager"), String::new())));
        }
    }

    fn pod(&mut self) {
        let (before, new) = (self.before(), self.new);
        let generated = |object: &'a Value| items(&object["status"]["resourceClaimStatuses"]);
        for entry in generated(new).iter().filter(|entry| !generated(before).contains(entry)) {
            let claim = text(&entry["resourceClaimName"]).to_owned();
            let signed = self.field(&["f:status", "f:resourceClaimStatuses"]);
            self.add(Step::ClaimGenerated { claim }, signed);
        }
        let nominated = &new["status"]["nominatedNodeName"];
        if nominated.is_string() && *nominated != before["status"]["nominatedNodeName"] {
            let signed = self.field(&["f:status", "f:nominatedNodeName"]);
            self.add(Step::Nominated { node: text(nominated).to_owned() }, signed);
        }
        let scheduled = |object: &'a Value| items(&object["status"]["conditions"]).iter().find(|c| c["type"] == "PodScheduled");
        let (was, is) = (scheduled(before).unwrap_or(NULL), scheduled(new).unwrap_or(NULL));
        let words = |condition: &Value| (condition["status"].clone(), condition["reason"].clone(), condition["message"].clone());
        if is["status"] == "False" && words(was) != words(is) {
            let signed = self.field(&["f:status", "f:conditions", "k:{\"type\":\"PodScheduled\"}"]);
            self.add(Step::Unschedulable { reason: text(&is["reason"]).to_owned(), message: text(&is["message"]).to_owned() }, signed);
        }
        let node = &new["spec"]["nodeName"];
        if node.is_string() && before["spec"]["nodeName"].is_null() {
            // A binding leaves no entry. Without an earlier state the node may have been there from the start.
            let signed = match (self.old, author::latest(self.old, new)) {
                (Some(_), None) => Some((Author::rule("kube-scheduler"), text(&is["lastTransitionTime"]).to_owned())),
                (Some(_), some) => some,
                (None, _) => None,
            };
            self.add(Step::Scheduled { node: text(node).to_owned() }, signed);
        }
    }
}

/// When the deletion was asked for: `deletionTimestamp` is the end of the grace period.
fn deletion_time(object: &Value) -> String {
    let metadata = &object["metadata"];
    let grace = SignedDuration::from_secs(metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default());
    let end: Option<Timestamp> = text(&metadata["deletionTimestamp"]).parse().ok();
    end.and_then(|end| end.checked_sub(grace).ok()).map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::{Step, Transition, between};

    fn play(recording: &str) -> Vec<Transition> {
        let mut known: BTreeMap<String, Value> = BTreeMap::new();
        let mut all = Vec::new();
        for line in recording.lines() {
            let step: Value = serde_json::from_str(line).expect("a step");
            let object = &step["object"];
            let uid = object["metadata"]["uid"].as_str().expect("a uid").to_owned();
            let old = known.insert(uid, object.clone());
            let new = (step["type"] != "DELETED").then_some(object);
            all.extend(between(old.as_ref(), new));
        }
        all
    }

    fn line(transition: &Transition) -> String {
        let what = match &transition.what {
            Step::Allocated { devices } => format!("allocated {}", devices.join(" ")),
            Step::Reserved { consumer } => format!("reserved for {consumer}"),
            Step::Unreserved { consumer } => format!("unreserved for {consumer}"),
            Step::Nominated { node } => format!("nominated {node}"),
            Step::Scheduled { node } => format!("scheduled {node}"),
            other => format!("{other:?}").split([' ', '{']).next().unwrap_or_default().to_lowercase(),
        };
        let at = transition.at.get(17..19).unwrap_or("--");
        format!("{at} {} {what} [{} > {}] {}", transition.object.name, transition.from, transition.to, transition.by.manager)
    }

    #[test]
    fn the_tutorial_as_recorded() {
        let lines: Vec<String> = play(include_str!("../../tests/cases/timeline/01.jsonl")).iter().map(line).collect();
        assert_eq!(
            lines,
            [
                "04 some-gpu created [ > pending] kubectl-client-side-apply",
                "06 pod0 created [ > Pending] kubectl-client-side-apply",
                "06 pod0 nominated dra-lab-worker [Pending > Pending] kube-scheduler",
                "06 some-gpu protected [pending > pending] kube-scheduler",
                "06 some-gpu allocated gpu.example.com/dra-lab-worker/gpu-0 [pending > allocated,reserved] kube-scheduler",
                "06 some-gpu reserved for pod0 [pending > allocated,reserved] kube-scheduler",
                "06 pod0 scheduled dra-lab-worker [Pending > Pending] kube-scheduler",
                "06 pod0 became [Pending > ContainerCreating] kubelet",
                "07 pod0 became [ContainerCreating > Running] kubelet",
                "13 pod0 deletionrequested [Running > Terminating] ",
                "13 pod0 became [Terminating > Completed] kubelet",
                "-- some-gpu deallocated [allocated,reserved > pending] kube-controller-manager",
                "-- some-gpu unreserved for pod0 [allocated,reserved > pending] kube-controller-manager",
                "-- some-gpu released [pending > pending] kube-controller-manager",
                "-- pod0 gone [Completed > ] ",
                "-- some-gpu gone [pending > ] ",
            ]
        );
    }

    #[test]
    fn each_reservation_is_told_apart() {
        let of_claims = |recording: &str, name: &str| -> Vec<String> {
            let told = play(recording).into_iter().filter(|t| t.object.kind == "ResourceClaim" && t.object.name == name);
            told.filter(|t| matches!(t.what, Step::Reserved { .. } | Step::Unreserved { .. })).map(|t| line(&t)).collect()
        };
        assert_eq!(
            of_claims(include_str!("../../tests/cases/timeline/08.jsonl"), "shared"),
            [
                "46 shared reserved for pod0 [pending > allocated,reserved] kube-scheduler",
                "46 shared reserved for pod1 [allocated,reserved > allocated,reserved] kube-scheduler",
                "-- shared unreserved for pod0 [allocated,reserved > allocated,reserved] kube-controller-manager",
                "-- shared unreserved for pod1 [allocated,reserved > pending] kube-controller-manager",
            ]
        );
        // A pod that was placed by hand is reserved for by the controller.
        let by_hand = of_claims(include_str!("../../tests/cases/timeline/25.jsonl"), "c");
        assert!(by_hand[0].ends_with("kube-scheduler"), "{by_hand:?}");
        assert!(by_hand[1].contains("reserved for p ") && by_hand[1].ends_with("kube-controller-manager"), "{by_hand:?}");
    }

    #[test]
    fn nothing_happens_between_equal_states_and_a_new_uid_is_another_object() {
        let claim = |uid: &str| json!({"kind": "ResourceClaim", "metadata": {"name": "c", "uid": uid}});
        assert_eq!(between(Some(&claim("a")), Some(&claim("a"))), []);
        assert_eq!(between(None, None), []);
        let steps: Vec<Step> = between(Some(&claim("a")), Some(&claim("b"))).into_iter().map(|t| t.what).collect();
        assert_eq!(steps, [Step::Gone, Step::Created]);
    }

    #[test]
    fn transitions_survive_json() {
        for transition in play(include_str!("../../tests/cases/timeline/01.jsonl")) {
            let text = serde_json::to_string(&transition).expect("JSON");
            assert_eq!(serde_json::from_str::<Transition>(&text).expect("back"), transition, "{text}");
        }
    }
}
