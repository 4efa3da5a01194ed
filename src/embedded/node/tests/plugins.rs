//! Registration, refusal, connections and the wiping of slices.

use serde_json::json;

use super::lab::{DRIVER, FakeDriver, Lab, NODE, Script, until};
use crate::embedded::api::resource::RESOURCESLICES;

fn slice(lab: &Lab, name: &str, driver: &str, node: &str) {
    lab.create(
        &RESOURCESLICES,
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
            "spec": {"driver": driver, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                     "devices": [{"name": "gpu-0"}]},
        }),
    );
}

fn slices(lab: &Lab) -> Vec<String> {
    let list = lab.api.list(&RESOURCESLICES, "").expect("slices").items;
    list.iter().map(|s| s["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn slices_of_a_driver_that_stays_away_go_after_30_seconds() {
    for clean in [true, false] {
        let mut lab = Lab::new();
        let driver = FakeDriver::start(lab.folder.path(), Script::default());
        lab.registered().await;
        assert_eq!(driver.script.lock().expect("script").statuses, [(true, String::new())]);
        slice(&lab, "mine", DRIVER, NODE);
        slice(&lab, "another-driver", "net.example.com", NODE);
        slice(&lab, "another-node", DRIVER, "elsewhere");
        driver.end(clean).await;
        let agent = lab.agent.as_ref().expect("started");
        until("the driver is away", || !agent.plugins().drivers().iter().any(|(_, connected)| *connected)).await;
        lab.advance(29).await;
        assert_eq!(slices(&lab).len(), 3, "clean: {clean}");
        lab.advance(1).await;
        until("its slices are gone", || slices(&lab) == ["another-driver", "another-node"]).await;
        lab.end().await;
    }
}

#[tokio::test]
async fn a_driver_that_comes_back_keeps_its_slices() {
    let mut lab = Lab::new();
    let driver = FakeDriver::start(lab.folder.path(), Script::default());
    lab.registered().await;
    slice(&lab, "mine", DRIVER, NODE);
    driver.end(true).await;
    until("the driver is away", || lab.agent.as_ref().expect("started").plugins().drivers().is_empty()).await;
    lab.advance(20).await;
    let driver = FakeDriver::start(lab.folder.path(), Script::default());
    lab.registered().await;
    lab.advance(40).await;
    assert_eq!(slices(&lab), ["mine"]);
    // An agent that starts knows no driver: it wipes at once, as a kubelet does.
    lab.end().await;
    lab.start();
    assert!(slices(&lab).is_empty());
    lab.registered().await;
    lab.end().await;
    driver.end(true).await;
}

#[tokio::test]
async fn what_cannot_be_used_is_told_why() {
    for (script, said) in [
        (
            Script { kind: Some("CSIPlugin".into()), ..Script::default() },
            "RegisterPlugin error -- no handler registered for plugin type: CSIPlugin at socket SOCKET",
        ),
        (
            Script { versions: Some(vec!["v9.DRAPlugin".into()]), ..Script::default() },
            "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC versions of DRA driver plugin gpu.example.com at endpoint \
             ENDPOINT: none of services supported by the plugin ([\"v9.DRAPlugin\"]) are supported by the kubelet ([\"v1.DRAPlugin\" \"v1beta1.DRAPlugin\"])",
        ),
    ] {
        let mut lab = Lab::new();
        let driver = FakeDriver::start(lab.folder.path(), script);
        let statuses = || driver.script.lock().expect("script").statuses.clone();
        until("it is told", || !statuses().is_empty()).await;
        let root = lab.folder.path();
        let said = said.replace("SOCKET", &root.join("plugins_registry/gpu@reg.sock").display().to_string());
        let said = said.replace("ENDPOINT", &root.join("plugins/gpu.sock").display().to_string());
        assert_eq!(statuses(), [(false, said)]);
        assert!(lab.agent.as_ref().expect("started").plugins().drivers().is_empty());
        // It is asked again, with a growing wait.
        until("it is told again", || {
            lab.clock.advance(std::time::Duration::from_secs(1));
            statuses().len() >= 2
        })
        .await;
        lab.end().await;
        driver.end(true).await;
    }
}

#[tokio::test]
async fn hidden_sockets_and_files_are_no_plugins() {
    let mut lab = Lab::new();
    std::fs::write(lab.folder.path().join("plugins_registry/file.sock"), "").expect("a file");
    let hidden = FakeDriver::named(lab.folder.path(), Script::default(), ".gpu@reg.sock");
    let driver = FakeDriver::start(lab.folder.path(), Script::default());
    lab.registered().await;
    assert!(hidden.script.lock().expect("script").statuses.is_empty());
    lab.end().await;
    drop(hidden);
    driver.end(false).await;
}

/// A server built on tonic refuses the authority that a kubelet sends, unless the socket's name has an `@`.
#[tokio::test]
async fn a_driver_that_a_kubelet_could_not_register_is_not_registered() {
    let mut lab = Lab::new();
    let driver = FakeDriver::named(lab.folder.path(), Script::default(), "gpu-reg.sock");
    lab.advance(10).await;
    assert!(lab.agent.as_ref().expect("started").plugins().drivers().is_empty());
    assert!(driver.script.lock().expect("script").statuses.is_empty());
    driver.end(true).await;
    let driver = FakeDriver::named(lab.folder.path(), Script::default(), "gpu@reg.sock");
    lab.registered().await;
    lab.end().await;
    driver.end(true).await;
}
