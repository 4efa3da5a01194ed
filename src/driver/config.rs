//! What a driver needs to know.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use super::cdi::CdiKind;
use super::error::DriverError;
use super::instance::{self, Instance};
use super::inventory::{Inventory, Profile, Simulated, SliceNames};
use super::status::DriverStatus;

/// The driver's name unless told otherwise.
pub const DEFAULT_DRIVER_NAME: &str = "gpu.example.com";

/// Class of the CDI devices.
const CDI_CLASS: &str = "gpu";

/// Settings of one driver on one node.
#[derive(Debug)]
pub struct DriverConfig {
    /// DNS subdomain of at most 63 characters.
    pub driver_name: String,
    /// The node that it serves.
    pub node_name: String,
    /// The uid of the pod that this is, where several instances of the driver may run side by side: during a rolling
    /// update. Without one, a second instance is refused.
    pub pod_uid: Option<String>,
    /// The pool that it publishes: the node's name unless told otherwise.
    pub pool_name: String,
    /// Where the devices come from.
    pub inventory: Box<dyn Inventory>,
    /// How its slices are named.
    pub slice_names: SliceNames,
    /// The kubelet's `plugins` folder; the driver's own folder is below it.
    pub plugins_dir: PathBuf,
    /// The kubelet's `plugins_registry` folder.
    pub registry_dir: PathBuf,
    /// Where the container runtime looks for CDI specs.
    pub cdi_dir: PathBuf,
    /// Where the checkpoint is kept: the driver's own folder when not set.
    pub state_dir: Option<PathBuf>,
    /// Whether to publish ResourceSlices. Off for a driver whose slices somebody else writes.
    pub publish: bool,
    /// Whether to write conditions into `status.devices` of the claims that are prepared.
    pub device_status: bool,
    /// Whether containers' CDI devices begin with the one that is common to all devices of the driver. A kubelet
    /// shows the first as the device's id in `allocatedResourcesStatus`, so that then all devices look like one.
    pub common_cdi_device_first: bool,
    /// Where to answer probes over HTTP: `/healthz` and `/readyz`.
    pub health_address: Option<SocketAddr>,
    /// What becomes of it. Keep a receiver ([`watch::Sender::subscribe`]) to see.
    pub status: watch::Sender<DriverStatus>,
}

/// The folders that a driver shares with kubelet and container runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// As [`DriverConfig::plugins_dir`].
    pub plugins: PathBuf,
    /// As [`DriverConfig::registry_dir`].
    pub registry: PathBuf,
    /// As [`DriverConfig::cdi_dir`].
    pub cdi: PathBuf,
}

impl DriverConfig {
    /// A driver named `gpu.example.com` with any inventory.
    #[must_use]
    pub fn new(node_name: &str, inventory: Box<dyn Inventory>, folders: Folders) -> Self {
        DriverConfig {
            driver_name: DEFAULT_DRIVER_NAME.to_owned(),
            node_name: node_name.to_owned(),
            pod_uid: None,
            pool_name: node_name.to_owned(),
            inventory,
            slice_names: SliceNames::default(),
            plugins_dir: folders.plugins,
            registry_dir: folders.registry,
            cdi_dir: folders.cdi,
            state_dir: None,
            publish: true,
            device_status: true,
            common_cdi_device_first: false,
            health_address: None,
            status: watch::Sender::default(),
        }
    }

    /// A driver named `gpu.example.com` with the devices that `profile` gives to the node; `count` overrides how
    /// many.
    #[must_use]
    pub fn simulated(profile: &Profile, node_name: &str, count: Option<u32>, folders: Folders) -> Self {
        let inventory = Box::new(Simulated::new(profile, node_name, count));
        DriverConfig {
            slice_names: profile.slice_names,
            device_status: profile.device_status,
            common_cdi_device_first: profile.common_cdi_device_first,
            ..DriverConfig::new(node_name, inventory, folders)
        }
    }

    /// The driver's own folder.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.plugins_dir.join(&self.driver_name)
    }

    /// The socket of the DRA plugin API.
    #[must_use]
    pub fn dra_socket(&self) -> PathBuf {
        self.instance().dra_socket(&self.data_dir())
    }

    /// The socket on which the kubelet finds the driver.
    #[must_use]
    pub fn registration_socket(&self) -> PathBuf {
        self.instance().registration_socket(&self.registry_dir)
    }

    pub(super) fn instance(&self) -> Instance<'_> {
        Instance { driver: &self.driver_name, uid: self.pod_uid.as_deref() }
    }

    /// Where the checkpoint is.
    #[must_use]
    pub fn checkpoint_dir(&self) -> PathBuf {
        self.state_dir.clone().unwrap_or_else(|| self.data_dir())
    }

    /// Vendor and class of the CDI devices, such as `k8s.gpu.example.com/gpu`.
    pub(super) fn cdi_kind(&self) -> Result<CdiKind, DriverError> {
        Ok(CdiKind::new(&format!("k8s.{}", self.driver_name), CDI_CLASS)?)
    }

    /// Finds what cannot work before anything is touched.
    pub(super) fn check(&self) -> Result<(), DriverError> {
        let names = [
            ("driver name", &self.driver_name, 63, "a DNS subdomain of at most 63 characters"),
            ("node name", &self.node_name, 253, "a DNS subdomain of at most 253 characters"),
        ];
        for (what, name, limit, expected) in names {
            if !is_dns_subdomain(name, limit) {
                return Err(DriverError::Config { what, expected, found: name.clone() });
            }
        }
        if self.pool_name.is_empty() || self.pool_name.len() > 253 || !self.pool_name.split('/').all(|part| is_dns_subdomain(part, 253)) {
            let expected = "DNS subdomains separated by /, at most 253 characters";
            return Err(DriverError::Config { what: "pool name", expected, found: self.pool_name.clone() });
        }
        for folder in [&self.plugins_dir, &self.registry_dir, &self.cdi_dir] {
            require_absolute(folder)?;
        }
        if let Some(uid) = &self.pod_uid
            && (uid.is_empty() || uid.len() > 63 || !uid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
        {
            let expected = "letters, digits and -, at most 63 of them";
            return Err(DriverError::Config { what: "pod uid", expected, found: uid.clone() });
        }
        instance::check(&self.dra_socket(), &self.registration_socket())?;
        Ok(())
    }
}

/// The kubelet dials the endpoint as it is told.
fn require_absolute(path: &Path) -> Result<(), DriverError> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(DriverError::Config { what: "folder", expected: "an absolute path", found: path.display().to_string() })
}

/// RFC 1123: labels of lower-case letters, digits and `-`, separated by dots.
fn is_dns_subdomain(name: &str, limit: usize) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= limit && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::{DriverConfig, Folders};
    use crate::driver::Profile;
    use std::path::PathBuf;

    #[test]
    fn what_a_profile_says_reaches_the_driver() {
        let folders = || Folders { plugins: PathBuf::from("/p"), registry: PathBuf::from("/r"), cdi: PathBuf::from("/c") };
        let of = |name: &str| DriverConfig::simulated(&Profile::load(name).expect("a profile of this build"), "n", None, folders());
        let (usual, recorded) = (of("default"), of("recorded"));
        assert_eq!((usual.device_status, usual.common_cdi_device_first), (true, false));
        assert_eq!((recorded.device_status, recorded.common_cdi_device_first), (false, true), "as the recorded driver did");
        assert_ne!(usual.slice_names, recorded.slice_names);
    }
}
