//! What stands in the way of each device of a node, request by request, before any search: the funnel of `explain`.
//!
//! The allocator looks at devices one after the other and stops at the first that will do; here all of them are asked, each
//! on its own, in the order in which people think: selectors, in use, taints, counters, capacity. What devices refuse only
//! together (constraints, the number of devices) is the search's matter.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{DeviceTaint, ResourceClaim};

use super::Allocator;
use super::capacity::Shortage;
use super::counters::CounterRefusal;
use super::pools::{Candidate, NodeView, PoolStatus};
use super::requests::{Choice, Planner};
use super::search::{needs_node_operations, untolerated};
use super::selectors::{Selector, SelectorError};
use crate::model::features::Feature;
use crate::model::ids::{DeviceId, PoolId};

/// What a node has for a list of claims.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The pools that the node can reach, in the order in which they are searched.
    pub pools: Vec<SurveyedPool>,
    /// Pools of which the node sees an old generation only: nothing of them is used.
    pub superseded: Vec<PoolId>,
    /// Pools with slices that a gate which is off hides, with that gate.
    pub hidden: Vec<(PoolId, Feature)>,
    /// All devices of usable pools, in the order in which they are tried.
    pub devices: Vec<DeviceId>,
    /// Each request, or alternative of a request, in the order of claims and requests.
    pub requests: Vec<SurveyedRequest>,
}

/// A pool that a node can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedPool {
    /// The pool.
    pub id: PoolId,
    /// Whether its devices can be allocated.
    pub state: PoolState,
}

/// Whether devices of a pool can be allocated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PoolState {
    /// Yes.
    Usable,
    /// Slices are missing, or there are too many.
    Incomplete {
        /// How many slices of the newest generation there are.
        have: i64,
        /// How many there should be.
        want: i64,
    },
    /// The pool contradicts itself, as this says.
    Invalid(String),
}

/// A request, or one alternative of a request, with what each device answers.
#[derive(Clone, Debug)]
pub struct SurveyedRequest {
    /// Place of the claim in the list.
    pub claim: usize,
    /// The request, or `request/alternative`.
    pub name: String,
    /// The device class.
    pub class: String,
    /// How many devices are wanted; `None` for all that match.
    pub count: Option<i64>,
    /// What stands in the way, per device of [`Survey::devices`]; `None` if nothing does.
    pub obstacles: Vec<Option<Obstacle>>,
}

/// What stands in the way of one device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// A selector of the class or of the request is false.
    Selector {
        /// The device class's, else the request's.
        of_class: bool,
        /// Its place in the list.
        number: usize,
    },
    /// A selector fails on the device, or does not compile.
    SelectorFails {
        /// The device class's, else the request's.
        of_class: bool,
        /// Its place in the list.
        number: usize,
        /// It does not compile.
        compile: bool,
        /// Why, as upstream words it without the prefix.
        text: String,
    },
    /// It has binding conditions and their gates are off.
    BindingConditions,
    /// The device is not for this node.
    Node,
    /// A claim has it for itself.
    InUse,
    /// The node cannot go without the driver's node operations.
    NodeOperations,
    /// A taint is not tolerated.
    Taint {
        /// Key.
        key: String,
        /// Value; empty if it has none.
        value: String,
        /// Effect.
        effect: String,
    },
    /// Shared counters are used up, or partitions are off.
    Counters,
    /// Devices on the same counters are of an incompatible group.
    CompatibilityGroups,
    /// It has not enough capacity left, or its policy forbids the amount.
    Capacity(Shortage),
    /// What is asked of its capacity cannot be worked out.
    CapacityFails(String),
}

impl Allocator {
    /// Asks every device that the node can reach about every request of the claims.
    ///
    /// # Errors
    /// The claims cannot be asked about at all (malformed, class missing, gate off), or the node's pools cannot be gathered;
    /// the text is upstream's.
    pub fn survey(&self, node: &Node, claims: &[Arc<ResourceClaim>]) -> Result<Survey, String> {
        let view = NodeView::gather(&self.inventory, node).map_err(|error| format!("gather pool information: {error}"))?;
        let mut survey = Survey { devices: self.device_ids(&view), ..Survey::default() };
        self.survey_pools(node, &view, &mut survey)?;
        let mut planner = Planner { allocator: self, choices: Vec::new() };
        for (number, claim) in claims.iter().enumerate() {
            planner.plan_without_all(number, claim)?;
        }
        for choice in &planner.choices {
            let obstacles = (0..view.candidates.len()).map(|candidate| self.obstacle(node, &view, choice, candidate)).collect();
            survey.requests.push(SurveyedRequest {
                claim: choice.claim,
                name: choice.full_name(),
                class: choice.class.metadata.name.clone().unwrap_or_default(),
                count: choice.all.is_none().then_some(choice.devices),
                obstacles,
            });
        }
        Ok(survey)
    }

    fn device_ids(&self, view: &NodeView) -> Vec<DeviceId> {
        let id = |candidate: &Candidate| DeviceId {
            pool: self.inventory.pools[self.inventory.slice_of(candidate.device).pool].id.clone(),
            device: self.inventory.device(candidate.device).name.as_str().into(),
        };
        view.candidates.iter().map(id).collect()
    }

    fn survey_pools(&self, node: &Node, view: &NodeView, survey: &mut Survey) -> Result<(), String> {
        let inventory = &self.inventory;
        for pool in &view.pools {
            let state = match &pool.status {
                PoolStatus::Usable => PoolState::Usable,
                PoolStatus::Invalid(reason) => PoolState::Invalid(reason.clone()),
                PoolStatus::Incomplete => {
                    let slices = || inventory.pools[pool.pool].slices.iter().map(|&slice| &inventory.slices[slice]);
                    let newest = slices().map(|slice| slice.spec().pool.generation).max().unwrap_or_default();
                    let of_newest = || slices().filter(|slice| slice.spec().pool.generation == newest);
                    PoolState::Incomplete {
                        have: of_newest().filter(|slice| slice.counted).count() as i64,
                        want: of_newest().next().map_or(0, |slice| slice.spec().pool.resource_slice_count),
                    }
                }
            };
            survey.pools.push(SurveyedPool { id: inventory.pools[pool.pool].id.clone(), state });
        }
        let own = node.metadata.name.as_ref().and_then(|name| inventory.local.get(name)).map(Vec::as_slice).unwrap_or_default();
        for &number in own.iter().chain(&inventory.global) {
            let slice = &inventory.slices[number];
            if slice.visible && view.pools.iter().any(|pool| pool.pool == slice.pool) || !inventory.reaches(slice, node)? {
                continue;
            }
            let id = &inventory.pools[slice.pool].id;
            if slice.visible {
                if !survey.superseded.contains(id) {
                    survey.superseded.push(id.clone());
                }
                continue;
            }
            let gate = if slice.counted { Feature::PartitionableDevices } else { Feature::DeviceCompatibilityGroups };
            if !survey.hidden.iter().any(|(hidden, _)| hidden == id) {
                survey.hidden.push((id.clone(), gate));
            }
        }
        Ok(())
    }

    fn obstacle(&self, node: &Node, view: &NodeView, choice: &Choice<'_>, candidate: usize) -> Option<Obstacle> {
        let inventory = &self.inventory;
        let Candidate { device, pool } = view.candidates[candidate];
        let api = inventory.device(device);
        if !api.binding_conditions.as_deref().unwrap_or_default().is_empty() && !inventory.features.binding_conditions() {
            return Some(Obstacle::BindingConditions);
        }
        for (selectors, of_class) in [(&choice.class_selectors, true), (&choice.selectors, false)] {
            if let Some(obstacle) = self.selector_obstacle(selectors, of_class, device) {
                return Some(obstacle);
            }
        }
        if let Some(selection) = &inventory.devices[device].selection
            && !selection.matches(node).unwrap_or_default()
        {
            return Some(Obstacle::Node);
        }
        let name = inventory.devices[device].name;
        if !choice.admin && self.usage.is_exclusive(name) {
            return Some(Obstacle::InUse);
        }
        if needs_node_operations(self, node, device) {
            return Some(Obstacle::NodeOperations);
        }
        if inventory.features.has(Feature::DeviceTaints)
            && let Some(DeviceTaint { key, value, effect, .. }) = untolerated(inventory, choice, device)
        {
            let (key, value, effect) = (key.clone(), value.clone().unwrap_or_default(), effect.clone());
            return Some(Obstacle::Taint { key, value, effect });
        }
        let shared = inventory.features.has(Feature::ConsumableCapacity);
        if !api.consumes_counters.as_deref().unwrap_or_default().is_empty() {
            if !inventory.features.has(Feature::PartitionableDevices) {
                return Some(Obstacle::Counters);
            }
            let has_its_counters = shared && api.allow_multiple_allocations == Some(true) && self.usage.is_shared(name);
            if let Some(table) = view.pools[pool].counters.as_ref().filter(|_| !has_its_counters) {
                match table.open(inventory, &self.usage).take(table, device, inventory) {
                    Ok(_) => {}
                    Err(CounterRefusal::Counters) => return Some(Obstacle::Counters),
                    Err(CounterRefusal::Groups) => return Some(Obstacle::CompatibilityGroups),
                }
            }
        }
        if !shared {
            return None;
        }
        let fractions = inventory.features.has(Feature::FractionalCapacityRange);
        let capacities = inventory.capacities(device).as_ref().map_err(Clone::clone);
        match capacities.and_then(|capacities| capacities.shortage(&choice.wanted, self.usage.consumed(name), fractions)) {
            Ok(shortage) => shortage.map(Obstacle::Capacity),
            Err(text) => Some(Obstacle::CapacityFails(text)),
        }
    }

    fn selector_obstacle(&self, selectors: &[Arc<Selector>], of_class: bool, device: usize) -> Option<Obstacle> {
        selectors.iter().enumerate().find_map(|(number, selector)| match selector.matches(&self.inventory, device) {
            Ok(true) => None,
            Ok(false) => Some(Obstacle::Selector { of_class, number }),
            Err(SelectorError::Compile(text)) => Some(Obstacle::SelectorFails { of_class, number, compile: true, text }),
            Err(SelectorError::Runtime(error)) => {
                Some(Obstacle::SelectorFails { of_class, number, compile: false, text: error.to_string() })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::allocator::testing::{allocator, claim, node, slice};
    use crate::model::features::Features;

    #[test]
    fn every_device_answers_for_itself() {
        let rest = json!({"devices": [
            {"name": "small", "capacity": {"memory": {"value": "4Gi"}}},
            {"name": "tainted", "capacity": {"memory": {"value": "8Gi"}}, "taints": [{"key": "broken", "effect": "NoSchedule"}]},
            {"name": "fine", "capacity": {"memory": {"value": "8Gi"}}},
            {"name": "odd"},
        ]});
        let half = slice("t", "half", 1, 2, &json!({"devices": []}));
        let allocator = allocator(Features::latest(), &[slice("s", "p", 1, 1, &rest), half]);
        let request = json!([{"name": "r", "exactly": {
            "deviceClassName": "any", "allocationMode": "ExactCount", "count": 2, "capacity": {"requests": {"memory": "6Gi"}},
            "selectors": [{"cel": {"expression": "device.capacity['d'].memory.compareTo(quantity('1Gi')) > 0"}}],
        }}]);
        let survey = allocator.survey(&node(), &[claim(&request)]).expect("a survey");
        assert_eq!(survey.pools[0].state, PoolState::Incomplete { have: 1, want: 2 });
        let request = &survey.requests[0];
        assert_eq!((request.name.as_str(), request.class.as_str(), request.count), ("r", "any", Some(2)));
        let seen: Vec<String> = survey.devices.iter().zip(&request.obstacles).map(|(id, o)| format!("{}: {o:?}", id.device)).collect();
        assert!(seen[0].starts_with("small: Some(Capacity(Shortage"), "{}", seen[0]);
        assert!(seen[1].starts_with("tainted: Some(Taint { key: \"broken\""), "{}", seen[1]);
        assert_eq!(seen[2], "fine: None");
        assert!(seen[3].starts_with("odd: Some(SelectorFails { of_class: false, number: 0, compile: false"), "{}", seen[3]);
        assert!(allocator.survey(&node(), &[claim(&json!([{"name": "r"}]))]).is_err());
    }
}
