//! kind and kubectl.

use crate::cluster::Backend;
use crate::cluster::kind::tool::NEW;
use crate::cluster::steps::Say;
use crate::doctor::facts::{Facts, version};
use crate::doctor::{Blind, Check, Finding, Group, Looked, Severity};

/// kind, and whether it can make nodes of the lab's image.
pub(super) const KIND: Check =
    Check { id: "DL-DOC-201", slug: "kind", group: Group::Tools, least: Severity::Note, most: Severity::Blocker, look: kind };
/// kubectl, and whether it fits the server.
pub(super) const KUBECTL: Check =
    Check { id: "DL-DOC-202", slug: "kubectl", group: Group::Tools, least: Severity::Note, most: Severity::Warning, look: kubectl };

fn kind(facts: &Facts) -> Looked {
    let record = facts.lab.record.as_ref().ok().filter(|r| r.backend == Backend::Kind);
    let needs = |severity| if record.is_some() { Severity::Blocker } else { severity };
    let tool = match &facts.tools.kind {
        Ok(tool) => tool,
        Err(Blind::NotHere(_)) => {
            return Ok(vec![Finding::new(needs(Severity::Note), Say::new("doctor.kind.none"), Say::new("doctor.kind.none-advice"))]);
        }
        Err(Blind::CouldNotLook(reason)) => {
            let finding = Finding::new(needs(Severity::Warning), Say::new("doctor.kind.broken"), Say::new("doctor.kind.none-advice"));
            return Ok(vec![finding.seen("kind", reason.as_str())]);
        }
    };
    let Some(found) = version(&tool.version) else { return Err(Blind::because(format!("{} says version {}", tool.program, tool.version))) };
    if found >= (NEW.major, NEW.minor, NEW.patch) {
        return Ok(Vec::new());
    }
    // Node images of Kubernetes 1.36 and newer, and so the default, have a containerd that an older kind cannot read.
    let image = record.and_then(|r| r.kind.as_ref()).map(|k| k.node_image.as_str());
    let minor = image.and_then(|i| i.rsplit_once(':')).and_then(|(_, tag)| version(tag)).map_or(u32::MAX, |(_, minor, _)| minor);
    let severity = if minor >= 36 { facts.for_kind(Severity::Blocker) } else { Severity::Note };
    let what = Say::new("doctor.kind.old").with("found", &tool.version).with("needed", &NEW);
    let finding = Finding::new(severity, what, Say::new("doctor.kind.old-advice").with("needed", &NEW));
    Ok(vec![finding.seen(tool.program.as_str(), format!("{}, node image {}", tool.version, image.unwrap_or("default")))])
}

fn kubectl(facts: &Facts) -> Looked {
    let tool = match &facts.tools.kubectl {
        Ok(tool) => tool,
        Err(Blind::NotHere(_)) => {
            return Ok(vec![Finding::new(Severity::Note, Say::new("doctor.kubectl.none"), Say::new("doctor.kubectl.none-advice"))]);
        }
        Err(Blind::CouldNotLook(reason)) => {
            let finding = Finding::new(Severity::Warning, Say::new("doctor.kubectl.broken"), Say::new("doctor.kubectl.none-advice"));
            return Ok(vec![finding.seen("kubectl", reason.as_str())]);
        }
    };
    let Some((_, client, _)) = version(&tool.version) else {
        return Err(Blind::because(format!("{} says version {}", tool.program, tool.version)));
    };
    let Ok(cluster) = &facts.cluster else { return Ok(Vec::new()) };
    let Some((_, server, _)) = version(&cluster.version) else { return Ok(Vec::new()) };
    if client.abs_diff(server) <= 1 {
        return Ok(Vec::new());
    }
    let what = Say::new("doctor.kubectl.skew").with("client", &tool.version).with("server", &cluster.version);
    let finding = Finding::new(Severity::Warning, what, Say::new("doctor.kubectl.skew-advice"));
    Ok(vec![finding.seen(tool.program.as_str(), tool.version.as_str()).seen(cluster.server.as_str(), cluster.version.as_str())])
}
