//! Preparing claims: devices are made ready for the containers of a pod, and given back.
//!
//! What to do is computed first ([`compute`]), without effects; then CDI specs and the checkpoint are written.
//! The order of the writes makes a crash harmless: a CDI spec without a checkpoint entry is removed at the next
//! start, an entry without a spec has it written again.

mod checkpoint;
mod compute;
mod opaque;
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
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::cdi::{CdiError, CdiFolder, CdiKind};
use super::inventory::{Inventory, InventoryError, NodeDevice};
use crate::base::clock::SharedClock;
use checkpoint::{Checkpoint, Claims};
use compute::{COMMON, Names, Unpreparable};

pub use checkpoint::CheckpointError;
pub use compute::{ClaimRef, PreparedClaim, PreparedDevice};

/// How many claims of one request are fetched at the same time.
const FETCHES: usize = 16;
/// How long a claim may take to be fetched. A kubelet gives the whole call 45 s.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// What became of each claim of a request, by uid.
pub type Outcomes<T> = BTreeMap<String, Result<T, PrepareError>>;

/// Prepares and unprepares the claims of one driver on one node.
pub struct Preparer {
    names: Names,
    inventory: Arc<dyn Inventory>,
    client: Client,
    clock: SharedClock,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Preparer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preparer").field("names", &self.names).field("inventory", &self.inventory).finish_non_exhaustive()
    }
}

/// What is prepared, and where it is written. One writer at a time.
#[derive(Debug)]
struct State {
    checkpoint: Checkpoint,
    cdi: CdiFolder,
    claims: Claims,
}

/// Where a [`Preparer`] works.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    pub(super) driver: &'a str,
    pub(super) node: &'a str,
    pub(super) pool: &'a str,
    pub(super) kind: CdiKind,
    /// Where the checkpoint is.
    pub(super) state_dir: &'a Path,
    pub(super) cdi_dir: &'a Path,
}

impl Preparer {
    /// Takes up where the last process ended: reads the checkpoint, writes the CDI specs that are missing (their
    /// folder is empty after a reboot) and removes those that belong to nothing. Blocks on files.
    ///
    /// # Errors
    /// A checkpoint that cannot be read, and files that cannot be written.
    pub(super) fn open(place: &Place<'_>, inventory: Arc<dyn Inventory>, client: Client, clock: SharedClock) -> Result<Self, OpenError> {
        let names =
            Names { driver: place.driver.to_owned(), node: place.node.to_owned(), pool: place.pool.to_owned(), kind: place.kind.clone() };
        let checkpoint = Checkpoint::new(place.state_dir, place.driver);
        let claims = checkpoint.load()?;
        let cdi = CdiFolder::new(place.cdi_dir, place.kind.clone());
        cdi.write(COMMON, &names.common().map_err(CdiError::from)?)?;
        for claim in claims.values() {
            ensure_spec(&cdi, claim)?;
        }
        for id in cdi.ids()?.iter().filter(|id| *id != COMMON && !claims.contains_key(*id)) {
            tracing::info!(id, "removing a CDI spec that no prepared claim has");
            cdi.remove(id)?;
        }
        Ok(Preparer { names, inventory, client, clock, state: Arc::new(Mutex::new(State { checkpoint, cdi, claims })) })
    }

    /// The kind of the CDI devices.
    #[must_use]
    pub fn kind(&self) -> &CdiKind {
        &self.names.kind
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
        let mut fetched = self.fetch(wanted.clone()).await;
        let state = Arc::clone(&self.state).lock_owned().await;

        let mut outcomes = Outcomes::new();
        let mut new = Vec::new();
        let mut old = Vec::new();
        for claim in wanted {
            let prepared = state.claims.get(&claim.uid);
            let computed = match (fetched.remove(&claim.uid), prepared) {
                (Some(Ok(object)), None) => self.names.compute(&claim, &object, &devices).map_err(PrepareError::from_claim(&claim.uid)),
                (Some(Ok(object)), Some(prepared)) => match self.names.compute(&claim, &object, &devices) {
                    Ok(computed) if !computed.has_same_devices(prepared) => Ok(computed),
                    _ => still_there(prepared, &devices).map(|()| prepared.clone()),
                },
                (Some(Err(_)), Some(prepared)) => still_there(prepared, &devices).map(|()| prepared.clone()),
                (Some(Err(reason)), None) => Err(PrepareError::from_api(&claim, reason)),
                // The same claim twice in one request.
                (None, _) => continue,
            };
            match computed {
                Ok(claim) if prepared == Some(&claim) => old.push(claim),
                Ok(claim) => new.push(claim),
                Err(error) => drop(outcomes.insert(claim.uid, Err(error))),
            }
        }
        outcomes.extend(run_blocking(move || commit(state, old, new)).await);
        outcomes
    }

    /// Unprepares claims. One that is not prepared is unprepared already; a CDI spec it may have left is removed.
    pub async fn unprepare(&self, wanted: Vec<ClaimRef>) -> Outcomes<()> {
        let state = Arc::clone(&self.state).lock_owned().await;
        run_blocking(move || retract(state, wanted)).await
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

/// Runs file work on a thread where it may block. The guard goes along, so that a request that is given up
/// half-way does not let the next one in too early.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> Outcomes<T> + Send + 'static) -> Outcomes<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcomes) => outcomes,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // Cancelled: the runtime is shutting down, nobody waits for the answer.
        Err(_) => Outcomes::new(),
    }
}

fn still_there(prepared: &PreparedClaim, devices: &BTreeMap<String, NodeDevice>) -> Result<(), PrepareError> {
    match prepared.devices.iter().find(|device| !devices.contains_key(&device.device)) {
        Some(gone) => Err(PrepareError::Gone { claim: prepared.uid.clone(), device: gone.device.clone() }),
        None => Ok(()),
    }
}

fn ensure_spec(cdi: &CdiFolder, claim: &PreparedClaim) -> Result<(), CdiError> {
    let spec = claim.spec(cdi.kind())?;
    if cdi.holds(&claim.uid, &spec) { Ok(()) } else { cdi.write(&claim.uid, &spec) }
}

fn commit(mut state: OwnedMutexGuard<State>, old: Vec<PreparedClaim>, new: Vec<PreparedClaim>) -> Outcomes<Vec<PreparedDevice>> {
    let mut outcomes = Outcomes::new();
    for claim in old {
        let outcome = ensure_spec(&state.cdi, &claim).map_err(PrepareError::from);
        outcomes.insert(claim.uid, outcome.map(|()| claim.devices));
    }
    let mut claims = state.claims.clone();
    let mut written = Vec::new();
    for claim in new {
        match claim.spec(state.cdi.kind()).map_err(CdiError::from).and_then(|spec| state.cdi.write(&claim.uid, &spec)) {
            Ok(()) => {
                claims.insert(claim.uid.clone(), claim.clone());
                written.push(claim);
            }
            Err(error) => drop(outcomes.insert(claim.uid, Err(error.into()))),
        }
    }
    if written.is_empty() {
        return outcomes;
    }
    match state.checkpoint.save(&claims) {
        Ok(()) => {
            state.claims = claims;
            outcomes.extend(written.into_iter().map(|claim| (claim.uid, Ok(claim.devices))));
        }
        Err(error) => {
            let text = error.to_string();
            for claim in written {
                // Whatever stays is removed by unprepare or at the next start.
                if let Err(error) = state.cdi.remove(&claim.uid) {
                    tracing::warn!(%error, "a CDI spec stays behind");
                }
                outcomes.insert(claim.uid, Err(PrepareError::Checkpoint(text.clone())));
            }
        }
    }
    outcomes
}

fn retract(mut state: OwnedMutexGuard<State>, wanted: Vec<ClaimRef>) -> Outcomes<()> {
    let mut claims = state.claims.clone();
    let mut removed = Vec::new();
    for claim in wanted {
        claims.remove(&claim.uid);
        removed.push(claim.uid);
    }
    // The checkpoint first: an entry must not outlive what it stands for.
    if claims.len() != state.claims.len() {
        if let Err(error) = state.checkpoint.save(&claims) {
            let text = error.to_string();
            return removed.into_iter().map(|uid| (uid, Err(PrepareError::Checkpoint(text.clone())))).collect();
        }
        state.claims = claims;
    }
    removed
        .into_iter()
        .map(|uid| {
            let outcome = if compute::is_uid(&uid) { state.cdi.remove(&uid).map_err(PrepareError::from) } else { Ok(()) };
            (uid, outcome)
        })
        .collect()
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
