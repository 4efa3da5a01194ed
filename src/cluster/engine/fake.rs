//! An engine for tests: a Unix socket that answers with what it was given, and remembers what it was asked.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use crate::cluster::engine::{Address, Endpoint, Origin};

/// What to answer.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A status and a JSON body.
    Json(u16, Value),
    /// 200 and a body in pieces.
    Chunks(Vec<String>),
    /// A hijacked connection that breaks after the first byte of input.
    Break,
    /// A hijacked connection (as of exec) that reads its input to the end, then sends it back as stdout and `done` as stderr.
    Echo,
}

type Routes = Arc<HashMap<(&'static str, String), Answer>>;
type Asked = Arc<Mutex<Vec<String>>>;

/// A running fake engine; ends with its owner.
pub(crate) struct Fake {
    folder: tempfile::TempDir,
    asked: Asked,
    server: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Fake {
    /// An answer to `/version`, that of Docker 20.10.
    pub(crate) fn version() -> (&'static str, &'static str, Answer) {
        ("GET", "/version", Answer::Json(200, json!({"Version": "20.10.24", "ApiVersion": "1.41"})))
    }

    /// Starts one that knows these answers: method, path, answer. A path is compared as it is asked for: without an API version.
    pub(crate) async fn start(routes: Vec<(&'static str, &str, Answer)>) -> Fake {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("engine.sock")).expect("bound");
        let routes: Routes = Arc::new(routes.into_iter().map(|(method, path, answer)| ((method, path.to_owned()), answer)).collect());
        let asked: Asked = Arc::default();
        let log = asked.clone();
        let server = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                let (routes, log) = (routes.clone(), log.clone());
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(request, routes.clone(), log.clone()));
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(connection), service).with_upgrades().await;
                });
            }
        });
        Fake { folder, asked, server }
    }

    /// Where it is.
    pub(crate) fn address(&self) -> Address {
        Address { endpoint: Endpoint::Unix(self.folder.path().join("engine.sock")), origin: Origin::DockerHost }
    }

    /// What it was asked so far: `METHOD /path?query`.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

async fn answer(request: Request<Incoming>, routes: Routes, log: Asked) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let asked = format!("{} {}", request.method(), request.uri());
    log.lock().expect("no panic").push(asked);
    let method = request.method().clone();
    let mut request = request;
    if !request.headers().contains_key("upgrade") {
        // An engine reads what it is sent before it answers; a client whose body is cut off would see an error.
        let _ = request.body_mut().collect().await;
    }
    let known = routes.iter().find(|((m, path), _)| *m == method.as_str() && path == request.uri().path());
    let body = |text: String| Full::new(Bytes::from(text)).boxed();
    let mut response = Response::new(body(String::new()));
    match known.map(|(_, answer)| answer.clone()) {
        None => {
            *response.status_mut() = StatusCode::NOT_FOUND;
            *response.body_mut() = body(json!({"message": "page not found"}).to_string());
        }
        Some(Answer::Json(status, value)) => {
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            *response.body_mut() = body(value.to_string());
        }
        Some(Answer::Chunks(chunks)) => {
            let frames = futures::stream::iter(chunks).map(|chunk| Ok(Frame::data(Bytes::from(chunk))));
            *response.body_mut() = BodyExt::boxed(StreamBody::new(frames));
        }
        Some(how @ (Answer::Echo | Answer::Break)) => {
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            let headers = response.headers_mut();
            headers.insert("connection", "Upgrade".parse().expect("a value"));
            headers.insert("upgrade", "tcp".parse().expect("a value"));
            tokio::spawn(hijack(request, matches!(how, Answer::Break)));
        }
    }
    Ok(response)
}

/// The engine's framing of outputs: a byte for which, three zeros, the length, the bytes.
async fn hijack(request: Request<Incoming>, breaks: bool) {
    let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
    let mut connection = TokioIo::new(upgraded);
    if breaks {
        let _ = connection.read_u8().await;
        // A header that promises more than comes.
        let _ = connection.write_all(&[1, 0, 0, 0, 0, 0, 0, 9, b'x']).await;
        return;
    }
    let mut input = Vec::new();
    if connection.read_to_end(&mut input).await.is_err() {
        return;
    }
    for (which, bytes) in [(1_u8, input.as_slice()), (2, b"done\n")] {
        let length = u32::try_from(bytes.len()).expect("it is short").to_be_bytes();
        let _ = connection.write_all(&[&[which, 0, 0, 0], &length[..], bytes].concat()).await;
    }
    let _ = connection.shutdown().await;
}
