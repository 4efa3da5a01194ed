//! Drivers behind the slices: registered, there, and steady.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cluster::steps::Say;
use crate::doctor::facts::{Facts, by_uid, called, is_done, is_going, is_true, items, names, text};
use crate::doctor::{Absent, Blind, Check, Finding, Group, Looked, Severity};

/// So many restarts are too many.
const MANY: u64 = 3;

/// A kubelet that has no driver of the name that a slice has.
pub(super) const NOT_REGISTERED: Check = Check {
    id: "DL-DOC-421",
    slug: "driver-not-registered",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: not_registered,
};

/// Slices of a node on which no driver is ready.
pub(super) const NO_POD: Check = Check {
    id: "DL-DOC-422",
    slug: "driver-not-there",
    group: Group::Cluster,
    least: Severity::Note,
    most: Severity::Warning,
    look: no_pod,
};

/// Driver pods that begin again and again.
pub(super) const RESTARTING: Check = Check {
    id: "DL-DOC-423",
    slug: "driver-restarts",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: restarting,
};

/// Pods that mount the kubelet's registration folder: DRA drivers (and other plugins).
fn plugins(pods: &[Value]) -> impl Iterator<Item = &Value> {
    let mounts = |pod: &&Value| {
        items(&pod["spec"]["volumes"]).any(|v| {
            let path = text(&v["hostPath"]["path"]).trim_end_matches('/');
            path.ends_with("/plugins_registry") || path.ends_with("/plugins") || path == "/var/lib/kubelet"
        })
    };
    pods.iter().filter(|pod| !is_done(pod)).filter(mounts)
}

/// Whether a pod's spec names a driver, as an argument or in its environment.
fn names_driver(pod: &Value, driver: &str) -> bool {
    let in_text = |value: &Value| value.as_str().is_some_and(|t| t.split(['=', '/', ',', ' ']).any(|part| part == driver));
    items(&pod["spec"]["containers"]).any(|c| {
        items(&c["args"]).chain(items(&c["command"])).any(in_text)
            || items(&c["env"]).any(|e| in_text(&e["value"]))
            || items(&c["volumeMounts"]).any(|m| in_text(&m["mountPath"]))
    })
}

/// The driver's name in the kubelet's message.
fn driver_in(message: &str) -> Option<&str> {
    let named = message.split_once("DRA driver ").map(|(_, rest)| rest).or_else(|| message.split_once("plugin name ").map(|(_, r)| r))?;
    named.split_whitespace().next()
}

fn not_registered(facts: &Facts) -> Looked {
    let pods = by_uid(facts.list("pods")?);
    let slices = facts.list("resourceslices")?;
    let mut found: BTreeMap<(&str, &str), Vec<(&Value, &str)>> = BTreeMap::new();
    for event in facts.list("events")? {
        let message = text(&event["message"]);
        if !message.contains("is not registered") && !message.contains("not found in the list of registered DRA plugins") {
            continue;
        }
        let (Some(driver), Some(pod)) = (driver_in(message), pods.get(text(&event["involvedObject"]["uid"]))) else { continue };
        // An event outlives what it tells of: a pod that runs has its devices by now.
        if text(&pod["status"]["phase"]) == "Pending" && !is_going(pod) {
            found.entry((driver, text(&pod["spec"]["nodeName"]))).or_default().push((pod, message));
        }
    }
    let finding = |((driver, node), seen): ((&str, &str), Vec<(&Value, &str)>)| {
        let what = Say::new("doctor.driver-not-registered.found").with("driver", driver).with("node", node);
        let advice = Say::new("doctor.driver-not-registered.advice").with("driver", driver).with("node", node);
        let mut finding = Finding::new(Severity::Warning, what, advice);
        let published = slices.iter().filter(|s| text(&s["spec"]["nodeName"]) == node);
        let drivers: BTreeSet<&str> = published.map(|s| text(&s["spec"]["driver"])).collect();
        let drivers: Vec<&str> = drivers.into_iter().collect();
        finding.add(
            format!("node/{node}"),
            format!("slices of drivers: {}", if drivers.is_empty() { "none".to_owned() } else { drivers.join(", ") }),
        );
        let mut told = BTreeSet::new();
        for (pod, message) in seen {
            if told.insert(called("pod", pod)) {
                finding.add(called("pod", pod), message);
            }
        }
        finding
    };
    Ok(found.into_iter().map(finding).collect())
}

fn no_pod(facts: &Facts) -> Looked {
    if facts.cluster()?.embedded {
        // There the drivers run in the lab's process, not in pods.
        return Err(Blind::NotHere(Absent::EmbeddedCluster));
    }
    let pods = facts.list("pods")?;
    let mut per_node: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for slice in facts.list("resourceslices")? {
        let node = text(&slice["spec"]["nodeName"]);
        if !node.is_empty() {
            *per_node.entry(node).or_default().entry(text(&slice["spec"]["driver"])).or_default() += 1;
        }
    }
    let nodes = names(facts.list("nodes")?);
    let mut findings = Vec::new();
    let mut unseen =
        Finding::new(Severity::Note, Say::new("doctor.driver-not-there.none"), Say::new("doctor.driver-not-there.none-advice"));
    // Slices of nodes that are gone have a check of their own.
    for (node, drivers) in per_node.into_iter().filter(|(node, _)| nodes.contains(node)) {
        let here: Vec<&Value> = plugins(pods).filter(|p| text(&p["spec"]["nodeName"]) == node).collect();
        for (driver, slices) in &drivers {
            // One that names no driver at all may be this one's.
            let named = |d: &&str| here.iter().copied().filter(|p| names_driver(p, d)).collect::<Vec<&Value>>();
            let mut own = named(driver);
            if own.is_empty() {
                let others: Vec<&Value> = drivers.keys().filter(|d| *d != driver).flat_map(named).collect();
                own = here.iter().copied().filter(|p| !others.iter().any(|o| std::ptr::eq(*o, *p))).collect();
            }
            if own.iter().any(|pod| is_true(pod, "Ready") && !is_going(pod)) {
                continue;
            }
            if own.is_empty() {
                unseen.add(format!("node/{node}"), format!("driver {driver}, slices: {slices}"));
                continue;
            }
            let told = |id| Say::new(id).with("driver", driver).with("node", node);
            let (what, advice) = (told("doctor.driver-not-there.not-ready"), told("doctor.driver-not-there.not-ready-advice"));
            let mut finding =
                Finding::new(Severity::Warning, what, advice).seen(format!("node/{node}"), format!("driver {driver}, slices: {slices}"));
            for pod in own {
                finding.add(called("pod", pod), format!("phase {}, Ready {}", text(&pod["status"]["phase"]), is_true(pod, "Ready")));
            }
            findings.push(finding);
        }
    }
    findings.extend(unseen.if_any());
    Ok(findings)
}

fn restarting(facts: &Facts) -> Looked {
    let what = Say::new("doctor.driver-restarts.found");
    let mut finding = Finding::new(Severity::Warning, what, Say::new("doctor.driver-restarts.advice"));
    for pod in plugins(facts.list("pods")?) {
        for status in items(&pod["status"]["containerStatuses"]).chain(items(&pod["status"]["initContainerStatuses"])) {
            let count = status["restartCount"].as_u64().unwrap_or_default();
            let waiting = text(&status["state"]["waiting"]["reason"]);
            if count < MANY && waiting != "CrashLoopBackOff" {
                continue;
            }
            let last = &status["lastState"]["terminated"];
            let code = last["exitCode"].as_i64().map(|c| format!(", last exit code {c} {}", text(&last["reason"]))).unwrap_or_default();
            let waiting = if waiting.is_empty() { String::new() } else { format!(", {waiting}") };
            finding.add(format!("{} container {}", called("pod", pod), text(&status["name"])), format!("{count} restarts{waiting}{code}"));
        }
    }
    Ok(finding.if_any().into_iter().collect())
}
