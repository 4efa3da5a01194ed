//! The driver's memory across restarts: which claims are prepared. One JSON file, versioned and checksummed.
//!
//! A kubelet does not ask again for claims of pods that run already, so a lost checkpoint cannot be made up for:
//! a file that cannot be read is an error, never an empty start.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compute::PreparedClaim;
use crate::driver::files;

/// Tells the file from other JSON.
const FORMAT: &str = "dralab-driver-checkpoint";
/// The version that is written. Older ones are read by conversion; there are none yet.
const VERSION: u64 = 1;
const FILE_MODE: u32 = 0o600;

/// Prepared claims by uid.
pub(super) type Claims = BTreeMap<String, PreparedClaim>;

/// The checkpoint file of one driver.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    driver: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u64,
    driver: String,
    /// CRC-32 of `claims` as compact JSON with sorted keys.
    checksum: String,
    claims: Value,
}

impl Checkpoint {
    pub(super) fn new(folder: &Path, driver: &str) -> Self {
        Checkpoint { path: folder.join("checkpoint.json"), driver: driver.to_owned() }
    }

    /// Reads the file. One that does not exist holds no claims.
    pub(super) fn load(&self) -> Result<Claims, CheckpointError> {
        let bytes = match std::fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Claims::new()),
            Err(source) => return Err(CheckpointError::File { path: self.path.clone(), source }),
            Ok(bytes) => bytes,
        };
        let unreadable = |reason: String| CheckpointError::Unreadable { path: self.path.clone(), reason };
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        // Format and version first: a newer file may have any other fields.
        if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(unreadable(format!("it is not a {FORMAT} file")));
        }
        match value.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(found) if found > VERSION => {
                return Err(CheckpointError::Newer { path: self.path.clone(), found, known: VERSION });
            }
            other => return Err(unreadable(format!("expected a version from 1 to {VERSION}, got {other:?}"))),
        }
        let document: Document = serde_json::from_value(value).map_err(|error| unreadable(error.to_string()))?;
        if document.driver != self.driver {
            return Err(unreadable(format!("it belongs to driver {:?}, not to {:?}", document.driver, self.driver)));
        }
        let checksum = checksum(&document.claims);
        if document.checksum != checksum {
            return Err(unreadable(format!("its checksum is {checksum}, it says {}", document.checksum)));
        }
        serde_json::from_value(document.claims).map_err(|error| unreadable(error.to_string()))
    }

    /// Replaces the file; it is whole at any time.
    pub(super) fn save(&self, claims: &Claims) -> Result<(), CheckpointError> {
        let failed = |source| CheckpointError::File { path: self.path.clone(), source };
        let claims = serde_json::to_value(claims).map_err(|error| failed(error.into()))?;
        let checksum = checksum(&claims);
        let document = Document { format: FORMAT.to_owned(), version: VERSION, driver: self.driver.clone(), checksum, claims };
        let mut bytes = serde_json::to_vec_pretty(&document).map_err(|error| failed(error.into()))?;
        bytes.push(b'\n');
        files::replace_synced(&self.path, &bytes, FILE_MODE).map_err(failed)
    }
}

fn checksum(claims: &Value) -> String {
    // Maps of serde_json are sorted, so that the text depends on the content alone.
    format!("{:08x}", crc32fast::hash(claims.to_string().as_bytes()))
}

/// The checkpoint could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file system refused.
    #[error("checkpoint {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The content is damaged or foreign. It is left as it is.
    #[error("checkpoint {} cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer dralab wrote it.
    #[error("checkpoint {} has version {found}, this dralab knows versions up to {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: u64,
        /// The newest version that can be read.
        known: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::{Checkpoint, CheckpointError, Claims, PreparedClaim};

    fn claims() -> Claims {
        let claim = PreparedClaim { namespace: "n".to_owned(), name: "c".to_owned(), uid: "u-1".to_owned(), devices: Vec::new() };
        Claims::from([(claim.uid.clone(), claim)])
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::new(folder.path(), "gpu.example.com");
        assert_eq!(checkpoint.load().unwrap(), Claims::new(), "no file, no claims");
        checkpoint.save(&claims()).unwrap();
        assert_eq!(checkpoint.load().unwrap(), claims());
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::new(folder.path(), "gpu.example.com");
        checkpoint.save(&claims()).unwrap();
        let path = folder.path().join("checkpoint.json");
        let good = std::fs::read_to_string(&path).unwrap();
        let cases = [
            (String::new(), "EOF"),
            ("{".to_owned(), "EOF"),
            (good[..good.len() / 2].to_owned(), "EOF"),
            ("[]".to_owned(), "not a dralab-driver-checkpoint"),
            (good.replace("dralab-driver", "someone"), "not a dralab-driver-checkpoint"),
            (good.replace("u-1", "u-2"), "checksum"),
            (good.replace("\"version\": 1", "\"version\": 0"), "expected a version"),
            (good.replace("\"version\": 1", "\"version\": \"1\""), "expected a version"),
            (good.replace("\"claims\"", "\"other\""), "unknown field"),
            (good.replace("gpu.example.com", "other.example.com"), "belongs to driver"),
        ];
        for (content, text) in cases {
            std::fs::write(&path, &content).unwrap();
            let error = checkpoint.load().expect_err(&content);
            assert!(matches!(error, CheckpointError::Unreadable { .. }), "{error}");
            let message = error.to_string();
            assert!(message.contains(text) && message.contains(path.to_str().unwrap()), "{message}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content, "the file is left as it was");
        }
        std::fs::write(&path, good.replace("\"version\": 1", "\"version\": 2, \"more\": 1")).unwrap();
        let error = checkpoint.load().expect_err("a newer file");
        assert!(matches!(error, CheckpointError::Newer { found: 2, known: 1, .. }), "{error}");
    }
}
