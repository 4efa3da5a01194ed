//! An agent: registers its node, its drivers and runs the pods that are bound to it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::dra::{CheckpointError, Claims};
use super::feed::{PodEvent, PodFeed};
use super::folders::{FolderError, Folders};
use super::object::NodeIdentity;
use super::plugins::Plugins;
use super::pod::{RETRY, Worker};
use crate::base::clock::SharedClock;
use crate::embedded::api::{Api, Caller, Status};
use crate::embedded::events::Recorder;
use crate::embedded::logs::Logs;
use crate::embedded::node::pod::release::RELEASE_BOUND;

/// What an agent is started with.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The node's name.
    pub name: String,
    /// Its number in the lab, from 0; addresses derive from it.
    pub index: u16,
    /// Role label and taint of a control-plane node.
    pub control_plane: bool,
    /// Further labels of the Node object.
    pub labels: BTreeMap<String, String>,
    /// Where drivers put their registration sockets (a kubelet's `plugins_registry`).
    pub registry_dir: PathBuf,
    /// Where drivers put their service sockets (a kubelet's `plugins`). The agent only sees to it that it exists.
    pub plugins_dir: PathBuf,
    /// Where drivers put CDI specs (`/var/run/cdi` on a node).
    pub cdi_dir: PathBuf,
    /// Where the agent keeps its checkpoint.
    pub state_dir: PathBuf,
    /// How long the object of a pod that has ended may wait for the claim controller to give its reservations back.
    pub release_bound: Duration,
}

impl NodeConfig {
    /// A worker whose folders are all below `root`, named as a kubelet names them. Sockets have short path limits:
    /// `root` must be short.
    #[must_use]
    pub fn new(name: &str, index: u16, root: &Path) -> Self {
        NodeConfig {
            name: name.to_owned(),
            index,
            control_plane: false,
            labels: BTreeMap::new(),
            registry_dir: root.join("plugins_registry"),
            plugins_dir: root.join("plugins"),
            cdi_dir: root.join("cdi"),
            state_dir: root.join("state"),
            release_bound: RELEASE_BOUND,
        }
    }
}

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// One of its folders cannot be made.
    #[error("cannot make folder {}", .folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The registration folder cannot be watched.
    #[error(transparent)]
    Watch(#[from] FolderError),
    /// Its checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The API refuses its node or its requests.
    #[error("the API refuses the node agent of {node}")]
    Api {
        /// The node.
        node: String,
        /// What it says.
        source: Box<Status>,
    },
}

/// What all agents of a process share: one watch of pods and one watcher of folders.
#[derive(Debug)]
pub struct NodeServices {
    feed: PodFeed,
    folders: Folders,
    task: JoinHandle<()>,
}

impl NodeServices {
    /// Starts them; they end after `shutdown`.
    ///
    /// # Errors
    /// The operating system gives no watcher of folders.
    pub fn start(api: &Api, shutdown: CancellationToken) -> Result<Self, FolderError> {
        let folders = Folders::new()?;
        let (feed, task) = PodFeed::start(api.clone(), shutdown);
        Ok(NodeServices { feed, folders, task })
    }

    /// Waits for the end after `shutdown`.
    pub async fn join(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the watch of pods has failed");
        }
    }
}

/// What the parts of one agent share.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) api: Api,
    pub(super) caller: Caller,
    pub(super) recorder: Recorder,
    pub(super) logs: Logs,
    pub(super) clock: SharedClock,
    pub(super) claims: Claims,
    pub(super) cdi_dir: PathBuf,
    pub(super) release_bound: Duration,
    /// The node's own address.
    pub(super) address: String,
    pub(super) shutdown: CancellationToken,
    identity: NodeIdentity,
    /// Addresses of pods, by their last number, with the pod's uid.
    addresses: Mutex<BTreeMap<u8, String>>,
}

impl Node {
    /// An address for a pod: the lowest that is free.
    pub(super) fn take_address(&self, uid: &str) -> String {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (2..=254).find(|number| !addresses.contains_key(number)).unwrap_or(255);
        addresses.insert(number, uid.to_owned());
        self.identity.pod_address(number)
    }

    /// Notes the address that a pod has from an earlier life of the agent.
    pub(super) fn keep_address(&self, uid: &str, address: &str) {
        if let Some(number) = address.rsplit('.').next().and_then(|number| number.parse().ok()).filter(|_| address != self.address) {
            self.addresses.lock().unwrap_or_else(PoisonError::into_inner).insert(number, uid.to_owned());
        }
    }

    /// Gives a pod's address back.
    pub(super) fn release_address(&self, uid: &str) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, holder| holder != uid);
    }
}

/// A running agent.
#[derive(Debug)]
pub struct NodeAgent {
    name: String,
    tasks: TaskTracker,
    plugins: Plugins,
    stop: CancellationToken,
    own_services: Option<NodeServices>,
    folders: Folders,
    registry_dir: PathBuf,
}

impl NodeAgent {
    /// Starts an agent with a watch of its own. The Node object is there when this returns, and the slices of a
    /// former life are gone, as a kubelet has it (its drivers publish again).
    ///
    /// # Errors
    /// Its folders, its checkpoint or its node are refused.
    pub fn start(config: NodeConfig, api: Api, logs: Logs, clock: SharedClock, shutdown: &CancellationToken) -> Result<Self, NodeError> {
        let stop = shutdown.child_token();
        let services = NodeServices::start(&api, stop.clone())?;
        let mut agent = Self::start_shared(config, api, logs, clock, &services, &stop)?;
        agent.stop = stop;
        agent.own_services = Some(services);
        Ok(agent)
    }

    /// Starts an agent that shares `services` with others, which makes hundreds of them cheap.
    ///
    /// # Errors
    /// As [`NodeAgent::start`].
    pub fn start_shared(
        config: NodeConfig,
        api: Api,
        logs: Logs,
        clock: SharedClock,
        services: &NodeServices,
        shutdown: &CancellationToken,
    ) -> Result<Self, NodeError> {
        for folder in [&config.registry_dir, &config.plugins_dir, &config.cdi_dir, &config.state_dir] {
            std::fs::create_dir_all(folder).map_err(|source| NodeError::Folder { folder: folder.clone(), source })?;
        }
        let identity = NodeIdentity {
            name: config.name.clone(),
            index: config.index,
            control_plane: config.control_plane,
            labels: config.labels.clone(),
        };
        let refused = |source: Status| NodeError::Api { node: config.name.clone(), source: Box::new(source) };
        identity.register(&api).map_err(refused)?;
        let caller = identity.caller();
        let stop = shutdown.child_token();
        let tasks = TaskTracker::new();
        let plugins = Plugins::new(&config.name, api.clone(), caller.clone(), Arc::clone(&clock), tasks.clone(), stop.clone());
        plugins.wipe(None).map_err(refused)?;
        let claims = Claims::open(api.clone(), plugins.clone(), &config.state_dir)?;
        // Watched before it is read for the first time: nothing is missed.
        let changes = services.folders.watch(&config.registry_dir)?;
        tasks.spawn(plugins.clone().follow(config.registry_dir.clone(), changes));
        let node = Arc::new(Node {
            recorder: Recorder::new(api.clone(), Arc::clone(&clock), caller.clone(), "kubelet", &config.name),
            api,
            caller,
            logs,
            clock,
            claims,
            cdi_dir: config.cdi_dir,
            release_bound: config.release_bound,
            address: identity.address(),
            shutdown: stop.clone(),
            identity,
            addresses: Mutex::default(),
        });
        tasks.spawn(follow_pods(Arc::clone(&node), services.feed.subscribe(&config.name), tasks.clone()));
        Ok(NodeAgent {
            name: config.name,
            tasks,
            plugins,
            stop,
            own_services: None,
            folders: services.folders.clone(),
            registry_dir: config.registry_dir,
        })
    }

    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The drivers of the node.
    #[must_use]
    pub fn plugins(&self) -> &Plugins {
        &self.plugins
    }

    /// Tells the agent to stop, as if the node were switched off; pods stay as the API has them.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until everything that the agent started has ended, after its shutdown or [`NodeAgent::stop`].
    pub async fn join(self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.folders.forget(&self.registry_dir);
        if let Some(services) = self.own_services {
            services.join().await;
        }
    }
}

/// Gives each pod of the node a worker.
async fn follow_pods(node: Arc<Node>, mut events: UnboundedReceiver<PodEvent>, tasks: TaskTracker) {
    let mut workers: HashMap<String, UnboundedSender<PodEvent>> = HashMap::new();
    let mut first = true;
    loop {
        if first && events.is_empty() {
            // All pods that were there have workers: what else has claims here is gone.
            first = false;
            for (uid, namespace) in node.claims.pods() {
                if !workers.contains_key(&uid) {
                    tasks.spawn(give_up_claims(Arc::clone(&node), uid, namespace));
                }
            }
        }
        let event = tokio::select! {
            () = node.shutdown.cancelled() => return,
            event = events.recv() => event,
        };
        match event {
            None => return,
            Some(PodEvent::Present(pod)) => {
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                if let Some(worker) = workers.get(&uid) {
                    // A worker that has ended has seen the end of its pod.
                    let _ = worker.send(PodEvent::Present(pod));
                } else {
                    let (sender, updates) = unbounded_channel();
                    tasks.spawn(Worker::new(Arc::clone(&node), pod, updates).run());
                    workers.insert(uid, sender);
                }
            }
            Some(PodEvent::Gone(pod)) => {
                if let Some(worker) = workers.remove(pod["metadata"]["uid"].as_str().unwrap_or_default()) {
                    let _ = worker.send(PodEvent::Gone(pod));
                }
            }
        }
    }
}

/// Gives up the claims of a pod that went while the agent was away.
async fn give_up_claims(node: Arc<Node>, uid: String, namespace: String) {
    while let Err(error) = node.claims.unprepare(&uid, &namespace).await {
        tracing::debug!(pod = uid, %error, "unprepare dynamic resources of a pod that is gone");
        tokio::select! {
            () = node.shutdown.cancelled() => return,
            () = node.clock.sleep(RETRY) => {}
        }
    }
}
