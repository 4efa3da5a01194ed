//! kill -9 between any two changes of files: each state that a killed driver can leave is taken up by the next one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{allocate, good, lab, prepare, spec_file, unprepare};
use crate::driver::files::moments;
use crate::driver::testing::{FakeApi, Running};

/// Copies the driver's files, without sockets.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// The state of the files after each change while `work` is done.
async fn states(folder: &Path, work: impl Future<Output = ()>) -> Vec<tempfile::TempDir> {
    let taken: Arc<Mutex<Vec<tempfile::TempDir>>> = Arc::default();
    let (from, into) = (folder.to_path_buf(), Arc::clone(&taken));
    moments::watch(
        folder,
        Arc::new(move || {
            let state = tempfile::tempdir().unwrap();
            copy(&from, state.path());
            into.lock().unwrap().push(state);
        }),
    );
    work.await;
    moments::forget(folder);
    std::mem::take(&mut taken.lock().unwrap())
}

fn specs(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder.join("cdi")).unwrap().map(|entry| entry.unwrap().file_name().into()).collect()
}

/// A driver on what is left: the claims that were prepared before are, and "x" can be prepared and given back.
async fn take_up(api: &FakeApi, state: tempfile::TempDir, before: &[&str]) {
    let folder = Arc::new(state);
    let mut driver = Running::start(api, &folder, 8, |config| config.publish = false);
    driver.until(|status| status.serving).await;
    for name in before {
        assert!(spec_file(&folder, name).exists(), "{name} is lost");
    }
    assert_eq!(prepare(&driver, &["x"]).await, good(&["x"]));
    assert!(spec_file(&folder, "x").exists());
    assert_eq!(unprepare(&driver, &["x"]).await, good(&["x"]));
    assert_eq!(unprepare(&driver, before).await, good(before));
    let left: Vec<PathBuf> = specs(folder.path()).into_iter().collect();
    assert_eq!(left, [PathBuf::from("k8s.gpu.example.com-gpu_common.json")], "no spec and no half-written file stays");
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn a_driver_that_is_killed_at_any_write_loses_nothing() {
    let (api, folder) = lab();
    for (name, device) in [("a", "gpu-0"), ("x", "gpu-1")] {
        allocate(&api, name, &[device]);
    }
    let mut driver = Running::start(&api, &folder, 8, |config| config.publish = false);
    driver.until(|status| status.serving).await;
    assert_eq!(prepare(&driver, &["a"]).await, good(&["a"]));

    let preparing = states(folder.path(), async { assert_eq!(prepare(&driver, &["x"]).await, good(&["x"])) }).await;
    let unpreparing = states(folder.path(), async { assert_eq!(unprepare(&driver, &["x"]).await, good(&["x"])) }).await;
    driver.stop().await.unwrap();
    // Spec and checkpoint: begun, written, in place. Checkpoint: the same; spec: gone.
    assert_eq!((preparing.len(), unpreparing.len()), (6, 4));
    let with_entry = |state: &tempfile::TempDir| {
        fs::read_to_string(state.path().join("plugins/gpu.example.com/checkpoint.json")).unwrap().contains("uid-of-x")
    };
    for state in preparing.iter().chain(&unpreparing) {
        assert!(!with_entry(state) || specs(state.path()).iter().any(|name| name.to_str().unwrap().contains("uid-of-x")));
    }
    for state in preparing.into_iter().chain(unpreparing) {
        take_up(&api, state, &["a"]).await;
    }
}

#[tokio::test]
async fn a_driver_that_is_killed_while_it_takes_up_is_taken_up_again() {
    let (api, folder) = lab();
    for (name, device) in [("a", "gpu-0"), ("x", "gpu-1")] {
        allocate(&api, name, &[device]);
    }
    let mut driver = Running::start(&api, &folder, 8, |config| config.publish = false);
    driver.until(|status| status.serving).await;
    assert_eq!(prepare(&driver, &["a"]).await, good(&["a"]));
    driver.stop().await.unwrap();
    // After a reboot: no spec is there; and one that belongs to nothing.
    fs::remove_dir_all(folder.path().join("cdi")).unwrap();
    fs::create_dir(folder.path().join("cdi")).unwrap();
    fs::write(spec_file(&folder, "nothing"), "{}").unwrap();
    let starting = states(folder.path(), async {
        let mut driver = Running::start(&api, &folder, 8, |config| config.publish = false);
        driver.until(|status| status.serving).await;
        driver.stop().await.unwrap();
    })
    .await;
    assert!(starting.len() >= 7, "{}", starting.len());
    for state in starting {
        take_up(&api, state, &["a"]).await;
    }
}
