//! The record of one attempt to schedule a pod: what was asked, what every node answered, what was decided. Plain data.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaim};
use serde::Serialize;

use super::hints::Plugin;
use super::plan::Plan;
use super::view::{Key, PodRef};

/// One attempt.
#[derive(Clone, Debug, Serialize)]
pub struct Attempt {
    /// The pod as it was looked at.
    pub pod: PodRef,
    /// Which attempt of this pod, from 1.
    pub number: u32,
    /// When.
    pub at: Timestamp,
    /// The claims that the allocator was asked for, as they were; empty if none needed allocating.
    pub claims: Vec<Arc<ResourceClaim>>,
    /// Why no node was looked at (PreFilter), if so.
    pub refused_before_nodes: Option<String>,
    /// What every node answered, in the order in which they were asked.
    pub nodes: Vec<NodeVerdict>,
    /// What came of it.
    pub decision: Decision,
    /// The writes that carry it out, in order.
    pub plan: Plan,
}

/// What one node answered.
#[derive(Clone, Debug, Serialize)]
pub struct NodeVerdict {
    /// The node.
    pub node: String,
    /// The answer.
    pub verdict: Verdict,
    /// Search steps that the allocator took on this node; 0 if it was not asked.
    pub steps: u64,
    /// The score, where nodes were scored.
    pub score: Option<i64>,
}

/// The answer of the filters for one node.
#[derive(Clone, Debug, Serialize)]
pub enum Verdict {
    /// The pod fits; what each claim of [`Attempt::claims`] would get here.
    Fits {
        /// In the order of the claims.
        allocations: Vec<AllocationResult>,
    },
    /// The pod does not fit.
    Refused {
        /// Who refused.
        plugin: Plugin,
        /// In kube-scheduler's words.
        reasons: Vec<Cow<'static, str>>,
        /// True if evicting pods of lower priority could help (upstream: Unschedulable, not AndUnresolvable).
        resolvable: bool,
    },
    /// The attempt fails as a whole.
    Failed {
        /// Who failed.
        plugin: Plugin,
        /// Why.
        text: String,
    },
}

/// What came of an attempt.
#[derive(Clone, Debug, Serialize)]
pub enum Decision {
    /// The pod goes to this node.
    Placed {
        /// The node.
        node: String,
        /// New allocations by claim.
        allocations: Vec<(Key, AllocationResult)>,
    },
    /// No node takes the pod now; it waits for a change.
    Unschedulable {
        /// The message of event and condition.
        message: String,
        /// Who refused; changes that concern them wake the pod. Empty if there are no nodes: then time does.
        plugins: BTreeSet<Plugin>,
        /// A claim that is deallocated to help the pod (PostFilter).
        deallocated: Option<Key>,
    },
    /// The attempt failed; it is repeated with back-off.
    Failed {
        /// The message of event and condition.
        message: String,
    },
    /// The pod is being deleted and is not scheduled any more.
    Skipped,
}
