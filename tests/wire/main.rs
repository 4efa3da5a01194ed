//! Outsiders on the embedded lab: real kubectl, Kubernetes' own DRA test driver, the replayed recordings.
//!
//! Not part of plain `cargo test`: `.ci/run` calls `cargo test --test wire` with `DRALAB_TEST_BIN` (a folder with kubectl and
//! dra-test-driver) and `DRALAB_TEST_RECORDINGS`. Without them these tests fail; they never skip.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests are tests too, and these are told by the environment"
)]

#[path = "../support/mod.rs"]
mod support;

mod kubectl;
mod outsiders;
