//! Pods, nodes and claims as the scheduler reads them: decoded once per change, only what decisions need.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorTerm, Pod, PodCondition, Taint, Toleration};
use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaim, ResourceClaimConsumerReference};
use serde::Serialize;

use super::resources::{self, Resources};
use crate::model::node_selector::ParsedNodeSelector;

/// The condition that says whether a pod has a node.
pub const POD_SCHEDULED: &str = "PodScheduled";
/// How many pods (or others) may hold one claim (upstream: `ResourceClaimReservedForMaxSize`).
pub const RESERVED_FOR_MAX: usize = 256;

/// Namespace and name of an object. `Display` is `namespace/name`, as in kube-scheduler's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// Namespace; empty for kinds without.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// A key of its two parts.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { formatter.write_str(&self.name) } else { write!(formatter, "{}/{}", self.namespace, self.name) }
    }
}

/// The uid of an object; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Uid(Arc<str>);

impl Uid {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Uid(Arc::from(text))
    }
}

impl Borrow<str> for Uid {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Which pod, in which revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodRef {
    /// Namespace and name.
    pub key: Key,
    /// Uid.
    pub uid: Uid,
    /// `metadata.resourceVersion` of the pod that was looked at; Events refer to it.
    pub revision: String,
}

/// An entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// The entry's name.
    pub entry: String,
    /// Where the claim comes from.
    pub source: ClaimSource,
}

/// Where a claim of a pod comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimSource {
    /// `resourceClaimName`.
    Named(String),
    /// `resourceClaimTemplateName`: the name in `status.resourceClaimStatuses`, once the entry is there
    /// (`Some(None)`: no claim is needed).
    Template(Option<Option<String>>),
    /// Neither: a kind of source that this version does not know.
    Unknown,
}

/// A host port that a pod binds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Address; empty stands for all.
    pub address: String,
    /// TCP, UDP or SCTP.
    pub protocol: String,
    /// Port.
    pub port: i32,
}

impl HostPort {
    /// True if both cannot be bound on one node.
    #[must_use]
    pub fn conflicts(&self, other: &HostPort) -> bool {
        let everywhere = |address: &str| address.is_empty() || address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || everywhere(&self.address) || everywhere(&other.address))
    }
}

/// A pod as the scheduler sees it.
#[derive(Clone, Debug)]
pub struct PodView {
    /// Which pod.
    pub reference: PodRef,
    /// `metadata.generation`.
    pub generation: i64,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// `spec.priority`.
    pub priority: i32,
    /// `spec.schedulerName`.
    pub scheduler: String,
    /// `spec.nodeName`.
    pub node: Option<String>,
    /// `status.nominatedNodeName`.
    pub nominated: Option<String>,
    /// Phase Succeeded or Failed.
    pub finished: bool,
    /// A deletionTimestamp is set.
    pub deleting: bool,
    /// `spec.schedulingGates` is not empty.
    pub gated: bool,
    /// `spec.resourceClaims`.
    pub claims: Vec<PodClaim>,
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity.
    pub required: Option<ParsedNodeSelector>,
    /// Preferred node affinity: weights and terms.
    pub preferred: Vec<(i64, ParsedNodeSelector)>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// What it requests.
    pub requests: Resources,
    /// What scoring counts for it.
    pub scored: Resources,
    /// Host ports.
    pub ports: Vec<HostPort>,
    /// `spec.preemptionPolicy` is Never.
    pub never_preempts: bool,
    /// The condition PodScheduled.
    pub scheduled: Option<PodCondition>,
}

impl PodView {
    /// Reads a pod.
    #[must_use]
    pub fn read(pod: Pod) -> Self {
        let metadata = pod.metadata;
        let spec = pod.spec.unwrap_or_default();
        let status = pod.status.unwrap_or_default();
        let generated: BTreeMap<String, Option<String>> =
            status.resource_claim_statuses.into_iter().flatten().map(|entry| (entry.name, entry.resource_claim_name)).collect();
        let claims = spec.resource_claims.iter().flatten().map(|entry| PodClaim {
            entry: entry.name.clone(),
            source: match (&entry.resource_claim_name, &entry.resource_claim_template_name) {
                (Some(name), _) => ClaimSource::Named(name.clone()),
                (None, Some(_)) => ClaimSource::Template(generated.get(&entry.name).cloned()),
                (None, None) => ClaimSource::Unknown,
            },
        });
        let claims = claims.collect();
        let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten()).filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            Some(HostPort {
                address: port.host_ip.clone().unwrap_or_default(),
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                port: number,
            })
        });
        let ports = ports.collect();
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.clone()).unwrap_or_default();
        PodView {
            reference: PodRef {
                key: Key { namespace: metadata.namespace.unwrap_or_default(), name: metadata.name.unwrap_or_default() },
                uid: Uid::from(metadata.uid.as_deref().unwrap_or_default()),
                revision: metadata.resource_version.unwrap_or_default(),
            },
            generation: metadata.generation.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            priority: spec.priority.unwrap_or_default(),
            requests: resources::of_pod(&spec),
            scored: resources::of_pod_for_scoring(&spec),
            scheduler: spec.scheduler_name.unwrap_or_else(|| "default-scheduler".to_owned()),
            node: spec.node_name.filter(|name| !name.is_empty()),
            nominated: status.nominated_node_name.filter(|name| !name.is_empty()),
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            deleting: metadata.deletion_timestamp.is_some(),
            gated: spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()),
            claims,
            node_selector: spec.node_selector.unwrap_or_default(),
            required: affinity.required_during_scheduling_ignored_during_execution.as_ref().map(parsed),
            preferred: affinity
                .preferred_during_scheduling_ignored_during_execution
                .into_iter()
                .flatten()
                .map(|term| (i64::from(term.weight), one_term(term.preference)))
                .collect(),
            tolerations: spec.tolerations.unwrap_or_default(),
            ports,
            never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
            scheduled: status.conditions.into_iter().flatten().find(|condition| condition.type_ == POD_SCHEDULED),
        }
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.reference.key
    }

    /// Uid.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.reference.uid
    }

    /// True if it waits for a node: none yet, not finished.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.node.is_none() && !self.finished
    }

    /// True if one of the pod's tolerations tolerates the taint.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| tolerates(toleration, taint))
    }
}

/// Node affinity that does not parse matches nothing (the API refuses it).
fn parsed(selector: &NodeSelector) -> ParsedNodeSelector {
    ParsedNodeSelector::parse(selector).unwrap_or_default()
}

fn one_term(term: NodeSelectorTerm) -> ParsedNodeSelector {
    parsed(&NodeSelector { node_selector_terms: vec![term] })
}

/// Upstream's `Toleration.ToleratesTaint` with the comparison operators off (alpha in 1.37); the time limit is the
/// eviction's matter.
#[must_use]
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    let key = toleration.key.as_deref().unwrap_or_default();
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default(),
        "Exists" => true,
        _ => false,
    }
}

/// A node as the scheduler sees it.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// The node; the allocator wants all of it.
    pub node: Arc<Node>,
    /// Name.
    pub name: String,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// How many pods it takes.
    pub pods: i64,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
}

impl NodeView {
    /// Reads a node.
    #[must_use]
    pub fn read(node: Node) -> Self {
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        NodeView {
            name: node.metadata.name.clone().unwrap_or_default(),
            allocatable: Resources::read(allocatable),
            pods: allocatable.and_then(|amounts| amounts.get("pods")).map_or(0, resources::whole),
            taints: node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            unschedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default(),
            node: Arc::new(node),
        }
    }
}

/// What a claim holds, or nothing.
#[must_use]
pub fn allocation(claim: &ResourceClaim) -> Option<&AllocationResult> {
    claim.status.as_ref()?.allocation.as_ref()
}

/// Who may use the claim.
#[must_use]
pub fn reserved_for(claim: &ResourceClaim) -> &[ResourceClaimConsumerReference] {
    claim.status.as_ref().and_then(|status| status.reserved_for.as_deref()).unwrap_or_default()
}

/// True if the claim is reserved for the pod with this uid.
#[must_use]
pub fn is_reserved_for(claim: &ResourceClaim, pod: &str) -> bool {
    reserved_for(claim).iter().any(|consumer| consumer.uid == pod)
}

/// True if one more consumer may be added.
#[must_use]
pub fn can_be_reserved(claim: &ResourceClaim) -> bool {
    reserved_for(claim).len() < RESERVED_FOR_MAX
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Taint, Toleration};
    use serde_json::json;

    use super::{ClaimSource, HostPort, PodView, tolerates};

    #[test]
    fn tolerations() {
        let taint = Taint { key: "k".to_owned(), value: Some("5".to_owned()), effect: "NoSchedule".to_owned(), time_added: None };
        let table = [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"key": "other", "operator": "Exists"}), false),
            (json!({"key": "k", "value": "5"}), true),
            (json!({"key": "k", "value": "6"}), false),
            (json!({"key": "k", "operator": "Equal", "value": "5", "effect": "NoSchedule"}), true),
            (json!({"key": "k", "operator": "Equal", "value": "5", "effect": "NoExecute"}), false),
            (json!({"key": "k", "operator": "Strange", "value": "5"}), false),
        ];
        for (toleration, expected) in table {
            let typed: Toleration = serde_json::from_value(toleration.clone()).expect("a toleration");
            assert_eq!(tolerates(&typed, &taint), expected, "{toleration}");
        }
    }

    #[test]
    fn ports_conflict_on_the_same_address_or_on_all() {
        let port = |address: &str, number| HostPort { address: address.to_owned(), protocol: "TCP".to_owned(), port: number };
        assert!(port("", 80).conflicts(&port("10.0.0.1", 80)));
        assert!(!port("10.0.0.2", 80).conflicts(&port("10.0.0.1", 80)));
        assert!(!port("", 80).conflicts(&port("", 81)));
    }

    #[test]
    fn a_pod_is_read() {
        let pod = serde_json::from_value(json!({
            "metadata": {"namespace": "n", "name": "p", "uid": "u", "resourceVersion": "7", "generation": 1},
            "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}], "priority": 5,
                     "resourceClaims": [{"name": "a", "resourceClaimName": "x"}, {"name": "b", "resourceClaimTemplateName": "t"},
                                        {"name": "c", "resourceClaimTemplateName": "t"}, {"name": "d"}]},
            "status": {"phase": "Pending", "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-1"}]},
        }));
        let pod = PodView::read(pod.expect("a pod"));
        assert_eq!((pod.key().to_string().as_str(), pod.uid().as_str(), pod.priority), ("n/p", "u", 5));
        let sources: Vec<_> = pod.claims.iter().map(|claim| claim.source.clone()).collect();
        assert_eq!(
            sources,
            [
                ClaimSource::Named("x".to_owned()),
                ClaimSource::Template(Some(Some("p-b-1".to_owned()))),
                ClaimSource::Template(None),
                ClaimSource::Unknown,
            ]
        );
        assert!(pod.waits() && pod.ports.len() == 1);
    }
}
