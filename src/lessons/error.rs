//! What can go wrong with a lesson.

use std::path::PathBuf;

use crate::base::failure::{Failure, Kind};
use crate::client::ClientError;

/// A lesson could not be read, begun, checked or recorded.
#[derive(Debug, thiserror::Error)]
pub enum LessonError {
    /// There is no such lesson.
    #[error("there is no lesson \"{name}\"")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Ids that are near.
        near: Vec<String>,
    },
    /// A file of a lesson is broken.
    #[error("{file}: {reason}")]
    Broken {
        /// Which file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// No lesson has begun.
    #[error("no lesson has begun")]
    NoCurrent,
    /// The progress file cannot be used.
    #[error("the progress file {path} cannot be used: {reason}", path = path.display())]
    Progress {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {path}", path = path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Objects in the way belong to the learner.
    #[error("namespace \"{namespace}\" has objects that no lesson made: {objects}")]
    NotOurs {
        /// The namespace.
        namespace: String,
        /// Which objects.
        objects: String,
    },
    /// The cluster lacks what the lesson needs.
    #[error("lesson \"{lesson}\" needs {need}")]
    Needs {
        /// The lesson.
        lesson: String,
        /// What it needs.
        need: String,
    },
    /// The API server could not be asked, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<LessonError> for Failure {
    fn from(error: LessonError) -> Self {
        let (kind, id, hint) = match error {
            LessonError::Client(error) => return error.into(),
            LessonError::Unknown { ref near, .. } => {
                let hint = if near.is_empty() { "see `dralab lesson list`".to_owned() } else { format!("near to it: {}", near.join(", ")) };
                (Kind::Usage, "DL-LESSON-01", Some(hint))
            }
            LessonError::Broken { .. } => (Kind::Failed, "DL-LESSON-02", None),
            LessonError::NoCurrent => (Kind::Usage, "DL-LESSON-03", Some("begin one: `dralab lesson next`".to_owned())),
            LessonError::Progress { .. } => {
                (Kind::Failed, "DL-LESSON-04", Some("the file is left as it is; once it is moved away, the lessons begin anew".to_owned()))
            }
            LessonError::File { .. } => (Kind::Failed, "DL-FILE-02", None),
            LessonError::NotOurs { .. } => {
                (Kind::Refused, "DL-LESSON-05", Some("move or delete them, or use another lab: `dralab tour --lab other`".to_owned()))
            }
            LessonError::Needs { .. } => (Kind::NotSatisfied, "DL-LESSON-06", None),
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
