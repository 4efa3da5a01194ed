//! ResourceClaims: reservations, finalizers, allocations that nobody uses or that have no device any more.

use std::collections::BTreeSet;

use crate::cluster::steps::Say;
use crate::doctor::facts::{Facts, by_uid, called, is_done, is_going, items, text, time};
use crate::doctor::{Check, Finding, Group, Looked, Severity};

/// So many consumers a claim may have (`ResourceClaimReservedForMaxSize`; 32 before Kubernetes 1.33).
const MOST: usize = 256;
/// From so many on it is worth a word.
const NEAR: usize = 230;
/// Seconds that a controller may take for what it does by itself.
const PATIENCE: i64 = 60;

/// Reservations of pods that are gone, of what is no pod, and claims near the limit.
pub(super) const RESERVATIONS: Check = Check {
    id: "DL-DOC-441",
    slug: "reservations",
    group: Group::Cluster,
    least: Severity::Note,
    most: Severity::Warning,
    look: reservations,
};

/// Claims that are deleted and stay.
pub(super) const STUCK: Check =
    Check { id: "DL-DOC-442", slug: "claim-stays", group: Group::Cluster, least: Severity::Warning, most: Severity::Warning, look: stuck };

/// Claims that hold devices which nobody uses.
pub(super) const UNUSED: Check =
    Check { id: "DL-DOC-443", slug: "claim-unused", group: Group::Cluster, least: Severity::Note, most: Severity::Note, look: unused };

/// Claims whose devices are in no slice any more.
pub(super) const GONE_DEVICES: Check = Check {
    id: "DL-DOC-444",
    slug: "device-gone",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: gone_devices,
};

fn reservations(facts: &Facts) -> Looked {
    let pods = by_uid(facts.list("pods")?);
    let advice = || Say::new("doctor.reservations.dead-advice");
    let mut dead = Finding::new(Severity::Warning, Say::new("doctor.reservations.dead"), advice());
    let mut done = Finding::new(Severity::Warning, Say::new("doctor.reservations.done"), Say::new("doctor.reservations.done-advice"));
    let mut others = Finding::new(Severity::Note, Say::new("doctor.reservations.other"), Say::new("doctor.reservations.other-advice"));
    let mut near = Finding::new(
        Severity::Warning,
        Say::new("doctor.reservations.near").with("most", &MOST),
        Say::new("doctor.reservations.near-advice"),
    );
    for claim in facts.list("resourceclaims")? {
        let of = called("resourceclaim", claim);
        let consumers: Vec<_> = items(&claim["status"]["reservedFor"]).collect();
        if consumers.len() >= NEAR {
            near.add(of.clone(), format!("{} in status.reservedFor", consumers.len()));
        }
        for consumer in consumers {
            let (name, uid) = (text(&consumer["name"]), text(&consumer["uid"]));
            let seen = format!("reservedFor {} {name}, uid {uid}", text(&consumer["resource"]));
            if text(&consumer["resource"]) != "pods" || !text(&consumer["apiGroup"]).is_empty() {
                if text(&consumer["resource"]) != "podgroups" {
                    others.add(of.clone(), seen);
                }
                continue;
            }
            match pods.get(uid) {
                None => dead.add(of.clone(), seen),
                // Its reservation goes within moments, where the claim controller is at work.
                Some(pod) if is_done(pod) && ended_long_ago(pod, facts) => {
                    done.add(of.clone(), format!("{seen}, phase {}", text(&pod["status"]["phase"])));
                }
                Some(_) => {}
            }
        }
    }
    Ok([dead, done, near, others].into_iter().filter_map(Finding::if_any).collect())
}

fn ended_long_ago(pod: &serde_json::Value, facts: &Facts) -> bool {
    let ends = items(&pod["status"]["containerStatuses"]).filter_map(|s| time(&s["state"]["terminated"]["finishedAt"]));
    ends.max().is_some_and(|end| facts.now.duration_since(end).as_secs() > PATIENCE)
}

fn stuck(facts: &Facts) -> Looked {
    let pods = by_uid(facts.list("pods")?);
    let mut findings = Vec::new();
    for claim in facts.list("resourceclaims")? {
        let Some(since) = time(&claim["metadata"]["deletionTimestamp"]) else { continue };
        let seconds = facts.now.duration_since(since).as_secs();
        if seconds < PATIENCE {
            continue;
        }
        let of = called("resourceclaim", claim);
        let finalizers: Vec<&str> = items(&claim["metadata"]["finalizers"]).map(text).collect();
        let users: Vec<String> = items(&claim["status"]["reservedFor"]).map(|c| text(&c["name"]).to_owned()).collect();
        let foreign = finalizers.iter().any(|f| *f != "resource.kubernetes.io/delete-protection");
        let advice = match (foreign, users.is_empty()) {
            (true, _) => "doctor.claim-stays.foreign-advice",
            (false, false) => "doctor.claim-stays.used-advice",
            (false, true) => "doctor.claim-stays.controller-advice",
        };
        let what = Say::new("doctor.claim-stays.found").with("claim", &of).with("seconds", &seconds);
        let mut finding =
            Finding::new(Severity::Warning, what, Say::new(advice)).seen(&of, format!("finalizers {}", finalizers.join(", ")));
        for consumer in items(&claim["status"]["reservedFor"]) {
            let state = pods.get(text(&consumer["uid"])).map_or("gone".to_owned(), |p| {
                let going = if is_going(p) { ", being deleted" } else { "" };
                format!("phase {}{going}", text(&p["status"]["phase"]))
            });
            finding.add(format!("{} {}", text(&consumer["resource"]), text(&consumer["name"])), state);
        }
        findings.push(finding);
    }
    Ok(findings)
}

fn unused(facts: &Facts) -> Looked {
    let pods = facts.list("pods")?;
    let mut finding = Finding::new(Severity::Note, Say::new("doctor.claim-unused.found"), Say::new("doctor.claim-unused.advice"));
    for claim in facts.list("resourceclaims")? {
        let allocation = &claim["status"]["allocation"];
        let empty = items(&claim["status"]["reservedFor"]).next().is_none();
        if allocation.is_null() || !empty || is_going(claim) {
            continue;
        }
        let since = time(&allocation["allocationTimestamp"]).or_else(|| time(&claim["metadata"]["creationTimestamp"]));
        if since.is_some_and(|since| facts.now.duration_since(since).as_secs() < PATIENCE) {
            continue;
        }
        let devices: Vec<String> = items(&allocation["devices"]["results"])
            .map(|r| format!("{}/{}/{}", text(&r["driver"]), text(&r["pool"]), text(&r["device"])))
            .collect();
        let named = pods.iter().any(|p| {
            !is_done(p)
                && p["metadata"]["namespace"] == claim["metadata"]["namespace"]
                && crate::doctor::facts::claims_of(p).any(|(_, c)| c == claim["metadata"]["name"].as_str())
        });
        let named = if named { ", a pod names it" } else { ", no pod names it" };
        finding.add(called("resourceclaim", claim), format!("holds {}; reservedFor is empty{named}", devices.join(", ")));
    }
    Ok(finding.if_any().into_iter().collect())
}

fn gone_devices(facts: &Facts) -> Looked {
    let mut there = BTreeSet::new();
    for slice in facts.list("resourceslices")? {
        for device in items(&slice["spec"]["devices"]) {
            there.insert((text(&slice["spec"]["driver"]), text(&slice["spec"]["pool"]["name"]), text(&device["name"])));
        }
    }
    let mut finding = Finding::new(Severity::Warning, Say::new("doctor.device-gone.found"), Say::new("doctor.device-gone.advice"));
    for claim in facts.list("resourceclaims")? {
        for result in items(&claim["status"]["allocation"]["devices"]["results"]) {
            let id = (text(&result["driver"]), text(&result["pool"]), text(&result["device"]));
            if !there.contains(&id) {
                finding.add(called("resourceclaim", claim), format!("allocated {}/{}/{}, which is in no resourceslice", id.0, id.1, id.2));
            }
        }
    }
    Ok(finding.if_any().into_iter().collect())
}
