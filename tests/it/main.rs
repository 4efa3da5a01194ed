//! The one integration-test binary.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests too")]

mod driver;
mod layers;
mod protos;
