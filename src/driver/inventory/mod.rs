//! What devices a node has. The driver asks through [`Inventory`]; where the answer comes from is the
//! inventory's business (a simulation today, a vendor library later).

use std::fmt;

use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::resource::v1::Device;
use serde::Deserialize;

use super::cdi::ContainerEdits;

mod profile;
mod simulated;
#[cfg(test)]
mod tests;
mod told;

pub use profile::{Profile, ProfileError, SliceNames};
pub use simulated::Simulated;
pub(super) use told::told;

/// One device of this node: what the cluster is told about it, and what a container that gets it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDevice {
    /// As it is published in a ResourceSlice. The name is unique in the pool.
    pub published: Device,
    /// What a container needs besides the environment that the driver sets: device nodes and so on. Empty for
    /// simulated devices.
    pub edits: ContainerEdits,
    /// How it is.
    pub health: DeviceHealth,
}

/// How a device is. A well one needs no words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceHealth {
    /// In one word.
    #[serde(rename = "health")]
    pub state: Health,
    /// For people; the kubelet cuts it after 1024 characters.
    #[serde(default)]
    pub message: String,
}

/// A device's health, as the kubelet's health service knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Health {
    /// It can be used.
    #[default]
    Healthy,
    /// It cannot.
    Unhealthy,
    /// Nobody can tell.
    Unknown,
}

/// A source of devices.
pub trait Inventory: Send + Sync + fmt::Debug {
    /// The devices as they are now, in the order in which they are to be published.
    ///
    /// # Errors
    /// When the devices cannot be enumerated; the driver keeps what it published and asks again.
    fn devices(&self) -> Result<Vec<NodeDevice>, InventoryError>;

    /// Yields each time [`Inventory::devices`] may answer differently. Inventories that never change need not
    /// implement it.
    fn changes(&self) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }
}

/// The devices of a node could not be enumerated.
#[derive(Debug, thiserror::Error)]
#[error("cannot enumerate devices: {0}")]
pub struct InventoryError(pub String);
