//! One node's allocation problem. Changes of it ([`super::edit`]) are made to a copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{
    Device, DeviceClass, DeviceConstraint, DeviceRequest, DeviceSelector, DeviceToleration, ResourceClaim, ResourceSlice,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::edit::Edit;
use crate::allocator::{AllocatedState, Allocator, Outcome};
use crate::model::features::Features;
use crate::model::ids::{DeviceId, PoolId};
use crate::scheduling::view::Key;

/// How many steps a search for a cause or a cure may take: an answer in time counts more than a thorough one.
pub const STEPS: u64 = 20_000;

/// What the allocator is asked on one node.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The gates.
    pub features: Features,
    /// The node.
    pub node: Arc<Node>,
    /// The slices, in the order in which the allocator gets them. Only those that matter for the node are needed.
    pub slices: Vec<Arc<ResourceSlice>>,
    /// The classes.
    pub classes: BTreeMap<String, Arc<DeviceClass>>,
    /// The claims to allocate, together.
    pub claims: Vec<Arc<ResourceClaim>>,
    /// What is allocated already.
    pub state: AllocatedState,
    /// Which claim holds which device, as far as it is known.
    pub holders: BTreeMap<DeviceId, Vec<Key>>,
}

/// A request or an alternative: the claim's number, and the name as results have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestRef {
    /// Place of the claim.
    pub claim: usize,
    /// `request` or `request/alternative`.
    pub request: String,
}

impl Problem {
    /// Asks the allocator.
    #[must_use]
    pub fn solve(&self) -> Outcome {
        self.allocator().allocate(&self.node, &self.claims).0
    }

    /// The allocator for the problem.
    #[must_use]
    pub fn allocator(&self) -> Allocator {
        Allocator::new(self.features, &self.slices, &self.classes, self.state.clone()).with_step_budget(STEPS)
    }

    /// Whether the claims fit after these changes.
    #[must_use]
    pub fn fits_with<'e>(&self, edits: impl IntoIterator<Item = &'e Edit>) -> bool {
        matches!(self.with(edits).solve(), Outcome::Fits(_))
    }

    /// A changed copy.
    #[must_use]
    pub fn with<'e>(&self, edits: impl IntoIterator<Item = &'e Edit>) -> Self {
        let mut problem = self.clone();
        for edit in edits {
            problem.apply(edit);
        }
        problem.prune();
        problem
    }

    /// Every request and alternative.
    #[must_use]
    pub fn requests(&self) -> Vec<RequestRef> {
        let mut found = Vec::new();
        for (claim, object) in self.claims.iter().enumerate() {
            for request in requests_of(object) {
                match request.first_available.as_deref().filter(|alternatives| !alternatives.is_empty()) {
                    Some(alternatives) => {
                        found
                            .extend(alternatives.iter().map(|sub| RequestRef { claim, request: format!("{}/{}", request.name, sub.name) }));
                    }
                    None => found.push(RequestRef { claim, request: request.name.clone() }),
                }
            }
        }
        found
    }

    /// What a request or alternative asks for; `None` where it is malformed.
    #[must_use]
    pub fn asked(&self, of: &RequestRef) -> Option<Asked<'_>> {
        let (name, alternative) = split(&of.request);
        let request = requests_of(self.claims.get(of.claim)?).iter().find(|request| request.name == name)?;
        match alternative {
            None => request.exactly.as_ref().map(|e| Asked {
                class: &e.device_class_name,
                mode: e.allocation_mode.as_deref().unwrap_or_default(),
                count: e.count.unwrap_or_default(),
                selectors: e.selectors.as_deref().unwrap_or_default(),
                tolerations: e.tolerations.as_deref().unwrap_or_default(),
                capacity: e.capacity.as_ref().and_then(|c| c.requests.as_ref()),
                has_capacity: e.capacity.is_some(),
                derived: e.derived_attributes.as_ref().is_some_and(|d| !d.is_empty()),
                admin: e.admin_access,
            }),
            Some(alternative) => {
                let sub = request.first_available.as_deref()?.iter().find(|sub| sub.name == alternative)?;
                Some(Asked {
                    class: &sub.device_class_name,
                    mode: sub.allocation_mode.as_deref().unwrap_or_default(),
                    count: sub.count.unwrap_or_default(),
                    selectors: sub.selectors.as_deref().unwrap_or_default(),
                    tolerations: sub.tolerations.as_deref().unwrap_or_default(),
                    capacity: sub.capacity.as_ref().and_then(|c| c.requests.as_ref()),
                    has_capacity: sub.capacity.is_some(),
                    derived: sub.derived_attributes.as_ref().is_some_and(|d| !d.is_empty()),
                    admin: None,
                })
            }
        }
    }

    /// The devices of slices that are for the node, or for any.
    pub fn devices_here(&self) -> impl Iterator<Item = (&ResourceSlice, &Device)> {
        let node = self.node.metadata.name.as_deref();
        self.devices().filter(move |(slice, _)| slice.spec.node_name.is_none() || slice.spec.node_name.as_deref() == node)
    }

    /// All devices of the slices, in order.
    pub fn devices(&self) -> impl Iterator<Item = (&ResourceSlice, &Device)> {
        self.slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten().map(move |device| (&**slice, device)))
    }
}

/// What a request or alternative asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Device class.
    pub class: &'a str,
    /// `ExactCount` or `All`.
    pub mode: &'a str,
    /// How many.
    pub count: i64,
    /// Selectors.
    pub selectors: &'a [DeviceSelector],
    /// Tolerations.
    pub tolerations: &'a [DeviceToleration],
    /// Amounts of capacities.
    pub capacity: Option<&'a BTreeMap<String, Quantity>>,
    /// `capacity` is set, even to nothing.
    pub has_capacity: bool,
    /// Derived attributes are defined.
    pub derived: bool,
    /// Admin access.
    pub admin: Option<bool>,
}

/// The requests of a claim.
#[must_use]
pub fn requests_of(claim: &ResourceClaim) -> &[DeviceRequest] {
    claim.spec.as_ref().and_then(|spec| spec.devices.as_ref()).and_then(|devices| devices.requests.as_deref()).unwrap_or_default()
}

/// The constraints of a claim.
#[must_use]
pub fn constraints_of(claim: &ResourceClaim) -> &[DeviceConstraint] {
    claim.spec.as_ref().and_then(|spec| spec.devices.as_ref()).and_then(|devices| devices.constraints.as_deref()).unwrap_or_default()
}

pub(super) fn split(request: &str) -> (&str, Option<&str>) {
    request.split_once('/').map_or((request, None), |(name, alternative)| (name, Some(alternative)))
}

/// True if the slice is of the pool.
#[must_use]
pub fn is_of(slice: &ResourceSlice, pool: &PoolId) -> bool {
    *slice.spec.driver == *pool.driver && *slice.spec.pool.name == *pool.pool
}
