//! What can go wrong between dralab and an API server.

use std::path::PathBuf;

use crate::base::failure::{Failure, Kind};

/// A request to an API server could not be made, or was refused.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be read or understood.
    #[error("the kubeconfig {path} cannot be used", path = path.display())]
    Kubeconfig {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: Box<kube::config::KubeconfigError>,
    },
    /// No client can be made for the cluster.
    #[error("no connection to {server} can be set up")]
    Connect {
        /// The server.
        server: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The server could not be reached.
    #[error("the API server cannot be reached")]
    Unreachable {
        /// Why.
        source: Box<kube::Error>,
    },
    /// The server refused; its own words.
    #[error("{message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// The Status' reason.
        reason: String,
        /// The server's own message, unchanged.
        message: String,
    },
    /// The server has no such kind.
    #[error("the server has no resource type \"{name}\"")]
    UnknownKind {
        /// What was asked for.
        name: String,
        /// Names that are near.
        near: Vec<String>,
    },
    /// A manifest cannot be read.
    #[error("{file}: {reason}")]
    Manifest {
        /// Which file.
        file: String,
        /// What is wrong, with line and column where known.
        reason: String,
    },
    /// An answer has another shape than it should.
    #[error("the API server's answer to {what} is not understood: {reason}")]
    Answer {
        /// The request.
        what: String,
        /// What is wrong.
        reason: String,
    },
    /// A bounded wait ran out.
    #[error("waited {seconds} s for {what}; last seen: {last}")]
    TimedOut {
        /// The bound.
        seconds: u64,
        /// What was waited for.
        what: String,
        /// What was seen last.
        last: String,
    },
}

impl From<kube::Error> for ClientError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                ClientError::Refused { code: status.code, reason: status.reason.clone(), message: status.message.clone() }
            }
            other => ClientError::Unreachable { source: Box::new(other) },
        }
    }
}

impl ClientError {
    /// The server said 404.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, ClientError::Refused { code: 404, .. })
    }

    /// The server said 409.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, ClientError::Refused { code: 409, .. })
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let (kind, id, hint) = match &error {
            ClientError::Kubeconfig { .. } => (Kind::NoLab, "DL-CONN-01", Some("bring the lab up: `dralab up`".to_owned())),
            ClientError::Connect { .. } => (Kind::NoLab, "DL-CONN-02", None),
            ClientError::Unreachable { .. } => (Kind::NoLab, "DL-CONN-03", Some("see whether it runs: `dralab status`".to_owned())),
            ClientError::Refused { .. } => (Kind::Failed, "DL-API-02", None),
            ClientError::UnknownKind { near, .. } => {
                let hint = if near.is_empty() {
                    "see what there is: `dralab kubectl -- api-resources`".to_owned()
                } else {
                    format!("near to it: {}", near.join(", "))
                };
                (Kind::Usage, "DL-API-03", Some(hint))
            }
            ClientError::Manifest { .. } => (Kind::Usage, "DL-MAN-02", None),
            ClientError::Answer { .. } => (Kind::Failed, "DL-API-04", None),
            ClientError::TimedOut { .. } => (Kind::TimedOut, "DL-WAIT-01", None),
        };
        let mut failure = Failure::new(kind, id, error.to_string());
        if let Some(source) = std::error::Error::source(&error) {
            failure = failure.because(source);
        }
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
