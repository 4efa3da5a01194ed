//! What the checks look at: plain values, gathered before any check runs. Each part may be missing, with the reason.

mod cluster;
mod objects;

pub use cluster::{Cluster, Dropped, Probe};
pub use objects::*;

use jiff::Timestamp;
use serde::Serialize;

use crate::doctor::Blind;

/// A fact, or why it is not there.
pub type Part<T> = Result<T, Blind>;

/// Everything that was gathered.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// When it was gathered, by this machine's clock.
    pub now: Timestamp,
    /// The cluster.
    pub cluster: Part<Cluster>,
}

impl Facts {
    /// The cluster's objects of a kind, by its plural name.
    ///
    /// # Errors
    /// Why they are not there.
    pub fn list(&self, plural: &str) -> Part<&[serde_json::Value]> {
        self.cluster.as_ref().map_err(Clone::clone)?.list(plural)
    }

    /// The cluster.
    ///
    /// # Errors
    /// Why it is not there.
    pub fn cluster(&self) -> Part<&Cluster> {
        self.cluster.as_ref().map_err(Clone::clone)
    }
}
