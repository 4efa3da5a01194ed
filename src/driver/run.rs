//! One driver from start to end: the order in which its parts come up and go down.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use kube::Client;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::server::Router;
use tonic::transport::{Endpoint, Server, Uri};

use super::config::DriverConfig;
use super::error::DriverError;
use super::files;
use super::grpc::proto::dra_v1::NodePrepareResourcesRequest;
use super::grpc::proto::dra_v1::dra_plugin_client::DraPluginClient;
use super::grpc::proto::dra_v1::dra_plugin_server::DraPluginServer as DraV1Server;
use super::grpc::proto::dra_v1beta1::dra_plugin_server::DraPluginServer as DraV1beta1Server;
use super::grpc::proto::pluginregistration_v1::registration_server::RegistrationServer;
use super::grpc::{PluginService, RegistrationService, Socket};
use super::inventory::Inventory;
use super::prepare::{Place, Preparer};
use super::publish::{PoolIdentity, Publisher};
use crate::base::clock::SharedClock;

/// Folders that the driver makes itself; the kubelet's are there before.
const FOLDER_MODE: u32 = 0o700;

/// How long requests that have begun may take when the driver ends.
const GRACE: Duration = Duration::from_secs(5);

/// Runs a driver until `shutdown` is cancelled. Published slices stay then, as a restart is the usual reason; the
/// kubelet removes them if the driver does not come back. Several drivers can run in one process.
///
/// # Errors
/// What somebody has to act on: see [`DriverError`]. An API server that cannot be reached is none of it.
pub async fn run(config: DriverConfig, client: Client, clock: SharedClock, shutdown: CancellationToken) -> Result<(), DriverError> {
    config.check()?;
    let kind = config.cdi_kind()?;
    let (dra_path, registration_path, checkpoint_dir) = (config.dra_socket(), config.registration_socket(), config.checkpoint_dir());
    for folder in [&config.data_dir(), &config.registry_dir, &checkpoint_dir] {
        files::create_folder(folder, FOLDER_MODE).map_err(|source| DriverError::Folder { path: folder.clone(), source })?;
    }
    let status = config.status.clone();
    let inventory: Arc<dyn Inventory> = Arc::from(config.inventory);

    // The socket first: it tells whether another process is this driver, before the checkpoint is touched.
    let (listener, dra_socket) = Socket::bind(&dra_path).await?;
    let place = Place {
        driver: &config.driver_name,
        node: &config.node_name,
        pool: &config.pool_name,
        kind,
        state_dir: &checkpoint_dir,
        cdi_dir: &config.cdi_dir,
    };
    let preparer = Arc::new(Preparer::open(&place, Arc::clone(&inventory), client.clone(), Arc::clone(&clock))?);
    let plugin = PluginService::new(preparer);
    let dra = Server::builder().add_service(DraV1Server::new(plugin.clone())).add_service(DraV1beta1Server::new(plugin));

    // Ends all tasks of this driver, also when one of them fails.
    let stop = shutdown.child_token();
    let guard = stop.clone().drop_guard();
    let mut tasks = Tasks { stop: stop.clone(), _guard: guard, clock: Arc::clone(&clock), servers: Vec::new(), publisher: None };
    tasks.serve("the DRA plugin API", dra, listener);

    let started = async {
        require_answer(&dra_path).await?;
        status.send_modify(|status| status.serving = true);
        let (listener, socket) = Socket::bind(&registration_path).await?;
        let registration = RegistrationService::new(&config.driver_name, &dra_path, status.clone());
        tasks.serve("plugin registration", Server::builder().add_service(RegistrationServer::new(registration)), listener);
        if config.publish {
            let pool = PoolIdentity {
                driver: config.driver_name.clone(),
                node: config.node_name.clone(),
                pool: config.pool_name.clone(),
                names: config.slice_names,
            };
            let publisher = Publisher::new(pool, inventory, client, clock, status.clone());
            tasks.publisher = Some(tokio::spawn(publisher.run(stop)));
        }
        Ok::<_, DriverError>(socket)
    };
    let outcome = match started.await {
        Ok(registration_socket) => {
            let outcome = tasks.first_end().await;
            // The kubelet stops using the driver when this file goes, before the DRA socket stops answering.
            drop(registration_socket);
            drop(dra_socket);
            outcome
        }
        Err(error) => {
            drop(dra_socket);
            Err(error)
        }
    };
    let rest = tasks.end().await;
    status.send_modify(|status| status.serving = false);
    outcome.and(rest)
}

type Ended = (&'static str, Result<(), tonic::transport::Error>);

/// The tasks of one driver; each is awaited.
struct Tasks {
    stop: CancellationToken,
    /// Stops them also when [`run`] itself is given up.
    _guard: DropGuard,
    clock: SharedClock,
    servers: Vec<JoinHandle<Ended>>,
    publisher: Option<JoinHandle<()>>,
}

impl Tasks {
    fn serve(&mut self, what: &'static str, router: Router, listener: UnixListener) {
        let stop = self.stop.clone();
        let serving = router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), async move { stop.cancelled().await });
        self.servers.push(tokio::spawn(async move { (what, serving.await) }));
    }

    /// Waits for the order to stop, or for a task that ends without it.
    async fn first_end(&mut self) -> Result<(), DriverError> {
        let publisher = async {
            match &mut self.publisher {
                Some(publisher) => publisher.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.stop.cancelled() => Ok(()),
            ended = publisher => {
                self.publisher = None;
                Ok(ended?)
            }
            (ended, at, _) = futures::future::select_all(self.servers.iter_mut()) => {
                drop(self.servers.remove(at));
                finished(ended)
            }
        }
    }

    /// Stops what still runs and waits for it, servers for [`GRACE`] at most.
    async fn end(mut self) -> Result<(), DriverError> {
        self.stop.cancel();
        let mut outcome = Ok(());
        if let Some(publisher) = self.publisher {
            outcome = publisher.await.map_err(DriverError::from);
        }
        let ended = tokio::select! {
            ended = futures::future::join_all(self.servers.iter_mut()) => ended,
            () = self.clock.sleep(GRACE) => {
                for server in &self.servers {
                    server.abort();
                }
                // An aborted task says only that it was aborted, which is no failure here.
                let ended = futures::future::join_all(self.servers.iter_mut()).await;
                ended.into_iter().filter(|ended| !ended.as_ref().is_err_and(tokio::task::JoinError::is_cancelled)).collect()
            }
        };
        for server in ended {
            outcome = outcome.and(finished(server));
        }
        outcome
    }
}

fn finished(ended: Result<Ended, tokio::task::JoinError>) -> Result<(), DriverError> {
    let (what, served) = ended?;
    served.map_err(|source| DriverError::Serve { what, source })
}

/// Registration promises that the DRA socket answers: asks it to prepare nothing.
async fn require_answer(path: &Path) -> Result<(), DriverError> {
    let failed = |reason: String| DriverError::NotAnswering { path: path.to_path_buf(), reason };
    let target = path.to_path_buf();
    // The address is not used: the connector goes to the socket.
    let connector = tower::service_fn(move |_: Uri| {
        let target = target.clone();
        async move { UnixStream::connect(target).await.map(TokioIo::new) }
    });
    let channel =
        Endpoint::from_static("http://localhost").connect_with_connector(connector).await.map_err(|error| failed(error.to_string()))?;
    let request = NodePrepareResourcesRequest { claims: Vec::new() };
    DraPluginClient::new(channel).node_prepare_resources(request).await.map_err(|status| failed(status.to_string()))?;
    Ok(())
}
