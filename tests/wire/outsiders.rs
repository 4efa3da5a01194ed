//! Programs and recordings that nobody here wrote.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Lab, Ran};

pub(crate) fn tool(name: &str) -> PathBuf {
    let folder = std::env::var_os("DRALAB_TEST_BIN").expect("DRALAB_TEST_BIN names the folder of kubectl and dra-test-driver");
    let path = PathBuf::from(folder).join(name);
    assert!(path.is_file(), "{} is there", path.display());
    path
}

fn recordings() -> PathBuf {
    PathBuf::from(std::env::var_os("DRALAB_TEST_RECORDINGS").expect("DRALAB_TEST_RECORDINGS names the recordings"))
}

/// Plays a recorded scenario on a lab of its own and has the recordings' own judge compare.
fn replay(scenario: &str, kubectl: &Path) {
    let lab = Lab::up(&["--profile", "recorded"]);
    let out = lab.home.path().join("replayed");
    let scenario = recordings().join("scenarios").join(scenario);
    let run = |program: &str, args: &[&std::ffi::OsStr]| {
        let mut command = Command::new("python3");
        command
            .arg(recordings().join("tools").join(program))
            .args(args)
            .env("HOME", lab.home.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null());
        Ran::of(&command.output().expect("python3 starts"))
    };
    run(
        "replay.py",
        &[
            scenario.as_os_str(),
            "--kubeconfig".as_ref(),
            lab.kubeconfig().as_os_str(),
            "--out".as_ref(),
            out.as_os_str(),
            "--kubectl".as_ref(),
            kubectl.as_os_str(),
            "--speed".as_ref(),
            "fast".as_ref(),
        ],
    )
    .ok();
    let judged = run("diff.py", &[scenario.as_os_str(), out.as_os_str(), "--show".as_ref(), "40".as_ref()]);
    assert_eq!(judged.code, 0, "{}\n{}", judged.stdout, judged.stderr);
    assert!(judged.stdout.contains(": agree"), "{}", judged.stdout);
}

#[test]
fn recording_01_seed_tutorial() {
    // managedFields are sorted by whole seconds and then by manager. In the recording each kubectl took a third of a second or more,
    // so that the claim and the pod are a second apart; a client of that pace is needed for the same order.
    let folder = tempfile::tempdir().expect("a temp dir");
    let slow = folder.path().join("kubectl");
    std::fs::write(&slow, format!("#!/bin/sh\nsleep 0.4\nexec {} \"$@\"\n", tool("kubectl").display())).expect("written");
    std::fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    replay("01-seed-tutorial", &slow);
}

#[test]
fn recording_02_claim_too_big() {
    replay("02-claim-too-big", &tool("kubectl"));
}

#[test]
fn recording_05_unknown_class() {
    replay("05-unknown-class", &tool("kubectl"));
}

#[test]
fn recording_06_template_two_pods() {
    replay("06-template-two-pods", &tool("kubectl"));
}

#[test]
fn recording_08_shared_by_two_pods() {
    replay("08-shared-by-two-pods", &tool("kubectl"));
}

/// A child that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn kubernetes_own_test_driver_registers_publishes_and_prepares() {
    let lab = Lab::up(&[]);
    let status: serde_json::Value = serde_json::from_str(lab.dralab(&["status", "-o", "json"]).ok()).expect("JSON");
    let node = status["nodes"].as_array().expect("nodes").iter().find(|n| n["name"] == "dra-lab-worker").expect("the worker").clone();
    let folder = |name: &str| node[name].as_str().expect("a folder").to_owned();
    // The driver appends its name to --datadir and expects the folder to be there.
    std::fs::create_dir_all(PathBuf::from(folder("plugins")).join("test-driver.cdi.k8s.io")).expect("a folder");
    let driver = Command::new(tool("dra-test-driver"))
        .args(["kubelet-plugin", "--node-name", "dra-lab-worker", "--num-devices", "4"])
        .args(["--datadir", &folder("plugins"), "--plugin-registration-path", &folder("pluginRegistry"), "--cdi-dir", &folder("cdi")])
        .env_clear()
        .env("KUBECONFIG", lab.kubeconfig())
        .env("HOME", lab.home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the driver starts");
    let _running = Running(driver);
    let manifest = lab.file(
        "test-driver.yaml",
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: test}\nspec: {selectors: [{cel: {expression: device.driver == 'test-driver.cdi.k8s.io'}}]}\n---\n\
         apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: one, namespace: default}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: test}}]}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {name: user, namespace: default}\nspec: {restartPolicy: Never, containers: [{name: c, image: ubuntu:24.04, command: [bash, -c, 'env; sleep 60'], resources: {claims: [{name: d}]}}], resourceClaims: [{name: d, resourceClaimName: one}]}\n",
    );
    lab.dralab(&["apply", "-f", &manifest]).ok();
    let kubectl = |args: &[&str]| {
        Ran::of(&lab.home.command(&tool("kubectl")).env("KUBECONFIG", lab.kubeconfig()).args(args).output().expect("kubectl starts"))
    };
    kubectl(&["wait", "pod/user", "--for=jsonpath={.status.phase}=Running", "--timeout=60s"]).ok();
    let slices = kubectl(&["get", "resourceslices"]);
    assert!(slices.ok().contains("test-driver.cdi.k8s.io"), "{}", slices.stdout);
    let claim = kubectl(&[
        "get",
        "resourceclaim",
        "one",
        "-o",
        "jsonpath={.status.allocation.devices.results[0].driver}/{.status.allocation.devices.results[0].device}",
    ]);
    assert!(claim.ok().starts_with("test-driver.cdi.k8s.io/device-0"), "{}", claim.stdout);
    kubectl(&["delete", "pod", "user", "--grace-period=1", "--timeout=60s"]).ok();
    let claim = kubectl(&["get", "resourceclaim", "one"]);
    assert!(claim.ok().contains("pending"), "{}", claim.stdout);
}
