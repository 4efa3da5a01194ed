//! What can be said of selectors and manifests before anything runs: what the API server would answer, what the published
//! devices make of it, and the traps in between, as findings with a stable id.
//!
//! | step | module |
//! |---|---|
//! | objects of older API versions as v1 has them | [`convert`] |
//! | where the selectors of an object are | [`places`] |
//! | the devices of all slices, in the order in which the allocator tries them | [`fleet`] |
//! | a selector: verdict, cost, answers of the devices, traps (`dralab cel`) | [`selector`] |
//! | manifests: versions, fields, the API server's validation, gates, references (`dralab lint`) | [`manifest`] |
//!
//! Findings are data: an id, where, and the values that a sentence of the text catalogue needs. Each proposed rewrite was
//! compiled and evaluated on the same devices before it is proposed.

pub mod convert;
pub mod fleet;
pub mod manifest;
pub mod places;
pub mod selector;
