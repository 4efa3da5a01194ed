//! The machine, its container engine, and the tools.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::doctor::facts::Part;

/// The machine.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// `linux` or `macos`.
    pub os: String,
    /// The kernel's release; on WSL it says so.
    pub kernel: Part<String>,
    /// Memory in bytes.
    pub memory: Part<Memory>,
    /// File systems by what they are for: `state`, and `engine` where the engine is on this machine.
    pub disks: BTreeMap<&'static str, Part<Disk>>,
    /// Limits of inotify.
    pub inotify: Part<Inotify>,
    /// 1 or 2.
    pub cgroup: Part<u8>,
    /// Controllers that systemd has delegated to this user.
    pub delegated: Part<Vec<String>>,
    /// Soft limit of open files.
    pub open_files: Part<u64>,
    /// Proxy variables that are set, without credentials.
    pub proxies: BTreeMap<String, String>,
    /// Docker's daemon.json; `None`: there is none.
    pub daemon_json: Part<Option<Value>>,
    /// The file that `docker` on the PATH really is.
    pub docker_program: Option<String>,
    /// firewalld runs; with which backend.
    pub firewalld: Part<Option<String>>,
    /// Routes that do not lead to the engine's own bridges.
    pub routes: Part<Vec<Route>>,
    /// Lock files beside the user's kubeconfigs, with their ages in seconds.
    pub kubeconfig_locks: BTreeMap<String, u64>,
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// In all.
    pub total: u64,
    /// What a new program can have.
    pub available: u64,
}

/// A file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// The folder that was asked about.
    pub path: String,
    /// Bytes that this user may still write.
    pub free: u64,
    /// Its type, where the system says.
    pub kind: String,
    /// Its device.
    pub device: String,
}

/// Limits of inotify for each user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Inotify {
    /// `fs.inotify.max_user_instances`.
    pub instances: u64,
    /// `fs.inotify.max_user_watches`.
    pub watches: u64,
}

/// A route of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Where it leads.
    pub net: Net,
    /// Through which interface.
    pub interface: String,
}

/// A block of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Net {
    /// Its first address.
    pub base: std::net::Ipv4Addr,
    /// Length of the prefix.
    pub bits: u8,
}

impl Net {
    /// Reads `172.18.0.0/16`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (base, bits) = text.split_once('/')?;
        let bits: u8 = bits.parse().ok().filter(|b| *b <= 32)?;
        Some(Net { base: base.parse().ok()?, bits })
    }

    /// Whether they have an address in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let bits = self.bits.min(other.bits);
        let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        u32::from(self.base) & mask == u32::from(other.base) & mask
    }
}

impl std::fmt::Display for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

/// The container engine.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineFacts {
    /// Its address.
    pub address: String,
    /// It is on this machine and shares its kernel.
    pub local: bool,
    /// Its name and version.
    pub name: String,
    /// Its version.
    pub version: String,
    /// 1 or 2.
    pub cgroup: Option<u8>,
    /// It runs without root's rights.
    pub rootless: bool,
    /// Such as `overlay2`.
    pub storage: String,
    /// The images are in containerd's store.
    pub containerd_store: bool,
    /// Its machine, such as `Docker Desktop`.
    pub machine: String,
    /// Memory that it may use.
    pub memory: u64,
    /// Its folder on its machine.
    pub folder: String,
    /// What it warns of.
    pub warnings: Vec<String>,
    /// The proxy that it pulls through.
    pub proxy: Option<String>,
    /// Its networks with their IPv4 blocks.
    pub networks: Part<BTreeMap<String, Vec<Net>>>,
    /// Node containers by kind cluster.
    pub clusters: Part<BTreeMap<String, Vec<Node>>>,
    /// Clusters of kind in which dralab's driver has been at work.
    pub with_driver: Vec<String>,
}

/// A node container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name, which is the node's.
    pub name: String,
    /// It runs.
    pub running: bool,
    /// The image that it was made from.
    pub image: String,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// A program of the user's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tool {
    /// Its file.
    pub program: String,
    /// Its version, such as `v1.37.2`.
    pub version: String,
}

/// The tools; a tool that is not there is not an error of looking.
#[derive(Clone, Debug, Serialize)]
pub struct Tools {
    /// kind.
    pub kind: Part<Tool>,
    /// kubectl.
    pub kubectl: Part<Tool>,
}

#[cfg(test)]
mod tests {
    use super::Net;

    #[test]
    fn nets_overlap_when_one_is_in_the_other() {
        let net = |text| Net::parse(text).expect(text);
        for (a, b, overlap) in [
            ("172.18.0.0/16", "172.18.4.0/24", true),
            ("172.18.0.0/16", "172.19.0.0/16", false),
            ("0.0.0.0/0", "10.0.0.0/8", true),
            ("10.244.0.0/16", "10.0.0.0/8", true),
        ] {
            assert_eq!(net(a).overlaps(net(b)), overlap, "{a} {b}");
        }
        assert_eq!(Net::parse("fd00::/8"), None);
        assert_eq!(Net::parse("10.0.0.0/33"), None);
    }
}
