//! How long an explanation takes once the objects are in: 1,000 nodes with 8 devices each (or as many as the argument says).
//!
//! `cargo bench --bench explain`. Each figure is of 11 runs. The baseline is the allocator asked once per node for the same claim,
//! which is what the scheduler does for a pod that fits nowhere.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program for builders, not a part of dralab")]

use std::sync::Arc;
use std::time::Instant;

use dralab::allocator::{AllocatedState, Allocator};
use dralab::explain::{Objects, Target, explain};
use dralab::model::features::Features;
use dralab::scheduling::view::Key;
use serde_json::{Value, json};

const RUNS: usize = 11;

/// A name, what the claim asks for exactly, and how many devices of a node are in use.
type Shape = (&'static str, Value, fn(usize) -> usize);

/// A cluster where the claim `default/c` fits nowhere. `busy` of the eight devices of node `n` are in use.
fn cluster(nodes: usize, exactly: &Value, busy: impl Fn(usize) -> usize) -> Vec<Value> {
    let mut objects = vec![
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}}),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "default", "uid": "c"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "p"},
            "spec": {"containers": [], "resourceClaims": [{"name": "r", "resourceClaimName": "c"}]}, "status": {"phase": "Pending"}}),
    ];
    for number in 0..nodes {
        let node = format!("node-{number:04}");
        let device = |index: usize| {
            json!({"name": format!("gpu-{index}"), "capacity": {"memory": {"value": "80Gi"}},
                "attributes": {"model": {"string": "LATEST-GPU-MODEL"}, "index": {"int": index}, "driverVersion": {"version": "1.0.0"}, "numa": {"int": index / 4}}})
        };
        objects.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "uid": node, "labels": {"kubernetes.io/hostname": node}}}));
        objects.push(
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-s"), "uid": node},
            "spec": {"driver": "gpu.example.com", "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": (0..8).map(device).collect::<Vec<_>>()}}),
        );
        let results: Vec<Value> = (0..busy(number))
            .map(|index| json!({"request": "r", "driver": "gpu.example.com", "pool": node, "device": format!("gpu-{index}")}))
            .collect();
        if !results.is_empty() {
            let name = format!("held-{number:04}");
            objects.push(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default", "uid": name},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
                "status": {"allocation": {"devices": {"results": results}}}}));
        }
    }
    objects
}

fn main() {
    let nodes = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(1000);
    let memory = json!([{"cel": {"expression": "device.capacity['gpu.example.com'].memory.compareTo(quantity('100Gi')) >= 0"}}]);
    let shapes: [Shape; 4] = [
        ("a selector is false everywhere", json!({"deviceClassName": "gpu", "selectors": memory}), |_| 0),
        ("more devices than a node has", json!({"deviceClassName": "gpu", "count": 9}), |_| 0),
        ("everything is in use", json!({"deviceClassName": "gpu"}), |_| 8),
        ("all kinds of nodes, too few left", json!({"deviceClassName": "gpu", "count": 7}), |number| 2 + number % 6),
    ];
    println!("{nodes} nodes x 8 devices, milliseconds of {RUNS} runs");
    for (name, exactly, busy) in shapes {
        let started = Instant::now();
        let objects = Objects::read(cluster(nodes, &exactly, busy), Features::latest()).expect("objects");
        let reading = started.elapsed().as_secs_f64() * 1000.0;
        let target = Target::Claim(Key::new("default", "c"));
        let mut explaining = Vec::new();
        let mut asking = Vec::new();
        let mut reason = "";
        for _ in 0..RUNS {
            let started = Instant::now();
            let explanation = explain(&objects, &target);
            explaining.push(started.elapsed().as_secs_f64() * 1000.0);
            assert!(!explanation.satisfied && explanation.nodes.iter().map(|group| group.count).sum::<usize>() == nodes);
            reason = explanation.verdict.reason.slug();
            let state = AllocatedState::from_claims(objects.snapshot.claims().map(|claim| &**claim), &objects.features);
            let claims = [Arc::clone(objects.claim(&Key::new("default", "c")).expect("the claim"))];
            let started = Instant::now();
            let allocator = Allocator::new(objects.features, &objects.slices, &objects.classes, state);
            let fits = objects
                .snapshot
                .nodes()
                .values()
                .filter(|node| matches!(allocator.allocate(&node.node, &claims).0, dralab::allocator::Outcome::Fits(_)));
            assert_eq!(fits.count(), 0);
            asking.push(started.elapsed().as_secs_f64() * 1000.0);
        }
        explaining.sort_by(f64::total_cmp);
        asking.sort_by(f64::total_cmp);
        println!(
            "{name:<34} explain min {:>7.1} median {:>7.1} max {:>7.1}   allocator alone median {:>6.1}   reading the objects {reading:>6.1}   {reason}",
            explaining[0],
            explaining[RUNS / 2],
            explaining[RUNS - 1],
            asking[RUNS / 2]
        );
    }
}
