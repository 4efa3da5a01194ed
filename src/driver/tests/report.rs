//! Conditions in the status of claims.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{allocate, claim_path, good, lab, prepare, spec_file, unprepare};
use crate::driver::Part;
use crate::driver::testing::{FakeApi, NODE, Running, eventually};

fn devices(api: &FakeApi, name: &str) -> Vec<Value> {
    api.get(&claim_path(name)).unwrap()["status"]["devices"].as_array().cloned().unwrap_or_default()
}

/// Status and reason of the condition of a claim's only device.
fn condition(api: &FakeApi, name: &str) -> (String, String) {
    let condition = devices(api, name).first().map_or(Value::Null, |device| device["conditions"][0].clone());
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn patches(api: &FakeApi) -> usize {
    api.requests().iter().filter(|request| request.starts_with("PATCH")).count()
}

#[tokio::test]
async fn a_prepared_claim_says_so_and_health_is_followed() {
    let (api, folder) = lab();
    allocate(&api, "a", &["gpu-1"]);
    let mut driver = Running::start(&api, &folder, 2, |_| {});
    driver.until(|status| status.serving).await;
    assert_eq!(prepare(&driver, &["a"]).await, good(&["a"]));
    eventually("the condition is written", || condition(&api, "a") == ("True".to_owned(), "Prepared".to_owned())).await;
    let entry = devices(&api, "a").remove(0);
    assert_eq!((&entry["driver"], &entry["pool"], &entry["device"]), (&json!("gpu.example.com"), &json!(NODE), &json!("gpu-1")));
    assert_eq!(entry["conditions"][0]["type"], "Ready");
    assert!(entry["conditions"][0]["lastTransitionTime"].as_str().is_some_and(|time| time.parse::<jiff::Timestamp>().is_ok()));
    let request = api.requests().into_iter().find(|request| request.starts_with("PATCH")).unwrap();
    assert!(
        request.contains("/status?") && request.contains("fieldManager=dralab-driver%2Fgpu.example.com") && request.contains("force=true"),
        "{request}"
    );
    // Prepared already: nothing to say.
    assert_eq!(prepare(&driver, &["a"]).await, good(&["a"]));
    let health = folder.path().join("plugins/gpu.example.com/health.yaml");
    fs::write(&health, "gpu-1: { health: Unhealthy, message: fell off the bus }\n").unwrap();
    eventually("the fault is written", || condition(&api, "a") == ("False".to_owned(), "Unhealthy".to_owned())).await;
    assert_eq!(devices(&api, "a")[0]["conditions"][0]["message"], "fell off the bus");
    fs::remove_file(&health).unwrap();
    eventually("it is well again", || condition(&api, "a").0 == "True").await;
    assert_eq!(patches(&api), 3);
    driver.stop().await.unwrap();

    // The next process finds it written and does not write it again, nor its time.
    let written = devices(&api, "a");
    let mut driver = Running::start(&api, &folder, 2, |_| {});
    let asked = || api.requests().iter().filter(|request| request.starts_with(&format!("GET {}?", claim_path("a")))).count();
    let before = asked();
    driver.until(|status| status.published.is_some()).await;
    eventually("it has looked", || asked() > before).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!((patches(&api), devices(&api, "a")), (3, written));
    // What was unprepared is not followed any more.
    assert_eq!(unprepare(&driver, &["a"]).await, good(&["a"]));
    fs::write(&health, "gpu-1: { health: Unhealthy }\n").unwrap();
    tokio::time::sleep(Duration::from_millis(1300)).await;
    assert_eq!(patches(&api), 3);
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_written_delays_no_prepare_and_is_told_once() {
    let (api, folder) = lab();
    for name in ["a", "b", "c"] {
        allocate(&api, name, &["gpu-0"]);
    }
    api.forbid_status(true);
    let mut driver = Running::start(&api, &folder, 1, |_| {});
    driver.until(|status| status.serving).await;
    let begun = Instant::now();
    assert_eq!(prepare(&driver, &["a", "b"]).await, good(&["a", "b"]));
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    driver.until(|status| status.trouble.get(&Part::ClaimStatus).is_some_and(|text| text.contains("requires a permission"))).await;
    eventually("each is tried once", || patches(&api) == 2).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(patches(&api), 2);
    // Rights that come later hold for later claims.
    api.forbid_status(false);
    assert_eq!(prepare(&driver, &["c"]).await, good(&["c"]));
    driver.until(|status| status.trouble.is_empty()).await;
    assert_eq!(condition(&api, "c").0, "True");
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn an_api_server_that_is_away_gets_it_when_it_is_back() {
    let (api, folder) = lab();
    for name in ["a", "gone", "other"] {
        allocate(&api, name, &["gpu-0"]);
    }
    let mut driver = Running::start(&api, &folder, 1, |config| config.publish = false);
    driver.until(|status| status.serving).await;
    // Between the claim's arrival and the report.
    api.forbid_status(true);
    assert_eq!(prepare(&driver, &["a", "gone", "other"]).await, good(&["a", "gone", "other"]));
    eventually("all are refused", || patches(&api) == 3).await;
    driver.stop().await.unwrap();
    api.forbid_status(false);
    api.set_offline(true);
    let mut driver = Running::start(&api, &folder, 1, |config| config.publish = false);
    driver.until(|status| status.trouble.contains_key(&Part::ClaimStatus)).await;
    api.remove(&claim_path("gone"));
    let mut other = api.get(&claim_path("other")).unwrap();
    other["metadata"]["uid"] = json!("another");
    api.put(&claim_path("other"), other);
    api.set_offline(false);
    eventually("it is written", || condition(&api, "a").0 == "True").await;
    driver.until(|status| status.trouble.is_empty()).await;
    assert!(devices(&api, "other").is_empty(), "a claim of the same name is another one");
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn two_drivers_devices_in_one_claim() {
    let (api, folder) = lab();
    let result = |driver: &str, device: &str| json!({"request": "r", "driver": driver, "pool": NODE, "device": device});
    allocate(&api, "a", &["gpu-0"]);
    let mut claim = api.get(&claim_path("a")).unwrap();
    claim["status"]["allocation"]["devices"]["results"] = json!([result("gpu.example.com", "gpu-0"), result("net.example.com", "gpu-1")]);
    api.put(&claim_path("a"), claim);
    let mut gpu = Running::start(&api, &folder, 2, |_| {});
    let mut net = Running::start(&api, &folder, 2, |config| config.driver_name = "net.example.com".to_owned());
    for driver in [&mut gpu, &mut net] {
        driver.until(|status| status.serving).await;
        assert_eq!(prepare(driver, &["a"]).await, good(&["a"]));
    }
    let nets = folder.path().join("cdi/k8s.net.example.com-gpu_uid-of-a.json");
    let text = |path: &std::path::Path| fs::read_to_string(path).unwrap();
    let names = |path: &std::path::Path| ["gpu-0", "gpu-1"].map(|device| text(path).contains(&format!("\"uid-of-a-{device}\"")));
    assert_eq!((names(&spec_file(&folder, "a")), names(&nets)), ([true, false], [false, true]), "each its own device");
    eventually("both have their entry", || devices(&api, "a").len() == 2).await;
    // One driver's end and unprepare leave the other's files alone.
    assert_eq!(unprepare(&gpu, &["a"]).await, good(&["a"]));
    gpu.stop().await.unwrap();
    assert!(!spec_file(&folder, "a").exists() && nets.exists());
    assert_eq!(unprepare(&net, &["a"]).await, good(&["a"]));
    net.stop().await.unwrap();
}

#[tokio::test]
async fn nothing_is_written_when_it_is_switched_off() {
    let (api, folder) = lab();
    allocate(&api, "a", &["gpu-0"]);
    assert!(!crate::driver::Profile::load("recorded").unwrap().device_status, "the recorded driver wrote none");
    let mut driver = Running::start(&api, &Arc::clone(&folder), 1, |config| config.device_status = false);
    driver.until(|status| status.serving).await;
    assert_eq!(prepare(&driver, &["a"]).await, good(&["a"]));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(patches(&api), 0);
    driver.stop().await.unwrap();
}
