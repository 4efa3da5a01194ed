//! The objects of one kind as a stream of changes that never breaks: list, watch, and list again when the watch has
//! fallen behind.

use std::collections::{HashMap, VecDeque};

use crate::embedded::api::{Api, ChangeKind, Object, Resource, Status, Watch, meta};

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// It is there, or is another than it was (`None`: it was not known).
    Changed(Object, Option<Object>),
    /// It is gone; its last known state.
    Gone(Object),
}

/// Follows one kind in all namespaces.
#[derive(Debug)]
pub(super) struct Informer {
    api: Api,
    resource: &'static Resource,
    watch: Watch,
    known: HashMap<(String, String), Object>,
    pending: VecDeque<Event>,
}

impl Informer {
    /// Lists the kind and watches it from there on. The listed objects come first.
    ///
    /// # Errors
    /// The API cannot list or watch.
    pub(super) fn new(api: Api, resource: &'static Resource) -> Result<Self, Status> {
        let list = api.list(resource, "")?;
        let watch = api.watch(resource, "", list.revision)?;
        let mut informer = Informer { api, resource, watch, known: HashMap::new(), pending: VecDeque::new() };
        informer.replace(list.items);
        Ok(informer)
    }

    /// The next change; `None` when the store has closed. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            match self.watch.next().await? {
                Ok(change) => {
                    let key = key(&change.object);
                    let event = match change.kind {
                        ChangeKind::Deleted => {
                            self.known.remove(&key);
                            Event::Gone(change.object)
                        }
                        _ => {
                            let previous = self.known.insert(key, change.object.clone());
                            Event::Changed(change.object, previous)
                        }
                    };
                    self.pending.push_back(event);
                }
                Err(status) => {
                    tracing::debug!(%status, kind = self.resource.kind, "watch fell behind, listing again");
                    let list = self.api.list(self.resource, "").ok()?;
                    self.watch = self.api.watch(self.resource, "", list.revision).ok()?;
                    self.replace(list.items);
                }
            }
        }
    }

    fn replace(&mut self, items: Vec<Object>) {
        let mut gone = std::mem::take(&mut self.known);
        for object in items {
            let previous = gone.remove(&key(&object));
            self.known.insert(key(&object), object.clone());
            self.pending.push_back(Event::Changed(object, previous));
        }
        self.pending.extend(gone.into_values().map(Event::Gone));
    }
}

fn key(object: &Object) -> (String, String) {
    (meta::namespace(object).to_owned(), meta::name(object).to_owned())
}
