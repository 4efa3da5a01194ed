//! The kinds a server has, from its aggregated discovery (Kubernetes 1.30 and newer), and how people name them.

use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use crate::base::nearest::levenshtein;
use crate::client::{ClientError, raw};

/// One kind as a server offers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group; empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural name.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories.
    pub categories: Vec<String>,
    /// Lives in namespaces.
    pub namespaced: bool,
}

impl Kind {
    /// For kube's dynamic API.
    #[must_use]
    pub fn api_resource(&self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&self.group, &self.version, &self.kind), &self.plural)
    }

    /// The path of the collection.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { format!("/api/{}", self.version) } else { format!("/apis/{}/{}", self.group, self.version) };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }

    /// An object as JSON with apiVersion and kind, which items of a list do not have on the wire.
    #[must_use]
    pub fn typed(&self, object: impl serde::Serialize) -> Value {
        let mut object = serde_json::to_value(object).unwrap_or_default();
        if object.is_object() {
            object["apiVersion"] = Value::from(self.api_resource().api_version);
            object["kind"] = Value::from(self.kind.as_str());
        }
        object
    }

    /// As kubectl names an object of this kind: `resourceclaim.resource.k8s.io/x`.
    #[must_use]
    pub fn object_name(&self, name: &str) -> String {
        if self.group.is_empty() { format!("{}/{name}", self.singular) } else { format!("{}.{}/{name}", self.singular, self.group) }
    }
}

/// All kinds of a server, preferred versions first.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    kinds: Vec<Kind>,
}

impl Kinds {
    /// Asks the server.
    ///
    /// # Errors
    /// When it cannot be reached or answers something else.
    pub async fn discover(client: &Client) -> Result<Self, ClientError> {
        let (core, groups) =
            futures::try_join!(raw::get_json(client, "/api", raw::AGGREGATED), raw::get_json(client, "/apis", raw::AGGREGATED))?;
        let mut kinds = Vec::new();
        for document in [&core, &groups] {
            read_groups(document, &mut kinds);
        }
        if kinds.is_empty() {
            return Err(ClientError::Answer {
                what: "/api and /apis".to_owned(),
                reason: "no resources in it (aggregated discovery is needed)".to_owned(),
            });
        }
        Ok(Kinds { kinds })
    }

    /// The kind that somebody means: plural, singular, short name, kind, each with or without `.group`; case does not matter.
    ///
    /// # Errors
    /// When the server has none, with names that are near.
    pub fn find(&self, name: &str) -> Result<&Kind, ClientError> {
        let wanted = name.to_ascii_lowercase();
        let (short, group) = wanted.split_once('.').map_or((wanted.as_str(), None), |(n, g)| (n, Some(g)));
        let matches = |kind: &&Kind| {
            let named = kind.plural == short
                || kind.singular == short
                || kind.kind.eq_ignore_ascii_case(short)
                || kind.short_names.iter().any(|s| s == short);
            named && group.is_none_or(|g| kind.group == g || format!("{}.{}", kind.version, kind.group) == g)
        };
        self.kinds.iter().find(matches).ok_or_else(|| {
            let far = |k: &Kind| levenshtein(&k.singular, short).min(levenshtein(&k.plural, short));
            let nearest = self.kinds.iter().map(far).min().filter(|d| *d <= 2);
            let mut near: Vec<String> = self.kinds.iter().filter(|k| Some(far(k)) == nearest).map(|k| k.plural.clone()).collect();
            near.dedup();
            ClientError::UnknownKind { name: name.to_owned(), near }
        })
    }

    /// The kind of a manifest, by apiVersion and kind.
    #[must_use]
    pub fn by_type(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.kinds.iter().find(|k| k.group == group && k.version == version && k.kind == kind)
    }

    /// The versions that the server has of a group, preferred first.
    #[must_use]
    pub fn versions(&self, group: &str) -> Vec<String> {
        let mut versions: Vec<String> = Vec::new();
        for kind in self.kinds.iter().filter(|k| k.group == group) {
            if !versions.contains(&kind.version) {
                versions.push(kind.version.clone());
            }
        }
        versions
    }

    /// The kinds of a category such as `all`.
    #[must_use]
    pub fn in_category(&self, category: &str) -> Vec<&Kind> {
        self.kinds.iter().filter(|k| k.categories.iter().any(|c| c == category)).collect()
    }
}

fn read_groups(document: &Value, into: &mut Vec<Kind>) {
    let texts =
        |value: &Value| -> Vec<String> { value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect() };
    for group in document["items"].as_array().into_iter().flatten() {
        let group_name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in group["versions"].as_array().into_iter().flatten() {
            for resource in version["resources"].as_array().into_iter().flatten() {
                let (Some(plural), Some(kind)) = (resource["resource"].as_str(), resource["responseKind"]["kind"].as_str()) else {
                    continue;
                };
                into.push(Kind {
                    group: group_name.to_owned(),
                    version: version["version"].as_str().unwrap_or_default().to_owned(),
                    kind: kind.to_owned(),
                    plural: plural.to_owned(),
                    singular: resource["singularResource"]
                        .as_str()
                        .filter(|s| !s.is_empty())
                        .map_or_else(|| kind.to_ascii_lowercase(), str::to_owned),
                    short_names: texts(&resource["shortNames"]),
                    categories: texts(&resource["categories"]),
                    namespaced: resource["scope"] == "Namespaced",
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kinds, read_groups};

    fn kinds() -> Kinds {
        let mut kinds = Vec::new();
        let document = serde_json::json!({"items": [{"metadata": {"name": "resource.k8s.io"}, "versions": [{"version": "v1", "resources": [
            {"resource": "resourceclaims", "responseKind": {"kind": "ResourceClaim"}, "scope": "Namespaced", "singularResource": "resourceclaim", "verbs": ["get"]}]}]},
            {"metadata": {}, "versions": [{"version": "v1", "resources": [
            {"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced", "singularResource": "pod", "shortNames": ["po"], "categories": ["all"]}]}]}]});
        read_groups(&document, &mut kinds);
        Kinds { kinds }
    }

    #[test]
    fn kinds_are_found_as_people_name_them() {
        for name in
            ["resourceclaims", "resourceclaim", "ResourceClaim", "resourceclaims.resource.k8s.io", "resourceclaims.v1.resource.k8s.io"]
        {
            assert_eq!(kinds().find(name).expect(name).kind, "ResourceClaim");
        }
        assert_eq!(kinds().find("po").expect("a short name").path(Some("x")), "/api/v1/namespaces/x/pods");
        let error = kinds().find("resourceclaim.apps").expect_err("another group").to_string();
        assert_eq!(error, "the server has no resource type \"resourceclaim.apps\"");
        let kinds = kinds();
        assert!(matches!(kinds.find("podz"), Err(crate::client::ClientError::UnknownKind { near, .. }) if near == ["pods"]));
    }
}
