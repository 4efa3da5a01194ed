//! A stand-in for an API server for tests of what is applied and removed in which order: it keeps objects, knows no rules, and deletes at once.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use serde_json::{Value, json};

/// Group, version, kind, plural, namespaced.
const KINDS: &[(&str, &str, &str, &str, bool)] = &[
    ("", "v1", "Namespace", "namespaces", false),
    ("", "v1", "Node", "nodes", false),
    ("", "v1", "Pod", "pods", true),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("apps", "v1", "DaemonSet", "daemonsets", true),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false),
    ("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", false),
    ("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", false),
    ("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true),
];

/// Plural, namespace, name.
type Key = (String, String, String);

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Value>,
    counter: u64,
    deleted: Vec<String>,
}

/// The stand-in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        Fake::default()
    }

    pub(crate) fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let fake = fake.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.expect("a body").to_bytes();
                let (code, answer) = fake.answer(&parts, &body);
                let response = Response::builder().status(code).header("content-type", "application/json");
                Ok::<_, Infallible>(response.body(Full::new(Bytes::from(answer.to_string()))).expect("a response"))
            }
        });
        Client::new(service, "default")
    }

    /// Adds an object, with a uid.
    pub(crate) fn add(&self, mut object: Value) {
        let kind = KINDS.iter().find(|k| k.2 == object["kind"].as_str().unwrap_or_default()).expect("a known kind");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = (kind.3.to_owned(), text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        let mut state = self.lock();
        state.stamp(&mut object);
        state.objects.insert(key, object);
    }

    /// Removes an object by its title, as somebody else would.
    pub(crate) fn remove(&self, title: &str) {
        self.lock().objects.retain(|_, object| super::manifests::title(object) != title);
    }

    /// Titles of what is there.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().objects.values().map(super::manifests::title).collect()
    }

    /// Titles of what was deleted through the client, in order.
    pub(crate) fn deleted(&self) -> Vec<String> {
        self.lock().deleted.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, parts: &http::request::Parts, body: &[u8]) -> (u16, Value) {
        let path = parts.uri.path();
        if path == "/api" || path == "/apis" {
            return (200, discovery(path == "/api"));
        }
        let query: BTreeMap<String, String> = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|p| p.split_once('='))
            .map(|(k, v)| (k.to_owned(), decoded(v)))
            .collect();
        let (kind, key) = locate(path);
        let mut state = self.lock();
        if key.2.is_empty() {
            let fits = |(at, object): &(&Key, &Value)| {
                at.0 == key.0
                    && (key.1.is_empty() || at.1 == key.1)
                    && query.get("labelSelector").is_none_or(|s| s.split(',').all(|term| has_label(object, term)))
                    && query.get("fieldSelector").is_none_or(|s| s.split(',').all(|term| has_field(object, term)))
            };
            let items: Vec<Value> = state.objects.iter().filter(fits).map(|(_, object)| object.clone()).collect();
            let version = state.counter.to_string();
            return (
                200,
                json!({"apiVersion": "v1", "kind": format!("{kind}List"), "metadata": {"resourceVersion": version}, "items": items}),
            );
        }
        match parts.method {
            Method::GET => state.objects.get(&key).map_or_else(|| failure(404, "NotFound"), |object| (200, object.clone())),
            Method::PATCH => state.patch(key, &serde_json::from_slice(body).expect("JSON")),
            Method::DELETE => {
                let wanted: Value = serde_json::from_slice(body).unwrap_or_default();
                let Some(object) = state.objects.get(&key).cloned() else { return failure(404, "NotFound") };
                let uid = &wanted["preconditions"]["uid"];
                if !uid.is_null() && *uid != object["metadata"]["uid"] {
                    return failure(409, "Conflict");
                }
                state.objects.remove(&key);
                if key.0 == "namespaces" {
                    state.objects.retain(|at, _| at.1 != key.2);
                }
                state.deleted.push(super::manifests::title(&object));
                (200, json!({"apiVersion": "v1", "kind": "Status", "status": "Success"}))
            }
            _ => failure(405, "MethodNotAllowed"),
        }
    }
}

impl State {
    fn stamp(&mut self, object: &mut Value) {
        self.counter += 1;
        object["metadata"]["resourceVersion"] = json!(self.counter.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.counter));
        }
    }

    fn patch(&mut self, key: Key, patch: &Value) -> (u16, Value) {
        let before = self.objects.get(&key).cloned();
        let version = &patch["metadata"]["resourceVersion"];
        if !version.is_null() && before.as_ref().is_none_or(|b| b["metadata"]["resourceVersion"] != *version) {
            return failure(409, "Conflict");
        }
        let mut after = before.clone().unwrap_or_default();
        json_patch::merge(&mut after, patch);
        if before.as_ref() != Some(&after) {
            self.stamp(&mut after);
            self.objects.insert(key, after.clone());
        }
        (200, after)
    }
}

fn discovery(core: bool) -> Value {
    let items: Vec<Value> = KINDS
        .iter()
        .filter(|k| k.0.is_empty() == core)
        .map(|(group, version, kind, plural, namespaced)| {
            let scope = if *namespaced { "Namespaced" } else { "Cluster" };
            json!({"metadata": {"name": group}, "versions": [{"version": version, "resources": [
                {"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "singularResource": kind.to_lowercase()}]}]})
        })
        .collect();
    json!({"items": items})
}

/// The kind and the key of a path; without a name it is a collection's.
fn locate(path: &str) -> (&'static str, Key) {
    let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    parts.drain(..if parts[0] == "api" { 2 } else { 3 });
    let (namespace, rest) = match parts.as_slice() {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest.to_vec()),
        rest => ("", rest.to_vec()),
    };
    let kind = KINDS.iter().find(|k| k.3 == rest[0]).expect("a known kind");
    (kind.2, (rest[0].to_owned(), namespace.to_owned(), rest.get(1).copied().unwrap_or_default().to_owned()))
}

fn has_label(object: &Value, term: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    match (term.strip_prefix('!'), term.split_once('=')) {
        (Some(absent), _) => labels[absent].is_null(),
        (None, Some((name, value))) => labels[name] == value,
        (None, None) => !labels[term].is_null(),
    }
}

fn has_field(object: &Value, term: &str) -> bool {
    let (path, value) = term.split_once('=').expect("a field selector");
    object.pointer(&format!("/{}", path.replace('.', "/"))).is_some_and(|field| field == value)
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap_or_default(), 16).unwrap_or_default()
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
