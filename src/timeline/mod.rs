//! States of claims, pods and slices, and the transitions between them, read from objects alone.
//!
//! A [`Transition`] comes from two states of one object ([`between`]): what happened, from which state word to which,
//! when, and who made it. Who and when are derived ([`author`]) from managedFields, conditions and timestamps, and each
//! says what it was derived from; what nothing tells stays empty.

pub mod author;
pub mod state;
mod transition;

pub use author::{Author, Basis};
pub use transition::{ObjectName, Step, Transition, between};
