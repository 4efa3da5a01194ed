//! The scheduler's state machine: changes and times go in, attempts come out.
//!
//! A caller repeats: [`Machine::observe`] what has changed, take [`Machine::next`] until there is none, carry each
//! plan out, and for placements tell the outcome with [`Machine::finish`]. Several placements may be on their way at
//! once; then a pod that needs a claim whose allocation is on its way is told so.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::resource::v1::ResourceClaim;

use super::attempt::{Attempt, Decision};
use super::change::Change;
use super::claims;
use super::decide::{self, Finding};
use super::hints::{self, Event};
use super::plan::{ClaimRef, Note, Plan, Write};
use super::queue::{Counts, Entry, Queue};
use super::snapshot::{Snapshot, key_of_claim, uid_of_claim};
use super::view::{PodRef, PodView, Uid, allocation, is_reserved_for};
use crate::allocator::Features;

/// What the scheduler is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pods with this `spec.schedulerName` are its own.
    pub name: String,
    /// Feature gates.
    pub features: Features,
}

/// The state machine. A clone is an independent copy ("what if").
#[derive(Clone, Debug)]
pub struct Machine {
    settings: Settings,
    snapshot: Snapshot,
    queue: Queue,
    binding: HashMap<Uid, Binding>,
    round: usize,
}

/// A placement on its way.
#[derive(Clone, Debug)]
struct Binding {
    pod: Arc<PodView>,
    claims: Vec<ClaimRef>,
}

impl Machine {
    /// An empty one.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let snapshot = Snapshot::new(settings.features);
        Machine { settings, snapshot, queue: Queue::default(), binding: HashMap::new(), round: 0 }
    }

    /// What is known of the cluster.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Where waiting pods stand.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.queue.counts()
    }

    /// True if this object, in this revision or a later one, is known already: it need not be read again.
    #[must_use]
    pub fn knows(&self, object: &serde_json::Value) -> bool {
        self.snapshot.knows(object)
    }

    /// When [`Machine::next`] has something to do though nothing changes.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.queue.next_due()
    }

    /// Takes a change in. Objects that the scheduler's own writes gave back may be passed in before the watch shows them.
    pub fn observe(&mut self, change: &Change, now: Timestamp) {
        let before = match change {
            Change::Pod(pod) => self.snapshot.pod_by_key(pod.key()).cloned(),
            _ => None,
        };
        let event = self.snapshot.apply(change);
        match change {
            Change::Pod(pod) if self.snapshot.pod_by_key(pod.key()).is_some_and(|held| Arc::ptr_eq(held, pod)) => {
                self.pod_changed(before.as_deref(), pod, now);
            }
            Change::PodGone(_, uid) => {
                self.queue.remove(uid);
            }
            _ => {}
        }
        if let Some(event) = event {
            self.wake(&event, now);
        }
    }

    fn pod_changed(&mut self, before: Option<&PodView>, pod: &Arc<PodView>, now: Timestamp) {
        if let Some(before) = before.filter(|before| before.uid() != pod.uid()) {
            self.queue.remove(before.uid());
        }
        let uid = pod.uid();
        if !pod.waits() || pod.scheduler != self.settings.name {
            self.queue.remove(uid);
            return;
        }
        if self.binding.contains_key(uid) || self.snapshot.is_assumed(uid) {
            return;
        }
        if self.queue.get(uid).is_none() {
            let gated = self.is_held_back(pod);
            self.queue.add(pod.clone(), gated, now);
            return;
        }
        self.queue.update(pod);
        if self.queue.is_gated(uid) {
            if !self.is_held_back(pod) {
                self.queue.requeue(uid, now);
            }
            return;
        }
        let helped = self.queue.get(uid).zip(before).is_some_and(|(entry, before)| {
            before.labels != pod.labels && entry.rejected_by.is_empty()
                || entry.rejected_by.iter().any(|plugin| hints::own_change_helps(*plugin, before, pod, &self.snapshot))
        });
        if helped {
            self.requeue(uid, now);
        }
    }

    /// PreEnqueue: such a pod waits in silence.
    fn is_held_back(&self, pod: &PodView) -> bool {
        pod.gated || claims::of_pod(pod, &self.snapshot).is_err()
    }

    fn requeue(&mut self, uid: &Uid, now: Timestamp) {
        let Some(pod) = self.queue.get(uid).map(|entry| entry.pod.clone()) else {
            return;
        };
        if self.is_held_back(&pod) {
            self.queue.gate(uid);
        } else {
            self.queue.requeue(uid, now);
        }
    }

    fn wake(&mut self, event: &Event, now: Timestamp) {
        let mut helped = BTreeSet::new();
        let hint = |entry: &Entry| entry.rejected_by.iter().any(|plugin| hints::helps(*plugin, &entry.pod, event, &self.snapshot));
        match event {
            Event::ClaimChanged { old, new } => {
                for entry in self.queue.waiting_for(&key_of_claim(new)) {
                    if self.queue.is_gated(entry.pod.uid()) || hint(entry) {
                        helped.insert(entry.pod.uid().clone());
                    }
                }
                // Only freed devices help pods that do not use the claim.
                if old.as_deref().is_some_and(|old| allocation(old).is_some()) && allocation(new).is_none() {
                    helped.extend(self.queue.pool().filter(|entry| hint(entry)).map(|entry| entry.pod.uid().clone()));
                }
            }
            _ => helped.extend(self.queue.pool().filter(|entry| hint(entry)).map(|entry| entry.pod.uid().clone())),
        }
        for uid in helped {
            self.requeue(&uid, now);
        }
    }

    /// Tries the next pod, if one is ready. A pod that was not placed is put back; a placed one is on its way until
    /// [`Machine::finish`].
    pub fn next(&mut self, now: Timestamp) -> Option<Attempt> {
        let entry = self.queue.pop(now)?;
        let pod = entry.pod;
        if pod.deleting {
            self.queue.remove(pod.uid());
            let message = format!("skip schedule deleting pod: {}", pod.key());
            let plan = Plan { writes: vec![failed_scheduling(&pod.reference, message)] };
            return Some(attempt(&pod, entry.attempts, now, None, Decision::Skipped, plan));
        }
        let finding = decide::decide(&mut self.snapshot, &pod, &mut self.round);
        let plan = match &finding.decision {
            Decision::Placed { node, .. } => self.place(&pod, node, &finding),
            Decision::Unschedulable { message, plugins, .. } => {
                if plugins.is_empty() {
                    self.queue.fail(pod.uid(), now);
                } else {
                    self.queue.reject(pod.uid(), plugins.clone(), now);
                }
                let mut plan = failure(&pod, "Unschedulable", message);
                if let Some(claim) = deallocated(&finding) {
                    plan.writes.insert(0, Write::Deallocate { claim, pod: pod.uid().clone() });
                }
                plan
            }
            Decision::Failed { message } => {
                self.queue.fail(pod.uid(), now);
                failure(&pod, "SchedulerError", message)
            }
            Decision::Skipped => Plan::default(),
        };
        let decision = finding.decision.clone();
        Some(attempt(&pod, entry.attempts, now, Some(finding), decision, plan))
    }

    fn place(&mut self, pod: &Arc<PodView>, node: &str, finding: &Finding) -> Plan {
        let mut writes = Vec::new();
        let mut in_flight = Vec::new();
        let mut reserves = Vec::new();
        let Decision::Placed { allocations, .. } = &finding.decision else {
            return Plan::default();
        };
        for claim in &finding.needs.claims {
            let key = key_of_claim(claim);
            let reference = claim_ref(claim);
            let new = allocations.iter().find(|(allocated, _)| *allocated == key).map(|(_, result)| result);
            if let Some(result) = new {
                self.snapshot.begin_allocation(claim, result.clone());
                in_flight.push(reference.clone());
                reserves.push(Write::AddFinalizer { claim: reference.clone() });
            }
            if new.is_some() || !is_reserved_for(claim, pod.uid().as_str()) {
                reserves.push(Write::Reserve { claim: reference, allocation: new.cloned().map(Box::new), pod: pod.reference.clone() });
            }
        }
        // The nomination tells what is coming while PreBind works; without claims there is nothing to wait for.
        if !finding.needs.claims.is_empty() {
            writes.push(Write::Nominate { pod: pod.reference.clone(), node: node.to_owned() });
        }
        writes.extend(reserves);
        writes.push(Write::Bind { pod: pod.reference.clone(), node: node.to_owned() });
        writes.push(Write::Event(Note {
            pod: pod.reference.clone(),
            warning: false,
            reason: "Scheduled",
            action: "Binding",
            message: format!("Successfully assigned {} to {node}", pod.key()),
        }));
        self.snapshot.assume(pod, node);
        let claims = finding.needs.claims.iter().map(|claim| claim_ref(claim)).collect();
        self.binding.insert(pod.uid().clone(), Binding { pod: pod.clone(), claims });
        Plan { writes }
    }

    /// Tells how the writes of a placement ended: all made, or the message of the one that failed
    /// ([`Write::refused`], [`Write::outdated`]). The answer is what is to be written now: the way back.
    pub fn finish(&mut self, pod: &Uid, outcome: Result<(), String>, now: Timestamp) -> Plan {
        let Some(binding) = self.binding.remove(pod) else {
            return Plan::default();
        };
        let mut freed = None;
        for claim in &binding.claims {
            freed = self.snapshot.end_allocation(claim.uid.as_str()).or(freed);
        }
        if let Some(event) = freed {
            self.wake(&event, now);
        }
        let Err(message) = outcome else {
            self.queue.remove(pod);
            return Plan::default();
        };
        let released = self.snapshot.forget(pod);
        let latest = self.snapshot.pod_by_key(binding.pod.key()).filter(|held| held.uid() == pod).cloned();
        match &latest {
            Some(latest) if latest.waits() => {
                self.queue.update(latest);
                self.queue.fail(pod, now);
            }
            _ => {
                self.queue.remove(pod);
            }
        }
        if let Some(event) = released {
            self.wake(&event, now);
        }
        let reserved = binding.claims.into_iter().filter(|claim| {
            let held = self.snapshot.claim_by_key(&claim.key);
            held.is_some_and(|held| uid_of_claim(held) == claim.uid && is_reserved_for(held, pod.as_str()))
        });
        let mut writes: Vec<Write> = reserved.map(|claim| Write::Unreserve { claim, pod: pod.clone() }).collect();
        let pod = latest.unwrap_or(binding.pod);
        writes.extend(failure(&pod, "SchedulerError", &message).writes);
        Plan { writes }
    }
}

fn claim_ref(claim: &ResourceClaim) -> ClaimRef {
    ClaimRef { key: key_of_claim(claim), uid: uid_of_claim(claim) }
}

fn deallocated(finding: &Finding) -> Option<ClaimRef> {
    let Decision::Unschedulable { deallocated: Some(key), .. } = &finding.decision else {
        return None;
    };
    finding.needs.claims.iter().map(|claim| claim_ref(claim)).find(|claim| claim.key == *key)
}

fn failed_scheduling(pod: &PodRef, message: String) -> Write {
    Write::Event(Note { pod: pod.clone(), warning: true, reason: "FailedScheduling", action: "Scheduling", message })
}

/// Event and condition of a pod that was not placed.
fn failure(pod: &PodView, reason: &'static str, message: &str) -> Plan {
    Plan {
        writes: vec![
            failed_scheduling(&pod.reference, message.to_owned()),
            Write::Condition { pod: pod.reference.clone(), generation: pod.generation, reason, message: message.to_owned() },
        ],
    }
}

fn attempt(pod: &PodView, number: u32, at: Timestamp, finding: Option<Finding>, decision: Decision, plan: Plan) -> Attempt {
    let (claims, refused_before_nodes, nodes) = match finding {
        Some(finding) => (finding.needs.to_allocate, finding.refused_before_nodes, finding.nodes),
        None => (Vec::new(), None, Vec::new()),
    };
    Attempt { pod: pod.reference.clone(), number, at, claims, refused_before_nodes, nodes, decision, plan }
}
