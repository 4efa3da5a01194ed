//! What was learned: one versioned file per lab, written by temporary file and rename, locked against a second process.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::lessons::LessonError;

/// The version of the file. A newer one is refused and left alone.
pub const FORMAT: u32 = 1;

/// The file's content. Lessons that this build does not know are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// [`FORMAT`].
    pub format: u32,
    /// The lesson that has begun and not yet been left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// By lesson id.
    #[serde(default)]
    pub lessons: BTreeMap<String, LessonProgress>,
}

/// One lesson.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LessonProgress {
    /// The step that the learner is at.
    #[serde(default)]
    pub step: String,
    /// The cluster's resourceVersion when the step began; what happened since is in the watch history.
    #[serde(default)]
    pub since: String,
    /// States of the objects when the step began, by `kind/name`.
    #[serde(default)]
    pub baseline: BTreeMap<String, String>,
    /// Hints shown in this step.
    #[serde(default)]
    pub hints_shown: usize,
    /// How often verify was asked in this lesson.
    #[serde(default)]
    pub attempts: u32,
    /// Predictions made, by question id.
    #[serde(default)]
    pub predictions: BTreeMap<String, String>,
    /// When it was first begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<Timestamp>,
    /// When it first passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_at: Option<Timestamp>,
    /// It was left without passing.
    #[serde(default)]
    pub skipped: bool,
    /// Fields of a later build.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// The progress file of a lab, locked while this value lives.
#[derive(Debug)]
pub struct ProgressFile {
    path: PathBuf,
    /// What it holds.
    pub progress: Progress,
    _lock: File,
}

impl ProgressFile {
    /// Opens the file (an absent one is a fresh start) and locks it.
    ///
    /// # Errors
    /// When another dralab has it, when it cannot be read, or is of a newer format; it is left as it is then.
    pub fn open(path: &Path) -> Result<Self, LessonError> {
        let lock_path = path.with_extension("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path).map_err(|source| LessonError::File {
            action: "lock",
            path: lock_path.clone(),
            source,
        })?;
        lock.lock().map_err(|source| LessonError::File { action: "lock", path: lock_path, source })?;
        let progress = read(path)?;
        Ok(ProgressFile { path: path.to_path_buf(), progress, _lock: lock })
    }

    /// Writes it.
    ///
    /// # Errors
    /// When it cannot be written; the old file stays.
    pub fn save(&self) -> Result<(), LessonError> {
        let failed = |source: std::io::Error| LessonError::File { action: "write", path: self.path.clone(), source };
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let text = serde_json::to_string_pretty(&self.progress)
            .map_err(|error| LessonError::Progress { path: self.path.clone(), reason: error.to_string() })?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(&self.path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// Reads the file without locking it, for looking only.
///
/// # Errors
/// As [`ProgressFile::open`].
pub fn read(path: &Path) -> Result<Progress, LessonError> {
    let wrong = |reason: String| LessonError::Progress { path: path.to_path_buf(), reason };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Progress { format: FORMAT, ..Progress::default() }),
        Err(source) => return Err(LessonError::File { action: "read", path: path.to_path_buf(), source }),
    };
    let progress: Progress = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if progress.format != FORMAT {
        return Err(wrong(format!("its format is {}, and this build knows {FORMAT}", progress.format)));
    }
    Ok(progress)
}

#[cfg(test)]
mod tests {
    use super::{FORMAT, ProgressFile};

    #[test]
    fn unknown_lessons_and_fields_survive() {
        let dir = tempfile::tempdir().expect("a temp dir");
        let path = dir.path().join("progress.json");
        std::fs::write(&path, r#"{"format":1,"lessons":{"from-the-future":{"step":"x","stars":5}}}"#).expect("written");
        let mut file = ProgressFile::open(&path).expect("opens");
        file.progress.current = Some("some-gpu".to_owned());
        file.save().expect("saves");
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(text.contains("from-the-future") && text.contains("\"stars\": 5") && text.contains("some-gpu"), "{text}");
    }

    #[test]
    fn a_newer_or_broken_file_is_left_alone() {
        let dir = tempfile::tempdir().expect("a temp dir");
        let path = dir.path().join("progress.json");
        assert_eq!(ProgressFile::open(&path).expect("a fresh start").progress.format, FORMAT);
        for text in ["{\"format\":2}", "{", ""] {
            std::fs::write(&path, text).expect("written");
            assert!(ProgressFile::open(&path).is_err(), "{text}");
            assert_eq!(std::fs::read_to_string(&path).expect("readable"), text);
        }
    }
}
