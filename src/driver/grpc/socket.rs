//! Unix sockets: the limit on their paths, stale ones, and their end.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// The longest path of a Unix socket in bytes: `sun_path` has 108 bytes on Linux and 104 on macOS and the BSDs,
/// of which one is for the terminating zero.
pub const MAX_SOCKET_PATH: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };

/// Only the kubelet, which runs as the same user, connects.
const SOCKET_MODE: u32 = 0o600;

/// The file of a bound Unix socket; dropping it removes the file, unless somebody else has bound that path since.
/// To be dropped before the listener: as long as that is open, the inode is not given to another file.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl Socket {
    /// Binds `path`. A socket that nobody listens on any more is replaced.
    pub(crate) async fn bind(path: &Path) -> Result<(UnixListener, Socket), SocketError> {
        check_length(path)?;
        let failed = |source| SocketError::Io { path: path.to_path_buf(), source };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket { path: path.to_path_buf() }),
            Ok(_) if UnixStream::connect(path).await.is_ok() => return Err(SocketError::InUse { path: path.to_path_buf() }),
            Ok(_) => fs::remove_file(path).map_err(failed)?,
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE)).map_err(failed)?;
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        Ok((listener, Socket { path: path.to_path_buf(), file: (metadata.dev(), metadata.ino()) }))
    }
}

impl Socket {
    /// Whether the file is still there.
    pub(crate) fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.file)
    }
}

/// Removes sockets that nobody listens on from a folder, those with names that `ours` accepts. A process that was
/// killed leaves its own behind, and the next one may have another name. To be called under the driver's lock, so
/// that none is taken that is being bound.
pub(crate) fn remove_leftovers(folder: &Path, ours: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(&ours) && entry.file_type().is_ok_and(|kind| kind.is_socket());
        let path = entry.path();
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if is_ours && std::os::unix::net::UnixStream::connect(&path).is_err_and(refused) {
            tracing::info!(path = %path.display(), "removing the socket of an instance that is gone");
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "a socket stays behind");
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_there()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "a socket stays behind");
        }
    }
}

/// Whether a socket can be bound at `path`, as far as its length goes.
pub(crate) fn check_length(path: &Path) -> Result<(), SocketError> {
    let length = path.as_os_str().as_bytes().len();
    if length > MAX_SOCKET_PATH {
        return Err(SocketError::TooLong { path: path.to_path_buf(), length, limit: MAX_SOCKET_PATH });
    }
    Ok(())
}

/// A socket could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path is too long for a Unix socket.
    #[error("socket path {} has {length} bytes, a Unix socket's path has at most {limit}", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
        /// What this system allows.
        limit: usize,
    },
    /// Another process listens there.
    #[error("socket {} is in use by another process", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Something else is there; it is not touched.
    #[error("{} exists and is not a socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("socket {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::{MAX_SOCKET_PATH, Socket, SocketError};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn the_limit_is_the_systems() {
        let folder = tempfile::tempdir().unwrap();
        let room = MAX_SOCKET_PATH - folder.path().as_os_str().len() - 1;
        let longest = folder.path().join("x".repeat(room));
        Socket::bind(&longest).await.expect("the longest path can be bound");
        let path = folder.path().join("x".repeat(room + 1));
        let error = Socket::bind(&path).await.expect_err("one byte more is too long");
        assert!(
            matches!(error, SocketError::TooLong { length, limit, .. } if length == MAX_SOCKET_PATH + 1 && limit == MAX_SOCKET_PATH),
            "{error}"
        );
        assert!(std::os::unix::net::UnixListener::bind(&path).is_err(), "the system agrees");
    }

    #[tokio::test]
    async fn stale_sockets_are_replaced_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (listener, socket) = Socket::bind(&path).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Socket::bind(&path).await, Err(SocketError::InUse { .. })));
        // Somebody removes the file and binds the path.
        fs::remove_file(&path).unwrap();
        let (second, newer) = Socket::bind(&path).await.unwrap();
        drop(socket);
        assert!(path.exists(), "the newer socket stays when the older one ends");
        drop(listener);
        // As after a crash: nobody listens, the file is there.
        drop(second);
        let (_third, newest) = Socket::bind(&path).await.expect("a stale socket is replaced");
        drop((newest, newer));
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Socket::bind(&path).await, Err(SocketError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
