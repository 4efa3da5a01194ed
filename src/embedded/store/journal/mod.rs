//! The journal on disk: what has been acknowledged survives the end of the process by any signal.
//!
//! Every commit is one record, written with one write(2) before the commit is acknowledged; what a process has
//! written outlives it, whatever kills it. A thread of its own syncs to the disk within a second, so that a power
//! cut may cost the last second and never the integrity: each sync leaves a note of how far it reached, and only
//! bytes after the last such note may be cut off as unfinished. Cut bytes are kept in a file beside the journal.
//! Damage before that note, a header that is wrong and a newer version are errors that name file and offset; the
//! file is not touched.
//!
//! When the journal has outgrown its live objects it is written afresh: a temporary file, synced, renamed over it.
//!
//! Why not an embedded database such as redb: it acknowledges either only after fsync, which costs milliseconds a
//! commit, or early and then forgets the commits since the last durable one when the process is killed. The lab
//! wants write(2)'s promise: cheap to acknowledge, lost only with the power.

mod format;
mod keeper;
mod open;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub(super) use keeper::Keeper;
pub(super) use open::{Content, open};

/// The journal's name in the state folder.
pub const FILE: &str = "store.journal";
/// The lock's name in the state folder.
pub const LOCK: &str = "store.lock";

/// Why a store could not be opened. Nothing has been changed then.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{} is in use by another process", dir.display())]
    InUse {
        /// The state folder.
        dir: PathBuf,
    },
    /// The file is not a journal of dralab.
    #[error("{} is not a dralab store", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// A newer dralab wrote it.
    #[error("{} has format version {found}, and this dralab knows versions up to {known}", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version this build reads.
        known: u32,
    },
    /// Bytes that had reached the disk are not what was written.
    #[error("{} is damaged at byte {offset}: {what}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where the damage begins.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// The file system refused.
    #[error("cannot {what} {}", file.display())]
    Io {
        /// What was tried, such as `read`.
        what: &'static str,
        /// On which file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What opening had to cut off: writes that had not been finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Where the sound part of the journal ended.
    pub offset: u64,
    /// How many bytes were cut off.
    pub bytes: u64,
    /// Where they are kept.
    pub kept: PathBuf,
}

/// An open journal.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Where the next record goes.
    end: u64,
    /// A write failed and its remains could not be removed yet.
    unclean: bool,
    /// There are records that may not be on the disk yet.
    dirty: bool,
    /// Size at which it is written afresh.
    compact_at: u64,
    /// Held as long as the journal is open.
    _lock: File,
}

/// A journal is not written afresh below this size.
const COMPACT_FROM: u64 = 4 * 1024 * 1024;

impl Journal {
    /// Appends the record of an object; gives its size.
    pub(super) fn put(&mut self, collection: &str, key: &str, revision: u64, object: &Value) -> io::Result<u64> {
        self.append(&format::put(collection, key, revision, object))
    }

    /// Appends the record of a removal.
    pub(super) fn delete(&mut self, collection: &str, key: &str, revision: u64) -> io::Result<u64> {
        self.append(&format::delete(collection, key, revision))
    }

    /// True from the first record that may not be on the disk.
    pub(super) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// One record, whole or not at all.
    fn append(&mut self, record: &[u8]) -> io::Result<u64> {
        self.write(record)?;
        self.dirty = true;
        Ok(record.len() as u64)
    }

    fn write(&mut self, record: &[u8]) -> io::Result<()> {
        if self.unclean {
            self.file.set_len(self.end)?;
            self.unclean = false;
        }
        // One write(2) unless the system takes it in pieces.
        if let Err(error) = self.file.write_all_at(record, self.end) {
            self.unclean = self.file.set_len(self.end).is_err();
            return Err(error);
        }
        self.end += record.len() as u64;
        Ok(())
    }

    /// What has to be synced, and how far that reaches; afterwards the journal counts as clean.
    fn begin_sync(&mut self) -> io::Result<(File, u64)> {
        let file = self.file.try_clone()?;
        self.dirty = false;
        Ok((file, self.end))
    }

    /// Notes that everything before `offset` is on the disk. A note that cannot be written is no harm.
    fn note_synced(&mut self, offset: u64) {
        if let Err(error) = self.write(&format::synced(offset)) {
            tracing::debug!(%error, "cannot note a sync in the journal");
        }
    }
}

/// Creates a journal's file whole: under another name, synced, then renamed.
fn create(path: &Path, content: &[u8]) -> io::Result<File> {
    let fresh = path.with_extension("new");
    let written = (|| {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&fresh)?;
        file.write_all_at(content, 0)?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        sync_folder(path)?;
        Ok(file)
    })();
    if written.is_err() {
        // The file may not exist; what failed is said already.
        let _ = fs::remove_file(&fresh);
    }
    written
}

/// A rename or a new file is on the disk only once its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
