//! The search: depth first, exhaustive, the first full solution wins (section 3).

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{DeviceAttribute, ResourceClaim};
use std::collections::HashMap;

#[cfg(test)]
use super::constraints::Constraint;
use super::counters::{CounterState, Taken};
use super::inventory::{DeviceIx, Inventory};
use super::pools::{Candidate, CandidateIx, NodeView};
use super::requests::{Choice, ClaimPlan, claim_name};
use super::selectors::SelectorError;
use super::state::ConsumedCapacity;
use super::trace::{Reason, Trace};
use super::{Allocator, RESULTS_PER_CLAIM};
use crate::model::attribute::AttributeValue;
use crate::model::features::Feature;

/// Why the search stops before it has tried everything.
#[derive(Debug)]
pub(super) enum Stop {
    /// What is left to do needs more results than a claim can have. It prunes branches up to the next alternative or the
    /// beginning of the claim.
    TooManyDevices,
    /// The input is bad.
    Fatal(String),
    /// The step budget ran out.
    GaveUp,
}

/// Where the search is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    claim: usize,
    request: usize,
    /// Number of the alternative that is being tried; `None` where the request's alternatives are still to be tried.
    alternative: Option<usize>,
    /// How many devices of the request are placed.
    device: i64,
    /// The first candidate to try: combinations in increasing order, no permutations.
    from: CandidateIx,
}

/// A device that is placed, with what undoes it.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) choice: usize,
    pub(super) candidate: CandidateIx,
    /// For devices that can be allocated several times: what this share consumes.
    pub(super) share: Option<ConsumedCapacity>,
    taken: Option<Taken>,
}

/// What is in use in this attempt of one candidate.
#[derive(Debug, Default)]
struct InUse {
    /// The claims that have the device for themselves (several only with admin access).
    claims: Vec<usize>,
    /// How many shares there are of it, and what they consume.
    shares: usize,
    consumed: ConsumedCapacity,
}

/// One call's search.
pub(super) struct Search<'a, 't> {
    pub(super) allocator: &'a Allocator,
    pub(super) inventory: &'a Inventory,
    pub(super) node: &'a Node,
    pub(super) view: &'a NodeView,
    pub(super) claims: Vec<ClaimPlan<'a>>,
    pub(super) choices: Vec<Choice<'a>>,
    pub(super) trace: Option<&'t mut Trace>,
    /// Steps so far.
    pub(super) steps: u64,
    /// The alternative that was chosen, by claim and request.
    pub(super) chosen: Vec<Vec<usize>>,
    pub(super) placed: Vec<Placed>,
    /// How many devices each claim has so far.
    results: Vec<i64>,
    in_use: Vec<InUse>,
    /// Per choice and candidate whether the candidate is selectable, once known.
    selectable: Vec<Option<bool>>,
    counters: Vec<Option<CounterState>>,
    derived: HashMap<(&'a str, DeviceIx), AttributeValue<'static>>,
    node_operations_optional: bool,
}

impl<'a, 't> Search<'a, 't> {
    pub(super) fn new(
        allocator: &'a Allocator,
        node: &'a Node,
        view: &'a NodeView,
        claims: Vec<ClaimPlan<'a>>,
        choices: Vec<Choice<'a>>,
        trace: Option<&'t mut Trace>,
    ) -> Self {
        let declared = node.status.as_ref().and_then(|status| status.declared_features.as_deref()).unwrap_or_default();
        Self {
            allocator,
            inventory: &allocator.inventory,
            node,
            view,
            trace,
            steps: 0,
            chosen: claims.iter().map(|claim| vec![0; claim.requests.len()]).collect(),
            placed: Vec::new(),
            results: vec![0; claims.len()],
            in_use: view.candidates.iter().map(|_| InUse::default()).collect(),
            selectable: vec![None; choices.len() * view.candidates.len()],
            counters: view.pools.iter().map(|_| None).collect(),
            derived: HashMap::new(),
            node_operations_optional: declared.iter().any(|feature| feature == "DRAOptionalNodeOperations"),
            claims,
            choices,
        }
    }

    /// Searches for devices for all claims. Where there are none, nothing stays placed.
    pub(super) fn run(&mut self) -> Result<bool, Stop> {
        self.step(Place::default())
    }

    fn step(&mut self, place: Place) -> Result<bool, Stop> {
        self.steps += 1;
        if self.allocator.step_budget.is_some_and(|budget| self.steps > budget) {
            return Err(Stop::GaveUp);
        }
        let Some(claim) = self.claims.get(place.claim) else { return Ok(true) };
        let Some(&request) = claim.requests.get(place.request) else {
            let next = Place { claim: place.claim + 1, ..Place::default() };
            return match self.step(next) {
                Err(Stop::TooManyDevices) => Ok(false),
                other => other,
            };
        };
        let alternative = match place.alternative {
            Some(alternative) => alternative,
            None if request.alternatives => return self.alternatives(place, request.count),
            None => 0,
        };
        let choice = request.first + alternative;
        let devices = self.choices[choice].devices;
        if self.choices[choice].all.as_ref().is_some_and(Vec::is_empty) {
            return Ok(false);
        }
        if place.device >= devices {
            return self.step(Place { claim: place.claim, request: place.request + 1, ..Place::default() });
        }
        if devices - place.device > RESULTS_PER_CLAIM - self.results[place.claim] {
            return Err(Stop::TooManyDevices);
        }
        let place = Place { alternative: Some(alternative), ..place };
        if let Some(all) = &self.choices[choice].all {
            // No other order of the devices would do better.
            let Some(&candidate) = usize::try_from(place.device).ok().and_then(|device| all.get(device)) else { return Ok(false) };
            return Ok(self.place(choice, candidate, true)? && self.go_on(place, candidate)?);
        }
        for candidate in place.from..self.view.candidates.len() {
            if self.try_candidate(choice, candidate)? && self.go_on(place, candidate)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes on after `candidate` was placed, and takes it back if that leads nowhere.
    fn go_on(&mut self, place: Place, candidate: CandidateIx) -> Result<bool, Stop> {
        let done = self.step(Place { device: place.device + 1, from: candidate + 1, ..place });
        if !matches!(done, Ok(true)) {
            self.take_back();
        }
        done
    }

    /// The alternatives in order; the first one with which everything else fits, too, is taken.
    fn alternatives(&mut self, place: Place, count: usize) -> Result<bool, Stop> {
        let mut only_too_many = true;
        for alternative in 0..count {
            match self.step(Place { alternative: Some(alternative), ..place }) {
                Err(Stop::TooManyDevices) => {}
                Ok(true) => {
                    self.chosen[place.claim][place.request] = alternative;
                    return Ok(true);
                }
                Ok(false) => only_too_many = false,
                Err(stop) => return Err(stop),
            }
        }
        if only_too_many { Err(Stop::TooManyDevices) } else { Ok(false) }
    }

    fn reject(&mut self, choice: usize, candidate: CandidateIx, reason: Reason) {
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.add(self.inventory, &self.choices[choice], self.view.candidates[candidate].device, reason);
        }
    }

    /// Checks a candidate, cheapest first, and places it.
    fn try_candidate(&mut self, choice: usize, candidate: CandidateIx) -> Result<bool, Stop> {
        let admin = self.choices[choice].admin;
        let claim = self.choices[choice].claim;
        let in_use = if admin { self.in_use[candidate].claims.contains(&claim) } else { self.is_in_use(candidate) };
        if in_use {
            self.reject(choice, candidate, Reason::InUse);
            return Ok(false);
        }
        let known = choice * self.view.candidates.len() + candidate;
        let is_selectable = match self.selectable[known] {
            Some(verdict) => verdict,
            None => {
                let verdict = selectable(self.inventory, self.view, self.node, self.claims[claim].claim, &self.choices[choice], candidate);
                let refusal = verdict.map_err(Stop::Fatal)?;
                if let Some(reason) = refusal.clone() {
                    self.reject(choice, candidate, reason);
                }
                self.selectable[known] = Some(refusal.is_none());
                refusal.is_none()
            }
        };
        if !is_selectable {
            return Ok(false);
        }
        if self.inventory.features.has(Feature::ConsumableCapacity) && self.capacity(choice, candidate)?.is_none() {
            self.reject(choice, candidate, Reason::Capacity);
            return Ok(false);
        }
        self.place(choice, candidate, false)
    }

    /// Some claim has the device for itself, before or in this attempt.
    fn is_in_use(&self, candidate: CandidateIx) -> bool {
        let name = self.inventory.devices[self.view.candidates[candidate].device].name;
        self.allocator.usage.is_exclusive(name) || !self.in_use[candidate].claims.is_empty()
    }

    fn is_multi(&self, device: DeviceIx) -> bool {
        self.inventory.features.has(Feature::ConsumableCapacity) && self.inventory.device(device).allow_multiple_allocations == Some(true)
    }

    /// What the choice would consume of the candidate; `None` if that is not left.
    fn capacity(&self, choice: usize, candidate: CandidateIx) -> Result<Option<ConsumedCapacity>, Stop> {
        let device = self.view.candidates[candidate].device;
        let used = [
            self.allocator.usage.consumed(self.inventory.devices[device].name),
            Some(&self.in_use[candidate].consumed).filter(|consumed| !consumed.is_empty()),
        ];
        let fits = fits_capacity(self.inventory, &self.choices[choice], device, used);
        fits.map_err(|error| {
            let choice = &self.choices[choice];
            let claim = claim_name(self.claims[choice.claim].claim);
            let name = self.inventory.full_name(device);
            Stop::Fatal(format!("claim {claim}, request {}: checking capacity for device {name}: {error}", choice.name()))
        })
    }

    /// Whether the slice asks for node operations to be skipped and the node cannot do that.
    fn needs_node_operations(&self, device: DeviceIx) -> bool {
        let skip = self.inventory.slice_of(device).spec().skip_node_operations.as_deref().unwrap_or_default();
        if skip.is_empty() {
            return false;
        }
        if self.inventory.features.has(Feature::OptionalNodeOperations) {
            return !self.node_operations_optional;
        }
        // The allocator that kube-scheduler uses as long as nothing experimental is on does not know the field.
        self.allocator.is_experimental()
    }

    /// Places a selectable device, if nothing speaks against it. `must` is for allocation mode All, where a constraint
    /// that is not satisfied is an error.
    fn place(&mut self, choice: usize, candidate: CandidateIx, must: bool) -> Result<bool, Stop> {
        let device = self.view.candidates[candidate].device;
        let multi = self.is_multi(device);
        let claim = self.choices[choice].claim;
        let in_use =
            if self.choices[choice].admin { !multi && self.in_use[candidate].claims.contains(&claim) } else { self.is_in_use(candidate) };
        if in_use {
            self.reject(choice, candidate, Reason::InUse);
            return Ok(false);
        }
        if self.needs_node_operations(device) {
            self.reject(choice, candidate, Reason::NodeOperations);
            return Ok(false);
        }
        let taken = match self.take_counters(choice, candidate, device, multi) {
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

    fn take_counters(&mut self, choice: usize, candidate: CandidateIx, device: DeviceIx, multi: bool) -> Result<Option<Taken>, Reason> {
        let _ = choice;
        if self.inventory.device(device).consumes_counters.as_deref().unwrap_or_default().is_empty() {
            return Ok(None);
        }
        if !self.inventory.features.has(Feature::PartitionableDevices) {
            return Err(Reason::Counters);
        }
        // A shared device that is in use has its counters already.
        let name = self.inventory.devices[device].name;
        if multi && (self.allocator.usage.is_shared(name) || self.in_use[candidate].shares > 0) {
            return Ok(None);
        }
        let pool = self.view.candidates[candidate].pool;
        let Some(table) = &self.view.pools[pool].counters else { return Ok(None) };
        let state = self.counters[pool].get_or_insert_with(|| table.open(self.inventory, &self.allocator.usage));
        state.take(table, device, self.inventory).map(Some).map_err(Reason::from)
    }

    fn put_back_counters(&mut self, candidate: CandidateIx, taken: Option<Taken>) {
        let Candidate { device, pool } = self.view.candidates[candidate];
        if let (Some(taken), Some(table), Some(state)) = (taken, &self.view.pools[pool].counters, &mut self.counters[pool]) {
            state.put_back(table, device, taken);
        }
    }

    /// Taints, constraints and capacity. What a share consumes, or why it cannot be; then nothing has changed.
    fn finish(
        &mut self,
        choice: usize,
        candidate: CandidateIx,
        device: DeviceIx,
        multi: bool,
        must: bool,
    ) -> Result<Result<Option<ConsumedCapacity>, Reason>, Stop> {
        if self.inventory.features.has(Feature::DeviceTaints)
            && let Some(reason) = untolerated(self.inventory, &self.choices[choice], device)
        {
            return Ok(Err(reason));
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
        let in_use = &mut self.in_use[candidate];
        match &share {
            None => in_use.claims.push(claim),
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

    fn applies(&self, claim: usize, constraint: usize, choice: usize) -> bool {
        let choice = &self.choices[choice];
        self.claims[claim].constraints[constraint].applies_to(choice.request, choice.alternative)
    }

    /// Removes the device that was added last from the first `count` constraints of the claim.
    fn remove_from_constraints(&mut self, choice: usize, count: usize) {
        let claim = self.choices[choice].claim;
        for number in 0..count {
            if self.applies(claim, number, choice) {
                self.claims[claim].constraints[number].remove();
            }
        }
    }

    /// Undoes the last placement exactly.
    fn take_back(&mut self) {
        let Some(Placed { choice, candidate, share, taken }) = self.placed.pop() else { return };
        let claim = self.choices[choice].claim;
        self.results[claim] -= 1;
        let in_use = &mut self.in_use[candidate];
        match share {
            None => in_use.claims.retain(|other| *other != claim),
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
    fn attribute(&mut self, choice: usize, device: DeviceIx, name: &'a str) -> Result<Option<AttributeValue<'a>>, Stop> {
        let Some(derived) = self.choices[choice].derived.iter().find(|derived| derived.name == name) else {
            let attributes = self.inventory.device(device).attributes.as_ref();
            let found = attributes.and_then(|all| crate::model::attribute::lookup(all, self.inventory.driver(device), name));
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

#[cfg(test)]
impl Search<'_, '_> {
    /// Whether nothing is placed, and no trace of what was is left.
    pub(super) fn is_as_before(&self) -> bool {
        let counters = self.view.pools.iter().zip(&self.counters).all(|(pool, state)| match (&pool.counters, state) {
            (Some(table), Some(state)) => *state == table.open(self.inventory, &self.allocator.usage),
            _ => true,
        });
        counters
            && self.placed.is_empty()
            && self.results.iter().all(|results| *results == 0)
            && self.in_use.iter().all(|in_use| in_use.claims.is_empty() && in_use.shares == 0 && in_use.consumed.is_empty())
            && self.claims.iter().all(|claim| claim.constraints.iter().all(Constraint::is_empty))
    }
}

/// Whether class, request and the device's own node selection select the candidate (section 4); the reason if not.
/// Errors are fatal, and complete.
pub(super) fn selectable(
    inventory: &Inventory,
    view: &NodeView,
    node: &Node,
    claim: &ResourceClaim,
    choice: &Choice<'_>,
    candidate: CandidateIx,
) -> Result<Option<Reason>, String> {
    let device = view.candidates[candidate].device;
    let conditions = inventory.device(device).binding_conditions.as_deref().unwrap_or_default();
    if !conditions.is_empty() && !inventory.features.binding_conditions() {
        return Ok(Some(Reason::BindingConditions));
    }
    for (selectors, of_class) in [(&choice.class_selectors, true), (&choice.selectors, false)] {
        for (number, selector) in selectors.iter().enumerate() {
            match selector.matches(inventory, device) {
                Ok(true) => {}
                Ok(false) => return Ok(Some(Reason::Selector { of_class, number })),
                Err(error) => {
                    let owner = if of_class {
                        format!("class {}", choice.class.metadata.name.as_deref().unwrap_or_default())
                    } else {
                        format!("claim {}", claim_name(claim))
                    };
                    return Err(match error {
                        SelectorError::Compile(text) => format!("{owner}: selector #{number}: CEL compile error: {text}"),
                        SelectorError::Runtime(error) => {
                            format!("{owner}: selector #{number} on device {}: CEL runtime error: {error}", inventory.full_name(device))
                        }
                    });
                }
            }
        }
    }
    match &inventory.devices[device].selection {
        Some(selection) if !selection.matches(node)? => Ok(Some(Reason::Node)),
        _ => Ok(None),
    }
}

/// What the choice consumes of the device while `used` is consumed; `None` if it does not fit. The error lacks its prefix.
pub(super) fn fits_capacity(
    inventory: &Inventory,
    choice: &Choice<'_>,
    device: DeviceIx,
    used: [Option<&ConsumedCapacity>; 2],
) -> Result<Option<ConsumedCapacity>, String> {
    let capacities = inventory.capacities(device).as_ref().map_err(Clone::clone)?;
    let multi = inventory.device(device).allow_multiple_allocations == Some(true);
    if !multi && choice.wanted.is_empty() && used.iter().all(Option::is_none) && (capacities.is_empty() || capacities.is_plain()) {
        return Ok(Some(ConsumedCapacity::new()));
    }
    capacities.fit(&choice.wanted, used, inventory.features.has(Feature::FractionalCapacityRange))
}

fn untolerated(inventory: &Inventory, choice: &Choice<'_>, device: DeviceIx) -> Option<Reason> {
    let taints = inventory.device(device).taints.as_deref().unwrap_or_default();
    let bad = taints.iter().find(|taint| {
        crate::model::taint::blocks_allocation(taint)
            && !choice.tolerations.iter().any(|toleration| crate::model::taint::tolerates(toleration, taint))
    })?;
    Some(Reason::Taint { key: bad.key.clone() })
}
