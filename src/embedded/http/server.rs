//! HTTPS on loopback: HTTP/2 and HTTP/1.1, a bearer token, and an end that nobody can hold up.
//!
//! The deadlines here are about the machine's network and not the lab: they run on the machine's time, so that a lab
//! whose clock stands still can be stopped.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, Request, Uri};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::respond::{self, Answer};
use super::{Certificate, CertificateError, Service};
use crate::embedded::api::{Api, Status};

/// How long a client may take for the TLS handshake and for the head of a request.
const HEAD: Duration = Duration::from_secs(15);
/// How long answers that are under way may take once the server is told to stop.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// How long to wait when the machine has no file descriptor left for a connection.
const BREATH: Duration = Duration::from_millis(50);
/// Connections at a time; a lab has a handful of clients.
const CONNECTIONS: usize = 1024;

/// The server could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// TLS.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The address is not loopback: a lab is never served to a network.
    #[error("{0} is not a loopback address")]
    NotLoopback(SocketAddr),
}

/// A listening server.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: TlsAcceptor,
    service: Service,
    token: Arc<str>,
}

impl Server {
    /// Listens on a loopback address (port 0: any free one); [`Server::run`] serves.
    ///
    /// # Errors
    /// The address is taken or not loopback, or TLS does not take the certificate.
    pub async fn bind(api: &Api, certificate: &Certificate, token: &str, address: SocketAddr) -> Result<Self, ServerError> {
        if !address.ip().is_loopback() {
            return Err(ServerError::NotLoopback(address));
        }
        let tls = TlsAcceptor::from(certificate.tls()?);
        let failed = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Server { listener, address, tls, service: Service::new(api.clone()), token: token.into() })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's URL for a kubeconfig.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Serves until `stop` is cancelled. Then watches end, other answers get a second, and all connections are
    /// closed when this returns.
    pub async fn run(self, stop: CancellationToken) {
        let gate = Arc::new(Gate { service: self.service.with_closing(stop.clone()), token: self.token });
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(serve(stream, self.tls.clone(), gate.clone(), stop.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(BREATH).await;
                    }
                }
            }
        }
        drop(self.listener);
        let all_done = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_ANSWERS, all_done).await.is_err() {
            connections.shutdown().await;
        }
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, gate: Arc<Gate>, stop: CancellationToken) {
    // Small answers must not wait for the acknowledgement of earlier ones.
    let _ = stream.set_nodelay(true);
    let handshake = async {
        tokio::select! {
            () = stop.cancelled() => None,
            done = tokio::time::timeout(HEAD, tls.accept(stream)) => done.ok()?.ok(),
        }
    };
    let Some(stream) = handshake.await else { return };
    let service = service_fn(move |request| {
        let gate = gate.clone();
        async move { Ok::<_, Infallible>(gate.answer(request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    // Header names as Go writes them: scripts that look for `Content-Type` find it.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).title_case_headers(true);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// Lets in who names a loopback host and knows the token.
struct Gate {
    service: Service,
    token: Arc<str>,
}

impl Gate {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if let Err(status) = self.admit(request.uri(), request.headers()) {
            return respond::failure(&status);
        }
        match self.service.clone().call(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }

    /// A page in a browser can reach loopback under a name of its own (DNS rebinding); it then sends that name.
    fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Status> {
        let named = headers.get(HOST).and_then(|host| host.to_str().ok()).or_else(|| uri.authority().map(http::uri::Authority::as_str));
        let host = named.unwrap_or_default();
        if !is_loopback(host) {
            return Err(Status::new(403, "Forbidden", format!("the host {host:?} is not loopback: this API is for this machine only")));
        }
        let sent = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes).unwrap_or_default();
        let known = match sent.split_at_checked(7) {
            Some((scheme, token)) => scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(token.trim_ascii().ct_eq(self.token.as_bytes())),
            None => false,
        };
        if known { Ok(()) } else { Err(Status::new(401, "Unauthorized", "Unauthorized")) }
    }
}

/// `localhost`, `127.0.0.0/8` or `[::1]`, with or without a port.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn hosts() {
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:6443", "127.1.2.3", "[::1]:6443", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "example.com", "10.0.0.1:6443", "127.0.0.1.example.com", "localhost.example.com:1", "[::2]:1", "0.0.0.0"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
