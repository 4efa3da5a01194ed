//! The driver on the embedded API: what it publishes there is what an API server of Kubernetes held on the
//! recorded cluster, and a claim that is allocated there is prepared.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dralab::base::clock::SystemClock;
use dralab::driver::grpc::proto::dra_v1::dra_plugin_client::DraPluginClient;
use dralab::driver::grpc::proto::dra_v1::{Claim, NodePrepareResourcesRequest};
use dralab::driver::{DriverConfig, DriverError, Folders, Profile};
use dralab::embedded::api::Api;
use dralab::embedded::http::client;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

use crate::support::{self, Home, dralab};

const NODE: &str = "dra-lab-worker";

struct Lab {
    client: kube::Client,
    folder: tempfile::TempDir,
    stop: CancellationToken,
    driver: JoinHandle<Result<(), DriverError>>,
}

async fn start(profile: &str, count: Option<u32>) -> Lab {
    let client = client(&Api::in_memory(Arc::new(SystemClock)));
    let node = serde_json::from_value(json!({"metadata": {"name": NODE}})).unwrap();
    kube::Api::<Node>::all(client.clone()).create(&PostParams::default(), &node).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let below = |name| folder.path().join(name);
    let folders = Folders { plugins: below("plugins"), registry: below("registry"), cdi: below("cdi") };
    let config = DriverConfig::simulated(&Profile::load(profile).unwrap(), NODE, count, folders);
    let mut status = config.status.subscribe();
    let stop = CancellationToken::new();
    let driver = tokio::spawn(dralab::driver::run(config, client.clone(), Arc::new(SystemClock), stop.clone()));
    let published = status.wait_for(|status| status.published.is_some() && status.serving);
    tokio::time::timeout(Duration::from_secs(10), published).await.expect("slices are published").expect("the driver runs");
    Lab { client, folder, stop, driver }
}

impl Lab {
    fn slices(&self) -> kube::Api<ResourceSlice> {
        kube::Api::all(self.client.clone())
    }

    async fn listed(&self) -> Vec<ResourceSlice> {
        self.slices().list(&ListParams::default()).await.unwrap().items
    }

    async fn end(self) {
        self.stop.cancel();
        self.driver.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn the_recorded_slice_is_published_and_comes_back_after_a_deletion() {
    let lab = start("recorded", None).await;
    let recorded: ResourceSlice =
        serde_json::from_str(include_str!("../cases/recorded/slice.json")).expect("the slice of the recorded cluster");
    let slices = lab.listed().await;
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0].spec, recorded.spec);
    assert_eq!(slices[0].metadata.generate_name, recorded.metadata.generate_name);
    let owners = |slice: &ResourceSlice| {
        let mut owners = slice.metadata.owner_references.clone().unwrap();
        owners.iter_mut().for_each(|owner| owner.uid.clear());
        owners
    };
    assert_eq!(owners(&slices[0]), owners(&recorded));

    let name = slices[0].metadata.name.clone().unwrap();
    lab.slices().delete(&name, &DeleteParams::default()).await.unwrap();
    let mut again = Vec::new();
    for _ in 0..500 {
        again = lab.listed().await;
        if !again.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(again[0].spec, recorded.spec, "with the same generation");
    assert_ne!(again[0].metadata.name, Some(name));
    lab.end().await;
}

#[tokio::test]
async fn a_thousand_devices_are_taken_by_the_api() {
    let lab = start("default", Some(1000)).await;
    let slices = lab.listed().await;
    assert_eq!(slices.len(), 8);
    let names = slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten()).map(|device| device.name.clone());
    assert!(names.eq((0..1000).map(|index| format!("gpu-{index}"))), "in the order of the slices' names");
    lab.end().await;
}

#[tokio::test]
async fn an_allocated_claim_is_prepared() {
    let lab = start("default", None).await;
    let namespace = serde_json::from_value(json!({"metadata": {"name": "dra-tutorial"}})).unwrap();
    kube::Api::<Namespace>::all(lab.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let claims: kube::Api<ResourceClaim> = kube::Api::namespaced(lab.client.clone(), "dra-tutorial");
    let claim = json!({"metadata": {"name": "some-gpu"}, "spec": {"devices": {"requests": [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}});
    let claim = claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    let uid = claim.metadata.uid.unwrap();
    let ask = async || {
        let socket = lab.folder.path().join("plugins/gpu.example.com/dra.sock");
        let channel = Endpoint::try_from(format!("unix:{}", socket.display())).unwrap().connect().await.unwrap();
        let claim = Claim { namespace: "dra-tutorial".to_owned(), name: "some-gpu".to_owned(), uid: uid.clone() };
        let answer = DraPluginClient::new(channel).node_prepare_resources(NodePrepareResourcesRequest { claims: vec![claim] }).await;
        answer.unwrap().into_inner().claims.remove(&uid).unwrap()
    };
    assert!(ask().await.error.ends_with("claim dra-tutorial/some-gpu not allocated"));
    let status = json!({"status": {"allocation": {"devices": {"results": [
        {"request": "gpu", "driver": "gpu.example.com", "pool": NODE, "device": "gpu-3"}]}}}});
    claims.patch_status("some-gpu", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let answer = ask().await;
    assert_eq!((answer.error.as_str(), answer.devices[0].device_name.as_str()), ("", "gpu-3"));
    assert!(Path::exists(&lab.folder.path().join(format!("cdi/k8s.gpu.example.com-gpu_{uid}.json"))));
    lab.end().await;
}

/// `driver run` of a node, with folders in a home, until it is dropped; its standard error by lines.
struct Process {
    child: std::process::Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Process {
    fn start(home: &Home, args: &[&str]) -> Self {
        use std::io::BufRead as _;
        let folders = ["--plugins-dir", "--registry-dir", "--cdi-dir"]
            .into_iter()
            .flat_map(|name| [name.to_owned(), home.path().join(name.trim_matches('-')).display().to_string()]);
        let mut command = home.command(&dralab());
        command.args(["driver", "run"]).args(args).args(folders).stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        Process { child, lines }
    }

    /// Waits for a line with `part`, 10 s at most.
    fn says(&self, part: &str) -> String {
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        let mut all = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(std::time::Instant::now())) {
            if line.contains(part) {
                return line;
            }
            all.push(line);
        }
        panic!("{part:?} is not in {all:#?}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_node_that_is_not_there_is_told_and_waited_for() {
    let lab = support::Lab::up(&[]);
    let kubeconfig = lab.kubeconfig().display().to_string();
    let mut driver = Process::start(&lab.home, &["--node", "nobody", "--kubeconfig", &kubeconfig]);
    driver.says("node nobody: nodes \"nobody\" not found");
    let node = lab.file("node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: nobody}\n");
    lab.dralab(&["apply", "-f", &node]).ok();
    driver.says("slices are published");
    // What can be used up on a node, the driver does not need.
    if let Ok(files) = std::fs::read_dir(format!("/proc/{}/fd", driver.child.id())) {
        let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
        assert_eq!(links.filter(|link| link.display().to_string().contains("inotify")).count(), 0);
    }
    assert!(driver.child.try_wait().unwrap().is_none());
}

#[test]
fn a_driver_without_a_cluster_ends_with_the_reason() {
    let home = Home::new();
    let ran = home.dralab(&["driver", "run", "--node", "n", "--plugins-dir", "/nonexistent/plugins"]);
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("--kubeconfig"), "{}", ran.stderr);
    let ran = home.dralab(&["driver", "run", "--node", "n", "--kubeconfig", "/nonexistent/config"]);
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("/nonexistent/config"), "{}", ran.stderr);
}
