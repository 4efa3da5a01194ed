//! The embedded cluster put together: the API on its store, HTTPS on loopback, controllers, scheduler, a node agent for
//! each node and a driver for each worker. Every part is a task that the cluster owns and awaits.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::base::clock::SharedClock;
use crate::base::failure::Chain;
use crate::driver::{self, DriverConfig, DriverError, Folders, Profile};
use crate::embedded::api::resource::NODES;
use crate::embedded::api::{Api, Caller, DeleteOptions, Status};
use crate::embedded::controllers::Controllers;
use crate::embedded::http::{self, Certificate, Server, ServerError};
use crate::embedded::node::folders::FolderError;
use crate::embedded::node::pod::release::RELEASE_BOUND;
use crate::embedded::node::{self, NodeAgent, NodeError, NodeServices};
use crate::embedded::scheduler::{BINDING_PAUSE, Scheduler};
use crate::embedded::store::Store;
use crate::model::features::Features;

/// The label on nodes that a lab runs; nodes made through the API by others are left alone.
pub const RUN_BY_LABEL: &str = "dralab.dev/run-by";

/// What a cluster is made of.
#[derive(Debug)]
pub struct ClusterConfig {
    /// The lab's name: that of the cluster, user and context in the kubeconfig.
    pub lab: String,
    /// The control-plane node.
    pub control_plane: NodeConfig,
    /// The workers, each with a driver.
    pub workers: Vec<NodeConfig>,
    /// Device profile of the workers.
    pub profile: Profile,
    /// GPUs per worker; `None`: as the profile says.
    pub gpus: Option<u32>,
    /// Port on 127.0.0.1; 0: any free one.
    pub port: u16,
    /// The bearer token.
    pub token: String,
}

/// A node and its folders.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Its name.
    pub name: String,
    /// The plugin registration folder.
    pub registry: PathBuf,
    /// Sockets of drivers.
    pub plugins: PathBuf,
    /// CDI specs.
    pub cdi: PathBuf,
    /// Checkpoints of the agent and of the driver.
    pub state: PathBuf,
}

/// The cluster could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// TLS.
    #[error(transparent)]
    Certificate(#[from] http::CertificateError),
    /// A node agent.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The watcher of folders.
    #[error(transparent)]
    Folders(#[from] FolderError),
    /// The driver of a node cannot begin.
    #[error("the driver of node {node} cannot begin: {}", Chain(source))]
    Driver {
        /// The node.
        node: String,
        /// Why.
        source: DriverError,
    },
    /// The API refused what the lab itself needs.
    #[error("the lab's own API refused a request: {0}")]
    Api(Status),
}

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    /// The API.
    pub api: Api,
    /// The server's URL.
    pub server: String,
    /// The text of the kubeconfig.
    pub kubeconfig: String,
    stop_serving: CancellationToken,
    stop_parts: CancellationToken,
    serving: JoinHandle<()>,
    drivers: Vec<JoinHandle<()>>,
    agents: Vec<NodeAgent>,
    services: NodeServices,
    scheduler: Scheduler,
    controllers: Controllers,
}

impl Cluster {
    /// Starts everything.
    ///
    /// # Errors
    /// When the port is taken or TLS cannot be set up.
    pub async fn start(config: ClusterConfig, store: Store, clock: SharedClock) -> Result<Self, AssembleError> {
        let api = Api::new(store, clock.clone());
        let certificate = Certificate::generate()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, config.port));
        let server = Server::bind(&api, &certificate, &config.token, address).await?;
        let url = server.url();
        let kubeconfig = http::kubeconfig(&config.lab, &url, certificate.authority_pem(), &config.token, "");
        let (stop_serving, stop_parts) = (CancellationToken::new(), CancellationToken::new());
        let serving = tokio::spawn(server.run(stop_serving.clone()));
        remove_other_nodes(&api, &config).map_err(AssembleError::Api)?;
        let controllers = Controllers::start_with_root_ca(&api, &clock, certificate.authority_pem(), &stop_parts);
        let scheduler = Scheduler::start(api.clone(), clock.clone(), Features::latest(), BINDING_PAUSE, stop_parts.clone());
        let services = NodeServices::start(&api, stop_parts.clone())?;
        let nodes = std::iter::once((&config.control_plane, true)).chain(config.workers.iter().map(|w| (w, false)));
        let mut agents = Vec::new();
        for (index, (node, control_plane)) in nodes.enumerate() {
            let agent = agent_config(node, index, control_plane);
            agents.push(NodeAgent::start_shared(agent, api.clone(), api.logs().clone(), clock.clone(), &services, &stop_parts)?);
        }
        let mut drivers = Vec::new();
        let mut beginning = Vec::new();
        for worker in &config.workers {
            let folders = Folders { plugins: worker.plugins.clone(), registry: worker.registry.clone(), cdi: worker.cdi.clone() };
            let mut driver = DriverConfig::simulated(&config.profile, &worker.name, config.gpus, folders);
            driver.state_dir = Some(worker.state.join("driver"));
            let (client, clock, stop, node) = (http::client(&api), clock.clone(), stop_parts.clone(), worker.name.clone());
            let status = driver.status.subscribe();
            let (failed, failure) = oneshot::channel();
            drivers.push(tokio::spawn(async move {
                if let Err(error) = driver::run(driver, client, clock, stop).await {
                    tracing::error!(error = %Chain(&error), node, "the driver ended");
                    // After the start nobody listens any more: then the log has it.
                    let _ = failed.send(error);
                }
            }));
            beginning.push((worker.name.clone(), status, failure));
        }
        for (node, mut status, mut failure) in beginning {
            tokio::select! {
                Ok(source) = &mut failure => return Err(AssembleError::Driver { node, source }),
                serving = status.wait_for(|status| status.serving) => {
                    // A driver that is gone without serving has said why.
                    if serving.is_err() && let Ok(source) = failure.await {
                        return Err(AssembleError::Driver { node, source });
                    }
                }
            }
        }
        Ok(Cluster { api, server: url, kubeconfig, stop_serving, stop_parts, serving, drivers, agents, services, scheduler, controllers })
    }

    /// Ends it in order: drivers, agents, scheduler and controllers first, then the server, then the store.
    pub async fn stop(self) {
        self.stop_parts.cancel();
        for driver in self.drivers {
            if let Err(error) = driver.await {
                tracing::error!(%error, "a driver did not end well");
            }
        }
        for agent in self.agents {
            agent.join().await;
        }
        self.services.join().await;
        self.scheduler.join().await;
        self.controllers.join().await;
        self.stop_serving.cancel();
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "the server did not end well");
        }
        self.api.store().close();
    }
}

fn agent_config(config: &NodeConfig, index: usize, control_plane: bool) -> node::NodeConfig {
    node::NodeConfig {
        name: config.name.clone(),
        index: u16::try_from(index).unwrap_or(u16::MAX),
        control_plane,
        labels: [(RUN_BY_LABEL.to_owned(), "dralab".to_owned())].into(),
        registry_dir: config.registry.clone(),
        plugins_dir: config.plugins.clone(),
        cdi_dir: config.cdi.clone(),
        state_dir: config.state.join("agent"),
        release_bound: RELEASE_BOUND,
    }
}

/// A lab that is resumed with fewer nodes: what it ran before and does not run now is deleted; its slices and pods follow their owner.
fn remove_other_nodes(api: &Api, config: &ClusterConfig) -> Result<(), Status> {
    let wanted: BTreeSet<&str> = std::iter::once(&config.control_plane).chain(&config.workers).map(|n| n.name.as_str()).collect();
    for node in api.list(&NODES, "")?.items {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        if node["metadata"]["labels"][RUN_BY_LABEL].is_string() && !wanted.contains(name) {
            api.delete(&Caller::component("kube-controller-manager"), &NODES, "", name, &DeleteOptions::default())?;
        }
    }
    Ok(())
}
