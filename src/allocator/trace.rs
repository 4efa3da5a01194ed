//! Why devices were not taken, for `explain`.

use std::collections::HashSet;

use super::counters::CounterRefusal;
use super::inventory::{DeviceIx, Inventory};
use super::requests::Choice;
use crate::model::ids::DeviceId;

/// Why a device was not taken for a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Some claim has it, or another request in the same attempt.
    InUse,
    /// It has binding conditions and their gates are off.
    BindingConditions,
    /// A selector is false.
    Selector {
        /// The selector is the device class's, else the request's.
        of_class: bool,
        /// Its place in the list.
        number: usize,
    },
    /// The device is not for this node.
    Node,
    /// It has not enough capacity left, or its policy forbids the amount.
    Capacity,
    /// The node cannot go without the driver's node operations.
    NodeOperations,
    /// Shared counters are used up, or partitions are off.
    Counters,
    /// Devices on the same counters are of an incompatible group.
    CompatibilityGroups,
    /// A taint is not tolerated.
    Taint {
        /// The taint's key.
        key: String,
    },
    /// A constraint of the claim would not hold.
    Constraint {
        /// Its place in the list.
        number: usize,
    },
}

impl From<CounterRefusal> for Reason {
    fn from(refusal: CounterRefusal) -> Self {
        match refusal {
            CounterRefusal::Groups => Self::CompatibilityGroups,
            CounterRefusal::Counters => Self::Counters,
        }
    }
}

/// A device that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rejection {
    /// Place of the claim in the list.
    pub claim: usize,
    /// The request, or request and alternative.
    pub request: String,
    /// The device.
    pub device: DeviceId,
    /// Why.
    pub reason: Reason,
}

/// The rejections of one call in the order in which they first came up.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Each once, however often the search came upon it.
    pub rejections: Vec<Rejection>,
    seen: HashSet<Rejection>,
}

impl Trace {
    pub(super) fn add(&mut self, inventory: &Inventory, choice: &Choice<'_>, device: DeviceIx, reason: Reason) {
        let id = DeviceId {
            pool: inventory.pools[inventory.slice_of(device).pool].id.clone(),
            device: inventory.device(device).name.as_str().into(),
        };
        let rejection = Rejection { claim: choice.claim, request: choice.full_name(), device: id, reason };
        if self.seen.insert(rejection.clone()) {
            self.rejections.push(rejection);
        }
    }
}
