//! The claims that are prepared on a node, kept on disk.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::claim::ClaimInfo;

/// The format that this build writes.
const VERSION: u32 = 1;
/// The file's name in the agent's state folder.
const FILE: &str = "prepared-claims.json";

/// Why the checkpoint cannot be used. It is never taken for an empty one.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file is there but cannot be read.
    #[error("cannot read checkpoint {}", .file.display())]
    Read {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what an agent writes.
    #[error("checkpoint {} is damaged: {reason}", .file.display())]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A later build wrote it.
    #[error("checkpoint {} has version {version}, this build knows up to {VERSION}", .file.display())]
    Newer {
        /// Which file.
        file: PathBuf,
        /// Its version.
        version: u32,
    },
    /// It cannot be written.
    #[error("cannot write checkpoint {}", .file.display())]
    Write {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    checksum: u32,
    claims: Vec<ClaimInfo>,
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// The file of one agent.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    file: PathBuf,
}

impl Checkpoint {
    /// The checkpoint in a folder.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Checkpoint { file: folder.join(FILE) }
    }

    /// The claims it holds; none when there is no file yet.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or comes from a later build.
    pub fn load(&self) -> Result<Vec<ClaimInfo>, CheckpointError> {
        let text = match std::fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(CheckpointError::Read { file: self.file.clone(), source }),
        };
        let damaged = |reason: String| CheckpointError::Damaged { file: self.file.clone(), reason };
        let Versioned { version } = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        if version > VERSION {
            return Err(CheckpointError::Newer { file: self.file.clone(), version });
        }
        let document: Document = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        if document.checksum != checksum(&document.claims).map_err(|e| damaged(e.to_string()))? {
            return Err(damaged("its checksum does not match".to_owned()));
        }
        Ok(document.claims)
    }

    /// Replaces the file as a whole.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, claims: Vec<ClaimInfo>) -> Result<(), CheckpointError> {
        let failed = |source: std::io::Error| CheckpointError::Write { file: self.file.clone(), source };
        let checksum = checksum(&claims).map_err(|e| failed(e.into()))?;
        let text = serde_json::to_vec(&Document { version: VERSION, checksum, claims }).map_err(|e| failed(e.into()))?;
        let temporary = self.file.with_extension("json.tmp");
        let write = || {
            let mut file = std::fs::File::create(&temporary)?;
            file.write_all(&text)?;
            std::fs::rename(&temporary, &self.file)
        };
        write().map_err(failed)
    }
}

fn checksum(claims: &[ClaimInfo]) -> Result<u32, serde_json::Error> {
    serde_json::to_vec(claims).map(|bytes| crc32fast::hash(&bytes))
}

#[cfg(test)]
mod tests {
    use super::Checkpoint;

    #[test]
    fn what_is_not_a_checkpoint_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let checkpoint = Checkpoint::new(folder.path());
        assert_eq!(checkpoint.load().expect("empty"), []);
        let claim = super::ClaimInfo::new(&serde_json::json!({
            "metadata": {"name": "c", "namespace": "s", "uid": "u"},
            "status": {"allocation": {"devices": {"results": [{"driver": "d", "pool": "p", "device": "x", "request": "r"}]}}},
        }))
        .expect("allocated");
        checkpoint.save(vec![claim.clone()]).expect("saved");
        assert_eq!(checkpoint.load().expect("loaded"), [claim]);
        let good = std::fs::read_to_string(&checkpoint.file).expect("text");
        for (text, said) in [
            (good.replace("\"c\"", "\"d\""), "is damaged: its checksum does not match"),
            (good.replace("\"version\":1", "\"version\":9"), "has version 9, this build knows up to 1"),
            (good[..good.len() / 2].to_owned(), "is damaged: EOF"),
            (String::new(), "is damaged: EOF"),
        ] {
            std::fs::write(&checkpoint.file, text).expect("written");
            let error = checkpoint.load().expect_err("refused").to_string();
            assert!(error.contains(said) && error.contains("prepared-claims.json"), "{error}");
        }
    }
}
