//! The allocated state in the inventory's numbers.

use std::collections::HashMap;

use super::inventory::{Inventory, NameIx};
use super::state::{AllocatedState, ConsumedCapacity};
use crate::model::ids::DeviceId;

/// What is allocated of the devices that the inventory knows. Names that are in no slice matter to nobody.
#[derive(Debug, Default)]
pub(super) struct Usage {
    exclusive: Vec<u64>,
    /// Devices with shares, and what these consume together.
    shares: HashMap<NameIx, ConsumedCapacity>,
}

impl Usage {
    pub(super) fn new(inventory: &Inventory, state: &AllocatedState) -> Self {
        let mut usage = Self { exclusive: vec![0; inventory.names.len().div_ceil(64)], shares: HashMap::new() };
        for id in state.devices.iter().chain(state.shared.keys()).chain(state.aggregated_capacity.keys()) {
            usage.refresh(inventory, state, id);
        }
        usage
    }

    /// Takes over what the state says of a device.
    pub(super) fn refresh(&mut self, inventory: &Inventory, state: &AllocatedState, id: &DeviceId) {
        let Some(&name) = inventory.names.get(id) else { return };
        if let Some(word) = self.exclusive.get_mut(name / 64) {
            let bit = 1 << (name % 64);
            *word = if state.devices.contains(id) { *word | bit } else { *word & !bit };
        }
        match state.aggregated_capacity.get(id) {
            Some(consumed) => {
                self.shares.insert(name, consumed.clone());
            }
            None if state.shared.contains_key(id) => {
                self.shares.insert(name, ConsumedCapacity::new());
            }
            None => {
                self.shares.remove(&name);
            }
        }
    }

    /// Some claim has the device for itself.
    pub(super) fn is_exclusive(&self, name: NameIx) -> bool {
        self.exclusive.get(name / 64).is_some_and(|word| word >> (name % 64) & 1 == 1)
    }

    /// Some claim has a share of the device, or capacity of it counts as consumed.
    pub(super) fn is_shared(&self, name: NameIx) -> bool {
        self.shares.contains_key(&name)
    }

    /// The device counts as allocated.
    pub(super) fn is_allocated(&self, name: NameIx) -> bool {
        self.is_exclusive(name) || self.is_shared(name)
    }

    /// What shares of the device consume.
    pub(super) fn consumed(&self, name: NameIx) -> Option<&ConsumedCapacity> {
        self.shares.get(&name)
    }
}
