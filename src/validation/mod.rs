//! The API server's rules, with its paths and wording, apart from any server: what a manifest may say.
//!
//! | what | module |
//! |---|---|
//! | the kinds and their fields | [`resource`], [`schema`] |
//! | reading strictly: unknown fields, wrong types | `decode` |
//! | faults as data | [`field`] |
//! | metadata, names | `meta`, `names` |
//! | claims and templates, classes, slices | `device_claim`, `class`, `slice`, `device`, `capacity` |
//! | pods | `pod`, `pod_spec`, `pod_resources` |
//! | all of it, for an object of a file | [`offline`] |
//!
//! Order and text of the faults are those of `pkg/apis/{core,resource}/validation` and of the declarative rules of the API types.

pub mod field;
pub mod offline;
pub mod resource;
pub mod schema;

pub(crate) mod capacity;
pub(crate) mod class;
pub(crate) mod decode;
pub(crate) mod device;
pub(crate) mod device_claim;
pub(crate) mod go;
pub(crate) mod json;
pub(crate) mod meta;
pub(crate) mod names;
pub(crate) mod node_selector;
pub(crate) mod pod;
pub(crate) mod pod_resources;
pub(crate) mod pod_spec;
pub(crate) mod slice;
