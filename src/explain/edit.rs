//! Changes of a problem: what is taken out of the way to find a cause, and what is tried as a cure.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{
    Device, DeviceClass, DeviceClassSpec, DeviceRequest, DeviceSelector, DeviceToleration, ExactDeviceRequest, ResourceClaim, ResourceSlice,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::problem::{Problem, RequestRef, is_of, split};
use crate::model::features::Feature;
use crate::model::ids::{DeviceId, PoolId};

/// What stands in the place of a selector that is left out.
const DROPPED: &str = "\u{0}dropped";

/// A change of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Switch a gate on.
    Gate(Feature),
    /// Make a class that selects everything.
    AddClass(String),
    /// Ask for another class.
    UseClass(RequestRef, String),
    /// Make the request one that is well-formed: one device of a class that selects everything.
    MendRequest(RequestRef),
    /// Say that the pool has as many slices as there are.
    CompletePool(PoolId),
    /// Forget newer generations of the pool of which the node sees nothing.
    OldGeneration(PoolId),
    /// Take away what contradicts itself: second devices of a name, unknown counters.
    MendPool(PoolId),
    /// Take the slice away.
    DropSlice(String),
    /// Give back what these devices have given.
    Free(Vec<DeviceId>),
    /// Remove the taints with this key.
    Untaint(String),
    /// Tolerate the taints with this key.
    Tolerate(RequestRef, String),
    /// Leave the constraint out.
    DropConstraint(usize, usize),
    /// Let the constraint be about another attribute.
    ConstrainBy(usize, usize, String),
    /// Let no device of the pool consume counters.
    NoCounters(PoolId),
    /// Let no device be in a compatibility group.
    NoGroups,
    /// Ask for as little as the devices' policies allow.
    LeastCapacity(RequestRef),
    /// Ask for no capacity.
    NoCapacity(RequestRef),
    /// Ask for this much of one capacity.
    Capacity(RequestRef, String, String),
    /// Ask for every device that is wanted to be there for all nodes, in one place.
    HereToo,
    /// Forget that drivers can be skipped.
    WithNodeOperations,
    /// Forget binding conditions.
    NoBindingConditions,
    /// Leave a selector out: of the class, else of the request.
    DropSelector {
        /// Whose.
        request: RequestRef,
        /// The class's, else the request's.
        of_class: bool,
        /// Which one.
        number: usize,
    },
    /// Put another expression in the place of a selector of the request.
    Select(RequestRef, usize, String),
    /// Ask for so many devices.
    Count(RequestRef, i64),
    /// Leave derived attributes out.
    NoDerived(RequestRef),
    /// Ask for no admin access.
    NoAdmin(RequestRef),
    /// Take capacities off the devices.
    PlainDevices,
    /// Add a pool with so many devices that nothing is known of.
    MoreDevices(usize),
}

impl Problem {
    /// Makes a change; selectors that are dropped stay as marks until [`Self::prune`].
    pub(super) fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Gate(feature) => {
                self.features = self.features.with(*feature);
                // Binding conditions need both of their gates.
                if *feature == Feature::DeviceBindingConditions {
                    self.features = self.features.with(Feature::ResourceClaimDeviceStatus);
                }
            }
            Edit::AddClass(name) => {
                self.classes.insert(name.clone(), Arc::new(open_class(name)));
            }
            Edit::UseClass(of, class) => self.change_request(of, |exact| class.clone_into(&mut exact.device_class_name)),
            Edit::MendRequest(of) => self.mend_request(of),
            Edit::CompletePool(pool) => {
                let newest = self.slices.iter().filter(|s| is_of(s, pool)).map(|s| s.spec.pool.generation).max();
                let count = self.slices.iter().filter(|s| is_of(s, pool) && Some(s.spec.pool.generation) == newest).count() as i64;
                self.change_slices(|s| is_of(s, pool), |slice| slice.spec.pool.resource_slice_count = count);
                self.slices.retain(|s| !is_of(s, pool) || Some(s.spec.pool.generation) == newest);
            }
            Edit::OldGeneration(pool) => {
                let name = self.node.metadata.name.clone();
                let here = |s: &Arc<ResourceSlice>| is_of(s, pool) && (s.spec.node_name == name || s.spec.node_name.is_none());
                let seen = self.slices.iter().filter(|s| here(s)).map(|s| s.spec.pool.generation).max();
                self.slices.retain(|s| !is_of(s, pool) || Some(s.spec.pool.generation) == seen);
                self.apply(&Edit::CompletePool(pool.clone()));
            }
            Edit::MendPool(pool) => self.mend_pool(pool),
            Edit::DropSlice(name) => self.slices.retain(|slice| slice.metadata.name.as_deref() != Some(name.as_str())),
            Edit::Free(devices) => {
                for device in devices {
                    self.state.devices.remove(device);
                    self.state.shared.remove(device);
                    self.state.aggregated_capacity.remove(device);
                    self.holders.remove(device);
                }
            }
            Edit::Untaint(key) => self.change_devices(|device| {
                if let Some(taints) = &mut device.taints {
                    taints.retain(|taint| taint.key != *key);
                }
            }),
            Edit::Tolerate(of, key) => {
                let toleration = DeviceToleration { key: Some(key.clone()), operator: Some("Exists".to_owned()), ..Default::default() };
                self.change_request(of, |exact| exact.tolerations.get_or_insert_default().push(toleration.clone()));
            }
            Edit::DropConstraint(claim, number) => {
                self.change_claim(*claim, |claim| {
                    if let Some(constraints) = claim.spec.as_mut().and_then(|s| s.devices.as_mut()).and_then(|d| d.constraints.as_mut())
                        && let Some(constraint) = constraints.get_mut(*number)
                    {
                        // The numbers of the others stay: this one is about no request.
                        *constraint = serde_json::from_value(json!({"requests": ["-"], "matchAttribute": "none/none"})).unwrap_or_default();
                    }
                });
            }
            Edit::ConstrainBy(claim, number, attribute) => self.change_claim(*claim, |claim| {
                let constraints = claim.spec.as_mut().and_then(|s| s.devices.as_mut()).and_then(|d| d.constraints.as_mut());
                if let Some(constraint) = constraints.and_then(|c| c.get_mut(*number)) {
                    let slot = if constraint.match_attribute.is_some() {
                        &mut constraint.match_attribute
                    } else {
                        &mut constraint.distinct_attribute
                    };
                    *slot = Some(attribute.clone());
                }
            }),
            Edit::NoCounters(pool) => self.change_slices(
                |s| is_of(s, pool),
                |slice| {
                    for device in slice.spec.devices.iter_mut().flatten() {
                        device.consumes_counters = None;
                    }
                },
            ),
            Edit::NoGroups => self.change_devices(|device| {
                for entry in device.consumes_counters.iter_mut().flatten() {
                    entry.compatibility_groups = None;
                }
            }),
            Edit::LeastCapacity(of) => self.change_request(of, |exact| {
                for amount in exact.capacity.iter_mut().filter_map(|capacity| capacity.requests.as_mut()).flat_map(|all| all.values_mut()) {
                    "0".clone_into(&mut amount.0);
                }
            }),
            Edit::NoCapacity(of) => self.change_request(of, |exact| exact.capacity = None),
            Edit::Capacity(of, name, amount) => self.change_request(of, |exact| {
                if let Some(requests) = exact.capacity.as_mut().and_then(|c| c.requests.as_mut()) {
                    requests.insert(name.clone(), Quantity(amount.clone()));
                }
            }),
            Edit::HereToo => self.change_slices(
                |_| true,
                |slice| {
                    if slice.spec.per_device_node_selection == Some(true) {
                        for device in slice.spec.devices.iter_mut().flatten() {
                            (device.node_name, device.node_selector, device.all_nodes) = (None, None, Some(true));
                        }
                    } else {
                        (slice.spec.node_name, slice.spec.node_selector, slice.spec.all_nodes) = (None, None, Some(true));
                    }
                },
            ),
            Edit::WithNodeOperations => {
                self.change_slices(|s| s.spec.skip_node_operations.is_some(), |slice| slice.spec.skip_node_operations = None);
            }
            Edit::NoBindingConditions => self.change_devices(|device| device.binding_conditions = None),
            Edit::DropSelector { request, of_class, number } => self.drop_selector(request, *of_class, *number),
            Edit::Select(of, number, expression) => self.change_request(of, |exact| {
                if let Some(cel) = exact.selectors.as_mut().and_then(|s| s.get_mut(*number)).and_then(|s| s.cel.as_mut()) {
                    cel.expression.clone_from(expression);
                }
            }),
            Edit::Count(of, count) => self.change_request(of, |exact| {
                (exact.allocation_mode, exact.count) = (Some("ExactCount".to_owned()), Some(*count));
            }),
            Edit::NoDerived(of) => self.change_request(of, |exact| exact.derived_attributes = None),
            Edit::NoAdmin(of) => self.change_request(of, |exact| exact.admin_access = None),
            Edit::PlainDevices => self.change_devices(|device| (device.capacity, device.allow_multiple_allocations) = (None, None)),
            Edit::MoreDevices(count) => self.more_devices(*count),
        }
    }

    fn more_devices(&mut self, count: usize) {
        let devices: Vec<_> = (0..count).map(|number| json!({"name": format!("more-{number}")})).collect();
        let slice = json!({"metadata": {"name": "more"}, "spec": {
            "driver": "more.example.com", "pool": {"name": "more", "generation": 1, "resourceSliceCount": 1},
            "nodeName": self.node.metadata.name, "devices": devices}});
        if let Ok(slice) = serde_json::from_value(slice) {
            self.slices.push(Arc::new(slice));
        }
    }

    fn drop_selector(&mut self, of: &RequestRef, of_class: bool, number: usize) {
        // The numbers of the others stay until all edits are made.
        let open = || DeviceSelector { cel: serde_json::from_value(json!({"expression": DROPPED})).ok() };
        if !of_class {
            self.change_request(of, |exact| {
                if let Some(selector) = exact.selectors.as_mut().and_then(|selectors| selectors.get_mut(number)) {
                    *selector = open();
                }
            });
            return;
        }
        let Some(name) = self.asked(of).map(|asked| asked.class.to_owned()) else { return };
        if let Some(class) = self.classes.get_mut(&name) {
            let selectors = Arc::make_mut(class).spec.get_or_insert_default().selectors.as_mut();
            if let Some(selector) = selectors.and_then(|selectors| selectors.get_mut(number)) {
                *selector = open();
            }
        }
    }

    /// Takes away the selectors that were dropped.
    pub(super) fn prune(&mut self) {
        let stays = |selector: &DeviceSelector| selector.cel.as_ref().is_none_or(|cel| cel.expression != DROPPED);
        let all_stay = |selectors: &Option<Vec<DeviceSelector>>| selectors.iter().flatten().all(stays);
        for class in self.classes.values_mut() {
            if class.spec.as_ref().is_some_and(|spec| !all_stay(&spec.selectors))
                && let Some(selectors) = Arc::make_mut(class).spec.as_mut().and_then(|spec| spec.selectors.as_mut())
            {
                selectors.retain(stays);
            }
        }
        for of in self.requests() {
            if self.asked(&of).is_some_and(|asked| !asked.selectors.iter().all(stays)) {
                self.change_request(&of, |exact| exact.selectors.iter_mut().for_each(|selectors| selectors.retain(stays)));
            }
        }
    }

    fn mend_request(&mut self, of: &RequestRef) {
        const CLASS: &str = "mended.example.com";
        self.classes.insert(CLASS.to_owned(), Arc::new(open_class(CLASS)));
        let exact = ExactDeviceRequest {
            device_class_name: CLASS.to_owned(),
            allocation_mode: Some("ExactCount".to_owned()),
            count: Some(1),
            ..Default::default()
        };
        let (name, alternative) = split(&of.request);
        let mended = DeviceRequest { name: name.to_owned(), exactly: Some(exact.clone()), first_available: None };
        let whole = alternative.is_none();
        self.change_claim(of.claim, |claim| {
            let requests = claim.spec.as_mut().and_then(|s| s.devices.as_mut()).and_then(|d| d.requests.as_mut());
            if let Some(request) = requests.and_then(|requests| requests.iter_mut().find(|request| request.name == mended.name))
                && whole
            {
                *request = mended.clone();
            }
        });
        if !whole {
            self.change_request(of, |sub| *sub = exact.clone());
        }
    }

    fn mend_pool(&mut self, pool: &PoolId) {
        let mut seen = BTreeSet::new();
        let mut sets = BTreeSet::new();
        for slice in self.slices.iter_mut().filter(|s| is_of(s, pool)) {
            let slice = Arc::make_mut(slice);
            if let Some(devices) = &mut slice.spec.devices {
                devices.retain(|device| seen.insert((slice.spec.node_name.clone(), device.name.clone())));
                for device in devices {
                    device.consumes_counters = None;
                }
            }
            if let Some(shared) = &mut slice.spec.shared_counters {
                shared.retain(|set| sets.insert(set.name.clone()));
            }
        }
    }

    fn change_slices(&mut self, which: impl Fn(&Arc<ResourceSlice>) -> bool, change: impl Fn(&mut ResourceSlice)) {
        for slice in self.slices.iter_mut().filter(|slice| which(slice)) {
            change(Arc::make_mut(slice));
        }
    }

    fn change_devices(&mut self, change: impl Fn(&mut Device)) {
        self.change_slices(|_| true, |slice| slice.spec.devices.iter_mut().flatten().for_each(&change));
    }

    fn change_claim(&mut self, number: usize, change: impl FnOnce(&mut ResourceClaim)) {
        if let Some(claim) = self.claims.get_mut(number) {
            change(Arc::make_mut(claim));
        }
    }

    /// Changes a request or alternative, which have these fields in common (an alternative has no admin access).
    fn change_request(&mut self, of: &RequestRef, change: impl FnOnce(&mut ExactDeviceRequest)) {
        let (name, alternative) = split(&of.request);
        self.change_claim(of.claim, |claim| {
            let requests = claim.spec.as_mut().and_then(|s| s.devices.as_mut()).and_then(|d| d.requests.as_mut());
            let Some(request) = requests.and_then(|requests| requests.iter_mut().find(|request| request.name == name)) else { return };
            let Some(alternative) = alternative else {
                if let Some(exactly) = &mut request.exactly {
                    change(exactly);
                }
                return;
            };
            let subs = request.first_available.as_mut();
            if let Some(sub) = subs.and_then(|subs| subs.iter_mut().find(|sub| sub.name == alternative)) {
                let mut exact = ExactDeviceRequest {
                    admin_access: None,
                    allocation_mode: sub.allocation_mode.take(),
                    capacity: sub.capacity.take(),
                    count: sub.count,
                    derived_attributes: sub.derived_attributes.take(),
                    device_class_name: std::mem::take(&mut sub.device_class_name),
                    selectors: sub.selectors.take(),
                    tolerations: sub.tolerations.take(),
                };
                change(&mut exact);
                sub.allocation_mode = exact.allocation_mode;
                sub.capacity = exact.capacity;
                sub.count = exact.count;
                sub.derived_attributes = exact.derived_attributes;
                sub.device_class_name = exact.device_class_name;
                sub.selectors = exact.selectors;
                sub.tolerations = exact.tolerations;
            }
        });
    }
}

fn open_class(name: &str) -> DeviceClass {
    let mut class = DeviceClass { spec: Some(DeviceClassSpec::default()), ..Default::default() };
    class.metadata.name = Some(name.to_owned());
    class
}
