//! What the server made of objects that were written with dry run.

use crate::cluster::steps::Say;
use crate::doctor::facts::{Facts, version};
use crate::doctor::{Check, Finding, Group, Looked, Severity};
use crate::model::features::{Feature, Features};

/// Seconds that two clocks may differ; the server's times have a resolution of one.
const APART: i64 = 5;
/// From so many on certificates and leases are at stake.
const FAR_APART: i64 = 60;

/// Fields that the server drops without a word, though their gates are on by default in its version.
pub(super) const DROPPED: Check = Check {
    id: "DL-DOC-402",
    slug: "dropped-fields",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Blocker,
    look: dropped,
};

/// The server's clock against this machine's.
pub(super) const CLOCK: Check =
    Check { id: "DL-DOC-403", slug: "clock", group: Group::Cluster, least: Severity::Note, most: Severity::Warning, look: clock };

fn dropped(facts: &Facts) -> Looked {
    let cluster = facts.cluster()?;
    let probe = cluster.probe.as_ref().map_err(Clone::clone)?;
    // A version that the table does not know is newer: there every gate of the table is judged as in the newest.
    let minor = version(&cluster.version).map_or(37, |(_, minor, _)| minor.clamp(34, 37));
    let on = Features::for_kubernetes(minor).unwrap_or_default();
    let core = Feature::DynamicResourceAllocation.name();
    let mut findings = Vec::new();
    for (severity, what) in [(Severity::Blocker, "doctor.dropped-fields.core"), (Severity::Warning, "doctor.dropped-fields.found")] {
        let mut finding = Finding::new(severity, Say::new(what), Say::new("doctor.dropped-fields.advice"));
        for one in &probe.dropped {
            let expected = Feature::by_name(&one.gate).is_some_and(|gate| on.has(gate));
            if expected && (one.gate == core) == (severity == Severity::Blocker) {
                finding.add(
                    one.field.as_str(),
                    format!("written, and not in the answer; its gate {} is on by default in 1.{minor}", one.gate),
                );
            }
        }
        findings.extend(finding.if_any());
    }
    Ok(findings)
}

fn clock(facts: &Facts) -> Looked {
    let probe = facts.cluster()?.probe.as_ref().map_err(Clone::clone)?;
    let Some(server) = probe.server_time else { return Err(crate::doctor::Blind::because("the server's answer has no time")) };
    let (before, after) = probe.asked;
    let late = before.duration_since(server).as_secs();
    let early = server.duration_since(after).as_secs();
    let apart = late.max(early);
    if apart < APART {
        return Ok(Vec::new());
    }
    let severity = if apart >= FAR_APART { Severity::Warning } else { Severity::Note };
    let what = Say::new("doctor.clock.found").with("seconds", &apart);
    let finding = Finding::new(severity, what, Say::new("doctor.clock.advice"))
        .seen("API server", server.to_string())
        .seen("this machine", after.to_string());
    Ok(vec![finding])
}
