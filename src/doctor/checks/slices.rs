//! ResourceSlices and the pools that they make up.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cluster::steps::Say;
use crate::doctor::facts::{Facts, called, items, name, names, text, time};
use crate::doctor::{Check, Finding, Group, Looked, Severity};

/// A slice as new as this, in seconds, may belong to a pool that is being written just now.
const FRESH: i64 = 30;

/// Pools with slices missing (upstream skips them, or refuses requests for all devices).
pub(super) const INCOMPLETE: Check = Check {
    id: "DL-DOC-411",
    slug: "incomplete-pool",
    group: Group::Cluster,
    least: Severity::Note,
    most: Severity::Warning,
    look: incomplete,
};

/// The same device name twice in a pool: the scheduler takes no device of such a pool.
pub(super) const DUPLICATE_DEVICES: Check = Check {
    id: "DL-DOC-412",
    slug: "duplicate-device",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: duplicate_devices,
};

/// The same pool name on several nodes with the same device names: driver, pool and device have to be unique together.
pub(super) const COLLIDING: Check = Check {
    id: "DL-DOC-413",
    slug: "colliding-pools",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: colliding,
};

/// An attribute with and without the driver's domain: the real scheduler picks one of the two at random.
pub(super) const TWO_SPELLINGS: Check = Check {
    id: "DL-DOC-414",
    slug: "attribute-twice",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: two_spellings,
};

/// Slices of nodes that are not there.
pub(super) const NO_NODE: Check = Check {
    id: "DL-DOC-415",
    slug: "slice-without-node",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: no_node,
};

/// The slices of a pool: driver, pool name.
fn pools(slices: &[Value]) -> BTreeMap<(&str, &str), Vec<&Value>> {
    let mut pools: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    for slice in slices {
        pools.entry((text(&slice["spec"]["driver"]), text(&slice["spec"]["pool"]["name"]))).or_default().push(slice);
    }
    pools
}

fn generation(slice: &Value) -> i64 {
    slice["spec"]["pool"]["generation"].as_i64().unwrap_or_default()
}

fn wanted(slice: &Value) -> u64 {
    slice["spec"]["pool"]["resourceSliceCount"].as_u64().unwrap_or_default()
}

fn node(slice: &Value) -> &str {
    text(&slice["spec"]["nodeName"])
}

/// What each node sees of a pool: its own slices and those of no single node, of the newest generation.
fn views<'a>(slices: &[&'a Value]) -> BTreeMap<&'a str, Vec<&'a Value>> {
    let nodes: BTreeSet<&str> = slices.iter().map(|s| node(s)).collect();
    let single: Vec<&str> =
        if nodes.len() > 1 { nodes.into_iter().filter(|n| !n.is_empty()).collect() } else { nodes.into_iter().collect() };
    let view = |name: &'a str| {
        let seen: Vec<&Value> = slices.iter().copied().filter(|s| node(s) == name || node(s).is_empty()).collect();
        let newest = seen.iter().map(|s| generation(s)).max();
        (name, seen.into_iter().filter(|s| Some(generation(s)) == newest).collect())
    };
    single.into_iter().map(view).collect()
}

fn incomplete(facts: &Facts) -> Looked {
    let mut findings = Vec::new();
    for ((driver, pool), slices) in pools(facts.list("resourceslices")?) {
        for (node, kept) in views(&slices) {
            let Some(first) = kept.first() else { continue };
            let of_generation = slices.iter().filter(|s| generation(s) == generation(first)).count();
            let counts: BTreeSet<u64> = kept.iter().map(|s| wanted(s)).collect();
            let complete = |n: usize| counts.len() == 1 && counts.contains(&(n as u64));
            if complete(kept.len()) || complete(of_generation) {
                continue;
            }
            let newest = kept.iter().filter_map(|s| time(&s["metadata"]["creationTimestamp"])).max();
            let fresh = newest.is_some_and(|t| facts.now.duration_since(t).as_secs() < FRESH);
            let severity = if fresh { Severity::Note } else { Severity::Warning };
            let what = Say::new("doctor.incomplete-pool.found").with("driver", driver).with("pool", pool);
            let older = slices.iter().filter(|s| generation(s) < generation(first)).count();
            let mut finding = Finding::new(severity, what, Say::new("doctor.incomplete-pool.advice").with("driver", driver)).seen(
                format!("pool {driver}/{pool}"),
                format!(
                    "generation {}, resourceSliceCount {}, slices {}{}{}",
                    generation(first),
                    counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" and "),
                    kept.len(),
                    if older > 0 { format!(", of older generations {older}") } else { String::new() },
                    if node.is_empty() { String::new() } else { format!(", node {node}") },
                ),
            );
            for slice in &kept {
                finding.add(called("resourceslice", slice), format!("resourceSliceCount {}", wanted(slice)));
            }
            findings.push(finding);
        }
    }
    Ok(findings)
}

fn duplicate_devices(facts: &Facts) -> Looked {
    let mut findings = Vec::new();
    for ((driver, pool), slices) in pools(facts.list("resourceslices")?) {
        for kept in views(&slices).into_values() {
            let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for slice in kept {
                for device in items(&slice["spec"]["devices"]) {
                    places.entry(text(&device["name"])).or_default().push(name(slice));
                }
            }
            places.retain(|_, slices| slices.len() > 1);
            if places.is_empty() {
                continue;
            }
            let what = Say::new("doctor.duplicate-device.found").with("driver", driver).with("pool", pool);
            let mut finding = Finding::new(Severity::Warning, what, Say::new("doctor.duplicate-device.advice").with("driver", driver));
            for (device, slices) in places {
                finding.add(format!("device {driver}/{pool}/{device}"), format!("in resourceslice {}", slices.join(", ")));
            }
            findings.push(finding);
        }
    }
    Ok(findings)
}

fn colliding(facts: &Facts) -> Looked {
    let mut findings = Vec::new();
    for ((driver, pool), slices) in pools(facts.list("resourceslices")?) {
        let mut places: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (node, kept) in views(&slices) {
            for device in kept.iter().filter(|s| !self::node(s).is_empty()).flat_map(|s| items(&s["spec"]["devices"])) {
                places.entry(text(&device["name"])).or_default().insert(node);
            }
        }
        places.retain(|_, nodes| nodes.len() > 1);
        if places.is_empty() {
            continue;
        }
        let what = Say::new("doctor.colliding-pools.found").with("driver", driver).with("pool", pool);
        let mut finding = Finding::new(Severity::Warning, what, Say::new("doctor.colliding-pools.advice").with("driver", driver));
        for (device, nodes) in places {
            let nodes: Vec<&str> = nodes.into_iter().collect();
            finding.add(format!("device {driver}/{pool}/{device}"), format!("on nodes {}", nodes.join(", ")));
        }
        findings.push(finding);
    }
    Ok(findings)
}

fn two_spellings(facts: &Facts) -> Looked {
    let mut findings = Vec::new();
    for slice in facts.list("resourceslices")? {
        let driver = text(&slice["spec"]["driver"]);
        let mut twice: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for device in items(&slice["spec"]["devices"]) {
            for field in ["attributes", "capacity"] {
                let Some(map) = device[field].as_object() else { continue };
                for (key, qualified) in map {
                    let bare = key.strip_prefix(driver).and_then(|rest| rest.strip_prefix('/'));
                    if let Some((bare, own)) = bare.and_then(|b| map.get(b).map(|own| (b, own))) {
                        let same = if own == qualified { "same value" } else { "different values" };
                        twice.entry(text(&device["name"])).or_default().push(format!("{bare} and {key}: {same}"));
                    }
                }
            }
        }
        if twice.is_empty() {
            continue;
        }
        let what = Say::new("doctor.attribute-twice.found").with("driver", driver).with("slice", name(slice));
        let mut finding = Finding::new(Severity::Warning, what, Say::new("doctor.attribute-twice.advice"));
        for (device, seen) in twice {
            finding.add(format!("{} device {device}", called("resourceslice", slice)), seen.join(", "));
        }
        findings.push(finding);
    }
    Ok(findings)
}

fn no_node(facts: &Facts) -> Looked {
    let nodes = names(facts.list("nodes")?);
    let what = Say::new("doctor.slice-without-node.found");
    let mut finding = Finding::new(Severity::Warning, what, Say::new("doctor.slice-without-node.advice"));
    for slice in facts.list("resourceslices")?.iter().filter(|s| !node(s).is_empty() && !nodes.contains(node(s))) {
        finding.add(called("resourceslice", slice), format!("nodeName {}, driver {}", node(slice), text(&slice["spec"]["driver"])));
    }
    Ok(finding.if_any().into_iter().collect())
}
