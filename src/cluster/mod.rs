//! Bring a lab up and down: the lab's record on disk, its folders, and the backends.
//!
//! Today there is the embedded backend; a kind cluster and an existing context plug in beside [`embedded`].

pub mod embedded;
pub mod error;
pub mod folders;
pub mod install;
pub mod process;
pub mod record;
pub mod serve;
pub mod sockets;

pub use error::ClusterError;
pub use folders::{Home, LabFolder};
pub use record::{LabRecord, LabSpec, NodeRecord};
