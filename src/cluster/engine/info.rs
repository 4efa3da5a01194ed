//! What an engine says about itself and its machine (`docker info`).

use bollard::models::SystemInfo;

use crate::cluster::engine::{Engine, EngineError};

/// Where the engine keeps its images; it decides what an export holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageStore {
    /// Docker's own store (graph drivers), or podman's: an image has one platform.
    Classic,
    /// containerd's store, the default of Docker Desktop and of new installs of Docker 29: an image keeps the index of all its
    /// platforms and the content of some, so that an import of all platforms fails with "content digest ... not found".
    Containerd,
}

/// What an engine says about itself and its machine. What it does not say is empty, 0 or `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// Such as `Docker Engine - Community`.
    pub name: String,
    /// Such as `29.1.3`.
    pub version: String,
    /// 1 or 2.
    pub cgroup_version: Option<u8>,
    /// `systemd`, `cgroupfs` or `none`.
    pub cgroup_driver: String,
    /// It runs without root's rights.
    pub rootless: bool,
    /// Such as `overlay2`, `overlayfs`, `btrfs`, `vfs`.
    pub storage_driver: String,
    /// The file system below it, such as `extfs`, where it says.
    pub backing_filesystem: Option<String>,
    /// Where it keeps its images.
    pub image_store: ImageStore,
    /// `linux` or `windows`.
    pub os: String,
    /// Its machine, such as `Debian GNU/Linux 12 (bookworm)`, `Docker Desktop`.
    pub operating_system: String,
    /// Its kernel.
    pub kernel: String,
    /// As image platforms have it: `amd64`, `arm64`.
    pub architecture: String,
    /// Processors that it may use.
    pub cpus: u64,
    /// Memory that it may use, in bytes.
    pub memory: u64,
    /// Its folder on its machine.
    pub root_folder: String,
    /// Such as `name=seccomp,profile=default`, `name=rootless`.
    pub security_options: Vec<String>,
    /// What it warns of.
    pub warnings: Vec<String>,
    /// The proxies that it pulls through, where it says: HTTP, HTTPS, and what goes without.
    pub proxies: [Option<String>; 3],
}

impl Engine {
    /// Asks the engine about itself and its machine.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn info(&self) -> Result<EngineInfo, EngineError> {
        let info = self.quick("say how it is", self.docker.info()).await?;
        Ok(read(info, &self.identity.name, &self.identity.version))
    }
}

fn read(info: SystemInfo, name: &str, version: &str) -> EngineInfo {
    let status = info.driver_status.unwrap_or_default();
    let of = |key: &str| status.iter().find(|pair| pair.first().is_some_and(|k| k == key)).and_then(|pair| pair.get(1)).cloned();
    let containerd = of("driver-type").is_some_and(|kind| kind.starts_with("io.containerd.snapshotter"));
    let security_options = info.security_options.unwrap_or_default();
    EngineInfo {
        name: name.to_owned(),
        version: version.to_owned(),
        cgroup_version: info.cgroup_version.and_then(|v| v.to_string().parse().ok()),
        cgroup_driver: info.cgroup_driver.map(|d| d.to_string()).unwrap_or_default(),
        rootless: security_options.iter().any(|option| option.split(',').any(|part| part == "name=rootless" || part == "rootless")),
        storage_driver: info.driver.unwrap_or_default(),
        backing_filesystem: of("Backing Filesystem"),
        image_store: if containerd { ImageStore::Containerd } else { ImageStore::Classic },
        os: info.os_type.unwrap_or_default(),
        operating_system: info.operating_system.unwrap_or_default(),
        kernel: info.kernel_version.unwrap_or_default(),
        architecture: info.architecture.map(|a| architecture(&a).to_owned()).unwrap_or_default(),
        cpus: info.ncpu.and_then(|n| n.try_into().ok()).unwrap_or_default(),
        memory: info.mem_total.and_then(|n| n.try_into().ok()).unwrap_or_default(),
        root_folder: info.docker_root_dir.unwrap_or_default(),
        security_options,
        warnings: info.warnings.unwrap_or_default(),
        proxies: [info.http_proxy, info.https_proxy, info.no_proxy].map(|proxy| proxy.filter(|p| !p.is_empty())),
    }
}

/// A machine's name for its processor (`uname -m`) as image platforms have it (Go's `GOARCH`); an unknown one stays.
#[must_use]
pub fn architecture(machine: &str) -> &str {
    match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "armv7l" | "armv6l" => "arm",
        "i386" | "i686" => "386",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::SystemInfo;
    use serde_json::json;

    use super::{ImageStore, architecture, read};

    #[test]
    fn both_stores_rootless_and_cgroups_are_recognised() {
        let classic = json!({
            "Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"], ["Supports d_type", "true"]],
            "CgroupVersion": "1", "CgroupDriver": "cgroupfs", "OSType": "linux", "Architecture": "x86_64", "NCPU": 2, "MemTotal": 8_000_000_000_u64,
            "SecurityOptions": ["name=seccomp,profile=default"], "Warnings": ["WARNING: No swap limit support"], "HttpProxy": "",
        });
        let info = read(serde_json::from_value::<SystemInfo>(classic).expect("an info"), "Docker", "20.10.24");
        assert_eq!((info.image_store, info.rootless, info.cgroup_version), (ImageStore::Classic, false, Some(1)));
        assert_eq!((info.architecture.as_str(), info.cpus, info.memory), ("amd64", 2, 8_000_000_000));
        assert_eq!(info.backing_filesystem.as_deref(), Some("extfs"));
        assert_eq!(info.proxies, [None, None, None]);

        let store = json!({
            "Driver": "overlayfs", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]], "CgroupVersion": "2",
            "CgroupDriver": "systemd", "Architecture": "aarch64", "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"],
        });
        let info = read(serde_json::from_value::<SystemInfo>(store).expect("an info"), "Docker", "29.1.3");
        assert_eq!((info.image_store, info.rootless, info.cgroup_version), (ImageStore::Containerd, true, Some(2)));
        assert_eq!(info.architecture, "arm64");
        assert_eq!(architecture("riscv64"), "riscv64");
    }
}
