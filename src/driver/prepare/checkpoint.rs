//! The driver's memory across restarts: which claims are prepared. One JSON file, versioned and checksummed.
//!
//! A kubelet does not ask again for claims of pods that run already, so a lost checkpoint cannot be made up for:
//! a file that cannot be read is an error, never an empty start.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compute::PreparedClaim;
use crate::driver::files;

/// Tells the file from other JSON.
const FORMAT: &str = "dralab-driver-checkpoint";
/// The version that is written. Older ones are read by conversion; there are none yet.
const VERSION: u64 = 1;
const NAME: &str = "checkpoint.json";
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Prepared claims by uid.
pub(super) type Claims = BTreeMap<String, PreparedClaim>;

/// The checkpoint file of one driver, and what is in it. The file may be replaced by another instance of the
/// driver; all but [`Checkpoint::claims`] is for whoever holds the driver's lock.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    driver: String,
    claims: Claims,
    /// The file that was last read or written. As it is open, no other file gets its inode.
    file: Option<File>,
    length: u64,
    /// Somebody removed the file or changed it in place: what is known here is the truth, and must be written.
    damaged: bool,
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
    /// Reads the file in `folder`. One that does not exist holds no claims.
    pub(super) fn open(folder: &Path, driver: &str) -> Result<Self, CheckpointError> {
        let path = folder.join(NAME);
        files::remove_unfinished(folder, NAME);
        let mut checkpoint = Checkpoint { path, driver: driver.to_owned(), claims: Claims::new(), file: None, length: 0, damaged: false };
        checkpoint.refresh()?;
        Ok(checkpoint)
    }

    /// What is prepared, as of the last read or write.
    pub(super) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Reads the file again if another instance has replaced it since.
    pub(super) fn refresh(&mut self) -> Result<(), CheckpointError> {
        let failed = |source| CheckpointError::File { path: self.path.clone(), source };
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.damaged |= self.file.is_some();
                return Ok(());
            }
            other => other.map_err(failed)?,
        };
        let found = file.metadata().map_err(failed)?;
        if let Some(known) = &self.file {
            let known = known.metadata().map_err(failed)?;
            if (known.dev(), known.ino()) == (found.dev(), found.ino()) {
                // Instances only ever replace it, so that nothing but damage can have come to this one.
                self.damaged |= found.len() != self.length;
                return Ok(());
            }
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        self.claims = self.parse(&bytes)?;
        self.damaged = false;
        self.length = found.len();
        self.file = Some(file);
        Ok(())
    }

    fn parse(&self, bytes: &[u8]) -> Result<Claims, CheckpointError> {
        let unreadable = |reason: String| CheckpointError::Unreadable { path: self.path.clone(), reason };
        let value: Value = serde_json::from_slice(bytes).map_err(|error| unreadable(error.to_string()))?;
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

    /// Whether the file has to be written although no claim has changed.
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Replaces the file; it is whole at any time. When it fails, what is known stays as it was.
    pub(super) fn save(&mut self, claims: Claims) -> Result<(), CheckpointError> {
        let failed = |source| CheckpointError::File { path: self.path.clone(), source };
        let value = serde_json::to_value(&claims).map_err(|error| failed(error.into()))?;
        let checksum = checksum(&value);
        let document = Document { format: FORMAT.to_owned(), version: VERSION, driver: self.driver.clone(), checksum, claims: value };
        let mut bytes = serde_json::to_vec_pretty(&document).map_err(|error| failed(error.into()))?;
        bytes.push(b'\n');
        if self.damaged {
            tracing::warn!(path = %self.path.display(), "somebody removed or changed the checkpoint; it is written anew from what is known");
            let folder = self.path.parent().unwrap_or(Path::new("/"));
            files::create_folder(folder, FOLDER_MODE).map_err(failed)?;
        }
        let file = files::replace_synced(&self.path, &bytes, FILE_MODE).map_err(failed)?;
        self.length = bytes.len() as u64;
        self.file = Some(file);
        self.claims = claims;
        self.damaged = false;
        Ok(())
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

    fn open(folder: &tempfile::TempDir) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::open(folder.path(), "gpu.example.com")
    }

    #[test]
    fn what_was_saved_is_loaded_also_by_another_instance() {
        let folder = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (open(&folder).unwrap(), open(&folder).unwrap());
        assert_eq!(first.claims(), &Claims::new(), "no file, no claims");
        first.save(claims()).unwrap();
        assert_eq!(open(&folder).unwrap().claims(), &claims());
        second.refresh().unwrap();
        assert_eq!(second.claims(), &claims());
        // Again and again: an inode that is used anew is not taken for the one that was read.
        for _ in 0..50 {
            second.save(Claims::new()).unwrap();
            second.save(claims()).unwrap();
            second.save(Claims::new()).unwrap();
            first.refresh().unwrap();
            assert_eq!(first.claims(), &Claims::new());
            first.save(claims()).unwrap();
            second.refresh().unwrap();
            assert_eq!(second.claims(), &claims());
        }
    }

    #[test]
    fn what_somebody_does_to_the_file_of_a_running_driver_is_made_good() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint.json");
        let mut checkpoint = open(&folder).unwrap();
        checkpoint.save(claims()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let harms: [&dyn Fn(); 3] = [
            &|| std::fs::remove_file(&path).unwrap(),
            &|| std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1).unwrap(),
            &|| std::fs::remove_dir_all(folder.path()).unwrap(),
        ];
        for harm in harms {
            assert!(!checkpoint.is_damaged());
            harm();
            checkpoint.refresh().unwrap();
            assert!(checkpoint.is_damaged());
            assert_eq!(checkpoint.claims(), &claims());
            checkpoint.save(claims()).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
        // Replaced by something else: that may have been another instance, and cannot be read.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "{").unwrap();
        assert!(matches!(checkpoint.refresh(), Err(CheckpointError::Unreadable { .. })));
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        open(&folder).unwrap().save(claims()).unwrap();
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
            let error = open(&folder).expect_err(&content);
            assert!(matches!(error, CheckpointError::Unreadable { .. }), "{error}");
            let message = error.to_string();
            assert!(message.contains(text) && message.contains(path.to_str().unwrap()), "{message}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content, "the file is left as it was");
        }
        std::fs::write(&path, good.replace("\"version\": 1", "\"version\": 2, \"more\": 1")).unwrap();
        let error = open(&folder).expect_err("a newer file");
        assert!(matches!(error, CheckpointError::Newer { found: 2, known: 1, .. }), "{error}");
    }
}
