//! The machine: memory, disk, limits of the kernel, proxies.

use crate::client::connect::is_loopback;
use crate::cluster::Backend;
use crate::cluster::steps::Say;
use crate::doctor::facts::Facts;
use crate::doctor::{Absent, Blind, Check, Finding, Group, Looked, Severity};

const MIB: u64 = 1 << 20;
/// Memory that a control plane and a worker in containers take: 782 and 144 MiB measured with Kubernetes 1.37 and nothing on them.
const CONTROL_PLANE: u64 = 1024 * MIB;
const WORKER: u64 = 384 * MIB;
/// Disk that a node takes beside the node image, and the image.
const NODE_DISK: u64 = 512 * MIB;
const IMAGE_DISK: u64 = 1536 * MIB;
/// inotify instances and watches that a node takes (28 and 265 measured for a control plane, 15 and 141 for a worker, nothing on them) with
/// room for pods; the same user's other programs; and what kind's known issues ask for.
const INSTANCES: u64 = 32;
const OTHERS: u64 = 64;
const WATCHES: u64 = 4096;
const KIND_INSTANCES: u64 = 512;
const KIND_WATCHES: u64 = 524_288;

/// Memory for the nodes.
pub(super) const MEMORY: Check =
    Check { id: "DL-DOC-101", slug: "memory", group: Group::Host, least: Severity::Note, most: Severity::Blocker, look: memory };
/// Room for images and for the lab's files.
pub(super) const DISK: Check =
    Check { id: "DL-DOC-102", slug: "disk", group: Group::Host, least: Severity::Note, most: Severity::Blocker, look: disk };
/// Limits of inotify, by the number of nodes.
pub(super) const INOTIFY: Check =
    Check { id: "DL-DOC-103", slug: "inotify", group: Group::Host, least: Severity::Note, most: Severity::Warning, look: inotify };
/// The version of cgroups.
pub(super) const CGROUP: Check =
    Check { id: "DL-DOC-104", slug: "cgroup", group: Group::Host, least: Severity::Note, most: Severity::Note, look: cgroup };
/// Controllers that a rootless engine lacks.
pub(super) const CONTROLLERS: Check =
    Check { id: "DL-DOC-105", slug: "controllers", group: Group::Host, least: Severity::Note, most: Severity::Blocker, look: controllers };
/// Open files.
pub(super) const FILES: Check =
    Check { id: "DL-DOC-106", slug: "open-files", group: Group::Host, least: Severity::Warning, most: Severity::Warning, look: files };
/// Proxies.
pub(super) const PROXIES: Check =
    Check { id: "DL-DOC-107", slug: "proxies", group: Group::Host, least: Severity::Note, most: Severity::Warning, look: proxies };
/// WSL.
pub(super) const WSL: Check =
    Check { id: "DL-DOC-108", slug: "wsl", group: Group::Host, least: Severity::Note, most: Severity::Warning, look: wsl };
/// firewalld with nftables.
pub(super) const FIREWALL: Check =
    Check { id: "DL-DOC-109", slug: "firewall", group: Group::Host, least: Severity::Note, most: Severity::Note, look: firewall };

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes / MIB)
}

fn memory(facts: &Facts) -> Looked {
    // An embedded lab takes some ten MiB; only nodes in containers need much.
    if facts.purpose != Backend::Kind || facts.is_kind_up() {
        return Ok(Vec::new());
    }
    let needed = CONTROL_PLANE + WORKER * (facts.nodes() - 1);
    let (of, has) = match facts.local_engine() {
        Err(Blind::NotHere(Absent::EngineElsewhere)) => ("engine", facts.engine()?.memory.saturating_sub(512 * MIB)),
        _ => ("host", facts.host.memory.clone()?.available),
    };
    if has >= needed {
        return Ok(Vec::new());
    }
    let severity = if has < needed / 2 { Severity::Blocker } else { Severity::Warning };
    let what = Say::new("doctor.memory.found").with("nodes", &facts.nodes()).with("needed", &mib(needed));
    Ok(vec![
        Finding::new(severity, what, Say::new("doctor.memory.advice")).seen(of, format!("available {}, needed {}", mib(has), mib(needed))),
    ])
}

fn disk(facts: &Facts) -> Looked {
    let mut findings = Vec::new();
    for (purpose, disk) in &facts.host.disks {
        let disk = disk.as_ref().map_err(Clone::clone)?;
        let (needed, least) = match *purpose {
            "engine" if facts.is_kind_up() => (256 * MIB, 64 * MIB),
            "engine" => (IMAGE_DISK + NODE_DISK * facts.nodes(), 512 * MIB),
            _ => (64 * MIB, 8 * MIB),
        };
        if disk.free >= needed {
            continue;
        }
        let severity = if disk.free < least { Severity::Blocker } else { Severity::Warning };
        let severity = if *purpose == "engine" { facts.for_kind(severity) } else { severity };
        let what = Say::new(if *purpose == "engine" { "doctor.disk.engine" } else { "doctor.disk.state" }).with("path", &disk.path);
        findings.push(
            Finding::new(severity, what, Say::new("doctor.disk.advice"))
                .seen(disk.path.as_str(), format!("free {}, needed {}", mib(disk.free), mib(needed))),
        );
    }
    Ok(findings)
}

fn inotify(facts: &Facts) -> Looked {
    facts.local_engine()?;
    let limits = facts.host.inotify.clone()?;
    let nodes = facts.nodes();
    let needed = ((OTHERS + INSTANCES * nodes).min(KIND_INSTANCES), (WATCHES * (nodes + 1)).min(KIND_WATCHES));
    let short = limits.instances < needed.0 || limits.watches < needed.1;
    if !short && (nodes <= 2 || (limits.instances >= KIND_INSTANCES && limits.watches >= KIND_WATCHES)) {
        return Ok(Vec::new());
    }
    let severity = if short { facts.for_kind(Severity::Warning) } else { Severity::Note };
    let what = Say::new("doctor.inotify.found").with("nodes", &nodes);
    let finding = Finding::new(severity, what, Say::new("doctor.inotify.advice"))
        .seen("fs.inotify.max_user_instances", format!("{}, needed {}", limits.instances, needed.0))
        .seen("fs.inotify.max_user_watches", format!("{}, needed {}", limits.watches, needed.1));
    Ok(vec![finding])
}

fn cgroup(facts: &Facts) -> Looked {
    let engine = facts.engine()?;
    let version = engine.cgroup.map_or_else(|| facts.host.cgroup.clone(), Ok)?;
    if version != 1 {
        return Ok(Vec::new());
    }
    let finding = Finding::new(Severity::Note, Say::new("doctor.cgroup.found"), Say::new("doctor.cgroup.advice"));
    Ok(vec![finding.seen(engine.address.as_str(), "cgroup version 1")])
}

/// What kind asks for.
const NEEDED: &[&str] = &["cpu", "memory", "pids"];

fn controllers(facts: &Facts) -> Looked {
    let engine = facts.local_engine()?;
    if !engine.rootless {
        return Ok(Vec::new());
    }
    if engine.cgroup == Some(1) {
        let what = Say::new("doctor.controllers.v1");
        let finding = Finding::new(facts.for_kind(Severity::Blocker), what, Say::new("doctor.controllers.v1-advice"));
        return Ok(vec![finding.seen(engine.address.as_str(), "rootless, cgroup version 1")]);
    }
    let delegated = facts.host.delegated.clone()?;
    let missing: Vec<&str> = NEEDED.iter().copied().filter(|c| !delegated.iter().any(|d| d == c)).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let what = Say::new("doctor.controllers.found").with("missing", &missing.join(", "));
    let finding = Finding::new(facts.for_kind(Severity::Blocker), what, Say::new("doctor.controllers.advice"));
    Ok(vec![finding.seen("cgroup.controllers", if delegated.is_empty() { "none".to_owned() } else { delegated.join(" ") })])
}

fn files(facts: &Facts) -> Looked {
    let soft = facts.host.open_files.clone()?;
    if soft >= 1024 {
        return Ok(Vec::new());
    }
    let finding = Finding::new(Severity::Warning, Say::new("doctor.open-files.found"), Say::new("doctor.open-files.advice"));
    Ok(vec![finding.seen("RLIMIT_NOFILE", format!("{soft}, needed 1024"))])
}

fn proxies(facts: &Facts) -> Looked {
    let proxies: Vec<(&String, &String)> = facts.host.proxies.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("no_proxy")).collect();
    if proxies.is_empty() {
        return Ok(Vec::new());
    }
    let host = |url: &str| {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let rest = rest.split('/').next().unwrap_or_default();
        rest.rsplit_once(':').map_or(rest, |(host, _)| host).trim_matches(['[', ']']).to_owned()
    };
    let loopback = proxies.iter().any(|(_, url)| is_loopback(&host(url)));
    let (severity, what, advice) = if loopback {
        (facts.for_kind(Severity::Warning), "doctor.proxies.loopback", "doctor.proxies.loopback-advice")
    } else {
        (Severity::Note, "doctor.proxies.found", "doctor.proxies.advice")
    };
    let mut finding = Finding::new(severity, Say::new(what), Say::new(advice));
    for (name, value) in &facts.host.proxies {
        finding.add(name, value);
    }
    let exempt = facts.host.proxies.iter().find(|(name, _)| name.eq_ignore_ascii_case("no_proxy")).map(|(_, list)| list.as_str());
    let lacks: Vec<&str> = ["localhost", "127.0.0.1", ".svc", "10.96.0.0/16", "10.244.0.0/16"]
        .into_iter()
        .filter(|entry| !exempt.unwrap_or_default().split(',').any(|e| e.trim() == *entry || e.trim() == "*"))
        .collect();
    if !lacks.is_empty() {
        finding.add("NO_PROXY", format!("lacks {}", lacks.join(", ")));
    }
    if let Ok(engine) = facts.engine()
        && engine.proxy.is_none()
    {
        finding.add(engine.address.as_str(), "pulls images without a proxy");
    }
    Ok(vec![finding])
}

fn wsl(facts: &Facts) -> Looked {
    linux(facts)?;
    let kernel = facts.host.kernel.clone()?;
    if !kernel.to_ascii_lowercase().contains("microsoft") {
        return Ok(Vec::new());
    }
    let old = !kernel.to_ascii_lowercase().contains("wsl2");
    let cgroup1 = facts.host.cgroup == Ok(1);
    let severity = if old || cgroup1 { facts.for_kind(Severity::Warning) } else { Severity::Note };
    let finding = Finding::new(severity, Say::new("doctor.wsl.found"), Say::new("doctor.wsl.advice"));
    let cgroup = facts.host.cgroup.as_ref().map_or("unknown".to_owned(), u8::to_string);
    Ok(vec![finding.seen("kernel", kernel).seen("cgroup version", cgroup)])
}

fn firewall(facts: &Facts) -> Looked {
    facts.local_engine()?;
    match facts.host.firewalld.clone()? {
        Some(backend) if backend == "nftables" => {
            let finding = Finding::new(Severity::Note, Say::new("doctor.firewall.found"), Say::new("doctor.firewall.advice"));
            Ok(vec![finding.seen("firewalld", format!("FirewallBackend={backend}"))])
        }
        _ => Ok(Vec::new()),
    }
}

fn linux(facts: &Facts) -> Result<(), Blind> {
    if facts.host.os == "linux" { Ok(()) } else { Err(Blind::NotHere(Absent::NotLinux)) }
}
