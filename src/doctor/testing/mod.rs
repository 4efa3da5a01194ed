//! Facts for tests: a sound lab, and cases with one fault each (or with something near to a fault that is none).

mod cluster;
mod machine;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::Backend;
use crate::doctor::Severity;
use crate::doctor::facts::{Cluster, Facts, Probe};

/// What a check is to come to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    /// Findings of this greatest severity, with this in the evidence.
    Found(Severity, &'static str),
    /// Nothing.
    Fine,
    /// It did not look.
    Blind,
}

/// One case.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) check: &'static str,
    pub(crate) name: &'static str,
    pub(crate) facts: Facts,
    pub(crate) expected: Expected,
}

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cluster::cases();
    cases.extend(machine::cases());
    cases
}

/// The sound facts with a change.
fn with(change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = sound();
    change(&mut facts);
    facts
}

fn now() -> Timestamp {
    "2026-12-01T12:00:00Z".parse().expect("a time")
}

/// A time so many seconds before now.
fn ago(seconds: i64) -> Value {
    json!((now() - jiff::SignedDuration::from_secs(seconds)).to_string())
}

/// Facts in which nothing is wrong.
pub(crate) fn sound() -> Facts {
    Facts {
        now: now(),
        purpose: Backend::Kind,
        host: machine::host(),
        engine: Ok(machine::engine()),
        tools: machine::tools(),
        lab: machine::lab(),
        cluster: Ok(cluster()),
    }
}

fn cluster() -> Cluster {
    let node = |name: &str, taints: Value| {
        json!({"metadata": {"name": name, "uid": name}, "spec": {"taints": taints}, "status": {"allocatable": {"cpu": "8", "memory": "16Gi"},
            "nodeInfo": {"kubeletVersion": "v1.37.2"}, "addresses": [{"type": "InternalIP", "address": if name == "lab-worker" { "172.18.0.3" } else { "172.18.0.2" }}], "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let objects = BTreeMap::from([
        (
            "nodes",
            vec![
                node("lab-control-plane", json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])),
                node("lab-worker", json!([])),
            ],
        ),
        (
            "namespaces",
            vec![
                json!({"metadata": {"name": "default"}}),
                json!({"metadata": {"name": "admins", "labels": {"resource.kubernetes.io/admin-access": "true"}}}),
            ],
        ),
        ("pods", vec![pod("pod0", "gpu"), driver_pod("lab-worker", true)]),
        ("events", vec![]),
        ("resourcequotas", vec![]),
        ("resourceslices", vec![slice("s1", "lab-worker", &["gpu-0", "gpu-1"])]),
        ("resourceclaims", vec![claim("gpu", Some("gpu-0"))]),
        (
            "resourceclaimtemplates",
            vec![json!({"metadata": {"name": "t", "namespace": "default"}, "spec": {"spec": asks("gpu.example.com")}})],
        ),
        ("deviceclasses", vec![class("gpu.example.com", "device.driver == 'gpu.example.com'")]),
        ("devicetaintrules", vec![]),
        ("clusterroles", vec![]),
        ("clusterrolebindings", vec![]),
        ("validatingadmissionpolicies", vec![]),
        ("validatingadmissionpolicybindings", vec![]),
    ]);
    Cluster {
        server: "https://127.0.0.1:6443".to_owned(),
        flags: String::new(),
        version: "v1.37.2".to_owned(),
        embedded: false,
        dra_versions: vec!["v1".to_owned(), "v1beta2".to_owned()],
        objects: objects.into_iter().map(|(plural, list)| (plural, Ok(list))).collect(),
        probe: Ok(Probe { server_time: Some(now()), asked: (now(), now()), dropped: Vec::new() }),
    }
}

fn asks(class: &str) -> Value {
    json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": class}}]}})
}

fn class(name: &str, expression: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}})
}

/// A slice with a complete pool of its node, old enough not to be on its way.
fn slice(name: &str, node: &str, devices: &[&str]) -> Value {
    let device = |name: &&str| json!({"name": name, "attributes": {"model": {"string": "LATEST-GPU-MODEL"}, "index": {"int": 0}}, "capacity": {"memory": {"value": "80Gi"}}});
    json!({"metadata": {"name": name, "creationTimestamp": ago(600)}, "spec": {"driver": "gpu.example.com", "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}, "devices": devices.iter().map(device).collect::<Vec<_>>()}})
}

/// A claim; with a device it is allocated and reserved for pod0.
fn claim(name: &str, device: Option<&str>) -> Value {
    let mut claim =
        json!({"metadata": {"name": name, "namespace": "default", "creationTimestamp": ago(600)}, "spec": asks("gpu.example.com")});
    if let Some(device) = device {
        claim["status"] = json!({"allocation": {"allocationTimestamp": ago(500), "devices": {"results": [
            {"request": "r", "driver": "gpu.example.com", "pool": "lab-worker", "device": device}]}},
            "reservedFor": [{"resource": "pods", "name": "pod0", "uid": "uid-pod0"}]});
    }
    claim
}

/// A running pod with a claim.
fn pod(name: &str, claim: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "creationTimestamp": ago(600)},
        "spec": {"nodeName": "lab-worker", "schedulerName": "default-scheduler", "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
            "containers": [{"name": "ctr0"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// A pod that waits, without a node.
fn pending(name: &str, claim: &str) -> Value {
    let mut pod = pod(name, claim);
    pod["spec"].as_object_mut().expect("an object").remove("nodeName");
    pod["status"] = json!({"phase": "Pending"});
    pod
}

fn driver_pod(node: &str, ready: bool) -> Value {
    json!({"metadata": {"name": format!("driver-{node}"), "namespace": "dralab-system", "uid": format!("uid-driver-{node}")},
        "spec": {"nodeName": node, "volumes": [{"hostPath": {"path": "/var/lib/kubelet/plugins_registry/"}}],
            "containers": [{"name": "driver", "args": ["driver", "run", "--driver-name=gpu.example.com"]}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
            "containerStatuses": [{"name": "driver", "restartCount": 0}]}})
}
