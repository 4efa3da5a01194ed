//! Which waiting pods a change may help: kube-scheduler's queueing hints, per plugin that rejected the pod.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde::Serialize;

use super::claims;
use super::filters;
use super::snapshot::Snapshot;
use super::view::{HostPort, NodeView, PodView, allocation};

/// A plugin of kube-scheduler that can keep a pod from being scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Plugin {
    /// The node is cordoned.
    NodeUnschedulable,
    /// `spec.nodeName` names another node.
    NodeName,
    /// A taint that the pod does not tolerate.
    TaintToleration,
    /// Node selector and affinity.
    NodeAffinity,
    /// Host ports.
    NodePorts,
    /// cpu, memory, pods and others.
    NodeResourcesFit,
    /// Claims.
    DynamicResources,
}

impl Plugin {
    /// As it stands in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Plugin::NodeUnschedulable => "NodeUnschedulable",
            Plugin::NodeName => "NodeName",
            Plugin::TaintToleration => "TaintToleration",
            Plugin::NodeAffinity => "NodeAffinity",
            Plugin::NodePorts => "NodePorts",
            Plugin::NodeResourcesFit => "NodeResourcesFit",
            Plugin::DynamicResources => "DynamicResources",
        }
    }
}

/// What a change means for waiting pods.
#[derive(Clone, Debug)]
pub enum Event {
    /// A node is new.
    NodeAdded(Arc<NodeView>),
    /// A node has changed.
    NodeChanged {
        /// Before.
        old: Arc<NodeView>,
        /// After.
        new: Arc<NodeView>,
    },
    /// A pod gave back what it took from a node: it ended, is gone, or was not bound after all.
    PodReleased {
        /// The node.
        node: String,
        /// The pod.
        pod: Arc<PodView>,
    },
    /// A claim is new or has changed.
    ClaimChanged {
        /// Before.
        old: Option<Arc<ResourceClaim>>,
        /// After.
        new: Arc<ResourceClaim>,
    },
    /// Devices became free with no change of a claim to show it: an allocation on its way was given up, or an allocated
    /// claim is gone. (Upstream wakes for the first by its event for a pod that was not bound after all.)
    DevicesFreed,
    /// A class is new or has changed.
    ClassChanged,
    /// A slice is new or has changed.
    SliceChanged,
}

/// True if the event may make a pod schedulable that `plugin` rejected.
#[must_use]
pub fn helps(plugin: Plugin, pod: &PodView, event: &Event, snapshot: &Snapshot) -> bool {
    match (plugin, event) {
        (Plugin::NodeUnschedulable, Event::NodeAdded(node)) => !node.unschedulable,
        (Plugin::NodeUnschedulable, Event::NodeChanged { old, new }) => old.unschedulable && !new.unschedulable,
        (Plugin::NodeName, Event::NodeAdded(node)) => pod.node.as_deref().is_none_or(|name| name == node.name),
        (Plugin::TaintToleration, Event::NodeAdded(node)) => !has_untolerated(pod, &node.taints),
        (Plugin::TaintToleration, Event::NodeChanged { old, new }) => {
            has_untolerated(pod, &old.taints) && !has_untolerated(pod, &new.taints)
        }
        (Plugin::NodeAffinity, Event::NodeAdded(node)) => filters::affinity_matches(pod, node),
        (Plugin::NodeAffinity, Event::NodeChanged { old, new }) => {
            !filters::affinity_matches(pod, old) && filters::affinity_matches(pod, new)
        }
        (Plugin::NodePorts, Event::NodeAdded(_)) => true,
        (Plugin::NodePorts, Event::PodReleased { pod: gone, .. }) => shares_port(&pod.ports, &gone.ports),
        (Plugin::NodeResourcesFit, Event::NodeAdded(node)) => filters::fits_empty(pod, node),
        (Plugin::NodeResourcesFit, Event::NodeChanged { old, new }) => {
            (old.allocatable != new.allocatable || old.pods != new.pods) && filters::fits_empty(pod, new)
        }
        (Plugin::NodeResourcesFit, Event::PodReleased { .. }) => true,
        (Plugin::DynamicResources, Event::NodeAdded(_) | Event::ClassChanged | Event::SliceChanged | Event::DevicesFreed) => true,
        (Plugin::DynamicResources, Event::NodeChanged { old, new }) => old.node.metadata.labels != new.node.metadata.labels,
        (Plugin::DynamicResources, Event::ClaimChanged { old, new }) => claim_helps(pod, old.as_deref(), new, snapshot),
        _ => false,
    }
}

/// A claim that was freed helps everybody; any other change of status, or the creation, helps who uses the claim.
fn claim_helps(pod: &PodView, old: Option<&ResourceClaim>, new: &ResourceClaim, snapshot: &Snapshot) -> bool {
    let Ok(used) = claims::of_pod(pod, snapshot) else {
        return false;
    };
    if old.is_some_and(|old| allocation(old).is_some()) && allocation(new).is_none() {
        return true;
    }
    used.iter().any(|claim| claim.metadata.uid == new.metadata.uid) && old.is_none_or(|old| old.status != new.status)
}

fn has_untolerated(pod: &PodView, taints: &[Taint]) -> bool {
    filters::untolerated(pod, taints).is_some()
}

fn shares_port(wanted: &[HostPort], freed: &[HostPort]) -> bool {
    wanted.iter().any(|wanted| freed.iter().any(|freed| wanted.conflicts(freed)))
}

/// What changed about a waiting pod itself.
#[must_use]
pub fn own_change_helps(plugin: Plugin, old: &PodView, new: &PodView, snapshot: &Snapshot) -> bool {
    match plugin {
        Plugin::TaintToleration => old.tolerations != new.tolerations,
        Plugin::NodeResourcesFit => old.requests != new.requests,
        Plugin::DynamicResources => old.claims != new.claims && claims::of_pod(new, snapshot).is_ok(),
        _ => false,
    }
}
