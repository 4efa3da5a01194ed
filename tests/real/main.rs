//! A real Kubernetes: kind clusters, real kubelets, real schedulers.
//!
//! Not part of plain `cargo test`: `.ci/run` and `just real` call `cargo test --test real`. A harness of its own, because the scenes
//! share clusters that take half a minute to make: they run in order, each is told as passed or failed, and whatever was made is removed
//! at the end. A name on the command line runs the scenes whose names contain it (and what they need).
//!
//! What it is told by the environment:
//!
//! | variable | what |
//! |---|---|
//! | `DOCKER_HOST` | the engine, as for Docker's own command |
//! | `DRALAB_TEST_BIN` | a folder with kind, kubectl and dra-test-driver; else they are looked for on the PATH |
//! | `DRALAB_KIND_IMAGE` | node image; else the one that `dralab up` chooses |
//! | `DRALAB_WORKLOAD_IMAGE` | image that is loaded as `ubuntu:24.04`; else that one itself is |
//! | `DRALAB_TEST_DRALAB` | the dralab to test; else the one that cargo built |
//! | `DRALAB_TEST_RECORDINGS` | recordings of a real cluster, with their tools; the scenes `recording-…` fail without it |
//! | `DRALAB_TEST_LAB` | name of the lab; the recordings know only `dra-lab`, which is not the default lest it meets a lab of yours |
//! | `DRALAB_TEST_LOGS` | a folder for logs of failed scenes; else one in the temporary folder |

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and these are told by the environment and tell what they do"
)]

mod chaos;
mod cluster;
mod context;
mod failures;
mod lab;
mod outsiders;
#[path = "../support/ran.rs"]
mod ran;
mod recordings;
mod scenes;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if std::env::args().any(|word| word == "--list") {
        for scene in scenes::all() {
            println!("{}: test", scene.name);
        }
        return ExitCode::SUCCESS;
    }
    scenes::play(&words)
}
