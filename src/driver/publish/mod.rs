//! Publishing: the driver's ResourceSlices are kept as they should be.
//!
//! What should be comes from the inventory ([`pool`]), what is from a list and a watch, what to do from [`plan`],
//! and when from [`pace`]. Slices that somebody edits or deletes are repaired as soon as the watch tells.

mod pace;
mod plan;
mod pool;
mod slices;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
use kube::Client;
use kube::core::WatchEvent;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::current::Current;
use super::inventory::Inventory;
use super::status::{DriverStatus, Part, trouble};
use crate::base::clock::SharedClock;
use pace::{Backoff, Repairs};
use plan::{plan, same};
use slices::{ApiError, Slices};

pub(crate) use pool::PoolIdentity;

/// A watch that brings nothing and ends sooner than this is treated as a failed call.
const SHORT_WATCH: Duration = Duration::from_secs(1);
/// A watch is opened again when the server has not ended it by then (it ends them after 290 s itself).
const LONGEST_WATCH: Duration = Duration::from_secs(300);

/// How often an instance that does not publish looks whether it should.
const STANDBY: Duration = Duration::from_secs(1);

/// Keeps the slices of one pool. Owns one task ([`Publisher::run`]).
#[derive(Debug)]
pub(crate) struct Publisher {
    identity: PoolIdentity,
    inventory: std::sync::Arc<dyn Inventory>,
    clock: SharedClock,
    status: watch::Sender<DriverStatus>,
    slices: Slices,
    /// The devices of each slice, as wanted and, where the server keeps only part of it, as it can be had.
    desired: Option<Vec<Vec<Device>>>,
    /// Whether [`plan`] may have something to do.
    dirty: bool,
    not_before: Option<Timestamp>,
    repairs: Repairs,
    reads: Backoff,
    writes: Backoff,
    /// Among several instances of the driver: whether it is this one that publishes.
    current: Option<Current>,
}

/// What became of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrote {
    /// All is as it should be.
    Nothing,
    /// It was carried out.
    Slices,
    /// Another instance publishes.
    NotNow,
}

/// Why a watch is not followed any further.
enum Next {
    List,
    Watch,
}

impl Publisher {
    pub(crate) fn new(
        identity: PoolIdentity,
        inventory: std::sync::Arc<dyn Inventory>,
        client: Client,
        clock: SharedClock,
        status: watch::Sender<DriverStatus>,
    ) -> Self {
        let slices = Slices::new(&identity, client, std::sync::Arc::clone(&clock));
        Publisher {
            identity,
            inventory,
            clock,
            status,
            slices,
            desired: None,
            dirty: true,
            not_before: None,
            repairs: Repairs::default(),
            reads: Backoff::default(),
            writes: Backoff::default(),
            current: None,
        }
    }

    /// One of several instances, of which only the current one writes.
    pub(crate) fn among(mut self, current: Option<Current>) -> Self {
        self.current = current;
        self
    }

    /// Publishes until `stop`. The slices stay then.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut changes = self.inventory.changes();
        self.enumerate();
        // Every await below is a place where it may be stopped; a write that is under way is finished by the server
        // or not, and the next start sees what became of it.
        let _ = stop.run_until_cancelled(self.keep(&mut changes)).await;
    }

    async fn keep(&mut self, changes: &mut BoxStream<'static, ()>) {
        loop {
            match self.slices.list().await {
                Ok(()) => {
                    self.reads.went_well();
                    self.dirty = true;
                }
                Err(error) => {
                    self.read_failed("list", &error).await;
                    continue;
                }
            }
            while let Next::Watch = self.follow(changes).await {}
        }
    }

    /// Follows one watch to its end.
    async fn follow(&mut self, changes: &mut BoxStream<'static, ()>) -> Next {
        let mut events = match self.slices.watch().await {
            Ok(events) => events,
            // History that is too old is nothing to wait for.
            Err(error) if error.is_gone() => return Next::List,
            Err(error) => {
                self.read_failed("watch", &error).await;
                return Next::Watch;
            }
        };
        // What was in trouble may be well again; an empty plan says so.
        self.dirty = true;
        let opened = self.clock.now();
        let mut seen = false;
        let mut expired = self.clock.sleep(LONGEST_WATCH);
        loop {
            // All that has come already, before anything is decided on it.
            let mut event = events.next().now_or_never();
            if event.is_none() {
                let wake = self.synchronise().await;
                event = tokio::select! {
                    event = events.next() => Some(event),
                    change = changes.next() => {
                        if change.is_none() {
                            *changes = futures::stream::pending().boxed();
                        }
                        self.enumerate();
                        None
                    }
                    () = wake => None,
                    () = &mut expired => return Next::Watch,
                };
            }
            match event {
                None => {}
                Some(Some(Ok(event))) => {
                    seen = true;
                    self.reads.went_well();
                    if let Some(next) = self.take(event).await {
                        return next;
                    }
                }
                Some(Some(Err(error))) => {
                    self.read_failed("watch", &error).await;
                    return Next::Watch;
                }
                Some(None) => {
                    // Servers end watches now and then; one that does so at once must not be asked in a loop.
                    let lived = Duration::try_from(self.clock.now().duration_since(opened)).unwrap_or_default();
                    if seen || lived >= SHORT_WATCH {
                        self.reads.went_well();
                    } else {
                        let delay = self.reads.failed();
                        self.clock.sleep(delay).await;
                    }
                    return Next::Watch;
                }
            }
        }
    }

    /// Takes an event of the watch in.
    async fn take(&mut self, event: WatchEvent<ResourceSlice>) -> Option<Next> {
        match event {
            WatchEvent::Added(slice) | WatchEvent::Modified(slice) => self.dirty |= self.slices.stored(slice),
            WatchEvent::Deleted(slice) => self.dirty |= self.slices.deleted(&slice),
            WatchEvent::Bookmark(bookmark) => self.slices.seen(&bookmark.metadata.resource_version),
            WatchEvent::Error(status) => {
                let error = ApiError::from(kube::Error::Api(status));
                let next = if error.is_gone() { Next::List } else { Next::Watch };
                // History that is too old is nothing to worry about.
                if !error.is_gone() {
                    self.read_failed("watch", &error).await;
                }
                return Some(next);
            }
        }
        None
    }

    /// Asks the inventory what should be published.
    fn enumerate(&mut self) {
        match self.inventory.devices() {
            Ok(devices) => {
                self.desired = Some(pool::split(devices.into_iter().map(|device| device.published).collect()));
                self.dirty = true;
            }
            Err(error) => self.trouble(error.to_string()),
        }
    }

    /// Writes what has to be written, if it may be now. Gives what to wait for before it is called again although
    /// nothing has changed.
    async fn synchronise(&mut self) -> BoxFuture<'static, ()> {
        if !self.dirty {
            return std::future::pending().boxed();
        }
        if let Some(not_before) = self.not_before {
            let wait = Duration::try_from(not_before.duration_since(self.clock.now())).unwrap_or_default();
            // No delay is longer than that; a clock that was set back must not make it so.
            if !wait.is_zero() && wait <= pace::LONGEST {
                return self.clock.sleep(wait);
            }
        }
        if self.desired.is_none() {
            self.enumerate();
        }
        let delay = if self.desired.is_none() {
            self.writes.failed()
        } else {
            match self.write().await {
                // It may end at any time, and then this one is to go on.
                Ok(Wrote::NotNow) => return self.clock.sleep(STANDBY),
                Ok(wrote) => {
                    self.dirty = false;
                    self.writes.went_well();
                    if wrote == Wrote::Nothing {
                        return std::future::pending().boxed();
                    }
                    self.repairs.wrote(self.clock.now())
                }
                Err(error) => {
                    self.trouble(error.to_string());
                    self.writes.failed()
                }
            }
        };
        self.not_before = self.clock.now().checked_add(delay).ok();
        if self.dirty { self.clock.sleep(delay) } else { std::future::pending().boxed() }
    }

    /// Makes a plan and carries it out.
    async fn write(&mut self) -> Result<Wrote, ApiError> {
        let Some(desired) = &mut self.desired else { return Ok(Wrote::Nothing) };
        let plan = plan(&self.identity, self.slices.all(), desired);
        let wrote = !plan.is_empty();
        // A newer instance may publish other devices; two that repair each other's slices would never end.
        if wrote
            && let Some(current) = &self.current
            && !current.is_this()
        {
            return Ok(Wrote::NotNow);
        }
        // Obsolete slices first: devices that the node no longer has must go even if the new ones are refused.
        for slice in &plan.delete {
            self.slices.delete(slice).await?;
        }
        let owner = if plan.create.is_empty() { None } else { Some(self.slices.owner(&self.identity.node).await?) };
        let (updates, creations) = (plan.update.into_iter(), plan.create.into_iter());
        for (index, slice) in updates {
            let wanted = slice.spec.clone();
            let stored = self.slices.update(slice).await?;
            settle(&mut desired[index], &wanted, &stored);
        }
        for (index, mut slice) in creations {
            slice.metadata.owner_references = owner.clone().map(|owner| vec![owner]);
            let wanted = slice.spec.clone();
            let stored = self.slices.create(slice).await?;
            settle(&mut desired[index], &wanted, &stored);
        }
        if wrote {
            tracing::info!(driver = self.identity.driver, pool = self.identity.pool, generation = plan.generation, "slices are published");
        }
        self.status.send_if_modified(|status| {
            let well = status.trouble.remove(&Part::Publishing).is_some();
            let old = status.published.replace(plan.generation);
            well || old != status.published
        });
        Ok(if wrote { Wrote::Slices } else { Wrote::Nothing })
    }

    async fn read_failed(&mut self, what: &str, error: &ApiError) {
        self.trouble(format!("{what} resourceslices: {error}"));
        let delay = self.reads.failed();
        self.clock.sleep(delay).await;
    }

    /// Something went wrong that is tried again.
    fn trouble(&self, text: String) {
        trouble(&self.status, Part::Publishing, text);
    }
}

/// A server that knows fewer fields than this build drops them; what it kept is what is wanted from then on, or
/// the slice would be written again and again.
fn settle(desired: &mut Vec<Device>, wanted: &k8s_openapi::api::resource::v1::ResourceSliceSpec, stored: &ResourceSlice) {
    if !same(&stored.spec, wanted) {
        let name = stored.metadata.name.as_deref().unwrap_or_default();
        tracing::warn!(slice = name, "the API server did not keep all fields of the devices");
        *desired = stored.spec.devices.clone().unwrap_or_default();
    }
}
