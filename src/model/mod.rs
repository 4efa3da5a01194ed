//! DRA's words over the API types of `k8s-openapi` (`resource.k8s.io/v1`): no IO, no clock, no async.

pub mod attribute;
mod decimal;
pub mod features;
pub mod gates;
pub mod ids;
pub mod node_selector;
pub mod quantity;
pub mod semver;
pub mod taint;
