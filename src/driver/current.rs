//! Which of several instances of a driver publishes: the newest one that lives.
//!
//! During a rolling update the old and the new version may see other devices. If both kept the slices as they
//! think right, each would undo the other's work until the old one ends. So the newest writes its DRA socket's path
//! into a file that they share, and the others stand by as long as somebody answers there.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::files;

const FILE_MODE: u32 = 0o600;

/// The question for one instance.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    file: PathBuf,
    /// Its DRA socket.
    socket: PathBuf,
}

impl Current {
    /// For the instance with this DRA socket, of a driver with this folder.
    pub(super) fn new(folder: &Path, socket: &Path) -> Self {
        Current { file: folder.join("publisher"), socket: socket.to_path_buf() }
    }

    /// It is this one from now on.
    pub(super) fn take_over(&self) {
        // Without the file each instance publishes: the upgrade is less quiet, nothing else.
        if let Err(error) = files::replace(&self.file, self.socket.as_os_str().as_encoded_bytes(), FILE_MODE) {
            tracing::warn!(path = %self.file.display(), %error, "cannot say which instance publishes");
        }
    }

    /// Whether it is this one; takes over from one that is gone.
    pub(crate) fn is_this(&self) -> bool {
        let Ok(named) = std::fs::read(&self.file) else { return true };
        if named == self.socket.as_os_str().as_encoded_bytes() {
            return true;
        }
        let other = Path::new(std::str::from_utf8(&named).unwrap_or_default());
        if UnixStream::connect(other).is_ok() {
            return false;
        }
        self.take_over();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::Current;

    #[test]
    fn the_newest_that_lives_publishes() {
        let folder = tempfile::tempdir().unwrap();
        let sockets = ["one", "two"].map(|name| folder.path().join(name));
        let [one, two] = sockets.each_ref().map(|socket| Current::new(folder.path(), socket));
        assert!(one.is_this(), "nobody says otherwise");
        let _first = UnixListener::bind(&sockets[0]).unwrap();
        one.take_over();
        let second = UnixListener::bind(&sockets[1]).unwrap();
        assert!(one.is_this() && !two.is_this());
        two.take_over();
        assert!(!one.is_this() && two.is_this());
        drop(second);
        assert!(one.is_this(), "the newer one has ended");
        std::fs::write(folder.path().join("publisher"), [0xff]).unwrap();
        assert!(one.is_this());
    }
}
