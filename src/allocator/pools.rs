//! Gathering the pools that a node can reach (section 1 of the notes on upstream's algorithm).

use std::collections::{BTreeMap, HashMap, HashSet};

use k8s_openapi::api::core::v1::Node;

use super::counters::CounterTable;
use super::inventory::{DeviceIx, Inventory, PoolIx, SliceIx};
use crate::model::features::Feature;

/// Place of a candidate in [`NodeView::candidates`].
pub(super) type CandidateIx = usize;

/// What a node sees.
#[derive(Debug, Default)]
pub(super) struct NodeView {
    /// The pools in the order in which they are searched.
    pub(super) pools: Vec<PoolView>,
    /// The devices of all usable pools in the order in which they are tried.
    pub(super) candidates: Vec<Candidate>,
}

/// A device that the node can reach, in a usable pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) device: DeviceIx,
    /// Place of its pool in [`NodeView::pools`].
    pub(super) pool: usize,
}

/// A pool as the node sees it.
#[derive(Debug)]
pub(super) struct PoolView {
    pub(super) pool: PoolIx,
    pub(super) status: PoolStatus,
    /// Slices with devices for the node, by slice name.
    targeting: Vec<SliceIx>,
    /// The counters of the pool, where any device consumes some.
    pub(super) counters: Option<CounterTable>,
}

/// Whether devices of a pool can be allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PoolStatus {
    Usable,
    /// Slices are missing, or there are too many.
    Incomplete,
    /// The pool contradicts itself.
    Invalid(String),
}

impl NodeView {
    /// Gathers the pools. An error is fatal and complete but for its prefix.
    pub(super) fn gather(inventory: &Inventory, node: &Node) -> Result<Self, String> {
        let mut kept: BTreeMap<PoolIx, Vec<SliceIx>> = BTreeMap::new();
        let own = node.metadata.name.as_ref().and_then(|name| inventory.local.get(name)).map(Vec::as_slice).unwrap_or_default();
        for &number in own.iter().chain(&inventory.global) {
            let slice = &inventory.slices[number];
            if !slice.visible || !inventory.reaches(slice, node)? {
                continue;
            }
            let slices = kept.entry(slice.pool).or_default();
            let generation = slice.spec().pool.generation;
            let newest = slices.first().map(|&first| inventory.slices[first].spec().pool.generation);
            match newest {
                Some(newest) if generation < newest => continue,
                Some(newest) if generation > newest => slices.clear(),
                _ => {}
            }
            slices.push(number);
        }
        let mut pools: Vec<PoolView> = kept.into_iter().filter_map(|(pool, slices)| build(inventory, pool, slices)).collect();
        // Simpler devices are preferred to those with binding conditions. The sort is stable.
        pools.sort_by_key(|pool| pool.targeting.iter().any(|&slice| inventory.slices[slice].binding_conditions));
        let candidates = pools
            .iter()
            .enumerate()
            .flat_map(|(place, pool)| pool.targeting.iter().map(move |slice| (place, *slice)))
            .flat_map(|(pool, slice)| inventory.slices[slice].device_numbers().map(move |device| Candidate { device, pool }))
            .collect();
        Ok(Self { pools, candidates })
    }
}

/// Checks what was kept of a pool; `None` if a newer generation is on its way.
fn build(inventory: &Inventory, pool: PoolIx, mut kept: Vec<SliceIx>) -> Option<PoolView> {
    let spec = inventory.slices[*kept.first()?].spec();
    let mut elsewhere = Vec::new();
    let unusable = |status| Some(PoolView { pool, status, targeting: Vec::new(), counters: None });
    if kept.len() as i64 != spec.pool.resource_slice_count {
        let mut all = Vec::new();
        for &number in &inventory.pools[pool].slices {
            let slice = &inventory.slices[number];
            match slice.spec().pool.generation.cmp(&spec.pool.generation) {
                std::cmp::Ordering::Greater => return None,
                std::cmp::Ordering::Equal if slice.counted => all.push(number),
                _ => {}
            }
        }
        if all.len() as i64 != spec.pool.resource_slice_count {
            return unusable(PoolStatus::Incomplete);
        }
        let names: HashSet<&str> = kept.iter().map(|&slice| inventory.slices[slice].name()).collect();
        elsewhere = all;
        elsewhere.retain(|&slice| !names.contains(inventory.slices[slice].name()));
    }
    kept.sort_by(|&a, &b| inventory.slices[a].name().cmp(inventory.slices[b].name()));
    let partitions = inventory.features.has(Feature::PartitionableDevices);
    let is_counter = |slice: &SliceIx| partitions && inventory.slices[*slice].has_shared_counters();
    let (mut counter_slices, targeting): (Vec<SliceIx>, Vec<SliceIx>) = kept.into_iter().partition(is_counter);
    let (more_counters, elsewhere): (Vec<SliceIx>, Vec<SliceIx>) = elsewhere.into_iter().partition(is_counter);
    counter_slices.extend(more_counters);

    if let Some(name) = duplicate(inventory, &targeting) {
        return unusable(PoolStatus::Invalid(format!("duplicate device name {name}")));
    }
    let consumes = |slices: &[SliceIx]| slices.iter().any(|&slice| inventory.slices[slice].consumes_counters);
    let needs_counters = partitions && (!counter_slices.is_empty() || consumes(&targeting) || consumes(&elsewhere));
    let counters = match needs_counters.then(|| CounterTable::new(inventory, &counter_slices, &targeting, &elsewhere)).transpose() {
        Ok(counters) => counters,
        Err(reason) => return unusable(PoolStatus::Invalid(reason)),
    };
    Some(PoolView { pool, status: PoolStatus::Usable, targeting, counters })
}

fn duplicate<'a>(inventory: &'a Inventory, slices: &[SliceIx]) -> Option<&'a str> {
    let devices = slices.iter().flat_map(|&slice| inventory.slices[slice].device_numbers());
    let mut seen = HashMap::new();
    devices
        .map(|device| (inventory.devices[device].name, device))
        .find_map(|(name, device)| seen.insert(name, device).map(|_| inventory.device(device).name.as_str()))
}
