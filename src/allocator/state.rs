//! What is allocated already, collected from claims (section 12 of the notes on upstream's algorithm).

use std::collections::{BTreeMap, HashMap, HashSet};

use k8s_openapi::api::resource::v1::{AllocationResult, DeviceRequestAllocationResult, ResourceClaim};

use crate::model::features::{Feature, Features};
use crate::model::ids::DeviceId;
use crate::model::quantity::Quantity;

/// Amounts by capacity name, as a device's consumers hold them together.
pub type ConsumedCapacity = BTreeMap<String, Quantity>;

/// Which devices are taken already, and how.
#[derive(Clone, Debug, Default)]
pub struct AllocatedState {
    /// Devices that one claim has for itself.
    pub devices: HashSet<DeviceId>,
    /// The shares that claims have of devices which can be allocated several times, by share ID.
    pub shared: HashMap<DeviceId, HashSet<String>>,
    /// What the shares of a device consume together. A device may be here without being in `shared`.
    pub aggregated_capacity: HashMap<DeviceId, ConsumedCapacity>,
}

impl AllocatedState {
    /// What the claims with an allocation hold. Results with `adminAccess` hold nothing. Shared devices are told apart
    /// from exclusive ones only with the gate `DRAConsumableCapacity`.
    #[must_use]
    pub fn from_claims<'a>(claims: impl Iterator<Item = &'a ResourceClaim>, features: &Features) -> Self {
        let mut state = Self::default();
        for claim in claims {
            if let Some(allocation) = claim.status.as_ref().and_then(|status| status.allocation.as_ref()) {
                state.add(allocation, *features);
            }
        }
        state
    }

    /// Takes what an allocation holds, for instance one in flight that the API does not show yet.
    pub fn add(&mut self, allocation: &AllocationResult, features: Features) {
        for result in held(allocation) {
            let id = DeviceId::new(&result.driver, &result.pool, &result.device);
            let Some(share) = share(result, features) else {
                self.devices.insert(id);
                continue;
            };
            if let Some(consumed) = &result.consumed_capacity {
                let total = self.aggregated_capacity.entry(id.clone()).or_default();
                for (name, amount) in consumed {
                    let Ok(amount) = Quantity::parse(&amount.0) else { continue };
                    let sum = total.get(name).map_or_else(|| amount.clone(), |held| held.add(&amount));
                    total.insert(name.clone(), sum);
                }
            }
            self.shared.entry(id).or_default().insert(share.to_owned());
        }
    }

    /// Gives back what an allocation held.
    pub fn remove(&mut self, allocation: &AllocationResult, features: Features) {
        for result in held(allocation) {
            let id = DeviceId::new(&result.driver, &result.pool, &result.device);
            let Some(share) = share(result, features) else {
                self.devices.remove(&id);
                continue;
            };
            if let (Some(consumed), Some(total)) = (&result.consumed_capacity, self.aggregated_capacity.get_mut(&id)) {
                for (name, amount) in consumed {
                    if let (Some(held), Ok(amount)) = (total.get_mut(name), Quantity::parse(&amount.0)) {
                        *held = held.sub(&amount);
                    }
                }
                if total.values().all(Quantity::is_zero) {
                    self.aggregated_capacity.remove(&id);
                }
            }
            if let Some(shares) = self.shared.get_mut(&id) {
                shares.remove(share);
                if shares.is_empty() {
                    self.shared.remove(&id);
                }
            }
        }
    }

    /// Whether anybody has the device or a share of it.
    #[must_use]
    pub fn is_allocated(&self, id: &DeviceId) -> bool {
        self.devices.contains(id) || self.shared.contains_key(id) || self.aggregated_capacity.contains_key(id)
    }
}

/// The devices that an allocation holds.
pub(super) fn held_devices(allocation: &AllocationResult) -> impl Iterator<Item = DeviceId> {
    held(allocation).map(|result| DeviceId::new(&result.driver, &result.pool, &result.device))
}

fn held(allocation: &AllocationResult) -> impl Iterator<Item = &DeviceRequestAllocationResult> {
    let results = allocation.devices.as_ref().and_then(|devices| devices.results.as_deref()).unwrap_or_default();
    results.iter().filter(|result| result.admin_access != Some(true))
}

fn share(result: &DeviceRequestAllocationResult, features: Features) -> Option<&str> {
    result.share_id.as_deref().filter(|_| features.has(Feature::ConsumableCapacity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(results: &serde_json::Value) -> ResourceClaim {
        serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {}, "status": {"allocation": {"devices": {"results": results}}}}))
            .unwrap()
    }

    fn claims() -> Vec<ResourceClaim> {
        let result = |device: &str| json!({"request": "r", "driver": "d", "pool": "p", "device": device});
        let mut admin = result("admin");
        admin["adminAccess"] = json!(true);
        let share = |id: &str, memory: &str| {
            let mut shared = result("shared");
            shared["shareID"] = json!(id);
            shared["consumedCapacity"] = json!({"memory": memory});
            shared
        };
        vec![claim(&json!([result("own"), admin])), claim(&json!([share("s1", "1Gi"), share("s2", "512Mi")])), ResourceClaim::default()]
    }

    #[test]
    fn shares_add_up_and_admin_access_holds_nothing() {
        let state = AllocatedState::from_claims(claims().iter(), &Features::latest());
        let shared = DeviceId::new("d", "p", "shared");
        assert_eq!(state.devices, HashSet::from([DeviceId::new("d", "p", "own")]));
        assert_eq!(state.shared[&shared].len(), 2);
        assert_eq!(state.aggregated_capacity[&shared]["memory"], Quantity::parse("1536Mi").unwrap());
        assert!(!state.is_allocated(&DeviceId::new("d", "p", "admin")));
    }

    #[test]
    fn without_the_gate_shares_are_exclusive() {
        let state = AllocatedState::from_claims(claims().iter(), &Features::latest().without(Feature::ConsumableCapacity));
        assert_eq!(state.devices.len(), 2);
        assert!(state.shared.is_empty() && state.aggregated_capacity.is_empty());
    }

    #[test]
    fn removing_what_was_added_leaves_nothing() {
        let features = Features::latest();
        let claims = claims();
        let mut state = AllocatedState::from_claims(claims.iter(), &features);
        for claim in &claims {
            if let Some(allocation) = claim.status.as_ref().and_then(|status| status.allocation.as_ref()) {
                state.remove(allocation, features);
            }
        }
        assert!(state.devices.is_empty() && state.shared.is_empty() && state.aggregated_capacity.is_empty());
    }
}
