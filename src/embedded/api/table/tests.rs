use std::sync::Arc;

use super::super::resource::{NODES, PODS, RESOURCECLAIMS, RESOURCES, RESOURCESLICES};
use super::*;

const NOW: &str = "2026-12-01T03:00:00Z";

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

fn cells(resource: &'static Resource, object: Value) -> Value {
    let table = render(resource, "v1", &[Arc::new(object)], json!({}), IncludeObject::None, false, now());
    table["rows"][0]["cells"].clone()
}

/// Column definitions of every served kind, as a real 1.37.2 server answers them.
#[test]
fn columns_are_as_recorded() {
    let recorded: Value = serde_json::from_str(include_str!("../../../../tests/cases/tables/columns.json")).expect("JSON");
    for resource in RESOURCES {
        let table = render(resource, "v1", &[], json!({"resourceVersion": "1"}), IncludeObject::Metadata, true, now());
        assert_eq!(table["columnDefinitions"], recorded[resource.plural], "{}", resource.plural);
        assert_eq!(table["rows"], json!([]));
    }
}

/// Rows of the watch of scenario 48: the recorded object gives the recorded cells (ages aside) and conditions.
#[test]
fn rows_are_as_recorded() {
    let mut seen = 0;
    for line in include_str!("../../../../tests/cases/tables/rows.jsonl").lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let kind = row["object"]["kind"].as_str().expect("a kind");
        let resource = RESOURCES.iter().find(|r| r.kind == kind).expect("a served kind");
        let table = render(resource, "v1", &[Arc::new(row["object"].clone())], json!({}), IncludeObject::Metadata, false, now());
        let (mut got, mut wanted) = (table["rows"][0]["cells"].clone(), row["cells"].clone());
        let ages: &[usize] = match kind {
            "Pod" => &[4],
            "Event" => &[0, 7],
            _ => &[2],
        };
        for age in ages {
            got[*age] = Value::Null;
            wanted[*age] = Value::Null;
        }
        assert_eq!(got, wanted, "{line}");
        assert_eq!(table["rows"][0].get("conditions").unwrap_or(&Value::Null), &row["conditions"], "{line}");
        seen += 1;
    }
    assert!(seen >= 10, "{seen} rows");
}

#[test]
fn the_state_of_a_pod() {
    let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
    let exited = |code: i64, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
    let running = json!({"running": {}});
    let init = |state: &Value| json!([{"name": "i", "restartCount": 1, "state": state}]);
    let main = |states: &[&Value]| {
        let ready = |state: &Value| state["running"].is_object();
        let list = states.iter().map(|state| json!({"name": "c", "ready": ready(state), "restartCount": 0, "state": state}));
        Value::Array(list.collect())
    };
    let pod = |status: Value| json!({"metadata": {"name": "p"}, "spec": {"containers": [{}], "initContainers": [{"name": "i"}]}, "status": status});
    let cases = [
        ("Pending", "0/1", json!({"phase": "Pending"})),
        ("Evicted", "0/1", json!({"phase": "Failed", "reason": "Evicted"})),
        (
            "SchedulingGated",
            "0/1",
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
        ),
        ("Init:0/1", "0/1", json!({"phase": "Pending", "initContainerStatuses": init(&running)})),
        ("Init:0/1", "0/1", json!({"phase": "Pending", "initContainerStatuses": init(&waiting("PodInitializing"))})),
        ("Init:CrashLoopBackOff", "0/1", json!({"phase": "Pending", "initContainerStatuses": init(&waiting("CrashLoopBackOff"))})),
        ("Init:Error", "0/1", json!({"phase": "Pending", "initContainerStatuses": init(&exited(2, "Error"))})),
        ("Init:ExitCode:2", "0/1", json!({"phase": "Pending", "initContainerStatuses": init(&exited(2, ""))})),
        (
            "PodInitializing",
            "0/1",
            json!({"phase": "Pending", "initContainerStatuses": init(&exited(0, "Completed")), "containerStatuses": main(&[&waiting("PodInitializing")])}),
        ),
        ("ContainerCreating", "0/1", json!({"phase": "Pending", "containerStatuses": main(&[&waiting("ContainerCreating")])})),
        ("CrashLoopBackOff", "0/1", json!({"phase": "Running", "containerStatuses": main(&[&waiting("CrashLoopBackOff")])})),
        ("Running", "1/1", json!({"phase": "Running", "containerStatuses": main(&[&running])})),
        ("Completed", "0/1", json!({"phase": "Succeeded", "containerStatuses": main(&[&exited(0, "Completed")])})),
        ("Error", "0/1", json!({"phase": "Failed", "containerStatuses": main(&[&exited(1, "Error")])})),
        ("ExitCode:3", "0/1", json!({"phase": "Failed", "containerStatuses": main(&[&exited(3, "")])})),
        (
            "Signal:9",
            "0/1",
            json!({"phase": "Failed", "containerStatuses": main(&[&json!({"terminated": {"signal": 9, "exitCode": 137}})])}),
        ),
        ("NotReady", "1/1", json!({"phase": "Running", "containerStatuses": main(&[&exited(0, "Completed"), &running])})),
        (
            "Running",
            "1/1",
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": main(&[&exited(0, "Completed"), &running])}),
        ),
    ];
    for (state, ready, status) in cases {
        let row = cells(&PODS, pod(status.clone()));
        assert_eq!((&row[1], &row[2]), (&json!(ready), &json!(state)), "{status}");
        let mut leaving = pod(status.clone());
        leaving["metadata"]["deletionTimestamp"] = json!(NOW);
        let ended = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
        assert_eq!(cells(&PODS, leaving)[2], json!(if ended { state } else { "Terminating" }), "{status}");
    }
}

#[test]
fn restarts_sidecars_and_gates() {
    let pod = json!({"metadata": {"name": "p", "creationTimestamp": "2026-12-01T02:40:00Z"},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}],
            "readinessGates": [{"conditionType": "x"}, {"conditionType": "y"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "nominatedNodeName": "m",
            "conditions": [{"type": "x", "status": "True"}],
            "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "restartCount": 1, "state": {"running": {}}}],
            "containerStatuses": [{"name": "c", "ready": true, "restartCount": 2, "state": {"running": {}},
                "lastState": {"terminated": {"finishedAt": "2026-12-01T02:54:39Z"}}}]}});
    assert_eq!(cells(&PODS, pod), json!(["p", "2/2", "Running", "3 (5m21s ago)", "20m", "10.0.0.1", "n", "m", "1/2"]));
}

#[test]
fn other_kinds() {
    let claim = |deleted: bool, status: Value| {
        let at = if deleted { json!(NOW) } else { Value::Null };
        cells(&RESOURCECLAIMS, json!({"metadata": {"name": "c", "deletionTimestamp": at}, "status": status}))[1].clone()
    };
    let allocated = json!({"allocation": {}});
    let reserved = json!({"allocation": {}, "reservedFor": [{"uid": "1"}]});
    assert_eq!(claim(false, json!({})), "pending");
    assert_eq!(claim(false, allocated.clone()), "allocated");
    assert_eq!(claim(false, reserved.clone()), "allocated,reserved");
    assert_eq!(claim(true, json!({})), "deleted");
    assert_eq!(claim(true, allocated), "deleted,allocated");
    assert_eq!(claim(true, reserved), "deleted,allocated,reserved");

    let node = json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": "", "kubernetes.io/role": "b"}},
        "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
            "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6", "architecture": "amd64"}}});
    assert_eq!(
        cells(&NODES, node),
        json!(["n", "Ready,SchedulingDisabled", "a,b", "<unknown>", "v1", "1.2.3.4", "<none>", "<unknown>", "6 (amd64)", "<unknown>"])
    );
    let slice =
        json!({"metadata": {"name": "s", "creationTimestamp": "2026-12-01T02:57:08Z"}, "spec": {"driver": "d", "pool": {"name": "p"}}});
    assert_eq!(cells(&RESOURCESLICES, slice), json!(["s", "", "d", "p", "2m52s"]));
}
