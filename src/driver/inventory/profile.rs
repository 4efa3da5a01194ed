//! Device profiles: YAML that says which devices a simulated node has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::model::quantity::Quantity;
use crate::model::semver::Semver;

/// The profiles that are part of the program, by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("default", include_str!("../../../assets/profiles/default.yaml")),
    ("recorded", include_str!("../../../assets/profiles/recorded.yaml")),
];

/// The API's limit on attributes and capacities of one device together
/// (`ResourceSliceMaxAttributesAndCapacitiesPerDevice`).
const MAX_ATTRIBUTES_AND_CAPACITIES: usize = 32;

/// How the ResourceSlices of a pool are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SliceNames {
    /// `NODE-DRIVER-` for a pool of one slice, `NODE-DRIVER-00000-` and so on for more.
    #[default]
    NodeFirst,
    /// `00000-DRIVER-NODE-` always, as upstream's Go helper does since Kubernetes 1.36.
    IndexFirst,
}

/// Which devices a simulated node has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// How its ResourceSlices are named.
    #[serde(default)]
    pub slice_names: SliceNames,
    /// Whether the driver writes conditions into the status of claims that it prepares.
    #[serde(default = "yes")]
    pub device_status: bool,
    /// Whether the CDI device that all devices have in common comes before a device's own.
    #[serde(default)]
    pub common_cdi_device_first: bool,
    /// The devices.
    pub(super) devices: Devices,
    /// How the devices are spread over the machine.
    #[serde(default)]
    pub(super) topology: Topology,
    /// Uuids in order of index, by node name.
    #[serde(default)]
    pub(super) uuids: BTreeMap<String, Vec<String>>,
}

const fn yes() -> bool {
    true
}

/// A number of like devices.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Devices {
    pub(super) count: u32,
    /// Has `{index}` in it.
    pub(super) name: String,
    #[serde(default)]
    pub(super) attributes: BTreeMap<String, Attribute>,
    #[serde(default)]
    pub(super) capacity: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) allow_multiple_allocations: Option<bool>,
}

/// Where a device sits. Devices are dealt out in order of their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Topology {
    pub(super) numa_nodes: u32,
    pub(super) pcie_roots_per_numa_node: u32,
}

impl Default for Topology {
    fn default() -> Self {
        Topology { numa_nodes: 1, pcie_roots_per_numa_node: 1 }
    }
}

/// The value of an attribute: given, or found for each device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Attribute {
    Bool(bool),
    Int(i64),
    String(String),
    Version(String),
    From(Source),
}

/// What is found for each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Source {
    /// An int: the device's place, from 0.
    Index,
    /// A string: `gpu-` and a uuid.
    Uuid,
    /// An int: the NUMA node.
    NumaNode,
    /// A string such as `pci0000:10`, the format of the standard attribute `resource.kubernetes.io/pcieRoot`.
    PcieRoot,
}

impl Profile {
    /// A built-in profile by its name, or one from a file when the name has a `/` or ends in `.yaml` or `.yml`.
    ///
    /// # Errors
    /// No such profile, an unreadable file, or one that is not a profile (with line and column).
    pub fn load(name_or_path: &str) -> Result<Self, ProfileError> {
        if name_or_path.contains('/') || name_or_path.ends_with(".yaml") || name_or_path.ends_with(".yml") {
            return Self::from_file(Path::new(name_or_path));
        }
        let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) else {
            return Err(ProfileError::Unknown { name: name_or_path.to_owned(), known: Self::names().collect::<Vec<_>>().join(", ") });
        };
        Self::parse(text, Path::new(name))
    }

    /// The names of the built-in profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Reads a profile from a file.
    ///
    /// # Errors
    /// As for [`Profile::load`].
    pub fn from_file(path: &Path) -> Result<Self, ProfileError> {
        let text = std::fs::read_to_string(path).map_err(|source| ProfileError::Unreadable { path: path.to_path_buf(), source })?;
        Self::parse(&text, path)
    }

    /// Reads a profile from its text; `origin` is only for messages.
    ///
    /// # Errors
    /// As for [`Profile::load`].
    pub fn parse(text: &str, origin: &Path) -> Result<Self, ProfileError> {
        let profile: Profile = serde_saphyr::from_str(text)
            .map_err(|error| ProfileError::Syntax { path: origin.to_path_buf(), text: error.to_string().trim_end().to_owned() })?;
        let profile = profile.canonical();
        profile.check().map_err(|text| ProfileError::Invalid { path: origin.to_path_buf(), text })?;
        Ok(profile)
    }

    /// Capacities as an API server stores them (`1024Mi` as `1Gi`), so that it has nothing to change in a slice.
    fn canonical(mut self) -> Self {
        for value in self.devices.capacity.values_mut() {
            if let Ok(quantity) = Quantity::parse(value) {
                *value = quantity.to_string();
            }
        }
        self
    }

    fn check(&self) -> Result<(), String> {
        let devices = &self.devices;
        if !devices.name.contains("{index}") {
            return Err(format!("devices.name: expected {{index}} in it, got {:?}", devices.name));
        }
        let widest = devices.name.replace("{index}", &devices.count.saturating_sub(1).to_string());
        if !is_dns_label(&widest) {
            return Err(format!("devices.name: expected a DNS label of at most 63 characters, got {widest:?}"));
        }
        let entries = devices.attributes.len() + devices.capacity.len();
        if entries > MAX_ATTRIBUTES_AND_CAPACITIES {
            return Err(format!(
                "devices: expected at most {MAX_ATTRIBUTES_AND_CAPACITIES} attributes and capacities together, got {entries}"
            ));
        }
        for (name, value) in &devices.capacity {
            Quantity::parse(value).map_err(|error| format!("devices: capacity {name:?}: {error}"))?;
        }
        for (name, attribute) in &devices.attributes {
            if let Attribute::Version(version) = attribute {
                Semver::parse(version).map_err(|error| format!("devices: attribute {name:?}: {error}"))?;
            }
        }
        if self.topology.numa_nodes == 0 || self.topology.pcie_roots_per_numa_node == 0 {
            return Err("topology: expected at least one NUMA node and one PCIe root for each".to_owned());
        }
        Ok(())
    }
}

/// RFC 1123: lower-case letters, digits and `-`, not at the ends, at most 63 characters.
fn is_dns_label(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// A profile could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There is no built-in profile of that name.
    #[error("no device profile {name:?}, there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read device profile {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not YAML, or has unknown or missing keys.
    #[error("device profile {}: {text}", path.display())]
    Syntax {
        /// The file, or the name of a built-in profile.
        path: PathBuf,
        /// The parser's message, with line and column.
        text: String,
    },
    /// A value is not possible.
    #[error("device profile {}: {text}", path.display())]
    Invalid {
        /// The file, or the name of a built-in profile.
        path: PathBuf,
        /// What was expected and what was found.
        text: String,
    },
}
