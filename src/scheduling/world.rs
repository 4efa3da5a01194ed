//! A cluster of JSON objects for tests of the state machine: carries plans out as an API server would.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::attempt::Decision;
use super::change::{Change, key_of};
use super::machine::{Machine, Settings};
use super::plan::{Plan, Write};
use super::view::{Key, Uid};
use crate::model::features::Features;

/// A cluster of JSON objects that carries plans out as an API server would.
pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) objects: BTreeMap<(String, Key), Value>,
    revision: u64,
    pub(super) now: Timestamp,
    /// What the scheduler wrote, by pod.
    pub(super) written: Vec<(String, String)>,
    pending: VecDeque<(usize, Uid, Plan)>,
    /// How many changes of others a placement takes to be written.
    pub(super) latency: usize,
    /// How many vital writes from now on the next one comes that is refused.
    pub(super) refuse_in: Option<usize>,
}

impl World {
    pub(super) fn new(latency: usize, surroundings: Vec<Value>) -> Self {
        let settings = Settings { name: "default-scheduler".to_owned(), features: Features::latest() };
        let mut world = World {
            machine: Machine::new(settings),
            objects: BTreeMap::new(),
            revision: 0,
            now: Timestamp::UNIX_EPOCH,
            written: Vec::new(),
            pending: VecDeque::new(),
            latency,
            refuse_in: None,
        };
        for object in surroundings {
            world.set(object);
        }
        world
    }

    pub(super) fn set(&mut self, mut object: Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        self.objects.insert((kind, key_of(&object)), object.clone());
        self.show(&object, false);
    }

    pub(super) fn remove(&mut self, object: &Value) {
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        self.objects.remove(&(kind, key_of(object)));
        self.show(object, true);
    }

    /// A placement takes [`World::latency`] of these to be written.
    pub(super) fn one_step_passes(&mut self) {
        for pending in &mut self.pending {
            pending.0 = pending.0.saturating_sub(1);
        }
    }

    fn is_refused(&mut self, write: &Write) -> bool {
        if !write.is_vital() {
            return false;
        }
        let refused = self.refuse_in == Some(0);
        self.refuse_in = self.refuse_in.and_then(|left| left.checked_sub(1));
        refused
    }

    fn show(&mut self, object: &Value, gone: bool) {
        if let Some(change) = Change::read(object, gone).expect("readable") {
            self.machine.observe(&change, self.now);
        }
    }

    /// Lets the scheduler work until it has nothing more to do now.
    pub(super) fn settle(&mut self) {
        loop {
            while let Some(attempt) = self.machine.next(self.now) {
                if matches!(attempt.decision, Decision::Placed { .. }) {
                    self.pending.push_back((self.latency, attempt.pod.uid, attempt.plan));
                } else {
                    self.carry_out(&attempt.plan).expect("told");
                }
            }
            match self.pending.pop_front() {
                Some((0, pod, plan)) => {
                    let outcome = self.carry_out(&plan);
                    let back = self.machine.finish(&pod, outcome, self.now);
                    self.carry_out(&back).expect("told");
                }
                Some(later) => {
                    self.pending.push_front(later);
                    return;
                }
                None => return,
            }
        }
    }

    fn carry_out(&mut self, plan: &Plan) -> Result<(), String> {
        for write in &plan.writes {
            if self.is_refused(write) {
                return Err(write.refused("not now"));
            }
            let (kind, key) = match write {
                Write::Event(note) => {
                    let kind = if note.warning { "Warning" } else { "Normal" };
                    self.note(&note.pod.key, format!("event {kind} {}/{}: {}", note.reason, note.action, note.message));
                    continue;
                }
                Write::Nominate { pod, node } => {
                    self.note(&pod.key, format!("nominate {node}"));
                    ("Pod", &pod.key)
                }
                Write::Condition { pod, .. } => ("Pod", &pod.key),
                Write::Bind { pod, node } => {
                    self.note(&pod.key, format!("bind {node}"));
                    let Some(mut bound) = self.objects.get(&("Pod".to_owned(), pod.key.clone())).cloned() else {
                        return Err(write.refused(&format!("pods \"{}\" not found", pod.key.name)));
                    };
                    bound["spec"]["nodeName"] = json!(node);
                    bound["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True"}]);
                    self.set(bound);
                    continue;
                }
                Write::AddFinalizer { claim } | Write::Unreserve { claim, .. } | Write::Deallocate { claim, .. } => {
                    ("ResourceClaim", &claim.key)
                }
                Write::Reserve { claim, allocation, pod } => {
                    let results = allocation.as_ref().and_then(|allocation| allocation.devices.as_ref()?.results.clone());
                    let devices: Vec<String> =
                        results.iter().flatten().map(|result| format!("{}={}", result.request, result.device)).collect();
                    let devices = if devices.is_empty() { String::new() } else { format!(" [{}]", devices.join(",")) };
                    self.note(&pod.key, format!("reserve {}{devices}", claim.key.name));
                    ("ResourceClaim", &claim.key)
                }
            };
            let applied = match self.objects.get(&(kind.to_owned(), key.clone())) {
                Some(current) => write.apply(current, self.now).map_err(|error| write.outdated(&error)),
                None => Err(write.refused("not found")),
            };
            let applied = match applied {
                Err(message) if write.is_vital() => return Err(message),
                other => other.unwrap_or_default(),
            };
            if let Some(new) = applied {
                if let Write::Condition { pod, reason, message, .. } = write {
                    self.note(&pod.key, format!("condition {reason}: {message}"));
                }
                if let Write::AddFinalizer { claim } = write {
                    // The pod is that of the reservation, which comes next.
                    let pod = plan.writes.iter().find_map(|write| match write {
                        Write::Reserve { pod, .. } => Some(pod.key.clone()),
                        _ => None,
                    });
                    self.note(&pod.expect("a reservation"), format!("finalizer {}", claim.key.name));
                }
                self.set(new);
            }
        }
        Ok(())
    }

    fn note(&mut self, pod: &Key, line: String) {
        self.written.push((pod.name.clone(), line));
    }

    /// Lets time pass, with what becomes due on the way.
    pub(super) fn advance(&mut self, to: Timestamp) {
        while let Some(due) = self.machine.next_due().filter(|due| *due <= to) {
            self.now = due;
            self.settle();
        }
        self.now = self.now.max(to);
    }
}
