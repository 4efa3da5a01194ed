//! A gRPC server on a Unix socket, which comes back when somebody removes the socket's file.
//!
//! Whoever wipes a kubelet's folders takes the sockets of running drivers along; the process would go on listening
//! where nobody can find it. The file is looked at now and then (a file system watcher may not be had).

use std::path::PathBuf;

use tokio::net::UnixListener;
use tokio::task::{JoinError, JoinHandle};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Router;

use super::error::DriverError;
use super::files;
use super::grpc::{Socket, SocketError};

/// Folders that the driver makes itself; the kubelet's are there before.
pub(super) const FOLDER_MODE: u32 = 0o700;

/// A socket and its listener.
type Bound = (UnixListener, Socket);

type Ended = Result<(), tonic::transport::Error>;

/// A server and its socket.
#[derive(Debug)]
pub(super) struct Served {
    what: &'static str,
    path: PathBuf,
    router: Router,
    socket: Option<Socket>,
    stop: CancellationToken,
    task: JoinHandle<Ended>,
    /// Servers of earlier sockets, which end with their last request.
    earlier: Vec<JoinHandle<Ended>>,
}

impl Served {
    /// Serves at `path`, which is bound, until `stop`.
    pub(super) fn new(what: &'static str, path: PathBuf, router: Router, bound: Bound, stop: &CancellationToken) -> Self {
        let stop = stop.child_token();
        let (listener, socket) = bound;
        let task = serve(router.clone(), listener, stop.clone());
        Served { what, path, router, socket: Some(socket), stop, task, earlier: Vec::new() }
    }

    /// Makes the socket again if its file is gone.
    pub(super) async fn restore(&mut self, parent: &CancellationToken) -> Result<(), SocketError> {
        self.earlier.retain(|task| !task.is_finished());
        if self.socket.as_ref().is_some_and(Socket::is_there) {
            return Ok(());
        }
        let folder = self.path.parent().unwrap_or(&self.path);
        files::create_folder(folder, FOLDER_MODE).map_err(|source| SocketError::Io { path: self.path.clone(), source })?;
        let (listener, socket) = Socket::bind(&self.path).await?;
        tracing::warn!(path = %self.path.display(), "somebody removed the socket; it is there again");
        let stop = parent.child_token();
        let task = serve(self.router.clone(), listener, stop.clone());
        self.socket = Some(socket);
        std::mem::replace(&mut self.stop, stop).cancel();
        self.earlier.push(std::mem::replace(&mut self.task, task));
        Ok(())
    }

    /// The file goes: nobody finds the server any more. What is connected stays so.
    pub(super) fn hide(&mut self) {
        self.socket = None;
    }

    /// Waits for its end, which comes by itself only when something failed.
    pub(super) async fn ended(&mut self) -> Result<(), DriverError> {
        let ended = (&mut self.task).await;
        finished(self.what, ended)
    }

    /// Waits for the end of what was told to stop; when `over` comes first, it is cut off.
    pub(super) async fn finish(self, over: impl Future<Output = ()>) -> Result<(), DriverError> {
        let mut tasks: Vec<JoinHandle<Ended>> = self.earlier.into_iter().chain([self.task]).collect();
        let ended = tokio::select! {
            ended = futures::future::join_all(tasks.iter_mut()) => ended,
            () = over => {
                tasks.iter().for_each(JoinHandle::abort);
                // An aborted task says only that it was aborted, which is no failure here.
                let ended = futures::future::join_all(tasks.iter_mut()).await;
                ended.into_iter().filter(|ended| !ended.as_ref().is_err_and(JoinError::is_cancelled)).collect()
            }
        };
        ended.into_iter().map(|ended| finished(self.what, ended)).fold(Ok(()), Result::and)
    }
}

fn serve(router: Router, listener: UnixListener, stop: CancellationToken) -> JoinHandle<Ended> {
    let serving = router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), async move { stop.cancelled().await });
    tokio::spawn(serving)
}

fn finished(what: &'static str, ended: Result<Ended, JoinError>) -> Result<(), DriverError> {
    ended?.map_err(|source| DriverError::Serve { what, source })
}
