//! The table of resources that the API serves. Everything generic reads it: routing, discovery, OpenAPI, tables.

/// A part of an object with an endpoint of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subresource {
    /// The object itself.
    Main,
    /// `/status`.
    Status,
    /// `/finalize` of a namespace: only `spec.finalizers` changes.
    Finalize,
}

/// One kind that the API serves.
#[derive(Debug, PartialEq, Eq)]
pub struct Resource {
    /// API group; empty for core.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// Plural name in paths.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Lives in namespaces.
    pub namespaced: bool,
    /// Short names of kubectl.
    pub short_names: &'static [&'static str],
    /// Categories such as `all`.
    pub categories: &'static [&'static str],
    /// Has a `/status` endpoint.
    pub has_status: bool,
    /// The store's collection.
    pub collection: &'static str,
}

impl Resource {
    /// `v1` or `resource.k8s.io/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods` or `resourceclaims.resource.k8s.io`, as messages name a resource.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `Pod` or `ResourceClaim.resource.k8s.io`, as messages name a kind.
    #[must_use]
    pub fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.kind.to_owned() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// The store's key of an object.
    #[must_use]
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    /// What the keys of a namespace's objects begin with; empty for all namespaces.
    #[must_use]
    pub fn prefix(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() { format!("{namespace}/") } else { String::new() }
    }

    /// The resource of a group and plural name.
    #[must_use]
    pub fn find(group: &str, plural: &str) -> Option<&'static Resource> {
        RESOURCES.iter().copied().find(|resource| resource.group == group && resource.plural == plural)
    }
}

macro_rules! resource {
    ($name:ident, $group:literal, $plural:literal, $singular:literal, $kind:literal, $namespaced:literal, $short:expr, $categories:expr, $status:literal) => {
        #[doc = concat!("`", $kind, "`.")]
        pub static $name: Resource = Resource {
            group: $group,
            version: "v1",
            plural: $plural,
            singular: $singular,
            kind: $kind,
            namespaced: $namespaced,
            short_names: $short,
            categories: $categories,
            has_status: $status,
            collection: concat!($group, "/", $plural),
        };
    };
}

resource!(NAMESPACES, "", "namespaces", "namespace", "Namespace", false, &["ns"], &[], true);
resource!(NODES, "", "nodes", "node", "Node", false, &["no"], &[], true);
resource!(PODS, "", "pods", "pod", "Pod", true, &["po"], &["all"], true);
resource!(EVENTS, "", "events", "event", "Event", true, &["ev"], &[], false);
resource!(CONFIGMAPS, "", "configmaps", "configmap", "ConfigMap", true, &["cm"], &[], false);
resource!(SECRETS, "", "secrets", "secret", "Secret", true, &[], &[], false);
resource!(SERVICEACCOUNTS, "", "serviceaccounts", "serviceaccount", "ServiceAccount", true, &["sa"], &[], false);
resource!(RESOURCECLAIMS, "resource.k8s.io", "resourceclaims", "resourceclaim", "ResourceClaim", true, &[], &[], true);
resource!(
    RESOURCECLAIMTEMPLATES,
    "resource.k8s.io",
    "resourceclaimtemplates",
    "resourceclaimtemplate",
    "ResourceClaimTemplate",
    true,
    &[],
    &[],
    false
);
resource!(RESOURCESLICES, "resource.k8s.io", "resourceslices", "resourceslice", "ResourceSlice", false, &[], &[], false);
resource!(DEVICECLASSES, "resource.k8s.io", "deviceclasses", "deviceclass", "DeviceClass", false, &[], &[], false);

/// All resources, in the order of discovery.
pub static RESOURCES: &[&Resource] = &[
    &CONFIGMAPS,
    &EVENTS,
    &NAMESPACES,
    &NODES,
    &PODS,
    &SECRETS,
    &SERVICEACCOUNTS,
    &DEVICECLASSES,
    &RESOURCECLAIMS,
    &RESOURCECLAIMTEMPLATES,
    &RESOURCESLICES,
];
