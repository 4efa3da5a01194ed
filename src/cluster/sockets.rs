//! A short private folder for Unix sockets. Their paths are limited (104 bytes on macOS, 108 on Linux, the
//! closing NUL included), and a home folder can be longer than that.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::cluster::ClusterError;

/// How many bytes a socket's path may have on this system.
pub const LIMIT: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// What the folder of a lab is called: its name, and a few digits of where its state is, since two homes of one user
/// can each have a lab of this name.
fn folder_name(lab: &str, state: &Path) -> String {
    format!("{lab}-{:08x}", crc32fast::hash(state.as_os_str().as_encoded_bytes()))
}

/// The folder for the sockets of a lab: below `XDG_RUNTIME_DIR` where that is set and short enough, else a folder of this user
/// below /tmp whose owner and mode are checked.
///
/// `state` is the lab's folder; `longest` is the longest relative path of a socket that will be bound in it.
///
/// # Errors
/// When no folder can be made, or the one that is there is not private to this user.
pub fn folder(runtime: Option<&Path>, lab: &str, state: &Path, longest: &str) -> Result<PathBuf, ClusterError> {
    let user = rustix::process::getuid().as_raw();
    let candidates = candidates(runtime, lab, state);
    let fitting = candidates.iter().find(|c| check_length(&c.join(longest)).is_ok());
    let Some(folder) = fitting else {
        return Err(candidates.last().map_or(ClusterError::NoHome, |c| match check_length(&c.join(longest)) {
            Err(error) => error,
            Ok(()) => ClusterError::NoHome,
        }));
    };
    if let Some(parent) = folder.parent() {
        private_folder(parent, user)?;
    }
    private_folder(folder, user)?;
    Ok(folder.clone())
}

/// Where the folder of a lab can be, the best place first.
#[must_use]
pub fn candidates(runtime: Option<&Path>, lab: &str, state: &Path) -> Vec<PathBuf> {
    let name = folder_name(lab, state);
    let user = rustix::process::getuid().as_raw();
    runtime.map(|r| r.join("dralab")).into_iter().chain([PathBuf::from(format!("/tmp/dralab-{user}"))]).map(|p| p.join(&name)).collect()
}

/// Says whether a socket can be bound at this path.
///
/// # Errors
/// When the path is too long, with both numbers.
pub fn check_length(path: &Path) -> Result<(), ClusterError> {
    let length = path.as_os_str().len();
    if length > LIMIT { Err(ClusterError::SocketPath { path: path.to_path_buf(), length, limit: LIMIT }) } else { Ok(()) }
}

/// Makes a folder with mode 0700, or checks the one that is there: a real folder of this user that nobody else can enter.
/// Somebody else could have made it first below /tmp.
fn private_folder(path: &Path, user: u32) -> Result<(), ClusterError> {
    let made = std::fs::DirBuilder::new().mode(0o700).create(path);
    match made {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(source) => return Err(ClusterError::File { action: "create", path: path.to_path_buf(), source }),
    }
    let meta = std::fs::symlink_metadata(path).map_err(ClusterError::file("read", path))?;
    let fault = if !meta.is_dir() {
        Some("it is not a folder".to_owned())
    } else if meta.uid() != user {
        Some(format!("it belongs to user {}", meta.uid()))
    } else if meta.mode() & 0o077 != 0 {
        Some(format!("its mode is {:o}, and 700 is needed", meta.mode() & 0o777))
    } else {
        None
    };
    match fault {
        Some(reason) => Err(ClusterError::SocketFolder { path: path.to_path_buf(), reason }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{LIMIT, check_length, folder};
    use std::path::Path;

    #[test]
    fn a_long_runtime_folder_falls_back_to_tmp() {
        let long = format!("/tmp/{}", "x".repeat(90));
        let made =
            folder(Some(Path::new(&long)), "sockets-test", Path::new("/s"), "dra-lab-worker/plugins_registry/gpu.example.com@reg.sock")
                .expect("a folder");
        assert!(made.display().to_string().starts_with("/tmp/dralab-"), "{}", made.display());
        std::fs::remove_dir(&made).expect("removed");
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a temp dir");
        std::fs::create_dir(dir.path().join("dralab")).expect("made");
        std::fs::set_permissions(dir.path().join("dralab"), std::fs::Permissions::from_mode(0o755)).expect("set");
        let error = folder(Some(dir.path()), "x", Path::new("/s"), "s").expect_err("refused").to_string();
        assert!(error.contains("its mode is 755"), "{error}");
    }

    #[test]
    fn too_long_says_both_numbers() {
        let path = format!("/{}", "x".repeat(LIMIT));
        let error = check_length(Path::new(&path)).expect_err("too long").to_string();
        assert!(error.contains(&format!("has {} bytes", LIMIT + 1)) && error.contains(&LIMIT.to_string()), "{error}");
    }
}
