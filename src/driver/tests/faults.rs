//! What other people's hands do to a running driver.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{allocate, good, lab, prepare, register, spec_file, unprepare};
use crate::driver::Registered;
use crate::driver::testing::{Running, SLICES, eventually};

#[tokio::test]
async fn sockets_that_somebody_removes_are_made_again() {
    let (api, folder) = lab();
    allocate(&api, "a", &["gpu-0"]);
    let mut driver = Running::start(&api, &folder, 1, |_| {});
    driver.until(|status| status.serving && status.published.is_some()).await;
    assert_eq!(prepare(&driver, &["a"]).await, good(&["a"]));
    let checkpoint = fs::read(folder.path().join("plugins/gpu.example.com/checkpoint.json")).unwrap();
    for wiped in ["registry", "plugins/gpu.example.com", "plugins"] {
        fs::remove_dir_all(folder.path().join(wiped)).unwrap();
        let listens = |path: &std::path::Path| std::os::unix::net::UnixStream::connect(path).is_ok();
        eventually("both sockets answer", || listens(&driver.dra_socket) && listens(&driver.registration_socket)).await;
        register(&driver).await;
        driver.until(|status| status.registered == Registered::Yes && status.trouble.is_empty()).await;
        assert_eq!(prepare(&driver, &["a"]).await, good(&["a"]));
        let written = fs::read(folder.path().join("plugins/gpu.example.com/checkpoint.json")).unwrap();
        assert_eq!(written, checkpoint, "after {wiped} was wiped");
    }
    driver.stop().await.unwrap();
    let left: Vec<_> =
        fs::read_dir(folder.path().join("plugins/gpu.example.com")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "checkpoint.json" || name == "lock"), "{left:?}");
}

#[tokio::test]
async fn a_registration_path_that_is_blocked_is_told_and_tried_again() {
    let (api, folder) = lab();
    let mut driver = Running::start(&api, &folder, 1, |config| config.publish = false);
    driver.until(|status| status.serving).await;
    let registry = folder.path().join("registry");
    eventually("it is bound", || driver.registration_socket.exists()).await;
    fs::remove_dir_all(&registry).unwrap();
    fs::write(&registry, "in the way").unwrap();
    driver.until(|status| status.troubles().is_some_and(|text| text.contains(registry.to_str().unwrap()))).await;
    fs::remove_file(&registry).unwrap();
    driver.until(|status| status.trouble.is_empty()).await;
    assert!(driver.registration_socket.exists());
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn cdi_specs_that_somebody_removes_are_written_again_by_themselves() {
    let (api, folder) = lab();
    allocate(&api, "a", &["gpu-0"]);
    let mut driver = Running::start(&api, &folder, 1, |config| config.publish = false);
    driver.until(|status| status.serving).await;
    assert_eq!(prepare(&driver, &["a"]).await, good(&["a"]));
    let files = [spec_file(&folder, "a"), folder.path().join("cdi/k8s.gpu.example.com-gpu_common.json")];
    let contents = || files.each_ref().map(|path| fs::read(path).unwrap_or_default());
    let before = contents();
    fs::remove_dir_all(folder.path().join("cdi")).unwrap();
    // A container of the running pod is started again: nobody calls prepare for that.
    let begun = Instant::now();
    eventually("they are back", || contents() == before).await;
    assert!(begun.elapsed() < Duration::from_secs(3));
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn slices_are_back_within_a_second() {
    let (api, folder) = lab();
    let mut driver = Running::start(&api, &folder, 8, |_| {});
    driver.until(|status| status.published.is_some()).await;
    let good = api.slices().remove(0);
    let path = |slice: &serde_json::Value| format!("{SLICES}/{}", slice["metadata"]["name"].as_str().unwrap());
    for _ in 0..3 {
        let begun = Instant::now();
        api.remove(&path(&api.slices()[0]));
        eventually("it is there", || api.slices().first().is_some_and(|slice| slice["spec"] == good["spec"])).await;
        let mut edited = api.slices().remove(0);
        edited["spec"]["devices"] = serde_json::json!([]);
        api.put(&path(&edited), edited);
        eventually("it is as it was", || api.slices().first().is_some_and(|slice| slice["spec"] == good["spec"])).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        // What follows in a row is repaired later and later; see pace.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn a_pod_without_grace_leaves_a_claim_prepared_and_the_next_one_gets_the_device() {
    let (api, folder) = lab();
    allocate(&api, "a", &["gpu-0"]);
    let mut driver = Running::start(&api, &folder, 1, |config| config.publish = false);
    driver.until(|status| status.serving).await;
    assert_eq!(prepare(&driver, &["a"]).await, good(&["a"]));
    // The pod is gone with no time given, nobody has unprepared its claim, and another claim has the device.
    allocate(&api, "b", &["gpu-0"]);
    assert_eq!(prepare(&driver, &["b"]).await, good(&["b"]));
    assert_eq!(unprepare(&driver, &["a"]).await, good(&["a"]), "late");
    assert!(spec_file(&folder, "b").exists() && !spec_file(&folder, "a").exists());
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn hundreds_of_cycles_leave_nothing_behind() {
    let (api, folder) = lab();
    let names: Vec<String> = (0..8).map(|index| format!("c{index}")).collect();
    for (index, name) in names.iter().enumerate() {
        allocate(&api, name, &[&format!("gpu-{index}")]);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut driver = Running::start(&api, &folder, 8, |config| config.publish = false);
    driver.until(|status| status.serving).await;
    let files = |below: &str| fs::read_dir(folder.path().join(below)).unwrap().count();
    for round in 0..100 {
        assert_eq!(prepare(&driver, &names).await, good(&names), "round {round}");
        assert_eq!((files("cdi"), files("plugins/gpu.example.com")), (9, 3));
        assert_eq!(unprepare(&driver, &names).await, good(&names), "round {round}");
        assert_eq!((files("cdi"), files("plugins/gpu.example.com")), (1, 3));
    }
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn a_kubelet_that_starts_again_finds_the_driver_by_itself() {
    let (api, folder) = lab();
    let mut driver = Running::start(&api, &folder, 1, |_| {});
    driver.until(|status| status.serving && status.published.is_some()).await;
    let slices = api.slices();
    for _ in 0..3 {
        // A kubelet that starts deletes all slices of its node and looks through the folder.
        for slice in api.slices() {
            api.remove(&format!("{SLICES}/{}", slice["metadata"]["name"].as_str().unwrap()));
        }
        register(&driver).await;
        eventually("published again", || api.slices().first().is_some_and(|slice| slice["spec"] == slices[0]["spec"])).await;
    }
    assert_eq!(driver.status.borrow().registered, Registered::Yes);
    driver.stop().await.unwrap();
    drop(Arc::clone(&folder));
}
