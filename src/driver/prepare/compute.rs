//! What preparing a claim means, computed: claim and devices in, environment and CDI devices out. No effects.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, DeviceRequestAllocationResult, ResourceClaim};
use serde::{Deserialize, Serialize};

use super::opaque::{ConfigError, Configs, Sharing, base_request};
use crate::driver::cdi::{CdiKind, ContainerEdits, Fault, Spec, SpecDevice};
use crate::driver::inventory::NodeDevice;

/// The id and the CDI device name of what every container with a device of the driver gets.
pub(super) const COMMON: &str = "common";

/// Names a claim, as the kubelet does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid: the claim is another one if it differs.
    pub uid: String,
}

/// A claim that is prepared: what the checkpoint keeps of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreparedClaim {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// In order of the allocation's results.
    pub devices: Vec<PreparedDevice>,
}

/// One device of a prepared claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreparedDevice {
    /// The request that got it, without the subrequest.
    pub request: String,
    /// Its pool.
    pub pool: String,
    /// Its name in the pool.
    pub device: String,
    /// Which share of it, for devices that several claims may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_id: Option<String>,
    /// Its name among the CDI devices of the driver.
    pub cdi_name: String,
    /// What it changes in a container.
    pub edits: ContainerEdits,
}

impl PreparedClaim {
    /// Whether another preparation of the claim is for the same devices.
    pub(super) fn has_same_devices(&self, other: &PreparedClaim) -> bool {
        let key = |device: &PreparedDevice| (device.request.clone(), device.pool.clone(), device.device.clone(), device.share_id.clone());
        self.devices.iter().map(key).eq(other.devices.iter().map(key))
    }

    /// The content of the claim's CDI spec file.
    ///
    /// # Errors
    /// Edits that the CDI spec does not allow.
    pub(super) fn spec(&self, kind: &CdiKind) -> Result<Spec, Fault> {
        let devices = self.devices.iter().map(|device| SpecDevice { name: device.cdi_name.clone(), container_edits: device.edits.clone() });
        Spec::new(kind, devices.collect())
    }
}

/// Why a claim cannot be prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unpreparable {
    #[error("claim {namespace}/{name} not allocated")]
    NotAllocated { namespace: String, name: String },
    #[error("claim {namespace}/{name} got replaced: expected uid {expected}, got {found}")]
    Replaced { namespace: String, name: String, expected: String, found: String },
    #[error("claim {namespace}/{name} has no device of driver {driver}")]
    NoDevices { namespace: String, name: String, driver: String },
    #[error("request {request:?}: device {device:?} is in pool {found:?}, this node has pool {expected:?}")]
    OtherPool { request: String, device: String, expected: String, found: String },
    #[error("request {request:?}: allocated device {device:?} is not on this node")]
    UnknownDevice { request: String, device: String },
    #[error("{0}")]
    Config(#[from] ConfigError),
}

/// What the driver is called here.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) driver: String,
    pub(super) node: String,
    pub(super) pool: String,
    pub(super) kind: CdiKind,
    /// Whether the name that all devices have in common is given before the device's own.
    pub(super) common_first: bool,
}

impl Names {
    /// The CDI device that every container with a device of the driver gets.
    pub(super) fn common(&self) -> Result<Spec, Fault> {
        let env = vec![format!("DRA_RESOURCE_DRIVER_NAME={}", self.driver), format!("KUBERNETES_NODE_NAME={}", self.node)];
        let common = SpecDevice { name: COMMON.to_owned(), container_edits: ContainerEdits { env, ..Default::default() } };
        Spec::new(&self.kind, vec![common])
    }

    /// The fully qualified CDI names of a device. A kubelet shows the first one as the device's id in the pod's
    /// `allocatedResourcesStatus`, and shows no id twice.
    pub(super) fn cdi_ids(&self, device: &PreparedDevice) -> Vec<String> {
        let mut ids = vec![self.kind.device(&device.cdi_name), self.kind.device(COMMON)];
        if self.common_first {
            ids.reverse();
        }
        ids
    }

    /// Prepares the claim that `wanted` names; `claim` is what the API server has under that name.
    pub(super) fn compute(
        &self,
        wanted: &ClaimRef,
        claim: &ResourceClaim,
        devices: &BTreeMap<String, NodeDevice>,
    ) -> Result<PreparedClaim, Unpreparable> {
        let (namespace, name) = (wanted.namespace.clone(), wanted.name.clone());
        let found = claim.metadata.uid.clone().unwrap_or_default();
        if found != wanted.uid {
            return Err(Unpreparable::Replaced { namespace, name, expected: wanted.uid.clone(), found });
        }
        let Some(allocation) = claim.status.as_ref().and_then(|status| status.allocation.as_ref()) else {
            return Err(Unpreparable::NotAllocated { namespace, name });
        };
        let configs = Configs::of(allocation, &self.driver)?;
        let results = allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
        let mut prepared: Vec<PreparedDevice> = Vec::new();
        for result in results.filter(|result| result.driver == self.driver) {
            if result.pool != self.pool {
                return Err(Unpreparable::OtherPool {
                    request: result.request.clone(),
                    device: result.device.clone(),
                    expected: self.pool.clone(),
                    found: result.pool.clone(),
                });
            }
            let Some(device) = devices.get(&result.device) else {
                return Err(Unpreparable::UnknownDevice { request: result.request.clone(), device: result.device.clone() });
            };
            // One claim can have a device twice: as shares, or with and without admin access.
            let again = prepared.iter().filter(|other| other.device == result.device).count();
            let suffix = if again == 0 { String::new() } else { format!("-{again}") };
            let mut edits = device.edits.clone();
            edits.env.extend(environment(&self.kind, &wanted.uid, result, &device.published, &configs.sharing(&result.request)));
            prepared.push(PreparedDevice {
                request: base_request(&result.request).to_owned(),
                pool: result.pool.clone(),
                device: result.device.clone(),
                share_id: result.share_id.clone(),
                cdi_name: format!("{}-{}{suffix}", wanted.uid, result.device),
                edits,
            });
        }
        if prepared.is_empty() {
            return Err(Unpreparable::NoDevices { namespace, name, driver: self.driver.clone() });
        }
        Ok(PreparedClaim { namespace, name, uid: wanted.uid.clone(), devices: prepared })
    }
}

/// The variables of one device. The names are those of Kubernetes' example driver, so that what people know
/// from there holds here; uuid, model and memory are ours.
fn environment(kind: &CdiKind, uid: &str, result: &DeviceRequestAllocationResult, device: &Device, sharing: &Sharing) -> Vec<String> {
    let class = screaming(kind.class());
    let prefix = format!("{class}_DEVICE_{}", number(kind.class(), &device.name));
    let admin = result.admin_access == Some(true);
    let mut env = vec![format!("{prefix}={}", device.name)];
    for name in ["uuid", "model"] {
        let attribute = device.attributes.iter().flatten().find(|(key, _)| *key == name).and_then(|(_, value)| value.string.as_ref());
        env.extend(attribute.map(|value| format!("{prefix}_{}={value}", name.to_ascii_uppercase())));
    }
    let consumed = result.consumed_capacity.iter().flatten().find(|(key, _)| base_name(key) == "memory").map(|(_, value)| value);
    let whole = device.capacity.iter().flatten().find(|(key, _)| base_name(key) == "memory").map(|(_, capacity)| &capacity.value);
    env.extend(consumed.or(whole).map(|memory| format!("{prefix}_MEMORY={}", memory.0)));
    match sharing {
        Sharing::TimeSlicing { interval } => {
            env.push(format!("{prefix}_SHARING_STRATEGY=TimeSlicing"));
            env.push(format!("{prefix}_TIMESLICE_INTERVAL={interval}"));
        }
        Sharing::SpacePartitioning { partition_count } => {
            env.push(format!("{prefix}_SHARING_STRATEGY=SpacePartitioning"));
            env.push(format!("{prefix}_PARTITION_COUNT={partition_count}"));
        }
    }
    env.push(format!("{class}_DEVICE_{}_RESOURCE_CLAIM={uid}", screaming(&device.name)));
    env.push(format!("DRA_ADMIN_ACCESS={admin}"));
    env
}

/// An attribute's or capacity's name without its domain.
fn base_name(qualified: &str) -> &str {
    qualified.split_once('/').map_or(qualified, |(_, name)| name)
}

/// What tells the device from others of its class: `0` of `gpu-0`.
fn number(class: &str, device: &str) -> String {
    screaming(device.strip_prefix(class).and_then(|rest| rest.strip_prefix('-')).unwrap_or(device))
}

/// As part of a variable's name.
fn screaming(text: &str) -> String {
    text.to_ascii_uppercase().replace('-', "_")
}

/// Whether a text has the form of a uid; only such a one becomes part of a file's name.
pub(super) fn is_uid(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}
