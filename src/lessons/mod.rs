//! Lessons, checks, verify, the journal and progress.
//!
//! A lesson is data: structure in `lesson.yaml`, prose in `en.md` and `zh.md`, manifests beside them. Everything here
//! holds a `kube::Client` and cannot tell which backend is behind it.

pub mod actions;
pub mod check;
pub mod diagnose;
pub mod error;
pub mod format;
pub mod journal;
pub mod library;
pub mod lint;
pub mod needs;
pub mod progress;
pub mod prose;
pub mod run;
pub mod session;
pub mod template;
pub mod transit;
pub mod verify;
pub mod view;

pub use error::LessonError;
pub use format::Lesson;
pub use library::Library;
