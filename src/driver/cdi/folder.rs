//! The folder of CDI spec files: one file for what all containers with a device of the driver get, one for each
//! prepared claim.

use std::io;
use std::path::{Path, PathBuf};

use super::spec::{CdiKind, Fault, Spec};
use crate::driver::files;

/// Spec files hold no secrets and are read by the container runtime.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// The spec files of one kind in a folder that it may share with others.
#[derive(Clone, Debug)]
pub struct CdiFolder {
    path: PathBuf,
    kind: CdiKind,
}

impl CdiFolder {
    /// The files of `kind` in `path`. Nothing is read or written yet.
    #[must_use]
    pub fn new(path: &Path, kind: CdiKind) -> Self {
        CdiFolder { path: path.to_path_buf(), kind }
    }

    /// The kind of all devices here.
    #[must_use]
    pub fn kind(&self) -> &CdiKind {
        &self.kind
    }

    /// Removes what a process that was killed has left of specs of this kind. For whoever is the only one to write
    /// them.
    pub fn remove_unfinished(&self) {
        files::remove_unfinished(&self.path, &self.kind.file_prefix());
    }

    /// Whether the file known by `id` exists with exactly this content.
    #[must_use]
    pub fn holds(&self, id: &str, spec: &Spec) -> bool {
        let Ok(wanted) = spec.to_json() else { return false };
        std::fs::read(self.file(id)).is_ok_and(|found| found == wanted)
    }

    /// Whether there is a file known by `id`.
    #[must_use]
    pub fn exists(&self, id: &str) -> bool {
        self.file(id).exists()
    }

    /// Writes a spec, whole or not at all.
    ///
    /// # Errors
    /// Whatever the file system says, naming the file.
    pub fn write(&self, id: &str, spec: &Spec) -> Result<(), CdiError> {
        let path = self.file(id);
        let json = spec.to_json()?;
        // The folder is on a tmpfs on real nodes and may go away with a reboot.
        files::create_folder(&self.path, FOLDER_MODE)
            .and_then(|()| files::replace(&path, &json, FILE_MODE))
            .map_err(|source| CdiError::File { path, source })
    }

    /// Removes a spec; one that is not there is removed already.
    ///
    /// # Errors
    /// Whatever else the file system says, naming the file.
    pub fn remove(&self, id: &str) -> Result<(), CdiError> {
        let path = self.file(id);
        files::remove(&path).map_err(|source| CdiError::File { path, source })
    }

    /// The ids of all spec files of this kind.
    ///
    /// # Errors
    /// When the folder exists and cannot be read.
    pub fn ids(&self) -> Result<Vec<String>, CdiError> {
        let failed = |source| CdiError::File { path: self.path.clone(), source };
        let entries = match std::fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed)?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            if let Some(id) = name.to_str().and_then(|name| self.kind.id_of(name)) {
                ids.push(id.to_owned());
            }
        }
        ids.sort();
        Ok(ids)
    }

    fn file(&self, id: &str) -> PathBuf {
        self.path.join(self.kind.file_name(id))
    }
}

/// A CDI spec could not be written or removed.
#[derive(Debug, thiserror::Error)]
pub enum CdiError {
    /// The file system refused.
    #[error("CDI spec {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The spec itself is wrong.
    #[error(transparent)]
    Spec(#[from] Fault),
}
