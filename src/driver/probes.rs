//! Probes over HTTP, as a kubelet asks them of a pod: is it alive, is it ready.
//!
//! `/healthz` is about the process: the DRA socket answers. `/readyz` is about its work: the kubelet has taken it on
//! and its devices are published. An API server that is away makes a driver unready, never unhealthy: a restart
//! would help nobody.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::run::require_answer;
use super::status::{DriverStatus, Registered};
use crate::base::clock::SharedClock;

/// A probe is answered within this; a kubelet waits 1 s by default.
const PATIENCE: Duration = Duration::from_millis(900);
/// How long a client may take to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections at a time; more wait in the listener's queue.
const CONNECTIONS: usize = 8;

/// Answers probes. Owns one task ([`Probes::run`]).
#[derive(Debug)]
pub(super) struct Probes {
    listener: TcpListener,
    answers: Answers,
}

#[derive(Clone, Debug)]
struct Answers {
    dra_socket: PathBuf,
    publishes: bool,
    status: watch::Receiver<DriverStatus>,
    clock: SharedClock,
}

impl Probes {
    /// Listens at `address`.
    pub(super) async fn bind(
        address: SocketAddr,
        dra_socket: PathBuf,
        publishes: bool,
        status: watch::Receiver<DriverStatus>,
        clock: SharedClock,
    ) -> Result<Self, ProbeError> {
        let listener = TcpListener::bind(address).await.map_err(|source| ProbeError { address, source })?;
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "probes are answered");
        }
        Ok(Probes { listener, answers: Answers { dra_socket, publishes, status, clock } })
    }

    /// Answers until it is dropped.
    pub(super) async fn run(self) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                _ = connections.join_next(), if !connections.is_empty() => {}
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                    Ok((stream, _)) => drop(connections.spawn(connection(stream, self.answers.clone()))),
                    // No file descriptor is left, or the client is gone already.
                    Err(error) => {
                        tracing::warn!(%error, "a probe was not accepted");
                        self.answers.clock.sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
    }
}

async fn connection(stream: TcpStream, answers: Answers) {
    let service = service_fn(move |request| {
        let answers = answers.clone();
        async move { Ok::<_, Infallible>(answers.answer(&request).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a probe broke off");
    }
}

impl Answers {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let outcome = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/healthz") => self.alive().await,
            (&Method::GET | &Method::HEAD, "/readyz") => self.ready(),
            _ => return text(StatusCode::NOT_FOUND, "there are /healthz and /readyz"),
        };
        match outcome {
            Ok(()) => text(StatusCode::OK, "ok"),
            Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, &reason),
        }
    }

    async fn alive(&self) -> Result<(), String> {
        tokio::select! {
            answer = require_answer(&self.dra_socket) => answer.map_err(|error| error.to_string()),
            () = self.clock.sleep(PATIENCE) => Err(format!("no answer on {} within {} ms", self.dra_socket.display(), PATIENCE.as_millis())),
        }
    }

    fn ready(&self) -> Result<(), String> {
        let status = self.status.borrow();
        let mut missing = Vec::new();
        match &status.registered {
            Registered::Yes => {}
            Registered::NotYet => missing.push("the kubelet has not found the driver".to_owned()),
            Registered::Asked => missing.push("the kubelet has not taken the driver on yet".to_owned()),
            Registered::Refused(reason) => missing.push(format!("the kubelet refused the driver: {reason}")),
        }
        if self.publishes && status.published.is_none() {
            missing.push("no ResourceSlice is published".to_owned());
        }
        if missing.is_empty() {
            return Ok(());
        }
        missing.extend(status.troubles());
        Err(missing.join("; "))
    }
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))));
    *response.status_mut() = status;
    response
}

/// The address for probes cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("health address {address}: {source}")]
pub struct ProbeError {
    address: SocketAddr,
    source: io::Error,
}
