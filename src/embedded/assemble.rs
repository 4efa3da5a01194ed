//! The embedded cluster put together: the API on its store, HTTPS on loopback, controllers, scheduler, a node agent for
//! each node and a driver for each worker. Every part is a task that the cluster owns and awaits.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::base::clock::SharedClock;
use crate::driver::{self, DriverConfig, Folders, Profile};
use crate::embedded::api::Api;
use crate::embedded::controllers::Controllers;
use crate::embedded::http::{self, Certificate, Server, ServerError};
use crate::embedded::store::Store;

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
    parts: Vec<JoinHandle<()>>,
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
        let controllers = Controllers::start_with_root_ca(&api, &clock, certificate.authority_pem(), &stop_parts);
        let mut parts = vec![tokio::spawn(controllers.join())];
        for worker in &config.workers {
            let folders = Folders { plugins: worker.plugins.clone(), registry: worker.registry.clone(), cdi: worker.cdi.clone() };
            let mut driver = DriverConfig::simulated(&config.profile, &worker.name, config.gpus, folders);
            driver.state_dir = Some(worker.state.join("driver"));
            let (client, clock, stop, node) = (http::client(&api), clock.clone(), stop_parts.clone(), worker.name.clone());
            parts.push(tokio::spawn(async move {
                if let Err(error) = driver::run(driver, client, clock, stop).await {
                    tracing::error!(error = %Chain(&error), node, "the driver ended");
                }
            }));
        }
        Ok(Cluster { api, server: url, kubeconfig, stop_serving, stop_parts, serving, parts })
    }

    /// Ends it in order: drivers, agents, scheduler and controllers first, then the server, then the store.
    pub async fn stop(self) {
        self.stop_parts.cancel();
        for part in self.parts {
            if let Err(error) = part.await {
                tracing::error!(%error, "a part of the cluster did not end well");
            }
        }
        self.stop_serving.cancel();
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "the server did not end well");
        }
        self.api.store().close();
    }
}

/// An error with its causes in one line.
struct Chain<'e>(&'e dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            write!(f, ": {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}
