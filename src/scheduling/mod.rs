//! What the scheduler decides, as a state machine over a snapshot and a given time (design, decision 9).
//!
//! No IO, no clock, no async: [`Machine`] is fed [`Change`]s and a time, and answers with [`Attempt`]s, each with its
//! [`Decision`] and the [`Plan`] of writes that carries it out. `whatif`, `compare` and `explain` run the same code
//! on other snapshots.
//!
//! | file | what it owns |
//! |---|---|
//! | [`view`] | pods, nodes and claims as the scheduler reads them |
//! | [`resources`] | requested and allocatable amounts |
//! | [`change`] | one observed change of an object |
//! | [`snapshot`] | all objects, what is charged to each node, allocations in flight |
//! | [`queue`] | active, back-off and unschedulable pods |
//! | [`hints`] | which pods a change may help |
//! | [`filters`] | kube-scheduler's filters in its order and words |
//! | [`claims`] | the DynamicResources plugin: PreEnqueue, PreFilter, Filter, PostFilter |
//! | [`score`] | which of the nodes that fit is taken |
//! | [`message`] | the sentence of a pod that fits nowhere |
//! | [`decide`] | one pod against one snapshot |
//! | [`attempt`] | the record of one attempt |
//! | [`plan`] | the writes of a decision and how each changes its object |
//! | [`machine`] | all of it together |

pub mod attempt;
pub mod change;
pub mod claims;
pub mod decide;
pub mod filters;
pub mod hints;
pub mod machine;
pub mod message;
pub mod plan;
#[cfg(test)]
mod properties;
pub mod queue;
#[cfg(test)]
mod recordings;
pub mod resources;
pub mod score;
pub mod snapshot;
pub mod view;
#[cfg(test)]
mod world;

pub use attempt::{Attempt, Decision, NodeVerdict, Verdict};
pub use change::{Change, ChangeError};
pub use machine::{Machine, Settings};
pub use plan::{Plan, Write, WriteError};
pub use view::{Key, PodRef, Uid};
