//! What can go wrong while a lab comes up or goes down.

use std::path::PathBuf;

use crate::base::failure::{Failure, Kind};
use crate::cluster::steps::Say;

/// A lab could not be brought up, down or looked at.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A file or folder of the lab cannot be read or written.
    #[error("cannot {action} {path}", path = path.display())]
    File {
        /// `read`, `write`, `create`, `lock`, `remove`.
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The lab's record is not one that this build understands.
    #[error("{path} is not a lab record that this dralab understands: {reason}", path = path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No folder for state can be told from the environment.
    #[error("neither DRALAB_HOME, XDG_STATE_HOME nor HOME is set to an absolute path")]
    NoHome,
    /// A socket's path would not fit.
    #[error("the socket path {path} has {length} bytes, and this system takes {limit}", path = path.display())]
    SocketPath {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
        /// What fits.
        limit: usize,
    },
    /// The folder for sockets belongs to somebody else.
    #[error("the folder for sockets {path} is not a private folder of this user: {reason}", path = path.display())]
    SocketFolder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The lab's process could not be started.
    #[error("the lab's process could not be started")]
    Spawn {
        /// Why.
        source: std::io::Error,
    },
    /// The lab's process ended before it was ready.
    #[error("the lab's process ended before it was ready: {said}")]
    Died {
        /// What it said last.
        said: String,
        /// The id and kind of its own failure, where it told one.
        failure: Option<Box<Failure>>,
    },
    /// The lab's process did not become ready in time.
    #[error("the lab was not ready after {seconds} s; last seen: {last}")]
    NotReady {
        /// How long was waited.
        seconds: u64,
        /// What was seen last.
        last: String,
    },
    /// The lab's process did not end.
    #[error("the lab's process {pid} did not end within {seconds} s")]
    DidNotEnd {
        /// Its process id.
        pid: u32,
        /// How long was waited.
        seconds: u64,
    },
    /// Another `up` or `down` is at work on the lab.
    #[error("another dralab is bringing lab \"{lab}\" up or down, and did not finish within {seconds} s")]
    Busy {
        /// The lab.
        lab: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The API answered with an error.
    #[error("the lab's API server refused {what}")]
    Api {
        /// What was asked.
        what: String,
        /// Its answer.
        source: Box<kube::Error>,
    },
    /// A manifest of this build is broken.
    #[error("the manifest {name} cannot be read: {reason}")]
    Manifest {
        /// Its file name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The process could not be assembled.
    #[error("{message}")]
    Start {
        /// What failed.
        message: String,
        /// The failure's stable id.
        id: &'static str,
        /// What to do.
        hints: Vec<String>,
    },
    /// A backend's step failed, and what to do about it is known.
    #[error("{message}")]
    Advised {
        /// What failed.
        message: String,
        /// The failure's stable id.
        id: &'static str,
        /// Which exit code it leads to.
        kind: Kind,
        /// Why, outermost first.
        causes: Vec<String>,
        /// What to do.
        advice: Vec<Say>,
    },
    /// There is no lab of this name, or it does not run.
    #[error("lab \"{lab}\" is not up")]
    NotUp {
        /// The lab.
        lab: String,
    },
    /// Something between dralab and the container engine failed.
    #[error(transparent)]
    Engine(#[from] crate::cluster::engine::EngineError),
    /// An image could not be made, or not be brought onto the nodes.
    #[error(transparent)]
    Image(#[from] crate::cluster::image::ImageError),
}

impl ClusterError {
    /// Wraps an IO error on a path.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| ClusterError::File { action, path, source }
    }

    /// What to do, as texts of the catalogue. Advice that is the same in every language is among the hints of its [`Failure`].
    #[must_use]
    pub fn advice(&self) -> Vec<Say> {
        match self {
            ClusterError::Advised { advice, .. } => advice.clone(),
            _ => Vec::new(),
        }
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        let error = match error {
            ClusterError::Engine(error) => return error.into(),
            ClusterError::Image(error) => return error.into(),
            other => other,
        };
        let (kind, id, hints): (Kind, &'static str, Vec<String>) = match &error {
            ClusterError::File { path, source, .. } => {
                let hint = match source.kind() {
                    std::io::ErrorKind::StorageFull => {
                        "free some disk space and run it again; nothing that was acknowledged is lost".to_owned()
                    }
                    _ => format!("look at `ls -ld {}`; another place for state: `export DRALAB_HOME=DIR`", path.display()),
                };
                (Kind::Failed, "DL-FILE-01", vec![hint])
            }
            ClusterError::Record { .. } => {
                (Kind::Failed, "DL-LAB-02", vec!["use the dralab that wrote it, or remove the lab with `dralab down --purge`".to_owned()])
            }
            ClusterError::NoHome => (Kind::Failed, "DL-LAB-03", vec!["set one: `export DRALAB_HOME=/some/folder`".to_owned()]),
            ClusterError::SocketPath { .. } => (
                Kind::Failed,
                "DL-SOCK-01",
                vec!["use a shorter name: `dralab up --lab lab`, or a shorter folder: `export XDG_RUNTIME_DIR=/tmp/r`".to_owned()],
            ),
            ClusterError::SocketFolder { path, .. } => (
                Kind::Refused,
                "DL-SOCK-02",
                vec![format!("look at `ls -ld {}`; another place: `export XDG_RUNTIME_DIR=DIR`", path.display())],
            ),
            ClusterError::Spawn { .. } => (Kind::Failed, "DL-LAB-04", Vec::new()),
            ClusterError::Died { failure, .. } => {
                if let Some(failure) = failure {
                    return (**failure).clone();
                }
                (Kind::Failed, "DL-LAB-05", vec!["read the lab's log: `dralab status` names the folder".to_owned()])
            }
            ClusterError::NotReady { .. } => (Kind::TimedOut, "DL-LAB-06", vec!["see what it is doing: `dralab status`".to_owned()]),
            ClusterError::DidNotEnd { .. } => (Kind::TimedOut, "DL-LAB-07", Vec::new()),
            ClusterError::Busy { .. } => (Kind::TimedOut, "DL-LAB-08", vec!["wait for the other one, then run it again".to_owned()]),
            ClusterError::Api { .. } => (Kind::Failed, "DL-API-01", Vec::new()),
            ClusterError::Manifest { .. } => (Kind::Failed, "DL-MAN-01", Vec::new()),
            ClusterError::Advised { message, id, kind, causes, .. } => {
                let mut failure = Failure::new(*kind, id, message.clone());
                failure.causes.clone_from(causes);
                return failure;
            }
            ClusterError::Start { id: id @ "DL-PROF-01", hints, .. } => (Kind::Usage, id, hints.clone()),
            ClusterError::Start { id, hints, .. } => (Kind::Failed, id, hints.clone()),
            ClusterError::Engine(_) | ClusterError::Image(_) => (Kind::Failed, "DL-ENG-10", Vec::new()),
            ClusterError::NotUp { lab } => (Kind::NoLab, "DL-LAB-01", vec![up_hint(lab)]),
        };
        let mut failure = Failure::new(kind, id, error.to_string());
        if let Some(source) = std::error::Error::source(&error) {
            failure = failure.because(source);
        }
        for hint in hints {
            failure = failure.hint(hint);
        }
        failure
    }
}

/// The command that brings this lab up.
#[must_use]
pub fn up_hint(lab: &str) -> String {
    if lab == "dra-lab" { "bring it up: `dralab up`".to_owned() } else { format!("bring it up: `dralab up --lab {lab}`") }
}
