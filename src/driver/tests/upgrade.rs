//! Two instances of a driver side by side, as a DaemonSet with `maxSurge` has them.

use std::fs;
use std::time::Duration;

use super::{allocate, good, instance, lab, prepare, register, spec_file, unprepare};
use crate::driver::DriverError;
use crate::driver::grpc::SocketError;
use crate::driver::testing::{Running, eventually};

const OLD: &str = "0b9c4f6e-3f0a-4c8e-9a5d-1d2f3e4a5b6c";
const NEW: &str = "9e2d7a10-55c1-4b8f-8a3e-6f7081920a1b";

#[tokio::test]
async fn claims_and_slices_survive_an_upgrade_by_surge() {
    let (api, folder) = lab();
    for (name, device) in [("a", "gpu-0"), ("b", "gpu-1"), ("c", "gpu-2")] {
        allocate(&api, name, &[device]);
    }
    let mut old = Running::start(&api, &folder, 8, instance(OLD));
    old.until(|status| status.serving && status.published.is_some()).await;
    let slices = api.slices();
    assert_eq!(prepare(&old, &["a"]).await, good(&["a"]));

    let mut new = Running::start(&api, &folder, 8, instance(NEW));
    new.until(|status| status.serving && status.published.is_some()).await;
    register(&new).await;
    assert!([&old, &new].iter().all(|driver| driver.dra_socket.exists() && driver.registration_socket.exists()));
    // A kubelet may ask either while both are registered.
    assert_eq!(prepare(&old, &["b"]).await, good(&["b"]), "by the old one after the new one has read the checkpoint");
    assert_eq!(prepare(&new, &["c"]).await, good(&["c"]));
    assert_eq!(unprepare(&new, &["b"]).await, good(&["b"]));
    assert!(!spec_file(&folder, "b").exists());
    assert_eq!(unprepare(&old, &["c"]).await, good(&["c"]));
    assert!(!spec_file(&folder, "c").exists());
    assert_eq!(prepare(&old, &["b"]).await, good(&["b"]));

    let gone = [old.dra_socket.clone(), old.registration_socket.clone()];
    old.stop().await.unwrap();
    assert!(gone.iter().all(|socket| !socket.exists()));
    assert!(new.dra_socket.exists() && new.registration_socket.exists());
    assert!(spec_file(&folder, "a").exists() && spec_file(&folder, "b").exists(), "the old one's end takes nothing along");
    assert_eq!(prepare(&new, &["a", "b"]).await, good(&["a", "b"]));
    assert_eq!(unprepare(&new, &["a", "b"]).await, good(&["a", "b"]));
    assert_eq!(fs::read_dir(folder.path().join("cdi")).unwrap().count(), 1, "what is common to all");
    assert_eq!(api.slices(), slices, "names, uids and versions are the same");
    new.stop().await.unwrap();
}

#[tokio::test]
async fn instances_that_see_other_devices_do_not_fight_over_the_slices() {
    let (api, folder) = lab();
    let devices = || api.slices().iter().map(|slice| slice["spec"]["devices"].as_array().map_or(0, Vec::len)).sum::<usize>();
    let mut old = Running::start(&api, &folder, 2, instance(OLD));
    old.until(|status| status.published.is_some()).await;
    let mut new = Running::start(&api, &folder, 5, instance(NEW));
    new.until(|status| status.published.is_some()).await;
    eventually("the new one's devices are published", || devices() == 5).await;
    let writes = api.writes();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!((api.writes(), devices()), (writes, 5), "the old one stands by");
    // The new version does not hold; its pod is gone, the old one is still there.
    new.stop().await.unwrap();
    eventually("the old one publishes again", || devices() == 2).await;
    old.stop().await.unwrap();
}

#[tokio::test]
async fn what_a_killed_instance_leaves_behind_is_cleaned_and_nothing_else() {
    let (api, folder) = lab();
    let mut dead = Running::start(&api, &folder, 1, instance(OLD));
    dead.until(|status| status.serving).await;
    let leftovers = [dead.dra_socket.clone(), dead.registration_socket.clone()];
    dead.kill().await;
    // Its sockets' files stay, as after kill -9.
    assert!(leftovers.iter().all(|path| path.exists()));
    let registry = folder.path().join("registry");
    let foreign = registry.join("other.example.com@reg.sock");
    drop(std::os::unix::net::UnixListener::bind(&foreign).unwrap());
    fs::write(registry.join("gpu.example.com@notes-reg.sock"), "a file, no socket").unwrap();

    let mut other = Running::start(&api, &folder, 1, |config| config.driver_name = "net.example.com".to_owned());
    other.until(|status| status.serving).await;
    let mut new = Running::start(&api, &folder, 1, instance(NEW));
    new.until(|status| status.serving && status.published.is_some()).await;
    assert!(leftovers.iter().all(|path| !path.exists()));
    assert!(foreign.exists(), "another driver's, whether it lives or not");
    assert!(registry.join("gpu.example.com@notes-reg.sock").exists());
    assert!(other.dra_socket.exists() && other.registration_socket.exists());
    other.stop().await.unwrap();
    new.stop().await.unwrap();
}

#[tokio::test]
async fn one_pod_is_one_instance() {
    let (api, folder) = lab();
    let mut first = Running::start(&api, &folder, 1, instance(OLD));
    first.until(|status| status.serving).await;
    let error = Running::start(&api, &folder, 1, instance(OLD)).end().await.expect_err("the same pod");
    assert!(matches!(error, DriverError::Socket(SocketError::InUse { .. })), "{error}");
    for wrong in ["", "a/b", "..", &"a".repeat(64)] {
        let error = Running::start(&api, &folder, 1, instance(wrong)).end().await.expect_err(wrong);
        assert!(error.to_string().starts_with("driver configuration: pod uid"), "{error}");
    }
    first.stop().await.unwrap();
}
