//! From a request to an answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{HeaderMap, Method, Request, Response};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::negotiate::{Format, Shape, negotiate};
use super::query::Query;
use super::respond::{self, Answer, Body};
use super::route::{Address, Route, route};
use super::{body, exec, logs, read, reviews, write};
use crate::embedded::api::{Api, Caller, Status, discovery, document::Document, openapi};

/// The API as a `tower` service, generic over the request's body. Cheap to clone; never fails, a refusal is an answer.
#[derive(Clone, Debug)]
pub struct Service {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    api: Api,
    caller: Option<Caller>,
    closing: CancellationToken,
}

/// What the endpoints need of a request.
pub(super) struct Call {
    pub(super) api: Api,
    pub(super) caller: Caller,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) query: Query,
    pub(super) closing: CancellationToken,
}

impl Call {
    pub(super) fn header(&self, name: &http::header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(super) fn format(&self) -> Result<Format, Status> {
        negotiate(self.header(&ACCEPT), self.header(&USER_AGENT), &self.query)
    }
}

impl Service {
    /// A service over an API.
    #[must_use]
    pub fn new(api: Api) -> Self {
        Service { inner: Arc::new(Inner { api, caller: None, closing: CancellationToken::new() }) }
    }

    /// Who calls where a request does not say; a `fieldManager` or `Impersonate-User` still wins.
    #[must_use]
    pub fn with_caller(self, caller: Caller) -> Self {
        Service { inner: Arc::new(Inner { caller: Some(caller), ..(*self.inner).clone() }) }
    }

    /// Watches and followed logs end when the token is cancelled.
    #[must_use]
    pub fn with_closing(self, closing: CancellationToken) -> Self {
        Service { inner: Arc::new(Inner { closing, ..(*self.inner).clone() }) }
    }

    async fn answer<B>(self, request: Request<B>) -> Answer
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (mut parts, request_body) = request.into_parts();
        let upgrade = parts.extensions.remove::<hyper::upgrade::OnUpgrade>();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let caller = self.caller(&parts.headers, &query);
        let call = Call {
            api: self.inner.api.clone(),
            caller,
            method: parts.method,
            headers: parts.headers,
            query,
            closing: self.inner.closing.clone(),
        };
        let path = parts.uri.path();
        let done = match route(path) {
            Route::Objects(address) => objects(&call, &address, request_body, upgrade).await,
            Route::Review(plural) => match body::collect(request_body).await {
                Ok(bytes) => reviews::answer(&call, plural, &bytes),
                Err(status) => Err(status),
            },
            Route::NoResource => Err(no_resource()),
            Route::Nothing => Ok(nothing()),
            fixed => get_only(&call).map(|()| self::fixed(&call, &fixed, path)),
        };
        done.unwrap_or_else(|status| respond::failure(&status))
    }

    /// The field manager is the query's `fieldManager`, else the first part of the User-Agent.
    fn caller(&self, headers: &HeaderMap, query: &Query) -> Caller {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let named = query.text("fieldManager");
        let agent: String = text("user-agent").split('/').next().unwrap_or_default().chars().take(128).collect();
        let own = self.inner.caller.as_ref();
        let manager = if !named.is_empty() {
            named.to_owned()
        } else if let Some(own) = own {
            own.manager.clone()
        } else if agent.is_empty() {
            "unknown".to_owned()
        } else {
            agent
        };
        let user = match (text("impersonate-user"), own) {
            ("", Some(own)) => own.user.clone(),
            ("", None) => "kubernetes-admin".to_owned(),
            (user, _) => user.to_owned(),
        };
        Caller { manager, user }
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.clone().answer(request).map(Ok).boxed()
    }
}

/// 405 as the API server words it.
pub(super) fn method_not_allowed() -> Status {
    let mut status = Status::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
    status.details = json!({});
    status
}

/// 404 of a path below a group that is served.
pub(super) fn no_resource() -> Status {
    let mut status = Status::new(404, "NotFound", "the server could not find the requested resource");
    status.details = json!({});
    status
}

/// 501 for what needs a process in the container.
fn not_simulated(subresource: &str) -> Status {
    let message = format!(
        "pods/{subresource} is not served: containers of an embedded lab are simulated and have no process to reach; \
         kubectl logs shows what they print"
    );
    Status::new(501, "NotImplemented", message)
}

/// What is not below a group is no API and answered in plain text.
fn nothing() -> Answer {
    respond::text(404, "404 page not found\n")
}

fn get_only(call: &Call) -> Result<(), Status> {
    if call.method == Method::GET || call.method == Method::HEAD { Ok(()) } else { Err(method_not_allowed()) }
}

/// Endpoints without objects.
fn fixed(call: &Call, route: &Route, path: &str) -> Answer {
    match route {
        Route::Version => respond::value(200, &pretty(), &version()),
        Route::Health => respond::text(200, "ok"),
        Route::Root => respond::value(200, &pretty(), &json!({"paths": paths()})),
        Route::Discovery => match discovery::serve(path.trim_end_matches('/'), call.header(&ACCEPT), call.header(&HOST)) {
            Some(document) => serve(call, document),
            None => respond::failure(&no_resource()),
        },
        Route::OpenApi => {
            openapi::serve(path.trim_end_matches('/'), call.header(&ACCEPT)).map_or_else(nothing, |document| serve(call, document))
        }
        Route::NoResource | Route::Nothing | Route::Objects(_) | Route::Review(_) => nothing(),
    }
}

fn pretty() -> Format {
    Format { yaml: false, pretty: true, shape: Shape::Object }
}

fn serve(call: &Call, document: Document) -> Answer {
    let known = call.headers.get(http::header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let unchanged = document.etag.is_some() && document.etag.as_deref() == known;
    let mut answer = if unchanged {
        respond::answer(304, &document.content_type, respond::full(""))
    } else {
        respond::answer(200, &document.content_type, respond::full(document.body))
    };
    let etag = document.etag.map(|etag| ("etag", etag));
    for (name, value) in document.headers.into_iter().chain(etag) {
        if let (Ok(name), Ok(value)) = (http::HeaderName::from_bytes(name.as_bytes()), http::HeaderValue::from_str(&value)) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

/// `/version`: the Kubernetes whose behaviour this API follows.
fn version() -> Value {
    json!({
        "major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "37", "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "36", "gitVersion": concat!("v1.37.2+dralab-", env!("CARGO_PKG_VERSION")), "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, platform_arch()),
    })
}

/// The processor as Go names it.
fn platform_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn paths() -> Vec<String> {
    let mut paths: Vec<String> =
        ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].into_iter().map(str::to_owned).collect();
    for resource in crate::embedded::api::resource::RESOURCES.iter().filter(|resource| !resource.group.is_empty()) {
        paths.push(format!("/apis/{}", resource.group));
        paths.push(format!("/apis/{}", resource.api_version()));
    }
    paths.sort();
    paths.dedup();
    paths
}

async fn objects<B>(call: &Call, address: &Address, request_body: B, upgrade: Option<hyper::upgrade::OnUpgrade>) -> Result<Answer, Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let of_pod = address.resource == &crate::embedded::api::resource::PODS;
    if of_pod && matches!(address.subresource.as_str(), "attach" | "portforward" | "proxy") {
        return Err(not_simulated(&address.subresource));
    }
    if of_pod && address.subresource == "exec" {
        return exec::answer(call, address, upgrade);
    }
    let log = of_pod && address.subresource == "log";
    match call.method {
        Method::GET | Method::HEAD if log => logs::answer(call, address),
        Method::GET | Method::HEAD if address.name.is_empty() || address.watch => read::many(call, address).await,
        Method::GET | Method::HEAD => read::one(call, address),
        _ => {
            let bytes = body::collect(request_body).await?;
            write::answer(call, address, &bytes)
        }
    }
}
