//! The statuses of lesson one's pod, compared with those that a real kubelet wrote (scenario 01 of the recordings).

use serde_json::{Value, json};

use super::lab::{FakeDriver, Lab, NAMESPACE, NODE, Script};
use crate::embedded::api::ChangeKind;
use crate::embedded::api::resource::PODS;

/// Takes times, addresses and ids out, as the recorded file has it.
fn plain(text: &str) -> Value {
    let mut text = text.to_owned();
    for (pattern, with) in [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
        (r"(containerd://|sha256:)[0-9a-f]{64}", "${1}ID"),
        (r"\b(172\.18|10\.244)\.\d+\.\d+\b", "IP"),
        (r#""resourceID":"[^"]*""#, r#""resourceID":"ID""#),
    ] {
        text = regex::Regex::new(pattern).expect("a pattern").replace_all(&text, with).into_owned();
    }
    serde_json::from_str(&text).expect("json")
}

#[tokio::test]
async fn statuses_of_the_tutorial_are_the_recorded_ones() {
    let mut lab = Lab::new();
    let driver = FakeDriver::start(lab.folder.path(), Script::default());
    lab.registered().await;
    lab.claim("some-gpu", &["gpu-0"]);
    let uid = lab.create(
        &PODS,
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod0", "namespace": NAMESPACE, "labels": {"app": "pod"}},
            "spec": {
                "containers": [{
                    "name": "ctr0", "image": "ubuntu:24.04", "command": ["bash", "-c"],
                    "args": ["export; trap 'exit 0' TERM; sleep 9999 & wait"], "resources": {"claims": [{"name": "gpu"}]},
                    "volumeMounts": [{"name": "kube-api-access-486ct", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
                }],
                "volumes": [{"name": "kube-api-access-486ct", "emptyDir": {}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "some-gpu"}],
            },
        }),
    )["metadata"]["uid"]
        .as_str()
        .expect("a uid")
        .to_owned();
    lab.reserve("some-gpu", "pod0", &uid);
    lab.bind("pod0");
    lab.phase("pod0", "Running").await;
    let log = lab.log(&uid);
    assert!(log.contains(&"declare -x GPU_CLAIM=\"some-gpu\"".to_owned()), "{log:?}");
    lab.delete("pod0", None);
    lab.gone("pod0").await;

    let recorded = include_str!("../../../../tests/cases/node/01-pod-statuses.jsonl");
    // The first two states of the recording are the scheduler's.
    let wanted: Vec<Value> = recorded.lines().map(plain).filter(|state| state["status"]["nominatedNodeName"].is_null()).collect();
    let seen: Vec<Value> = lab
        .history("pod0", true)
        .await
        .into_iter()
        .map(|(kind, pod)| {
            let kind = match kind {
                ChangeKind::Added => "ADDED",
                ChangeKind::Modified => "MODIFIED",
                ChangeKind::Deleted => "DELETED",
            };
            plain(&json!({"type": kind, "deleting": pod["metadata"]["deletionGracePeriodSeconds"], "status": pod["status"]}).to_string())
        })
        .collect();
    for (index, (wanted, seen)) in wanted.iter().zip(&seen).enumerate() {
        assert_eq!(seen, wanted, "state {index}\nseen {seen}\nwanted {wanted}");
    }
    assert_eq!(seen.len(), wanted.len());
    assert_eq!(
        lab.events("pod0"),
        [
            "Pulled Container image \"ubuntu:24.04\" already present on machine and can be accessed by the pod",
            "Created Container created",
            "Started Container started",
            "Killing Stopping container ctr0",
        ]
    );
    assert_eq!(driver.calls(), ["prepare some-gpu", "unprepare some-gpu"]);
    assert!(lab.log(&uid).is_empty(), "logs go with the pod");
    lab.end().await;
    driver.end(true).await;
    let checkpoint = std::fs::read_to_string(lab.folder.path().join("state/prepared-claims.json")).expect("a checkpoint");
    assert!(checkpoint.contains("\"claims\":[]"), "{checkpoint}");
    assert_eq!(
        lab.api.get(&crate::embedded::api::resource::NODES, "", NODE).expect("a node")["status"]["nodeInfo"]["kubeletVersion"],
        "v1.37.2"
    );
}
