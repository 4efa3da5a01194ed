//! Where a lab's files are.
//!
//! | path below the state folder | what |
//! |---|---|
//! | `labs/NAME/lab.json` | the record of the lab |
//! | `labs/NAME/kubeconfig` | how to reach it (mode 0600) |
//! | `labs/NAME/store/` | the embedded cluster's objects |
//! | `labs/NAME/nodes/NODE/` | CDI specs and checkpoints of a node |
//! | `labs/NAME/progress.json` | what was learned |
//! | `labs/NAME/lab.log` | what the lab's process had to say |
//! | `labs/NAME/process.lock` | held by the lab's process while it lives |
//! | `labs/NAME/change.lock` | held while `up` or `down` is at work |

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cluster::ClusterError;

/// The folders that dralab uses for this user.
#[derive(Clone, Debug)]
pub struct Home {
    state: PathBuf,
    runtime: Option<PathBuf>,
}

impl Home {
    /// From the values of `DRALAB_HOME`, `XDG_STATE_HOME`, `HOME` and `XDG_RUNTIME_DIR`. Relative paths do not count, as the XDG specification says.
    ///
    /// # Errors
    /// When none of the first three is an absolute path.
    pub fn new(
        dralab_home: Option<PathBuf>,
        xdg_state: Option<PathBuf>,
        home: Option<PathBuf>,
        xdg_runtime: Option<PathBuf>,
    ) -> Result<Self, ClusterError> {
        let absolute = |path: Option<PathBuf>| path.filter(|p| p.is_absolute());
        let state = absolute(dralab_home)
            .or_else(|| absolute(xdg_state).map(|p| p.join("dralab")))
            .or_else(|| absolute(home).map(|p| p.join(".local/state/dralab")))
            .ok_or(ClusterError::NoHome)?;
        Ok(Home { state, runtime: absolute(xdg_runtime) })
    }

    /// The state folder.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// `XDG_RUNTIME_DIR`, where it is set.
    #[must_use]
    pub fn runtime(&self) -> Option<&Path> {
        self.runtime.as_deref()
    }

    /// The folder of a lab.
    #[must_use]
    pub fn lab(&self, name: &str) -> LabFolder {
        LabFolder { name: name.to_owned(), path: self.state.join("labs").join(name) }
    }

    /// Names of the labs that have a folder, sorted.
    #[must_use]
    pub fn labs(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.state.join("labs"))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().join("lab.json").exists())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// The folder of one lab.
#[derive(Clone, Debug)]
pub struct LabFolder {
    /// The lab's name.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
}

impl LabFolder {
    /// A lab folder at a known path (as the lab's process gets it).
    #[must_use]
    pub fn at(name: &str, path: PathBuf) -> Self {
        LabFolder { name: name.to_owned(), path }
    }

    /// The record.
    #[must_use]
    pub fn record(&self) -> PathBuf {
        self.path.join("lab.json")
    }

    /// The kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    /// The embedded cluster's store.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Files of a node: CDI specs and checkpoints.
    #[must_use]
    pub fn node(&self, node: &str) -> PathBuf {
        self.path.join("nodes").join(node)
    }

    /// What was learned.
    #[must_use]
    pub fn progress(&self) -> PathBuf {
        self.path.join("progress.json")
    }

    /// The learner's files.
    #[must_use]
    pub fn lessons(&self) -> PathBuf {
        self.path.join("lessons")
    }

    /// The log of the lab's process.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.path.join("lab.log")
    }

    /// Makes the folder, private to this user.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(&self) -> Result<(), ClusterError> {
        create_private(&self.path)
    }

    /// Takes the lock that the lab's process holds while it lives. `None`: another process has it.
    ///
    /// # Errors
    /// When the lock file cannot be opened.
    pub fn try_process_lock(&self) -> Result<Option<File>, ClusterError> {
        let path = self.path.join("process.lock");
        let file = open_lock(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(source)) => Err(ClusterError::File { action: "lock", path, source }),
        }
    }

    /// True while a lab process lives on this folder. Looks at the lock, not at a process id that may be another's by now.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.path.is_dir() && matches!(self.try_process_lock(), Ok(None))
    }

    /// Waits until no lab process has the lock. Returns whether that came in time.
    ///
    /// # Errors
    /// When the lock file cannot be opened.
    pub fn wait_until_stopped(&self, bound: Duration) -> Result<bool, ClusterError> {
        wait_for_lock(&self.path.join("process.lock"), bound).map(|lock| lock.is_some())
    }

    /// Takes the lock of `up` and `down`; waits for another one, bounded.
    ///
    /// # Errors
    /// When it cannot be had in time.
    pub fn change_lock(&self, bound: Duration) -> Result<File, ClusterError> {
        wait_for_lock(&self.path.join("change.lock"), bound)?
            .ok_or_else(|| ClusterError::Busy { lab: self.name.clone(), seconds: bound.as_secs() })
    }
}

/// Makes a folder with mode 0700 and its parents.
///
/// # Errors
/// When it cannot be made.
pub fn create_private(path: &Path) -> Result<(), ClusterError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(ClusterError::file("create", path))
}

fn open_lock(path: &Path) -> Result<File, ClusterError> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path).map_err(ClusterError::file("lock", path))
}

/// Blocks on a lock in a thread of its own, so that the wait can be bounded without polling. A thread that is
/// left behind ends with the process and gives the lock back at once when it gets it.
fn wait_for_lock(path: &Path, bound: Duration) -> Result<Option<File>, ClusterError> {
    let file = open_lock(path)?;
    match file.try_lock() {
        Ok(()) => return Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => {}
        Err(fs::TryLockError::Error(source)) => return Err(ClusterError::File { action: "lock", path: path.to_path_buf(), source }),
    }
    let (send, receive) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("lock".to_owned()).spawn(move || {
        let result = file.lock().map(|()| file);
        // Nobody may be waiting any more; then the lock is dropped here.
        let _ = send.send(result);
    });
    thread.map_err(ClusterError::file("lock", path))?;
    let started = Instant::now();
    match receive.recv_timeout(bound.saturating_sub(started.elapsed())) {
        Ok(Ok(file)) => Ok(Some(file)),
        Ok(Err(source)) => Err(ClusterError::File { action: "lock", path: path.to_path_buf(), source }),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::Home;
    use std::path::PathBuf;
    use std::time::Duration;

    #[test]
    fn state_follows_the_environment() {
        let home = |d: Option<&str>, x: Option<&str>, h: Option<&str>| {
            Home::new(d.map(PathBuf::from), x.map(PathBuf::from), h.map(PathBuf::from), None).map(|h| h.state().to_path_buf()).ok()
        };
        assert_eq!(home(Some("/d"), Some("/x"), Some("/h")), Some(PathBuf::from("/d")));
        assert_eq!(home(None, Some("/x"), Some("/h")), Some(PathBuf::from("/x/dralab")));
        assert_eq!(home(None, Some("relative"), Some("/h")), Some(PathBuf::from("/h/.local/state/dralab")));
        assert_eq!(home(None, None, None), None);
    }

    #[test]
    fn the_process_lock_tells_whether_a_lab_runs() {
        let dir = tempfile::tempdir().expect("a temp dir");
        let home = Home::new(Some(dir.path().to_path_buf()), None, None, None).expect("a home");
        let lab = home.lab("x");
        assert!(!lab.is_running());
        lab.create().expect("a folder");
        let lock = lab.try_process_lock().expect("a lock file").expect("nobody has it");
        assert!(lab.is_running());
        assert!(!lab.wait_until_stopped(Duration::from_millis(20)).expect("a lock file"));
        drop(lock);
        assert!(!lab.is_running());
    }
}
