//! A driver as a whole: upgrades, health, probes and faults, in process against a small API server.

mod crash;
mod faults;
mod health;
mod report;
mod time;
mod upgrade;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use super::DriverConfig;
use super::grpc::proto::dra_v1::dra_plugin_client::DraPluginClient;
use super::grpc::proto::dra_v1::{Claim, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest};
use super::grpc::proto::pluginregistration_v1::registration_client::RegistrationClient;
use super::grpc::proto::pluginregistration_v1::{InfoRequest, RegistrationStatus};
use super::testing::{FakeApi, NODE, Running};

pub(super) async fn channel(socket: &Path) -> Channel {
    Endpoint::try_from(format!("unix:{}", socket.display())).unwrap().connect().await.unwrap()
}

/// Stores an allocated claim with the given devices of the driver.
pub(super) fn allocate(api: &FakeApi, name: &str, devices: &[&str]) {
    let result = |device: &&str| json!({"request": "gpu", "driver": "gpu.example.com", "pool": NODE, "device": device});
    let results: Vec<Value> = devices.iter().map(result).collect();
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-of-{name}")},
        "spec": {"devices": {}},
        "status": {"allocation": {"devices": {"results": results}}},
    });
    api.put(&claim_path(name), claim);
}

pub(super) fn named(name: &str) -> Claim {
    Claim { namespace: "default".to_owned(), name: name.to_owned(), uid: format!("uid-of-{name}") }
}

/// The error of each claim, by name; empty for success.
pub(super) async fn prepare(driver: &Running, names: &[&str]) -> BTreeMap<String, String> {
    let claims = names.iter().map(|name| named(name)).collect();
    let mut client = DraPluginClient::new(channel(&driver.dra_socket).await);
    let answer = client.node_prepare_resources(NodePrepareResourcesRequest { claims }).await.unwrap().into_inner();
    answer.claims.into_iter().map(|(uid, answer)| (uid.replace("uid-of-", ""), answer.error)).collect()
}

/// As [`prepare`].
pub(super) async fn unprepare(driver: &Running, names: &[&str]) -> BTreeMap<String, String> {
    let claims = names.iter().map(|name| named(name)).collect();
    let mut client = DraPluginClient::new(channel(&driver.dra_socket).await);
    let answer = client.node_unprepare_resources(NodeUnprepareResourcesRequest { claims }).await.unwrap().into_inner();
    answer.claims.into_iter().map(|(uid, answer)| (uid.replace("uid-of-", ""), answer.error)).collect()
}

pub(super) fn good(names: &[&str]) -> BTreeMap<String, String> {
    names.iter().map(|name| ((*name).to_owned(), String::new())).collect()
}

pub(super) fn spec_file(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join(format!("cdi/k8s.gpu.example.com-gpu_uid-of-{name}.json"))
}

/// What a kubelet does with a registration socket.
pub(super) async fn register(driver: &Running) {
    let mut kubelet = RegistrationClient::new(channel(&driver.registration_socket).await);
    kubelet.get_info(InfoRequest {}).await.unwrap();
    kubelet.notify_registration_status(RegistrationStatus { plugin_registered: true, error: String::new() }).await.unwrap();
}

pub(super) fn claim_path(name: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}")
}

pub(super) fn lab() -> (FakeApi, Arc<TempDir>) {
    (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()))
}

pub(super) fn instance(uid: &str) -> impl FnOnce(&mut DriverConfig) {
    let uid = uid.to_owned();
    move |config| config.pod_uid = Some(uid)
}
