//! dralab: a lab for learning and debugging Kubernetes Dynamic Resource Allocation (DRA).
//!
//! The layers, from bottom to top; this is also the reading order. A module may use the modules before it
//! and never one after it (`tests/it/layers.rs` reads the `use` lines and fails on an edge that goes up).
//!
//! | layer | module | what it owns |
//! |---|---|---|
//! | ground | [`base`] | errors as data, the clock |
//! | words | [`model`] | DRA's terms over the API types: quantities, versions, pools, node selection, feature gates |
//! | pure reasoning | [`cel`] | device selectors: parser, checker, cost, evaluator |
//! | | [`allocator`] | the structured allocator of Kubernetes 1.37 |
//! | | [`validation`] | the API server's rules for objects, with its wording |
//! | | [`lint`] | selectors and manifests judged before anything runs: verdicts, traps, advice |
//! | | [`scheduling`] | what the scheduler decides, as a state machine over a snapshot |
//! | | [`timeline`] | states of a claim and the transitions between them |
//! | | [`explain`] | why a claim or a pod is as it is, and what would make it fit |
//! | reaching out | [`client`] | how an API server is reached |
//! | two machines | [`driver`] | the DRA driver that a kubelet runs |
//! | | [`embedded`] | a Kubernetes API, scheduler, controllers and node agents in one process |
//! | life cycle | [`cluster`] | bring a lab up and down |
//! | use cases | [`lessons`] | lessons, checks, verify, progress |
//! | | [`doctor`] | what is wrong with machine, tools, lab and cluster, and what to do |
//! | | [`cases`] | answers the shared case files (`dralab dev cases`) |
//! | terminal | [`ui`] | text catalogue, tables, rendering |
//! | | [`cli`] | arguments, wiring, exit codes |
//!
//! Nothing below [`client`] does IO, reads a clock or the environment, or is async.

pub mod base;
pub mod model;

pub mod allocator;
pub mod cel;
pub mod explain;
pub mod lint;
pub mod scheduling;
pub mod timeline;
pub mod validation;

pub mod client;

pub mod driver;
pub mod embedded;

pub mod cluster;

pub mod cases;
pub mod doctor;
pub mod lessons;

pub mod cli;
pub mod ui;
