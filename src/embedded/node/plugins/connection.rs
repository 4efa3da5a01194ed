//! HTTP/2 over a plugin's Unix socket, with the connection's end in our hands.

use std::path::Path;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::Uri;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;

/// Sends gRPC requests over one connection. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    send: http2::SendRequest<tonic::body::Body>,
}

impl Channel {
    /// Connects to a socket. The future is the connection itself: it must be polled, and ends when the connection does.
    pub(super) async fn connect(socket: &Path) -> std::io::Result<(Channel, BoxFuture<'static, ()>)> {
        let stream = UnixStream::connect(socket).await?;
        let (send, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
        let connection = Box::pin(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to a plugin ended");
            }
        });
        Ok((Channel { send }, connection))
    }
}

impl tower::Service<http::Request<tonic::body::Body>> for Channel {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.send.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.send.send_request(request))
    }
}

/// The `:authority` of calls to a DRA service socket: grpc-go sends this for targets of the form `unix:PATH`.
pub(super) fn service_origin() -> Uri {
    Uri::from_static("http://localhost")
}
