//! The one integration-test binary.

mod layers;
