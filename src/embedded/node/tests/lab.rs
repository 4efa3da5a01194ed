//! An API, an agent and a driver that does as it is told, over real sockets, by a clock that stands still.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status as RpcStatus};

use crate::base::clock::{Clock as _, ManualClock};
use crate::driver::grpc::proto::dra_v1::dra_plugin_server::{DraPlugin, DraPluginServer};
use crate::driver::grpc::proto::dra_v1::{
    Device, NodePrepareResourceResponse, NodePrepareResourcesRequest, NodePrepareResourcesResponse, NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest, NodeUnprepareResourcesResponse,
};
use crate::driver::grpc::proto::pluginregistration_v1::registration_server::{Registration, RegistrationServer};
use crate::driver::grpc::proto::pluginregistration_v1::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};
use crate::embedded::api::resource::{EVENTS, NAMESPACES, PODS, RESOURCECLAIMS};
use crate::embedded::api::{Api, Caller, ChangeKind, DeleteOptions, Object, Resource, Subresource, WriteOptions};
use crate::embedded::logs::Logs;
use crate::embedded::node::{NodeAgent, NodeConfig};

pub(super) const NODE: &str = "dra-lab-worker";
pub(super) const NAMESPACE: &str = "dra-tutorial";
pub(super) const DRIVER: &str = "gpu.example.com";

/// Waits (by the machine's clock) until something holds; fails with `what` after five seconds.
pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("not within five seconds: {what}");
}

pub(super) struct Lab {
    pub(super) api: Api,
    pub(super) clock: ManualClock,
    pub(super) logs: Logs,
    pub(super) folder: TempDir,
    pub(super) stop: CancellationToken,
    pub(super) agent: Option<NodeAgent>,
    /// The revision before the first pod.
    begun: u64,
}

impl Lab {
    pub(super) fn new() -> Lab {
        let clock = ManualClock::new("2026-12-01T02:00:00Z".parse().expect("a time"));
        let api = Api::in_memory(Arc::new(clock.clone()));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        api.create(&Caller::component("test"), &NAMESPACES, "", namespace, &WriteOptions::default()).expect("a namespace");
        let begun = api.revision();
        let folder = tempfile::Builder::new().prefix("n").tempdir_in("/tmp").expect("a folder");
        let mut lab = Lab { api, clock, logs: Logs::default(), folder, stop: CancellationToken::new(), agent: None, begun };
        lab.start();
        lab
    }

    pub(super) fn start(&mut self) {
        self.stop = CancellationToken::new();
        // No claim controller runs here: nobody gives reservations back.
        let config = NodeConfig { release_bound: std::time::Duration::ZERO, ..NodeConfig::new(NODE, 0, self.folder.path()) };
        let agent = NodeAgent::start(config, self.api.clone(), self.logs.clone(), Arc::new(self.clock.clone()), &self.stop);
        self.agent = Some(agent.expect("an agent"));
    }

    pub(super) async fn end(&mut self) {
        self.stop.cancel();
        if let Some(agent) = self.agent.take() {
            tokio::time::timeout(Duration::from_secs(5), agent.join()).await.expect("the agent ends");
        }
    }

    pub(super) async fn registered(&self) {
        let agent = self.agent.as_ref().expect("started");
        until("the driver is registered", || agent.plugins().drivers().iter().any(|(d, connected)| d == DRIVER && *connected)).await;
    }

    pub(super) fn create(&self, resource: &'static Resource, object: Value) -> Object {
        self.api.create(&Caller::component("test"), resource, NAMESPACE, object, &WriteOptions::default()).expect("created")
    }

    /// A claim with one request per device name, allocated to devices of the driver on the node.
    pub(super) fn claim(&self, name: &str, devices: &[&str]) -> String {
        let requests: Vec<Value> =
            devices.iter().map(|d| json!({"name": format!("r-{d}"), "exactly": {"deviceClassName": DRIVER}})).collect();
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"devices": {"requests": requests}},
        });
        let claim = self.create(&RESOURCECLAIMS, claim);
        let results: Vec<Value> =
            devices.iter().map(|d| json!({"request": format!("r-{d}"), "driver": DRIVER, "pool": NODE, "device": d})).collect();
        self.claim_status(name, |status| status["allocation"] = json!({"devices": {"results": results}}));
        claim["metadata"]["uid"].as_str().expect("a uid").to_owned()
    }

    pub(super) fn reserve(&self, claim: &str, pod: &str, uid: &str) {
        self.claim_status(claim, |status| {
            let entry = json!({"resource": "pods", "name": pod, "uid": uid});
            match status["reservedFor"].as_array_mut() {
                Some(list) => list.push(entry),
                None => status["reservedFor"] = json!([entry]),
            }
        });
    }

    fn claim_status(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut claim = (*self.api.get(&RESOURCECLAIMS, NAMESPACE, name).expect("a claim")).clone();
        if claim["status"].is_null() {
            claim["status"] = json!({});
        }
        change(&mut claim["status"]);
        let caller = Caller::component("kube-scheduler");
        let options = WriteOptions::default();
        self.api.update(&caller, &RESOURCECLAIMS, Subresource::Status, NAMESPACE, name, claim, &options).expect("a claim status");
    }

    /// A pod with one container and a claim for it; not bound yet.
    pub(super) fn pod(&self, name: &str, script: &str, claim: Option<&str>, restart: &str) -> String {
        let mut spec = json!({
            "restartPolicy": restart,
            "containers": [{"name": "ctr0", "image": "ubuntu:24.04", "command": ["bash", "-c"], "args": [script]}],
        });
        if let Some(claim) = claim {
            spec["containers"][0]["resources"] = json!({"claims": [{"name": "gpu"}]});
            spec["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": claim}]);
        }
        self.pod_with(name, &spec)
    }

    pub(super) fn pod_with(&self, name: &str, spec: &Value) -> String {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
        self.create(&PODS, pod)["metadata"]["uid"].as_str().expect("a uid").to_owned()
    }

    pub(super) fn bind(&self, pod: &str) {
        self.api.bind(&Caller::component("kube-scheduler"), NAMESPACE, pod, None, NODE).expect("bound");
    }

    pub(super) fn delete(&self, pod: &str, grace: Option<i64>) {
        let options = DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
        self.api.delete(&Caller::component("test"), &PODS, NAMESPACE, pod, &options).expect("deleted");
    }

    pub(super) fn get(&self, pod: &str) -> Option<Object> {
        self.api.get(&PODS, NAMESPACE, pod).ok()
    }

    /// A part of a pod, null when it is gone.
    pub(super) fn at(&self, pod: &str, pointer: &str) -> Value {
        self.get(pod).and_then(|pod| pod.pointer(pointer).cloned()).unwrap_or_default()
    }

    pub(super) async fn phase(&self, pod: &str, phase: &str) {
        until(&format!("{pod} is {phase}"), || self.at(pod, "/status/phase") == phase).await;
    }

    pub(super) async fn gone(&self, pod: &str) {
        until(&format!("{pod} is gone"), || {
            // The agent takes a moment to clean up.
            self.clock.advance(Duration::from_millis(1));
            self.get(pod).is_none()
        })
        .await;
    }

    /// The pod's events: reason and message, in order, with counts above one.
    pub(super) fn events(&self, pod: &str) -> Vec<String> {
        let mut events = self.api.list(&EVENTS, NAMESPACE).expect("events").items;
        events.sort_by_key(|e| e["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse::<u64>().ok()));
        let of = events.iter().filter(|e| e["involvedObject"]["name"] == pod);
        of.map(|e| format!("{} {}", e["reason"].as_str().unwrap_or_default(), e["message"].as_str().unwrap_or_default())).collect()
    }

    pub(super) fn log(&self, uid: &str) -> Vec<String> {
        let log = self.logs.follow(uid, "ctr0").map(|log| log.borrow().clone());
        log.map(|log| log.lines.iter().map(|l| l.text.clone()).collect()).unwrap_or_default()
    }

    /// All states of a pod so far: `(type, object)`.
    pub(super) async fn history(&self, pod: &str, until_gone: bool) -> Vec<(ChangeKind, Object)> {
        let mut watch = self.api.watch(&PODS, NAMESPACE, self.begun).expect("a watch");
        let mut states = Vec::new();
        while let Ok(Some(Ok(change))) = tokio::time::timeout(Duration::from_secs(2), watch.next()).await {
            if change.object["metadata"]["name"] == pod {
                let gone = change.kind == ChangeKind::Deleted;
                states.push((change.kind, change.object));
                if gone && until_gone {
                    break;
                }
            }
        }
        states
    }

    /// Moves the clock on in steps, with time for others to act in between.
    pub(super) async fn advance(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(super) fn now(&self) -> i64 {
        self.clock.now().as_second()
    }
}

/// What the fake driver was asked, and what it is to answer.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) calls: Vec<String>,
    pub(super) statuses: Vec<(bool, String)>,
    pub(super) refuse: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) versions: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
struct Service {
    script: Arc<Mutex<Script>>,
    endpoint: String,
    cdi_dir: std::path::PathBuf,
}

/// A driver: one registration socket, one service socket.
pub(super) struct FakeDriver {
    pub(super) script: Arc<Mutex<Script>>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    sockets: Vec<std::path::PathBuf>,
}

impl FakeDriver {
    pub(super) fn start(root: &Path, script: Script) -> FakeDriver {
        FakeDriver::named(root, script, "gpu@reg.sock")
    }

    pub(super) fn named(root: &Path, script: Script, registration: &str) -> FakeDriver {
        let registration = root.join("plugins_registry").join(registration);
        let endpoint = root.join("plugins/gpu.sock");
        for socket in [&registration, &endpoint] {
            let _ = std::fs::remove_file(socket);
        }
        let script = Arc::new(Mutex::new(script));
        let service = Service { script: Arc::clone(&script), endpoint: endpoint.display().to_string(), cdi_dir: root.join("cdi") };
        let stop = CancellationToken::new();
        let mut tasks = Vec::new();
        let serve = |socket: &Path, router: tonic::transport::server::Router| {
            let incoming = UnixListenerStream::new(UnixListener::bind(socket).expect("bound"));
            let stop = stop.clone();
            tokio::spawn(async move {
                router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned()).await.expect("served");
            })
        };
        tasks.push(serve(&endpoint, tonic::transport::Server::builder().add_service(DraPluginServer::new(service.clone()))));
        tasks.push(serve(&registration, tonic::transport::Server::builder().add_service(RegistrationServer::new(service))));
        FakeDriver { script, stop, tasks, sockets: vec![registration, endpoint] }
    }

    /// As SIGTERM (`clean`) or SIGKILL would end it.
    pub(super) async fn end(self, clean: bool) {
        if clean {
            for socket in &self.sockets {
                std::fs::remove_file(socket).expect("a socket");
            }
            self.stop.cancel();
        }
        for task in self.tasks {
            if !clean {
                task.abort();
            }
            let _ = task.await;
        }
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.script.lock().expect("script").calls.clone()
    }
}

#[tonic::async_trait]
impl Registration for Service {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, RpcStatus> {
        let script = self.script.lock().expect("script");
        Ok(Response::new(PluginInfo {
            r#type: script.kind.clone().unwrap_or_else(|| "DRAPlugin".to_owned()),
            name: DRIVER.to_owned(),
            endpoint: self.endpoint.clone(),
            supported_versions: script.versions.clone().unwrap_or_else(|| vec!["v1.DRAPlugin".to_owned()]),
        }))
    }

    async fn notify_registration_status(
        &self,
        status: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, RpcStatus> {
        let status = status.into_inner();
        self.script.lock().expect("script").statuses.push((status.plugin_registered, status.error));
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

#[tonic::async_trait]
impl DraPlugin for Service {
    async fn node_prepare_resources(
        &self,
        request: Request<NodePrepareResourcesRequest>,
    ) -> Result<Response<NodePrepareResourcesResponse>, RpcStatus> {
        let mut script = self.script.lock().expect("script");
        let mut claims = BTreeMap::new();
        for claim in request.into_inner().claims {
            script.calls.push(format!("prepare {}", claim.name));
            let answer = match &script.refuse {
                Some(reason) => NodePrepareResourceResponse { devices: Vec::new(), error: reason.clone() },
                None => {
                    let id = format!("k8s.{DRIVER}/gpu={}", claim.uid);
                    let spec = json!({
                        "cdiVersion": "0.6.0", "kind": format!("k8s.{DRIVER}/gpu"),
                        "devices": [{"name": claim.uid, "containerEdits": {"env": [format!("GPU_CLAIM={}", claim.name)]}}],
                    });
                    std::fs::write(self.cdi_dir.join(format!("{}.json", claim.uid)), spec.to_string()).expect("a spec");
                    let device = Device {
                        request_names: Vec::new(),
                        pool_name: NODE.to_owned(),
                        device_name: "gpu-0".to_owned(),
                        cdi_device_ids: vec![id],
                        share_id: None,
                    };
                    NodePrepareResourceResponse { devices: vec![device], error: String::new() }
                }
            };
            claims.insert(claim.uid, answer);
        }
        Ok(Response::new(NodePrepareResourcesResponse { claims }))
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<NodeUnprepareResourcesRequest>,
    ) -> Result<Response<NodeUnprepareResourcesResponse>, RpcStatus> {
        let mut script = self.script.lock().expect("script");
        let mut claims = BTreeMap::new();
        for claim in request.into_inner().claims {
            script.calls.push(format!("unprepare {}", claim.name));
            let error = script.refuse.clone().unwrap_or_default();
            claims.insert(claim.uid, NodeUnprepareResourceResponse { error });
        }
        Ok(Response::new(NodeUnprepareResourcesResponse { claims }))
    }
}

impl Lab {
    /// True when something waits for the clock.
    pub(super) fn clock_is_waited_for(&self) -> bool {
        self.clock.sleepers() > 0
    }
}
