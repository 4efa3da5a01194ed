//! The API in process, as tests use it.

use std::sync::Arc;

use dralab::base::clock::ManualClock;
use dralab::embedded::api::resource::{CONFIGMAPS, NAMESPACES};
use dralab::embedded::api::{Api, Caller, Resource, WriteOptions};
use dralab::embedded::http::Service;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

/// A lab of its own with a clock that stands still.
pub(crate) struct Lab {
    pub(crate) api: Api,
    pub(crate) clock: ManualClock,
    pub(crate) caller: Caller,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Lab {
    pub(crate) fn new(now: &str) -> Self {
        let clock = ManualClock::new(now.parse().unwrap());
        let lab = Lab { api: Api::in_memory(Arc::new(clock.clone())), clock, caller: Caller::component("test") };
        lab.namespace("default");
        lab
    }

    pub(crate) fn create(&self, resource: &'static Resource, namespace: &str, object: Value) -> Arc<Value> {
        self.api.create(&self.caller, resource, namespace, object, &WriteOptions::default()).unwrap()
    }

    pub(crate) fn namespace(&self, name: &str) {
        self.create(&NAMESPACES, "", json!({"metadata": {"name": name}}));
    }

    /// Writes something elsewhere until the next change will have this revision.
    pub(crate) fn next_is(&self, revision: u64) {
        let mut n = self.api.revision();
        assert!(n < revision, "already at {n}, {revision} is past");
        while n + 1 < revision {
            n += 1;
            let filler = json!({"metadata": {"name": format!("filler-{n}")}});
            self.create(&CONFIGMAPS, "default", filler);
        }
    }

    pub(crate) fn service(&self) -> Service {
        Service::new(self.api.clone())
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(bytes::Bytes::from(body.to_owned()))).unwrap();
        let answer = self.service().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes().to_vec();
        Answer { code: parts.status.as_u16(), headers: parts.headers, bytes }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], &body.to_string()).await
    }
}
