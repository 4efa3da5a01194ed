//! The DRA driver that a kubelet runs.
//!
//! [`run`] is one driver on one node: it publishes the node's devices as ResourceSlices ([`publish`]), registers
//! with the kubelet and serves the DRA plugin API over Unix sockets ([`grpc`]), prepares claims ([`prepare`]) and
//! tells the container runtime through CDI specs ([`cdi`]). The devices come from an [`Inventory`].
//!
//! A real kubelet and the embedded node agent run the same code.

pub mod cdi;
mod config;
mod error;
mod files;
pub mod grpc;
pub mod inventory;
pub mod prepare;
mod publish;
mod run;
mod status;
#[cfg(test)]
mod testing;

pub use config::{DEFAULT_DRIVER_NAME, DriverConfig, Folders};
pub use error::DriverError;
pub use inventory::{Inventory, Profile, Simulated};
pub use run::run;
pub use status::{DriverStatus, Registered};
