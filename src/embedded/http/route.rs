//! Which endpoint a path means. Parsed by hand from the resource table, so that a new resource is one line there.

use super::query::decode;
use crate::embedded::api::Resource;
use crate::embedded::api::resource::{NAMESPACES, RESOURCES};

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Objects, one object or a subresource.
    Objects(Address),
    /// `POST /apis/GROUP/VERSION/PLURAL` of a review that is answered and not stored.
    Review(&'static str),
    /// `/api`, `/apis` and the lists of resources below them.
    Discovery,
    /// `/openapi/...`.
    OpenApi,
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz` and what is below them.
    Health,
    /// `/`.
    Root,
    /// Nothing in a group that is served: the API server's 404 as a Status.
    NoResource,
    /// Nothing that is served at all: a plain 404.
    Nothing,
}

/// Where objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) resource: &'static Resource,
    /// Empty for cluster-scoped kinds, and for all namespaces.
    pub(super) namespace: String,
    /// Empty for the collection.
    pub(super) name: String,
    /// Empty for the object itself.
    pub(super) subresource: String,
    /// The old form `/api/v1/watch/...`.
    pub(super) watch: bool,
}

const REVIEWS: &[(&str, &str)] = &[
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
];

/// Reads a path (still percent-encoded, without the query).
pub(super) fn route(path: &str) -> Route {
    let segments: Option<Vec<String>> =
        path.split('/').filter(|segment| !segment.is_empty()).map(|segment| decode(segment, false)).collect();
    let Some(segments) = segments else { return Route::Nothing };
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [] => Route::Root,
        ["version"] => Route::Version,
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["openapi", ..] => Route::OpenApi,
        ["api" | "apis"] => Route::Discovery,
        ["api", version] => discovery("", version),
        ["apis", group] if is_group(group) => Route::Discovery,
        ["apis", group, version] => discovery(group, version),
        ["api", version, rest @ ..] => objects("", version, rest),
        ["apis", group, version, rest @ ..] => objects(group, version, rest),
        _ => Route::Nothing,
    }
}

fn is_group(group: &str) -> bool {
    RESOURCES.iter().any(|resource| resource.group == group) || REVIEWS.iter().any(|(own, _)| *own == group)
}

fn is_served(group: &str, version: &str) -> bool {
    RESOURCES.iter().any(|resource| resource.group == group && resource.version == version)
        || (version == "v1" && REVIEWS.iter().any(|(own, _)| *own == group))
}

fn discovery(group: &str, version: &str) -> Route {
    if is_served(group, version) {
        Route::Discovery
    } else if is_group(group) {
        Route::NoResource
    } else {
        Route::Nothing
    }
}

fn objects(group: &str, version: &str, rest: &[&str]) -> Route {
    if !is_group(group) {
        return Route::Nothing;
    }
    if !is_served(group, version) {
        return Route::NoResource;
    }
    if let [plural] = rest
        && let Some((_, review)) = REVIEWS.iter().find(|(own, name)| *own == group && name == plural)
    {
        return Route::Review(review);
    }
    let (watch, rest) = match rest {
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let address = match rest {
        // `namespaces/NAME/status` is a subresource of the namespace, not a kind in it.
        ["namespaces", name, subresource @ ("status" | "finalize")] => Some((&NAMESPACES, "", *name, *subresource)),
        ["namespaces", namespace, plural, rest @ ..] => named(group, plural, namespace, rest),
        [plural, rest @ ..] => named(group, plural, "", rest),
        [] => None,
    };
    match address {
        Some((resource, namespace, name, subresource)) => Route::Objects(Address {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            watch,
        }),
        None => Route::NoResource,
    }
}

type Named<'a> = (&'static Resource, &'a str, &'a str, &'a str);

fn named<'a>(group: &str, plural: &str, namespace: &'a str, rest: &[&'a str]) -> Option<Named<'a>> {
    let resource = Resource::find(group, plural)?;
    if resource.namespaced == namespace.is_empty() && !(resource.namespaced && rest.is_empty()) {
        return None;
    }
    match rest {
        [] => Some((resource, namespace, "", "")),
        [name] => Some((resource, namespace, name, "")),
        [name, subresource] => Some((resource, namespace, name, subresource)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Route, route};

    fn shown(path: &str) -> String {
        match route(path) {
            Route::Objects(Address { resource, namespace, name, subresource, watch }) => {
                format!("{}|{namespace}|{name}|{subresource}|{watch}", resource.plural)
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn paths() {
        for (path, meant) in [
            ("/", "Root"),
            ("/version", "Version"),
            ("/livez/ping", "Health"),
            ("/api", "Discovery"),
            ("/apis/", "Discovery"),
            ("/api/v1", "Discovery"),
            ("/api/v2", "NoResource"),
            ("/apis/resource.k8s.io", "Discovery"),
            ("/apis/resource.k8s.io/v1", "Discovery"),
            ("/apis/resource.k8s.io/v1beta1", "NoResource"),
            ("/apis/nosuch.example.com", "Nothing"),
            ("/apis/nosuch.example.com/v1", "Nothing"),
            ("/apis/nosuch.example.com/v1/x", "Nothing"),
            ("/openapi/v3/api/v1", "OpenApi"),
            ("/metrics", "Nothing"),
            ("/api/v1/pods", "pods||||false"),
            ("/api/v1/watch/pods", "pods||||true"),
            ("/api/v1/namespaces", "namespaces||||false"),
            ("/api/v1/namespaces/n", "namespaces||n||false"),
            ("/api/v1/namespaces/n/finalize", "namespaces||n|finalize|false"),
            ("/api/v1/namespaces/n/pods", "pods|n|||false"),
            ("/api/v1/namespaces/n/pods/p%2Dq/log", "pods|n|p-q|log|false"),
            ("/api/v1/nodes/w/status", "nodes||w|status|false"),
            ("/api/v1/namespaces/n/nodes", "NoResource"),
            ("/api/v1/pods/p", "NoResource"),
            ("/api/v1/nosuch", "NoResource"),
            ("/apis/resource.k8s.io/v1/namespaces/n/resourceclaims/c", "resourceclaims|n|c||false"),
            ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "Review(\"selfsubjectaccessreviews\")"),
        ] {
            assert_eq!(shown(path), meant, "{path}");
        }
    }
}
