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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::resource::v1::ResourceSlice;
    use serde_json::json;

    use super::*;
    use crate::allocator::testing::{devices, node, slice};
    use crate::model::features::Features;

    /// The pools in order, each with its devices or what is wrong with it.
    fn pools_with(features: Features, slices: &[Arc<ResourceSlice>]) -> String {
        let inventory = Inventory::new(features, slices);
        let view = match NodeView::gather(&inventory, &node()) {
            Ok(view) => view,
            Err(error) => return error,
        };
        let describe = |(place, pool): (usize, &PoolView)| {
            let devices: Vec<&str> = view
                .candidates
                .iter()
                .filter(|candidate| candidate.pool == place)
                .map(|candidate| inventory.device(candidate.device).name.as_str())
                .collect();
            let what = match &pool.status {
                PoolStatus::Usable => devices.join(" "),
                PoolStatus::Incomplete => "incomplete".to_owned(),
                PoolStatus::Invalid(reason) => reason.clone(),
            };
            format!("{}: {what}", inventory.pools[pool.pool].id.pool)
        };
        view.pools.iter().enumerate().map(describe).collect::<Vec<_>>().join("; ")
    }

    fn pools(slices: &[Arc<ResourceSlice>]) -> String {
        pools_with(Features::latest(), slices)
    }

    #[test]
    fn slices_by_name_and_pools_by_name_with_binding_conditions_last() {
        let binding = json!({"devices": [{"name": "x", "bindingConditions": []}]});
        let slices = [
            slice("s2", "b", 1, 2, &devices(&["b2"])),
            slice("s1", "b", 1, 2, &devices(&["b1", "b0"])),
            slice("s", "a", 1, 1, &binding),
            slice("s", "c", 1, 1, &devices(&["c0"])),
        ];
        assert_eq!(pools(&slices), "b: b1 b0 b2; c: c0; a: x");
    }

    #[test]
    fn generations_and_completeness() {
        let elsewhere = json!({"nodeName": "n2", "devices": [{"name": "far"}]});
        let old = slice("s1", "p", 1, 1, &devices(&["old"]));
        let new = slice("s2", "p", 2, 1, &devices(&["new"]));
        assert_eq!(pools(&[old.clone(), new.clone()]), "p: new", "the newer replaces the older");
        assert_eq!(pools(&[new, old.clone()]), "p: new");
        let half = slice("s1", "p", 1, 2, &devices(&["here"]));
        assert_eq!(pools(std::slice::from_ref(&half)), "p: incomplete");
        assert_eq!(pools(&[half.clone(), slice("s2", "p", 1, 2, &elsewhere)]), "p: here", "slices of other nodes count");
        assert_eq!(pools(&[half, slice("s2", "p", 2, 1, &elsewhere)]), "", "a newer generation is on its way");
        assert_eq!(pools(&[old.clone(), slice("s3", "p", 2, 1, &elsewhere)]), "p: old", "nobody looks further when the count is right");
        assert_eq!(pools(&[old, slice("s2", "p", 1, 1, &devices(&["b"]))]), "p: incomplete", "too many");
    }

    #[test]
    fn contradictions() {
        let sets = |name: &str| json!({"sharedCounters": [{"name": name, "counters": {"c": {"value": "1"}}}]});
        let consumes = |set: &str, counter: &str| json!({"devices": [{"name": "x", "consumesCounters": [{"counterSet": set, "counters": {counter: {"value": "1"}}}]}]});
        let twice = slice("s", "p", 1, 1, &devices(&["x", "x"]));
        assert_eq!(pools(&[twice]), "p: duplicate device name x");
        for (set, counter, expected) in [
            ("set", "c", "p: x"),
            ("none", "c", "p: counter set none not found"),
            ("set", "z", "p: counter z not found in counter set set"),
        ] {
            let slices = [slice("a", "p", 1, 2, &sets("set")), slice("b", "p", 1, 2, &consumes(set, counter))];
            assert_eq!(pools(&slices), expected);
        }
        let slices = [slice("a", "p", 1, 2, &sets("set")), slice("b", "p", 1, 2, &sets("set"))];
        assert_eq!(pools(&slices), "p: duplicate counter set name set");
        assert_eq!(pools_with(Features::none(), &slices), "", "without partitions slices with counters are not looked at");
    }

    #[test]
    fn which_slices_reach_a_node() {
        let selector =
            |zone: &str| json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]});
        for (place, expected) in [
            (json!({"allNodes": true, "devices": [{"name": "x"}]}), "p: x"),
            (json!({"nodeSelector": selector("a"), "devices": [{"name": "x"}]}), "p: x"),
            (json!({"nodeSelector": selector("b"), "devices": [{"name": "x"}]}), ""),
            (json!({"allNodes": false, "devices": [{"name": "x"}]}), ""),
            (
                json!({"perDeviceNodeSelection": true, "devices": [{"name": "x", "nodeName": "n2"}, {"name": "y", "allNodes": true}]}),
                "p: x y",
            ),
            (json!({"perDeviceNodeSelection": true, "devices": [{"name": "x", "nodeName": "n2"}]}), ""),
        ] {
            assert_eq!(pools(&[slice("s", "p", 1, 1, &place)]), expected, "{place}");
        }
        let bad = json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Near"}]}]}});
        let error = pools(&[slice("s", "p", 1, 1, &bad)]);
        assert!(error.starts_with("failed to perform node selection for slice s: failed to parse node selector {"), "{error}");
        assert!(error.contains("nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: \"Near\""), "{error}");
    }

    #[test]
    fn slices_with_unknown_compatibility_groups_make_the_pool_incomplete() {
        let groups =
            json!({"devices": [{"name": "x", "consumesCounters": [{"counterSet": "s", "compatibilityGroups": ["g"], "counters": {}}]}]});
        let slices = [slice("a", "p", 1, 2, &groups), slice("b", "p", 1, 2, &devices(&["y"]))];
        assert_eq!(pools(&slices), "p: incomplete");
    }
}
