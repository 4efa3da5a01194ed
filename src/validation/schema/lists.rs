//! How lists and maps merge: upstream's `+listType`, `+listMapKey`, `+structType`, `+mapType` markers and
//! `patchStrategy`, `patchMergeKey` tags of k8s.io/api and k8s.io/apimachinery 1.37, for the served kinds.
//!
//! What is not in the table is upstream's default: lists are atomic and replaced, maps and structs merge.

/// How field ownership and server-side apply take a list (`x-kubernetes-list-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// One value.
    Atomic,
    /// A set of scalars.
    Set,
    /// Items by these fields.
    Map(&'static [&'static str]),
}

/// How a list merges.
#[derive(Debug, PartialEq, Eq)]
pub struct ListRule {
    /// For server-side apply and managedFields.
    pub keys: Keys,
    /// For strategic merge patches: merge by this field (empty for a list of scalars); `None` replaces the list.
    pub merge: Option<&'static str>,
    /// Strategic merge patches honour `$retainKeys` in the items.
    pub retain_keys: bool,
}

const ATOMIC: ListRule = ListRule { keys: Keys::Atomic, merge: None, retain_keys: false };

/// Both ways by the same field.
const fn by(keys: &'static [&'static str]) -> ListRule {
    ListRule { keys: Keys::Map(keys), merge: Some(keys[0]), retain_keys: false }
}

/// By the same field, with `patchStrategy:"merge,retainKeys"`.
const fn retain(keys: &'static [&'static str]) -> ListRule {
    ListRule { keys: Keys::Map(keys), merge: Some(keys[0]), retain_keys: true }
}

/// A map for server-side apply; strategic merge patches replace it.
const fn owned(keys: &'static [&'static str]) -> ListRule {
    ListRule { keys: Keys::Map(keys), merge: None, retain_keys: false }
}

const SET: ListRule = ListRule { keys: Keys::Set, merge: None, retain_keys: false };
const MERGED_SET: ListRule = ListRule { keys: Keys::Set, merge: Some(""), retain_keys: false };
/// One value for server-side apply; strategic merge patches merge it by `ip`.
const HOST_IPS: ListRule = ListRule { keys: Keys::Atomic, merge: Some("ip"), retain_keys: false };

/// The lists that are not plain atomic ones, by Go type and JSON field.
pub static RULES: &[(&str, &str, ListRule)] = &[
    ("ObjectMeta", "finalizers", MERGED_SET),
    ("ObjectMeta", "ownerReferences", by(&["uid"])),
    ("ServiceAccount", "secrets", by(&["name"])),
    ("NamespaceStatus", "conditions", by(&["type"])),
    ("NodeSpec", "podCIDRs", MERGED_SET),
    ("NodeStatus", "addresses", by(&["type"])),
    ("NodeStatus", "conditions", by(&["type"])),
    ("PodSpec", "containers", by(&["name"])),
    ("PodSpec", "initContainers", by(&["name"])),
    ("PodSpec", "ephemeralContainers", by(&["name"])),
    ("PodSpec", "volumes", retain(&["name"])),
    ("PodSpec", "imagePullSecrets", by(&["name"])),
    ("PodSpec", "hostAliases", by(&["ip"])),
    ("PodSpec", "topologySpreadConstraints", by(&["topologyKey", "whenUnsatisfiable"])),
    ("PodSpec", "schedulingGates", by(&["name"])),
    ("PodSpec", "resourceClaims", retain(&["name"])),
    ("PodSpec", "evictionResponders", by(&["name"])),
    ("Container", "env", by(&["name"])),
    ("Container", "ports", by(&["containerPort", "protocol"])),
    ("Container", "volumeDevices", by(&["devicePath"])),
    ("Container", "volumeMounts", by(&["mountPath"])),
    ("EphemeralContainer", "env", by(&["name"])),
    ("EphemeralContainer", "ports", by(&["containerPort", "protocol"])),
    ("EphemeralContainer", "volumeDevices", by(&["devicePath"])),
    ("EphemeralContainer", "volumeMounts", by(&["mountPath"])),
    ("ContainerRestartRuleOnExitCodes", "values", SET),
    ("ResourceRequirements", "claims", owned(&["name"])),
    ("PodStatus", "conditions", by(&["type"])),
    ("PodStatus", "hostIPs", HOST_IPS),
    ("PodStatus", "podIPs", by(&["ip"])),
    ("PodStatus", "resourceClaimStatuses", retain(&["name"])),
    ("PodStatus", "nodeAllocatableResourceClaimStatuses", by(&["resourceClaimName"])),
    ("PodStatus", "volumeHealth", owned(&["name"])),
    ("PodVolumeHealth", "healthConditions", by(&["status", "reason"])),
    ("NodeAllocatableResourceClaimStatus", "containers", SET),
    ("NodeAllocatableResourceClaimStatus", "mapping", by(&["name"])),
    ("NodeAllocatableResourceClaimStatus", "overhead", by(&["name"])),
    ("NodePodPreemptionPolicy", "disableResizePreemption", SET),
    ("VolumeMount", "bindMountOptions", SET),
    ("ContainerStatus", "allocatedResourcesStatus", by(&["name"])),
    ("ContainerStatus", "volumeMounts", by(&["mountPath"])),
    ("ResourceStatus", "resources", owned(&["resourceID"])),
    ("ResourceClaimStatus", "reservedFor", by(&["uid"])),
    ("ResourceClaimStatus", "devices", owned(&["driver", "device", "pool", "shareID"])),
    ("AllocatedDeviceStatus", "conditions", owned(&["type"])),
    ("DeviceRequestAllocationResult", "skipNodeOperations", SET),
    ("ResourceSliceSpec", "skipNodeOperations", SET),
];

/// Structs that are owned as a whole (`+structType=atomic`).
pub const ATOMIC_STRUCTS: &[&str] = &[
    "ConfigMapKeySelector",
    "EvictionResponder",
    "FileKeySelector",
    "LabelSelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ObjectReference",
    "OwnerReference",
    "ResourceFieldSelector",
    "SecretKeySelector",
    "TypedLocalObjectReference",
];

/// Maps that are owned as a whole (`+mapType=atomic`).
pub const ATOMIC_MAPS: &[(&str, &str)] = &[("PodSpec", "nodeSelector")];

/// Key fields that default when an item leaves them out.
pub const KEY_DEFAULTS: &[(&str, &str)] = &[("protocol", "TCP")];

/// The rule of the list `field` in struct `owner`.
#[must_use]
pub fn rule(owner: &str, field: &str) -> &'static ListRule {
    RULES.iter().find(|(o, f, _)| *o == owner && *f == field).map_or(&ATOMIC, |(_, _, rule)| rule)
}
