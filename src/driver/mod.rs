//! The DRA driver that a kubelet runs.
//!
//! [`run`] is one driver on one node: it publishes the node's devices as ResourceSlices ([`publish`]), registers
//! with the kubelet and serves the DRA plugin API over Unix sockets ([`grpc`]), prepares claims ([`prepare`]),
//! tells the container runtime through CDI specs ([`cdi`]) and the claims in their status ([`report`]). The devices come from an [`Inventory`].
//!
//! While a DaemonSet rolls out a new version, two instances run side by side on a node: [`instance`] names their
//! sockets, [`lock`] has them take turns with checkpoint and CDI specs, [`current`] says which of them publishes.
//!
//! A real kubelet and the embedded node agent run the same code.

pub mod cdi;
mod config;
mod current;
mod error;
mod files;
pub mod grpc;
mod instance;
pub mod inventory;
mod lock;
pub mod prepare;
mod probes;
mod publish;
mod report;
mod run;
mod served;
mod status;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use config::{DEFAULT_DRIVER_NAME, DriverConfig, Folders};
pub use error::DriverError;
pub use inventory::{Inventory, Profile, Simulated};
pub use run::run;
pub use status::{DriverStatus, Part, Registered};
