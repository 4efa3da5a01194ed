//! Pods: retries, restarts, deletion, resuming.

use serde_json::json;

use super::lab::{FakeDriver, Lab, Script, until};

const SLEEPER: &str = "echo ready; trap 'exit 0' TERM; sleep 9999 & wait";

#[tokio::test]
async fn a_pod_whose_driver_is_away_is_tried_again_after_66_seconds() {
    let mut lab = Lab::new();
    lab.claim("c", &["gpu-0"]);
    let uid = lab.pod("p", SLEEPER, Some("c"), "Always");
    lab.reserve("c", "p", &uid);
    lab.bind("p");
    let said = "FailedPrepareDynamicResources Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.example.com is not registered";
    until("the event", || lab.events("p") == [said]).await;
    assert_eq!(lab.at("p", "/status/containerStatuses/0/state/waiting/reason"), "ContainerCreating");
    let driver = FakeDriver::start(lab.folder.path(), Script::default());
    lab.registered().await;
    let begun = lab.now();
    lab.advance(65).await;
    assert_eq!(lab.at("p", "/status/phase"), "Pending");
    lab.advance(1).await;
    lab.phase("p", "Running").await;
    assert_eq!(lab.now() - begun, 66);
    assert_eq!(lab.events("p").iter().filter(|e| e.starts_with("FailedPrepare")).count(), 1);
    // A driver that is away keeps the pod terminating; the next attempt comes 11 s later.
    driver.end(true).await;
    until("the driver is away", || lab.agent.as_ref().expect("started").plugins().drivers().is_empty()).await;
    lab.delete("p", None);
    until("its container has ended", || lab.log(&uid).len() == 1 && lab.clock_is_waited_for()).await;
    assert!(lab.get("p").is_some());
    let driver = FakeDriver::start(lab.folder.path(), Script::default());
    lab.registered().await;
    lab.advance(11).await;
    lab.gone("p").await;
    assert_eq!(driver.calls(), ["unprepare c"]);
    lab.end().await;
    driver.end(true).await;
}

#[tokio::test]
async fn claims_are_refused_in_the_kubelets_words() {
    let mut lab = Lab::new();
    let script = Script { refuse: Some("out of luck".into()), ..Script::default() };
    let driver = FakeDriver::start(lab.folder.path(), script);
    lab.registered().await;
    let claim_uid = lab.claim("c", &["gpu-0"]);
    let uid = lab.pod("p", SLEEPER, Some("c"), "Always");
    lab.bind("p");
    let prefix = "FailedPrepareDynamicResources Failed to prepare dynamic resources: prepare dynamic resources:";
    let said = format!("{prefix} pod p ({uid}) is not allowed to use ResourceClaim c ({claim_uid})");
    until("the event", || lab.events("p") == [said.clone()]).await;
    lab.reserve("c", "p", &uid);
    lab.advance(66).await;
    let refused = format!("{prefix} NodePrepareResources failed for ResourceClaim c: out of luck");
    until("the second event", || lab.events("p").contains(&refused)).await;
    // It never ran: deleting it is quick, and its container was never found.
    driver.script.lock().expect("script").refuse = None;
    lab.delete("p", None);
    lab.gone("p").await;
    let last = lab.history("p", true).await.pop().expect("a state").1;
    assert_eq!(last["status"]["phase"], "Failed");
    assert_eq!(last["status"]["containerStatuses"][0]["state"]["terminated"]["reason"], "ContainerStatusUnknown");
    assert_eq!(last["status"]["conditions"][2]["reason"], "ContainersNotReady");
    let missing = lab.pod("q", SLEEPER, Some("nope"), "Always");
    lab.bind("q");
    let said = format!("{prefix} fetch ResourceClaim nope: resourceclaims.resource.k8s.io \"nope\" not found");
    until("the event", || lab.events("q") == [said.clone()]).await;
    assert!(!missing.is_empty());
    lab.end().await;
    driver.end(true).await;
}

#[tokio::test]
async fn two_pods_share_a_claim() {
    let mut lab = Lab::new();
    let driver = FakeDriver::start(lab.folder.path(), Script::default());
    lab.registered().await;
    lab.claim("c", &["gpu-0"]);
    for name in ["p", "q"] {
        let uid = lab.pod(name, SLEEPER, Some("c"), "Always");
        lab.reserve("c", name, &uid);
        lab.bind(name);
        lab.phase(name, "Running").await;
    }
    assert_eq!(driver.calls(), ["prepare c"]);
    lab.delete("p", None);
    lab.gone("p").await;
    let last = lab.history("p", true).await.pop().expect("a state").1;
    assert!(last["status"]["containerStatuses"][0]["allocatedResourcesStatus"].is_array(), "the claim is still known");
    assert_eq!(driver.calls(), ["prepare c"]);
    // By force: the object goes at once, the claim is given up all the same.
    lab.delete("q", Some(0));
    assert!(lab.get("q").is_none());
    until("unprepared", || driver.calls() == ["prepare c", "unprepare c"]).await;
    assert!(lab.events("q").contains(&"Killing Stopping container ctr0".to_owned()));
    lab.end().await;
    driver.end(true).await;
}

#[tokio::test]
async fn a_pod_that_completes() {
    let mut lab = Lab::new();
    for (name, script, restart, phase, code, reason) in [
        ("ok", "echo done", "Never", "Succeeded", 0, "Completed"),
        ("bad", "exit 3", "Never", "Failed", 3, "Error"),
        ("fine", "exit 0", "OnFailure", "Succeeded", 0, "Completed"),
    ] {
        let uid = lab.pod(name, script, None, restart);
        lab.bind(name);
        lab.phase(name, phase).await;
        let end = lab.at(name, "/status/containerStatuses/0/state/terminated");
        assert_eq!((end["exitCode"].clone(), end["reason"].clone()), (json!(code), json!(reason)), "{name}");
        let ready = lab.at(name, "/status/conditions/2/reason");
        assert_eq!(ready, if phase == "Failed" { "PodFailed" } else { "PodCompleted" });
        if name == "ok" {
            assert_eq!(lab.log(&uid), ["done"]);
            // The container's end is shown before the pod's.
            let phases: Vec<String> = lab.history(name, false).await.iter().map(|(_, p)| p["status"]["phase"].to_string()).collect();
            assert!(phases.ends_with(&["\"Running\"".to_owned(), "\"Succeeded\"".to_owned()]), "{phases:?}");
        }
        lab.delete(name, None);
        lab.gone(name).await;
    }
    lab.end().await;
}

#[tokio::test]
async fn a_container_that_keeps_ending_is_held_back() {
    let mut lab = Lab::new();
    let uid = lab.pod("p", "echo try; exit 1", None, "Always");
    lab.bind("p");
    let state = |lab: &Lab| lab.at("p", "/status/containerStatuses/0/state/waiting");
    until("it is held back", || state(&lab)["reason"] == "CrashLoopBackOff").await;
    assert_eq!(state(&lab)["message"], format!("back-off 10s restarting failed container=ctr0 pod=p_dra-tutorial({uid})"));
    assert_eq!(lab.at("p", "/status/containerStatuses/0/restartCount"), 1);
    assert_eq!(lab.at("p", "/status/phase"), "Running");
    lab.advance(10).await;
    until("it is held back longer", || state(&lab)["message"].as_str().unwrap_or_default().starts_with("back-off 20s")).await;
    assert_eq!(lab.at("p", "/status/containerStatuses/0/restartCount"), 2);
    assert_eq!(lab.at("p", "/status/containerStatuses/0/lastState/terminated/exitCode"), 1);
    assert!(lab.events("p").contains(&format!("BackOff Back-off restarting failed container ctr0 in pod p_dra-tutorial({uid})")));
    lab.delete("p", None);
    lab.gone("p").await;
    lab.end().await;
}

#[tokio::test]
async fn a_container_without_a_trap_is_killed_after_its_grace() {
    let mut lab = Lab::new();
    lab.pod("p", "sleep 9999", None, "Always");
    lab.bind("p");
    lab.phase("p", "Running").await;
    lab.delete("p", Some(5));
    until("it is told", || lab.events("p").iter().any(|e| e.starts_with("Killing"))).await;
    lab.advance(4).await;
    assert!(lab.get("p").is_some());
    lab.advance(1).await;
    lab.gone("p").await;
    let last = lab.history("p", true).await.pop().expect("a state").1;
    let end = &last["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&end["exitCode"], &end["reason"], &last["status"]["phase"]), (&json!(137), &json!("Error"), &json!("Failed")));
    lab.end().await;
}

#[tokio::test]
async fn init_containers_come_first() {
    let mut lab = Lab::new();
    let container = |name: &str, script: &str| json!({"name": name, "image": "busybox", "command": ["sh", "-c", script]});
    lab.pod_with(
        "p",
        &json!({"initContainers": [container("one", "sleep 5"), container("two", "true")], "containers": [container("ctr0", SLEEPER)]}),
    );
    lab.bind("p");
    until("the first runs", || !lab.at("p", "/status/initContainerStatuses/0/state/running").is_null()).await;
    assert_eq!(lab.at("p", "/status/containerStatuses/0/state/waiting/reason"), "PodInitializing");
    assert_eq!(lab.at("p", "/status/conditions/1/message"), "containers with incomplete status: [one two]");
    lab.advance(5).await;
    lab.phase("p", "Running").await;
    assert_eq!(lab.at("p", "/status/initContainerStatuses/1/state/terminated/reason"), "Completed");
    assert_eq!(lab.at("p", "/status/conditions/1/status"), "True");
    lab.end().await;
}

#[tokio::test]
async fn the_environment_is_what_the_spec_says() {
    let mut lab = Lab::new();
    let create = |kind: &str, resource, data: serde_json::Value| {
        lab.create(
            resource,
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "settings", "namespace": "dra-tutorial"}, "data": data}),
        )
    };
    create("ConfigMap", &crate::embedded::api::resource::CONFIGMAPS, json!({"MODE": "fast"}));
    create("Secret", &crate::embedded::api::resource::SECRETS, json!({"key": "c2VjcmV0"}));
    let uid = lab.pod_with(
        "p",
        &json!({"restartPolicy": "Never", "containers": [{
            "name": "ctr0", "image": "busybox", "command": ["env"],
            "envFrom": [{"configMapRef": {"name": "settings"}, "prefix": "CM_"}],
            "env": [
                {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)-$(KUBERNETES_SERVICE_PORT)"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "settings", "key": "key"}}},
            ],
        }]}),
    );
    lab.bind("p");
    lab.phase("p", "Succeeded").await;
    let log = lab.log(&uid);
    for line in ["CM_MODE=fast", "A=1", "B=1-443", "NODE=dra-lab-worker", "IP=10.244.0.2", "KEY=secret", "HOSTNAME=p", "HOME=/root"] {
        assert!(log.contains(&line.to_owned()), "{line} in {log:?}");
    }
    lab.pod_with(
        "q",
        &json!({"containers": [{"name": "ctr0", "image": "busybox", "command": ["env"], "envFrom": [{"secretRef": {"name": "nope"}}]}]}),
    );
    lab.bind("q");
    until("it waits", || lab.at("q", "/status/containerStatuses/0/state/waiting/reason") == "CreateContainerConfigError").await;
    assert_eq!(lab.at("q", "/status/containerStatuses/0/state/waiting/message"), "secret \"nope\" not found");
    assert!(lab.events("q").contains(&"Failed Error: secret \"nope\" not found".to_owned()));
    lab.end().await;
}

#[tokio::test]
async fn pods_and_claims_survive_the_agent() {
    let mut lab = Lab::new();
    let driver = FakeDriver::start(lab.folder.path(), Script::default());
    lab.registered().await;
    for (claim, pod) in [("c", "p"), ("d", "q")] {
        lab.claim(claim, &["gpu-0"]);
        let uid = lab.pod(pod, SLEEPER, Some(claim), "Always");
        lab.reserve(claim, pod, &uid);
        lab.bind(pod);
        lab.phase(pod, "Running").await;
    }
    let before = lab.get("p").expect("there");
    lab.end().await;
    // One goes while nobody looks.
    lab.delete("q", Some(0));
    lab.start();
    lab.registered().await;
    lab.advance(11).await;
    until("its claim is given up", || driver.calls() == ["prepare c", "prepare d", "unprepare d"]).await;
    let uid = before["metadata"]["uid"].as_str().expect("a uid");
    until("the other goes on", || lab.log(uid).len() == 2).await;
    assert_eq!(lab.log(uid), ["[dralab] the lab was restarted: this container went on, its log begins anew", "ready"]);
    let after = lab.get("p").expect("there");
    assert_eq!(after["status"], before["status"], "nothing has changed for it");
    lab.delete("p", None);
    lab.gone("p").await;
    assert_eq!(driver.calls().last().map(String::as_str), Some("unprepare c"));
    lab.end().await;
    driver.end(true).await;
}
