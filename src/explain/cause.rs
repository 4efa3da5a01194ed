//! The smallest set of changes after which it fits. What such a set changes is the cause: nothing else is named.
//!
//! Each thing that may stand in the way is a change that takes it out of the way ([`candidates`]). One change alone is
//! looked for first, the likeliest first. Where none alone will do, all are made together and taken back one by one as
//! long as it still fits: what remains is sufficient, and nothing in it can be missed.

use std::collections::{BTreeMap, BTreeSet};

use super::edit::Edit;
use super::problem::{Problem, constraints_of, requests_of};
use crate::allocator::{Outcome, PoolState};
use crate::model::features::{Feature, Features};
use crate::model::ids::DeviceId;
use crate::model::node_selector::ParsedNodeSelector;
use crate::model::taint::blocks_allocation;
use crate::scheduling::view::Key;

/// Why a problem has no solution.
#[derive(Clone, Debug, Default)]
pub struct Cause {
    /// With all of these it fits; with any of them left out it does not. Empty if nothing was found.
    pub edits: Vec<Edit>,
    /// Other changes that do it alone.
    pub others: Vec<Edit>,
}

/// Finds the cause; `None` if the problem is solved as it is.
#[must_use]
pub fn find(problem: &Problem) -> Option<Cause> {
    if matches!(problem.solve(), Outcome::Fits(_)) {
        return None;
    }
    let candidates = candidates(problem);
    let mut alone = candidates.iter().filter(|edit| problem.fits_with([*edit]));
    if let Some(first) = alone.next() {
        let others = alone.cloned().collect();
        return Some(Cause { edits: vec![first.clone()], others });
    }
    let mut kept: Vec<bool> = vec![true; candidates.len()];
    let chosen =
        |kept: &[bool]| -> Vec<Edit> { candidates.iter().zip(kept).filter(|(_, kept)| **kept).map(|(edit, _)| edit.clone()).collect() };
    if !problem.fits_with(&chosen(&kept)) {
        return Some(Cause::default());
    }
    // Changes may get in each other's way, so that one is not needed any more once another is gone: again until none goes.
    loop {
        let before = kept.iter().filter(|kept| **kept).count();
        for index in (0..candidates.len()).rev().filter(|index| kept[*index]).collect::<Vec<_>>() {
            kept[index] = false;
            if !problem.fits_with(&chosen(&kept)) {
                kept[index] = true;
            }
        }
        if kept.iter().filter(|kept| **kept).count() == before {
            break;
        }
    }
    Some(Cause { edits: chosen(&kept), others: Vec::new() })
}

/// Everything that may stand in the way, the likeliest first. What is certain to be wrong (a missing class) comes before
/// what is passing (devices in use), that before what the claim asks, and last what only more devices would help.
#[must_use]
pub fn candidates(problem: &Problem) -> Vec<Edit> {
    let mut edits = Vec::new();
    let requests = problem.requests();
    gates(problem, &mut edits);
    for request in &requests {
        match problem.asked(request) {
            Some(asked) if !asked.class.is_empty() && matches!(asked.mode, "ExactCount" | "All") => {
                let add = Edit::AddClass(asked.class.to_owned());
                if !problem.classes.contains_key(asked.class) && !edits.contains(&add) {
                    edits.push(add);
                }
            }
            _ => edits.push(Edit::MendRequest(request.clone())),
        }
    }
    pools(problem, &mut edits);
    let amounts =
        |of: &&super::problem::RequestRef| problem.asked(of).is_some_and(|asked| asked.capacity.is_some_and(|all| !all.is_empty()));
    edits.extend(requests.iter().filter(amounts).cloned().map(Edit::LeastCapacity));
    in_use(problem, &mut edits);
    let taints: BTreeSet<&str> = problem
        .devices()
        .flat_map(|(_, device)| device.taints.iter().flatten().filter(|taint| blocks_allocation(taint)))
        .map(|taint| taint.key.as_str())
        .collect();
    if problem.features.has(Feature::DeviceTaints) {
        edits.extend(taints.into_iter().map(|key| Edit::Untaint(key.to_owned())));
    }
    for (number, claim) in problem.claims.iter().enumerate() {
        edits.extend((0..constraints_of(claim).len()).map(|constraint| Edit::DropConstraint(number, constraint)));
    }
    let counting: BTreeSet<_> = problem
        .slices
        .iter()
        .filter(|slice| slice.spec.devices.iter().flatten().any(|device| device.consumes_counters.is_some()))
        .map(|slice| crate::model::ids::PoolId::new(&slice.spec.driver, &slice.spec.pool.name))
        .collect();
    edits.extend(counting.into_iter().map(Edit::NoCounters));
    if problem.devices().any(|(_, device)| device.consumes_counters.iter().flatten().any(|c| c.compatibility_groups.is_some())) {
        edits.push(Edit::NoGroups);
    }
    edits.extend(requests.iter().filter(|of| problem.asked(of).is_some_and(|a| a.has_capacity)).cloned().map(Edit::NoCapacity));
    if problem.slices.iter().any(|slice| slice.spec.skip_node_operations.is_some()) {
        edits.push(Edit::WithNodeOperations);
    }
    if problem.slices.iter().any(|slice| slice.spec.per_device_node_selection == Some(true)) {
        edits.push(Edit::HereToo);
    }
    for request in &requests {
        if problem.asked(request).is_some_and(|asked| asked.mode == "All" || asked.count > 1) {
            edits.push(Edit::Count(request.clone(), 1));
        }
    }
    selectors(problem, &mut edits);
    edits.extend(requests.iter().filter(|of| problem.asked(of).is_some_and(|a| a.derived)).cloned().map(Edit::NoDerived));
    edits.extend(requests.iter().filter(|of| problem.asked(of).is_some_and(|a| a.admin.is_some())).cloned().map(Edit::NoAdmin));
    edits.extend(slices_with_bad_nodes(problem).into_iter().map(Edit::DropSlice));
    if problem.devices().any(|(_, device)| device.capacity.is_some()) {
        edits.push(Edit::PlainDevices);
    }
    let wanted: i64 = requests.iter().filter_map(|of| problem.asked(of)).map(|asked| asked.count.clamp(1, 32)).sum();
    edits.push(Edit::MoreDevices(usize::try_from(wanted).unwrap_or(1).max(1)));
    edits
}

/// Gates that are off and that the claims or the devices need.
fn gates(problem: &Problem, edits: &mut Vec<Edit>) {
    let asked = || problem.requests().into_iter().collect::<Vec<_>>();
    let any_asked = |test: &dyn Fn(super::problem::Asked<'_>) -> bool| asked().iter().filter_map(|of| problem.asked(of)).any(test);
    let any_device = |test: &dyn Fn(&k8s_openapi::api::resource::v1::Device) -> bool| problem.devices().any(|(_, device)| test(device));
    let alternatives =
        problem.claims.iter().flat_map(|claim| requests_of(claim)).any(|r| r.first_available.as_ref().is_some_and(|l| !l.is_empty()));
    let needed: [(Feature, bool); 8] = [
        (Feature::PrioritizedList, alternatives),
        (Feature::AdminAccess, any_asked(&|asked| asked.admin.is_some())),
        (
            Feature::ConsumableCapacity,
            any_asked(&|asked| asked.has_capacity) || any_device(&|d| d.allow_multiple_allocations == Some(true)),
        ),
        (Feature::DerivedAttributes, any_asked(&|asked| asked.derived)),
        (
            Feature::PartitionableDevices,
            problem.slices.iter().any(|s| s.spec.shared_counters.is_some() || s.spec.per_device_node_selection.is_some())
                || any_device(&|d| d.consumes_counters.is_some()),
        ),
        (
            Feature::DeviceCompatibilityGroups,
            any_device(&|d| d.consumes_counters.iter().flatten().any(|c| c.compatibility_groups.is_some())),
        ),
        (Feature::DeviceBindingConditions, any_device(&|d| d.binding_conditions.as_ref().is_some_and(|l| !l.is_empty()))),
        (
            Feature::ListTypeAttributes,
            any_device(&|d| {
                let lists = |a: &k8s_openapi::api::resource::v1::DeviceAttribute| {
                    a.ints.is_some() || a.strings.is_some() || a.bools.is_some() || a.versions.is_some()
                };
                d.attributes.iter().flatten().any(|(_, attribute)| lists(attribute))
            }),
        ),
    ];
    let is_on = |features: Features, feature: Feature| {
        if feature == Feature::DeviceBindingConditions { features.binding_conditions() } else { features.has(feature) }
    };
    edits.extend(needed.into_iter().filter(|(feature, needed)| *needed && !is_on(problem.features, *feature)).map(|(f, _)| Edit::Gate(f)));
}

/// Pools that are incomplete, invalid or superseded.
fn pools(problem: &Problem, edits: &mut Vec<Edit>) {
    let Ok(survey) = problem.allocator().survey(&problem.node, &[]) else { return };
    for pool in &survey.pools {
        match pool.state {
            PoolState::Usable => {}
            PoolState::Incomplete { .. } => edits.push(Edit::CompletePool(pool.id.clone())),
            PoolState::Invalid(_) => edits.push(Edit::MendPool(pool.id.clone())),
        }
    }
    edits.extend(survey.superseded.into_iter().map(Edit::OldGeneration));
}

/// What others hold: each claim's devices on their own, then all together.
fn in_use(problem: &Problem, edits: &mut Vec<Edit>) {
    let state = &problem.state;
    let published: BTreeSet<DeviceId> = problem
        .devices()
        .map(|(slice, device)| DeviceId::new(&slice.spec.driver, &slice.spec.pool.name, &device.name))
        .filter(|id| state.is_allocated(id))
        .collect();
    let mut by_holder: BTreeMap<Option<&Key>, Vec<DeviceId>> = BTreeMap::new();
    for device in &published {
        match problem.holders.get(device).map(Vec::as_slice).unwrap_or_default() {
            [] => by_holder.entry(None).or_default().push(device.clone()),
            holders => holders.iter().for_each(|holder| by_holder.entry(Some(holder)).or_default().push(device.clone())),
        }
    }
    if by_holder.len() > 1 {
        edits.extend(by_holder.into_values().map(Edit::Free));
    }
    if !published.is_empty() {
        edits.push(Edit::Free(published.into_iter().collect()));
    }
}

fn selectors(problem: &Problem, edits: &mut Vec<Edit>) {
    let requests = problem.requests();
    for of_class in [false, true] {
        for request in &requests {
            let Some(asked) = problem.asked(request) else { continue };
            let count = if of_class {
                let class = problem.classes.get(asked.class).and_then(|class| class.spec.as_ref());
                class.and_then(|spec| spec.selectors.as_deref()).unwrap_or_default().len()
            } else {
                asked.selectors.len()
            };
            edits.extend((0..count).map(|number| Edit::DropSelector { request: request.clone(), of_class, number }));
        }
    }
}

/// Slices whose node selection does not parse, or cannot be put into an allocation (more than one term).
fn slices_with_bad_nodes(problem: &Problem) -> Vec<String> {
    let bad = |selector: &k8s_openapi::api::core::v1::NodeSelector| {
        selector.node_selector_terms.len() > 1 || ParsedNodeSelector::parse(selector).is_err()
    };
    let is_bad = |slice: &k8s_openapi::api::resource::v1::ResourceSlice| {
        let of_devices = slice.spec.devices.iter().flatten().filter_map(|device| device.node_selector.as_ref());
        slice.spec.node_selector.iter().chain(of_devices).any(bad)
    };
    problem.slices.iter().filter(|slice| is_bad(slice)).filter_map(|slice| slice.metadata.name.clone()).collect()
}
