//! Bring a lab up and down: the lab's record on disk, its folders, and the backends.
//!
//! Three backends: [`embedded`], a cluster of its own in containers, and a cluster that was there before.

pub mod context;
pub mod embedded;
pub mod engine;
pub mod error;
pub mod folders;
pub mod image;
pub mod install;
pub mod kind;
pub mod process;
pub mod record;
pub mod serve;
pub mod sockets;
pub mod steps;

pub use error::ClusterError;
pub use folders::{Home, LabFolder};
pub use record::{Backend, ContextRecord, KindRecord, LabRecord, LabSpec, NodeRecord};
