//! DRA's words over the API types of `k8s-openapi` (`resource.k8s.io/v1`): no IO, no clock, no async.

mod decimal;
pub mod quantity;
pub mod semver;
