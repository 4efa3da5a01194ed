//! Files that are either there whole or not at all.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// What the names of files that are being written end with.
const UNFINISHED: &str = ".tmp";

/// Replaces `path` by a file with `content`: written beside it, renamed. A reader sees the old or the new
/// content. For what can be written again after a crash of the machine.
///
/// # Errors
/// Whatever the file system says; the old file is untouched then.
pub(crate) fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    beside(path, content, mode)?.persist(path).map_err(|error| error.error)?;
    reached(path);
    Ok(())
}

/// [`replace`], with the content on the disk before it gets its name: also after a power failure the file is
/// whole, the old one or the new one. (Which of the two is not promised: that would take another sync, of the
/// folder, and after a power failure no container has its devices any more.) Gives the file, open.
///
/// # Errors
/// Whatever the file system says.
pub(crate) fn replace_synced(path: &Path, content: &[u8], mode: u32) -> io::Result<File> {
    let temporary = beside(path, content, mode)?;
    temporary.as_file().sync_data()?;
    let file = temporary.persist(path).map_err(|error| error.error)?;
    reached(path);
    Ok(file)
}

fn beside(path: &Path, content: &[u8], mode: u32) -> io::Result<tempfile::NamedTempFile> {
    // The leading dot keeps watchers of the folder (kubelet, CDI caches) from looking at it.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.");
    let mut temporary = tempfile::Builder::new().prefix(&prefix).suffix(UNFINISHED).tempfile_in(folder_of(path)?)?;
    reached(path);
    temporary.write_all(content)?;
    reached(path);
    temporary.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    Ok(temporary)
}

/// The files are as a process that is killed here leaves them; tests look.
#[cfg(not(test))]
const fn reached(_: &Path) {}

#[cfg(test)]
fn reached(path: &Path) {
    moments::reached(path);
}

/// For tests of crashes: calls somebody at each moment between two changes of files below a folder.
#[cfg(test)]
pub(crate) mod moments {
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex};

    type Look = Arc<dyn Fn() + Send + Sync>;

    static LOOKS: Mutex<Vec<(PathBuf, Look)>> = Mutex::new(Vec::new());

    pub(crate) fn watch(folder: &Path, look: Look) {
        LOOKS.lock().unwrap().push((folder.to_path_buf(), look));
    }

    pub(crate) fn forget(folder: &Path) {
        LOOKS.lock().unwrap().retain(|(watched, _)| watched != folder);
    }

    pub(super) fn reached(path: &Path) {
        let looks: Vec<Look> =
            LOOKS.lock().unwrap().iter().filter(|(folder, _)| path.starts_with(folder)).map(|(_, look)| Arc::clone(look)).collect();
        looks.iter().for_each(|look| look());
    }
}

fn folder_of(path: &Path) -> io::Result<&Path> {
    path.parent().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a file needs a folder"))
}

/// Removes what a process that was killed in the middle of [`replace`] has left of files whose names begin so. For
/// whoever is the only one to write them.
pub(crate) fn remove_unfinished(folder: &Path, beginning: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name.to_str().and_then(|name| name.strip_prefix('.')).is_some_and(|name| name.starts_with(beginning));
        if ours && name.to_str().is_some_and(|name| name.ends_with(UNFINISHED)) {
            tracing::info!(path = %entry.path().display(), "removing a file that was not finished");
            if let Err(error) = remove(&entry.path()) {
                tracing::warn!(path = %entry.path().display(), %error, "a file stays behind");
            }
        }
    }
}

/// Removes a file; one that is not there is removed already.
///
/// # Errors
/// Whatever else the file system says.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => {
            reached(path);
            Ok(())
        }
    }
}

/// Creates a folder and its parents, new ones with `mode`; existing ones stay as they are.
///
/// # Errors
/// Whatever the file system says.
pub(crate) fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

#[cfg(test)]
mod tests {
    use super::{create_folder, remove, replace, replace_synced};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_replaced_file_has_its_mode_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&path, b"one", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        replace_synced(&path, b"two", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
    }

    #[test]
    fn a_failed_replacement_keeps_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        create_folder(&path.join("inside"), 0o700).unwrap();
        replace(&path, b"x", 0o600).expect_err("a folder cannot be replaced by a file");
        assert!(path.join("inside").is_dir());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the temporary file is gone");
    }
}
