//! The DRA drivers of a node: found by their registration sockets, registered, watched over their connections, and
//! their slices wiped when they stay away (the kubelet's plugin manager and `DRAPluginManager`).

mod connection;
mod dial;
mod registration;
mod service;

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::clock::SharedClock;
use crate::embedded::api::resource::RESOURCESLICES;
use crate::embedded::api::{Api, Caller, DeleteOptions, Status};

use connection::Channel;
pub use registration::Version;
use registration::{Conversation, Introduction, RegistrationError};
pub(super) use service::DraService;

/// How long a driver may be away before its slices go (`defaultWipingDelay`).
pub const WIPING_DELAY: Duration = Duration::from_secs(30);
/// First and longest wait between attempts to register (`goroutinemap`).
const REGISTER_BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(122));
/// First wait when the socket file is there but nobody listens yet; grpc-go keeps dialling in that time.
const DIAL_BACKOFF: Duration = Duration::from_millis(20);
/// First and longest wait between attempts to connect (grpc-go's default back-off, factor 1.6).
const CONNECT_BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(120));

/// Why there is no plugin to call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("DRA driver {0} is not registered")]
pub struct NotRegistered(String);

/// The state of a plugin's connection.
#[derive(Clone, Debug)]
pub(super) enum Link {
    /// The first or a further attempt is on its way.
    Connecting,
    /// It stands.
    Ready(Channel),
    /// The last attempt failed so; another follows.
    Failed(String),
}

/// The registered plugins of one node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Plugins {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: String,
    api: Api,
    caller: Caller,
    clock: SharedClock,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// By driver, in the order in which they registered.
    plugins: BTreeMap<String, Vec<Plugin>>,
    /// Wipes that are due, by driver.
    wipes: HashMap<String, CancellationToken>,
}

#[derive(Debug)]
struct Plugin {
    endpoint: String,
    version: Version,
    link: watch::Receiver<Link>,
    closing: CancellationToken,
}

impl Plugin {
    fn connected(&self) -> bool {
        matches!(*self.link.borrow(), Link::Ready(_))
    }
}

impl Plugins {
    /// No plugin yet. Tasks run in `tasks` and end after `shutdown`.
    pub(super) fn new(node: &str, api: Api, caller: Caller, clock: SharedClock, tasks: TaskTracker, shutdown: CancellationToken) -> Self {
        let (changed, _) = watch::channel(0);
        let inner = Inner { node: node.to_owned(), api, caller, clock, tasks, shutdown, state: Mutex::default(), changed };
        Plugins { inner: Arc::new(inner) }
    }

    /// The names of the drivers that are registered, and whether each has a connection.
    #[must_use]
    pub fn drivers(&self) -> Vec<(String, bool)> {
        self.lock().plugins.iter().map(|(driver, plugins)| (driver.clone(), plugins.iter().any(Plugin::connected))).collect()
    }

    /// Changes with every registration, connection and their ends.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// The service of a driver: the newest instance with a connection, else the newest.
    ///
    /// # Errors
    /// No instance is registered.
    pub(super) fn service(&self, driver: &str) -> Result<DraService, NotRegistered> {
        let state = self.lock();
        let plugins = state.plugins.get(driver).map(Vec::as_slice).unwrap_or_default();
        let chosen = plugins.iter().rev().find(|p| p.connected()).or(plugins.last());
        let plugin = chosen.ok_or_else(|| NotRegistered(driver.to_owned()))?;
        Ok(DraService::new(driver, &plugin.endpoint, plugin.version, plugin.link.clone(), Arc::clone(&self.inner.clock)))
    }

    /// Deletes the slices that drivers have published for this node; of one driver, or of all.
    ///
    /// # Errors
    /// The API refuses it.
    pub(super) fn wipe(&self, driver: Option<&str>) -> Result<(), Status> {
        let Inner { node, api, caller, .. } = &*self.inner;
        for slice in api.list(&RESOURCESLICES, "")?.items {
            let spec = &slice["spec"];
            if spec["nodeName"] != node.as_str() || driver.is_some_and(|driver| spec["driver"] != driver) {
                continue;
            }
            let name = slice["metadata"]["name"].as_str().unwrap_or_default();
            match api.delete(caller, &RESOURCESLICES, "", name, &DeleteOptions::default()) {
                Err(status) if !status.is_not_found() => return Err(status),
                _ => {}
            }
        }
        Ok(())
    }

    /// Follows a folder of registration sockets until the shutdown.
    pub(super) async fn follow(self, folder: PathBuf, mut changes: watch::Receiver<u64>) {
        let mut sockets: HashMap<PathBuf, Seen> = HashMap::new();
        loop {
            changes.mark_unchanged();
            let found = scan(&folder);
            // What is gone or was made anew is deregistered first.
            for (path, seen) in &mut sockets {
                if seen.identity.is_some() && found.get(path) != seen.identity.as_ref() {
                    seen.gone.cancel();
                    seen.identity = None;
                }
            }
            for (path, identity) in found {
                let before = match sockets.remove(&path) {
                    Some(seen) if seen.identity.is_some() => {
                        sockets.insert(path, seen);
                        continue;
                    }
                    Some(seen) => Some(seen.task),
                    None => None,
                };
                let gone = self.inner.shutdown.child_token();
                let task = self.inner.tasks.spawn(self.clone().keep_registered(path.clone(), gone.clone(), before));
                sockets.insert(path, Seen { identity: Some(identity), gone, task });
            }
            tokio::select! {
                () = self.inner.shutdown.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Registers the plugin behind a socket and deregisters it when `gone` comes; tries again until it succeeds.
    async fn keep_registered(self, socket: PathBuf, gone: CancellationToken, before: Option<JoinHandle<()>>) {
        if let Some(before) = before {
            // It was cancelled; it cannot panic into here.
            let _ = before.await;
        }
        let mut delay = DIAL_BACKOFF;
        loop {
            let mut added = None;
            let attempt = tokio::select! {
                attempt = self.register(&socket, &mut added) => attempt,
                () = gone.cancelled() => Ok(()),
            };
            match attempt {
                Ok(()) => {
                    gone.cancelled().await;
                    if let Some(Introduction { driver, endpoint, .. }) = added {
                        self.remove(&driver, &endpoint);
                    }
                    return;
                }
                Err(error) => {
                    tracing::debug!(socket = %socket.display(), %error, "plugin not registered");
                    if !matches!(error, RegistrationError::Dial { .. }) {
                        delay = delay.max(REGISTER_BACKOFF.0);
                    }
                }
            }
            tokio::select! {
                () = self.inner.clock.sleep(delay) => {}
                () = gone.cancelled() => return,
            }
            delay = (delay * 2).min(REGISTER_BACKOFF.1);
        }
    }

    /// One attempt; `added` is set while the plugin is in the table.
    async fn register(&self, socket: &Path, added: &mut Option<Introduction>) -> Result<(), RegistrationError> {
        let mut conversation = Conversation::dial(socket, Arc::clone(&self.inner.clock)).await?;
        let introduction = conversation.introduction().await?;
        if let Err(reason) = self.add(&introduction) {
            let error = RegistrationError::Refused(reason);
            conversation.notify(Some(error.to_string())).await?;
            return Err(error);
        }
        let introduction = added.insert(introduction);
        if let Err(error) = conversation.notify(None).await {
            self.remove(&introduction.driver, &introduction.endpoint);
            *added = None;
            return Err(error);
        }
        Ok(())
    }

    fn add(&self, introduction: &Introduction) -> Result<(), String> {
        let Introduction { driver, endpoint, version } = introduction;
        let closing = self.inner.shutdown.child_token();
        let (sender, link) = watch::channel(Link::Connecting);
        {
            let mut state = self.lock();
            let plugins = state.plugins.entry(driver.clone()).or_default();
            if plugins.iter().any(|p| p.endpoint == *endpoint) {
                return Err(format!("endpoint {endpoint} already registered for DRA driver plugin {driver}"));
            }
            plugins.push(Plugin { endpoint: endpoint.clone(), version: *version, link, closing: closing.clone() });
        }
        self.inner.tasks.spawn(self.clone().keep_connected(driver.clone(), PathBuf::from(endpoint), sender, closing));
        self.sync(driver);
        Ok(())
    }

    fn remove(&self, driver: &str, endpoint: &str) {
        {
            let mut state = self.lock();
            let Some(plugins) = state.plugins.get_mut(driver) else { return };
            if let Some(at) = plugins.iter().position(|p| p.endpoint == endpoint) {
                plugins.remove(at).closing.cancel();
            }
            if plugins.is_empty() {
                state.plugins.remove(driver);
            }
        }
        self.sync(driver);
    }

    /// Keeps a connection to a plugin's service, so that its end is seen even when its sockets stay behind.
    async fn keep_connected(self, driver: String, socket: PathBuf, link: watch::Sender<Link>, closing: CancellationToken) {
        let mut delay = CONNECT_BACKOFF.0;
        loop {
            let connected = tokio::select! {
                connected = Channel::connect(&socket) => connected,
                () = closing.cancelled() => return,
            };
            match connected {
                Ok((channel, connection)) => {
                    delay = CONNECT_BACKOFF.0;
                    link.send_replace(Link::Ready(channel));
                    self.sync(&driver);
                    tokio::select! {
                        () = connection => {}
                        () = closing.cancelled() => return,
                    }
                    link.send_replace(Link::Connecting);
                    self.sync(&driver);
                    // At once the first time, as grpc-go does after a connection that stood.
                    continue;
                }
                Err(error) => {
                    let said = match error.kind() {
                        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
                        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
                        _ => error.to_string(),
                    };
                    let path = socket.display();
                    link.send_replace(Link::Failed(format!(
                        "connection error: desc = \"transport: Error while dialing: dial unix {path}: connect: {said}\""
                    )));
                }
            }
            tokio::select! {
                () = self.inner.clock.sleep(delay) => {}
                () = closing.cancelled() => return,
            }
            delay = delay.mul_f64(1.6).min(CONNECT_BACKOFF.1);
        }
    }

    /// Plans or calls off the wiping of a driver's slices, by whether an instance of it has a connection.
    fn sync(&self, driver: &str) {
        let mut state = self.lock();
        let usable = state.plugins.get(driver).is_some_and(|plugins| plugins.iter().any(Plugin::connected));
        if usable {
            if let Some(wipe) = state.wipes.remove(driver) {
                wipe.cancel();
            }
        } else if !state.wipes.contains_key(driver) && !self.inner.shutdown.is_cancelled() {
            let called_off = self.inner.shutdown.child_token();
            state.wipes.insert(driver.to_owned(), called_off.clone());
            self.inner.tasks.spawn(self.clone().wipe_later(driver.to_owned(), called_off));
        }
        drop(state);
        self.inner.changed.send_modify(|count| *count += 1);
    }

    async fn wipe_later(self, driver: String, called_off: CancellationToken) {
        let mut delay = WIPING_DELAY;
        loop {
            tokio::select! {
                biased;
                () = called_off.cancelled() => return,
                () = self.inner.clock.sleep(delay) => {}
            }
            match self.wipe(Some(&driver)) {
                Ok(()) => break,
                Err(status) => tracing::debug!(driver, %status, "slices not wiped, trying again"),
            }
            delay = Duration::from_secs(1);
        }
        // The entry is this wipe's unless it was called off in the meantime.
        let mut state = self.lock();
        if !called_off.is_cancelled() {
            state.wipes.remove(&driver);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket that was found, and the task that keeps its plugin registered.
struct Seen {
    /// `None` once it is gone.
    identity: Option<Identity>,
    gone: CancellationToken,
    task: JoinHandle<()>,
}

/// Tells a socket from another one that was made later under the same name: device, inode, time of change.
type Identity = (u64, u64, i64, i64);

/// The sockets of a folder. Names that begin with a dot do not count (`plugin_watcher.go`).
fn scan(folder: &Path) -> HashMap<PathBuf, Identity> {
    let mut found = HashMap::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries.filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let path = entry.path();
        match std::fs::metadata(&path) {
            Ok(meta) if meta.file_type().is_socket() => {
                found.insert(path, (meta.dev(), meta.ino(), meta.mtime(), meta.mtime_nsec()));
            }
            _ => {}
        }
    }
    found
}

/// A failed call as grpc-go prints it.
fn rpc_error(status: &tonic::Status) -> String {
    let code = match status.code() {
        tonic::Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    };
    format!("rpc error: code = {code} desc = {}", status.message())
}
