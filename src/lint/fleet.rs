//! The published devices in the order in which the allocator tries them on each node.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::{Device, DeviceAttribute, DeviceCapacity, ResourceSlice};

use crate::cel::DeviceInput;
use crate::model::ids::{DeviceId, PoolId};

/// Where attributes and capacities of a device are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// `device.attributes`
    Attributes,
    /// `device.capacity`
    Capacity,
}

impl Space {
    /// The field of `device`.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Space::Attributes => "attributes",
            Space::Capacity => "capacity",
        }
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Space::Attributes => Space::Capacity,
            Space::Capacity => Space::Attributes,
        }
    }
}

/// A published device.
#[derive(Clone, Debug)]
pub struct FleetDevice {
    /// Its name.
    pub id: DeviceId,
    /// The node that can reach it; `None` where that is not one node by name.
    pub node: Option<String>,
    /// As published.
    pub attributes: BTreeMap<String, DeviceAttribute>,
    /// As published.
    pub capacity: BTreeMap<String, DeviceCapacity>,
    /// As expressions see it.
    pub input: DeviceInput,
}

/// A pool that cannot be used as published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialPool {
    /// The pool.
    pub pool: PoolId,
    /// Slices of its newest generation.
    pub found: usize,
    /// Slices that it says it has.
    pub expected: i64,
}

/// All devices, in the order of the search: pools by driver and name (those with binding conditions last), slices by name,
/// devices as listed. Only the newest generation of a pool counts.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The devices.
    pub devices: Vec<FleetDevice>,
    /// Pools with slices missing; their devices are listed all the same.
    pub partial: Vec<PartialPool>,
}

static NO_ATTRIBUTES: BTreeMap<String, DeviceAttribute> = BTreeMap::new();
static NO_CAPACITY: BTreeMap<String, DeviceCapacity> = BTreeMap::new();

impl Fleet {
    /// The devices of these slices.
    #[must_use]
    pub fn new(slices: &[ResourceSlice]) -> Self {
        let mut pools: BTreeMap<(&str, &str), Vec<&ResourceSlice>> = BTreeMap::new();
        for slice in slices {
            pools.entry((&slice.spec.driver, &slice.spec.pool.name)).or_default().push(slice);
        }
        let mut fleet = Fleet::default();
        let mut ordered = Vec::new();
        for ((driver, pool), mut slices) in pools {
            let newest = slices.iter().map(|slice| slice.spec.pool.generation).max().unwrap_or(0);
            slices.retain(|slice| slice.spec.pool.generation == newest);
            slices.sort_by_key(|slice| slice.metadata.name.as_deref().unwrap_or_default());
            let expected = slices.first().map_or(0, |slice| slice.spec.pool.resource_slice_count);
            let id = PoolId::new(driver, pool);
            if slices.len() as i64 != expected {
                fleet.partial.push(PartialPool { pool: id.clone(), found: slices.len(), expected });
            }
            let waits =
                slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten()).any(|device| device.binding_conditions.is_some());
            ordered.push((waits, id, slices));
        }
        ordered.sort_by_key(|(waits, ..)| *waits);
        for (_, pool, slices) in ordered {
            for slice in slices {
                for device in slice.spec.devices.iter().flatten() {
                    fleet.devices.push(FleetDevice::new(&pool, slice, device));
                }
            }
        }
        fleet
    }

    /// The nodes that some device names.
    #[must_use]
    pub fn nodes(&self) -> Vec<&str> {
        let nodes: BTreeSet<&str> = self.devices.iter().filter_map(|device| device.node.as_deref()).collect();
        nodes.into_iter().collect()
    }

    /// How many pools there are.
    #[must_use]
    pub fn pools(&self) -> usize {
        self.devices.iter().map(|device| &device.id.pool).collect::<BTreeSet<_>>().len()
    }

    /// The drivers.
    #[must_use]
    pub fn drivers(&self) -> BTreeSet<&str> {
        self.devices.iter().map(|device| &*device.id.pool.driver).collect()
    }

    /// The domains under which anything is published.
    #[must_use]
    pub fn domains(&self, space: Space) -> BTreeSet<&str> {
        self.devices.iter().flat_map(|device| device.names(space).map(|(domain, _)| domain)).collect()
    }

    /// The names that are published under a domain.
    #[must_use]
    pub fn names(&self, space: Space, domain: &str) -> BTreeSet<&str> {
        self.devices.iter().flat_map(|device| device.names(space)).filter(|(found, _)| *found == domain).map(|(_, id)| id).collect()
    }

    /// The devices that publish a name.
    pub fn with(&self, space: Space, domain: &str, id: &str) -> impl Iterator<Item = &FleetDevice> {
        self.devices.iter().filter(move |device| device.has(space, domain, id))
    }
}

impl FleetDevice {
    fn new(pool: &PoolId, slice: &ResourceSlice, device: &Device) -> Self {
        let node = if slice.spec.per_device_node_selection == Some(true) { &device.node_name } else { &slice.spec.node_name };
        let (attributes, capacity) =
            (device.attributes.as_ref().unwrap_or(&NO_ATTRIBUTES), device.capacity.as_ref().unwrap_or(&NO_CAPACITY));
        let shared = device.allow_multiple_allocations.unwrap_or_default();
        FleetDevice {
            id: DeviceId { pool: pool.clone(), device: device.name.as_str().into() },
            node: node.clone().filter(|node| !node.is_empty()),
            attributes: attributes.clone(),
            capacity: capacity.clone(),
            input: DeviceInput::new(&pool.driver, attributes, capacity, shared),
        }
    }

    /// The names as published, as (domain, id).
    pub fn names(&self, space: Space) -> impl Iterator<Item = (&str, &str)> {
        let keys: Box<dyn Iterator<Item = &String>> = match space {
            Space::Attributes => Box::new(self.attributes.keys()),
            Space::Capacity => Box::new(self.capacity.keys()),
        };
        keys.map(|name| name.split_once('/').unwrap_or((&self.id.pool.driver, name)))
    }

    /// Whether it publishes a name.
    #[must_use]
    pub fn has(&self, space: Space, domain: &str, id: &str) -> bool {
        self.names(space).any(|found| found == (domain, id))
    }

    /// The attribute under its domain as published with that domain, and as published without, where it is its driver's.
    #[must_use]
    pub fn twice(&self, domain: &str, id: &str) -> Option<(&DeviceAttribute, &DeviceAttribute)> {
        if domain != &*self.id.pool.driver {
            return None;
        }
        Some((self.attributes.get(&format!("{domain}/{id}"))?, self.attributes.get(id)?))
    }
}
