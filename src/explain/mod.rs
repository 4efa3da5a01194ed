//! Why a claim or a pod is as it is: data in, data out.
//!
//! [`explain`] takes the objects of a cluster ([`Objects`]) and a [`Target`], and gives an [`Explanation`]: the verdict, per
//! node what each device answered, the causes, and what would make it fit. It is the scheduler's own code that decides
//! ([`crate::scheduling`], [`crate::allocator`]); nothing here guesses. A cause is named only if taking it away, in a copy
//! of the input, changes the outcome ([`cause`]); a suggestion only if the allocator, asked again with it, found devices
//! ([`cures`]). Sentences are not made here: a [`Finding`] is a reason with values, and `ui::explain` words it.
//!
//! | file | what it owns |
//! |---|---|
//! | [`objects`] | the objects by kind, from the API or from files |
//! | [`reason`] | the stable reasons |
//! | [`finding`] | reasons with values, and the explanation that they make up |
//! | [`problem`] | one node's allocation problem |
//! | [`edit`] | every change of it that is tried |
//! | [`cause`] | the smallest set of changes after which it fits |
//! | [`describe`] | a cause in values: which selector, which value, who uses what |
//! | `shortage` | what is short by how much, which values disagree |
//! | [`selector`] | the part of a selector that was false, with the values seen |
//! | [`names`] | names that nobody publishes, the nearest that somebody does, and how often |
//! | [`nodes`] | what every node answers, like nodes together |
//! | [`cures`] | what would make it fit, each tried |
//! | `rewrite` | selectors in other words |
//! | [`luck`] | what works only by the order of devices |
//! | [`allocated`] | which devices a claim has and why these |
//! | [`lifecycle`] | causes that are not the scheduler's |
//! | [`quotes`] | Kubernetes' own words |
//! | [`verdict`] | all of it together |

pub mod allocated;
pub mod cause;
pub mod cures;
pub mod describe;
pub mod edit;
pub mod finding;
pub mod lifecycle;
pub mod luck;
pub mod names;
pub mod nodes;
pub mod objects;
pub mod problem;
pub mod quotes;
pub mod reason;
mod rewrite;
pub mod selector;
mod shortage;
pub mod verdict;

pub use finding::{Explanation, Finding};
pub use objects::{Objects, Target};
pub use reason::Reason;
pub use verdict::explain;
