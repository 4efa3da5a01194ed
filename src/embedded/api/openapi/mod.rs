//! `/openapi/v3`: the index and one document per group and version, for kubectl's validation and `kubectl explain`.
//!
//! Made at the first request from k8s-openapi's schemas and the resource table, then kept.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::discovery::{KUBERNETES_VERSION, groups, hash};
use super::document::Document;
use super::schema;

mod components;
mod paths;

/// A document and the hash in its address.
struct Built {
    /// Path below `/openapi/v3/`, such as `apis/resource.k8s.io/v1`.
    path: String,
    hash: String,
    body: Bytes,
}

/// The answer to a GET below `/openapi`, `None` where there is no such document. Documents are JSON whatever `accept`
/// says: every client that asks for another form also takes JSON.
#[must_use]
pub fn serve(path: &str, accept: &str) -> Option<Document> {
    let _ = accept;
    let rest = path.strip_prefix("/openapi/v3")?.trim_matches('/');
    if rest.is_empty() {
        return Some(index());
    }
    let built = documents().iter().find(|document| document.path == rest)?;
    Some(Document {
        content_type: "application/json".to_owned(),
        etag: Some(format!("\"{}\"", built.hash)),
        headers: vec![("Cache-Control", "public, immutable".to_owned()), ("Vary", "Accept".to_owned())],
        body: built.body.clone(),
    })
}

/// kubectl reads it as JSON though it comes as text: so upstream answers.
fn index() -> Document {
    let paths: Map<String, Value> = documents()
        .iter()
        .map(|document| {
            let url = format!("/openapi/v3/{}?hash={}", document.path, document.hash);
            (document.path.clone(), json!({"serverRelativeURL": url}))
        })
        .collect();
    Document {
        content_type: "text/plain; charset=utf-8".to_owned(),
        etag: None,
        headers: vec![("Cache-Control", "no-cache, private".to_owned())],
        body: Bytes::from(json!({"paths": paths}).to_string()),
    }
}

fn documents() -> &'static [Built] {
    static DOCUMENTS: OnceLock<Vec<Built>> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        let types = schema::definitions();
        std::iter::once("").chain(groups()).map(|group| build(group, &types)).collect()
    })
}

fn build(group: &str, types: &Map<String, Value>) -> Built {
    let path = if group.is_empty() { "api/v1".to_owned() } else { format!("apis/{group}/v1") };
    let (major, minor, _) = KUBERNETES_VERSION;
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": format!("{major}.{minor}")},
        "paths": paths::of_group(group, &path),
        "components": {"schemas": components::of_group(group, types)},
    });
    let body = Bytes::from(document.to_string());
    Built { path, hash: hash(&body), body }
}

#[cfg(test)]
mod tests;
