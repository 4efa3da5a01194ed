//! Publishing and repairing against a small API server.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::driver::inventory::{Inventory, InventoryError, NodeDevice, Profile, Simulated, SliceNames};
use crate::driver::testing::{FakeApi, NODE, Running, SLICES, eventually};

fn path(slice: &Value) -> String {
    format!("{SLICES}/{}", slice["metadata"]["name"].as_str().unwrap())
}

fn generations(api: &FakeApi) -> Vec<i64> {
    api.slices().iter().map(|slice| slice["spec"]["pool"]["generation"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn the_articles_slice_is_published_and_stays_when_the_driver_stops() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let mut driver = Running::start(&api, &folder, 8, |_| {});
    driver.until(|status| status.published == Some(1) && status.serving).await;
    let slices = api.slices();
    assert_eq!(slices.len(), 1);
    let slice = &slices[0];
    assert_eq!(slice["metadata"]["generateName"], "dra-lab-worker-gpu.example.com-");
    assert_eq!(
        slice["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "node-uid", "controller": true}])
    );
    assert_eq!(slice["spec"]["pool"], json!({"name": NODE, "generation": 1, "resourceSliceCount": 1}));
    assert_eq!((&slice["spec"]["driver"], &slice["spec"]["nodeName"]), (&json!("gpu.example.com"), &json!(NODE)));
    assert_eq!(
        slice["spec"]["devices"][1],
        json!({
            "name": "gpu-1",
            "attributes": {
                "driverVersion": {"version": "1.0.0"},
                "index": {"int": 1},
                "model": {"string": "LATEST-GPU-MODEL"},
                "numaNode": {"int": 0},
                "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
                "uuid": {"string": "gpu-babab493-35cb-0367-015c-c8c7ac9e7055"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        })
    );
    let watched = api.requests().iter().any(|request| {
        request.contains("fieldSelector=spec.driver%3Dgpu.example.com%2Cspec.nodeName%3Ddra-lab-worker&watch")
            || request.contains("watch=true")
    });
    assert!(watched, "{:?}", api.requests());
    driver.stop().await.unwrap();
    assert_eq!(api.slices(), slices);

    // The next process finds all as it should be and writes nothing.
    let writes = api.writes();
    let mut driver = Running::start(&api, &folder, 8, |_| {});
    driver.until(|status| status.published == Some(1)).await;
    driver.stop().await.unwrap();
    assert_eq!((api.writes(), api.slices()), (writes, slices));
}

#[tokio::test]
async fn foreign_edits_and_deletions_are_repaired() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let mut driver = Running::start(&api, &folder, 2, |_| {});
    driver.until(|status| status.published.is_some()).await;
    let good = api.slices().remove(0);

    let mut edited = good.clone();
    edited["spec"]["devices"][0]["name"] = json!("gpu-7");
    api.put(&path(&good), edited);
    eventually("the edit is undone", || api.slices()[0]["spec"] == good["spec"]).await;

    api.remove(&path(&good));
    eventually("the slice is there again", || api.slices().len() == 1).await;
    let again = api.slices().remove(0);
    assert_eq!(again["spec"], good["spec"], "with the same generation");
    assert_ne!(again["metadata"]["name"], good["metadata"]["name"]);

    // Somebody's else slices are left alone, ours of another pool are not.
    let mut foreign = good.clone();
    foreign["spec"]["driver"] = json!("other.example.com");
    api.put(&format!("{SLICES}/foreign"), foreign);
    let mut stale = good.clone();
    stale["metadata"] = json!({"name": "stale"});
    stale["spec"]["pool"]["name"] = json!("former");
    api.put(&format!("{SLICES}/stale"), stale);
    eventually("the stale slice is gone", || api.slices().len() == 2).await;
    assert!(api.slices().iter().all(|slice| slice["metadata"]["name"] != "stale"));
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn several_slices_are_in_the_devices_order_and_a_new_generation_follows_a_loss() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let mut driver = Running::start(&api, &folder, 300, |config| config.slice_names = SliceNames::IndexFirst);
    driver.until(|status| status.published == Some(1)).await;
    let slices = api.slices();
    let devices: Vec<&str> = slices
        .iter()
        .flat_map(|slice| slice["spec"]["devices"].as_array().unwrap())
        .map(|device| device["name"].as_str().unwrap())
        .collect();
    assert_eq!(devices, (0..300).map(|index| format!("gpu-{index}")).collect::<Vec<_>>());
    assert!(slices.iter().all(|slice| slice["spec"]["pool"]["resourceSliceCount"] == 3));
    assert_eq!(slices[2]["metadata"]["generateName"], "00002-gpu.example.com-dra-lab-worker-");
    api.remove(&path(&slices[1]));
    driver.until(|status| status.published == Some(2)).await;
    assert_eq!(generations(&api), [2, 2, 2]);
    for slice in api.slices() {
        api.remove(&path(&slice));
    }
    eventually("all are there again, at one generation", || {
        let generations = generations(&api);
        generations.len() == 3 && generations.iter().all(|generation| *generation == generations[0])
    })
    .await;
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn an_api_server_that_goes_away_comes_back_to_a_driver_that_waited() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    api.set_offline(true);
    let mut driver = Running::start(&api, &folder, 1, |_| {});
    driver.until(|status| !status.trouble.is_empty() && status.serving).await;
    tokio::time::sleep(Duration::from_millis(350)).await;
    let asked = api.requests().len();
    assert!((2..=4).contains(&asked), "asked {asked} times in 0.35 s: {:?}", api.requests());
    api.set_offline(false);
    driver.until(|status| status.published == Some(1) && status.trouble.is_empty()).await;

    // Away while all is as it should be: the trouble is told and taken back.
    api.set_offline(true);
    driver.until(|status| !status.trouble.is_empty()).await;
    api.set_offline(false);
    driver.until(|status| status.trouble.is_empty()).await;

    // A watch that ends, also one whose place in the history is lost, is taken up again.
    api.end_watches();
    api.compact();
    let slice = api.slices().remove(0);
    api.remove(&path(&slice));
    eventually("the slice is there again", || api.slices().len() == 1).await;
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn a_missing_node_is_waited_for() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let node = api.remove(&format!("/api/v1/nodes/{NODE}")).unwrap();
    let mut driver = Running::start(&api, &folder, 1, |_| {});
    driver.until(|status| status.troubles().is_some_and(|text| text.contains("node dra-lab-worker: \"dra-lab-worker\" not found"))).await;
    assert!(api.slices().is_empty());
    api.put(&format!("/api/v1/nodes/{NODE}"), node);
    driver.until(|status| status.published == Some(1)).await;
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn what_the_server_does_not_keep_is_not_written_again_and_again() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    api.drop_field("capacity");
    let mut driver = Running::start(&api, &folder, 1, |_| {});
    driver.until(|status| status.published == Some(1)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(api.writes(), 1);
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn nobody_publishes_when_it_is_switched_off() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let mut driver = Running::start(&api, &folder, 1, |config| config.publish = false);
    driver.until(|status| status.serving).await;
    driver.stop().await.unwrap();
    assert!(api.requests().is_empty());
}

/// Devices that change when the test says so.
#[derive(Debug)]
struct Changing(watch::Receiver<Vec<NodeDevice>>);

impl Inventory for Changing {
    fn devices(&self) -> Result<Vec<NodeDevice>, InventoryError> {
        Ok(self.0.borrow().clone())
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        tokio_stream_of(self.0.clone())
    }
}

fn tokio_stream_of(receiver: watch::Receiver<Vec<NodeDevice>>) -> BoxStream<'static, ()> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.changed().await.ok()?;
        Some(((), receiver))
    })
    .boxed()
}

#[tokio::test]
async fn a_changed_inventory_is_published() {
    let devices = |count| Simulated::new(&Profile::load("default").unwrap(), NODE, Some(count)).devices().unwrap();
    let (sender, receiver) = watch::channel(devices(1));
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let mut driver = Running::start(&api, &folder, 1, |config| config.inventory = Box::new(Changing(receiver)));
    driver.until(|status| status.published == Some(1)).await;
    for count in [3, 0, 130] {
        sender.send_replace(devices(count));
        let published =
            || api.slices().iter().map(|slice| slice["spec"]["devices"].as_array().map_or(0, Vec::len)).sum::<usize>() == count as usize;
        eventually("the change is published", published).await;
    }
    eventually("in two slices", || api.slices().len() == 2).await;
    drop(sender);
    driver.stop().await.unwrap();
}
