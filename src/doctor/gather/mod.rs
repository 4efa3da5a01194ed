//! Collects the facts: bounded, in parallel, and what cannot be had carries its reason. Nothing is changed anywhere.

mod cluster;
mod probe;

pub use cluster::cluster;
