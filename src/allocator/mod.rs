//! The structured allocator of Kubernetes 1.37, observably the same: same inputs, same device, same error class.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{AllocationResult, DeviceClass, ResourceClaim, ResourceSlice};

/// Names of the feature gates that are on; `model::features` will own it.
pub type Features = BTreeSet<String>;

/// Which devices are taken already.
#[derive(Clone, Debug, Default)]
pub struct AllocatedState {}

impl AllocatedState {
    /// What the claims with an allocation hold (allocator-algorithm section 12).
    #[must_use]
    pub fn from_claims<'a>(claims: impl Iterator<Item = &'a ResourceClaim>, features: &Features) -> Self {
        let _ = (claims, features);
        unimplemented!()
    }
}

/// How an allocation for one node ended. The outcomes are kept apart, never dressed as one another.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// One result per claim, in the order of the claims.
    Fits(Vec<AllocationResult>),
    /// The claims do not fit on this node.
    DoesNotFit,
    /// This node fails, others may be tried; the text is upstream's.
    NodeError(String),
    /// The input is invalid: the scheduling of the pod stops. The text is upstream's.
    Invalid(String),
    /// The step budget ran out.
    GaveUp,
}

/// An allocator over one state of the cluster; read-only, used for many nodes.
#[derive(Debug)]
pub struct Allocator {}

impl Allocator {
    /// Prepares for the given slices (taint rules merged in) and classes.
    #[must_use]
    pub fn new(
        features: Features,
        slices: &[Arc<ResourceSlice>],
        classes: &BTreeMap<String, Arc<DeviceClass>>,
        state: AllocatedState,
    ) -> Self {
        let _ = (features, slices, classes, state);
        unimplemented!()
    }

    /// Allocates all claims of a pod on `node`, or none. Also returns the number of search steps.
    pub fn allocate(&self, node: &Node, claims: &[Arc<ResourceClaim>]) -> (Outcome, u64) {
        let _ = (node, claims);
        unimplemented!()
    }
}
