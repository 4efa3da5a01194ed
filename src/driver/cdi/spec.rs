//! The form of a CDI spec file and its rules of naming.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The oldest version of the CDI spec that has all that is used here: device names that begin with a digit
/// (a claim's uid may) came with 0.5.0.
const CDI_VERSION: &str = "0.5.0";

/// Vendor and class, the part of a CDI device's name before `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CdiKind {
    vendor: String,
    class: String,
}

impl CdiKind {
    /// Checks both parts: letters, digits, `_`, `-` and, in the vendor, `.`; a letter first and a letter or digit
    /// last.
    ///
    /// # Errors
    /// A name that the spec does not allow.
    pub fn new(vendor: &str, class: &str) -> Result<Self, Fault> {
        check(vendor, "vendor", |c| matches!(c, '_' | '-' | '.'), |c| c.is_ascii_alphabetic())?;
        check(class, "class", |c| matches!(c, '_' | '-'), |c| c.is_ascii_alphabetic())?;
        Ok(CdiKind { vendor: vendor.to_owned(), class: class.to_owned() })
    }

    /// The part after the `/`.
    #[must_use]
    pub fn class(&self) -> &str {
        &self.class
    }

    /// The fully qualified name of a device of this kind, such as `k8s.gpu.example.com/gpu=common`.
    #[must_use]
    pub fn device(&self, name: &str) -> String {
        format!("{self}={name}")
    }

    /// The file name of the spec that is known by `id`, such as `k8s.gpu.example.com-gpu_common.json`.
    #[must_use]
    pub fn file_name(&self, id: &str) -> String {
        format!("{}{id}.json", self.file_prefix())
    }

    /// What the names of all files of this kind begin with.
    pub(super) fn file_prefix(&self) -> String {
        format!("{}-{}_", self.vendor, self.class)
    }

    /// The id in a file name that [`CdiKind::file_name`] made.
    #[must_use]
    pub fn id_of<'a>(&self, file_name: &'a str) -> Option<&'a str> {
        let rest = file_name.strip_prefix(&self.vendor)?.strip_prefix('-')?;
        rest.strip_prefix(&self.class)?.strip_prefix('_')?.strip_suffix(".json")
    }
}

impl fmt::Display for CdiKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.vendor, self.class)
    }
}

/// A spec file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Version of the CDI spec.
    pub cdi_version: String,
    /// Vendor and class, `VENDOR/CLASS`.
    pub kind: String,
    /// The devices, at least one.
    pub devices: Vec<SpecDevice>,
}

impl Spec {
    /// A spec of `devices`, checked.
    ///
    /// # Errors
    /// No device, a device name that the spec does not allow, one that occurs twice, a device without edits
    /// (runtimes refuse it as `empty device edits`), or a malformed edit.
    pub fn new(kind: &CdiKind, devices: Vec<SpecDevice>) -> Result<Self, Fault> {
        if devices.is_empty() {
            return Err(Fault("a spec needs at least one device".to_owned()));
        }
        for (at, device) in devices.iter().enumerate() {
            check(&device.name, "device", |c| matches!(c, '_' | '-' | '.' | ':'), |c| c.is_ascii_alphanumeric())?;
            if devices[..at].iter().any(|other| other.name == device.name) {
                return Err(Fault(format!("device {:?} occurs twice", device.name)));
            }
            device.container_edits.check(&device.name)?;
        }
        Ok(Spec { cdi_version: CDI_VERSION.to_owned(), kind: kind.to_string(), devices })
    }

    /// The file's content.
    ///
    /// # Errors
    /// Never for a spec that [`Spec::new`] made; serialising can fail in general.
    pub fn to_json(&self) -> Result<Vec<u8>, Fault> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|error| Fault(error.to_string()))?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// One device of a spec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpecDevice {
    /// Its name within the kind.
    pub name: String,
    /// What it changes in a container.
    pub container_edits: ContainerEdits,
}

/// What a device changes in a container: the part of CDI's edits that dralab writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerEdits {
    /// Environment variables, `NAME=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Device nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<DeviceNode>,
    /// Mounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
}

impl ContainerEdits {
    fn check(&self, device: &str) -> Result<(), Fault> {
        if *self == ContainerEdits::default() {
            return Err(Fault(format!("device {device:?} has no edits")));
        }
        for variable in &self.env {
            if variable.find('=').is_none_or(|at| at == 0) {
                return Err(Fault(format!("device {device:?}: expected NAME=value in env, got {variable:?}")));
            }
        }
        for node in &self.device_nodes {
            if node.path.is_empty() {
                return Err(Fault(format!("device {device:?} has a device node without a path")));
            }
        }
        for mount in &self.mounts {
            if mount.host_path.is_empty() || mount.container_path.is_empty() {
                return Err(Fault(format!("device {device:?} has a mount without both paths")));
            }
        }
        Ok(())
    }
}

/// A device node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceNode {
    /// In the container.
    pub path: String,
    /// On the host, when it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
}

/// A mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// On the host.
    pub host_path: String,
    /// In the container.
    pub container_path: String,
    /// Such as `ro` and `bind`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// Something that the CDI spec does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid CDI spec: {0}")]
pub struct Fault(pub(super) String);

fn check(name: &str, what: &str, inner: fn(char) -> bool, first: fn(char) -> bool) -> Result<(), Fault> {
    let well_formed = name.chars().all(|c| c.is_ascii_alphanumeric() || inner(c))
        && name.starts_with(first)
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    if well_formed { Ok(()) } else { Err(Fault(format!("{what} name {name:?} is not allowed"))) }
}

#[cfg(test)]
mod tests {
    use super::{CdiKind, ContainerEdits, Spec, SpecDevice};

    fn device(name: &str) -> SpecDevice {
        SpecDevice { name: name.to_owned(), container_edits: ContainerEdits { env: vec!["A=b".to_owned()], ..Default::default() } }
    }

    #[test]
    fn names_are_checked() {
        for (vendor, class, good) in [
            ("k8s.gpu.example.com", "gpu", true),
            ("gpu.example.com", "gpu_x-1", true),
            ("", "gpu", false),
            ("1vendor", "gpu", false),
            ("vendor-", "gpu", false),
            ("ven/dor", "gpu", false),
            ("vendor", "gpu.x", false),
            ("vendor", "", false),
        ] {
            assert_eq!(CdiKind::new(vendor, class).is_ok(), good, "{vendor} {class}");
        }
        let kind = CdiKind::new("k8s.gpu.example.com", "gpu").unwrap();
        for (name, good) in
            [("common", true), ("8e2a-gpu-0", true), ("gpu:0.x_y", true), ("", false), ("-a", false), ("a=b", false), ("a-", false)]
        {
            assert_eq!(Spec::new(&kind, vec![device(name)]).is_ok(), good, "{name}");
        }
    }

    #[test]
    fn empty_edits_and_repeated_names_are_refused() {
        let kind = CdiKind::new("k8s.gpu.example.com", "gpu").unwrap();
        let empty = SpecDevice { name: "x".to_owned(), container_edits: ContainerEdits::default() };
        assert_eq!(Spec::new(&kind, vec![empty]).unwrap_err().to_string(), "invalid CDI spec: device \"x\" has no edits");
        assert!(Spec::new(&kind, vec![device("x"), device("x")]).is_err());
        assert!(Spec::new(&kind, Vec::new()).is_err());
    }

    #[test]
    fn file_names_give_the_id_back() {
        let kind = CdiKind::new("k8s.gpu.example.com", "gpu").unwrap();
        let name = kind.file_name("8e2a73b9");
        assert_eq!(name, "k8s.gpu.example.com-gpu_8e2a73b9.json");
        assert_eq!(kind.id_of(&name), Some("8e2a73b9"));
        assert_eq!(kind.id_of("k8s.gpu.example.com-gpux_8e2a73b9.json"), None);
        assert_eq!(kind.id_of("nvidia.yaml"), None);
    }
}
