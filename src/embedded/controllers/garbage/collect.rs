//! What is done about objects without owners, and for owners on their way out.

use serde_json::{Value, json};

use super::graph::{FOREGROUND, ORPHAN, Owner, owners};
use super::{Collector, Key};
use crate::embedded::api::resource::RESOURCES;
use crate::embedded::api::{DeleteOptions, Object, Resource, Status, Subresource, WriteOptions, meta};

/// What an owner reference points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is there, or of a kind that cannot be looked up.
    Solid,
    /// It is gone, or another object has its name.
    Dangling,
    /// It is deleted and waits for its dependents.
    Waiting,
}

impl Collector {
    /// Deletes an object that has no owner left; takes references to owners that are gone from one that has.
    pub(super) fn collect(&mut self, uid: &str) -> Result<(), Status> {
        let Some(object) = self.live(uid)? else { return Ok(()) };
        if meta::is_deleting(&object) {
            return Ok(());
        }
        let owners = owners(&object);
        if owners.is_empty() {
            return Ok(());
        }
        let namespace = meta::namespace(&object);
        let mut standings = Vec::new();
        for owner in &owners {
            standings.push(self.standing(owner, namespace)?);
        }
        if standings.contains(&Standing::Solid) {
            let lost = |uid: &str| owners.iter().zip(&standings).any(|(owner, is)| owner.uid == uid && *is != Standing::Solid);
            return if standings.iter().all(|standing| *standing == Standing::Solid) {
                Ok(())
            } else {
                self.drop_owners(&object, uid, lost)
            };
        }
        let waits = standings.contains(&Standing::Waiting) && !self.graph.dependents(uid).is_empty();
        let finalizers = meta::finalizers(&object);
        let propagation = if waits || finalizers.contains(&FOREGROUND) {
            "Foreground"
        } else if finalizers.contains(&ORPHAN) {
            "Orphan"
        } else {
            "Background"
        };
        let Some(resource) = self.graph.get(uid).map(|node| node.resource) else { return Ok(()) };
        let options = DeleteOptions {
            propagation: Some(propagation.to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(meta::text(&object, "resourceVersion").to_owned()),
            ..DeleteOptions::default()
        };
        match self.api.delete(&self.caller, resource, namespace, meta::name(&object), &options) {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }

    /// Lets an object go that was deleted in the foreground, once nothing blocks it any more.
    pub(super) fn release(&mut self, uid: &str) -> Result<(), Status> {
        let blocking = self.graph.blocking(uid);
        if blocking.is_empty() {
            return self.remove_finalizer(uid, FOREGROUND);
        }
        for dependent in blocking {
            self.queue.add(Key::Dependent(dependent));
        }
        Ok(())
    }

    /// Makes dependents ownerless, then lets the object go.
    pub(super) fn orphan(&mut self, uid: &str) -> Result<(), Status> {
        for dependent in self.graph.dependents(uid) {
            if let Some(object) = self.live(&dependent)? {
                self.drop_owners(&object, &dependent, |owner| owner == uid)?;
            }
        }
        self.remove_finalizer(uid, ORPHAN)
    }

    /// An object as it is now; `None` when it is gone or its name has been taken over.
    fn live(&self, uid: &str) -> Result<Option<Object>, Status> {
        let Some(node) = self.graph.get(uid) else { return Ok(None) };
        match self.api.get(node.resource, &node.namespace, &node.name) {
            Ok(object) if meta::uid(&object) == uid => Ok(Some(object)),
            Ok(_) => Ok(None),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    fn standing(&self, owner: &Owner, namespace: &str) -> Result<Standing, Status> {
        let Some(resource) = served(owner) else { return Ok(Standing::Solid) };
        if resource.namespaced && namespace.is_empty() {
            // Nothing can be said about an owner in some namespace.
            return Ok(Standing::Solid);
        }
        match self.api.get(resource, if resource.namespaced { namespace } else { "" }, &owner.name) {
            Ok(found) if meta::uid(&found) != owner.uid => Ok(Standing::Dangling),
            Ok(found) if meta::is_deleting(&found) && meta::finalizers(&found).contains(&FOREGROUND) => Ok(Standing::Waiting),
            Ok(_) => Ok(Standing::Solid),
            Err(status) if status.is_not_found() => Ok(Standing::Dangling),
            Err(status) => Err(status),
        }
    }

    fn drop_owners(&self, object: &Object, uid: &str, lost: impl Fn(&str) -> bool) -> Result<(), Status> {
        let mut changed = (**object).clone();
        let kept: Vec<Value> = changed["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|owner| !lost(owner["uid"].as_str().unwrap_or_default()))
            .cloned()
            .collect();
        if let Some(metadata) = changed["metadata"].as_object_mut() {
            if kept.is_empty() {
                metadata.remove("ownerReferences");
            } else {
                metadata.insert("ownerReferences".to_owned(), json!(kept));
            }
        }
        self.write(uid, changed)
    }

    fn remove_finalizer(&self, uid: &str, finalizer: &str) -> Result<(), Status> {
        let Some(object) = self.live(uid)? else { return Ok(()) };
        let mut changed = (*object).clone();
        if let Some(finalizers) = changed["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|name| name != finalizer);
        }
        self.write(uid, changed)
    }

    /// Writes an object that was read before; fails if it has changed meanwhile.
    fn write(&self, uid: &str, object: Value) -> Result<(), Status> {
        let Some(node) = self.graph.get(uid) else { return Ok(()) };
        let (resource, namespace, name) = (node.resource, node.namespace.clone(), node.name.clone());
        match self.api.update(&self.caller, resource, Subresource::Main, &namespace, &name, object, &WriteOptions::default()) {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }
}

/// The resource of an owner's kind, if this API serves it.
fn served(owner: &Owner) -> Option<&'static Resource> {
    RESOURCES.iter().copied().find(|resource| resource.kind == owner.kind && resource.api_version() == owner.api_version)
}
