//! The context backend: a lab on a cluster that was there before, any Kubernetes of 1.34 or newer.
//!
//! | file | its part |
//! |---|---|
//! | [`kubeconfig`] | one context of the user's kubeconfig files, flattened into a file of the lab's own |
//! | [`survey`] | what is there before anything is made, and why a lab would be refused |
//! | [`probes`] | which of DRA's gates are on, as far as can be told |
//! | [`images`] | images on nodes that are containers of this machine |
//! | [`up`] | the steps: record, images, installation, readiness |
//! | [`down`] | exactly that, taken away again |
//!
//! The user's kubeconfig and its current context are read and never written.

pub mod down;
pub mod images;
pub mod kubeconfig;
pub mod probes;
pub mod survey;
pub mod up;

pub use down::{Downed, down};
pub use survey::Survey;
pub use up::{Plan, Wanted, plan, up};
