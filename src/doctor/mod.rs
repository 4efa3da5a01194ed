//! Looks at the machine, the tools, the lab and the cluster, and says what is wrong and what to do about it.
//!
//! 1. [`gather`] collects [`facts::Facts`]: one bounded collection, in parallel; what cannot be had carries its reason.
//! 2. [`checks::CHECKS`] is the table of checks. Each is a pure function from facts to findings, so each is tested by tables of literal facts.
//! 3. [`report::examine`] runs them. Three outcomes are kept apart: fine, found something, could not look; what does not apply says so.
//! 4. [`fix`] mends what is dralab's own; [`bundle`] packs what was seen, without secrets.

pub mod bundle;
pub mod checks;
pub mod facts;
pub mod finding;
pub mod fix;
pub mod gather;
pub mod report;

#[cfg(test)]
pub(crate) mod testing;

pub use facts::Facts;
pub use finding::{Absent, Blind, Check, Evidence, Finding, Group, Looked, Severity};
pub use fix::Fix;
pub use report::{Examined, Report, examine};
