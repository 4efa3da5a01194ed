//! What is prepared, and the files that say so: the order of their writes.
//!
//! A CDI spec is written before the claim's checkpoint entry and removed after it, so that a crash between the two
//! leaves a spec without an entry (removed at the next start), never an entry that stands for nothing.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::ResourceClaim;

use super::checkpoint::{Checkpoint, CheckpointError};
use super::compute::{COMMON, ClaimRef, Names, PreparedClaim, PreparedDevice, is_uid};
use super::{OpenError, Outcomes, Place, PrepareError};
use crate::driver::cdi::{CdiError, CdiFolder};
use crate::driver::inventory::NodeDevice;
use crate::driver::report::Reports;

/// What the API server has of each claim, or why it did not say, by uid.
pub(super) type Fetched = BTreeMap<String, Result<ResourceClaim, String>>;

/// The prepared claims of a driver and their files. One writer at a time: this process' mutex and the driver's
/// lock are held around all of it.
#[derive(Debug)]
pub(super) struct State {
    checkpoint: Checkpoint,
    cdi: CdiFolder,
    reports: Option<Reports>,
}

impl State {
    /// Reads the checkpoint and brings the CDI folder in line with it.
    pub(super) fn open(place: &Place<'_>, names: &Names) -> Result<Self, OpenError> {
        let state = State {
            checkpoint: Checkpoint::open(place.state_dir, place.driver)?,
            cdi: CdiFolder::new(place.cdi_dir, place.kind.clone()),
            reports: place.reports.clone(),
        };
        let State { checkpoint, cdi, .. } = &state;
        cdi.remove_unfinished();
        cdi.write(COMMON, &names.common().map_err(CdiError::from)?)?;
        for claim in checkpoint.claims().values() {
            state.ensure_spec(claim)?;
            state.report(|reports| reports.known(claim.clone()));
        }
        for id in cdi.ids()?.iter().filter(|id| *id != COMMON && !checkpoint.claims().contains_key(*id)) {
            tracing::info!(id, "removing a CDI spec that no prepared claim has");
            cdi.remove(id)?;
        }
        Ok(state)
    }

    /// Takes in what another instance has written since.
    pub(super) fn refresh(&mut self) -> Result<(), CheckpointError> {
        self.checkpoint.refresh()
    }

    pub(super) fn prepare(
        &mut self,
        names: &Names,
        wanted: Vec<ClaimRef>,
        mut fetched: Fetched,
        devices: &BTreeMap<String, NodeDevice>,
    ) -> Outcomes<Vec<PreparedDevice>> {
        let mut outcomes = Outcomes::new();
        let mut new = Vec::new();
        let mut old = Vec::new();
        for claim in wanted {
            let prepared = self.checkpoint.claims().get(&claim.uid);
            let computed = match (fetched.remove(&claim.uid), prepared) {
                (Some(Ok(object)), None) => names.compute(&claim, &object, devices).map_err(PrepareError::from_claim(&claim.uid)),
                (Some(Ok(object)), Some(prepared)) => match names.compute(&claim, &object, devices) {
                    Ok(computed) if !computed.has_same_devices(prepared) => Ok(computed),
                    _ => still_there(prepared, devices).map(|()| prepared.clone()),
                },
                (Some(Err(_)), Some(prepared)) => still_there(prepared, devices).map(|()| prepared.clone()),
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
        self.commit(names, old, new, &mut outcomes);
        outcomes
    }

    fn commit(&mut self, names: &Names, old: Vec<PreparedClaim>, new: Vec<PreparedClaim>, outcomes: &mut Outcomes<Vec<PreparedDevice>>) {
        if let Err(error) = self.ensure_common(names) {
            let text = error.to_string();
            for claim in old.into_iter().chain(new) {
                outcomes.insert(claim.uid, Err(PrepareError::Cdi(text.clone())));
            }
            return;
        }
        for claim in old {
            let outcome = self.ensure_spec(&claim).map_err(PrepareError::from);
            outcomes.insert(claim.uid, outcome.map(|()| claim.devices));
        }
        let mut claims = self.checkpoint.claims().clone();
        let mut written = Vec::new();
        for claim in new {
            match claim.spec(self.cdi.kind()).map_err(CdiError::from).and_then(|spec| self.cdi.write(&claim.uid, &spec)) {
                Ok(()) => {
                    claims.insert(claim.uid.clone(), claim.clone());
                    written.push(claim);
                }
                Err(error) => drop(outcomes.insert(claim.uid, Err(error.into()))),
            }
        }
        if written.is_empty() && !self.checkpoint.is_damaged() {
            return;
        }
        match self.checkpoint.save(claims) {
            Ok(()) => {
                for claim in written {
                    self.report(|reports| reports.prepared(claim.clone()));
                    outcomes.insert(claim.uid, Ok(claim.devices));
                }
            }
            Err(error) => {
                let text = error.to_string();
                for claim in written {
                    self.take_back(&claim.uid);
                    outcomes.insert(claim.uid, Err(PrepareError::Checkpoint(text.clone())));
                }
            }
        }
    }

    /// A spec was written and could not be entered into the checkpoint: what the checkpoint has stays true.
    fn take_back(&self, uid: &str) {
        let undone = match self.checkpoint.claims().get(uid) {
            Some(before) => self.ensure_spec(before),
            None => self.cdi.remove(uid),
        };
        // Whatever stays is removed by unprepare or at the next start.
        if let Err(error) = undone {
            tracing::warn!(%error, "a CDI spec stays behind");
        }
    }

    pub(super) fn unprepare(&mut self, wanted: Vec<String>) -> Outcomes<()> {
        let mut claims = self.checkpoint.claims().clone();
        let before = claims.len();
        for uid in &wanted {
            claims.remove(uid);
        }
        // The checkpoint first: an entry must not outlive what it stands for.
        if (claims.len() != before || self.checkpoint.is_damaged())
            && let Err(error) = self.checkpoint.save(claims)
        {
            let text = error.to_string();
            return wanted.into_iter().map(|uid| (uid, Err(PrepareError::Checkpoint(text.clone())))).collect();
        }
        for uid in &wanted {
            self.report(|reports| reports.unprepared(uid));
        }
        let remove = |uid: &str| if is_uid(uid) { self.cdi.remove(uid).map_err(PrepareError::from) } else { Ok(()) };
        wanted.into_iter().map(|uid| (uid.clone(), remove(&uid))).collect()
    }

    fn report(&self, news: impl FnOnce(&Reports)) {
        if let Some(reports) = &self.reports {
            news(reports);
        }
    }

    /// Whether a CDI spec is missing: its container could not be started again.
    pub(super) fn lacks_specs(&self) -> bool {
        let there = |id: &str| self.cdi.exists(id);
        !there(COMMON) || !self.checkpoint.claims().keys().all(|uid| there(uid))
    }

    /// Writes all CDI specs that are not as they should be.
    pub(super) fn restore_specs(&self, names: &Names) -> Result<(), CdiError> {
        // Not when another instance has unprepared what this one thought to be prepared.
        if self.lacks_specs() {
            tracing::warn!("somebody removed CDI specs; they are written again");
        }
        self.ensure_common(names)?;
        self.checkpoint.claims().values().try_for_each(|claim| self.ensure_spec(claim))
    }

    /// The folder may have been wiped while the driver runs.
    fn ensure_common(&self, names: &Names) -> Result<(), CdiError> {
        let spec = names.common()?;
        if self.cdi.holds(COMMON, &spec) { Ok(()) } else { self.cdi.write(COMMON, &spec) }
    }

    fn ensure_spec(&self, claim: &PreparedClaim) -> Result<(), CdiError> {
        let spec = claim.spec(self.cdi.kind())?;
        if self.cdi.holds(&claim.uid, &spec) { Ok(()) } else { self.cdi.write(&claim.uid, &spec) }
    }
}

fn still_there(prepared: &PreparedClaim, devices: &BTreeMap<String, NodeDevice>) -> Result<(), PrepareError> {
    match prepared.devices.iter().find(|device| !devices.contains_key(&device.device)) {
        Some(gone) => Err(PrepareError::Gone { claim: prepared.uid.clone(), device: gone.device.clone() }),
        None => Ok(()),
    }
}
