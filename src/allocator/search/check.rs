//! What is checked of a candidate before it is placed.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{DeviceTaint, ResourceClaim};

use super::{Search, Stop};
use crate::allocator::inventory::{DeviceIx, Inventory};
use crate::allocator::pools::{CandidateIx, NodeView};
use crate::allocator::requests::{Choice, claim_name};
use crate::allocator::selectors::SelectorError;
use crate::allocator::state::ConsumedCapacity;
use crate::allocator::trace::Reason;
use crate::model::features::Feature;
use crate::model::taint::{blocks_allocation, tolerates};

impl Search<'_, '_> {
    /// Some claim has the device for itself, before or in this attempt.
    pub(super) fn is_in_use(&self, candidate: CandidateIx) -> bool {
        let name = self.inventory.devices[self.view.candidates[candidate].device].name;
        self.allocator.usage.is_exclusive(name) || self.exclusive[candidate / 64] >> (candidate % 64) & 1 == 1
    }

    /// The claim has the device for itself in this attempt.
    pub(super) fn is_in_use_by(&self, candidate: CandidateIx, claim: usize) -> bool {
        self.in_use.get(&candidate).is_some_and(|in_use| in_use.claims.contains(&claim))
    }

    pub(super) fn is_multi(&self, device: DeviceIx) -> bool {
        self.inventory.features.has(Feature::ConsumableCapacity) && self.inventory.device(device).allow_multiple_allocations == Some(true)
    }

    /// What the choice would consume of the candidate; `None` if that is not left.
    pub(super) fn capacity(&self, choice: usize, candidate: CandidateIx) -> Result<Option<ConsumedCapacity>, Stop> {
        let device = self.view.candidates[candidate].device;
        let used = [
            self.allocator.usage.consumed(self.inventory.devices[device].name),
            self.in_use.get(&candidate).map(|in_use| &in_use.consumed).filter(|consumed| !consumed.is_empty()),
        ];
        let fits = fits_capacity(self.inventory, &self.choices[choice], device, used);
        fits.map_err(|error| {
            let choice = &self.choices[choice];
            let claim = claim_name(self.claims[choice.claim].claim);
            let name = self.inventory.full_name(device);
            Stop::Fatal(format!("claim {claim}, request {}: checking capacity for device {name}: {error}", choice.name()))
        })
    }
}

/// Whether class, request and the device's own node selection select the candidate (section 4); the reason if not.
/// Errors are fatal, and complete.
pub(in crate::allocator) fn selectable(
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
pub(in crate::allocator) fn fits_capacity(
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

/// The first taint that keeps the choice from the device.
pub(in crate::allocator) fn untolerated<'a>(inventory: &'a Inventory, choice: &Choice<'_>, device: DeviceIx) -> Option<&'a DeviceTaint> {
    let taints = inventory.device(device).taints.as_deref().unwrap_or_default();
    taints.iter().find(|taint| blocks_allocation(taint) && !choice.tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}
