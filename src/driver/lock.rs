//! One instance at a time: the lock file that the instances of a driver on a node share.
//!
//! Checkpoint and CDI folder belong to all of them. Each change is read, modify, write under this lock; it ends
//! with the process that holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::clock::SharedClock;

use super::files;

/// Between two attempts while another instance has the lock: it keeps it for a few milliseconds.
const PAUSE: Duration = Duration::from_millis(2);
/// After this an instance that has the lock is stuck. A kubelet waits 45 s for an answer.
const LONGEST: Duration = Duration::from_secs(20);
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Where the lock is.
#[derive(Clone, Debug)]
pub(super) struct LockFile {
    path: PathBuf,
}

/// The lock, held. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Held(#[expect(dead_code, reason = "closing the file ends the lock")] File);

impl LockFile {
    /// The lock of the driver whose checkpoint is in `folder`. Nothing is made yet.
    pub(super) fn new(folder: &Path) -> Self {
        LockFile { path: folder.join("lock") }
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// The file cannot be made or locked, or another process does not give it back.
    pub(super) async fn acquire(&self, clock: &SharedClock) -> Result<Held, LockError> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(held) = self.try_acquire()? {
                return Ok(held);
            }
            if waited >= LONGEST {
                return Err(LockError::Stuck { path: self.path.clone(), seconds: LONGEST.as_secs() });
            }
            clock.sleep(PAUSE).await;
            waited += PAUSE;
        }
    }

    fn try_acquire(&self) -> Result<Option<Held>, LockError> {
        let failed = |source| LockError::File { path: self.path.clone(), source };
        let file = match self.open() {
            // The folder may have been wiped while the driver runs.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = self.path.parent().unwrap_or(Path::new("/"));
                files::create_folder(folder, FOLDER_MODE).and_then(|()| self.open()).map_err(failed)?
            }
            other => other.map_err(failed)?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        // A file that somebody removed meanwhile locks nothing for those who make it anew.
        let ours = file.metadata().map_err(failed)?;
        let there = std::fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino()));
        Ok(there.then_some(Held(file)))
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(false).write(true).mode(FILE_MODE).open(&self.path)
    }
}

/// The lock could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file system refused.
    #[error("lock {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody keeps it.
    #[error("another instance of the driver has kept the lock {} for {seconds} s", path.display())]
    Stuck {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{LockError, LockFile, PAUSE};
    use crate::base::clock::{ManualClock, SharedClock, SystemClock};

    #[tokio::test]
    async fn one_at_a_time_also_when_the_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let clock: SharedClock = Arc::new(SystemClock);
        let lock = LockFile::new(&folder.path().join("made"));
        let held = lock.acquire(&clock).await.unwrap();
        let waiting = tokio::spawn({
            let (lock, clock) = (lock.clone(), Arc::clone(&clock));
            async move { lock.acquire(&clock).await.map(drop) }
        });
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(!waiting.is_finished());
        drop(held);
        waiting.await.unwrap().unwrap();
        std::fs::remove_dir_all(folder.path().join("made")).unwrap();
        let _held = lock.acquire(&clock).await.expect("made anew");
        assert!(lock.try_acquire().unwrap().is_none());
    }

    #[tokio::test]
    async fn an_instance_that_keeps_it_is_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let manual = ManualClock::new(jiff::Timestamp::UNIX_EPOCH);
        let clock: SharedClock = Arc::new(manual.clone());
        let lock = LockFile::new(folder.path());
        let _held = lock.acquire(&clock).await.unwrap();
        let waiting = tokio::spawn({
            let (lock, clock) = (lock.clone(), Arc::clone(&clock));
            async move { lock.acquire(&clock).await.map(drop) }
        });
        while !waiting.is_finished() {
            manual.advance(PAUSE);
            tokio::task::yield_now().await;
        }
        assert!(matches!(waiting.await.unwrap(), Err(LockError::Stuck { seconds: 20, .. })));
    }
}
