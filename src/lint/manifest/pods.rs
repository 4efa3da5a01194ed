//! Pods and what makes pods: how they refer to claims.

use std::collections::BTreeSet;

use serde_json::Value;

use super::finding::{ManifestFinding, Rule};
use super::subject::{Subject, World, list_at, text_at};
use crate::base::nearest::nearest;

/// Where the pod spec of a kind is.
pub(super) fn pod_spec_path(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Pod" => "spec",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => "spec.template.spec",
        "CronJob" => "spec.jobTemplate.spec.template.spec",
        "PodTemplate" => "template.spec",
        _ => return None,
    })
}

/// How many pods it makes at once: a number, or `None` where that is more than one and not known.
fn pods(subject: &Subject) -> Option<i64> {
    let number = |pointer: &str| subject.object.pointer(pointer).and_then(Value::as_i64);
    match subject.kind() {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" => Some(number("/spec/replicas").unwrap_or(1)),
        "Job" => Some(number("/spec/parallelism").unwrap_or(1)),
        "CronJob" => Some(number("/spec/jobTemplate/spec/parallelism").unwrap_or(1)),
        "DaemonSet" => None,
        _ => Some(1),
    }
}

pub(super) fn check(subject: &Subject, world: &World<'_>, found: &mut Vec<ManifestFinding>) {
    let Some(path) = pod_spec_path(subject.kind()) else { return };
    let Some(spec) = subject.object.pointer(&format!("/{}", path.replace('.', "/"))) else { return };
    let claims = list_at(spec, "/resourceClaims");
    for (number, claim) in claims.iter().enumerate() {
        refers(subject, world, claim, &format!("{path}.resourceClaims[{number}]"), found);
    }
    uses(subject, world, spec, path, claims, found);
    let has_template = claims.iter().any(|claim| !text_at(claim, "/resourceClaimTemplateName").is_empty());
    let node = text_at(spec, "/nodeName");
    if has_template && !node.is_empty() {
        found.push(subject.finding(Rule::NodeName, &format!("{path}.nodeName"), |finding| {
            finding.with("node", node);
        }));
    }
    tolerations(subject, world, spec, path, found);
}

/// One entry of `resourceClaims`.
fn refers(subject: &Subject, world: &World<'_>, claim: &Value, at: &str, found: &mut Vec<ManifestFinding>) {
    let named = text_at(claim, "/resourceClaimName");
    if !named.is_empty() && pods(subject).is_none_or(|pods| pods > 1) {
        found.push(subject.finding(Rule::NamedClaim, &format!("{at}.resourceClaimName"), |finding| {
            finding
                .with("claim", named)
                .with("pods", pods(subject).map_or_else(|| "n".to_owned(), |pods| pods.to_string()))
                .with("kind", subject.kind());
        }));
    }
    for (field, kind) in [("resourceClaimName", "ResourceClaim"), ("resourceClaimTemplateName", "ResourceClaimTemplate")] {
        let name = text_at(claim, &format!("/{field}"));
        if name.is_empty() {
            continue;
        }
        let same_kind: Vec<&Subject> = world.of_kind(kind).collect();
        let here = same_kind.iter().any(|other| other.name() == name && other.namespace() == subject.namespace());
        if here || same_kind.is_empty() {
            continue;
        }
        let elsewhere = same_kind.iter().find(|other| other.name() == name);
        let near = nearest(name, same_kind.iter().filter(|other| other.namespace() == subject.namespace()).map(|other| other.name()));
        let rule = match (elsewhere, near) {
            (Some(_), _) => Rule::OtherNamespace,
            (None, Some(_)) => Rule::NearClaim,
            (None, None) => continue,
        };
        found.push(subject.finding(rule, &format!("{at}.{field}"), |finding| {
            finding
                .with("kind", kind)
                .with("name", name)
                .with("namespace", subject.namespace())
                .with("other", elsewhere.map_or("-", |other| other.namespace()))
                .with("near", near.unwrap_or("-"));
        }));
    }
}

/// What containers use of the claims.
fn uses(subject: &Subject, world: &World<'_>, spec: &Value, path: &str, claims: &[Value], found: &mut Vec<ManifestFinding>) {
    let mut used = BTreeSet::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for (number, container) in list_at(spec, &format!("/{list}")).iter().enumerate() {
            for (entry, claim) in list_at(container, "/resources/claims").iter().enumerate() {
                let name = text_at(claim, "/name");
                used.insert(name);
                let request = text_at(claim, "/request");
                let source = claims.iter().find(|claim| text_at(claim, "/name") == name);
                if let (false, Some(source)) = (request.is_empty(), source) {
                    let at = format!("{path}.{list}[{number}].resources.claims[{entry}].request");
                    requested(subject, world, source, request, &at, found);
                }
            }
        }
    }
    for (number, claim) in claims.iter().enumerate() {
        let name = text_at(claim, "/name");
        if !name.is_empty() && !used.contains(name) {
            found.push(subject.finding(Rule::UnusedClaim, &format!("{path}.resourceClaims[{number}]"), |finding| {
                finding.with("name", name);
            }));
        }
    }
}

fn requested(subject: &Subject, world: &World<'_>, source: &Value, request: &str, at: &str, found: &mut Vec<ManifestFinding>) {
    if let Some((parent, _)) = request.split_once('/') {
        found.push(subject.finding(Rule::SubRequest, at, |finding| {
            finding.with("request", request).with("parent", parent);
        }));
        return;
    }
    let (kind, name, devices) = match text_at(source, "/resourceClaimName") {
        "" => ("ResourceClaimTemplate", text_at(source, "/resourceClaimTemplateName"), "/spec/spec/devices/requests"),
        name => ("ResourceClaim", name, "/spec/devices/requests"),
    };
    let Some(claim) = world.of_kind(kind).find(|other| other.name() == name && other.namespace() == subject.namespace()) else { return };
    let known: Vec<&str> = list_at(&claim.object, devices).iter().map(|request| text_at(request, "/name")).collect();
    if !known.contains(&request) {
        let near = nearest(request, known.iter().copied());
        found.push(subject.finding(Rule::UnknownRequest, at, |finding| {
            finding
                .with("request", request)
                .with("claim", format!("{kind} {name}"))
                .with("requests", known.join(", "))
                .with("near", near.unwrap_or("-"));
        }));
    }
}

/// Tolerations of the pod whose key is that of a device taint.
fn tolerations(subject: &Subject, world: &World<'_>, spec: &Value, path: &str, found: &mut Vec<ManifestFinding>) {
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    for slice in world.of_kind("ResourceSlice") {
        for device in list_at(&slice.object, "/spec/devices") {
            keys.extend(list_at(device, "/taints").iter().map(|taint| text_at(taint, "/key")));
        }
    }
    keys.extend(world.of_kind("DeviceTaintRule").map(|rule| text_at(&rule.object, "/spec/taint/key")));
    for (number, toleration) in list_at(spec, "/tolerations").iter().enumerate() {
        let key = text_at(toleration, "/key");
        if !key.is_empty() && keys.contains(key) {
            found.push(subject.finding(Rule::PodToleration, &format!("{path}.tolerations[{number}]"), |finding| {
                finding.with("key", key);
            }));
        }
    }
}
