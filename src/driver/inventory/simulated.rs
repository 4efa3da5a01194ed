//! Devices that exist only in a profile.

use k8s_openapi::api::resource::v1::{Device, DeviceAttribute, DeviceCapacity};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use uuid::Uuid;

use super::profile::{Attribute, Source};
use super::{DeviceHealth, Inventory, InventoryError, NodeDevice, Profile};
use crate::driver::cdi::ContainerEdits;

/// The name space of derived uuids (uuid version 5). Never changes: uuids are the same on every machine.
const UUIDS: Uuid = Uuid::from_u128(0x6f1a_84c5_2c1b_5a0e_9d3e_7b1f_64c2_d7a1);

/// Buses between two simulated PCIe roots.
const BUSES_PER_ROOT: u32 = 0x10;

/// The devices of one node after a profile. They never change.
#[derive(Clone, Debug)]
pub struct Simulated {
    devices: Vec<NodeDevice>,
}

impl Simulated {
    /// The devices that `profile` gives to `node`; `count` overrides how many.
    #[must_use]
    pub fn new(profile: &Profile, node: &str, count: Option<u32>) -> Self {
        let count = count.unwrap_or(profile.devices.count);
        Simulated { devices: (0..count).map(|index| device(profile, node, index, count)).collect() }
    }
}

impl Inventory for Simulated {
    fn devices(&self) -> Result<Vec<NodeDevice>, InventoryError> {
        Ok(self.devices.clone())
    }
}

fn device(profile: &Profile, node: &str, index: u32, count: u32) -> NodeDevice {
    let group = &profile.devices;
    let attributes = group.attributes.iter().map(|(name, attribute)| {
        let value = match attribute {
            Attribute::Bool(value) => DeviceAttribute { bool: Some(*value), ..Default::default() },
            Attribute::Int(value) => int(*value),
            Attribute::String(value) => string(value.clone()),
            Attribute::Version(value) => DeviceAttribute { version: Some(value.clone()), ..Default::default() },
            Attribute::From(Source::Index) => int(index.into()),
            Attribute::From(Source::Uuid) => string(uuid(profile, node, index)),
            Attribute::From(Source::NumaNode) => int(numa_node(profile, index, count).into()),
            Attribute::From(Source::PcieRoot) => string(pcie_root(profile, index, count)),
        };
        (name.clone(), value)
    });
    let capacity =
        group.capacity.iter().map(|(name, value)| (name.clone(), DeviceCapacity { request_policy: None, value: Quantity(value.clone()) }));
    NodeDevice {
        published: Device {
            name: group.name.replace("{index}", &index.to_string()),
            attributes: Some(attributes.collect()).filter(|map: &std::collections::BTreeMap<_, _>| !map.is_empty()),
            capacity: Some(capacity.collect()).filter(|map: &std::collections::BTreeMap<_, _>| !map.is_empty()),
            allow_multiple_allocations: group.allow_multiple_allocations,
            ..Default::default()
        },
        edits: ContainerEdits::default(),
        health: DeviceHealth::default(),
    }
}

fn int(value: i64) -> DeviceAttribute {
    DeviceAttribute { int: Some(value), ..Default::default() }
}

fn string(value: String) -> DeviceAttribute {
    DeviceAttribute { string: Some(value), ..Default::default() }
}

fn uuid(profile: &Profile, node: &str, index: u32) -> String {
    let listed = profile.uuids.get(node).and_then(|uuids| uuids.get(usize::try_from(index).unwrap_or(usize::MAX)));
    listed.cloned().unwrap_or_else(|| format!("gpu-{}", Uuid::new_v5(&UUIDS, format!("{node}/{index}").as_bytes())))
}

/// Deals `count` devices out to `parts` parts in order, as evenly as possible, and says which part `index` is in.
fn part(index: u32, count: u32, parts: u32) -> u32 {
    // Wide enough for any product of two u32.
    let share = u64::from(index) * u64::from(parts) / u64::from(count.max(1));
    u32::try_from(share).unwrap_or(u32::MAX)
}

fn numa_node(profile: &Profile, index: u32, count: u32) -> u32 {
    part(index, count, profile.topology.numa_nodes)
}

fn pcie_root(profile: &Profile, index: u32, count: u32) -> String {
    let roots = profile.topology.numa_nodes.saturating_mul(profile.topology.pcie_roots_per_numa_node);
    let root = part(index, count, roots).saturating_mul(BUSES_PER_ROOT);
    // A PCI domain has 256 buses.
    format!("pci{:04x}:{:02x}", root / 256, root % 256)
}
