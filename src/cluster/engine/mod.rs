//! The container engine (Docker, or podman through its Docker-compatible API), reached through the crate bollard.
//!
//! | file | what |
//! |---|---|
//! | `address` | which engine: [`EngineEnvironment`] (plain data) → [`choose`] → [`Address`] |
//! | `connect` | [`Engine::connect`]: bounded, API version checked, typed errors |
//! | `info` | [`Engine::info`]: what `doctor` and preflight want to know |
//! | `images` | inspect, pull with progress, export, remove |
//! | `containers` | kind's clusters and their nodes; removing what roll back must remove |
//! | `build` | `docker build` |
//! | `networks` | the networks and their address blocks |
//! | `exec` | a command in a container, with a stream as its input |
//! | `reference` | names of images, written out in full |
//!
//! Every quick request is bounded by [`QUICK`]; what moves bytes is bounded by whoever drives it, and ends when it is dropped.

pub mod address;
pub mod build;
mod connect;
pub mod containers;
pub mod error;
pub mod exec;
pub mod images;
pub mod info;
mod networks;
pub mod reference;

#[cfg(test)]
pub(crate) mod fake;

use std::future::Future;
use std::time::Duration;

use bollard::Docker;
use bytes::Bytes;
use futures::stream::BoxStream;

pub use address::{Address, Endpoint, EngineEnvironment, Origin, choose};
pub use containers::NodeContainer;
pub use error::{EngineError, PullFault};
pub use exec::Executed;
pub use images::{EngineImage, Progress};
pub use info::{EngineInfo, ImageStore};

/// How long an engine may take to answer at all.
pub const CONNECT: Duration = Duration::from_secs(3);
/// How long a request that moves no bytes may take.
pub const QUICK: Duration = Duration::from_secs(30);
/// How long an engine may take to begin its answer to a request that moves bytes (an export is prepared first).
const BEGIN: Duration = Duration::from_secs(600);

/// Bytes on their way into a container or out of the engine.
pub type ByteStream = BoxStream<'static, std::io::Result<Bytes>>;

/// A container engine that answers.
#[derive(Clone, Debug)]
pub struct Engine {
    docker: Docker,
    address: Address,
    identity: Identity,
}

/// Who answered, as its `/version` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Such as `Docker Engine - Community`, `Docker Desktop 4.50.0`, `Podman Engine`.
    pub name: String,
    /// Such as `29.1.3`.
    pub version: String,
    /// The newest API version it serves, such as `1.41`.
    pub api: String,
    /// It is podman.
    pub podman: bool,
}

impl Engine {
    /// Where it is, and what said so.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// It is podman: kind must be told so with `KIND_EXPERIMENTAL_PROVIDER=podman`.
    #[must_use]
    pub fn is_podman(&self) -> bool {
        self.identity.podman
    }

    /// It serves this version of the API.
    #[must_use]
    pub fn serves(&self, major: u32, minor: u32) -> bool {
        connect::version(&self.identity.api).is_some_and(|served| served >= (major, minor))
    }

    /// A request that moves no bytes.
    async fn quick<T>(&self, what: &str, request: impl Future<Output = Result<T, bollard::errors::Error>>) -> Result<T, EngineError> {
        match tokio::time::timeout(QUICK, request).await {
            Ok(answer) => answer.map_err(EngineError::request(what)),
            Err(_) => Err(EngineError::NotAnswering { address: self.address.docker_host(), seconds: QUICK.as_secs() }),
        }
    }
}

/// The HTTP status of an engine's refusal.
fn status_of(error: &bollard::errors::Error) -> Option<u16> {
    match error {
        bollard::errors::Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}
