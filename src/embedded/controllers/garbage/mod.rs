//! The garbage collector (`pkg/controller/garbagecollector`): objects whose owners are gone are deleted; deletion in the
//! foreground waits for dependents; orphaning lets them go. Owners are told apart by uid, and an owner that the graph
//! does not know is looked up before anything is deleted for its absence.

use std::pin::Pin;

use futures::stream::{self, Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::informer::{Event, Informer};
use super::queue::Queue;
use crate::base::clock::SharedClock;
use crate::embedded::api::resource::{EVENTS, RESOURCES};
use crate::embedded::api::{Api, Caller, Object, Resource, Status, meta};

mod collect;
mod graph;
#[cfg(test)]
mod tests;

use graph::{Graph, owners};

/// What there is to look at, by uid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// An object that may have lost its owners.
    Dependent(String),
    /// An object that waits for its dependents.
    Foreground(String),
    /// An object whose dependents are to be orphaned.
    Orphan(String),
}

struct Collector {
    api: Api,
    caller: Caller,
    graph: Graph,
    queue: Queue<Key>,
}

type Changes = Pin<Box<dyn Stream<Item = (&'static Resource, Event)> + Send>>;

/// Runs the controller until shutdown or until the store closes.
///
/// # Errors
/// The API cannot list or watch.
pub(super) async fn run(api: Api, clock: SharedClock, shutdown: CancellationToken) -> Result<(), Status> {
    let mut kinds = Vec::new();
    // Events neither own nor are owned.
    for resource in RESOURCES.iter().copied().filter(|resource| *resource != &EVENTS) {
        let informer = Informer::new(api.clone(), resource)?;
        let changes = stream::unfold(informer, move |mut informer| async move {
            let event = informer.next().await?;
            Some(((resource, event), informer))
        });
        kinds.push(Box::pin(changes) as Changes);
    }
    let mut changes = stream::select_all(kinds);
    let mut collector = Collector { api, caller: super::caller(), graph: Graph::default(), queue: Queue::new(clock) };
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            change = changes.next() => match change {
                Some((resource, event)) => collector.observe(resource, event),
                None => return Ok(()),
            },
            key = collector.queue.next() => {
                let result = collector.work(&key);
                collector.queue.done(key, result);
            }
        }
    }
}

impl Collector {
    fn observe(&mut self, resource: &'static Resource, event: Event) {
        match event {
            Event::Changed(object, previous) => self.changed(resource, &object, previous.as_ref()),
            Event::Gone(object) => self.gone(&object),
        }
    }

    fn changed(&mut self, resource: &'static Resource, object: &Object, previous: Option<&Object>) {
        // A name that was taken over by another object: the one before is gone.
        if let Some(previous) = previous.filter(|previous| meta::uid(previous) != meta::uid(object)) {
            self.gone(previous);
        }
        let uid = meta::uid(object).to_owned();
        let had = previous.map(|previous| owners(previous));
        self.graph.set(resource, object);
        let Some(node) = self.graph.get(&uid) else { return };
        let new_owners = had.as_ref() != Some(&node.owners);
        if !node.owners.is_empty() && new_owners {
            self.queue.add(Key::Dependent(uid.clone()));
        }
        let (foreground, orphaning) = (node.foreground, node.orphaning);
        if let Some(had) = had.filter(|_| new_owners) {
            // An owner that waits for this object may have to wait no longer.
            self.recheck_owners(had.into_iter().map(|owner| owner.uid));
        }
        if orphaning {
            self.queue.add(Key::Orphan(uid));
        } else if foreground {
            for dependent in self.graph.dependents(&uid) {
                self.queue.add(Key::Dependent(dependent));
            }
            self.queue.add(Key::Foreground(uid));
        }
    }

    fn gone(&mut self, object: &Object) {
        let uid = meta::uid(object).to_owned();
        let owners = self.graph.remove(&uid).map(|node| node.owners).unwrap_or_default();
        for dependent in self.graph.dependents(&uid) {
            self.queue.add(Key::Dependent(dependent));
        }
        self.recheck_owners(owners.into_iter().map(|owner| owner.uid));
    }

    fn recheck_owners(&mut self, owners: impl Iterator<Item = String>) {
        for owner in owners {
            if self.graph.get(&owner).is_some_and(|node| node.foreground) {
                self.queue.add(Key::Foreground(owner));
            }
        }
    }

    fn work(&mut self, key: &Key) -> Result<(), Status> {
        match key {
            Key::Dependent(uid) => self.collect(uid),
            Key::Foreground(uid) => self.release(uid),
            Key::Orphan(uid) => self.orphan(uid),
        }
    }
}
