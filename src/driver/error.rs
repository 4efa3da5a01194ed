//! Why a driver ends. Everything that may pass by itself (an API server that is away, a conflict) is tried again
//! inside and shown in [`super::DriverStatus::trouble`]; what ends [`super::run`] needs somebody to act.

use std::io;
use std::path::PathBuf;

use super::cdi::Fault;
use super::grpc::SocketError;
use super::lock::LockError;
use super::prepare::OpenError;
use super::probes::ProbeError;

/// A fatal error of a driver.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A name that is not possible.
    #[error("driver configuration: {what}: expected {expected}, got {found:?}")]
    Config {
        /// Which setting.
        what: &'static str,
        /// What it must look like.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// The driver's name gives no valid CDI vendor.
    #[error("driver configuration: {0}")]
    Cdi(#[from] Fault),
    /// A folder cannot be made.
    #[error("folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A socket cannot be bound.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The lock of the driver's instances cannot be had.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Probes cannot be answered.
    #[error(transparent)]
    Probes(#[from] ProbeError),
    /// The checkpoint or the CDI folder cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A gRPC server failed.
    #[error("serving {what}: {source}")]
    Serve {
        /// Which service.
        what: &'static str,
        /// Why.
        source: tonic::transport::Error,
    },
    /// The DRA socket was bound and does not answer.
    #[error("the DRA socket {} does not answer: {reason}", path.display())]
    NotAnswering {
        /// The socket.
        path: PathBuf,
        /// What a call gave.
        reason: String,
    },
    /// A task of the driver panicked.
    #[error("a task of the driver ended: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// What an API call's failure says, in one line. `kube`'s own text has the status twice.
pub(super) fn kube_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => {
            let mut text = other.to_string();
            let mut cause = std::error::Error::source(other);
            while let Some(link) = cause {
                let more = link.to_string();
                if !text.contains(&more) {
                    text = format!("{text}: {more}");
                }
                cause = link.source();
            }
            text
        }
    }
}
