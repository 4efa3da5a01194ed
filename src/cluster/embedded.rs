//! The embedded backend: one background process per lab, brought up, resumed and taken down.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::ListParams;
use kube::runtime::watcher;
use rustix::process::Pid;
use serde_json::Value;

use crate::client::apply::{Applied, api_of};
use crate::client::connect::{self, Proxies};
use crate::client::{ClientError, Kinds, wait};
use crate::cluster::{ClusterError, Home, LabFolder, LabRecord, LabSpec, install, process, sockets};

/// The version that this build writes into records.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long the lab's process may take to serve.
const READY: Duration = Duration::from_secs(20);
/// How long the drivers may take to publish.
const PUBLISHED: Duration = Duration::from_secs(30);
/// How long another `up` or `down` may keep us waiting.
const BUSY: Duration = Duration::from_secs(60);
/// How long a running lab may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a killed process may take to be gone, and one that has begun to answer.
const DYING: Duration = Duration::from_secs(2);
/// How long to wait before looking at it again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long the lab's process may take to end.
const STOP: Duration = Duration::from_secs(10);

/// What was asked for; what is `None` stays as it was, or gets the default.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Number of workers.
    pub nodes: Option<u32>,
    /// GPUs per worker.
    pub gpus: Option<u32>,
    /// Device profile.
    pub profile: Option<String>,
    /// Port of the API.
    pub port: Option<u16>,
}

impl Wanted {
    /// The spec that results, given what the lab was made of before.
    #[must_use]
    pub fn over(&self, before: Option<&LabSpec>) -> LabSpec {
        let base = before.cloned().unwrap_or_default();
        LabSpec {
            nodes: self.nodes.unwrap_or(base.nodes),
            gpus: self.gpus.or(base.gpus),
            profile: self.profile.clone().unwrap_or(base.profile),
            port: self.port.or(base.port),
        }
    }
}

/// What `up` is doing, for the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpEvent {
    /// The lab's process is being started.
    Starting,
    /// It serves.
    Started {
        /// Nodes, the control plane included.
        nodes: usize,
    },
    /// It ran already, as asked.
    AlreadyRunning {
        /// Its process.
        pid: u32,
    },
    /// It ran, but by another version or made of something else, and was stopped to start again on its store.
    Restarting {
        /// Which dralab ran it.
        version: String,
    },
    /// The manifests are being applied.
    Installing,
    /// The manifests are applied.
    Installed {
        /// How many objects there are.
        objects: usize,
        /// How many of them changed.
        changed: usize,
    },
    /// Waiting for the drivers.
    Publishing,
    /// Every worker's pool is complete.
    Published {
        /// Devices in all.
        devices: usize,
        /// Slices in all.
        slices: usize,
    },
}

/// What `up` would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What the lab is to be made of.
    pub spec: LabSpec,
    /// It runs now.
    pub running: Option<LabRecord>,
    /// It has a store to resume.
    pub resumes: bool,
    /// It would be stopped and started again.
    pub restarts: bool,
}

/// Looks at what is there and says what `up` would do.
///
/// # Errors
/// When the record is not one that this build understands.
pub fn plan(folder: &LabFolder, wanted: &Wanted) -> Result<Plan, ClusterError> {
    let record = LabRecord::read(folder)?;
    let spec = wanted.over(record.as_ref().map(|r| &r.spec));
    let running = record.clone().filter(|_| folder.is_running());
    let restarts = running.as_ref().is_some_and(|r| r.version != VERSION || r.spec != spec);
    Ok(Plan { spec, running, resumes: record.is_some(), restarts })
}

/// Brings the lab up, or finds it up. Undoes what it made when it fails or is dropped (Ctrl-C).
///
/// # Errors
/// When a step fails; what this call made is undone then.
pub async fn up(
    home: &Home,
    lab: &str,
    wanted: &Wanted,
    executable: PathBuf,
    report: &(dyn Fn(UpEvent) + Sync),
) -> Result<LabRecord, ClusterError> {
    let folder = home.lab(lab);
    let fresh = !folder.path.exists();
    // Not created before the lock is had: what is to be undone begins there.
    let mut undo = Undo { folder: folder.clone(), runtime: home.runtime().map(Path::to_path_buf), pid: None, remove: fresh, armed: true };
    let lock = change_lock(&folder).await?;
    let mut plan = plan(&folder, wanted)?;
    // A process that was killed a moment ago still has its lock, and one that an interrupted `up` left behind is only just beginning:
    // both get a moment. One that is stuck keeps the lock and is told to end.
    let patience = Instant::now() + DYING;
    while folder.is_running() && !matches!(&plan.running, Some(record) if answers(record).await) {
        if Instant::now() > patience {
            process::stop(&folder, plan.running.as_ref().and_then(|r| r.pid), STOP).await?;
        } else {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        plan = self::plan(&folder, wanted)?;
    }
    if !folder.is_running() {
        plan.running = None;
    }
    if let Some(record) = &plan.running
        && !plan.restarts
    {
        plan.restarts = !has_all_nodes(record).await?;
    }
    // Another `up` may have made the lab while this one waited for the lock; then nothing here is ours to remove.
    undo.remove = fresh && !plan.resumes;
    match &plan.running {
        Some(record) if !plan.restarts => report(UpEvent::AlreadyRunning { pid: record.pid.unwrap_or_default() }),
        running => {
            if let Some(record) = running {
                report(UpEvent::Restarting { version: record.version.clone() });
                process::stop(&folder, record.pid, STOP).await?;
            }
            report(UpEvent::Starting);
            let starting = process::start(&executable, &folder, &plan.spec)?;
            undo.pid = starting.pid();
            starting.ready(READY).await?;
            report(UpEvent::Started { nodes: plan.spec.nodes as usize + 1 });
        }
    }
    let record = LabRecord::read(&folder)?.ok_or_else(|| ClusterError::NotUp { lab: lab.to_owned() })?;
    let client = connect(&record).await.map_err(api_error("a connection"))?;
    report(UpEvent::Installing);
    let applied = install::install(&client, None).await?;
    let changed = applied.iter().filter(|done| done.applied != Applied::Unchanged).count();
    report(UpEvent::Installed { objects: applied.len(), changed });
    report(UpEvent::Publishing);
    let (devices, slices) = published(&client, &record.spec.workers(lab)).await.map_err(api_error("the resource slices"))?;
    report(UpEvent::Published { devices, slices });
    undo.armed = false;
    drop(lock);
    Ok(record)
}

/// Takes the lock of `up` and `down` without holding up the runtime.
pub(super) async fn change_lock(folder: &LabFolder) -> Result<File, ClusterError> {
    let waiting = folder.clone();
    tokio::task::spawn_blocking(move || waiting.change_lock(BUSY)).await.map_err(|error| ClusterError::Start {
        message: format!("cannot wait for the lock: {error}"),
        id: "DL-LAB-09",
        hints: Vec::new(),
    })?
}

/// Whether the API of a lab answers.
async fn answers(record: &LabRecord) -> bool {
    let Ok(client) = connect(record).await else { return false };
    let asked = client.apiserver_version();
    matches!(tokio::time::timeout(ANSWER, asked).await, Ok(Ok(_)))
}

/// Whether every node of a running lab is registered. One that somebody deleted registers when its agent starts, as a kubelet does.
async fn has_all_nodes(record: &LabRecord) -> Result<bool, ClusterError> {
    let look = async {
        let client = connect(record).await?;
        let kinds = Kinds::discover(&client).await?;
        let nodes = api_of(&client, kinds.find("nodes")?, "").list(&ListParams::default()).await?;
        let there: BTreeSet<String> = nodes.items.iter().filter_map(|n| n.metadata.name.clone()).collect();
        Ok(record.nodes.iter().all(|n| there.contains(&n.name)))
    };
    look.await.map_err(api_error("the nodes"))
}

/// A client for a lab of this record.
///
/// # Errors
/// When its kubeconfig cannot be used.
pub async fn connect(record: &LabRecord) -> Result<Client, ClientError> {
    connect::by_kubeconfig(&record.kubeconfig, None, &Proxies::default()).await
}

fn api_error(what: &'static str) -> impl FnOnce(ClientError) -> ClusterError {
    move |error| match error {
        ClientError::TimedOut { seconds, last, .. } => ClusterError::NotReady { seconds, last },
        other => ClusterError::Start { message: format!("cannot get {what}: {other}"), id: "DL-API-01", hints: Vec::new() },
    }
}

/// Waits until every worker has a complete pool of its own. Returns the numbers of devices and slices.
async fn published(client: &Client, workers: &[String]) -> Result<(usize, usize), ClientError> {
    let kinds = Kinds::discover(client).await?;
    let slices = api_of(client, kinds.find("resourceslices")?, "");
    let count = |objects: &BTreeMap<String, Value>| {
        let mut devices = 0;
        let mut found = 0;
        let mut missing = Vec::new();
        for worker in workers {
            let of_worker: Vec<&Value> = objects.values().filter(|s| s["spec"]["nodeName"].as_str() == Some(worker)).collect();
            let newest = of_worker.iter().filter_map(|s| s["spec"]["pool"]["generation"].as_i64()).max();
            let current: Vec<_> = of_worker.iter().filter(|s| s["spec"]["pool"]["generation"].as_i64() == newest).collect();
            let wanted = current.first().and_then(|s| s["spec"]["pool"]["resourceSliceCount"].as_u64());
            if wanted.is_none_or(|w| w != current.len() as u64) {
                missing.push(worker.as_str());
            }
            found += current.len();
            devices += current.iter().map(|s| s["spec"]["devices"].as_array().map_or(0, Vec::len)).sum::<usize>();
        }
        (devices, found, missing.len(), missing.first().map(|m| (*m).to_owned()))
    };
    let enough = |objects: &BTreeMap<String, Value>| {
        let (devices, slices, missing, _) = count(objects);
        (missing == 0).then_some((devices, slices))
    };
    let last = |objects: &BTreeMap<String, Value>| {
        let (_, _, missing, first) = count(objects);
        format!("{missing} of {} workers without a complete pool, {} the first of them", workers.len(), first.unwrap_or_default())
    };
    wait::until(slices, watcher::Config::default(), PUBLISHED, "complete pools on every worker", enough, last).await
}

/// What `down` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Downed {
    /// A process was stopped.
    pub stopped: bool,
    /// Files were removed.
    pub purged: bool,
}

/// Stops the lab; like `rm -f`, a lab that is not there is fine. With `purge` its files go too.
///
/// # Errors
/// When the process does not end, or files cannot be removed.
pub async fn down(home: &Home, lab: &str, purge: bool) -> Result<Downed, ClusterError> {
    let folder = home.lab(lab);
    if !folder.path.exists() {
        return Ok(Downed { stopped: false, purged: false });
    }
    let lock = change_lock(&folder).await?;
    let record = match LabRecord::read(&folder) {
        Ok(record) => record,
        // `down --purge` is the way out for a record that cannot be read; a plain `down` must not guess.
        Err(error) if !purge => return Err(error),
        Err(_) => None,
    };
    let stopped = folder.is_running();
    if stopped {
        process::stop(&folder, record.as_ref().and_then(|r| r.pid), STOP).await?;
    }
    remove_sockets(home.runtime(), &folder, record.as_ref());
    if purge {
        folder.remove()?;
    }
    drop(lock);
    Ok(Downed { stopped, purged: purge })
}

/// Removes the folder of sockets, where it is one that dralab makes.
fn remove_sockets(runtime: Option<&Path>, folder: &LabFolder, record: Option<&LabRecord>) {
    let recorded = record.and_then(|r| r.sockets.clone()).filter(|path| {
        path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{}-", folder.name)))
            && path.parent().and_then(Path::file_name).is_some_and(|n| n.to_string_lossy().starts_with("dralab"))
    });
    // A process that was killed before it wrote its record has left its sockets, too.
    for path in sockets::candidates(runtime, &folder.name, &folder.path).into_iter().chain(recorded) {
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::debug!(%error, path = %path.display(), "the sockets' folder was not removed");
            }
            _ => {}
        }
        if let Some(parent) = path.parent() {
            // Only goes when it is empty: other labs may have sockets there.
            let _ = std::fs::remove_dir(parent);
        }
    }
}

/// Undoes what an `up` made when it does not come to its end.
struct Undo {
    folder: LabFolder,
    runtime: Option<PathBuf>,
    pid: Option<u32>,
    remove: bool,
    armed: bool,
}

impl Drop for Undo {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        if let Some(pid) = self.pid.and_then(|p| i32::try_from(p).ok()).and_then(Pid::from_raw) {
            process::end_child(pid, Duration::from_secs(5));
        }
        if self.remove {
            remove_sockets(self.runtime.as_deref(), &self.folder, LabRecord::read(&self.folder).ok().flatten().as_ref());
            if let Err(error) = self.folder.remove() {
                tracing::debug!(%error, path = %self.folder.path.display(), "the lab's folder was not removed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Wanted;
    use crate::cluster::LabSpec;

    #[test]
    fn what_is_not_asked_for_stays_as_it_was() {
        let before = LabSpec { nodes: 3, gpus: Some(4), profile: "recorded".to_owned(), port: None };
        assert_eq!(Wanted::default().over(Some(&before)), before);
        assert_eq!(Wanted { nodes: Some(2), ..Wanted::default() }.over(Some(&before)).nodes, 2);
        assert_eq!(Wanted::default().over(None), LabSpec::default());
    }
}
