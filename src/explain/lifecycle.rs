//! Causes that are not the scheduler's: objects that are missing, of somebody else, too late, on their way out; what the
//! kubelet and the drivers say.

use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::Value;

use super::describe::list;
use super::finding::Finding;
use super::names::nearest;
use super::objects::Objects;
use super::problem::requests_of;
use super::reason::Reason;
use crate::scheduling::snapshot::key_of_claim;
use crate::scheduling::view::{ClaimSource, Key, PodView, allocation, can_be_reserved, is_reserved_for, reserved_for};

/// The label of a namespace in which admin access is allowed, and how early documents spelt it.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";
const OLD_ADMIN_LABEL: &str = "resource.k8s.io/admin-access";
/// The scheduler that Kubernetes comes with.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// What is to be said of a claim that is not there.
#[must_use]
pub fn missing_claim(objects: &Objects, key: &Key) -> Finding {
    let all = objects.of_kind("ResourceClaim");
    let elsewhere: Vec<&str> = all.keys().filter(|other| other.name == key.name).map(|other| other.namespace.as_str()).collect();
    if !elsewhere.is_empty() {
        return Finding::new(Reason::ClaimOtherNamespace)
            .with("claim", &key.name)
            .with("namespace", &key.namespace)
            .with("others", list(elsewhere));
    }
    let here: Vec<&str> = all.keys().filter(|other| other.namespace == key.namespace).map(|other| other.name.as_str()).collect();
    let finding = Finding::new(Reason::ClaimMissing).with("claim", &key.name).with("namespace", &key.namespace);
    match nearest(&key.name, here.into_iter()) {
        Some(near) => finding.variant("near").with("nearest", near),
        None => finding,
    }
}

/// What stops a pod before the scheduler looks at nodes; the first that is found.
#[must_use]
pub fn before_scheduling(objects: &Objects, pod: &PodView) -> Option<Finding> {
    let raw = objects.raw("Pod", pod.key());
    if pod.finished {
        let phase = raw.and_then(|pod| pod["status"]["phase"].as_str()).unwrap_or_default();
        return Some(Finding::new(Reason::PodFinished).with("pod", pod.key()).with("phase", phase));
    }
    if pod.deleting {
        return Some(deleting(objects, pod));
    }
    if let Some(finding) = raw.and_then(|raw| source(pod, raw)) {
        return Some(finding);
    }
    if pod.gated {
        let gates = raw.and_then(|raw| raw["spec"]["schedulingGates"].as_array()).into_iter().flatten();
        return Some(Finding::new(Reason::SchedulingGated).with("gates", list(gates.filter_map(|gate| gate["name"].as_str()))));
    }
    for entry in &pod.claims {
        if let Some(finding) = entry_problem(objects, pod, &entry.entry, &entry.source) {
            return Some(finding);
        }
    }
    if pod.node.is_none() && pod.scheduler != DEFAULT_SCHEDULER && pod.scheduled.is_none() {
        return Some(Finding::new(Reason::OtherScheduler).with("scheduler", &pod.scheduler));
    }
    None
}

fn deleting(objects: &Objects, pod: &PodView) -> Finding {
    let events = objects.events_about("Pod", pod.key(), pod.uid().as_str());
    let said = events
        .iter()
        .rev()
        .filter_map(|event| event["message"].as_str())
        .find(|text| text.contains("unprepare") || text.contains("Unprepare"));
    if let Some(said) = said {
        return Finding::new(Reason::UnprepareFailed).with("pod", pod.key()).with("error", said);
    }
    let drivers = drivers_of(objects, pod);
    let finding = Finding::new(Reason::PodDeleting).with("pod", pod.key()).with("drivers", list(&drivers));
    let node = pod.node.clone().unwrap_or_default();
    let silent = drivers.iter().any(|driver| !publishes(objects, driver, &node));
    if silent { finding.variant("driver-gone").with("node", node) } else { finding }
}

fn drivers_of(objects: &Objects, pod: &PodView) -> Vec<String> {
    let mut drivers = Vec::new();
    for claim in claims_of(objects, pod) {
        let results = allocation(claim).and_then(|a| a.devices.as_ref()).and_then(|d| d.results.as_deref()).unwrap_or_default();
        for result in results {
            if !drivers.contains(&result.driver) {
                drivers.push(result.driver.clone());
            }
        }
    }
    drivers
}

fn publishes(objects: &Objects, driver: &str, node: &str) -> bool {
    objects.slices.iter().any(|slice| slice.spec.driver == driver && slice.spec.node_name.as_deref().is_none_or(|name| name == node))
}

/// The claims of a pod that are there.
pub fn claims_of<'a>(objects: &'a Objects, pod: &'a PodView) -> impl Iterator<Item = &'a ResourceClaim> {
    pod.claims.iter().filter_map(|entry| {
        let key = crate::scheduling::claims::key_of_entry(pod, entry).ok().flatten()?;
        objects.claim(&key).map(|claim| &**claim)
    })
}

/// Entries that name no claim as they should, and claims of containers without an entry.
fn source(pod: &PodView, raw: &Value) -> Option<Finding> {
    let entries = raw["spec"]["resourceClaims"].as_array().map(Vec::as_slice).unwrap_or_default();
    for entry in entries {
        let (named, template) = (entry["resourceClaimName"].is_string(), entry["resourceClaimTemplateName"].is_string());
        let variant = match (named, template) {
            (true, true) => "both",
            (false, false) if entry["source"].is_object() => "nested",
            (false, false) => "neither",
            _ => continue,
        };
        return Some(Finding::new(Reason::SourceInvalid).variant(variant).with("entry", entry["name"].as_str().unwrap_or_default()));
    }
    let wanted = raw["spec"]["containers"].as_array().into_iter().flatten();
    let wanted = wanted.flat_map(|container| container["resources"]["claims"].as_array().into_iter().flatten());
    let lost: Vec<&str> =
        wanted.filter_map(|claim| claim["name"].as_str()).filter(|name| !entries.iter().any(|entry| entry["name"] == *name)).collect();
    if let Some(name) = lost.first() {
        return Some(Finding::new(Reason::FieldDropped).with("pod", pod.key()).with("entry", name));
    }
    None
}

fn entry_problem(objects: &Objects, pod: &PodView, entry: &str, source: &ClaimSource) -> Option<Finding> {
    let namespace = &pod.key().namespace;
    let (key, generated) = match source {
        ClaimSource::Unknown => return Some(Finding::new(Reason::SourceInvalid).variant("neither").with("entry", entry)),
        ClaimSource::Template(Some(None)) => return None,
        ClaimSource::Template(None) => return Some(not_created(objects, pod, entry)),
        ClaimSource::Template(Some(Some(name))) => (Key::new(namespace, name), true),
        ClaimSource::Named(name) => (Key::new(namespace, name), false),
    };
    let Some(claim) = objects.claim(&key) else { return Some(missing_claim(objects, &key)) };
    claim_problem(objects, pod, claim, generated)
}

fn not_created(objects: &Objects, pod: &PodView, entry: &str) -> Finding {
    let raw = objects.raw("Pod", pod.key());
    let template = raw
        .and_then(|raw| {
            raw["spec"]["resourceClaims"].as_array()?.iter().find(|e| e["name"] == entry)?["resourceClaimTemplateName"].as_str()
        })
        .unwrap_or_default();
    let fill = |finding: Finding| finding.with("entry", entry).with("template", template).with("namespace", &pod.key().namespace);
    let events = objects.events_about("Pod", pod.key(), pod.uid().as_str());
    let failed = events.iter().rev().find(|event| event["reason"] == "FailedResourceClaimCreation");
    let said = failed.and_then(|event| event["message"].as_str()).unwrap_or_default();
    if said.contains("admin-access") {
        return admin_label(objects, &pod.key().namespace, entry).unwrap_or_else(|| Finding::new(Reason::AdminLabel).variant("said"));
    }
    let key = Key::new(&pod.key().namespace, template);
    let Some(found) = objects.raw("ResourceClaimTemplate", &key) else {
        let all = objects.of_kind("ResourceClaimTemplate");
        let elsewhere: Vec<&str> = all.keys().filter(|other| other.name == template).map(|other| other.namespace.as_str()).collect();
        let finding = fill(Finding::new(Reason::TemplateMissing));
        if !elsewhere.is_empty() {
            return finding.variant("elsewhere").with("others", list(elsewhere));
        }
        let here = all.keys().filter(|other| other.namespace == key.namespace).map(|other| other.name.as_str());
        return match nearest(template, here) {
            Some(near) => finding.variant("near").with("nearest", near),
            None => finding,
        };
    };
    let made = |object: &Value| object["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
    match (made(found), raw.and_then(made)) {
        (Some(template_made), Some(pod_made)) if template_made > pod_made => {
            fill(Finding::new(Reason::TemplateLater)).with("made", template_made).with("pod-made", pod_made)
        }
        _ => fill(Finding::new(Reason::ClaimNotCreated)),
    }
}

fn claim_problem(objects: &Objects, pod: &PodView, claim: &ResourceClaim, generated: bool) -> Option<Finding> {
    let key = key_of_claim(claim);
    let fill = |reason| Finding::new(reason).with("claim", &key).with("pod", pod.key());
    if let Some(finding) = claim_itself(objects, claim) {
        return Some(finding);
    }
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.kind == "Pod");
    if let Some(owner) = owner
        && owner.uid != pod.uid().as_str()
        && owner.name == pod.key().name
    {
        return Some(fill(Reason::ClaimEarlierPod).with("uid", &owner.uid).with("pod-uid", pod.uid().as_str()));
    }
    if generated && owner.is_none_or(|owner| owner.uid != pod.uid().as_str()) {
        return Some(fill(Reason::ClaimNotOwned).with("owner", owner.map_or("-", |owner| &owner.name)));
    }
    let earlier = reserved_for(claim).iter().find(|consumer| consumer.name == pod.key().name && consumer.uid != pod.uid().as_str());
    if allocation(claim).is_some() && !is_reserved_for(claim, pod.uid().as_str()) && !can_be_reserved(claim) {
        return Some(fill(Reason::ReservedFull).with("count", reserved_for(claim).len()));
    }
    if let (Some(node), None) = (&pod.node, allocation(claim)) {
        return Some(fill(Reason::NodeNameByHand).with("node", node));
    }
    if let (Some(node), Some(earlier)) = (&pod.node, earlier)
        && !is_reserved_for(claim, pod.uid().as_str())
    {
        return Some(fill(Reason::ClaimEarlierPod).with("uid", &earlier.uid).with("pod-uid", pod.uid().as_str()).with("node", node));
    }
    None
}

/// What is wrong with a claim, whoever wants it.
#[must_use]
pub fn claim_itself(objects: &Objects, claim: &ResourceClaim) -> Option<Finding> {
    let key = key_of_claim(claim);
    if claim.metadata.deletion_timestamp.is_some() {
        let finalizers = claim.metadata.finalizers.as_deref().unwrap_or_default();
        let users = reserved_for(claim).iter().map(|consumer| consumer.name.as_str());
        let finding = Finding::new(Reason::ClaimDeleting).with("claim", &key).with("finalizers", list(finalizers));
        return Some(if reserved_for(claim).is_empty() { finding } else { finding.variant("used").with("pods", list(users)) });
    }
    if allocation(claim).is_some() {
        return None;
    }
    let raw = objects.raw("ResourceClaim", &key);
    for request in raw.and_then(|raw| raw["spec"]["devices"]["requests"].as_array()).into_iter().flatten() {
        let version = raw.and_then(|raw| raw["apiVersion"].as_str()).unwrap_or_default();
        let name = request["name"].as_str().unwrap_or_default();
        let flat = request["deviceClassName"].is_string();
        if flat {
            return Some(Finding::new(Reason::RequestMalformed).variant("flat").with("request", name).with("version", version));
        }
    }
    let admin = requests_of(claim).iter().any(|r| r.exactly.as_ref().is_some_and(|e| e.admin_access == Some(true)));
    if admin { admin_label(objects, &key.namespace, &key.to_string()) } else { None }
}

/// What is wrong with the label of the namespace; `None` if nothing is, or the namespace is not known.
fn admin_label(objects: &Objects, namespace: &str, what: &str) -> Option<Finding> {
    let object = objects.raw("Namespace", &Key::new("", namespace))?;
    let label = |name: &str| object["metadata"]["labels"][name].as_str();
    let finding = Finding::new(Reason::AdminLabel).with("namespace", namespace).with("claim", what).with("label", ADMIN_LABEL);
    match (label(ADMIN_LABEL), label(OLD_ADMIN_LABEL)) {
        (Some("true"), _) => None,
        (Some(value), _) => Some(finding.variant("value").with("value", value)),
        (None, Some(_)) => Some(finding.variant("old").with("old", OLD_ADMIN_LABEL)),
        (None, None) => Some(finding),
    }
}

/// What a pod that has a node waits for; `None` if it is not about devices.
#[must_use]
pub fn on_the_node(objects: &Objects, pod: &PodView) -> Finding {
    let raw = objects.raw("Pod", pod.key());
    let node = pod.node.clone().unwrap_or_default();
    let phase = raw.and_then(|pod| pod["status"]["phase"].as_str()).unwrap_or("Pending");
    let events = objects.events_about("Pod", pod.key(), pod.uid().as_str());
    if phase == "Running" {
        return Finding::new(Reason::Running).with("pod", pod.key()).with("node", &node);
    }
    let failed = events.iter().rev().find(|event| {
        event["reason"] == "FailedPrepareDynamicResources"
            || event["message"].as_str().is_some_and(|text| text.contains("prepare dynamic resources"))
    });
    if let Some(text) = failed.and_then(|event| event["message"].as_str()) {
        return prepare_failed(objects, pod, &node, text);
    }
    if let Some(version) = faulty_kubelet(objects, &node) {
        return Finding::new(Reason::KubeletFault).with("node", &node).with("version", version);
    }
    Finding::new(Reason::Starting).with("pod", pod.key()).with("node", &node).with("state", phase)
}

fn prepare_failed(objects: &Objects, pod: &PodView, node: &str, text: &str) -> Finding {
    let fill = |reason| Finding::new(reason).with("node", node).with("error", text).with("pod", pod.key());
    let registered = text
        .split_once("DRA driver ")
        .and_then(|(_, rest)| rest.split_once(" is not registered"))
        .map(|(driver, _)| driver)
        .or_else(|| {
            text.split_once("plugin name ").and_then(|(_, rest)| rest.split_once(" not found in the list of registered")).map(|(d, _)| d)
        });
    if let Some(driver) = registered {
        let driver = driver.trim();
        let slices: Vec<_> = objects.slices.iter().filter(|slice| slice.spec.driver == driver).collect();
        let by_hand = slices.iter().find(|slice| slice.metadata.owner_references.as_deref().unwrap_or_default().is_empty());
        let here = |slice: &&&std::sync::Arc<k8s_openapi::api::resource::v1::ResourceSlice>| slice.spec.node_name.as_deref() == Some(node);
        let finding = fill(Reason::DriverNotRegistered).with("driver", driver).with("slices", slices.iter().filter(here).count());
        return finding.because(by_hand.map(|slice| {
            let name = slice.metadata.name.clone().unwrap_or_default();
            Finding::new(Reason::SliceByHand).with("slice", name).with("driver", driver)
        }));
    }
    if text.contains("is not allowed to use ResourceClaim") {
        let owned_by_other = claims_of(objects, pod).find(|claim| !is_reserved_for(claim, pod.uid().as_str()));
        if let Some(claim) = owned_by_other {
            let earlier = reserved_for(claim).iter().find(|consumer| consumer.name == pod.key().name);
            let key = key_of_claim(claim);
            return match earlier {
                Some(earlier) => {
                    fill(Reason::ClaimEarlierPod).with("claim", key).with("uid", &earlier.uid).with("pod-uid", pod.uid().as_str())
                }
                None => fill(Reason::NodeNameByHand).with("claim", key),
            };
        }
    }
    fill(Reason::PrepareFailed)
}

/// The kubelet's version where it is one with a known fault (kubernetes#133920: prepare hangs after idle time).
#[must_use]
pub fn faulty_kubelet(objects: &Objects, node: &str) -> Option<String> {
    let node = objects.raw("Node", &Key::new("", node))?;
    let version = node["status"]["nodeInfo"]["kubeletVersion"].as_str()?;
    let plain = version.split(['+', '-']).next().unwrap_or(version);
    matches!(plain, "v1.34.0" | "v1.34.1").then(|| version.to_owned())
}

/// Binding conditions that the pod's claims wait for.
#[must_use]
pub fn binding(objects: &Objects, pod: &PodView) -> Option<Finding> {
    for claim in claims_of(objects, pod) {
        let status = claim.status.as_ref();
        let results = allocation(claim).and_then(|a| a.devices.as_ref()).and_then(|d| d.results.as_deref()).unwrap_or_default();
        for result in results {
            let told = status.and_then(|status| status.devices.as_deref()).unwrap_or_default();
            let told =
                told.iter().find(|device| device.driver == result.driver && device.pool == result.pool && device.device == result.device);
            let holds = |name: &String| {
                told.iter().flat_map(|device| device.conditions.iter().flatten()).any(|c| c.type_ == *name && c.status == "True")
            };
            let fill = |reason| {
                Finding::new(reason)
                    .with("claim", key_of_claim(claim))
                    .with("device", format!("{}/{}/{}", result.driver, result.pool, result.device))
            };
            if let Some(failed) = result.binding_failure_conditions.iter().flatten().find(|name| holds(name)) {
                return Some(fill(Reason::BindingFailed).with("condition", failed));
            }
            let missing: Vec<&String> = result.binding_conditions.iter().flatten().filter(|name| !holds(name)).collect();
            if !missing.is_empty() {
                return Some(fill(Reason::BindingWaiting).with("conditions", list(missing)));
            }
        }
    }
    None
}

/// What is worth a look though it is not the cause.
#[must_use]
pub fn remarks(objects: &Objects, claim: &ResourceClaim) -> Vec<Finding> {
    let key = key_of_claim(claim);
    let mut found = Vec::new();
    let raw = objects.raw("ResourceClaim", &key);
    if raw.is_some_and(|raw| !raw["spec"]["devices"]["tolerations"].is_null()) {
        found.push(Finding::new(Reason::TolerationMisplaced).variant("claim").with("claim", &key));
    }
    if !objects.pods.is_empty() {
        let gone: Vec<&str> = reserved_for(claim)
            .iter()
            .filter(|consumer| consumer.resource == "pods")
            .filter(|consumer| {
                objects.pods.get(&Key::new(&key.namespace, &consumer.name)).is_none_or(|pod| pod.uid().as_str() != consumer.uid)
            })
            .map(|consumer| consumer.name.as_str())
            .collect();
        if !gone.is_empty() {
            found.push(Finding::new(Reason::ReservedLeftover).with("claim", &key).with("pods", list(gone)));
        }
    }
    let users: Vec<String> = objects.consumers(&key).filter(|pod| !pod.finished).map(|pod| pod.key().name.clone()).collect();
    if users.len() > 1 {
        found.push(Finding::new(Reason::SharedByPods).with("claim", &key).with("count", users.len()).with("pods", list(users)));
    }
    found
}
