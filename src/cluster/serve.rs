//! The lab's own process: assembles the embedded cluster on its store, serves it, and ends in order.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::base::clock::{SharedClock, SystemClock};
use crate::base::failure::Chain;
use crate::cluster::folders::create_private;
use crate::cluster::record::{FORMAT, write_private};
use crate::cluster::{Backend, ClusterError, Home, LabFolder, LabRecord, LabSpec, NodeRecord, sockets};
use crate::driver::Profile;
use crate::embedded::assemble::{AssembleError, Cluster, ClusterConfig, NodeConfig};
use crate::embedded::http::ServerError;
use crate::embedded::store::{OpenError, Store};

/// How long those who look whether a lab runs may keep its lock at most.
const LOOKING: Duration = Duration::from_secs(1);
/// File descriptors that a node needs: sockets, watches and connections of its agent and driver; measured, with room.
const FILES_PER_NODE: u64 = 12;
/// File descriptors beside the nodes'.
const FILES_BESIDE: u64 = 160;

/// A lab that serves in this process.
#[derive(Debug)]
pub struct Serving {
    record: LabRecord,
    cluster: Cluster,
    // Held while the process lives; `down` and `status` look at it.
    _lock: File,
}

impl Serving {
    /// Assembles and starts everything, writes the kubeconfig and the record.
    ///
    /// # Errors
    /// When another process has the lab, the store or the profile cannot be used, or the port is taken.
    pub async fn start(home: &Home, folder: &LabFolder, spec: &LabSpec) -> Result<Self, ClusterError> {
        let lock = folder.process_lock(LOOKING)?.ok_or_else(|| ClusterError::Busy { lab: folder.name.clone(), seconds: 0 })?;
        let profile = profile(&spec.profile)?;
        enough_files(spec.nodes)?;
        let before = LabRecord::read(folder)?;
        let sockets = sockets::folder(home.runtime(), &folder.name, &folder.path, &longest_socket(spec.nodes))?;
        let control_plane = node(folder, &sockets, 0, &LabSpec::control_plane(&folder.name))?;
        let workers = spec
            .workers(&folder.name)
            .iter()
            .enumerate()
            .map(|(i, name)| node(folder, &sockets, i + 1, name))
            .collect::<Result<Vec<_>, _>>()?;
        let nodes: Vec<NodeRecord> = std::iter::once(&control_plane).chain(&workers).map(node_record).collect();
        create_private(&folder.store())?;
        let clock: SharedClock = Arc::new(SystemClock);
        let store = Store::open(&folder.store()).map_err(|error| store_error(&error))?;
        // A resumed lab keeps its address where it can: kubectl's discovery cache and open terminals go by it.
        let earlier = before.as_ref().and_then(|r| r.server.rsplit(':').next()?.parse().ok());
        let port = spec.port.or(earlier).unwrap_or(0);
        let config = |port| ClusterConfig {
            lab: folder.name.clone(),
            control_plane: control_plane.clone(),
            workers: workers.clone(),
            profile: profile.clone(),
            gpus: spec.gpus,
            port,
            token: format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple()),
        };
        let port = if spec.port.is_none() && !is_free(port) { 0 } else { port };
        let cluster = Cluster::start(config(port), store, clock).await.map_err(assemble_error)?;
        write_private(&folder.kubeconfig(), cluster.kubeconfig.as_bytes())?;
        let record = LabRecord {
            format: FORMAT,
            lab: folder.name.clone(),
            backend: Backend::Embedded,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: Some(std::process::id()),
            server: cluster.server.clone(),
            kubeconfig: folder.kubeconfig(),
            spec: spec.clone(),
            sockets: Some(sockets),
            nodes,
            kind: None,
            context: None,
        };
        record.write(folder)?;
        Ok(Serving { record, cluster, _lock: lock })
    }

    /// The record that was written.
    #[must_use]
    pub fn record(&self) -> &LabRecord {
        &self.record
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// None today; a part that does not end well is in the log.
    pub async fn stop(self) -> Result<(), ClusterError> {
        self.cluster.stop().await;
        Ok(())
    }
}

/// Says whether a profile of this name can be used.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn check_profile(name: &str) -> Result<(), ClusterError> {
    profile(name).map(|_| ())
}

fn profile(name: &str) -> Result<Profile, ClusterError> {
    Profile::load(name).map_err(|error| ClusterError::Start {
        message: error.to_string().trim_end().to_owned(),
        id: "DL-PROF-01",
        hints: vec![format!("profiles of this build: {}", Profile::names().collect::<Vec<_>>().join(", "))],
    })
}

/// A short folder for a node's sockets and its place on disk for the rest.
fn node(folder: &LabFolder, sockets: &Path, index: usize, name: &str) -> Result<NodeConfig, ClusterError> {
    let short = sockets.join(format!("n{index}"));
    let own = folder.node(name);
    let node = NodeConfig {
        name: name.to_owned(),
        registry: short.join("r"),
        plugins: short.join("p"),
        cdi: own.join("cdi"),
        state: own.join("state"),
    };
    for path in [&node.registry, &node.plugins, &node.cdi, &node.state] {
        create_private(path)?;
    }
    Ok(node)
}

fn node_record(node: &NodeConfig) -> NodeRecord {
    NodeRecord { name: node.name.clone(), plugin_registry: node.registry.clone(), plugins: node.plugins.clone(), cdi: node.cdi.clone() }
}

/// The longest socket path below a lab's folder of sockets.
fn longest_socket(nodes: u32) -> String {
    format!("n{nodes}/p/gpu.example.com/dra.sock")
}

fn is_free(port: u16) -> bool {
    port == 0 || std::net::TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Raises the limit of open files to the hard limit and says so when that is too little.
fn enough_files(nodes: u32) -> Result<(), ClusterError> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if setrlimit(Resource::Nofile, limit).is_err() {
        limit = getrlimit(Resource::Nofile);
    }
    let needed = FILES_BESIDE + FILES_PER_NODE * u64::from(nodes);
    match limit.current {
        Some(current) if current < needed => Err(ClusterError::Start {
            message: format!("{nodes} nodes need about {needed} open files, and this system allows {current}"),
            id: "DL-LIMIT-01",
            hints: vec!["raise it (`ulimit -n`), or ask for fewer nodes: `dralab up --nodes N`".to_owned()],
        }),
        _ => Ok(()),
    }
}

fn store_error(error: &OpenError) -> ClusterError {
    let hints = vec!["the store is left as it is; to begin anew: `dralab down --purge`".to_owned()];
    ClusterError::Start { message: Chain(error).to_string(), id: "DL-STORE-01", hints }
}

fn assemble_error(error: AssembleError) -> ClusterError {
    match error {
        AssembleError::Server(ServerError::Listen { address, source }) => ClusterError::Start {
            message: format!("cannot listen on {address}: {source}"),
            id: "DL-PORT-01",
            hints: vec![format!("see who has it: `ss -ltnp 'sport = :{}'`, or leave `--port` out and get a free one", address.port())],
        },
        other => {
            let message = other.to_string();
            let hints = if message.contains("checkpoint ") {
                vec![
                    "the file is left as it is; once it is moved away, the node begins with no claim prepared".to_owned(),
                    "or begin anew: `dralab down --purge`".to_owned(),
                ]
            } else {
                Vec::new()
            };
            ClusterError::Start { message, id: "DL-LAB-09", hints }
        }
    }
}

/// Waits for SIGTERM or SIGINT. SIGHUP (a closing terminal) is ignored.
///
/// # Errors
/// When signals cannot be listened to.
pub async fn until_told() -> Result<(), ClusterError> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).map_err(|source| ClusterError::Spawn { source });
    let (mut terminate, mut interrupt, mut hangup) =
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?, listen(SignalKind::hangup())?);
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => {}
        }
    }
}
