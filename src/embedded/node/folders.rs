//! Watches folders for changes, with one operating system watcher for all agents of a process (the kernel grants
//! only a hundred or so per user).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use notify::{RecursiveMode, Watcher as _};
use tokio::sync::watch;

/// Why a folder cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch folder {folder}")]
pub struct FolderError {
    folder: PathBuf,
    #[source]
    source: notify::Error,
}

type Listeners = Arc<Mutex<HashMap<PathBuf, watch::Sender<u64>>>>;

/// The watcher. Cheap to clone; ends with the last clone.
#[derive(Clone, Debug)]
pub struct Folders {
    listeners: Listeners,
    watcher: Arc<Mutex<notify::RecommendedWatcher>>,
}

impl Folders {
    /// A watcher without folders.
    ///
    /// # Errors
    /// The operating system gives no watcher (its limit is reached).
    pub fn new() -> Result<Self, FolderError> {
        let listeners = Listeners::default();
        let told = Arc::clone(&listeners);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let listeners = told.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                // Reading a folder is no change of it (and would never end, as whoever is told reads it).
                Ok(event) if event.kind.is_access() => {}
                Ok(event) if !event.need_rescan() => {
                    for folder in event.paths.iter().flat_map(|path| [Some(path.as_path()), path.parent()]).flatten() {
                        if let Some(listener) = listeners.get(folder) {
                            listener.send_modify(|count| *count += 1);
                        }
                    }
                }
                // Something was lost: everybody looks again.
                Ok(_) | Err(_) => listeners.values().for_each(|listener| listener.send_modify(|count| *count += 1)),
            }
        });
        let watcher = watcher.map_err(|source| FolderError { folder: PathBuf::new(), source })?;
        Ok(Folders { listeners, watcher: Arc::new(Mutex::new(watcher)) })
    }

    /// Watches a folder, which must exist: the receiver changes whenever something in it has changed.
    ///
    /// # Errors
    /// The folder is not there or cannot be watched.
    pub fn watch(&self, folder: &Path) -> Result<watch::Receiver<u64>, FolderError> {
        let receiver = {
            let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
            listeners.entry(folder.to_path_buf()).or_insert_with(|| watch::channel(0).0).subscribe()
        };
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        watcher.watch(folder, RecursiveMode::NonRecursive).map_err(|source| FolderError { folder: folder.to_path_buf(), source })?;
        Ok(receiver)
    }

    /// Stops watching a folder.
    pub fn forget(&self, folder: &Path) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).remove(folder);
        // A folder that is gone is no longer watched anyway.
        let _ = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).unwatch(folder);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Folders;

    #[tokio::test]
    async fn changes_are_told_and_reading_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let folders = Folders::new().expect("a watcher");
        let mut changes = folders.watch(folder.path()).expect("watched");
        std::fs::write(folder.path().join("x"), "").expect("written");
        tokio::time::timeout(Duration::from_secs(5), changes.changed()).await.expect("told").expect("open");
        // What is still to be told of the same change comes soon; then nothing more does.
        tokio::time::sleep(Duration::from_millis(100)).await;
        changes.mark_unchanged();
        for _ in 0..10 {
            assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 1);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!changes.has_changed().expect("open"));
        std::fs::remove_file(folder.path().join("x")).expect("removed");
        tokio::time::timeout(Duration::from_secs(5), changes.changed()).await.expect("told").expect("open");
    }
}
