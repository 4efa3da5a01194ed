//! What a pod says about its claims (`dynamic-resource-allocation/resourceclaim`).

use serde_json::Value;

use crate::embedded::api::meta;

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// `spec.resourceClaims`.
pub(super) fn entries(pod: &Value) -> &[Value] {
    list(pod, "/spec/resourceClaims")
}

/// True for pods with claims of their own or made by the scheduler for extended resources.
pub(super) fn uses_claims(pod: &Value) -> bool {
    !entries(pod).is_empty() || pod["status"]["extendedResourceClaimStatus"].is_object()
}

/// What is known of the claim for an entry of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named<'a> {
    /// The claim has this name; `true`: it was generated, so that the pod must own it.
    Claim(&'a str, bool),
    /// It was found that none is needed.
    NotNeeded,
    /// It has not been created yet.
    NotCreated,
    /// The entry says neither name nor template.
    Unknown,
}

/// The claim for an entry of a pod.
pub(super) fn claim_of<'a>(pod: &'a Value, entry: &'a Value) -> Named<'a> {
    if let Some(name) = entry["resourceClaimName"].as_str() {
        return Named::Claim(name, false);
    }
    if !entry["resourceClaimTemplateName"].is_string() {
        return Named::Unknown;
    }
    match list(pod, "/status/resourceClaimStatuses").iter().find(|status| status["name"] == entry["name"]) {
        None => Named::NotCreated,
        Some(status) => status["resourceClaimName"].as_str().map_or(Named::NotNeeded, |name| Named::Claim(name, true)),
    }
}

/// All claims that a pod is known to use.
pub(super) fn claim_names(pod: &Value) -> Vec<String> {
    let mut names: Vec<String> = entries(pod)
        .iter()
        .filter_map(|entry| match claim_of(pod, entry) {
            Named::Claim(name, _) => Some(name.to_owned()),
            _ => None,
        })
        .collect();
    if let Some(extended) = pod.pointer("/status/extendedResourceClaimStatus/resourceClaimName").and_then(Value::as_str) {
        names.push(extended.to_owned());
    }
    names
}

/// True when no container of the pod runs and none ever will.
pub(super) fn is_done(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) || (meta::is_deleting(pod) && !is_placed(pod))
}

/// True when the pod has a node.
pub(super) fn is_placed(pod: &Value) -> bool {
    pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty())
}

/// The pod that a claim was generated for: name and uid.
pub(super) fn owner(claim: &Value) -> Option<(&str, &str)> {
    let owner = list(claim, "/metadata/ownerReferences")
        .iter()
        .find(|owner| owner["controller"] == true && owner["apiVersion"] == "v1" && owner["kind"] == "Pod")?;
    Some((owner["name"].as_str()?, owner["uid"].as_str()?))
}

/// True when the claim is reserved for the pod.
pub(super) fn is_reserved(claim: &Value, pod: &Value) -> bool {
    list(claim, "/status/reservedFor").iter().any(|consumer| consumer["uid"].as_str() == Some(meta::uid(pod)))
}

/// True when the claim has room for one more consumer.
pub(super) fn has_room(claim: &Value) -> bool {
    list(claim, "/status/reservedFor").len() < 256
}
