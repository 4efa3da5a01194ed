//! One driver from start to end: the order in which its parts come up and go down.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Server;

use super::config::DriverConfig;
use super::current::Current;
use super::error::DriverError;
use super::files;
use super::grpc::proto::dra_health_v1::dra_resource_health_server::DraResourceHealthServer as HealthV1Server;
use super::grpc::proto::dra_health_v1alpha1::dra_resource_health_server::DraResourceHealthServer as HealthV1alpha1Server;
use super::grpc::proto::dra_v1::dra_plugin_server::DraPluginServer as DraV1Server;
use super::grpc::proto::dra_v1beta1::dra_plugin_server::DraPluginServer as DraV1beta1Server;
use super::grpc::proto::pluginregistration_v1::registration_server::RegistrationServer;
use super::grpc::{HealthService, PluginService, RegistrationService, Socket, SocketError, remove_leftovers};
use super::inventory::told;
use super::lock::LockFile;
use super::prepare::{Place, Preparer};
use super::probes::Probes;
use super::publish::{PoolIdentity, Publisher};
use super::report::Reporter;
use super::served::{FOLDER_MODE, Served};
use super::status::{DriverStatus, Part, Registered, trouble, well};
use crate::base::clock::SharedClock;

/// How long requests that have begun may take when the driver ends.
const GRACE: Duration = Duration::from_secs(5);
/// How often the driver looks whether its sockets and CDI specs are still there.
const LOOK: Duration = Duration::from_millis(500);
/// After this without a word from a kubelet it is likely to look into another folder.
const SILENCE: Duration = Duration::from_secs(30);

/// Runs a driver until `shutdown` is cancelled. Published slices stay then, as a restart is the usual reason; the
/// kubelet removes them if the driver does not come back. Several drivers can run in one process.
///
/// # Errors
/// What somebody has to act on: see [`DriverError`]. An API server that cannot be reached is none of it.
pub async fn run(config: DriverConfig, client: Client, clock: SharedClock, shutdown: CancellationToken) -> Result<(), DriverError> {
    config.check()?;
    let kind = config.cdi_kind()?;
    let (dra_path, registration_path) = (config.dra_socket(), config.registration_socket());
    let (data_dir, checkpoint_dir) = (config.data_dir(), config.checkpoint_dir());
    for folder in [&data_dir, &config.registry_dir, &checkpoint_dir] {
        files::create_folder(folder, FOLDER_MODE).map_err(|source| DriverError::Folder { path: folder.clone(), source })?;
    }
    let status = config.status.clone();
    let stop = shutdown.child_token();
    let mut tasks = Tasks::new(stop.clone(), Arc::clone(&clock));
    if let Some(address) = config.health_address {
        let probes = Probes::bind(address, dra_path.clone(), config.publish, status.subscribe(), Arc::clone(&clock)).await?;
        tasks.spawn(probes.run());
    }

    // Other instances are kept out until sockets, checkpoint and CDI specs are as they should be.
    let held = LockFile::new(&checkpoint_dir).acquire(&clock).await?;
    let instance = config.instance();
    remove_leftovers(&data_dir, |name| name.ends_with(".sock"));
    remove_leftovers(&config.registry_dir, |name| instance.is_registration_of_driver(name));
    let (inventory, health_file) = told(config.inventory, &data_dir, Arc::clone(&clock), status.clone());
    let reports = config.device_status.then(|| {
        let (reports, reporter) =
            Reporter::new(&config.driver_name, Arc::clone(&inventory), client.clone(), Arc::clone(&clock), status.clone());
        tasks.spawn(reporter.run());
        reports
    });
    let place = Place {
        driver: &config.driver_name,
        node: &config.node_name,
        pool: &config.pool_name,
        kind,
        common_first: config.common_cdi_device_first,
        state_dir: &checkpoint_dir,
        cdi_dir: &config.cdi_dir,
        reports,
    };
    // The socket first: it tells whether another process is this driver, before the checkpoint is touched.
    let bound = Socket::bind(&dra_path).await?;
    let preparer = Arc::new(Preparer::open(&place, Arc::clone(&inventory), client.clone(), Arc::clone(&clock))?);
    let plugin = PluginService::new(Arc::clone(&preparer));
    let health = HealthService::new(&config.pool_name, Arc::clone(&inventory), Arc::clone(&clock), stop.clone());
    let dra = Server::builder()
        .add_service(DraV1Server::new(plugin.clone()))
        .add_service(DraV1beta1Server::new(plugin))
        .add_service(HealthV1Server::new(health.clone()))
        .add_service(HealthV1alpha1Server::new(health));
    tasks.served.push(Served::new("the DRA plugin API", dra_path.clone(), dra, bound, &stop));
    drop(held);

    let started = async {
        require_answer(&dra_path).await?;
        status.send_modify(|status| status.serving = true);
        tasks.spawn(health_file.run());
        tasks.spawn(tend(preparer, Arc::clone(&clock), status.clone()));
        let current = config.pod_uid.as_ref().map(|_| Current::new(&data_dir, &dra_path));
        if let Some(current) = &current {
            current.take_over();
        }
        let bound = Socket::bind(&registration_path).await?;
        let registration = RegistrationService::new(&config.driver_name, &dra_path, status.clone());
        let registration = Server::builder().add_service(RegistrationServer::new(registration));
        tasks.served.push(Served::new("plugin registration", registration_path.clone(), registration, bound, &stop));
        if config.publish {
            let pool = PoolIdentity {
                driver: config.driver_name.clone(),
                node: config.node_name.clone(),
                pool: config.pool_name.clone(),
                names: config.slice_names,
            };
            let publisher = Publisher::new(pool, inventory, client, Arc::clone(&clock), status.clone()).among(current);
            tasks.spawn(publisher.run(stop));
        }
        tasks.until_told_or_failed(&status, &registration_path).await
    };
    let outcome = started.await;
    // The kubelet stops using the driver when its registration socket goes, before the DRA socket stops answering.
    tasks.served.iter_mut().rev().for_each(Served::hide);
    let rest = tasks.end().await;
    status.send_modify(|status| status.serving = false);
    outcome.and(rest)
}

/// Keeps the CDI specs in place.
async fn tend(preparer: Arc<Preparer>, clock: SharedClock, status: watch::Sender<DriverStatus>) {
    loop {
        clock.sleep(LOOK).await;
        match preparer.tend().await {
            Ok(()) => well(&status, Part::Preparing),
            Err(error) => trouble(&status, Part::Preparing, error.to_string()),
        }
    }
}

/// The tasks of one driver; each is awaited.
struct Tasks {
    stop: CancellationToken,
    /// Stops them also when [`run`] itself is given up.
    _guard: DropGuard,
    clock: SharedClock,
    served: Vec<Served>,
    /// Those that end with `stop` and have nothing to say.
    quiet: JoinSet<()>,
}

impl Tasks {
    fn new(stop: CancellationToken, clock: SharedClock) -> Self {
        Tasks { _guard: stop.clone().drop_guard(), stop, clock, served: Vec::new(), quiet: JoinSet::new() }
    }

    /// A task that ends when it is told to stop, at whatever it waits for then.
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.quiet.spawn(async move {
            let _ = stop.run_until_cancelled(task).await;
        });
    }

    /// Waits for the order to stop, or for a task that ends without it. Restores sockets that somebody removes.
    async fn until_told_or_failed(&mut self, status: &watch::Sender<DriverStatus>, registration: &Path) -> Result<(), DriverError> {
        let mut silence = Some(self.clock.sleep(SILENCE));
        loop {
            let ended = async { futures::future::select_all(self.served.iter_mut().map(|served| Box::pin(served.ended()))).await.0 };
            let looked = tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                ended = ended => return ended,
                Some(Err(panicked)) = self.quiet.join_next() => return Err(panicked.into()),
                () = self.clock.sleep(LOOK) => false,
                () = async { match &mut silence { Some(silence) => silence.await, None => std::future::pending().await } } => true,
            };
            if looked {
                silence = None;
            }
            self.look(status, registration, silence.is_none()).await?;
        }
    }

    async fn look(&mut self, status: &watch::Sender<DriverStatus>, registration: &Path, silent: bool) -> Result<(), DriverError> {
        let mut failed = None;
        for served in &mut self.served {
            match served.restore(&self.stop).await {
                Ok(()) => {}
                // Somebody else is this driver now.
                Err(error @ SocketError::InUse { .. }) => return Err(error.into()),
                Err(error) => failed = Some(error.to_string()),
            }
        }
        let unfound = silent && status.borrow().registered == Registered::NotYet;
        if let Some(text) = failed {
            trouble(status, Part::Registration, text);
        } else if unfound {
            let text = format!(
                "no kubelet has asked at {} for {} s: is this its plugins_registry folder (--registry-dir)?",
                registration.display(),
                SILENCE.as_secs()
            );
            trouble(status, Part::Registration, text);
        } else {
            well(status, Part::Registration);
        }
        Ok(())
    }

    /// Stops what still runs and waits for it, servers for [`GRACE`] at most.
    async fn end(mut self) -> Result<(), DriverError> {
        self.stop.cancel();
        let mut outcome = Ok(());
        while let Some(ended) = self.quiet.join_next().await {
            outcome = outcome.and(ended.map_err(DriverError::from));
        }
        let over = self.clock.sleep(GRACE).shared();
        for served in self.served {
            outcome = outcome.and(served.finish(over.clone()).await);
        }
        outcome
    }
}

/// What an HTTP/2 client begins with: the preface and an empty SETTINGS frame (RFC 9113, 3.4).
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The type of the frame that a server begins with, in its fourth byte.
const SETTINGS: u8 = 4;

/// Registration promises that the DRA socket answers: greets it and waits to be greeted. By hand, because a gRPC
/// client would be the largest part of a driver that needs none.
pub(super) async fn require_answer(path: &Path) -> Result<(), DriverError> {
    let greeted = async {
        let mut stream = UnixStream::connect(path).await?;
        stream.write_all(GREETING).await?;
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        Ok::<_, std::io::Error>(head[3])
    };
    let failed = |reason: String| DriverError::NotAnswering { path: path.to_path_buf(), reason };
    match greeted.await.map_err(|error| failed(error.to_string()))? {
        SETTINGS => Ok(()),
        other => Err(failed(format!("it began with a frame of type {other}"))),
    }
}
