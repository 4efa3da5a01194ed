//! What can go wrong between dralab and the container engine.

use std::path::PathBuf;

use crate::base::failure::{Failure, Kind};

/// Why an image could not be pulled, told from what the engine or the registry said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullFault {
    /// The registry counts this address's or account's pulls, and there were too many (`toomanyrequests`).
    RateLimited,
    /// There is no such image or tag, or it is not public: a registry does not tell the two apart.
    NotFound,
    /// The registry cannot be reached: no network, no name resolution, a proxy in between.
    Unreachable,
    /// The registry's certificate is not trusted by the engine, as behind a company's proxy.
    Certificate,
    /// The engine has no room left.
    NoSpace,
    /// There is no such image for this architecture.
    Platform,
    /// Anything else; the message says it.
    Other,
}

/// Something between dralab and the engine failed. What the engine said is kept word for word.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Neither Docker nor podman is there.
    #[error("no container engine was found: none of {} is there", list(looked))]
    NoEngine {
        /// The sockets that were looked for.
        looked: Vec<PathBuf>,
    },
    /// The address is of a kind that dralab does not reach.
    #[error("the container engine \"{address}\" ({said_by}) cannot be used: {why}")]
    Unsupported {
        /// The address.
        address: String,
        /// What named it.
        said_by: String,
        /// What is in the way.
        why: &'static str,
    },
    /// The Docker context that was chosen cannot be read.
    #[error("the Docker context \"{name}\" ({said_by}) cannot be used: {path}: {reason}", path = path.display())]
    Context {
        /// Its name.
        name: String,
        /// What named it.
        said_by: String,
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// There is no socket at the address.
    #[error("the container engine's socket {address} is not there; {origin} names it")]
    NoSocket {
        /// The address.
        address: String,
        /// What named it.
        origin: String,
    },
    /// This user may not use the socket.
    #[error("this user may not use the container engine's socket {address}")]
    Permission {
        /// The address.
        address: String,
    },
    /// Nothing listens.
    #[error("nothing answers at the container engine's address {address}: {reason}")]
    Refused {
        /// The address.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// It took too long.
    #[error("the container engine at {address} did not answer within {seconds} s")]
    NotAnswering {
        /// The address.
        address: String,
        /// How long was waited.
        seconds: u64,
    },
    /// What answers is not a container engine, or not one whose API this build understands.
    #[error("what answers at {address} is not a container engine that dralab understands: {reason}")]
    NotAnEngine {
        /// The address.
        address: String,
        /// What it said.
        reason: String,
    },
    /// The image is not in the engine.
    #[error("the container engine has no image {image}")]
    NoImage {
        /// Its name.
        image: String,
    },
    /// An image could not be pulled.
    #[error("the image {image} could not be pulled: {message}")]
    Pull {
        /// Its name.
        image: String,
        /// Why.
        fault: PullFault,
        /// What the engine said.
        message: String,
    },
    /// An image could not be built.
    #[error("the container engine could not build the image {image}: {message}")]
    Build {
        /// Its name.
        image: String,
        /// What the builder said.
        message: String,
    },
    /// The container is not there, or does not run.
    #[error("the container {container} is not there or does not run: {message}")]
    NoContainer {
        /// Its name.
        container: String,
        /// What the engine said.
        message: String,
    },
    /// A command in a container did not end in time.
    #[error("`{command}` in the container {container} did not end within {seconds} s")]
    ExecTimedOut {
        /// The container.
        container: String,
        /// The command.
        command: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The connection broke in the middle, or the engine does not listen any more.
    #[error("the container engine went away while it was to {what}")]
    Gone {
        /// What was asked for, as a verb phrase.
        what: String,
        /// What the connection said.
        source: Box<bollard::errors::Error>,
    },
    /// The engine refused a request.
    #[error("the container engine could not {what}")]
    Request {
        /// What was asked for, as a verb phrase.
        what: String,
        /// What it said.
        source: Box<bollard::errors::Error>,
    },
    /// Reading or writing what is streamed to or from the engine failed.
    #[error("could not {what}")]
    Stream {
        /// What was being done, as a verb phrase.
        what: String,
        /// Why.
        source: std::io::Error,
    },
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl EngineError {
    /// Wraps what the engine said to a request.
    pub(crate) fn request(what: impl Into<String>) -> impl FnOnce(bollard::errors::Error) -> Self {
        let what = what.into();
        move |source| {
            let gone = is_gone(&source);
            let source = Box::new(source);
            if gone { EngineError::Gone { what, source } } else { EngineError::Request { what, source } }
        }
    }
}

/// The error is of the connection, and not the engine's answer.
fn is_gone(error: &bollard::errors::Error) -> bool {
    use bollard::errors::Error;
    match error {
        Error::HyperLegacyError { .. } | Error::SocketNotFoundError(_) => true,
        Error::HyperResponseError { err } => {
            err.is_incomplete_message() || err.is_closed() || err.is_canceled() || err.is_body_write_aborted()
        }
        Error::IOError { err } => {
            use std::io::ErrorKind as K;
            matches!(
                err.kind(),
                K::ConnectionReset | K::ConnectionAborted | K::ConnectionRefused | K::BrokenPipe | K::UnexpectedEof | K::NotFound
            )
        }
        _ => false,
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let embedded = "a lab without containers: `dralab up --backend embedded`".to_owned();
        let (kind, id, hints): (Kind, &'static str, Vec<String>) = match &error {
            EngineError::NoEngine { .. } => {
                (Kind::Failed, "DL-ENG-01", vec!["start Docker (or podman: `systemctl --user start podman.socket`)".to_owned(), embedded])
            }
            EngineError::Unsupported { .. } => (
                Kind::Usage,
                "DL-ENG-02",
                vec![
                    "name an engine on this machine: `export DOCKER_HOST=unix:///var/run/docker.sock`".to_owned(),
                    "a far engine can be brought here: `ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock user@host`, then \
                     `export DOCKER_HOST=unix:///tmp/docker.sock`"
                        .to_owned(),
                ],
            ),
            EngineError::Context { .. } => (
                Kind::Failed,
                "DL-ENG-03",
                vec!["see which there are: `docker context ls`; choose one: `docker context use default`".to_owned()],
            ),
            EngineError::NoSocket { .. } | EngineError::Refused { .. } => {
                (Kind::Failed, "DL-ENG-04", vec!["start the engine, then see whether it answers: `docker version`".to_owned(), embedded])
            }
            EngineError::Permission { .. } => (
                Kind::Failed,
                "DL-ENG-05",
                vec![
                    "join the group that may use it: `sudo usermod -aG docker $USER`, then log in anew".to_owned(),
                    "or use a rootless engine: `dockerd-rootless-setuptool.sh install`".to_owned(),
                ],
            ),
            EngineError::NotAnswering { .. } => (
                Kind::TimedOut,
                "DL-ENG-06",
                vec!["see whether it answers at all: `docker version`; restart it when it does not".to_owned()],
            ),
            EngineError::NotAnEngine { .. } => (Kind::Failed, "DL-ENG-07", vec!["see what is there: `docker version`".to_owned()]),
            EngineError::NoImage { image } => (Kind::Failed, "DL-IMG-01", vec![format!("get it: `docker pull {image}`")]),
            EngineError::Pull { image, fault, .. } => (Kind::Failed, "DL-IMG-02", vec![advice(image, *fault)]),
            EngineError::Build { .. } => (
                Kind::Failed,
                "DL-IMG-06",
                vec!["build a Linux binary elsewhere and give it: `dralab up --backend kind --driver-binary PATH`".to_owned()],
            ),
            EngineError::NoContainer { .. } => {
                (Kind::Failed, "DL-ENG-08", vec!["see what runs: `docker ps -a --filter label=io.x-k8s.kind.cluster`".to_owned()])
            }
            EngineError::ExecTimedOut { .. } => {
                (Kind::TimedOut, "DL-ENG-09", vec!["see whether the machine is overloaded: `docker stats --no-stream`".to_owned()])
            }
            EngineError::Gone { .. } => (
                Kind::Failed,
                "DL-ENG-11",
                vec!["start the engine again (`docker version` tells whether it answers), then run the same command once more".to_owned()],
            ),
            EngineError::Request { .. } | EngineError::Stream { .. } => {
                (Kind::Failed, "DL-ENG-10", vec!["see whether the engine is well: `docker info`".to_owned()])
            }
        };
        let mut failure = Failure::new(kind, id, error.to_string());
        if let Some(source) = std::error::Error::source(&error) {
            failure = failure.because(source);
        }
        hints.into_iter().fold(failure, Failure::hint)
    }
}

/// What to do about a pull that failed.
fn advice(image: &str, fault: PullFault) -> String {
    match fault {
        PullFault::RateLimited => {
            format!("wait, or log in and pull it yourself: `docker login`, `docker pull {image}`; what is there is not pulled again")
        }
        PullFault::NotFound => format!("see whether the name is right and the image public: `docker pull {image}`"),
        PullFault::Unreachable => {
            format!("see whether the engine has a way out (proxy, VPN): `docker pull {image}`; or bring the image in a file: `docker load`")
        }
        PullFault::Certificate => "give the engine your company's certificate, as its manual says, and restart it".to_owned(),
        PullFault::NoSpace => "see what takes the room: `docker system df`".to_owned(),
        PullFault::Platform => format!("see for which platforms it exists: `docker manifest inspect {image}`"),
        PullFault::Other => format!("see what the engine says: `docker pull {image}`"),
    }
}
