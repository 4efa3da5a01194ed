//! One observed change of an object, decoded once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use serde::Deserialize;
use serde_json::Value;

use super::view::{Key, NodeView, PodView, Uid};

/// An object that cannot be read as its kind.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {key}: {source}")]
pub struct ChangeError {
    kind: String,
    key: Key,
    source: serde_json::Error,
}

/// What an object is now, or that it is gone. Adding and modifying are the same: the state machine knows what was there.
#[derive(Clone, Debug)]
pub enum Change {
    /// A pod as it is now.
    Pod(Arc<PodView>),
    /// A pod is gone.
    PodGone(Key, Uid),
    /// A node as it is now.
    Node(Arc<NodeView>),
    /// A node is gone.
    NodeGone(String),
    /// A claim as it is now.
    Claim(Arc<ResourceClaim>),
    /// A claim is gone.
    ClaimGone(Key, Uid),
    /// A class as it is now.
    Class(Arc<DeviceClass>),
    /// A class is gone.
    ClassGone(String),
    /// A slice as it is now, with the taints of rules merged in.
    Slice(Arc<ResourceSlice>),
    /// A slice is gone.
    SliceGone(String),
}

impl Change {
    /// Reads an object of the API by its `kind`: Pod, Node, ResourceClaim, DeviceClass or ResourceSlice. `None` for
    /// kinds that the scheduler does not look at.
    ///
    /// # Errors
    /// A field of the object has another type than its kind says.
    pub fn read(object: &Value, gone: bool) -> Result<Option<Self>, ChangeError> {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let (key, uid) = (key_of(object), uid_of(object));
        if gone {
            return Ok(match kind {
                "Pod" => Some(Change::PodGone(key, uid)),
                "Node" => Some(Change::NodeGone(key.name)),
                "ResourceClaim" => Some(Change::ClaimGone(key, uid)),
                "DeviceClass" => Some(Change::ClassGone(key.name)),
                "ResourceSlice" => Some(Change::SliceGone(key.name)),
                _ => None,
            });
        }
        let read = match kind {
            "Pod" => Pod::deserialize(object).map(|pod| Change::Pod(Arc::new(PodView::read(pod)))),
            "Node" => Node::deserialize(object).map(|node| Change::Node(Arc::new(NodeView::read(node)))),
            "ResourceClaim" => ResourceClaim::deserialize(object).map(|claim| Change::Claim(Arc::new(claim))),
            "DeviceClass" => DeviceClass::deserialize(object).map(|class| Change::Class(Arc::new(class))),
            "ResourceSlice" => ResourceSlice::deserialize(object).map(|slice| Change::Slice(Arc::new(slice))),
            _ => return Ok(None),
        };
        read.map(Some).map_err(|source| ChangeError { kind: kind.to_owned(), key, source })
    }
}

/// Namespace and name of an object of the API.
#[must_use]
pub fn key_of(object: &Value) -> Key {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    Key::new(text("/metadata/namespace"), text("/metadata/name"))
}

fn uid_of(object: &Value) -> Uid {
    Uid::from(object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default())
}
