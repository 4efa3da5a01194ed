//! Collects the facts: bounded, in parallel, and what cannot be had carries its reason. Nothing is changed anywhere.

mod cluster;
mod probe;

pub use cluster::cluster;

use crate::base::clock::Clock;
use crate::doctor::facts::{Cluster, Facts, Part};

/// All facts, given what was seen of the cluster.
#[must_use]
pub fn facts(clock: &dyn Clock, cluster: Part<Cluster>) -> Facts {
    Facts { now: clock.now(), cluster }
}
