//! The DynamicResources plugin: which claims a pod needs, whether they are there, and whether a node has the devices.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaim};

use super::attempt::Verdict;
use super::hints::Plugin;
use super::snapshot::{Snapshot, key_of_claim, uid_of_claim};
use super::view::{ClaimSource, Key, NodeView, PodClaim, PodView, allocation, can_be_reserved, is_reserved_for, reserved_for};
use crate::allocator::{Allocator, Outcome};
use crate::model::node_selector::ParsedNodeSelector;

/// How many alternatives a request may have; a node's score counts down from it (upstream: `FirstAvailableDeviceRequestMaxSize`).
const ALTERNATIVES: i64 = 8;

/// The key of the claim that an entry of a pod stands for; `None` if the entry needs no claim.
///
/// # Errors
/// The claim has not been made yet, or the source is of an unknown kind.
pub fn key_of_entry(pod: &PodView, entry: &PodClaim) -> Result<Option<Key>, String> {
    let namespace = &pod.key().namespace;
    match &entry.source {
        ClaimSource::Named(name) | ClaimSource::Template(Some(Some(name))) => Ok(Some(Key::new(namespace, name))),
        ClaimSource::Template(Some(None)) => Ok(None),
        ClaimSource::Template(None) => Err(format!("pod \"{}\": ResourceClaim not created yet", pod.key())),
        ClaimSource::Unknown => {
            Err(format!("pod \"{}\", spec.resourceClaim \"{}\": none of the supported fields are set", pod.key(), entry.entry))
        }
    }
}

/// The claims of a pod, in the order of its entries. The check of PreEnqueue: a pod for which it fails waits in silence.
///
/// # Errors
/// A claim is missing, being deleted, not made yet, or made for another pod; the text is upstream's.
pub fn of_pod(pod: &PodView, snapshot: &Snapshot) -> Result<Vec<Arc<ResourceClaim>>, String> {
    let mut claims = Vec::with_capacity(pod.claims.len());
    for entry in &pod.claims {
        let Some(key) = key_of_entry(pod, entry)? else {
            continue;
        };
        let Some(claim) = snapshot.claim_by_key(&key) else {
            return Err(format!("resourceclaim.resource.k8s.io \"{}\" not found", key.name));
        };
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(format!("resourceclaim \"{}\" is being deleted", key.name));
        }
        if matches!(entry.source, ClaimSource::Template(_)) && !is_owned_by(claim, pod) {
            return Err(format!("ResourceClaim {key} was not created for Pod {} (Pod is not owner)", pod.key()));
        }
        claims.push(claim.clone());
    }
    Ok(claims)
}

fn is_owned_by(claim: &ResourceClaim, pod: &PodView) -> bool {
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == pod.uid().as_str())
}

/// Why PreFilter stops an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The pod waits for a change.
    Refused(String),
    /// The attempt is repeated.
    Failed(String),
}

/// The claims of a pod as one attempt sees them.
#[derive(Debug, Default)]
pub struct Needs {
    /// All claims of the pod.
    pub claims: Vec<Arc<ResourceClaim>>,
    /// For every claim, where its allocation can be used; `None` stands for everywhere.
    selectors: Vec<Option<ParsedNodeSelector>>,
    /// The claims that have no allocation yet.
    pub to_allocate: Vec<Arc<ResourceClaim>>,
}

/// PreFilter: what the pod needs, or why no node need be looked at.
///
/// # Errors
/// See [`Stop`]; the texts are upstream's.
pub fn pre_filter(pod: &PodView, snapshot: &Snapshot) -> Result<Needs, Stop> {
    let claims = of_pod(pod, snapshot).map_err(Stop::Refused)?;
    let mut needs = Needs::default();
    for claim in &claims {
        let mut selector = None;
        if let Some(allocation) = allocation(claim) {
            if !can_be_reserved(claim) && !is_reserved_for(claim, pod.uid().as_str()) {
                return Err(Stop::Refused("resourceclaim in use".to_owned()));
            }
            if let Some(nodes) = &allocation.node_selector {
                selector = Some(ParsedNodeSelector::parse(nodes).map_err(|error| Stop::Failed(failed_pre_filter(&error.to_string())))?);
            }
        } else {
            if snapshot.is_in_flight(uid_of_claim(claim).as_str()) {
                return Err(Stop::Refused(format!("resource claim {} is in the process of being allocated", key_of_claim(claim))));
            }
            check_requests(claim, snapshot)?;
            needs.to_allocate.push(claim.clone());
        }
        needs.selectors.push(selector);
    }
    needs.claims = claims;
    Ok(needs)
}

fn failed_pre_filter(text: &str) -> String {
    format!("running PreFilter plugin \"DynamicResources\": {text}")
}

fn check_requests(claim: &ResourceClaim, snapshot: &Snapshot) -> Result<(), Stop> {
    let requests = claim.spec.as_ref().and_then(|spec| spec.devices.as_ref()).and_then(|devices| devices.requests.as_deref());
    let check = |request: &str, class: &str| {
        if class.is_empty() {
            return Err(Stop::Failed(failed_pre_filter(&format!("request {request}: unsupported request type"))));
        }
        if snapshot.has_class(class) {
            return Ok(());
        }
        Err(Stop::Refused(format!("request {request}: device class {class} does not exist")))
    };
    for request in requests.unwrap_or_default() {
        match (&request.exactly, request.first_available.as_deref()) {
            (Some(exactly), _) => check(&request.name, &exactly.device_class_name)?,
            (None, Some(alternatives)) if !alternatives.is_empty() => {
                for alternative in alternatives {
                    check(&format!("{}/{}", request.name, alternative.name), &alternative.device_class_name)?;
                }
            }
            (None, _) => {
                let text = format!("resource claim {}, request {}: unknown request type", key_of_claim(claim), request.name);
                return Err(Stop::Refused(text));
            }
        }
    }
    Ok(())
}

/// Filter: whether the node can have the claims. Also gives the allocator's steps, and marks in `unavailable` which
/// allocated claims cannot be used on the node. The allocator is asked even where an allocated claim rules the node
/// out, as upstream does: its errors end the attempt either way.
pub fn filter(needs: &Needs, allocator: Option<&Allocator>, node: &NodeView, unavailable: &mut BTreeSet<usize>) -> (Verdict, u64) {
    let plugin = Plugin::DynamicResources;
    let refused = |reason: String| Verdict::Refused { plugin, reasons: vec![reason.into()], resolvable: false };
    let mut elsewhere = false;
    for (index, selector) in needs.selectors.iter().enumerate() {
        if selector.as_ref().is_some_and(|selector| !selector.matches(&node.node)) {
            unavailable.insert(index);
            elsewhere = true;
        }
    }
    let (mut verdict, mut steps) = (Verdict::Fits { allocations: Vec::new() }, 0);
    if let Some(allocator) = allocator.filter(|_| !needs.to_allocate.is_empty()) {
        let (outcome, taken) = allocator.allocate(&node.node, &needs.to_allocate);
        steps = taken;
        verdict = match outcome {
            Outcome::Fits(allocations) => Verdict::Fits { allocations },
            Outcome::DoesNotFit => refused("cannot allocate all claims".to_owned()),
            Outcome::NodeError(text) => refused(text),
            Outcome::Invalid(text) => Verdict::Failed { plugin, text },
            Outcome::GaveUp => {
                Verdict::Failed { plugin, text: format!("node {}: gave up trying to allocate devices after {steps} steps", node.name) }
            }
        };
    }
    if elsewhere && !matches!(verdict, Verdict::Failed { .. }) {
        verdict = refused("resourceclaim not available on the node".to_owned());
    }
    (verdict, steps)
}

/// PostFilter: the claim to deallocate when no node fits. Only a claim that was in the way somewhere, and that nobody
/// but this pod may be using. Upstream picks one of several at random; here it is the first in the pod's order.
#[must_use]
pub fn to_deallocate<'a>(needs: &'a Needs, unavailable: &BTreeSet<usize>, pod: &PodView) -> Option<&'a Arc<ResourceClaim>> {
    unavailable.iter().filter_map(|index| needs.claims.get(*index)).find(|claim| match reserved_for(claim) {
        [] => true,
        [consumer] => consumer.uid == pod.uid().as_str(),
        _ => false,
    })
}

/// The score of a node: earlier alternatives of `firstAvailable` requests count more (allocator-algorithm section 13).
#[must_use]
pub fn score(claims: &[Arc<ResourceClaim>], allocations: &[AllocationResult]) -> i64 {
    claims.iter().zip(allocations).map(|(claim, allocation)| claim_score(claim, allocation)).sum()
}

fn claim_score(claim: &ResourceClaim, allocation: &AllocationResult) -> i64 {
    let requests = claim.spec.as_ref().and_then(|spec| spec.devices.as_ref()).and_then(|devices| devices.requests.as_deref());
    let results = allocation.devices.as_ref().and_then(|devices| devices.results.as_deref()).unwrap_or_default();
    let mut score = 0;
    for request in requests.unwrap_or_default() {
        let alternatives = request.first_available.as_deref().unwrap_or_default();
        let chosen = alternatives.iter().position(|alternative| {
            results.iter().any(|result| result.request.split_once('/') == Some((request.name.as_str(), alternative.name.as_str())))
        });
        score += chosen.map_or(0, |index| ALTERNATIVES - i64::try_from(index).unwrap_or(ALTERNATIVES));
    }
    score
}
