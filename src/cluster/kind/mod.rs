//! The kind backend: a real cluster in containers, made by the user's `kind`.
//!
//! | file | what |
//! |---|---|
//! | `image` | which node image: by name or Kubernetes version; digests and where they were seen |
//! | `config` | the configuration that kind gets, as text |
//! | `tool` | kind itself: found, its version, run |
//! | `causes` | what foreign programs write when they fail, and what to do |

pub mod causes;
pub mod config;
pub mod image;
pub mod tool;
