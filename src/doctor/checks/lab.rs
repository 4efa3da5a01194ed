//! The lab: its files, its process, its node containers, and what was installed for it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cluster::Backend;
use crate::cluster::steps::Say;
use crate::doctor::facts::{Facts, items, name, text};
use crate::doctor::fix::Fix;
use crate::doctor::{Absent, Blind, Check, Finding, Group, Looked, Severity};

/// The lab's record.
pub(super) const RECORD: Check =
    Check { id: "DL-DOC-301", slug: "record", group: Group::Lab, least: Severity::Blocker, most: Severity::Blocker, look: record };
/// The lab's kubeconfig.
pub(super) const KUBECONFIG: Check =
    Check { id: "DL-DOC-302", slug: "kubeconfig", group: Group::Lab, least: Severity::Warning, most: Severity::Blocker, look: kubeconfig };
/// Whether the lab's API answers.
pub(super) const ANSWERS: Check =
    Check { id: "DL-DOC-303", slug: "answers", group: Group::Lab, least: Severity::Blocker, most: Severity::Blocker, look: answers };
/// The process of an embedded lab.
pub(super) const PROCESS: Check =
    Check { id: "DL-DOC-304", slug: "process", group: Group::Lab, least: Severity::Note, most: Severity::Blocker, look: process };
/// The node containers of a lab on kind.
pub(super) const CONTAINERS: Check =
    Check { id: "DL-DOC-305", slug: "containers", group: Group::Lab, least: Severity::Blocker, most: Severity::Blocker, look: containers };
/// Addresses of containers and nodes.
pub(super) const ADDRESSES: Check =
    Check { id: "DL-DOC-306", slug: "addresses", group: Group::Lab, least: Severity::Blocker, most: Severity::Blocker, look: addresses };
/// What was installed.
pub(super) const INSTALLED: Check =
    Check { id: "DL-DOC-307", slug: "installed", group: Group::Lab, least: Severity::Warning, most: Severity::Blocker, look: installed };
/// What is left of labs that are gone.
pub(super) const LEFTOVERS: Check =
    Check { id: "DL-DOC-308", slug: "leftovers", group: Group::Lab, least: Severity::Note, most: Severity::Note, look: leftovers };
/// A lock beside the user's kubeconfig.
pub(super) const LOCK: Check =
    Check { id: "DL-DOC-309", slug: "kubeconfig-lock", group: Group::Lab, least: Severity::Note, most: Severity::Warning, look: lock };

/// A lock older than this, in seconds, was left behind.
const OLD_LOCK: u64 = 60;

fn record(facts: &Facts) -> Looked {
    match &facts.lab.record {
        Err(Blind::CouldNotLook(reason)) => {
            let finding = Finding::new(Severity::Blocker, Say::new("doctor.record.found"), Say::new("doctor.record.advice"));
            Ok(vec![finding.seen(facts.lab.folder.as_str(), reason.as_str())])
        }
        Err(blind) => Err(blind.clone()),
        Ok(_) => Ok(Vec::new()),
    }
}

fn kubeconfig(facts: &Facts) -> Looked {
    let record = facts.record()?;
    let path = record.kubeconfig.display().to_string();
    match &facts.lab.kubeconfig {
        Err(Blind::CouldNotLook(reason)) => {
            let finding = Finding::new(Severity::Blocker, Say::new("doctor.kubeconfig.found"), Say::new("doctor.kubeconfig.advice"));
            Ok(vec![finding.seen(path, reason.as_str())])
        }
        Err(blind) => Err(blind.clone()),
        // On a cluster that was there before it is the user's own file.
        Ok(mode) if mode & 0o077 != 0 && record.backend != Backend::Context => {
            let finding = Finding::new(
                Severity::Warning,
                Say::new("doctor.kubeconfig.open"),
                Say::new("doctor.kubeconfig.open-advice").with("path", &path),
            );
            Ok(vec![finding.seen(path, format!("mode {mode:04o}"))])
        }
        Ok(_) => Ok(Vec::new()),
    }
}

fn answers(facts: &Facts) -> Looked {
    let record = facts.record()?;
    if record.backend == Backend::Embedded && !facts.lab.running {
        return Err(Blind::NotHere(Absent::NoCluster));
    }
    match &facts.cluster {
        Err(Blind::CouldNotLook(reason)) => {
            let advice = match record.backend {
                Backend::Embedded => "doctor.answers.embedded-advice",
                Backend::Kind => "doctor.answers.kind-advice",
                Backend::Context => "doctor.answers.context-advice",
            };
            let finding = Finding::new(Severity::Blocker, Say::new("doctor.answers.found").with("lab", &record.lab), Say::new(advice));
            Ok(vec![finding.seen(record.server.as_str(), reason.as_str())])
        }
        _ => Ok(Vec::new()),
    }
}

fn process(facts: &Facts) -> Looked {
    let record = facts.record()?;
    if record.backend != Backend::Embedded {
        return Err(Blind::NotHere(Absent::NotEmbedded));
    }
    let of = record.pid.map_or_else(|| "process".to_owned(), |pid| format!("process {pid}"));
    if !facts.lab.running {
        let finding = Finding::new(
            Severity::Note,
            Say::new("doctor.process.stopped").with("lab", &record.lab),
            Say::new("doctor.process.stopped-advice"),
        );
        return Ok(vec![finding.seen(of, "does not run")]);
    }
    if facts.lab.sockets == Some(false) {
        let folder = record.sockets.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
        let finding = Finding::new(Severity::Blocker, Say::new("doctor.process.sockets"), Say::new("doctor.process.sockets-advice"));
        return Ok(vec![finding.seen(folder, "is gone")]);
    }
    if record.version != facts.lab.version {
        let what = Say::new("doctor.process.version").with("theirs", &record.version).with("ours", &facts.lab.version);
        let finding = Finding::new(Severity::Warning, what, Say::new("doctor.process.version-advice"));
        return Ok(vec![finding.seen(of, format!("dralab {}", record.version))]);
    }
    Ok(Vec::new())
}

fn kind_nodes(facts: &Facts) -> Result<(Vec<String>, &[crate::doctor::facts::Node]), Blind> {
    let record = facts.record()?;
    if record.backend != Backend::Kind {
        return Err(Blind::NotHere(Absent::NotKind));
    }
    let engine = facts.engine.as_ref().map_err(Clone::clone)?;
    let clusters = engine.clusters.as_ref().map_err(Clone::clone)?;
    let mut wanted = vec![crate::cluster::LabSpec::control_plane(&record.lab)];
    wanted.extend(record.spec.workers(&record.lab));
    Ok((wanted, clusters.get(&record.lab).map(Vec::as_slice).unwrap_or_default()))
}

fn containers(facts: &Facts) -> Looked {
    let (wanted, nodes) = kind_nodes(facts)?;
    let stopped_say = Say::new("doctor.containers.stopped");
    let mut stopped = Finding::new(Severity::Blocker, stopped_say, Say::new("doctor.containers.stopped-advice"));
    let mut missing = Finding::new(Severity::Blocker, Say::new("doctor.containers.missing"), Say::new("doctor.containers.missing-advice"));
    for name in wanted {
        match nodes.iter().find(|n| n.name == name) {
            None => missing.add(format!("container {name}"), "is not there"),
            Some(node) if !node.running => {
                stopped.add(format!("container {name}"), "does not run");
                stopped = stopped.fixed_by(Fix::StartContainer { name });
            }
            Some(_) => {}
        }
    }
    Ok([missing, stopped].into_iter().filter_map(Finding::if_any).collect())
}

fn addresses(facts: &Facts) -> Looked {
    let (_, containers) = kind_nodes(facts)?;
    let mut finding = Finding::new(Severity::Blocker, Say::new("doctor.addresses.found"), Say::new("doctor.addresses.advice"));
    for node in facts.list("nodes")? {
        let known: BTreeSet<&str> =
            items(&node["status"]["addresses"]).filter(|a| text(&a["type"]) == "InternalIP").map(|a| text(&a["address"])).collect();
        let Some(container) = containers.iter().find(|c| c.name == name(node) && c.running) else { continue };
        if !known.is_empty() && !container.addresses.iter().any(|a| known.contains(a.as_str())) {
            let known: Vec<&str> = known.into_iter().collect();
            finding.add(
                format!("node/{}", name(node)),
                format!("InternalIP {}, its container has {}", known.join(", "), container.addresses.join(", ")),
            );
        }
    }
    Ok(finding.if_any().into_iter().collect())
}

/// What differs first: every value that is wanted has to be there; what the server added does not matter.
fn difference(wanted: &Value, found: &Value, path: &str) -> Option<String> {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().find_map(|(key, value)| difference(value, found.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}")))
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            wanted.iter().zip(found).enumerate().find_map(|(index, (w, f))| difference(w, f, &format!("{path}[{index}]")))
        }
        // Empty values are not kept by the server.
        (Value::Null, _) => None,
        (Value::Object(map), Value::Null) if map.is_empty() => None,
        (Value::Array(list), Value::Null) if list.is_empty() => None,
        (Value::String(text), Value::Null) if text.is_empty() => None,
        (Value::Bool(false), Value::Null) => None,
        (wanted, found) if wanted == found => None,
        (wanted, found) => Some(format!("{}: {}, wanted {}", path.trim_start_matches('.'), short(found), short(wanted))),
    }
}

fn short(value: &Value) -> String {
    if value.is_null() {
        return "missing".to_owned();
    }
    let text = value.to_string();
    if text.chars().count() > 60 { format!("{}...", text.chars().take(57).collect::<String>()) } else { text }
}

fn installed(facts: &Facts) -> Looked {
    facts.record()?;
    let objects = facts.lab.installed.as_ref().map_err(Clone::clone)?;
    let mut missing = Finding::new(Severity::Blocker, Say::new("doctor.installed.missing"), Say::new("doctor.installed.advice"));
    let mut changed = Finding::new(Severity::Warning, Say::new("doctor.installed.changed"), Say::new("doctor.installed.advice"));
    for object in objects {
        match &object.found {
            None => missing.add(object.object.as_str(), "is not there"),
            Some(found) => {
                if let Some(difference) = difference(&object.wanted, found, "") {
                    changed.add(object.object.as_str(), difference);
                }
            }
        }
    }
    let findings = [missing, changed].into_iter().filter_map(Finding::if_any);
    Ok(findings.map(|f| f.fixed_by(Fix::Reinstall)).collect())
}

fn leftovers(facts: &Facts) -> Looked {
    let mut findings = Vec::new();
    let mut folders = Finding::new(Severity::Note, Say::new("doctor.leftovers.folders"), Say::new("doctor.leftovers.folders-advice"));
    for folder in &facts.lab.leftovers {
        folders.add(folder.as_str(), "no lab.json in it, and no process uses it");
        folders = folders.fixed_by(Fix::RemoveFolder { path: folder.into() });
    }
    findings.extend(folders.if_any());
    if let Ok(engine) = &facts.engine {
        let mut lost = Finding::new(Severity::Note, Say::new("doctor.leftovers.clusters"), Say::new("doctor.leftovers.clusters-advice"));
        for cluster in engine.with_driver.iter().filter(|c| !facts.lab.known.contains(c)) {
            lost.add(format!("kind cluster {cluster}"), "has dralab's driver, and no lab of this user has a record of it");
        }
        findings.extend(lost.if_any());
    }
    Ok(findings)
}

fn lock(facts: &Facts) -> Looked {
    let mut finding = Finding::new(Severity::Warning, Say::new("doctor.kubeconfig-lock.found"), Say::new("doctor.kubeconfig-lock.advice"));
    for (path, age) in facts.host.kubeconfig_locks.iter().filter(|(_, age)| **age >= OLD_LOCK) {
        finding.add(path, format!("{age} s old"));
    }
    Ok(finding.if_any().into_iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::difference;

    #[test]
    fn what_the_server_added_is_no_difference() {
        let wanted = json!({"spec": {"a": 1, "list": [{"name": "x"}], "none": {}, "off": false}});
        let found = json!({"spec": {"a": 1, "b": 2, "list": [{"name": "x", "default": true}]}, "status": {}});
        assert_eq!(difference(&wanted, &found, ""), None);
        let found = json!({"spec": {"a": 1, "list": [{"name": "y"}]}});
        assert_eq!(difference(&wanted, &found, "").as_deref(), Some("spec.list[0].name: \"y\", wanted \"x\""));
    }
}
