//! The machine, as /proc and /sys tell. Blocking, but nothing here waits for anybody.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::doctor::facts::{Disk, Host, Inotify, Memory, Net, Part, Route};
use crate::doctor::{Absent, Blind};

/// What of the environment the facts depend on.
#[derive(Clone, Debug, Default)]
pub struct HostEnvironment {
    /// `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`, in either case, as they are set.
    pub proxies: BTreeMap<String, String>,
    /// `PATH`.
    pub path: std::ffi::OsString,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// The user's kubeconfigs.
    pub kubeconfigs: Vec<PathBuf>,
    /// `DRALAB_KIND`.
    pub kind: Option<PathBuf>,
    /// `DRALAB_KUBECTL`.
    pub kubectl: Option<PathBuf>,
}

/// Looks at the machine. `state` is dralab's folder.
#[must_use]
pub(super) fn host(environment: &HostEnvironment, state: &Path) -> Host {
    let os = std::env::consts::OS.to_owned();
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    Host {
        kernel: read("/proc/sys/kernel/osrelease"),
        memory: read("/proc/meminfo").and_then(|text| memory(&text)),
        disks: BTreeMap::from([("state", disk(state))]),
        inotify: inotify(),
        cgroup: linux_only().map(|()| if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() { 2 } else { 1 }),
        delegated: delegated(),
        open_files: Ok(files.unwrap_or(u64::MAX)),
        proxies: environment.proxies.iter().map(|(name, url)| (name.clone(), without_credentials(url))).collect(),
        daemon_json: daemon_json(environment),
        docker_program: program("docker", &environment.path).map(|p| p.display().to_string()),
        firewalld: firewalld(),
        routes: read("/proc/net/route").map(|text| routes(&text)),
        kubeconfig_locks: locks(&environment.kubeconfigs),
        os,
    }
}

fn linux_only() -> Part<()> {
    if cfg!(target_os = "linux") { Ok(()) } else { Err(Blind::NotHere(Absent::NotLinux)) }
}

fn read(path: &str) -> Part<String> {
    linux_only()?;
    std::fs::read_to_string(path).map(|text| text.trim_end().to_owned()).map_err(|error| Blind::because(format!("{path}: {error}")))
}

fn memory(meminfo: &str) -> Part<Memory> {
    let of = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    match (of("MemTotal:"), of("MemAvailable:")) {
        (Some(total), Some(available)) => Ok(Memory { total, available }),
        _ => Err(Blind::because("/proc/meminfo has no MemAvailable")),
    }
}

/// The file system of a folder, or of its nearest parent that is there.
pub(super) fn disk(folder: &Path) -> Part<Disk> {
    let there = folder.ancestors().find(|p| p.exists()).unwrap_or_else(|| Path::new("/"));
    let stat = rustix::fs::statvfs(there).map_err(|error| Blind::because(format!("{}: {error}", there.display())))?;
    let mounts = read("/proc/self/mounts").unwrap_or_default();
    let real = there.canonicalize().unwrap_or_else(|_| there.to_path_buf());
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut parts = line.split(' ');
            Some((parts.next()?, parts.next()?, parts.next()?))
        })
        .filter(|(_, at, _)| real.starts_with(at))
        .max_by_key(|(_, at, _)| at.len());
    let (device, kind) = mount.map(|(device, _, kind)| (device.to_owned(), kind.to_owned())).unwrap_or_default();
    Ok(Disk { path: folder.display().to_string(), free: stat.f_bavail.saturating_mul(stat.f_frsize), kind, device })
}

fn inotify() -> Part<Inotify> {
    let number = |name: &str| {
        let path = format!("/proc/sys/fs/inotify/{name}");
        read(&path)?.parse().map_err(|_| Blind::because(format!("{path} is not a number")))
    };
    Ok(Inotify { instances: number("max_user_instances")?, watches: number("max_user_watches")? })
}

/// The controllers that a rootless engine of this user gets.
fn delegated() -> Part<Vec<String>> {
    let uid = rustix::process::getuid().as_raw();
    let path = format!("/sys/fs/cgroup/user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers");
    Ok(read(&path)?.split_whitespace().map(str::to_owned).collect())
}

fn daemon_json(environment: &HostEnvironment) -> Part<Option<Value>> {
    let rootless = environment.home.as_ref().map(|home| home.join(".config/docker/daemon.json"));
    for path in [Some(PathBuf::from("/etc/docker/daemon.json")), rootless].into_iter().flatten() {
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let parsed: Result<Value, _> = serde_json::from_str(&text);
                return parsed.map(|json| Some(chosen(&json))).map_err(|error| Blind::because(format!("{}: {error}", path.display())));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Blind::because(format!("{}: {error}", path.display()))),
        }
    }
    Ok(None)
}

/// Of daemon.json only what checks look at: options of log drivers may be secret.
fn chosen(json: &Value) -> Value {
    let keys = ["init", "storage-driver", "bip", "default-address-pools", "exec-opts", "features"];
    keys.iter().filter_map(|key| Some(((*key).to_owned(), json.get(key)?.clone()))).collect()
}

/// The file that a command on the PATH really is.
pub(super) fn program(name: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    let file = std::env::split_paths(path).map(|dir| dir.join(name)).find(|file| file.is_file())?;
    // A snap's command is a link to the program `snap`; where it is tells more.
    Some(if file.starts_with("/snap") { file } else { file.canonicalize().unwrap_or(file) })
}

fn firewalld() -> Part<Option<String>> {
    linux_only()?;
    if !Path::new("/run/firewalld").exists() && !Path::new("/run/firewalld.pid").exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string("/etc/firewalld/firewalld.conf").unwrap_or_default();
    let backend = text.lines().find_map(|line| line.trim().strip_prefix("FirewallBackend="));
    Ok(Some(backend.unwrap_or("nftables").trim().to_owned()))
}

/// The routes of `/proc/net/route`, without the bridges that engines make.
fn routes(table: &str) -> Vec<Route> {
    let ours = |interface: &str| ["docker", "br-", "veth", "cni", "podman", "lo"].iter().any(|prefix| interface.starts_with(prefix));
    let address = |text: &str| u32::from_str_radix(text, 16).ok().map(|n| std::net::Ipv4Addr::from(n.swap_bytes()));
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (interface, base, mask) = (fields.first()?, address(fields.get(1)?)?, address(fields.get(7)?)?);
        let bits = u8::try_from(u32::from(mask).count_ones()).ok()?;
        (!ours(interface)).then(|| Route { net: Net { base, bits }, interface: (*interface).to_owned() })
    };
    table.lines().skip(1).filter_map(route).collect()
}

fn locks(kubeconfigs: &[PathBuf]) -> BTreeMap<String, u64> {
    let age = |path: &PathBuf| {
        let lock = PathBuf::from(format!("{}.lock", path.display()));
        let age = lock.metadata().ok()?.modified().ok()?.elapsed().unwrap_or_default();
        Some((lock.display().to_string(), age.as_secs()))
    };
    kubeconfigs.iter().filter_map(age).collect()
}

/// A URL without user and password.
pub(super) fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") }
}

#[cfg(test)]
mod tests {
    use super::{memory, routes, without_credentials};

    #[test]
    fn the_kernels_tables_are_read() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\ntun0\t000012AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
            docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        let shown: Vec<String> = routes(table).iter().map(|r| format!("{} {}", r.net, r.interface)).collect();
        assert_eq!(shown, ["0.0.0.0/0 eth0", "172.18.0.0/16 tun0"]);
        let read = memory("MemTotal:        8000000 kB\nMemFree: 1 kB\nMemAvailable:    4000000 kB\n").expect("read");
        assert_eq!((read.total, read.available), (8_192_000_000, 4_096_000_000));
    }

    #[test]
    fn credentials_are_taken_out_of_proxies() {
        for (url, shown) in [
            ("http://user:secret@proxy:3128/", "http://proxy:3128/"),
            ("proxy:3128", "proxy:3128"),
            ("http://proxy", "http://proxy"),
            ("localhost,.svc,10.0.0.0/8", "localhost,.svc,10.0.0.0/8"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }
}
