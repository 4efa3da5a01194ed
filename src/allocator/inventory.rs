//! The published devices, indexed once: what does not depend on a node, a claim or what is allocated.
//!
//! Slices, devices, device names and pools get dense numbers, so that everything later is arrays. An inventory can be
//! kept and shared for as long as the slices do not change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::{Node, NodeSelector};
use k8s_openapi::api::resource::v1::{Device, DeviceAttribute, DeviceCapacity, ResourceSlice, ResourceSliceSpec};

use super::capacity::DeviceCapacities;
use super::selectors::Selectors;
use crate::cel::DeviceInput;
use crate::model::features::{Feature, Features};
use crate::model::ids::{DeviceId, PoolId};
use crate::model::node_selector::ParsedNodeSelector;

/// Number of a slice: its place in the list that the inventory was made from.
pub(super) type SliceIx = usize;
/// Number of a published device; a device in two slices has two.
pub(super) type DeviceIx = usize;
/// Number of a device name; see [`DeviceId`].
pub(super) type NameIx = usize;
/// Number of a pool; pools are numbered in the order of driver and pool name.
pub(super) type PoolIx = usize;

static NO_ATTRIBUTES: BTreeMap<String, DeviceAttribute> = BTreeMap::new();
static NO_CAPACITY: BTreeMap<String, DeviceCapacity> = BTreeMap::new();

/// All slices of the cluster, prepared for allocating on any node.
#[derive(Debug)]
pub struct Inventory {
    pub(super) features: Features,
    pub(super) slices: Vec<SliceRecord>,
    pub(super) devices: Vec<DeviceRecord>,
    pub(super) pools: Vec<PoolRecord>,
    pub(super) names: HashMap<DeviceId, NameIx>,
    /// Slices with a node name, by that name, in the order of the list.
    pub(super) local: HashMap<String, Vec<SliceIx>>,
    /// Slices without a node name, in the order of the list.
    pub(super) global: Vec<SliceIx>,
    pub(super) selectors: Selectors,
}

/// A slice.
#[derive(Debug)]
pub(super) struct SliceRecord {
    pub(super) object: Arc<ResourceSlice>,
    pub(super) pool: PoolIx,
    pub(super) first_device: DeviceIx,
    /// Gates allow to look at it.
    pub(super) visible: bool,
    /// It counts when a pool's slices are counted.
    pub(super) counted: bool,
    /// Each device says for itself where it is.
    pub(super) per_device: bool,
    pub(super) selection: Selection,
    /// A device of it consumes counters.
    pub(super) consumes_counters: bool,
    /// A device of it has binding conditions, even an empty list.
    pub(super) binding_conditions: bool,
}

/// A device of a slice.
#[derive(Debug)]
pub(super) struct DeviceRecord {
    pub(super) slice: SliceIx,
    pub(super) position: usize,
    pub(super) name: NameIx,
    /// Where the device is, if its slice leaves that to the devices.
    pub(super) selection: Option<Box<Selection>>,
    input: OnceLock<DeviceInput>,
    capacities: OnceLock<Result<DeviceCapacities, String>>,
}

/// A pool: its slices of all generations.
#[derive(Debug)]
pub(super) struct PoolRecord {
    pub(super) id: PoolId,
    pub(super) slices: Vec<SliceIx>,
}

/// Which nodes can reach devices.
#[derive(Debug)]
pub(super) enum Selection {
    /// Nothing known is set.
    Unknown,
    Node(String),
    All,
    Selector(Box<Result<ParsedNodeSelector, String>>),
}

impl Selection {
    fn of(node_name: Option<&str>, all_nodes: Option<bool>, selector: Option<&NodeSelector>) -> Self {
        match (node_name.unwrap_or_default(), all_nodes.unwrap_or_default(), selector) {
            ("", false, None) => Self::Unknown,
            ("", true, _) => Self::All,
            ("", false, Some(selector)) => {
                let parsed = ParsedNodeSelector::parse(selector).map_err(|error| {
                    let text = serde_json::to_string(selector).unwrap_or_default();
                    format!("failed to parse node selector {text}: {error}")
                });
                Self::Selector(Box::new(parsed))
            }
            (name, ..) => Self::Node(name.to_owned()),
        }
    }

    fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// Whether the node can reach them. A selector that does not parse is an error.
    pub(super) fn matches(&self, node: &Node) -> Result<bool, String> {
        match self {
            Self::Unknown => Ok(false),
            Self::Node(name) => Ok(node.metadata.name.as_deref() == Some(name)),
            Self::All => Ok(true),
            Self::Selector(parsed) => match &**parsed {
                Ok(selector) => Ok(selector.matches(node)),
                Err(error) => Err(error.clone()),
            },
        }
    }
}

impl SliceRecord {
    pub(super) fn spec(&self) -> &ResourceSliceSpec {
        &self.object.spec
    }

    pub(super) fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn devices(&self) -> &[Device] {
        self.spec().devices.as_deref().unwrap_or_default()
    }

    pub(super) fn device_numbers(&self) -> std::ops::Range<DeviceIx> {
        self.first_device..self.first_device + self.devices().len()
    }

    pub(super) fn has_shared_counters(&self) -> bool {
        self.spec().shared_counters.as_deref().is_some_and(|sets| !sets.is_empty())
    }
}

impl Inventory {
    /// Indexes the slices. Their order matters as it does upstream.
    #[must_use]
    pub fn new(features: Features, slices: &[Arc<ResourceSlice>]) -> Self {
        let keys: BTreeSet<(&str, &str)> = slices.iter().map(|slice| (slice.spec.driver.as_str(), slice.spec.pool.name.as_str())).collect();
        let numbers: HashMap<(&str, &str), PoolIx> = keys.iter().enumerate().map(|(number, key)| (*key, number)).collect();
        let devices = slices.iter().map(|slice| slice.spec.devices.as_ref().map_or(0, Vec::len)).sum();
        let mut inventory = Self {
            features,
            slices: Vec::with_capacity(slices.len()),
            devices: Vec::with_capacity(devices),
            pools: keys.iter().map(|(driver, pool)| PoolRecord { id: PoolId::new(driver, pool), slices: Vec::new() }).collect(),
            names: HashMap::with_capacity(devices),
            local: HashMap::new(),
            global: Vec::new(),
            selectors: Selectors::new(features),
        };
        for slice in slices {
            let key = (slice.spec.driver.as_str(), slice.spec.pool.name.as_str());
            if let Some(pool) = numbers.get(&key) {
                inventory.add(slice, *pool);
            }
        }
        inventory.selectors.set_devices(inventory.devices.len());
        inventory
    }

    fn add(&mut self, object: &Arc<ResourceSlice>, pool: PoolIx) {
        let number = self.slices.len();
        let spec = &object.spec;
        let devices = spec.devices.as_deref().unwrap_or_default();
        let partitions = self.features.has(Feature::PartitionableDevices);
        let shared_counters = spec.shared_counters.as_deref().is_some_and(|sets| !sets.is_empty());
        let consumptions = || devices.iter().flat_map(|device| device.consumes_counters.as_deref().unwrap_or_default());
        let unknown_groups = !self.features.has(Feature::DeviceCompatibilityGroups)
            && consumptions().any(|c| c.compatibility_groups.as_deref().is_some_and(|groups| !groups.is_empty()));
        let per_device = spec.per_device_node_selection == Some(true);
        let record = SliceRecord {
            object: Arc::clone(object),
            pool,
            first_device: self.devices.len(),
            visible: !unknown_groups && (partitions || (spec.per_device_node_selection.is_none() && !shared_counters)),
            counted: !unknown_groups,
            per_device,
            selection: Selection::of(spec.node_name.as_deref(), spec.all_nodes, spec.node_selector.as_ref()),
            consumes_counters: consumptions().next().is_some(),
            binding_conditions: devices.iter().any(|device| device.binding_conditions.is_some()),
        };
        for (position, device) in devices.iter().enumerate() {
            let id = DeviceId { pool: self.pools[pool].id.clone(), device: device.name.as_str().into() };
            let next = self.names.len();
            let name = *self.names.entry(id).or_insert(next);
            let selection =
                per_device.then(|| Box::new(Selection::of(device.node_name.as_deref(), device.all_nodes, device.node_selector.as_ref())));
            self.devices.push(DeviceRecord {
                slice: number,
                position,
                name,
                selection,
                input: OnceLock::new(),
                capacities: OnceLock::new(),
            });
        }
        match spec.node_name.as_deref() {
            Some(node) if !node.is_empty() => self.local.entry(node.to_owned()).or_default().push(number),
            _ => self.global.push(number),
        }
        self.pools[pool].slices.push(number);
        self.slices.push(record);
    }

    pub(super) fn device(&self, device: DeviceIx) -> &Device {
        let record = &self.devices[device];
        &self.slices[record.slice].devices()[record.position]
    }

    pub(super) fn slice_of(&self, device: DeviceIx) -> &SliceRecord {
        &self.slices[self.devices[device].slice]
    }

    pub(super) fn driver(&self, device: DeviceIx) -> &str {
        &self.slice_of(device).spec().driver
    }

    /// The device's name as messages have it: driver, pool and device.
    pub(super) fn full_name(&self, device: DeviceIx) -> String {
        format!("{}/{}", self.pools[self.slice_of(device).pool].id, self.device(device).name)
    }

    /// The device as CEL sees it, converted when first asked for.
    pub(super) fn input(&self, device: DeviceIx) -> &DeviceInput {
        self.devices[device].input.get_or_init(|| {
            let api = self.device(device);
            DeviceInput::new(
                self.driver(device),
                api.attributes.as_ref().unwrap_or(&NO_ATTRIBUTES),
                api.capacity.as_ref().unwrap_or(&NO_CAPACITY),
                api.allow_multiple_allocations.unwrap_or_default(),
            )
        })
    }

    /// The device's capacities with their policies, read when first asked for.
    pub(super) fn capacities(&self, device: DeviceIx) -> &Result<DeviceCapacities, String> {
        self.devices[device]
            .capacities
            .get_or_init(|| DeviceCapacities::read(self.device(device).capacity.as_ref().unwrap_or(&NO_CAPACITY)))
    }

    /// Whether the slice has devices for the node (section 1.3).
    pub(super) fn reaches(&self, slice: &SliceRecord, node: &Node) -> Result<bool, String> {
        if slice.selection.is_known() {
            return slice
                .selection
                .matches(node)
                .map_err(|error| format!("failed to perform node selection for slice {}: {error}", slice.name()));
        }
        for device in slice.device_numbers() {
            let Some(selection) = &self.devices[device].selection else { continue };
            let matches = selection.matches(node).map_err(|error| {
                let text = serde_json::to_string(self.device(device)).unwrap_or_default();
                format!("failed to perform node selection for device {text} in slice {}: {error}", slice.name())
            })?;
            if matches {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
