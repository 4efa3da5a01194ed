//! The life of a pod on a node: one worker per pod (the kubelet's pod workers and `syncPod`).

mod adopt;
pub mod environment;
mod processes;
pub mod release;
mod report;
pub mod runtime;
pub mod status;
mod worker;

pub(super) use worker::{RETRY, Worker};
