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
            .filter(|name| !name.starts_with('.'))
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

    /// Removes the folder and all that is in it. It is moved away first, so that an `up` that waits for the lock in it begins in a folder
    /// of its own.
    ///
    /// # Errors
    /// When files cannot be removed.
    pub fn remove(&self) -> Result<(), ClusterError> {
        let away = self.path.with_file_name(format!(".{}.removed", self.name));
        // One that was killed in the middle of this left its own.
        let clear = |path: &Path| match fs::remove_dir_all(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(ClusterError::file("remove", path)(error)),
            _ => Ok(()),
        };
        clear(&away)?;
        match fs::rename(&self.path, &away) {
            Ok(()) => clear(&away),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            // A folder that is a mount point cannot be moved.
            Err(_) => clear(&self.path),
        }
    }

    fn process_lock_path(&self) -> PathBuf {
        self.path.join("process.lock")
    }

    /// Takes the lock that the lab's process holds while it lives, and writes this process's id into it. `None`: another process
    /// has it and keeps it for longer than `bound` (those that only look hold it for a moment).
    ///
    /// # Errors
    /// When the lock file cannot be opened.
    pub fn process_lock(&self, bound: Duration) -> Result<Option<File>, ClusterError> {
        use std::io::Write as _;
        let path = self.process_lock_path();
        let Some(mut file) = wait_for_lock(&path, bound)? else { return Ok(None) };
        // On a full disk the id is missing; then the record has it.
        let written = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        if let Err(error) = written {
            tracing::debug!(%error, path = %path.display(), "the process id was not written");
        }
        Ok(Some(file))
    }

    /// The process that has the lab, by what it wrote when it took the lock: a record may still name an earlier one.
    /// Only means something while the lab is running.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        fs::read_to_string(self.process_lock_path()).ok()?.trim().parse().ok()
    }

    /// True while a lab process lives on this folder. Looks at the lock, not at a process id that may be another's by now;
    /// looks with a shared lock, so that those who look do not take each other for the lab.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let Ok(file) = File::open(self.process_lock_path()) else { return false };
        matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock))
    }

    /// Waits until no lab process has the lock. Returns whether that came in time.
    ///
    /// # Errors
    /// When the lock file cannot be opened.
    pub fn wait_until_stopped(&self, bound: Duration) -> Result<bool, ClusterError> {
        wait_for_lock(&self.process_lock_path(), bound).map(|lock| lock.is_some())
    }

    /// Takes the lock of `up` and `down`; waits for another one, bounded.
    ///
    /// # Errors
    /// When it cannot be had in time.
    pub fn change_lock(&self, bound: Duration) -> Result<File, ClusterError> {
        let path = self.path.join("change.lock");
        let started = Instant::now();
        loop {
            self.create()?;
            let lock = wait_for_lock(&path, bound.saturating_sub(started.elapsed()));
            match lock {
                // While this one waited, `down --purge` may have removed the folder: a lock on a removed file keeps nobody out.
                Ok(Some(lock)) if is_file_at(&lock, &path) => return Ok(lock),
                Ok(Some(_)) => {}
                Ok(None) => return Err(ClusterError::Busy { lab: self.name.clone(), seconds: bound.as_secs() }),
                Err(error) if self.path.is_dir() => return Err(error),
                Err(_) => {}
            }
            if started.elapsed() > bound {
                return Err(ClusterError::Busy { lab: self.name.clone(), seconds: bound.as_secs() });
            }
        }
    }
}

/// Makes a folder with mode 0700 and its parents.
///
/// # Errors
/// When it cannot be made.
pub fn create_private(path: &Path) -> Result<(), ClusterError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(ClusterError::file("create", path))
}

fn is_file_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
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
        let lock = lab.process_lock(Duration::ZERO).expect("a lock file").expect("nobody has it");
        assert!(lab.is_running());
        assert_eq!(lab.process_id(), Some(std::process::id()));
        assert!(lab.process_lock(Duration::ZERO).expect("a lock file").is_none());
        assert!(!lab.wait_until_stopped(Duration::from_millis(20)).expect("a lock file"));
        drop(lock);
        // A child that another test starts at this moment has the lock's file until it is another program.
        let stopped = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !lab.is_running()
        });
        assert!(stopped);
        // Who looks is not taken for the lab, neither by others who look nor by the lab's process.
        let looking = std::fs::File::open(lab.process_lock_path()).expect("a lock file");
        looking.try_lock_shared().expect("nobody has it");
        assert!(!lab.is_running());
        let done = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(looking);
        });
        assert!(lab.process_lock(Duration::from_secs(5)).expect("a lock file").is_some());
        done.join().expect("it ends");
    }

    #[test]
    fn a_lock_on_a_purged_folder_is_taken_anew() {
        let dir = tempfile::tempdir().expect("a temp dir");
        let lab = Home::new(Some(dir.path().to_path_buf()), None, None, None).expect("a home").lab("x");
        lab.create().expect("a folder");
        let purging = lab.change_lock(Duration::ZERO).expect("a lock");
        let waiting = lab.clone();
        let other = std::thread::spawn(move || waiting.change_lock(Duration::from_secs(5)));
        std::thread::sleep(Duration::from_millis(30));
        lab.remove().expect("removed");
        drop(purging);
        let lock = other.join().expect("it ends").expect("a lock");
        assert!(super::is_file_at(&lock, &lab.path.join("change.lock")));
    }
}
