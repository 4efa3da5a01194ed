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

/// The `:authority` of calls to a registration socket.
///
/// A kubelet dials the bare path and so sends the percent-encoded path (`operation_generator.go`, `dial`; grpc-go,
/// `encodeAuthority`). `http::Uri` can hold that only where the socket's file name has an `@`, which makes the
/// encoded part a user name; servers built on h2 (tonic) refuse the other form too, so that a plugin of that kind
/// without an `@` cannot register with a real kubelet. Servers of grpc-go (all drivers that use the Kubernetes
/// helper) take any authority: for sockets without `@` this agent sends `localhost`.
pub(super) fn registration_origin(socket: &Path) -> Uri {
    let path = socket.to_string_lossy();
    if !path.contains('@') {
        return service_origin();
    }
    let mut authority = String::with_capacity(path.len() + 16);
    for byte in path.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]@".contains(&byte);
        if plain {
            authority.push(char::from(byte));
        } else {
            authority.push_str(&format!("%{byte:02X}"));
        }
    }
    Uri::builder().scheme("http").authority(authority).path_and_query("/").build().unwrap_or_else(|_| service_origin())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::registration_origin;

    #[test]
    fn the_authority_is_the_kubelets_where_it_can_be() {
        for (socket, authority) in [
            (
                "/var/lib/kubelet/plugins_registry/gpu.example.com@reg.sock",
                "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fgpu.example.com@reg.sock",
            ),
            ("/tmp/a b/x@reg.sock", "%2Ftmp%2Fa%20b%2Fx@reg.sock"),
            ("/tmp/x-reg.sock", "localhost"),
        ] {
            assert_eq!(registration_origin(Path::new(socket)).authority().map(http::uri::Authority::as_str), Some(authority), "{socket}");
        }
    }
}
