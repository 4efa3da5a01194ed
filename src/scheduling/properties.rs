//! What holds whatever happens: random pods, claims and failures over a small cluster.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::attempt::Decision;
use super::claims;
use super::decide::decide;
use super::snapshot::Snapshot;
use super::view::Key;
use super::world::World;

/// What somebody other than the scheduler does.
#[derive(Clone, Debug)]
enum Step {
    /// Makes a claim of so many devices.
    Claim { name: u8, count: u8 },
    /// Makes a pod that uses up to two claims and asks for some cpu; its claims are made too, if there are none and
    /// the pod does not come before them.
    Pod { name: u8, claims: Vec<u8>, cpu: u8, priority: u8, early: bool },
    /// A pod ends; the controller gives back what it held.
    Finish(u8),
    /// A pod is deleted at once; the controller gives back what it held.
    Delete(u8),
    /// A claim nobody uses is deleted.
    DropClaim(u8),
    /// A node's slice grows or shrinks.
    Devices { node: u8, count: u8 },
    /// A node is cordoned or not.
    Cordon { node: u8, on: bool },
    /// One of the next vital writes is refused.
    Refuse(u8),
    /// Placements take so long from now on.
    Latency(u8),
    /// Seconds pass.
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..6_u8, 1..4_u8).prop_map(|(name, count)| Step::Claim { name, count }),
        8 => (0..8_u8, proptest::collection::vec(0..6_u8, 0..3), 0..3_u8, 0..2_u8, proptest::bool::weighted(0.2))
            .prop_map(|(name, claims, cpu, priority, early)| Step::Pod { name, claims, cpu, priority, early }),
        2 => (0..8_u8).prop_map(Step::Finish),
        1 => (0..8_u8).prop_map(Step::Delete),
        1 => (0..6_u8).prop_map(Step::DropClaim),
        1 => (0..2_u8, 0..5_u8).prop_map(|(node, count)| Step::Devices { node, count }),
        1 => (0..2_u8, any::<bool>()).prop_map(|(node, on)| Step::Cordon { node, on }),
        1 => (0..4_u8).prop_map(Step::Refuse),
        2 => (0..4_u8).prop_map(Step::Latency),
        2 => (0..12_u8).prop_map(Step::Wait),
    ]
}

fn node(index: u8, cordoned: bool) -> Value {
    json!({"kind": "Node", "metadata": {"name": format!("n{index}")}, "spec": {"unschedulable": cordoned},
           "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "5"}}})
}

fn slice(index: u8, count: u8) -> Value {
    let devices: Vec<Value> = (0..count).map(|device| json!({"name": format!("d{device}")})).collect();
    let name = format!("n{index}");
    json!({"kind": "ResourceSlice", "metadata": {"name": name}, "spec": {"driver": "d", "nodeName": name, "devices": devices,
           "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}})
}

struct Play {
    world: World,
    uids: u32,
}

impl Play {
    fn new() -> Self {
        let class = json!({"kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {}});
        let surroundings = vec![node(0, false), node(1, false), slice(0, 4), slice(1, 4), class];
        Play { world: World::new(0, surroundings), uids: 0 }
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("u{}", self.uids)
    }

    fn object(&self, kind: &str, name: &str) -> Option<Value> {
        self.world.objects.get(&(kind.to_owned(), Key::new("n", name))).cloned()
    }

    fn claim(&mut self, name: u8, count: u8) {
        let name = format!("c{name}");
        if self.object("ResourceClaim", &name).is_none() {
            let exactly = json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": count});
            let uid = self.uid();
            self.world.set(json!({"kind": "ResourceClaim", "metadata": {"namespace": "n", "name": name, "uid": uid},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}));
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Claim { name, count } => self.claim(*name, *count),
            Step::Pod { name, claims, cpu, priority, early } => {
                let name = format!("p{name}");
                if self.object("Pod", &name).is_none() {
                    for claim in claims.iter().filter(|_| !early) {
                        self.claim(*claim, claim % 3 + 1);
                    }
                    let mut claims = claims.clone();
                    claims.sort_unstable();
                    claims.dedup();
                    let entries: Vec<Value> =
                        claims.iter().map(|claim| json!({"name": format!("e{claim}"), "resourceClaimName": format!("c{claim}")})).collect();
                    let uid = self.uid();
                    self.world.set(json!({"kind": "Pod", "metadata": {"namespace": "n", "name": name, "uid": uid},
                        "spec": {"priority": priority, "resourceClaims": entries,
                                 "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu.to_string()}}}]},
                        "status": {"phase": "Pending"}}));
                }
            }
            Step::Finish(name) => {
                let name = format!("p{name}");
                if let Some(mut pod) = self.object("Pod", &name).filter(|pod| pod["spec"]["nodeName"].is_string()) {
                    pod["status"]["phase"] = json!("Succeeded");
                    self.world.set(pod.clone());
                    self.give_back(&pod);
                }
            }
            Step::Delete(name) => {
                if let Some(pod) = self.object("Pod", &format!("p{name}")) {
                    self.world.remove(&pod);
                    self.give_back(&pod);
                }
            }
            Step::DropClaim(name) => {
                if let Some(claim) = self.object("ResourceClaim", &format!("c{name}"))
                    && claim["status"]["allocation"].is_null()
                {
                    self.world.remove(&claim);
                }
            }
            Step::Devices { node, count } => self.world.set(slice(*node, *count)),
            Step::Cordon { node: index, on } => self.world.set(node(*index, *on)),
            Step::Refuse(after) => self.world.refuse_in = Some(usize::from(*after)),
            Step::Latency(steps) => self.world.latency = usize::from(*steps),
            Step::Wait(seconds) => self.world.advance(self.world.now + std::time::Duration::from_secs(u64::from(*seconds))),
        }
        self.world.one_step_passes();
        self.world.settle();
    }

    /// What the claim controller does once a pod has ended.
    fn give_back(&mut self, pod: &Value) {
        for (_, mut claim) in self.claims() {
            let Some(consumers) = claim["status"]["reservedFor"].as_array_mut() else {
                continue;
            };
            let before = consumers.len();
            consumers.retain(|consumer| consumer["uid"] != pod["metadata"]["uid"]);
            if consumers.len() == before {
                continue;
            }
            if consumers.is_empty() {
                claim["status"] = json!({});
            }
            self.world.set(claim);
        }
    }

    fn claims(&self) -> Vec<(Key, Value)> {
        let claims = self.world.objects.iter().filter(|((kind, _), _)| kind == "ResourceClaim");
        claims.map(|((_, key), claim)| (key.clone(), claim.clone())).collect()
    }

    fn waiting(&self) -> Vec<Key> {
        let pods = self.world.objects.iter().filter(|((kind, _), pod)| kind == "Pod" && pod["spec"]["nodeName"].is_null());
        pods.map(|((_, key), _)| key.clone()).collect()
    }
}

/// Which claim holds each device; fails if two do.
fn holders(play: &Play) -> Result<BTreeMap<String, Key>, TestCaseError> {
    let mut holders = BTreeMap::new();
    for (key, claim) in play.claims() {
        for result in claim["status"]["allocation"]["devices"]["results"].as_array().into_iter().flatten() {
            let device = format!("{}/{}", result["pool"], result["device"]);
            if let Some(other) = holders.insert(device.clone(), key.clone()) {
                prop_assert!(false, "{device} is held by {other} and {key}");
            }
        }
    }
    Ok(holders)
}

/// A pod that waits for a change must not fit as things are: else a wake-up was lost.
fn nobody_was_forgotten(play: &Play) -> Result<(), TestCaseError> {
    for key in play.waiting() {
        let mut snapshot: Snapshot = play.world.machine.snapshot().clone();
        let Some(pod) = snapshot.pod_by_key(&key).cloned() else {
            return Err(TestCaseError::fail(format!("{key} is not known")));
        };
        if claims::of_pod(&pod, &snapshot).is_err() {
            continue;
        }
        let decision = decide(&mut snapshot, &pod, &mut 0).decision;
        prop_assert!(!matches!(decision, Decision::Placed { .. }), "{key} waits though it fits: {decision:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn devices_are_held_once_and_pods_are_neither_lost_nor_forgotten(steps in proptest::collection::vec(step(), 1..40)) {
        let mut play = Play::new();
        for step in &steps {
            play.run(step);
            holders(&play)?;
            let counts = play.world.machine.counts();
            let queued = counts.active + counts.backoff + counts.unschedulable + counts.gated + counts.in_progress;
            prop_assert_eq!(queued, play.waiting().len(), "after {:?}", step);
        }
        // With everything written and every back-off over, whoever still waits does so for a reason.
        play.world.latency = 0;
        play.world.refuse_in = None;
        for _ in 0..4 {
            play.world.one_step_passes();
            play.world.settle();
        }
        play.world.advance(play.world.now + std::time::Duration::from_secs(60));
        holders(&play)?;
        nobody_was_forgotten(&play)?;
        // Every bound pod holds its claims.
        for ((kind, _), pod) in &play.world.objects {
            if kind != "Pod" || pod["spec"]["nodeName"].is_null() || pod["status"]["phase"] != "Pending" {
                continue;
            }
            for entry in pod["spec"]["resourceClaims"].as_array().into_iter().flatten() {
                let claim = play.object("ResourceClaim", entry["resourceClaimName"].as_str().unwrap_or_default());
                let claim = claim.ok_or_else(|| TestCaseError::fail("a bound pod's claim is gone"))?;
                let reserved = claim["status"]["reservedFor"].as_array().into_iter().flatten();
                prop_assert!(reserved.into_iter().any(|consumer| consumer["uid"] == pod["metadata"]["uid"]), "{}", pod["metadata"]["name"]);
            }
        }
    }

    #[test]
    fn the_same_course_gives_the_same_writes(steps in proptest::collection::vec(step(), 1..25)) {
        let run = || {
            let mut play = Play::new();
            for step in &steps {
                play.run(step);
            }
            (play.world.written, play.world.objects)
        };
        prop_assert_eq!(run(), run());
    }
}
