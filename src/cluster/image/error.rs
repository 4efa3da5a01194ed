//! What can go wrong with images on nodes.

use std::path::PathBuf;

use crate::base::failure::{Failure, Kind};
use crate::cluster::engine::EngineError;

/// An image could not be made, or not be brought onto the nodes.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file that goes into an image, or the image's archive, cannot be read or written.
    #[error("cannot {action} {path}", path = path.display())]
    File {
        /// `read`, `write`.
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not a Linux program.
    #[error("{path} is not a Linux program (ELF, 64 bits): {reason}", path = path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A program needs a library that is not on this machine.
    #[error("{path} needs {library}, which is in none of the folders where its loader looks", path = path.display())]
    Library {
        /// The program or library that needs it.
        path: PathBuf,
        /// What it needs.
        library: String,
    },
    /// A program or image is for another architecture than the nodes.
    #[error("{what} is for {theirs}, and the nodes are {nodes}")]
    Architecture {
        /// The program or image.
        what: String,
        /// Its architecture.
        theirs: String,
        /// The nodes'.
        nodes: String,
    },
    /// The nodes are of different architectures.
    #[error("the nodes are of different architectures: {}", list.join(", "))]
    Mixed {
        /// `node: architecture`.
        list: Vec<String>,
    },
    /// There is no way to get a driver image.
    #[error("this dralab cannot run on the nodes: {path} is {is}, and the nodes are linux/{nodes}", path = path.display())]
    NoDriver {
        /// The running dralab.
        path: PathBuf,
        /// What it is.
        is: String,
        /// The nodes' architecture.
        nodes: String,
    },
    /// A folder is not a source tree of dralab.
    #[error("{path} is not a source tree of dralab: {reason}", path = path.display())]
    NotASourceTree {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The lesson image is neither on the nodes nor in the engine, and cannot be pulled.
    #[error("the lessons' image {wanted} is neither on the nodes nor in the container engine, and could not be pulled")]
    NoLessonImage {
        /// Its name.
        wanted: String,
        /// Why not.
        source: Box<EngineError>,
    },
    /// A node's container runtime refused.
    #[error("node {node} could not {what}: {said}")]
    Node {
        /// The node.
        node: String,
        /// What was asked, as a verb phrase.
        what: String,
        /// What it said.
        said: String,
    },
}

impl ImageError {
    /// Wraps an IO error on a path.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| ImageError::File { action, path, source }
    }
}

/// The ways to a driver image, for who has none.
fn ways() -> Vec<String> {
    vec![
        "give a Linux binary: `dralab up --backend kind --driver-binary PATH`".to_owned(),
        "or an image that has dralab as its entry point: `--driver-image IMAGE`".to_owned(),
        "or have the engine build it from the source: `--driver-source DIR`".to_owned(),
        "or use the lab without containers: `dralab up --backend embedded`".to_owned(),
    ]
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        let (kind, id, hints): (Kind, &'static str, Vec<String>) = match &error {
            ImageError::Engine(_) => (Kind::Failed, "DL-ENG-10", Vec::new()),
            ImageError::File { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                (Kind::Failed, "DL-FILE-01", vec!["free some disk space and run it again".to_owned()])
            }
            ImageError::File { path, .. } => (Kind::Failed, "DL-FILE-01", vec![format!("look at `ls -ld {}`", path.display())]),
            ImageError::NotElf { .. } | ImageError::Architecture { .. } | ImageError::NoDriver { .. } => {
                (Kind::Failed, "DL-IMG-03", ways())
            }
            ImageError::Library { library, .. } => {
                (Kind::Failed, "DL-IMG-04", vec![format!("install what provides {library}, or use a static build: `--driver-binary PATH`")])
            }
            ImageError::Mixed { .. } => {
                (Kind::Failed, "DL-IMG-05", vec!["give the driver as an image for all of them: `--driver-image IMAGE`".to_owned()])
            }
            ImageError::NotASourceTree { .. } => {
                (Kind::Usage, "DL-IMG-07", vec!["name the folder that has dralab's Cargo.toml".to_owned()])
            }
            ImageError::NoLessonImage { wanted, .. } => (
                Kind::Failed,
                "DL-IMG-08",
                vec![
                    format!("with a network: `docker pull {wanted}`, then run it again"),
                    "without one: name an image that the engine has and that has bash and sleep: `--workload-image IMAGE`; it is loaded \
                     under the lessons' name"
                        .to_owned(),
                    format!(
                        "or bring the image in a file: `docker save {wanted} -o ubuntu.tar` elsewhere, `docker load -i ubuntu.tar` here"
                    ),
                ],
            ),
            ImageError::Node { said, node, .. } => (Kind::Failed, "DL-IMG-09", vec![advice(node, said)]),
        };
        if let ImageError::Engine(error) = error {
            return error.into();
        }
        let mut failure = Failure::new(kind, id, error.to_string());
        if let Some(source) = std::error::Error::source(&error) {
            failure = failure.because(source);
        }
        hints.into_iter().fold(failure, Failure::hint)
    }
}

/// What a node's words are known to mean.
fn advice(node: &str, said: &str) -> String {
    if said.contains("no space left on device") {
        return "the engine's disk is full; see what takes the room: `docker system df`".to_owned();
    }
    if said.contains("content digest") && said.contains("not found") {
        return "the engine keeps only a part of that image; pull it anew for the nodes' platform: `docker pull --platform linux/ARCH IMAGE`"
            .to_owned();
    }
    format!("look on the node: `docker exec {node} ctr -n k8s.io images ls`")
}
