//! Placing a device, and taking it back exactly.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::DeviceAttribute;

use super::check::untolerated;
use super::{Placed, Search, Stop};
use crate::allocator::Allocator;
use crate::allocator::counters::Taken;
use crate::allocator::inventory::DeviceIx;
use crate::allocator::pools::{Candidate, CandidateIx};
use crate::allocator::requests::claim_name;
use crate::allocator::selectors::SelectorError;
use crate::allocator::state::ConsumedCapacity;
use crate::allocator::trace::Reason;
use crate::model::attribute::{AttributeValue, lookup};
use crate::model::features::Feature;

/// Whether the slice asks for node operations to be skipped and the node cannot do that.
pub(in crate::allocator) fn needs_node_operations(allocator: &Allocator, node: &Node, device: DeviceIx) -> bool {
    let skip = allocator.inventory.slice_of(device).spec().skip_node_operations.as_deref().unwrap_or_default();
    if skip.is_empty() {
        return false;
    }
    if allocator.features().has(Feature::OptionalNodeOperations) {
        let declared = node.status.as_ref().and_then(|status| status.declared_features.as_deref()).unwrap_or_default();
        return !declared.iter().any(|feature| feature == "DRAOptionalNodeOperations");
    }
    // The allocator that kube-scheduler uses as long as nothing experimental is on does not know the field.
    allocator.is_experimental()
}

impl<'a> Search<'a, '_> {
    /// Places a selectable device, if nothing speaks against it. `must` is for allocation mode All, where a constraint
    /// that is not satisfied is an error.
    pub(super) fn place(&mut self, choice: usize, candidate: CandidateIx, must: bool) -> Result<bool, Stop> {
        let device = self.view.candidates[candidate].device;
        let multi = self.is_multi(device);
        let claim = self.choices[choice].claim;
        let in_use = if self.choices[choice].admin { !multi && self.is_in_use_by(candidate, claim) } else { self.is_in_use(candidate) };
        if in_use {
            self.reject(choice, candidate, Reason::InUse);
            return Ok(false);
        }
        if needs_node_operations(self.allocator, self.node, device) {
            self.reject(choice, candidate, Reason::NodeOperations);
            return Ok(false);
        }
        let taken = match self.take_counters(candidate, device, multi) {
            Ok(taken) => taken,
            Err(reason) => {
                self.reject(choice, candidate, reason);
                return Ok(false);
            }
        };
        match self.finish(choice, candidate, device, multi, must) {
            Ok(Ok(share)) => {
                self.placed.push(Placed { choice, candidate, share, taken });
                self.results[claim] += 1;
                Ok(true)
            }
            Ok(Err(reason)) => {
                self.put_back_counters(candidate, taken);
                self.reject(choice, candidate, reason);
                Ok(false)
            }
            Err(stop) => Err(stop),
        }
    }

    pub(super) fn take_counters(&mut self, candidate: CandidateIx, device: DeviceIx, multi: bool) -> Result<Option<Taken>, Reason> {
        if self.inventory.device(device).consumes_counters.as_deref().unwrap_or_default().is_empty() {
            return Ok(None);
        }
        if !self.inventory.features.has(Feature::PartitionableDevices) {
            return Err(Reason::Counters);
        }
        // A shared device that is in use has its counters already.
        let name = self.inventory.devices[device].name;
        if multi && (self.allocator.usage.is_shared(name) || self.in_use.get(&candidate).is_some_and(|in_use| in_use.shares > 0)) {
            return Ok(None);
        }
        let pool = self.view.candidates[candidate].pool;
        let Some(table) = &self.view.pools[pool].counters else { return Ok(None) };
        let state = self.counters[pool].get_or_insert_with(|| table.open(self.inventory, &self.allocator.usage));
        state.take(table, device, self.inventory).map(Some).map_err(Reason::from)
    }

    pub(super) fn put_back_counters(&mut self, candidate: CandidateIx, taken: Option<Taken>) {
        let Candidate { device, pool } = self.view.candidates[candidate];
        if let (Some(taken), Some(table), Some(state)) = (taken, &self.view.pools[pool].counters, &mut self.counters[pool]) {
            state.put_back(table, device, taken);
        }
    }

    /// Taints, constraints and capacity. What a share consumes, or why it cannot be; then nothing has changed.
    pub(super) fn finish(
        &mut self,
        choice: usize,
        candidate: CandidateIx,
        device: DeviceIx,
        multi: bool,
        must: bool,
    ) -> Result<Result<Option<ConsumedCapacity>, Reason>, Stop> {
        if self.inventory.features.has(Feature::DeviceTaints)
            && let Some(taint) = untolerated(self.inventory, &self.choices[choice], device)
        {
            return Ok(Err(Reason::Taint { key: taint.key.clone() }));
        }
        let claim = self.choices[choice].claim;
        for number in 0..self.claims[claim].constraints.len() {
            if !self.applies(claim, number, choice) {
                continue;
            }
            let attribute = self.claims[claim].constraints[number].attribute;
            let value = self.attribute(choice, device, attribute)?;
            let added = value.is_some_and(|value| self.claims[claim].constraints[number].add(&value));
            if added {
                continue;
            }
            if must {
                return Err(Stop::Fatal(format!(
                    "claim {}, request {}: cannot add device {} because a claim constraint would not be satisfied",
                    claim_name(self.claims[claim].claim),
                    self.choices[choice].name(),
                    self.inventory.full_name(device)
                )));
            }
            self.remove_from_constraints(choice, number);
            return Ok(Err(Reason::Constraint { number }));
        }
        let mut share = None;
        if self.inventory.features.has(Feature::ConsumableCapacity) {
            let Some(consumed) = self.capacity(choice, candidate)? else {
                self.remove_from_constraints(choice, self.claims[claim].constraints.len());
                return Ok(Err(Reason::Capacity));
            };
            if multi {
                share = Some(consumed);
            }
        }
        let in_use = self.in_use.entry(candidate).or_default();
        match &share {
            None => {
                in_use.claims.push(claim);
                self.exclusive[candidate / 64] |= 1 << (candidate % 64);
            }
            Some(consumed) => {
                in_use.shares += 1;
                for (name, amount) in consumed {
                    let total = in_use.consumed.get(name).map_or_else(|| amount.clone(), |held| held.add(amount));
                    in_use.consumed.insert(name.clone(), total);
                }
            }
        }
        Ok(Ok(share))
    }

    pub(super) fn applies(&self, claim: usize, constraint: usize, choice: usize) -> bool {
        let choice = &self.choices[choice];
        self.claims[claim].constraints[constraint].applies_to(choice.request, choice.alternative)
    }

    /// Removes the device that was added last from the first `count` constraints of the claim.
    pub(super) fn remove_from_constraints(&mut self, choice: usize, count: usize) {
        let claim = self.choices[choice].claim;
        for number in 0..count {
            if self.applies(claim, number, choice) {
                self.claims[claim].constraints[number].remove();
            }
        }
    }

    /// Undoes the last placement exactly.
    pub(super) fn take_back(&mut self) {
        let Some(Placed { choice, candidate, share, taken }) = self.placed.pop() else { return };
        let claim = self.choices[choice].claim;
        self.results[claim] -= 1;
        let in_use = self.in_use.entry(candidate).or_default();
        match share {
            None => {
                in_use.claims.retain(|other| *other != claim);
                if in_use.claims.is_empty() {
                    self.exclusive[candidate / 64] &= !(1 << (candidate % 64));
                }
            }
            Some(consumed) => {
                in_use.shares -= 1;
                for (name, amount) in &consumed {
                    if let Some(total) = in_use.consumed.get_mut(name) {
                        *total = total.sub(amount);
                    }
                }
                if in_use.shares == 0 {
                    in_use.consumed.clear();
                }
            }
        }
        self.remove_from_constraints(choice, self.claims[claim].constraints.len());
        self.put_back_counters(candidate, taken);
    }

    /// The value that constraints see: a derived attribute of the request, else the device's own.
    pub(super) fn attribute(&mut self, choice: usize, device: DeviceIx, name: &'a str) -> Result<Option<AttributeValue<'a>>, Stop> {
        let Some(derived) = self.choices[choice].derived.iter().find(|derived| derived.name == name) else {
            let attributes = self.inventory.device(device).attributes.as_ref();
            let found = attributes.and_then(|all| lookup(all, self.inventory.driver(device), name));
            return Ok(found.map(AttributeValue::of));
        };
        let key = (derived.expression.as_str(), device);
        if let Some(value) = self.derived.get(&key) {
            return Ok(Some(value.clone()));
        }
        let value: DeviceAttribute =
            self.inventory.selectors.derived(&derived.expression).value(self.inventory, device).map_err(|error| {
                Stop::Fatal(match error {
                    SelectorError::Compile(text) => format!("compile derived attribute {name} failed: {text}"),
                    SelectorError::Runtime(error) => {
                        format!("evaluate derived attribute {name} on device {} failed: {error}", self.inventory.full_name(device))
                    }
                })
            })?;
        let value = AttributeValue::of(&value).into_owned();
        self.derived.insert(key, value.clone());
        Ok(Some(value))
    }
}
