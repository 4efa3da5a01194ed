//! Pods and the claims that they wait for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cluster::steps::Say;
use crate::doctor::facts::{Facts, by_uid, called, claims_of, is_done, is_going, items, name, namespace, text, time, uid};
use crate::doctor::{Check, Finding, Group, Looked, Severity};

/// Seconds that scheduler, controllers and kubelet may take before a pod that waits is worth a word.
const PATIENCE: i64 = 20;

/// Claims of pods that are gone, and pods that meet the claim of an earlier pod of their name.
pub(super) const EARLIER_POD: Check = Check {
    id: "DL-DOC-451",
    slug: "claim-of-earlier-pod",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: earlier_pod,
};

/// Pods that wait for a claim.
pub(super) const WAITING: Check =
    Check { id: "DL-DOC-452", slug: "pod-waits", group: Group::Cluster, least: Severity::Warning, most: Severity::Warning, look: waiting };

/// Pods whose node was named by hand: the scheduler never sees them, and nobody allocates their claims.
pub(super) const NODE_BY_HAND: Check = Check {
    id: "DL-DOC-453",
    slug: "node-by-hand",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: node_by_hand,
};

fn owner(claim: &Value) -> Option<&Value> {
    items(&claim["metadata"]["ownerReferences"]).find(|o| text(&o["kind"]) == "Pod")
}

fn earlier_pod(facts: &Facts) -> Looked {
    let pods = facts.list("pods")?;
    let by_uid = by_uid(pods);
    let by_name: BTreeMap<(&str, &str), &Value> = pods.iter().map(|p| ((namespace(p), name(p)), p)).collect();
    let mut finding =
        Finding::new(Severity::Warning, Say::new("doctor.claim-of-earlier-pod.found"), Say::new("doctor.claim-of-earlier-pod.advice"));
    for claim in facts.list("resourceclaims")? {
        let Some(owner) = owner(claim).filter(|_| !is_going(claim)) else { continue };
        if by_uid.contains_key(text(&owner["uid"])) {
            continue;
        }
        let now = by_name.get(&(namespace(claim), text(&owner["name"]))).map(|p| format!("; a pod of that name has uid {}", uid(p)));
        let seen = format!("owner pod {} uid {} is gone{}", text(&owner["name"]), text(&owner["uid"]), now.unwrap_or_default());
        finding.add(called("resourceclaim", claim), seen);
    }
    Ok(finding.if_any().into_iter().collect())
}

/// Why a pod waits, as far as its claims tell.
enum Why<'a> {
    NoClaim(&'a str),
    NoTemplate(&'a str),
    ClaimGoing(&'a str),
    NotItsOwn(&'a str),
    Unprepared(&'a str),
    Unscheduled(&'a str),
}

fn waiting(facts: &Facts) -> Looked {
    let cluster = facts.cluster()?;
    let claims: BTreeMap<(&str, &str), &Value> = facts.list("resourceclaims")?.iter().map(|c| ((namespace(c), name(c)), c)).collect();
    let templates = cluster.list("resourceclaimtemplates");
    let mut findings = Vec::new();
    for pod in facts.list("pods")? {
        let old = time(&pod["metadata"]["creationTimestamp"]).is_none_or(|t| facts.now.duration_since(t).as_secs() >= PATIENCE);
        let pending = text(&pod["status"]["phase"]) == "Pending" && !is_going(pod);
        if !old || !pending || claims_of(pod).next().is_none() || by_hand(facts, pod)? {
            continue;
        }
        let mut why = None;
        for entry in items(&pod["spec"]["resourceClaims"]) {
            let claim = claims_of(pod).find(|(n, _)| *n == text(&entry["name"])).and_then(|(_, c)| c);
            let template = entry["resourceClaimTemplateName"].as_str();
            let found = claim.and_then(|c| claims.get(&(namespace(pod), c)));
            why = why.or(match (claim, found, template) {
                (Some(claim), None, _) => Some(Why::NoClaim(claim)),
                (None, _, Some(template)) => {
                    let there = templates.as_ref().is_ok_and(|t| t.iter().any(|t| namespace(t) == namespace(pod) && name(t) == template));
                    (templates.is_ok() && !there).then_some(Why::NoTemplate(template))
                }
                (Some(claim), Some(found), _) if is_going(found) => Some(Why::ClaimGoing(claim)),
                (Some(claim), Some(found), Some(_)) if owner(found).is_some_and(|o| text(&o["uid"]) != uid(pod)) => {
                    Some(Why::NotItsOwn(claim))
                }
                _ => None,
            });
        }
        let events: Vec<&Value> = cluster.list_or_none("events").iter().filter(|e| text(&e["involvedObject"]["uid"]) == uid(pod)).collect();
        let of_reason = |reason: &str| events.iter().rev().find(|e| text(&e["reason"]) == reason).map(|e| text(&e["message"]));
        let condition = items(&pod["status"]["conditions"]).find(|c| text(&c["type"]) == "PodScheduled" && text(&c["status"]) == "False");
        let why = why.or_else(|| of_reason("FailedPrepareDynamicResources").filter(|m| !told_elsewhere(m)).map(Why::Unprepared));
        let why = why.or_else(|| condition.map(|c| Why::Unscheduled(text(&c["message"]))));
        if let Some(why) = why {
            findings.push(tell(facts, pod, &why, of_reason("FailedResourceClaimCreation")));
        }
    }
    Ok(findings)
}

/// A driver that is not registered has a check of its own.
fn told_elsewhere(message: &str) -> bool {
    message.contains("is not registered") || message.contains("not found in the list of registered DRA plugins")
}

fn tell(facts: &Facts, pod: &Value, why: &Why<'_>, creation: Option<&str>) -> Finding {
    let of = called("pod", pod);
    let (what, advice) = match why {
        Why::NoClaim(claim) => ("doctor.pod-waits.no-claim", Say::new("doctor.pod-waits.no-claim-advice").with("claim", claim)),
        Why::NoTemplate(template) => {
            ("doctor.pod-waits.no-template", Say::new("doctor.pod-waits.no-template-advice").with("template", template))
        }
        Why::ClaimGoing(claim) => ("doctor.pod-waits.claim-going", Say::new("doctor.pod-waits.claim-going-advice").with("claim", claim)),
        Why::NotItsOwn(claim) => ("doctor.pod-waits.not-its-own", Say::new("doctor.pod-waits.not-its-own-advice").with("claim", claim)),
        Why::Unprepared(_) => {
            let node = text(&pod["spec"]["nodeName"]);
            ("doctor.pod-waits.unprepared", Say::new("doctor.pod-waits.unprepared-advice").with("node", node))
        }
        Why::Unscheduled(_) => {
            let flags = facts.cluster.as_ref().map(|c| c.flags.as_str()).unwrap_or_default();
            let command = format!("dralab explain pod/{} -n {}{flags}", name(pod), namespace(pod));
            ("doctor.pod-waits.unscheduled", Say::new("doctor.pod-waits.unscheduled-advice").with("command", &command))
        }
    };
    let mut finding = Finding::new(Severity::Warning, Say::new(what).with("pod", &of), advice);
    match why {
        Why::NoClaim(claim) => {
            finding.add(&of, format!("resourceClaimName {claim}: there is none in namespace {}", namespace(pod)));
            for claim in facts.list("resourceclaims").unwrap_or_default().iter().filter(|c| name(c) == *claim) {
                finding.add(called("resourceclaim", claim), "has this name in another namespace; a pod reads only its own");
            }
        }
        Why::NoTemplate(template) => {
            finding.add(&of, format!("resourceClaimTemplateName {template}: there is none in namespace {}", namespace(pod)));
        }
        Why::ClaimGoing(claim) => finding.add(&of, format!("resourceClaimName {claim} is being deleted")),
        Why::NotItsOwn(claim) => {
            finding.add(&of, format!("resourceclaim {claim} belongs to another pod (uid {} is not its owner)", uid(pod)));
        }
        Why::Unprepared(message) | Why::Unscheduled(message) => finding.add(&of, *message),
    }
    if let Some(message) = creation {
        finding.add(of, message);
    }
    finding
}

/// Whether a pod has a node though the scheduler cannot have given it one: a claim of it is allocated nowhere.
fn by_hand(facts: &Facts, pod: &Value) -> Result<bool, crate::doctor::Blind> {
    if text(&pod["spec"]["nodeName"]).is_empty() || is_done(pod) || is_going(pod) || text(&pod["status"]["phase"]) == "Running" {
        return Ok(false);
    }
    let claims = facts.list("resourceclaims")?;
    let allocated = |wanted: &str| {
        let claim = claims.iter().find(|c| namespace(c) == namespace(pod) && name(c) == wanted);
        claim.is_some_and(|c| !c["status"]["allocation"].is_null())
    };
    Ok(claims_of(pod).any(|(_, claim)| claim.is_none_or(|claim| !allocated(claim))))
}

fn node_by_hand(facts: &Facts) -> Looked {
    let mut finding = Finding::new(Severity::Warning, Say::new("doctor.node-by-hand.found"), Say::new("doctor.node-by-hand.advice"));
    for pod in facts.list("pods")? {
        if by_hand(facts, pod)? {
            let claims: Vec<String> = claims_of(pod).map(|(entry, claim)| claim.unwrap_or(entry).to_owned()).collect();
            finding.add(
                called("pod", pod),
                format!("nodeName {}, claims not allocated: {}", text(&pod["spec"]["nodeName"]), claims.join(", ")),
            );
        }
    }
    Ok(finding.if_any().into_iter().collect())
}
