//! The state machine against recordings of a real 1.37.2 cluster: fed with what others wrote there, it must write what
//! kube-scheduler wrote there, pod by pod, in the same order and with the same words.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::attempt::Decision;
use super::change::{Change, key_of};
use super::machine::{Machine, Settings};
use super::plan::{Plan, Write};
use super::view::{Key, Uid};
use crate::model::features::Features;

const SURROUNDINGS: &str = include_str!("../../tests/cases/scheduler/surroundings.json");

/// A cluster of JSON objects that carries plans out as an API server would.
struct World {
    machine: Machine,
    objects: BTreeMap<(String, Key), Value>,
    revision: u64,
    now: Timestamp,
    written: Vec<(String, String)>,
    pending: VecDeque<(usize, Uid, Plan)>,
    /// How many changes of others a placement takes to be written.
    latency: usize,
}

impl World {
    fn new(latency: usize) -> Self {
        let settings = Settings { name: "default-scheduler".to_owned(), features: Features::latest() };
        let mut world = World {
            machine: Machine::new(settings),
            objects: BTreeMap::new(),
            revision: 0,
            now: Timestamp::UNIX_EPOCH,
            written: Vec::new(),
            pending: VecDeque::new(),
            latency,
        };
        let surroundings: Vec<Value> = serde_json::from_str(SURROUNDINGS).expect("objects");
        for object in surroundings {
            world.set(object);
        }
        world
    }

    fn set(&mut self, mut object: Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        self.objects.insert((kind, key_of(&object)), object.clone());
        self.show(&object, false);
    }

    fn show(&mut self, object: &Value, gone: bool) {
        if let Some(change) = Change::read(object, gone).expect("readable") {
            self.machine.observe(&change, self.now);
        }
    }

    /// Lets the scheduler work until it has nothing more to do now.
    fn settle(&mut self) {
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
                    let mut bound = self.objects[&("Pod".to_owned(), pod.key.clone())].clone();
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
            let current = &self.objects[&(kind.to_owned(), key.clone())];
            if let Some(new) = write.apply(current, self.now).map_err(|error| write.outdated(&error))? {
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
    fn advance(&mut self, to: Timestamp) {
        while let Some(due) = self.machine.next_due().filter(|due| *due <= to) {
            self.now = due;
            self.settle();
        }
        self.now = self.now.max(to);
    }

    fn play(&mut self, recording: &str) -> Vec<(String, String)> {
        let mut recorded = Vec::new();
        for line in recording.lines() {
            let step: Value = serde_json::from_str(line).expect("a step");
            if let Some(write) = step["write"].as_str() {
                recorded.push((step["pod"].as_str().expect("a pod").to_owned(), write.to_owned()));
                continue;
            }
            self.advance(step["t"].as_str().expect("a time").parse().expect("a time"));
            for pending in &mut self.pending {
                pending.0 = pending.0.saturating_sub(1);
            }
            if let Some(object) = step.get("object") {
                self.set(object.clone());
            } else {
                self.show(&step["gone"], true);
            }
            self.settle();
        }
        self.advance(self.now + std::time::Duration::from_secs(1));
        recorded
    }
}

/// Lines by pod, events apart from the rest: upstream writes them side by side.
fn sorted(lines: Vec<(String, String)>) -> BTreeMap<(String, bool), Vec<String>> {
    let mut by_pod: BTreeMap<(String, bool), Vec<String>> = BTreeMap::new();
    for (pod, line) in lines {
        by_pod.entry((pod, line.starts_with("event "))).or_default().push(line);
    }
    by_pod
}

#[test]
fn scenarios_without_errors_are_written_word_for_word() {
    let table = [
        ("01", include_str!("../../tests/cases/scheduler/01.jsonl"), 0),
        ("02", include_str!("../../tests/cases/scheduler/02.jsonl"), 0),
        ("05", include_str!("../../tests/cases/scheduler/05.jsonl"), 0),
        ("06", include_str!("../../tests/cases/scheduler/06.jsonl"), 0),
        // The second pod came while the first one's allocation was being written.
        ("08", include_str!("../../tests/cases/scheduler/08.jsonl"), 1),
        ("10", include_str!("../../tests/cases/scheduler/10.jsonl"), 0),
        ("12", include_str!("../../tests/cases/scheduler/12.jsonl"), 0),
        ("13", include_str!("../../tests/cases/scheduler/13.jsonl"), 0),
        ("14", include_str!("../../tests/cases/scheduler/14.jsonl"), 0),
        ("26", include_str!("../../tests/cases/scheduler/26.jsonl"), 0),
    ];
    for (name, recording, latency) in table {
        let mut world = World::new(latency);
        let recorded = sorted(world.play(recording));
        let written = sorted(world.written);
        for (pod, lines) in &recorded {
            assert_eq!(written.get(pod), Some(lines), "scenario {name}, pod {}", pod.0);
        }
        assert_eq!(written.keys().collect::<Vec<_>>(), recorded.keys().collect::<Vec<_>>(), "scenario {name}");
    }
}

/// Errors are retried with back-off; how often, and which text a retry meets, is the clock's business. The texts of the
/// conditions must be the recorded ones, and every recorded event must be there.
#[test]
fn scenarios_with_errors_say_the_same() {
    let table =
        [("16", include_str!("../../tests/cases/scheduler/16.jsonl")), ("46", include_str!("../../tests/cases/scheduler/46.jsonl"))];
    for (name, recording) in table {
        let mut world = World::new(0);
        // The class of scenario 46 was made before its recording began.
        world.set(json!({"kind": "DeviceClass", "metadata": {"name": "pool.example.com"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'pool.example.com'"}}]}}));
        if name == "16" {
            // On the recorded cluster another claim had gpu-0 at the time.
            let result = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "dra-lab-worker", "device": "gpu-0"});
            world.set(json!({"kind": "ResourceClaim", "metadata": {"namespace": "other", "name": "taken", "uid": "taken"},
                "spec": {"devices": {}}, "status": {"allocation": {"devices": {"results": [result]}}}}));
        }
        let recorded = sorted(world.play(recording));
        let mut written = sorted(world.written);
        for ((pod, events), lines) in recorded {
            let made = written.remove(&(pod.clone(), events)).unwrap_or_default();
            if events {
                for line in lines {
                    assert!(made.contains(&line), "scenario {name}, pod {pod}: {line} is not among {made:#?}");
                }
            } else {
                let mut made = made;
                made.dedup();
                assert_eq!(made, lines, "scenario {name}, pod {pod}");
            }
        }
        assert!(written.is_empty(), "scenario {name}: {written:#?}");
    }
}

/// A claim in another namespace (scenario 09): not a word.
#[test]
fn a_pod_without_its_claim_waits_in_silence() {
    let mut world = World::new(0);
    let claim = |namespace: &str| {
        json!({"kind": "ResourceClaim", "metadata": {"namespace": namespace, "name": "gpu", "uid": namespace},
               "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}}]}}})
    };
    world.set(claim("s09a"));
    world.set(json!({"kind": "Pod", "metadata": {"namespace": "s09b", "name": "p", "uid": "p"}, "status": {"phase": "Pending"},
        "spec": {"containers": [{"name": "c"}], "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}}));
    world.settle();
    world.advance(world.now + std::time::Duration::from_secs(3600));
    assert_eq!(world.written, []);
    assert_eq!(world.machine.counts().gated, 1);
    world.set(claim("s09b"));
    world.settle();
    assert_eq!(
        world.written.last().map(|(_, line)| line.as_str()),
        Some("event Normal Scheduled/Binding: Successfully assigned s09b/p to dra-lab-worker")
    );
}
