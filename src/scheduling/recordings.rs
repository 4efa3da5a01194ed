//! The state machine against recordings of a real 1.37.2 cluster: fed with what others wrote there, it must write what
//! kube-scheduler wrote there, pod by pod, in the same order and with the same words.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::world::World;

const SURROUNDINGS: &str = include_str!("../../tests/cases/scheduler/surroundings.json");

/// Plays what others wrote, lets the scheduler work in between, and gives the recorded writes.
fn play(world: &mut World, recording: &str) -> Vec<(String, String)> {
    let mut recorded = Vec::new();
    for line in recording.lines() {
        let step: Value = serde_json::from_str(line).expect("a step");
        if let Some(write) = step["write"].as_str() {
            recorded.push((step["pod"].as_str().expect("a pod").to_owned(), write.to_owned()));
            continue;
        }
        world.advance(step["t"].as_str().expect("a time").parse().expect("a time"));
        world.one_step_passes();
        if let Some(object) = step.get("object") {
            world.set(object.clone());
        } else {
            world.remove(&step["gone"]);
        }
        world.settle();
    }
    world.advance(world.now + std::time::Duration::from_secs(1));
    recorded
}

fn recorded_world(latency: usize) -> World {
    let surroundings: Vec<Value> = serde_json::from_str(SURROUNDINGS).expect("objects");
    World::new(latency, surroundings)
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
        let mut world = recorded_world(latency);
        let recorded = sorted(play(&mut world, recording));
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
        let mut world = recorded_world(0);
        // The class of scenario 46 was made before its recording began.
        world.set(json!({"kind": "DeviceClass", "metadata": {"name": "pool.example.com"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'pool.example.com'"}}]}}));
        if name == "16" {
            // On the recorded cluster another claim had gpu-0 at the time.
            let result = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "dra-lab-worker", "device": "gpu-0"});
            world.set(json!({"kind": "ResourceClaim", "metadata": {"namespace": "other", "name": "taken", "uid": "taken"},
                "spec": {"devices": {}}, "status": {"allocation": {"devices": {"results": [result]}}}}));
        }
        let recorded = sorted(play(&mut world, recording));
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
    let mut world = recorded_world(0);
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
