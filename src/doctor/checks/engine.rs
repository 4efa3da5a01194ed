//! The container engine: there, new enough, and set up so that nodes can run in it.

use crate::cluster::Backend;
use crate::cluster::steps::Say;
use crate::doctor::facts::{Facts, Net, version};
use crate::doctor::{Absent, Blind, Check, Finding, Group, Looked, Severity};

/// An engine that answers.
pub(super) const ENGINE: Check =
    Check { id: "DL-DOC-121", slug: "engine", group: Group::Host, least: Severity::Note, most: Severity::Blocker, look: engine };
/// How the engine keeps files.
pub(super) const STORAGE: Check =
    Check { id: "DL-DOC-122", slug: "storage", group: Group::Host, least: Severity::Note, most: Severity::Warning, look: storage };
/// containerd's image store.
pub(super) const IMAGE_STORE: Check =
    Check { id: "DL-DOC-123", slug: "image-store", group: Group::Host, least: Severity::Note, most: Severity::Note, look: image_store };
/// An engine without root's rights.
pub(super) const ROOTLESS: Check =
    Check { id: "DL-DOC-124", slug: "rootless", group: Group::Host, least: Severity::Note, most: Severity::Note, look: rootless };
/// Docker from snap.
pub(super) const SNAP: Check =
    Check { id: "DL-DOC-125", slug: "snap", group: Group::Host, least: Severity::Note, most: Severity::Note, look: snap };
/// `"init": true` in daemon.json.
pub(super) const INIT: Check =
    Check { id: "DL-DOC-126", slug: "init", group: Group::Host, least: Severity::Note, most: Severity::Blocker, look: init };
/// Addresses of the engine's networks against the machine's routes, and how many there are.
pub(super) const SUBNETS: Check =
    Check { id: "DL-DOC-127", slug: "subnets", group: Group::Host, least: Severity::Note, most: Severity::Warning, look: subnets };

/// The oldest engine that kind is tested with.
const OLDEST: (u32, u32) = (20, 10);
/// Networks for which Docker has addresses by itself, and from how many on it gets tight.
const NETWORKS: usize = 31;
const TIGHT: usize = 28;

fn engine(facts: &Facts) -> Looked {
    let needs = |severity| if facts.lab.record.as_ref().is_ok_and(|r| r.backend == Backend::Kind) { Severity::Blocker } else { severity };
    match &facts.engine {
        Err(Blind::NotHere(_)) => {
            let finding = Finding::new(needs(Severity::Note), Say::new("doctor.engine.none"), Say::new("doctor.engine.none-advice"));
            Ok(vec![finding])
        }
        Err(Blind::CouldNotLook(reason)) => {
            let finding = Finding::new(needs(Severity::Warning), Say::new("doctor.engine.silent"), Say::new("doctor.engine.silent-advice"));
            Ok(vec![finding.seen("engine", reason.as_str())])
        }
        Ok(engine) => {
            let mut findings = Vec::new();
            let podman = engine.name.to_ascii_lowercase().contains("podman");
            let old = version(&engine.version).is_some_and(|(major, minor, _)| (major, minor) < OLDEST);
            if old && !podman {
                let what = Say::new("doctor.engine.old").with("version", &engine.version);
                let finding = Finding::new(facts.for_kind(Severity::Warning), what, Say::new("doctor.engine.old-advice"));
                findings.push(finding.seen(engine.address.as_str(), format!("{} {}", engine.name, engine.version)));
            }
            Ok(findings)
        }
    }
}

fn storage(facts: &Facts) -> Looked {
    let engine = facts.engine()?;
    let mut findings = Vec::new();
    if matches!(engine.storage.as_str(), "vfs" | "devicemapper" | "aufs") {
        let what = Say::new("doctor.storage.slow").with("driver", &engine.storage);
        let finding = Finding::new(facts.for_kind(Severity::Warning), what, Say::new("doctor.storage.slow-advice"));
        findings.push(finding.seen(engine.address.as_str(), format!("storage driver {}", engine.storage)));
    }
    if let Some(Ok(disk)) = facts.host.disks.get("engine").filter(|_| engine.local) {
        // kind known issues: the kubelet looks for the root file system's device, which is not among the node's devices.
        let hidden =
            matches!(disk.kind.as_str(), "btrfs" | "zfs") || disk.device.starts_with("/dev/mapper/") || disk.device.starts_with("/dev/dm-");
        if hidden {
            let finding = Finding::new(Severity::Note, Say::new("doctor.storage.device"), Say::new("doctor.storage.device-advice"));
            findings.push(finding.seen(disk.path.as_str(), format!("{} on {}", disk.kind, disk.device)));
        }
    }
    Ok(findings)
}

fn image_store(facts: &Facts) -> Looked {
    let engine = facts.engine()?;
    if !engine.containerd_store {
        return Ok(Vec::new());
    }
    let finding = Finding::new(Severity::Note, Say::new("doctor.image-store.found"), Say::new("doctor.image-store.advice"));
    Ok(vec![finding.seen(engine.address.as_str(), format!("storage driver {}, driver-type io.containerd.snapshotter.v1", engine.storage))])
}

fn rootless(facts: &Facts) -> Looked {
    let engine = facts.engine()?;
    if !engine.rootless {
        return Ok(Vec::new());
    }
    let finding = Finding::new(Severity::Note, Say::new("doctor.rootless.found"), Say::new("doctor.rootless.advice"));
    Ok(vec![finding.seen(engine.address.as_str(), "rootless")])
}

fn snap(facts: &Facts) -> Looked {
    let engine = facts.local_engine()?;
    let program = facts.host.docker_program.as_deref().unwrap_or_default();
    if !engine.folder.contains("/snap/") && !program.starts_with("/snap/") && program != "/usr/bin/snap" {
        return Ok(Vec::new());
    }
    let finding = Finding::new(Severity::Note, Say::new("doctor.snap.found"), Say::new("doctor.snap.advice"));
    Ok(vec![finding.seen("docker", format!("program {program}, folder {}", engine.folder))])
}

fn init(facts: &Facts) -> Looked {
    facts.local_engine()?;
    let set = facts.host.daemon_json.clone()?.is_some_and(|json| json["init"].as_bool() == Some(true));
    if !set {
        return Ok(Vec::new());
    }
    let finding = Finding::new(facts.for_kind(Severity::Blocker), Say::new("doctor.init.found"), Say::new("doctor.init.advice"));
    Ok(vec![finding.seen("daemon.json", "\"init\": true")])
}

/// Blocks that kind gives to pods and services.
const CLUSTER_BLOCKS: &[&str] = &["10.244.0.0/16", "10.96.0.0/16"];

fn subnets(facts: &Facts) -> Looked {
    let engine = match facts.local_engine() {
        Ok(engine) => engine,
        Err(Blind::NotHere(Absent::EngineElsewhere)) => return Err(Blind::NotHere(Absent::EngineElsewhere)),
        Err(blind) => return Err(blind),
    };
    let networks = engine.networks.as_ref().map_err(Clone::clone)?;
    let routes = facts.host.routes.as_ref().map_err(Clone::clone)?;
    let mut clash =
        Finding::new(facts.for_kind(Severity::Warning), Say::new("doctor.subnets.clash"), Say::new("doctor.subnets.clash-advice"));
    for (name, nets) in networks {
        for net in nets {
            for route in routes.iter().filter(|r| r.net.bits > 0 && r.net.overlaps(*net)) {
                clash.add(format!("network {name}"), format!("{net} overlaps the route to {} through {}", route.net, route.interface));
            }
        }
    }
    let mut inner = Finding::new(Severity::Note, Say::new("doctor.subnets.inner"), Say::new("doctor.subnets.inner-advice"));
    for block in CLUSTER_BLOCKS.iter().filter_map(|b| Net::parse(b)) {
        // A wider route (a company's 10.0.0.0/8) is shadowed inside of the nodes and harms nobody.
        for route in routes.iter().filter(|r| r.net.bits >= block.bits && r.net.overlaps(block)) {
            inner.add(format!("cluster addresses {block}"), format!("overlap the route to {} through {}", route.net, route.interface));
        }
    }
    let mut many = Finding::new(facts.for_kind(Severity::Warning), Say::new("doctor.subnets.many"), Say::new("doctor.subnets.many-advice"));
    if networks.len() >= TIGHT && !networks.contains_key("kind") {
        many.add(engine.address.as_str(), format!("{} networks of about {NETWORKS}, and none called kind yet", networks.len()));
    }
    Ok([clash, many, inner].into_iter().filter_map(Finding::if_any).collect())
}
