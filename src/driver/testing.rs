//! For the driver's tests: a small API server in process, and a driver with folders of its own.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::inventory::Profile;
use super::{DriverConfig, DriverError, DriverStatus, Folders};
use crate::base::clock::{SharedClock, SystemClock};

pub(crate) const NODE: &str = "dra-lab-worker";
pub(crate) const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

/// An API server that knows get, list, watch, create, update and delete of any path, apply of a claim's
/// `status.devices`, and nothing else.
#[derive(Clone, Debug)]
pub(crate) struct FakeApi {
    state: Arc<Mutex<State>>,
    /// Counts changes; watches wait on it.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    revision: u64,
    objects: BTreeMap<String, Value>,
    history: Vec<(u64, String, &'static str, Value)>,
    requests: Vec<String>,
    /// No answer to anything, watches break.
    offline: bool,
    /// Every open watch of an older epoch ends.
    epoch: u64,
    /// Watches before this revision get 410.
    oldest: u64,
    /// The device field that this server does not know.
    drops: Option<&'static str>,
    /// How many watches were opened.
    watches: u64,
    /// The watches up to this one tell nothing any more, as over a network that loses all.
    lost: u64,
    /// Nobody may write the status of claims.
    forbids_status: bool,
}

impl FakeApi {
    /// With the node [`NODE`].
    pub(crate) fn new() -> Self {
        let api = FakeApi { state: Arc::default(), changed: watch::Sender::new(0) };
        api.put(&format!("/api/v1/nodes/{NODE}"), json!({"metadata": {"name": NODE, "uid": "node-uid"}}));
        api
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Stores an object as somebody else would.
    pub(crate) fn put(&self, path: &str, mut object: Value) -> Value {
        let mut state = self.state();
        state.revision += 1;
        let revision = state.revision;
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{revision}"));
        }
        if let Some(field) = state.drops {
            for device in object["spec"]["devices"].as_array_mut().into_iter().flatten() {
                device.as_object_mut().unwrap().remove(field);
            }
        }
        let kind = if state.objects.insert(path.to_owned(), object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        state.history.push((revision, path.to_owned(), kind, object.clone()));
        drop(state);
        self.changed.send_replace(revision);
        object
    }

    /// Deletes an object as somebody else would.
    pub(crate) fn remove(&self, path: &str) -> Option<Value> {
        let mut state = self.state();
        let mut object = state.objects.remove(path)?;
        state.revision += 1;
        let revision = state.revision;
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        state.history.push((revision, path.to_owned(), "DELETED", object.clone()));
        drop(state);
        self.changed.send_replace(revision);
        Some(object)
    }

    pub(crate) fn below(&self, collection: &str) -> Vec<Value> {
        let prefix = format!("{collection}/");
        self.state().objects.iter().filter(|(path, _)| path.starts_with(&prefix)).map(|(_, object)| object.clone()).collect()
    }

    pub(crate) fn slices(&self) -> Vec<Value> {
        self.below(SLICES)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// How many requests came that change something.
    pub(crate) fn writes(&self) -> usize {
        self.state().requests.iter().filter(|request| !request.starts_with("GET")).count()
    }

    pub(crate) fn set_offline(&self, offline: bool) {
        self.state().offline = offline;
        self.end_watches();
    }

    pub(crate) fn end_watches(&self) {
        self.state().epoch += 1;
        self.changed.send_modify(|_| {});
    }

    /// Forgets the history, so that watches that go on from before get 410.
    pub(crate) fn compact(&self) {
        {
            let mut state = self.state();
            state.oldest = state.revision + 1;
            state.revision += 1;
        }
        self.end_watches();
    }

    /// Open watches tell nothing any more; new ones do.
    pub(crate) fn lose_watches(&self) {
        let mut state = self.state();
        state.lost = state.watches;
    }

    pub(crate) fn forbid_status(&self, forbidden: bool) {
        self.state().forbids_status = forbidden;
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).cloned()
    }

    /// Server-side apply of a claim's `status.devices`: entries of the applying driver are what it says.
    fn apply_devices(&self, path: &str, body: &[u8]) -> Response<BoxBody<Bytes, Infallible>> {
        let name = path.rsplit('/').next().unwrap_or_default();
        if self.state().forbids_status {
            return failure(403, "Forbidden", &format!("changing status.devices of {name} requires a permission"));
        }
        let Some(mut object) = self.get(path) else { return failure(404, "NotFound", &format!("{name:?} not found")) };
        let applied: Value = serde_json::from_slice(body).unwrap();
        if applied["metadata"]["uid"] != object["metadata"]["uid"] {
            return failure(409, "Conflict", "the uid is another one");
        }
        let applied = applied["status"]["devices"].as_array().unwrap();
        let driver = &applied[0]["driver"];
        let mut devices: Vec<Value> = object["status"]["devices"].as_array().cloned().unwrap_or_default();
        devices.retain(|entry| entry["driver"] != *driver);
        devices.extend(applied.iter().cloned());
        object["status"]["devices"] = json!(devices);
        json_body(StatusCode::OK, &self.put(path, object))
    }

    pub(crate) fn drop_field(&self, field: &'static str) {
        self.state().drops = Some(field);
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<BoxBody<Bytes, Infallible>>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default().to_owned());
        {
            let mut state = self.state();
            state.requests.push(format!("{} {path}?{query}", parts.method));
            if state.offline {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
            }
        }
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let known = self.state().objects.get(&path).cloned();
        Ok(match parts.method {
            Method::GET if query.contains("watch=true") => self.watch(&path, &query),
            Method::GET if known.is_some() => json_body(StatusCode::OK, &known.unwrap()),
            // Names of objects in these tests are below a collection that is a known plural.
            Method::GET if name.ends_with("slices") => {
                let items = self.below(&path);
                let version = self.state().revision.to_string();
                json_body(
                    StatusCode::OK,
                    &json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items}),
                )
            }
            Method::POST => {
                let mut object: Value = serde_json::from_slice(&body).unwrap();
                let name = match object["metadata"]["name"].as_str() {
                    Some(name) => name.to_owned(),
                    None => format!("{}{:05}", object["metadata"]["generateName"].as_str().unwrap(), self.state().revision),
                };
                object["metadata"]["name"] = json!(name);
                json_body(StatusCode::CREATED, &self.put(&format!("{path}/{name}"), object))
            }
            Method::PUT if known.is_some() => {
                let object: Value = serde_json::from_slice(&body).unwrap();
                if object["metadata"]["resourceVersion"] == known.unwrap()["metadata"]["resourceVersion"] {
                    json_body(StatusCode::OK, &self.put(&path, object))
                } else {
                    failure(409, "Conflict", "the object has been modified")
                }
            }
            Method::PATCH => self.apply_devices(path.strip_suffix("/status").unwrap_or(&path), &body),
            Method::DELETE => match self.remove(&path) {
                Some(object) => json_body(StatusCode::OK, &object),
                None => failure(404, "NotFound", &format!("{name:?} not found")),
            },
            _ => failure(404, "NotFound", &format!("{name:?} not found")),
        })
    }

    fn watch(&self, collection: &str, query: &str) -> Response<BoxBody<Bytes, Infallible>> {
        let from: u64 = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")).unwrap().parse().unwrap();
        if from < self.state().oldest {
            return failure(410, "Expired", "too old resource version");
        }
        let (api, prefix, epoch) = (self.clone(), format!("{collection}/"), self.state().epoch);
        let number = {
            let mut state = self.state();
            state.watches += 1;
            state.watches
        };
        let events = stream::unfold((from, self.changed.subscribe()), move |(from, mut changed)| {
            let (api, prefix) = (api.clone(), prefix.clone());
            async move {
                loop {
                    let _ = changed.borrow_and_update();
                    {
                        let state = api.state();
                        if state.epoch != epoch {
                            return None;
                        }
                        if number > state.lost
                            && let Some((revision, _, kind, object)) =
                                state.history.iter().find(|(revision, path, ..)| *revision > from && path.starts_with(&prefix))
                        {
                            let line = json!({"type": kind, "object": object}).to_string() + "\n";
                            return Some((Ok(Frame::data(Bytes::from(line))), (*revision, changed)));
                        }
                    }
                    changed.changed().await.ok()?;
                }
            }
        });
        Response::new(BodyExt::boxed(StreamBody::new(SyncStream(Box::pin(events)))))
    }
}

/// A stream that is only ever polled through `&mut`; `BoxBody` wants `Sync`.
struct SyncStream<S: ?Sized>(std::pin::Pin<Box<S>>);

impl<S: stream::Stream + ?Sized> stream::Stream for SyncStream<S> {
    type Item = S::Item;

    fn poll_next(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

fn json_body(status: StatusCode, value: &Value) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(BodyExt::boxed(Full::new(Bytes::from(value.to_string()))));
    *response.status_mut() = status;
    response
}

fn failure(code: u16, reason: &str, message: &str) -> Response<BoxBody<Bytes, Infallible>> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message});
    json_body(StatusCode::from_u16(code).unwrap(), &status)
}

impl tower::Service<Request<Body>> for FakeApi {
    type Response = Response<BoxBody<Bytes, Infallible>>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let api = self.clone();
        Box::pin(async move { api.answer(request).await })
    }
}

/// A running driver in a folder of its own.
pub(crate) struct Running {
    /// Kept as long as the driver runs.
    _folder: Arc<TempDir>,
    pub(crate) status: watch::Receiver<DriverStatus>,
    pub(crate) dra_socket: std::path::PathBuf,
    pub(crate) registration_socket: std::path::PathBuf,
    stop: CancellationToken,
    task: JoinHandle<Result<(), DriverError>>,
}

pub(crate) fn folders(folder: &TempDir) -> Folders {
    Folders { plugins: folder.path().join("plugins"), registry: folder.path().join("registry"), cdi: folder.path().join("cdi") }
}

impl Running {
    /// The default profile's devices, `count` of them, and whatever `change` makes of the settings.
    pub(crate) fn start(api: &FakeApi, folder: &Arc<TempDir>, count: u32, change: impl FnOnce(&mut DriverConfig)) -> Self {
        Self::start_at(api, folder, count, Arc::new(SystemClock), change)
    }

    /// [`Running::start`] with a clock.
    pub(crate) fn start_at(
        api: &FakeApi,
        folder: &Arc<TempDir>,
        count: u32,
        clock: SharedClock,
        change: impl FnOnce(&mut DriverConfig),
    ) -> Self {
        let profile = Profile::load("default").unwrap();
        let mut config = DriverConfig::simulated(&profile, NODE, Some(count), folders(folder));
        change(&mut config);
        let (status, dra_socket, registration_socket) = (config.status.subscribe(), config.dra_socket(), config.registration_socket());
        let stop = CancellationToken::new();
        let task = tokio::spawn(super::run(config, api.client(), clock, stop.clone()));
        Running { _folder: Arc::clone(folder), status, dra_socket, registration_socket, stop, task }
    }

    /// Waits for a state of the driver, or ends the test with the last one.
    pub(crate) async fn until(&mut self, what: impl Fn(&DriverStatus) -> bool) {
        let seen = tokio::time::timeout(Duration::from_secs(10), self.status.wait_for(|status| what(status))).await;
        let met = matches!(seen, Ok(Ok(_)));
        drop(seen);
        assert!(met, "the last state was {:?}", self.status.borrow());
    }

    pub(crate) async fn stop(self) -> Result<(), DriverError> {
        self.stop.cancel();
        self.task.await.unwrap()
    }

    /// As kill -9 would: nothing of the driver runs any more, and nothing was tidied up. (The sockets' files are
    /// kept by putting them in place again, as dropping them removes them.)
    pub(crate) async fn kill(self) {
        let paths = [self.dra_socket.clone(), self.registration_socket.clone()];
        let aside: Vec<_> = paths.iter().map(|path| path.with_extension("aside")).collect();
        for (path, aside) in paths.iter().zip(&aside) {
            std::fs::rename(path, aside).unwrap();
        }
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
        for (path, aside) in paths.iter().zip(&aside) {
            std::fs::rename(aside, path).unwrap();
        }
        // The servers end on their own tasks.
        for path in &paths {
            eventually("nobody listens", || std::os::unix::net::UnixStream::connect(path).is_err()).await;
        }
    }

    /// For a driver that ends by itself.
    pub(crate) async fn end(self) -> Result<(), DriverError> {
        tokio::time::timeout(Duration::from_secs(10), self.task).await.expect("it ends").unwrap()
    }
}

/// Waits until something holds, 10 s at most.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened: {what}");
}
