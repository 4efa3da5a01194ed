//! A small cluster for tests of controllers: the API in memory, a clock that stands still, the controllers as tasks.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Controllers;
use crate::base::clock::{ManualClock, SharedClock};
use crate::embedded::api::resource::{NAMESPACES, NODES, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES};
use crate::embedded::api::{Api, Caller, DeleteOptions, Object, Patch, Resource, Subresource, WriteOptions};

/// The cluster. Ends with [`Lab::end`].
pub(super) struct Lab {
    pub(super) api: Api,
    pub(super) clock: ManualClock,
    shutdown: CancellationToken,
    controllers: Controllers,
}

pub(super) fn user() -> Caller {
    Caller { manager: "test".to_owned(), user: "test".to_owned() }
}

impl Lab {
    /// A cluster with the namespace `s` and the node `n`.
    pub(super) async fn start() -> Self {
        let clock = ManualClock::new("2026-12-01T02:00:00Z".parse().expect("a time"));
        let shared: SharedClock = Arc::new(clock.clone());
        let api = Api::in_memory(shared.clone());
        let shutdown = CancellationToken::new();
        let controllers = Controllers::start(&api, &shared, &shutdown);
        let lab = Lab { api, clock, shutdown, controllers };
        lab.create(&NAMESPACES, json!({"metadata": {"name": "s"}}));
        lab.create(&NODES, json!({"metadata": {"name": "n"}}));
        lab.settle().await;
        lab
    }

    pub(super) async fn end(self) {
        self.shutdown.cancel();
        self.controllers.join().await;
    }

    /// Lets the controllers do what they can do without the clock moving.
    pub(super) async fn settle(&self) {
        let mut quiet = 0;
        let mut revision = self.api.revision();
        for _ in 0..100_000 {
            tokio::task::yield_now().await;
            let now = self.api.revision();
            quiet = if now == revision { quiet + 1 } else { 0 };
            revision = now;
            if quiet > 50 {
                return;
            }
        }
        panic!("the controllers do not come to rest");
    }

    pub(super) async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.settle().await;
    }

    pub(super) fn create(&self, resource: &'static Resource, mut object: Value) -> Object {
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        let namespace =
            if resource.namespaced { object["metadata"]["namespace"].as_str().unwrap_or("s").to_owned() } else { String::new() };
        self.api.create(&user(), resource, &namespace, object, &WriteOptions::default()).expect("created")
    }

    pub(super) fn patch(&self, resource: &'static Resource, part: Subresource, name: &str, patch: Value) -> Object {
        let namespace = if resource.namespaced { "s" } else { "" };
        self.api.patch(&user(), resource, part, namespace, name, Patch::Merge(patch), &WriteOptions::default()).expect("patched")
    }

    pub(super) fn get(&self, resource: &'static Resource, name: &str) -> Option<Object> {
        self.api.get(resource, if resource.namespaced { "s" } else { "" }, name).ok()
    }

    pub(super) fn list(&self, resource: &'static Resource) -> Vec<Object> {
        self.api.list(resource, "").expect("a list").items
    }

    pub(super) fn delete(&self, resource: &'static Resource, name: &str, options: &DeleteOptions) {
        self.api.delete(&user(), resource, if resource.namespaced { "s" } else { "" }, name, options).expect("deleted");
    }

    /// A pod with one entry `gpu`, whose source is `(resourceClaimName | resourceClaimTemplateName, NAME)`.
    pub(super) fn pod(&self, name: &str, source: (&str, &str)) -> Object {
        let entry = json!({"name": "gpu", source.0: source.1});
        let container = json!({"name": "ctr0", "image": "ubuntu:24.04", "resources": {"claims": [{"name": "gpu"}]}});
        self.create(&PODS, json!({"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": [entry]}}))
    }

    pub(super) fn claim(&self, name: &str) -> Object {
        self.create(&RESOURCECLAIMS, json!({"metadata": {"name": name}, "spec": devices()}))
    }

    pub(super) fn template(&self, name: &str) -> Object {
        let inner = json!({"metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}}, "spec": devices()});
        self.create(&RESOURCECLAIMTEMPLATES, json!({"metadata": {"name": name}, "spec": inner}))
    }

    /// What the scheduler does: protects, allocates and reserves a claim.
    pub(super) fn allocate(&self, claim: &str, pods: &[&Object]) {
        self.patch(
            &RESOURCECLAIMS,
            Subresource::Main,
            claim,
            json!({"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}),
        );
        let result = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"});
        let consumers: Vec<Value> =
            pods.iter().map(|pod| json!({"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]})).collect();
        let status = json!({"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers});
        self.patch(&RESOURCECLAIMS, Subresource::Status, claim, json!({"status": status}));
    }

    pub(super) fn phase(&self, pod: &str, phase: &str) {
        self.patch(&PODS, Subresource::Status, pod, json!({"status": {"phase": phase}}));
    }
}

fn devices() -> Value {
    json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}})
}
