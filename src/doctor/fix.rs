//! What `--fix` may do: only what is dralab's own, and safe to do again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use serde::Serialize;

use crate::base::failure::Failure;
use crate::cluster::engine::Engine;
use crate::cluster::install::{self, Parameters};
use crate::cluster::steps::Say;
use crate::cluster::{ClusterError, Home, LabFolder};

/// How long another `up` or `down` may keep a folder before it is left alone.
const BUSY: Duration = Duration::from_millis(200);

/// Something that mends a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Fix {
    /// Start a node container of the lab.
    StartContainer {
        /// Its name.
        name: String,
    },
    /// Apply the lab's manifests again.
    Reinstall,
    /// Remove a folder that a lab has left.
    RemoveFolder {
        /// Which.
        path: PathBuf,
    },
}

/// With what fixes are made.
pub struct Means<'a> {
    /// The folders of this user.
    pub home: &'a Home,
    /// The engine, where there is one.
    pub engine: Option<&'a Engine>,
    /// The lab's cluster, where it answers.
    pub client: Option<&'a Client>,
    /// What the lab was installed with; `None`: an embedded lab.
    pub parameters: Option<&'a Parameters>,
}

impl Fix {
    /// What it will do.
    #[must_use]
    pub fn describe(&self) -> Say {
        match self {
            Fix::StartContainer { name } => Say::new("doctor.fix.start-container").with("name", name),
            Fix::Reinstall => Say::new("doctor.fix.reinstall"),
            Fix::RemoveFolder { path } => Say::new("doctor.fix.remove-folder").with("path", &path.display()),
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// When the engine, the server or the system refuses; nothing else is touched then.
    pub async fn make(&self, means: &Means<'_>) -> Result<(), Failure> {
        match self {
            Fix::StartContainer { name } => match means.engine {
                Some(engine) => engine.start_container(name).await.map_err(Failure::from),
                None => Ok(()),
            },
            Fix::Reinstall => match means.client {
                Some(client) => install::install(client, means.parameters).await.map(drop).map_err(Failure::from),
                None => Ok(()),
            },
            Fix::RemoveFolder { path } => remove(means.home, path).map_err(Failure::from),
        }
    }
}

/// Removes a folder below `labs/` that is nobody's: looks again under the lock, since an `up` may have begun meanwhile.
fn remove(home: &Home, path: &Path) -> Result<(), ClusterError> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if path.parent() != Some(home.state().join("labs").as_path()) || name.is_empty() {
        return Ok(());
    }
    let folder = LabFolder::at(&name, path.to_path_buf());
    if !is_leftover(&folder) {
        return Ok(());
    }
    let lock = folder.change_lock(BUSY)?;
    if is_leftover_but_for_the_lock(&folder) {
        folder.remove()?;
    }
    drop(lock);
    Ok(())
}

/// Whether a folder is what a lab that is gone has left: no record, nothing of the learner's, and nobody at work on it.
#[must_use]
pub fn is_leftover(folder: &LabFolder) -> bool {
    let busy = std::fs::File::open(folder.path.join("change.lock"))
        .is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)));
    !busy && is_leftover_but_for_the_lock(folder)
}

fn is_leftover_but_for_the_lock(folder: &LabFolder) -> bool {
    folder.path.is_dir() && !folder.record().exists() && !folder.progress().exists() && !folder.lessons().exists() && !folder.is_running()
}

#[cfg(test)]
mod tests {
    use super::{Fix, Means};
    use crate::cluster::Home;

    #[tokio::test]
    async fn only_what_a_lab_has_left_is_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = Home::new(Some(dir.path().to_path_buf()), None, None, None).expect("a home");
        let means = Means { home: &home, engine: None, client: None, parameters: None };
        let make = async |path: &std::path::Path| Fix::RemoveFolder { path: path.to_path_buf() }.make(&means).await;
        let gone = home.lab("gone");
        std::fs::create_dir_all(gone.store()).expect("made");
        make(&gone.path).await.expect("removed");
        assert!(!gone.path.exists());
        // What was learned stays, and so does a lab that is being brought up.
        let learner = home.lab("learner");
        learner.create().expect("made");
        std::fs::write(learner.progress(), "{}").expect("written");
        make(&learner.path).await.expect("left alone");
        assert!(learner.progress().exists());
        let busy = home.lab("busy");
        let lock = busy.change_lock(std::time::Duration::ZERO).expect("a lock");
        make(&busy.path).await.expect("left alone");
        assert!(busy.path.exists());
        drop(lock);
        // Nothing outside of the labs' folder.
        let outside = dir.path().join("other");
        std::fs::create_dir(&outside).expect("made");
        make(&outside).await.expect("left alone");
        assert!(outside.exists());
    }
}
