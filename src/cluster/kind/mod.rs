//! The kind backend: a real cluster in containers, made by the user's `kind`.
//!
//! | file | what |
//! |---|---|
//! | `plan` | what the lab is to be made of; what can be refused without running anything |
//! | `image` | which node image: by name or Kubernetes version; digests and where they were seen |
//! | `config` | the configuration that kind gets, as text |
//! | `tool` | kind itself: found, its version, run |
//! | `causes` | what foreign programs write when they fail, and what to do |
//! | `lab` | what the steps share |
//! | `steps` | one file for each step of `up` |
//! | `up`, `down` | the commands |

pub mod causes;
pub mod config;
pub mod down;
pub mod image;
pub mod lab;
pub mod plan;
pub mod steps;
pub mod tool;
pub mod up;

pub use down::{Downed, down, look};
pub use lab::Environment;
pub use plan::{Plan, Wanted};
pub use up::{plan_of, step_list, up};

use crate::base::failure::Kind;
use crate::cluster::ClusterError;
use crate::cluster::steps::Say;

/// A failure of this backend with its advice.
fn told(kind: Kind, id: &'static str, message: impl Into<String>, advice: Vec<Say>) -> ClusterError {
    ClusterError::Advised { message: message.into(), id, kind, causes: Vec::new(), advice }
}
