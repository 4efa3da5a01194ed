//! One pod's worker: prepares its claims, runs its containers, reports, and cleans up before the object goes.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::adopt::adopt;
use super::environment::{self, Addresses};
use super::processes::{Processes, Start};
use super::release;
use super::runtime::{ContainerState, Ended, RestartPolicy, Runtime, Sandbox, Step, Which};
use super::status::{self, Stage};
use crate::embedded::api::Object;
use crate::embedded::events::EventType::{Normal, Warning};
use crate::embedded::node::agent::Node;
use crate::embedded::node::cdi;
use crate::embedded::node::feed::PodEvent;

/// A pod whose claims could not be prepared is tried again with the kubelet's periodic sync: 60 s and up to half as
/// much again by chance; recorded were 66 s.
pub(crate) const SYNC: Duration = Duration::from_secs(66);
/// A pod whose sync failed is tried again after 10 s and up to half as much again (`backOffPeriod`); recorded were 11 s.
pub(crate) const RETRY: Duration = Duration::from_secs(11);
/// The least grace that a container gets (`minimumGracePeriodInSeconds`).
const LEAST_GRACE: i64 = 2;
/// What the log of a container says that went on while the lab was away.
const RESUMED: &str = "[dralab] the lab was restarted: this container went on, its log begins anew";

/// What a worker waits for.
enum Happened {
    /// The pod is another one now: in what the kubelet syncs for (`true`), or only otherwise.
    Changed(bool),
    /// A container has ended.
    Ended,
    /// The time has come.
    Time,
    /// The agent stops.
    Shutdown,
}

/// Why a stage of a pod's life is over.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// It is to be taken down: it was deleted, or its containers are done.
    End,
    /// The agent stops.
    Shutdown,
}

/// The worker of one pod.
pub(in crate::embedded::node) struct Worker {
    pub(super) node: Arc<Node>,
    pub(super) pod: Object,
    pub(super) gone: bool,
    updates: UnboundedReceiver<PodEvent>,
    pub(super) runtime: Runtime,
    processes: Processes,
}

impl Worker {
    /// A worker for a pod that is bound to the node, as it is now.
    pub(in crate::embedded::node) fn new(node: Arc<Node>, pod: Object, updates: UnboundedReceiver<PodEvent>) -> Self {
        let runtime = adopt(&pod, node.clock.now());
        Worker { node, pod, gone: false, updates, runtime, processes: Processes::default() }
    }

    /// Lives the pod's life to its end, or to the agent's.
    pub(in crate::embedded::node) async fn run(mut self) {
        let over = matches!(self.pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if !over {
            self.resume().await;
            if self.live().await == Outcome::Shutdown {
                return;
            }
        }
        if self.stop(over).await == Outcome::Shutdown {
            return;
        }
        if self.deleting() && !self.gone {
            let node = Arc::clone(&self.node);
            let (namespace, uid) = (self.text("namespace"), self.uid().to_owned());
            tokio::select! {
                () = node.shutdown.cancelled() => return,
                () = release::given_back(&node.api, &node.clock, node.release_bound, &namespace, &uid) => {}
            }
        }
        while !self.gone {
            if self.deleting() && self.remove() {
                break;
            }
            // The next attempt comes with the next change of the pod, or after a while.
            let again = self.deleting().then(|| self.after(RETRY));
            if matches!(self.happens(again).await, Happened::Shutdown) {
                return;
            }
        }
        self.node.logs.forget(self.uid());
        self.node.release_address(self.uid());
    }

    /// Starts again what ran when the agent ended: the containers went on, as they do beside a kubelet that restarts.
    async fn resume(&mut self) {
        let running: Vec<(Which, Timestamp)> = self
            .runtime
            .all()
            .filter_map(|(which, c)| match c.state {
                ContainerState::Running(since) => Some((which, since)),
                _ => None,
            })
            .collect();
        if let Some(address) = &self.runtime.address {
            self.node.keep_address(self.uid(), address);
        }
        for (which, since) in running {
            let Some(spec) = self.spec(which).cloned() else { continue };
            // What cannot be put together now was put together once: it goes on with less.
            let environment = self.environment(&spec).unwrap_or_default();
            self.launch(which, &spec, environment, Some(RESUMED)).await;
            if let Some(container) = self.runtime.get_mut(which) {
                container.state = ContainerState::Running(since);
            }
        }
    }

    async fn live(&mut self) -> Outcome {
        if self.deleting() {
            return Outcome::End;
        }
        self.write(Stage::Live);
        if self.runtime.sandbox == Sandbox::None {
            while let Err(error) = self.node.claims.prepare(&self.pod).await {
                let message = format!("Failed to prepare dynamic resources: prepare dynamic resources: {error}");
                self.node.recorder.event(&self.pod, Warning, "FailedPrepareDynamicResources", &message);
                if let Some(outcome) = self.pause(SYNC).await {
                    return outcome;
                }
                self.write(Stage::Live);
            }
            self.runtime.sandbox = Sandbox::Ready;
            let host_network = self.pod["spec"]["hostNetwork"] == true;
            let uid = self.uid().to_owned();
            let address = if host_network { self.node.address.clone() } else { self.node.take_address(&uid) };
            let now = self.node.clock.now();
            self.write_with(|pod, _| status::sandbox_ready(pod, now));
            // Shown with the first status that has a running container.
            self.runtime.address = Some(address);
        }
        let policy = RestartPolicy::of(&self.pod);
        loop {
            // Deleted while it was prepared or started.
            while let Ok(event) = self.updates.try_recv() {
                self.take(event);
            }
            if self.deleting() {
                return Outcome::End;
            }
            let pod = Arc::clone(&self.pod);
            match self.runtime.next(policy, |index| status::is_sidecar(&pod, index), self.node.clock.now()) {
                Step::Start(list) => {
                    for which in list {
                        self.start(which).await;
                    }
                    self.write(Stage::Live);
                }
                Step::Wait(until) => {
                    self.back_off();
                    self.write(Stage::Live);
                    match self.happens(until).await {
                        Happened::Shutdown => return Outcome::Shutdown,
                        Happened::Ended | Happened::Changed(true) => self.write(Stage::Live),
                        Happened::Changed(false) | Happened::Time => {}
                    }
                }
                Step::Finished => {
                    self.write(Stage::Live);
                    return Outcome::End;
                }
            }
        }
    }

    /// Waits before another attempt; `Some` when there is to be none. A change that the kubelet syncs for cuts it short.
    async fn pause(&mut self, delay: Duration) -> Option<Outcome> {
        let until = self.after(delay);
        loop {
            match self.happens(Some(until)).await {
                Happened::Shutdown => return Some(Outcome::Shutdown),
                _ if self.deleting() => return Some(Outcome::End),
                Happened::Time | Happened::Changed(true) => return None,
                Happened::Changed(false) | Happened::Ended => {}
            }
        }
    }

    /// Starts a container, or says why not.
    async fn start(&mut self, which: Which) {
        let Some(spec) = self.spec(which).cloned() else { return };
        let image = spec["image"].as_str().unwrap_or_default();
        let message = format!("Container image \"{image}\" already present on machine and can be accessed by the pod");
        self.event(which, Normal, "Pulled", &message);
        let environment = match self.environment(&spec) {
            Ok(environment) => environment,
            Err((reason, message)) => {
                self.event(which, Warning, "Failed", &format!("Error: {message}"));
                let again = self.after(RETRY);
                if let Some(container) = self.runtime.get_mut(which) {
                    if let ContainerState::Ended(ended) = &container.state {
                        container.last = Some(ended.clone());
                    }
                    container.state = ContainerState::Waiting { reason: reason.to_owned(), message };
                    container.retry = Some(again);
                }
                return;
            }
        };
        self.event(which, Normal, "Created", "Container created");
        self.launch(which, &spec, environment, None).await;
        let now = self.node.clock.now();
        if let Some(container) = self.runtime.get_mut(which) {
            if let Some(ended) = container.ended().cloned() {
                container.raise_backoff();
                container.restarts += 1;
                container.last = Some(ended);
            }
            container.retry = None;
            container.id = format!("containerd://{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
            container.state = ContainerState::Running(now);
        }
        self.event(which, Normal, "Started", "Container started");
    }

    async fn launch(&mut self, which: Which, spec: &Value, environment: Vec<(String, String)>, note: Option<&str>) {
        let pod = Arc::clone(&self.pod);
        let pod_uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let start = Start { pod_uid, container: spec, hostname: environment::hostname(&pod), environment, note };
        self.processes.start(which, start, &self.node.logs, &self.node.clock).await;
    }

    /// The environment of a container, its devices' variables included; else the reason and the message of its waiting.
    fn environment(&self, spec: &Value) -> Result<Vec<(String, String)>, (&'static str, String)> {
        let devices = self.node.claims.cdi_devices(&self.pod, spec);
        let injected = cdi::resolve(&self.node.cdi_dir, &devices).map_err(|error| ("CreateContainerError", error.to_string()))?;
        if !injected.not_simulated.is_empty() {
            tracing::debug!(paths = ?injected.not_simulated, "device nodes and mounts of CDI devices are not simulated");
        }
        let addresses = Addresses { host: &self.node.address, pod: self.runtime.address.as_deref().unwrap_or_default() };
        environment::build(&self.node.api, &self.pod, spec, &addresses, &injected.env)
            .map_err(|error| ("CreateContainerConfigError", error.to_string()))
    }

    /// Containers that ended and wait for their next start say so.
    fn back_off(&mut self) {
        let now = self.node.clock.now();
        let policy = RestartPolicy::of(&self.pod);
        let list: Vec<Which> = self.runtime.all().map(|(which, _)| which).collect();
        let (name, namespace, uid) = (self.text("name"), self.text("namespace"), self.text("uid"));
        for which in list {
            let Some(container) = self.runtime.get_mut(which) else { continue };
            let ContainerState::Ended(ended) = &container.state else { continue };
            let waits = container.not_before().is_some_and(|at| at > now);
            let restarts = policy.restarts(ended.code) || matches!(which, Which::Init(_)) && policy != RestartPolicy::Never;
            if !waits || !restarts {
                continue;
            }
            let seconds = container.backoff.unwrap_or_default().as_secs();
            let wait = if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) };
            let container_name = container.name.clone();
            container.last = Some(ended.clone());
            container.state = ContainerState::Waiting {
                reason: "CrashLoopBackOff".to_owned(),
                message: format!("back-off {wait} restarting failed container={container_name} pod={name}_{namespace}({uid})"),
            };
            let message = format!("Back-off restarting failed container {container_name} in pod {name}_{namespace}({uid})");
            self.event(which, Warning, "BackOff", &message);
        }
    }

    /// Takes the pod down: ends its containers within their grace, gives its claims up, and says that it is over.
    async fn stop(&mut self, over: bool) -> Outcome {
        if !over {
            let running: Vec<Which> = self.runtime.all().filter(|(_, c)| c.running()).map(|(which, _)| which).collect();
            for which in &running {
                let name = self.runtime.get(*which).map(|c| c.name.clone()).unwrap_or_default();
                self.event(*which, Normal, "Killing", &format!("Stopping container {name}"));
            }
            self.write(Stage::Live);
            if self.end_processes().await == Outcome::Shutdown {
                return Outcome::Shutdown;
            }
        }
        // After the containers and before the status: the claim is taken back as soon as the pod is over.
        let (uid, namespace) = (self.uid().to_owned(), self.text("namespace"));
        while let Err(error) = self.node.claims.unprepare(&uid, &namespace).await {
            tracing::debug!(pod = uid, %error, "unprepare dynamic resources");
            let until = self.after(RETRY);
            loop {
                match self.happens(Some(until)).await {
                    Happened::Shutdown => return Outcome::Shutdown,
                    Happened::Time => break,
                    Happened::Changed(_) | Happened::Ended => {}
                }
            }
        }
        if !over {
            if self.runtime.sandbox == Sandbox::Ready {
                self.runtime.sandbox = Sandbox::Stopped;
            }
            self.write(Stage::Over);
        }
        Outcome::End
    }

    async fn end_processes(&mut self) -> Outcome {
        self.processes.terminate();
        let began = self.node.clock.now();
        while !self.processes.is_empty() {
            // A second, shorter deletion shortens the grace.
            let grace =
                if self.gone { 0 } else { self.pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_else(|| self.grace()) };
            let grace = jiff::SignedDuration::from_secs(grace.clamp(LEAST_GRACE, i64::from(i32::MAX)));
            let until = began.checked_add(grace).unwrap_or(Timestamp::MAX);
            let killed = self.node.clock.now() >= until;
            if killed {
                self.processes.kill();
            }
            // What was killed ends without a further look at the clock.
            if matches!(self.happens((!killed).then_some(until)).await, Happened::Shutdown) {
                return Outcome::Shutdown;
            }
        }
        Outcome::End
    }

    fn grace(&self) -> i64 {
        self.pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30)
    }

    /// Waits for something to happen and takes note of it.
    async fn happens(&mut self, until: Option<Timestamp>) -> Happened {
        let clock = Arc::clone(&self.node.clock);
        let wait = async move {
            match until {
                Some(until) => {
                    let delay = until.duration_since(clock.now());
                    clock.sleep(Duration::try_from(delay).unwrap_or_default()).await;
                }
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            biased;
            () = self.node.shutdown.cancelled() => return Happened::Shutdown,
            Some((which, code)) = self.processes.ended() => {
                self.ended(which, code);
                return Happened::Ended;
            }
            // The sender goes when the pod's object has gone: then there is nothing more to hear.
            Some(event) = self.updates.recv() => event,
            () = wait => return Happened::Time,
        };
        Happened::Changed(self.take(event))
    }

    /// Takes note of a change of the pod; true when it is one that the kubelet syncs for.
    fn take(&mut self, event: PodEvent) -> bool {
        match event {
            PodEvent::Gone(pod) => {
                self.pod = pod;
                self.gone = true;
                true
            }
            PodEvent::Present(pod) => {
                let same = |path: &str| pod.pointer(path) == self.pod.pointer(path);
                let differs = !(same("/spec")
                    && same("/metadata/labels")
                    && same("/metadata/annotations")
                    && same("/metadata/deletionTimestamp")
                    && same("/metadata/deletionGracePeriodSeconds"));
                self.pod = pod;
                differs
            }
        }
    }

    fn ended(&mut self, which: Which, code: i32) {
        let now = self.node.clock.now();
        let Some(container) = self.runtime.get_mut(which) else { return };
        let started = match container.state {
            ContainerState::Running(since) => Some(since),
            _ => None,
        };
        let reason = if code == 0 { "Completed" } else { "Error" };
        let id = container.id.clone();
        container.state =
            ContainerState::Ended(Ended { code, reason: reason.to_owned(), message: String::new(), started, finished: Some(now), id });
        let name = container.name.clone();
        self.node.logs.end(self.uid(), &name);
    }

    fn spec(&self, which: Which) -> Option<&Value> {
        match which {
            Which::Init(index) => self.pod["spec"]["initContainers"].get(index),
            Which::Main(index) => self.pod["spec"]["containers"].get(index),
        }
    }

    fn deleting(&self) -> bool {
        self.gone || !self.pod["metadata"]["deletionTimestamp"].is_null()
    }

    fn after(&self, delay: Duration) -> Timestamp {
        self.node.clock.now().checked_add(delay).unwrap_or(Timestamp::MAX)
    }

    pub(super) fn uid(&self) -> &str {
        self.pod["metadata"]["uid"].as_str().unwrap_or_default()
    }

    pub(super) fn text(&self, field: &str) -> String {
        self.pod["metadata"][field].as_str().unwrap_or_default().to_owned()
    }
}
