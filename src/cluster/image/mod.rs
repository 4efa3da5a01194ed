//! Images on the nodes of a kind cluster: the driver's and the lessons', without a registry.
//!
//! | file | what |
//! |---|---|
//! | `archive` | [`Archive`]: an image archive in a nameless file, streamed to as many nodes as there are |
//! | `node` | [`NodeImages`]: present, import, tag, remove on one node; [`import`] to several; [`lacking`] |
//! | `oci` | writes an image as an archive: the same content, the same bytes |
//! | `elf`, `libraries` | what a program needs in order to start in an empty image |
//! | `driver` | [`driver::prepare`] and [`driver::load`]: the image of the driver |
//! | `build` | the driver's image built by the engine from the source, where this machine's dralab cannot run on the nodes |
//! | `lesson` | [`lesson::ensure`]: the image of the lessons' pods under the name that the manifests use |

pub mod archive;
pub mod build;
pub mod driver;
pub mod elf;
pub mod error;
pub mod lesson;
pub mod libraries;
pub mod node;
pub mod oci;

#[cfg(test)]
pub(crate) mod tiny;

pub use archive::Archive;
pub use driver::{DriverImage, DriverWanted};
pub use error::ImageError;
pub use node::{NodeImages, architecture_of, import, lacking};

/// The image of the lessons' pods, as the manifests name it, in full.
pub const LESSON_IMAGE: &str = "docker.io/library/ubuntu:24.04";
/// The name of the driver's image, without its tag.
pub const DRIVER_IMAGE: &str = "dralab.local/driver";
/// Where the driver's image has dralab.
pub const DRIVER_PATH: &str = "/usr/local/bin/dralab";
