//! Preparing claims: devices are made ready for the containers of a pod, and given back.
//!
//! What to do is computed first ([`compute`]), without effects; then CDI specs and the checkpoint are written.
//! The order of the writes makes a crash harmless: a CDI spec without a checkpoint entry is removed at the next
//! start, an entry without a spec has it written again.

mod checkpoint;
mod compute;
mod opaque;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::{Api, Client};
use tokio::sync::Mutex;

use super::cdi::{CdiError, CdiKind};
use super::inventory::{Inventory, InventoryError};
use super::lock::LockFile;
use super::report::Reports;
use crate::base::clock::SharedClock;
use compute::{Names, Unpreparable};
use state::State;

pub use checkpoint::CheckpointError;
pub use compute::{ClaimRef, PreparedClaim, PreparedDevice};

/// How many claims of one request are fetched at the same time.
const FETCHES: usize = 16;
/// How long a claim may take to be fetched. A kubelet gives the whole call 45 s.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

fn uids(claims: &[ClaimRef]) -> Vec<String> {
    claims.iter().map(|claim| claim.uid.clone()).collect()
}

/// The same answer for all: nothing was changed.
fn refused<T>(uids: Vec<String>, error: &impl fmt::Display) -> Outcomes<T> {
    uids.into_iter().map(|uid| (uid, Err(PrepareError::Checkpoint(error.to_string())))).collect()
}

/// What became of each claim of a request, by uid.
pub type Outcomes<T> = BTreeMap<String, Result<T, PrepareError>>;

/// Prepares and unprepares the claims of one driver on one node.
pub struct Preparer {
    names: Arc<Names>,
    inventory: Arc<dyn Inventory>,
    client: Client,
    clock: SharedClock,
    lock: LockFile,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Preparer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preparer").field("names", &self.names).field("inventory", &self.inventory).finish_non_exhaustive()
    }
}

/// Where a [`Preparer`] works.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) driver: &'a str,
    pub(super) node: &'a str,
    pub(super) pool: &'a str,
    pub(super) kind: CdiKind,
    /// As [`super::DriverConfig::common_cdi_device_first`].
    pub(super) common_first: bool,
    /// Where the checkpoint is.
    pub(super) state_dir: &'a Path,
    pub(super) cdi_dir: &'a Path,
    /// Who is told what became of claims.
    pub(super) reports: Option<Reports>,
}

impl Preparer {
    /// Takes up where the last process ended: reads the checkpoint, writes the CDI specs that are missing (their
    /// folder is empty after a reboot) and removes those that belong to nothing. Blocks on files; for whoever holds
    /// the driver's lock.
    ///
    /// # Errors
    /// A checkpoint that cannot be read, and files that cannot be written.
    pub(super) fn open(place: &Place<'_>, inventory: Arc<dyn Inventory>, client: Client, clock: SharedClock) -> Result<Self, OpenError> {
        let names = Names {
            driver: place.driver.to_owned(),
            node: place.node.to_owned(),
            pool: place.pool.to_owned(),
            kind: place.kind.clone(),
            common_first: place.common_first,
        };
        let state = State::open(place, &names)?;
        let lock = LockFile::new(place.state_dir);
        Ok(Preparer { names: Arc::new(names), inventory, client, clock, lock, state: Arc::new(Mutex::new(state)) })
    }

    /// The fully qualified CDI names of a prepared device, for the container runtime.
    #[must_use]
    pub fn cdi_ids(&self, device: &PreparedDevice) -> Vec<String> {
        self.names.cdi_ids(device)
    }

    /// Prepares claims. One that is prepared already is left so, also when the API server cannot be asked; one that
    /// has been given other devices since (its pod was removed by force) is prepared anew.
    pub async fn prepare(&self, wanted: Vec<ClaimRef>) -> Outcomes<Vec<PreparedDevice>> {
        let devices = match self.inventory.devices() {
            Ok(devices) => devices.into_iter().map(|device| (device.published.name.clone(), device)).collect(),
            Err(InventoryError(text)) => {
                return wanted.into_iter().map(|claim| (claim.uid, Err(PrepareError::Inventory(text.clone())))).collect();
            }
        };
        let fetched = self.fetch(wanted.clone()).await;
        let names = Arc::clone(&self.names);
        let uids = uids(&wanted);
        self.change(uids, move |state| state.prepare(&names, wanted, fetched, &devices)).await
    }

    /// Unprepares claims. One that is not prepared is unprepared already; a CDI spec it may have left is removed.
    pub async fn unprepare(&self, wanted: Vec<ClaimRef>) -> Outcomes<()> {
        let uids = uids(&wanted);
        self.change(uids.clone(), move |state| state.unprepare(uids)).await
    }

    /// Writes CDI specs that somebody has removed: a container that is started again needs them, and the kubelet
    /// does not ask again for claims of pods that run.
    pub(super) async fn tend(&self) -> Result<(), PrepareError> {
        let state = Arc::clone(&self.state).lock_owned().await;
        if !state.lacks_specs() {
            return Ok(());
        }
        drop(state);
        let names = Arc::clone(&self.names);
        let work = move |state: &mut State| {
            let restored = state.restore_specs(&names).map_err(PrepareError::from);
            Outcomes::from([(String::new(), restored)])
        };
        self.change(vec![String::new()], work).await.into_values().next().unwrap_or(Ok(()))
    }

    /// Changes what is prepared: alone in this process and among the instances of the driver, and knowing what
    /// another one has prepared since.
    async fn change<T: Send + 'static>(
        &self,
        uids: Vec<String>,
        work: impl FnOnce(&mut State) -> Outcomes<T> + Send + 'static,
    ) -> Outcomes<T> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        let held = match self.lock.acquire(&self.clock).await {
            Ok(held) => held,
            Err(error) => return refused(uids, &error),
        };
        run_blocking(move || {
            let _held = held;
            match state.refresh() {
                Ok(()) => work(&mut state),
                Err(error) => refused(uids, &error),
            }
        })
        .await
    }

    async fn fetch(&self, wanted: Vec<ClaimRef>) -> BTreeMap<String, Result<ResourceClaim, String>> {
        let fetches = wanted.into_iter().map(|claim| self.fetch_one(claim));
        futures::stream::iter(fetches).buffer_unordered(FETCHES).collect().await
    }

    async fn fetch_one(&self, claim: ClaimRef) -> (String, Result<ResourceClaim, String>) {
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), &claim.namespace);
        let fetched = tokio::select! {
            fetched = api.get(&claim.name) => fetched.map_err(|error| super::error::kube_text(&error)),
            () = self.clock.sleep(FETCH_TIMEOUT) => Err(format!("no answer within {} s", FETCH_TIMEOUT.as_secs())),
        };
        (claim.uid, fetched)
    }
}

/// Runs file work on a thread where it may block. What it holds goes along, so that a request that is given up
/// half-way does not let the next one in too early.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> Outcomes<T> + Send + 'static) -> Outcomes<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcomes) => outcomes,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // Cancelled: the runtime is shutting down, nobody waits for the answer.
        Err(_) => Outcomes::new(),
    }
}

/// Why a claim was not prepared or unprepared. The kubelet puts the text into an event of the pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The claim, or what it was given, does not fit this driver and node.
    #[error("error preparing devices for claim {claim}: {reason}")]
    Claim {
        /// The claim's uid.
        claim: String,
        /// What is wrong.
        reason: String,
    },
    /// The claim could not be read.
    #[error("retrieve claim {namespace}/{name}: {reason}")]
    Api {
        /// The claim's namespace.
        namespace: String,
        /// The claim's name.
        name: String,
        /// What the API server, or the way to it, said.
        reason: String,
    },
    /// A prepared device has left the node.
    #[error("claim {claim} was prepared with device {device:?}, which is not on this node any more")]
    Gone {
        /// The claim's uid.
        claim: String,
        /// The device's name.
        device: String,
    },
    /// The devices could not be enumerated.
    #[error("cannot enumerate devices: {0}")]
    Inventory(String),
    /// A CDI spec could not be written or removed.
    #[error("{0}")]
    Cdi(String),
    /// The checkpoint could not be written; nothing has changed.
    #[error("{0}")]
    Checkpoint(String),
}

impl PrepareError {
    fn from_claim(uid: &str) -> impl FnOnce(Unpreparable) -> Self {
        let claim = uid.to_owned();
        move |error| PrepareError::Claim { claim, reason: error.to_string() }
    }

    fn from_api(claim: &ClaimRef, reason: String) -> Self {
        PrepareError::Api { namespace: claim.namespace.clone(), name: claim.name.clone(), reason }
    }
}

impl From<CdiError> for PrepareError {
    fn from(error: CdiError) -> Self {
        PrepareError::Cdi(error.to_string())
    }
}

/// A [`Preparer`] could not take up its work.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A CDI spec cannot be written.
    #[error(transparent)]
    Cdi(#[from] CdiError),
}
