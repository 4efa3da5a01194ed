//! The node agent: what a kubelet does for DRA, with simulated containers.
//!
//! [`agent`] starts it; [`feed`] and [`folders`] tell it of pods and of drivers' sockets; [`plugins`] are the drivers of
//! the node, [`dra`] prepares claims with them, [`cdi`] reads what they wrote; [`pod`] is the life of one pod and
//! [`container`] the interpreter of what its containers run.
//!
//! Not simulated: images (any image is present), volumes, networks, probes, hooks, resource limits, and the device
//! nodes and mounts of CDI devices (only their environment is given).

pub mod agent;
pub mod cdi;
pub mod container;
pub mod dra;
pub mod feed;
pub mod folders;
pub mod object;
pub mod plugins;
pub mod pod;

pub use agent::{NodeAgent, NodeConfig, NodeError, NodeServices};
pub use object::KUBELET_VERSION;

/// A time as Kubernetes writes it: whole seconds, UTC.
pub(crate) fn seconds(at: jiff::Timestamp) -> String {
    crate::embedded::api::meta::seconds(at)
}

#[cfg(test)]
mod tests;
