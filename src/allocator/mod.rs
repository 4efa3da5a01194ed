//! The structured allocator of Kubernetes 1.37, observably the same: same inputs, same devices, same error class.
//!
//! Read in this order: [`inventory`] (what is published), [`state`] (what is taken), [`pools`] (what a node sees),
//! [`requests`] (what is asked for), [`search`], then what a search checks: [`selectors`], [`capacity`], [`counters`],
//! [`constraints`], and last [`result`]. The rules are those of `k8s.io/dynamic-resource-allocation/structured` v0.37.2.

mod capacity;
mod constraints;
mod counters;
mod inventory;
mod pools;
#[cfg(test)]
mod properties;
mod requests;
mod result;
mod search;
mod selectors;
mod state;
mod survey;
#[cfg(test)]
mod testing;
mod trace;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{AllocationResult, DeviceClass, ResourceClaim, ResourceSlice};

pub use self::capacity::Shortage;
pub use self::inventory::Inventory;
pub use self::state::{AllocatedState, ConsumedCapacity};
pub use self::survey::{Obstacle, PoolState, Survey, SurveyedPool, SurveyedRequest};
pub use self::trace::{Reason, Rejection, Trace};
pub use crate::model::features::Features;

use self::pools::{NodeView, PoolStatus};
use self::requests::{Choice, Planner, claim_name};
use self::search::{Search, Stop};
use self::usage::Usage;
use crate::model::features::Feature;

/// How many devices a claim can have (`AllocationResultsMaxSize`).
pub const RESULTS_PER_CLAIM: i64 = 32;

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

/// An allocator over one state of the cluster; read-only, used for many nodes, also in parallel.
#[derive(Debug)]
pub struct Allocator {
    inventory: Arc<Inventory>,
    classes: BTreeMap<String, Arc<DeviceClass>>,
    state: AllocatedState,
    usage: Usage,
    step_budget: Option<u64>,
}

impl Allocator {
    /// Prepares for the given slices (taint rules merged in) and classes.
    #[must_use]
    pub fn new(
        features: Features,
        slices: &[Arc<ResourceSlice>],
        classes: &BTreeMap<String, Arc<DeviceClass>>,
        state: AllocatedState,
    ) -> Self {
        Self::with_inventory(Arc::new(Inventory::new(features, slices)), classes, state)
    }

    /// The same over an inventory that was prepared before. Verdicts of selectors stay with the inventory.
    #[must_use]
    pub fn with_inventory(inventory: Arc<Inventory>, classes: &BTreeMap<String, Arc<DeviceClass>>, state: AllocatedState) -> Self {
        let usage = Usage::new(&inventory, &state);
        Self { inventory, classes: classes.clone(), state, usage, step_budget: None }
    }

    /// Gives up after so many steps of the search. Without a budget the search is exhaustive.
    #[must_use]
    pub fn with_step_budget(mut self, steps: u64) -> Self {
        self.step_budget = Some(steps);
        self
    }

    /// Takes what an allocation holds, so that the next call sees it. Together with [`Self::release`] it lets one
    /// allocator live through many claims.
    pub fn hold(&mut self, allocation: &AllocationResult) {
        self.state.add(allocation, self.inventory.features);
        self.refresh(allocation);
    }

    /// Gives back what an allocation held.
    pub fn release(&mut self, allocation: &AllocationResult) {
        self.state.remove(allocation, self.inventory.features);
        self.refresh(allocation);
    }

    fn refresh(&mut self, allocation: &AllocationResult) {
        for id in state::held_devices(allocation) {
            self.usage.refresh(&self.inventory, &self.state, &id);
        }
    }

    /// What is allocated, as far as this allocator knows.
    #[must_use]
    pub fn state(&self) -> &AllocatedState {
        &self.state
    }

    /// The gates that the allocator goes by.
    #[must_use]
    pub fn features(&self) -> Features {
        self.inventory.features
    }

    /// Whether a gate is on for which kube-scheduler takes upstream's `experimental` variant.
    fn is_experimental(&self) -> bool {
        [Feature::ListTypeAttributes, Feature::OptionalNodeOperations, Feature::DerivedAttributes, Feature::DeviceCompatibilityGroups]
            .iter()
            .any(|feature| self.features().has(*feature))
    }

    /// Allocates all claims of a pod on `node`, or none. Also returns the number of search steps.
    pub fn allocate(&self, node: &Node, claims: &[Arc<ResourceClaim>]) -> (Outcome, u64) {
        self.run(node, claims, None)
    }

    /// The same, and notes in `trace` which devices were not taken and why.
    pub fn allocate_traced(&self, node: &Node, claims: &[Arc<ResourceClaim>], trace: &mut Trace) -> (Outcome, u64) {
        self.run(node, claims, Some(trace))
    }

    fn run(&self, node: &Node, claims: &[Arc<ResourceClaim>], mut trace: Option<&mut Trace>) -> (Outcome, u64) {
        let view = match NodeView::gather(&self.inventory, node) {
            Ok(view) => view,
            Err(error) => return (Outcome::Invalid(format!("gather pool information: {error}")), 0),
        };
        let mut planner = Planner { allocator: self, choices: Vec::new() };
        let mut plans = Vec::with_capacity(claims.len());
        for (number, claim) in claims.iter().enumerate() {
            match planner.plan(number, claim, |choice| self.all_devices(node, &view, claim, choice, trace.as_deref_mut())) {
                Ok(plan) => plans.push(plan),
                Err(error) => return (Outcome::Invalid(error), 0),
            }
        }
        let mut search = Search::new(self, node, &view, plans, planner.choices, trace);
        let outcome = match search.run() {
            Ok(true) => match search.results() {
                Ok(results) => Outcome::Fits(results),
                Err(error) => Outcome::Invalid(error),
            },
            Ok(false) if view.pools.iter().any(|pool| matches!(pool.status, PoolStatus::Invalid(_))) => {
                Outcome::NodeError("invalid resource pools were encountered".to_owned())
            }
            Ok(false) => Outcome::DoesNotFit,
            Err(Stop::Fatal(error)) => Outcome::Invalid(error),
            Err(Stop::TooManyDevices) => Outcome::Invalid("allocation max size exceeded".to_owned()),
            Err(Stop::GaveUp) => Outcome::GaveUp,
        };
        (outcome, search.steps)
    }

    /// The devices of a request with allocation mode All (section 5): all that are selectable, in use or not.
    fn all_devices(
        &self,
        node: &Node,
        view: &NodeView,
        claim: &ResourceClaim,
        choice: &Choice<'_>,
        mut trace: Option<&mut Trace>,
    ) -> Result<Vec<usize>, String> {
        let mut found = Vec::new();
        let mut next = 0;
        for (place, pool) in view.pools.iter().enumerate() {
            let trouble = match pool.status {
                PoolStatus::Usable => None,
                PoolStatus::Incomplete => Some("being updated"),
                PoolStatus::Invalid(_) => Some("invalid"),
            };
            if let Some(trouble) = trouble {
                return Err(format!(
                    "claim {}, request {}: asks for all devices, but resource pool {} is currently {trouble}",
                    claim_name(claim),
                    choice.name(),
                    self.inventory.pools[pool.pool].id
                ));
            }
            while view.candidates.get(next).is_some_and(|candidate| candidate.pool == place) {
                let device = view.candidates[next].device;
                match self.refusal(node, view, claim, choice, next)? {
                    None => found.push(next),
                    Some(reason) => {
                        if let Some(trace) = trace.as_deref_mut() {
                            trace.add(&self.inventory, choice, device, reason);
                        }
                    }
                }
                next += 1;
            }
        }
        Ok(found)
    }

    /// Why a candidate is not among all devices: it is not selectable, or its capacity would not do on an idle device.
    fn refusal(
        &self,
        node: &Node,
        view: &NodeView,
        claim: &ResourceClaim,
        choice: &Choice<'_>,
        candidate: usize,
    ) -> Result<Option<Reason>, String> {
        let refusal = search::selectable(&self.inventory, view, node, claim, choice, candidate)?;
        if refusal.is_some() || !self.features().has(Feature::ConsumableCapacity) {
            return Ok(refusal);
        }
        let device = view.candidates[candidate].device;
        let fits = search::fits_capacity(&self.inventory, choice, device, [None, None]).map_err(|error| {
            let name = &self.inventory.device(device).name;
            format!("claim {}, request {}: checking capacity for device {name}: {error}", claim_name(claim), choice.name())
        })?;
        Ok(fits.is_none().then_some(Reason::Capacity))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::testing::{allocator, claim, devices, node, slice, summary};
    use super::*;
    use crate::model::ids::DeviceId;

    fn one(count: i64) -> Arc<ResourceClaim> {
        claim(&json!([{"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": count}}]))
    }

    #[test]
    fn claims_of_a_pod_are_allocated_together_or_not_at_all() {
        let allocator = allocator(Features::latest(), &[slice("s", "p", 1, 1, &devices(&["a", "b"]))]);
        let (outcome, steps) = allocator.allocate(&node(), &[one(1), one(1)]);
        assert_eq!((summary(&outcome).as_str(), steps), ("r=p/a r=p/b", 7));
        assert_eq!(summary(&allocator.allocate(&node(), &[one(1), one(2)]).0), "does not fit");
        assert!(matches!(allocator.allocate(&node(), &[]), (Outcome::Fits(results), 1) if results.is_empty()));
    }

    #[test]
    fn what_is_held_is_in_use_until_released() {
        let rest = json!({"devices": [
            {"name": "own"},
            {"name": "shared", "allowMultipleAllocations": true, "capacity": {"memory": {"value": "8Gi"}}},
        ]});
        let mut allocator = allocator(Features::latest(), &[slice("s", "p", 1, 1, &rest)]);
        let claim = claim(&json!([{"name": "r", "exactly": {
            "deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "capacity": {"requests": {"memory": "8Gi"}},
        }}]));
        let before = allocator.allocate(&node(), &[one(2)]).0;
        assert_eq!(summary(&before), "r=p/own r=p/shared");
        let Outcome::Fits(results) = allocator.allocate(&node(), std::slice::from_ref(&claim)).0 else { panic!("fits") };
        allocator.hold(&results[0]);
        assert_eq!(summary(&allocator.allocate(&node(), &[claim]).0), "does not fit", "its capacity is used up");
        assert_eq!(summary(&allocator.allocate(&node(), &[one(1)]).0), "r=p/own");
        allocator.release(&results[0]);
        assert_eq!(summary(&allocator.allocate(&node(), &[one(2)]).0), summary(&before));
        assert!(allocator.state().devices.is_empty() && allocator.state().shared.is_empty());
    }

    #[test]
    fn depth_does_not_exhaust_the_stack() {
        let names: Vec<String> = (0..8000).map(|number| format!("x{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let allocator = allocator(Features::latest(), &[slice("s", "p", 1, 1, &devices(&names))]);
        let (outcome, steps) = allocator.allocate(&node(), &vec![one(32); 250]);
        assert!(matches!(outcome, Outcome::Fits(results) if results.len() == 250));
        assert_eq!(steps, 250 * 34 + 1);
    }

    #[test]
    fn the_search_gives_up_when_the_budget_is_spent() {
        let names: Vec<String> = (0..20).map(|number| format!("x{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let allocator = allocator(Features::latest(), &[slice("s", "p", 1, 1, &devices(&names))]).with_step_budget(10_000);
        let (outcome, steps) = allocator.allocate(&node(), &[one(10), one(11)]);
        assert_eq!((summary(&outcome).as_str(), steps), ("gave up", 10_001));
    }

    #[test]
    fn an_invalid_pool_fails_the_node_only_if_nothing_fits() {
        let slices = [slice("s", "bad", 1, 1, &devices(&["a", "a"])), slice("s", "good", 1, 1, &devices(&["b"]))];
        let allocator = allocator(Features::latest(), &slices);
        assert_eq!(summary(&allocator.allocate(&node(), &[one(1)]).0), "r=good/b");
        assert_eq!(summary(&allocator.allocate(&node(), &[one(2)]).0), "invalid resource pools were encountered");
        let all = claim(&json!([{"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "All"}}]));
        let message = "claim ns/c, request r: asks for all devices, but resource pool d/bad is currently invalid";
        assert_eq!(summary(&allocator.allocate(&node(), &[all]).0), message);
    }

    #[test]
    fn a_trace_says_why_devices_were_not_taken() {
        let rest = json!({"devices": [
            {"name": "taken"},
            {"name": "tainted", "taints": [{"key": "broken", "effect": "NoSchedule"}]},
            {"name": "bound", "consumesCounters": [{"counterSet": "s", "counters": {}}]},
        ]});
        let features = Features::latest().without(Feature::PartitionableDevices);
        let mut state = AllocatedState::default();
        state.devices.insert(DeviceId::new("d", "p", "taken"));
        let any = allocator(features, &[]).classes;
        let allocator = Allocator::new(features, &[slice("s", "p", 1, 1, &rest)], &any, state);
        let mut trace = Trace::default();
        assert!(matches!(allocator.allocate_traced(&node(), &[one(1)], &mut trace).0, Outcome::DoesNotFit));
        let seen: Vec<_> = trace.rejections.iter().map(|r| (r.request.as_str(), r.device.to_string(), r.reason.clone())).collect();
        assert_eq!(
            seen,
            [
                ("r", "d/p/taken".to_owned(), Reason::InUse),
                ("r", "d/p/tainted".to_owned(), Reason::Taint { key: "broken".to_owned() }),
                ("r", "d/p/bound".to_owned(), Reason::Counters),
            ]
        );
    }
}
