//! What to change so that the published slices become what they should be. Decided purely.
//!
//! The rules of the pool's generation are those of upstream's helper
//! (`k8s.io/dynamic-resource-allocation/resourceslice`, `syncPool`): it stays when at most one update is
//! needed, because that is atomic anyway, and grows by one when a slice is new or several change; slices of
//! an older generation are obsolete.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, ResourcePool, ResourceSlice, ResourceSliceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::pool::PoolIdentity;

/// The writes that are needed, in this order.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The pool's generation after it.
    pub(super) generation: i64,
    /// Slices to delete.
    pub(super) delete: Vec<ResourceSlice>,
    /// Slices to update, with their index in the pool and in the state they should get.
    pub(super) update: Vec<(usize, ResourceSlice)>,
    /// Slices to create, with their index in the pool; without owner.
    pub(super) create: Vec<(usize, ResourceSlice)>,
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.delete.is_empty() && self.update.is_empty() && self.create.is_empty()
    }
}

/// Plans for the slices of one driver on one node; `existing` by name, `desired` the devices of each slice.
pub(super) fn plan(identity: &PoolIdentity, existing: &BTreeMap<String, ResourceSlice>, desired: &[Vec<Device>]) -> Plan {
    let count = desired.len();
    let (ours, others): (Vec<_>, Vec<_>) = existing.values().partition(|slice| slice.spec.pool.name == identity.pool);
    let generation = ours.iter().map(|slice| slice.spec.pool.generation).max().unwrap_or(0);
    let mut plan = Plan { generation, delete: others.into_iter().cloned().collect(), ..Plan::default() };
    let mut current: Vec<Option<&ResourceSlice>> = vec![None; count];
    for slice in ours {
        let index = slice.metadata.name.as_deref().and_then(|name| identity.index_of(name, count));
        match index.and_then(|index| current.get_mut(index)) {
            Some(place @ None) if slice.spec.pool.generation == generation => *place = Some(slice),
            _ => plan.delete.push(slice.clone()),
        }
    }
    let wanted = |generation: i64, devices: &[Device]| ResourceSliceSpec {
        driver: identity.driver.clone(),
        node_name: Some(identity.node.clone()),
        pool: ResourcePool { name: identity.pool.clone(), generation, resource_slice_count: i64::try_from(count).unwrap_or(i64::MAX) },
        devices: Some(devices.to_vec()),
        ..Default::default()
    };
    let pairs = || current.iter().zip(desired).enumerate();
    let missing = current.iter().any(Option::is_none);
    let changed =
        pairs().filter(|(_, (slice, devices))| slice.is_some_and(|slice| !same(&slice.spec, &wanted(generation, devices)))).count();
    let bumped = missing || changed > 1;
    if bumped {
        plan.generation = generation.saturating_add(1);
    }
    for (index, (slice, devices)) in pairs() {
        let mut spec = wanted(plan.generation, devices);
        match slice {
            None => {
                let metadata = ObjectMeta { generate_name: Some(identity.generate_name(index, count)), ..Default::default() };
                plan.create.push((index, ResourceSlice { metadata, spec }));
            }
            Some(slice) if bumped || !same(&slice.spec, &spec) => {
                keep_taint_times(&slice.spec, &mut spec);
                plan.update.push((index, ResourceSlice { metadata: slice.metadata.clone(), spec }));
            }
            Some(_) => {}
        }
    }
    plan
}

/// Whether what is published is what was wanted. Times that the server gave to taints are no difference.
pub(super) fn same(published: &ResourceSliceSpec, wanted: &ResourceSliceSpec) -> bool {
    let mut wanted = wanted.clone();
    keep_taint_times(published, &mut wanted);
    let devices = |spec: &ResourceSliceSpec| spec.devices.clone().unwrap_or_default();
    devices(published) == devices(&wanted)
        && ResourceSliceSpec { devices: None, ..published.clone() } == ResourceSliceSpec { devices: None, ..wanted.clone() }
}

/// Takes over the times that the server gave to taints that were there before.
fn keep_taint_times(from: &ResourceSliceSpec, to: &mut ResourceSliceSpec) {
    for device in to.devices.iter_mut().flatten() {
        let Some(old) = from.devices.iter().flatten().find(|old| old.name == device.name) else { continue };
        for taint in device.taints.iter_mut().flatten().filter(|taint| taint.time_added.is_none()) {
            let same =
                old.taints.iter().flatten().find(|old| old.key == taint.key && old.value == taint.value && old.effect == taint.effect);
            taint.time_added = same.and_then(|old| old.time_added.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::plan;
    use crate::driver::inventory::SliceNames;
    use crate::driver::publish::pool::PoolIdentity;
    use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
    use std::collections::BTreeMap;

    fn identity() -> PoolIdentity {
        PoolIdentity { driver: "d".to_owned(), node: "n".to_owned(), pool: "n".to_owned(), names: SliceNames::NodeFirst }
    }

    fn pool(sizes: &[usize]) -> Vec<Vec<Device>> {
        let device = |slice: usize, index: usize| Device { name: format!("gpu-{slice}-{index}"), ..Default::default() };
        sizes.iter().enumerate().map(|(slice, size)| (0..*size).map(|index| device(slice, index)).collect()).collect()
    }

    /// Carries a plan out on a map, as an API server would.
    fn apply(existing: &mut BTreeMap<String, ResourceSlice>, desired: &[Vec<Device>]) -> (usize, usize, usize, i64) {
        let plan = plan(&identity(), existing, desired);
        for slice in &plan.delete {
            existing.remove(slice.metadata.name.as_deref().unwrap());
        }
        for (_, slice) in &plan.update {
            existing.insert(slice.metadata.name.clone().unwrap(), slice.clone());
        }
        for (at, (_, slice)) in plan.create.iter().enumerate() {
            let mut slice = slice.clone();
            let name = format!("{}r{at}", slice.metadata.generate_name.clone().unwrap());
            slice.metadata.name = Some(name.clone());
            existing.insert(name, slice);
        }
        (plan.delete.len(), plan.update.len(), plan.create.len(), plan.generation)
    }

    #[test]
    fn generations_follow_upstreams_rules() {
        let mut slices = BTreeMap::new();
        assert_eq!(apply(&mut slices, &pool(&[2])), (0, 0, 1, 1), "the first slice");
        assert_eq!(apply(&mut slices, &pool(&[2])), (0, 0, 0, 1), "nothing to do");
        assert_eq!(apply(&mut slices, &pool(&[3])), (0, 1, 0, 1), "one update is atomic");
        assert_eq!(apply(&mut slices, &pool(&[3, 1])), (1, 0, 2, 2), "two slices have other names than one");
        assert_eq!(apply(&mut slices, &pool(&[3, 2])), (0, 1, 0, 2), "one of two changes");
        assert_eq!(apply(&mut slices, &pool(&[2, 1])), (0, 2, 0, 3), "both change");
        assert_eq!(apply(&mut slices, &pool(&[2, 1, 1])), (0, 2, 1, 4), "one more");
        let first = slices.keys().next().unwrap().clone();
        slices.remove(&first);
        assert_eq!(apply(&mut slices, &pool(&[2, 1, 1])), (0, 2, 1, 5), "one was deleted by somebody");
        slices.clear();
        assert_eq!(apply(&mut slices, &pool(&[2])), (0, 0, 1, 1), "all were deleted: generations begin again");
    }

    #[test]
    fn foreign_edits_leftovers_and_doubles_are_repaired() {
        let mut slices = BTreeMap::new();
        apply(&mut slices, &pool(&[2]));
        let (name, good) = slices.iter().next().map(|(name, slice)| (name.clone(), slice.clone())).unwrap();
        let edits: &[fn(&mut ResourceSlice)] = &[
            |slice| slice.spec.devices = None,
            |slice| slice.spec.pool.resource_slice_count = 7,
            |slice| slice.spec.all_nodes = Some(true),
            |slice| slice.spec.devices.as_mut().unwrap().swap(0, 1),
        ];
        for edit in edits {
            edit(slices.get_mut(&name).unwrap());
            assert_eq!(apply(&mut slices, &pool(&[2])), (0, 1, 0, 1));
            assert_eq!(slices[&name], good);
        }
        // A higher generation written by somebody else is kept: consumers have seen it.
        slices.get_mut(&name).unwrap().spec.pool.generation = 9;
        assert_eq!(apply(&mut slices, &pool(&[2])), (0, 0, 0, 9));

        let mut leftover = good.clone();
        leftover.spec.pool.name = "old-pool".to_owned();
        slices.insert("n-d-aaaaa".to_owned(), ResourceSlice { metadata: named("n-d-aaaaa"), ..leftover });
        slices.insert("n-d-zzzzz".to_owned(), ResourceSlice { metadata: named("n-d-zzzzz"), ..slices[&name].clone() });
        slices.insert("strange".to_owned(), ResourceSlice { metadata: named("strange"), ..slices[&name].clone() });
        assert_eq!(apply(&mut slices, &pool(&[2])), (3, 0, 0, 9), "another pool, a double, a strange name");
        assert_eq!(slices.keys().collect::<Vec<_>>(), [&name]);
    }

    fn named(name: &str) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta { name: Some(name.to_owned()), ..Default::default() }
    }

    #[test]
    fn the_servers_taint_times_are_no_change_and_survive_one() {
        let tainted = |value: &str| {
            let device = serde_json::json!({"name": "gpu-0", "taints": [{"key": "k", "value": value, "effect": "NoSchedule"}]});
            vec![vec![serde_json::from_value::<Device>(device).unwrap()]]
        };
        let mut slices = BTreeMap::new();
        apply(&mut slices, &tainted("a"));
        let time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time =
            serde_json::from_value(serde_json::json!("2026-12-01T00:00:00Z")).unwrap();
        let slice = slices.values_mut().next().unwrap();
        slice.spec.devices.as_mut().unwrap()[0].taints.as_mut().unwrap()[0].time_added = Some(time.clone());
        assert_eq!(apply(&mut slices, &tainted("a")), (0, 0, 0, 1));
        let mut more = tainted("a");
        more[0].push(Device { name: "gpu-1".to_owned(), ..Default::default() });
        assert_eq!(apply(&mut slices, &more), (0, 1, 0, 1));
        let slice = slices.values().next().unwrap();
        assert_eq!(slice.spec.devices.as_ref().unwrap()[0].taints.as_ref().unwrap()[0].time_added, Some(time));
    }
}
