//! Who owns whom, by uid. Pure bookkeeping; what to do about it is decided elsewhere.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::embedded::api::{Resource, meta};

/// Waits for the dependents that block it before the object goes.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Makes the dependents ownerless before the object goes.
pub(super) const ORPHAN: &str = "orphan";

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// The owner waits for this object when it is deleted in the foreground.
    pub(super) blocks: bool,
}

/// `metadata.ownerReferences`.
pub(super) fn owners(object: &Value) -> Vec<Owner> {
    let text = |owner: &Value, name: &str| owner[name].as_str().unwrap_or_default().to_owned();
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|owner| Owner {
            api_version: text(owner, "apiVersion"),
            kind: text(owner, "kind"),
            name: text(owner, "name"),
            uid: text(owner, "uid"),
            blocks: owner["blockOwnerDeletion"] == true,
        })
        .collect()
}

/// What is known of an object.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) resource: &'static Resource,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) owners: Vec<Owner>,
    /// It is deleted and waits for its dependents.
    pub(super) foreground: bool,
    /// It is deleted and its dependents are to be orphaned.
    pub(super) orphaning: bool,
}

/// All objects that are owners or owned.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Takes note of an object as it is now.
    pub(super) fn set(&mut self, resource: &'static Resource, object: &Value) {
        let uid = meta::uid(object).to_owned();
        self.unlink(&uid);
        let (finalizers, deleting) = (meta::finalizers(object), meta::is_deleting(object));
        let node = Node {
            resource,
            namespace: meta::namespace(object).to_owned(),
            name: meta::name(object).to_owned(),
            owners: owners(object),
            foreground: deleting && finalizers.contains(&FOREGROUND),
            orphaning: deleting && finalizers.contains(&ORPHAN),
        };
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        self.nodes.insert(uid, node);
    }

    /// Forgets an object; what it was.
    pub(super) fn remove(&mut self, uid: &str) -> Option<Node> {
        self.unlink(uid);
        self.nodes.remove(uid)
    }

    fn unlink(&mut self, uid: &str) {
        let Some(node) = self.nodes.get(uid) else { return };
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }

    /// An object.
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The uids of what an object owns.
    pub(super) fn dependents(&self, uid: &str) -> Vec<String> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// The uids of what an object owns and must wait for.
    pub(super) fn blocking(&self, uid: &str) -> Vec<String> {
        let blocks = |dependent: &String| {
            self.nodes.get(dependent).is_some_and(|node| node.owners.iter().any(|owner| owner.uid == uid && owner.blocks))
        };
        self.dependents(uid).into_iter().filter(blocks).collect()
    }
}
