//! Shared counters of partitionable devices, and the compatibility groups on them (sections 6 and 8).

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::resource::v1::Device;

use super::inventory::{DeviceIx, Inventory, SliceIx};
use super::usage::Usage;
use crate::model::features::Feature;
use crate::model::quantity::Quantity;

/// The counters of a pool and what its devices consume of them, on any node.
#[derive(Debug, Default)]
pub(super) struct CounterTable {
    totals: Vec<Quantity>,
    sets: usize,
    consumption: HashMap<DeviceIx, Consumption>,
    /// The devices that consume counters, those for the node first.
    order: Vec<DeviceIx>,
}

/// What a device takes while it is allocated.
#[derive(Debug, Default)]
struct Consumption {
    /// Counter and amount.
    amounts: Vec<(usize, Quantity)>,
    /// Counter set and the groups that the device declares there.
    groups: Vec<(usize, Vec<String>)>,
}

struct Set<'a> {
    number: usize,
    counters: BTreeMap<&'a str, usize>,
}

impl CounterTable {
    /// Reads the pool's counter sets and what its devices consume. The error says why the pool is invalid.
    pub(super) fn new(
        inventory: &Inventory,
        counter_slices: &[SliceIx],
        targeting: &[SliceIx],
        elsewhere: &[SliceIx],
    ) -> Result<Self, String> {
        let mut table = Self::default();
        let mut sets: HashMap<&str, Set<'_>> = HashMap::new();
        for &slice in counter_slices {
            for set in inventory.slices[slice].spec().shared_counters.as_deref().unwrap_or_default() {
                let mut counters = BTreeMap::new();
                for (name, counter) in &set.counters {
                    counters.insert(name.as_str(), table.totals.len());
                    table.totals.push(quantity(&counter.value.0)?);
                }
                if sets.insert(&set.name, Set { number: table.sets, counters }).is_some() {
                    return Err(format!("duplicate counter set name {}", set.name));
                }
                table.sets += 1;
            }
        }
        for &slice in targeting.iter().chain(elsewhere) {
            let slice = &inventory.slices[slice];
            if !slice.consumes_counters {
                continue;
            }
            for (device, number) in slice.devices().iter().zip(slice.device_numbers()) {
                let consumption = Consumption::read(device, &sets)?;
                if !consumption.groups.is_empty() {
                    table.consumption.insert(number, consumption);
                    table.order.push(number);
                }
            }
        }
        Ok(table)
    }

    /// The counters as they are before a search: what is allocated already is taken off, wherever it is in use.
    pub(super) fn open(&self, inventory: &Inventory, usage: &Usage) -> CounterState {
        let mut state = CounterState { available: self.totals.clone(), groups: vec![Groups::default(); self.sets], overdrawn: false };
        let allocated = self.order.iter().filter(|device| usage.is_allocated(inventory.devices[**device].name));
        for consumption in allocated.filter_map(|device| self.consumption.get(device)) {
            for (counter, amount) in &consumption.amounts {
                state.available[*counter] = state.available[*counter].sub(amount);
            }
            for (set, groups) in &consumption.groups {
                state.groups[*set] = state.groups[*set].with(groups);
            }
        }
        state.overdrawn = state.available.iter().any(|available| available.sign() < 0);
        state
    }
}

impl Consumption {
    fn read(device: &Device, sets: &HashMap<&str, Set<'_>>) -> Result<Self, String> {
        let mut consumption = Self::default();
        for entry in device.consumes_counters.as_deref().unwrap_or_default() {
            let set = sets.get(entry.counter_set.as_str()).ok_or_else(|| format!("counter set {} not found", entry.counter_set))?;
            for (name, counter) in &entry.counters {
                let number = set
                    .counters
                    .get(name.as_str())
                    .ok_or_else(|| format!("counter {name} not found in counter set {}", entry.counter_set))?;
                consumption.amounts.push((*number, quantity(&counter.value.0)?));
            }
            consumption.groups.push((set.number, entry.compatibility_groups.clone().unwrap_or_default()));
        }
        Ok(consumption)
    }
}

fn quantity(text: &str) -> Result<Quantity, String> {
    Quantity::parse(text).map_err(|error| format!("counter value {text:?}: {error}"))
}

/// What is left of a pool's counters in one attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CounterState {
    available: Vec<Quantity>,
    groups: Vec<Groups>,
    /// More was taken before the search than there is: nothing that consumes counters fits in the pool any more.
    overdrawn: bool,
}

/// What undoes a [`CounterState::take`].
#[derive(Debug)]
pub(super) struct Taken {
    groups: Vec<(usize, Groups)>,
}

/// Why counters refuse a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CounterRefusal {
    Groups,
    Counters,
}

impl CounterState {
    /// Takes what the device consumes, or leaves everything as it is.
    pub(super) fn take(&mut self, table: &CounterTable, device: DeviceIx, inventory: &Inventory) -> Result<Taken, CounterRefusal> {
        let mut taken = Taken { groups: Vec::new() };
        let Some(consumption) = table.consumption.get(&device) else { return Ok(taken) };
        if inventory.features.has(Feature::DeviceCompatibilityGroups) {
            for (set, groups) in &consumption.groups {
                if !self.groups[*set].admits(groups) {
                    self.put_back_groups(taken);
                    return Err(CounterRefusal::Groups);
                }
                taken.groups.push((*set, self.groups[*set].clone()));
                self.groups[*set] = self.groups[*set].with(groups);
            }
        }
        for (counter, amount) in &consumption.amounts {
            self.available[*counter] = self.available[*counter].sub(amount);
        }
        if self.overdrawn || consumption.amounts.iter().any(|(counter, _)| self.available[*counter].sign() < 0) {
            self.put_back(table, device, taken);
            return Err(CounterRefusal::Counters);
        }
        Ok(taken)
    }

    /// Undoes the latest `take` that was not undone yet.
    pub(super) fn put_back(&mut self, table: &CounterTable, device: DeviceIx, taken: Taken) {
        if let Some(consumption) = table.consumption.get(&device) {
            for (counter, amount) in &consumption.amounts {
                self.available[*counter] = self.available[*counter].add(amount);
            }
        }
        self.put_back_groups(taken);
    }

    fn put_back_groups(&mut self, taken: Taken) {
        for (set, groups) in taken.groups.into_iter().rev() {
            self.groups[set] = groups;
        }
    }
}

/// The groups that all devices on a counter set have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Groups {
    /// No device is on the set.
    #[default]
    Free,
    /// The devices on the set declare no groups: only more of these go with them.
    Ungrouped,
    /// The common groups.
    Common(Vec<String>),
}

impl Groups {
    fn admits(&self, groups: &[String]) -> bool {
        match self {
            Self::Free => true,
            Self::Ungrouped => groups.is_empty(),
            Self::Common(common) => common.iter().any(|group| groups.contains(group)),
        }
    }

    /// With one more device. Where it was not admitted, which changed slices can bring about, nothing changes unless
    /// both declare groups.
    fn with(&self, groups: &[String]) -> Self {
        match self {
            Self::Free if groups.is_empty() => Self::Ungrouped,
            Self::Free => Self::Common(groups.to_vec()),
            Self::Common(common) if !groups.is_empty() => {
                Self::Common(common.iter().filter(|group| groups.contains(group)).cloned().collect())
            }
            unchanged => unchanged.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_must_have_one_in_common() {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        // The groups of devices in the order of placing; whether each is admitted.
        for (devices, admitted) in [
            (vec![vec![], vec![]], vec![true, true]),
            (vec![vec![], vec!["mig"]], vec![true, false]),
            (vec![vec!["mig"], vec![]], vec![true, false]),
            (vec![vec!["mig", "vgpu"], vec!["vgpu"], vec!["mig"]], vec![true, true, false]),
            (vec![vec!["a"], vec!["b"]], vec![true, false]),
        ] {
            let mut groups = Groups::default();
            let mut seen = Vec::new();
            for device in &devices {
                let device = list(device);
                let admits = groups.admits(&device);
                seen.push(admits);
                if admits {
                    groups = groups.with(&device);
                }
            }
            assert_eq!(seen, admitted, "{devices:?}");
        }
    }
}
