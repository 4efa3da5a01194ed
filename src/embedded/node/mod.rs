//! The node agent: what a kubelet does for DRA, with simulated containers.

pub mod container;
