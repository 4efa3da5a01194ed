//! `/`, `/version`, `/api`, `/apis`, `/api/v1`, `/apis/GROUP`, `/apis/GROUP/VERSION`, plain and aggregated, from the
//! resource table.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::document::Document;
use super::resource::{RESOURCES, Resource};

/// The version that the API is compatible with.
pub const KUBERNETES_VERSION: (&str, &str, &str) = ("1", "37", "v1.37.2");

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Namespaces cannot be deleted by the collection.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const PART_VERBS: &[&str] = &["get", "patch", "update"];

/// An endpoint below an object.
struct Part {
    plural: &'static str,
    name: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
}

const PARTS: &[Part] = &[
    Part { plural: "namespaces", name: "finalize", kind: "Namespace", verbs: &["update"] },
    Part { plural: "pods", name: "binding", kind: "Binding", verbs: &["create"] },
    Part { plural: "pods", name: "eviction", kind: "Eviction", verbs: &["create"] },
    Part { plural: "pods", name: "log", kind: "Pod", verbs: &["get"] },
];

/// Kinds that are answered and not stored: group, plural, singular, kind.
const REVIEWS: &[(&str, &str, &str, &str)] = &[
    ("authentication.k8s.io", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview"),
];

/// Kinds of subresources that are of another group: kind, group, version.
const FOREIGN: &[(&str, &str, &str)] = &[("Eviction", "policy", "v1")];

/// What upstream shows for each storage version: a hash of group, version and kind.
const STORAGE_HASHES: &[(&str, &str)] = &[
    ("configmaps", "qFsyl6wFWjQ="),
    ("deviceclasses", "Yk2PTc1Ybxk="),
    ("events", "r2yiGXH7wu8="),
    ("namespaces", "Q3oi5N2YM8M="),
    ("nodes", "XwShjMxG9Fs="),
    ("pods", "xPOwRZ+Yhw8="),
    ("resourceclaims", "wgAZaHcZxUg="),
    ("resourceclaimtemplates", "TuzjC49aUfM="),
    ("resourceslices", "KsC072WgaEY="),
    ("secrets", "S6u1pOWzb84="),
    ("serviceaccounts", "pbx9ZvyFpBE="),
];

/// The answer to a GET of a discovery path, `None` where the path is none (the caller answers 404).
/// `accept` is the request's `Accept` header, `host` its `Host` (for `serverAddressByClientCIDRs`).
#[must_use]
pub fn serve(path: &str, accept: &str, host: &str) -> Option<Document> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [] => Some(plain(&json!({"paths": paths()}))),
        ["version"] => Some(plain(&version())),
        ["api"] if wants_aggregated(accept) => Some(aggregated(&[""])),
        ["apis"] if wants_aggregated(accept) => Some(aggregated(&all_groups())),
        ["api"] => Some(plain(&json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
        }))),
        ["apis"] => {
            let list: Vec<Value> = all_groups().into_iter().map(group).collect();
            Some(plain(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list})))
        }
        ["api", "v1"] => Some(plain(&json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": resource_list("")}))),
        ["apis", name] if all_groups().contains(name) => {
            let mut body = json!({"kind": "APIGroup", "apiVersion": "v1"});
            extend(&mut body, group(name));
            Some(plain(&body))
        }
        ["apis", name, "v1"] if all_groups().contains(name) => Some(plain(&json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{name}/v1"), "resources": resource_list(name),
        }))),
        _ => None,
    }
}

/// The groups of reviews and [`groups`].
fn all_groups() -> Vec<&'static str> {
    let mut all: Vec<&str> = REVIEWS.iter().map(|(group, ..)| *group).chain(groups()).collect();
    all.dedup();
    all
}

/// The groups with stored kinds but the core group, in order of first appearance.
pub(super) fn groups() -> Vec<&'static str> {
    let mut groups: Vec<&str> = RESOURCES.iter().map(|r| r.group).filter(|group| !group.is_empty()).collect();
    groups.dedup();
    groups
}

fn group(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

fn paths() -> Vec<String> {
    let mut paths: Vec<String> = ["/api", "/api/v1", "/apis", "/apis/"].map(str::to_owned).into();
    for group in all_groups() {
        paths.extend([format!("/apis/{group}"), format!("/apis/{group}/v1")]);
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/openapi/v3/", "/readyz", "/version"].map(str::to_owned));
    paths
}

/// `/version`: compatible with, not the same as, the Kubernetes release that it names.
fn version() -> Value {
    let (major, minor, git) = KUBERNETES_VERSION;
    json!({
        "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": minor,
        "gitVersion": format!("{git}+dralab"), "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn verbs(resource: &Resource) -> &'static [&'static str] {
    if resource.kind == "Namespace" { NAMESPACE_VERBS } else { ALL_VERBS }
}

/// The endpoints below the objects of a kind, sorted: name, kind, verbs.
fn parts(resource: &Resource) -> Vec<(&'static str, &'static str, &'static [&'static str])> {
    let of_kind = PARTS.iter().filter(|part| resource.group.is_empty() && part.plural == resource.plural);
    let mut parts: Vec<_> = of_kind.map(|part| (part.name, part.kind, part.verbs)).collect();
    if resource.has_status {
        parts.push(("status", resource.kind, PART_VERBS));
    }
    parts.sort_unstable_by_key(|(name, ..)| *name);
    parts
}

fn extend(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

fn short_names_and_categories(entry: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
}

fn of_group(group: &str) -> impl Iterator<Item = &'static Resource> {
    RESOURCES.iter().copied().filter(move |resource| resource.group == group)
}

fn resource_list(group: &str) -> Vec<Value> {
    let reviews = REVIEWS.iter().filter(|(own, ..)| *own == group);
    let mut list: Vec<Value> = reviews
        .map(|(_, plural, singular, kind)| {
            json!({"name": plural, "singularName": singular, "namespaced": false, "kind": kind, "verbs": ["create"]})
        })
        .collect();
    for resource in of_group(group) {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": verbs(resource),
        });
        short_names_and_categories(&mut entry, resource);
        if let Some((_, hash)) = STORAGE_HASHES.iter().find(|(plural, _)| *plural == resource.plural) {
            entry["storageVersionHash"] = json!(hash);
        }
        list.push(entry);
        for (name, kind, verbs) in parts(resource) {
            let mut entry = json!({
                "name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": resource.namespaced,
                "kind": kind, "verbs": verbs,
            });
            if let Some((_, group, version)) = FOREIGN.iter().find(|(foreign, ..)| *foreign == kind) {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
            list.push(entry);
        }
    }
    list
}

/// Whether the first media type of `Accept` that can be served is the aggregated one.
fn wants_aggregated(accept: &str) -> bool {
    accept
        .split(',')
        .map(|media| media.split(';').map(str::trim).collect::<Vec<_>>())
        .find_map(|parameters| match parameters.as_slice() {
            ["application/json", rest @ ..] => {
                let has = |wanted: &str| rest.contains(&wanted);
                let other = rest.iter().any(|parameter| parameter.starts_with("as="));
                if has("g=apidiscovery.k8s.io") && has("v=v2") && has("as=APIGroupDiscoveryList") {
                    Some(true)
                } else {
                    (!other).then_some(false)
                }
            }
            _ => None,
        })
        .unwrap_or(false)
}

fn aggregated(groups: &[&str]) -> Document {
    let items: Vec<Value> = groups
        .iter()
        .map(|group| {
            let reviews = REVIEWS.iter().filter(|(own, ..)| own == group).map(|(_, plural, singular, kind)| {
                json!({
                    "resource": plural, "responseKind": response_kind(kind), "scope": "Cluster", "singularResource": singular,
                    "verbs": ["create"],
                })
            });
            let resources: Vec<Value> = reviews.chain(of_group(group).map(aggregated_resource)).collect();
            let mut metadata = Map::new();
            if !group.is_empty() {
                metadata.insert("name".to_owned(), json!(group));
            }
            json!({"metadata": metadata, "versions": [{"version": "v1", "resources": resources, "freshness": "Current"}]})
        })
        .collect();
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
    let body = list.to_string();
    Document {
        content_type: AGGREGATED.to_owned(),
        etag: Some(etag(body.as_bytes())),
        headers: vec![("Cache-Control", "public".to_owned()), ("Vary", "Accept".to_owned())],
        body: Bytes::from(body),
    }
}

/// Kinds of the resource's own group are named without it.
fn response_kind(kind: &str) -> Value {
    let (_, group, version) = FOREIGN.iter().find(|(foreign, ..)| *foreign == kind).unwrap_or(&("", "", ""));
    json!({"group": group, "version": version, "kind": kind})
}

fn aggregated_resource(resource: &'static Resource) -> Value {
    let mut entry = json!({
        "resource": resource.plural, "responseKind": response_kind(resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": verbs(resource),
    });
    short_names_and_categories(&mut entry, resource);
    let subresources: Vec<Value> = parts(resource)
        .into_iter()
        .map(|(name, part, verbs)| json!({"subresource": name, "responseKind": response_kind(part), "verbs": verbs}))
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}

fn plain(body: &Value) -> Document {
    Document {
        content_type: "application/json".to_owned(),
        etag: None,
        headers: vec![("Cache-Control", "no-cache, private".to_owned())],
        body: Bytes::from(body.to_string()),
    }
}

/// A hash of `body` as upper-case hex.
pub(super) fn hash(body: &[u8]) -> String {
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, body).simple().to_string().to_uppercase()
}

fn etag(body: &[u8]) -> String {
    format!("\"{}\"", hash(body))
}

#[cfg(test)]
mod tests;
