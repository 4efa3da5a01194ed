//! All of it together: from objects and a target to an explanation.

use std::sync::Arc;

use k8s_openapi::api::resource::v1::ResourceClaim;

use super::cures::{self, Known};
use super::describe::Around;
use super::finding::{Explanation, Finding};
use super::lifecycle;
use super::names::Names;
use super::nodes::{self, Answers, Question};
use super::objects::{Objects, Target};
use super::reason::Reason;
use super::{allocated, luck, quotes};
use crate::scheduling::claims::{self, Stop};
use crate::scheduling::snapshot::key_of_claim;
use crate::scheduling::view::{Key, PodView, allocation};
use crate::timeline::state;

/// How many groups of nodes an explanation has.
const GROUPS: usize = 50;

/// Explains why a claim or a pod is as it is.
#[must_use]
pub fn explain(objects: &Objects, target: &Target) -> Explanation {
    let mut explanation = Explanation {
        api_version: "dralab/v1",
        kind: "Explanation",
        target: match target {
            Target::Claim(key) => format!("resourceclaim/{}", key.name),
            Target::Pod(key) => format!("pod/{}", key.name),
        },
        namespace: target.key().namespace.clone(),
        state: String::new(),
        satisfied: false,
        verdict: Finding::new(Reason::NothingFits),
        findings: Vec::new(),
        quotes: Vec::new(),
        devices: Vec::new(),
        nodes: Vec::new(),
        cures: Vec::new(),
    };
    match target {
        Target::Claim(key) => claim(objects, key, &mut explanation),
        Target::Pod(key) => pod(objects, key, &mut explanation),
    }
    // Said once is enough.
    let verdict = explanation.verdict.clone();
    let mut said: Vec<Finding> = vec![verdict];
    explanation.findings.retain(|finding| {
        let new = !said.contains(finding);
        said.push(finding.clone());
        new
    });
    explanation
}

fn claim(objects: &Objects, key: &Key, into: &mut Explanation) {
    let Some(claim) = objects.claim(key).cloned() else {
        into.verdict = lifecycle::missing_claim(objects, key);
        return;
    };
    into.state = objects.raw("ResourceClaim", key).map(state::claim).unwrap_or_default();
    into.quotes = quotes::of_claim(objects, key);
    into.devices = allocated::devices(objects, &claim);
    into.findings.extend(lifecycle::remarks(objects, &claim));
    let consumers: Vec<&Arc<PodView>> = objects.consumers(key).collect();
    for consumer in &consumers {
        for quote in quotes::of_pod(objects, consumer.key()) {
            if !into.quotes.contains(&quote) {
                into.quotes.push(quote);
            }
        }
    }
    if let Some(finding) = lifecycle::claim_itself(objects, &claim) {
        into.verdict = finding;
        return;
    }
    // The pod that waits for it says most: one without a node first, then one that is not running.
    let rank = |pod: &&&Arc<PodView>| match (pod.finished, &pod.node) {
        (true, _) => 3,
        (false, None) => 0,
        (false, Some(_)) => 1,
    };
    let most = consumers.iter().min_by_key(rank).copied();
    match (most, allocation(&claim)) {
        (Some(pod), None) if pod.finished => {
            into.verdict = Finding::new(Reason::PodFinished).with("pod", pod.key()).with("phase", "Succeeded").variant("claim");
        }
        (Some(pod), None) => of_pod(objects, pod, into),
        (None, None) => {
            into.verdict = Finding::new(Reason::NoPodYet).with("claim", key);
            let same_name: Vec<String> = objects
                .pods
                .values()
                .filter(|pod| pod.key().namespace != key.namespace)
                .filter(|pod| pod.claims.iter().any(|entry| entry.source == crate::scheduling::view::ClaimSource::Named(key.name.clone())))
                .map(|pod| pod.key().to_string())
                .collect();
            if !same_name.is_empty() {
                into.verdict = Finding::new(Reason::ClaimOtherNamespace)
                    .variant("pods")
                    .with("claim", &key.name)
                    .with("namespace", &key.namespace)
                    .with("pods", super::describe::list(same_name));
            }
            let said = into.verdict.clone();
            ask_nodes(objects, None, std::slice::from_ref(&claim), None, into);
            // Without a pod nothing is allocated, whatever the nodes answer; they decide whether a pod would help.
            let fits = into.satisfied;
            if fits {
                into.findings.insert(0, into.verdict.clone());
                into.verdict = said;
            } else {
                into.findings.insert(0, said);
            }
        }
        (pod, Some(_)) => {
            let users = crate::scheduling::view::reserved_for(&claim);
            let names = super::describe::list(users.iter().map(|user| format!("{}/{}", user.resource, user.name)));
            let finding = Finding::new(Reason::Allocated)
                .with("claim", key)
                .with("devices", super::describe::list(into.devices.iter().map(|held| held.device.clone())))
                .with("count", users.len());
            into.verdict = if users.is_empty() { finding.variant("unused") } else { finding.with("users", names) };
            into.satisfied = true;
            if let Some(waiting) = pod.and_then(|pod| trouble_after_allocation(objects, pod)) {
                into.findings.insert(0, into.verdict.clone());
                into.satisfied = false;
                into.verdict = waiting;
            }
        }
    }
}

/// What is wrong with a pod whose claim is allocated.
fn trouble_after_allocation(objects: &Objects, pod: &PodView) -> Option<Finding> {
    if pod.finished {
        return None;
    }
    if let Some(finding) = lifecycle::before_scheduling(objects, pod) {
        return Some(finding);
    }
    if pod.node.is_none() {
        return lifecycle::binding(objects, pod);
    }
    let finding = lifecycle::on_the_node(objects, pod);
    (!matches!(finding.reason, Reason::Running | Reason::Starting)).then_some(finding)
}

fn pod(objects: &Objects, key: &Key, into: &mut Explanation) {
    let Some(pod) = objects.pods.get(key).cloned() else {
        let elsewhere = objects.pods.keys().filter(|other| other.name == key.name).map(|other| other.namespace.clone());
        let elsewhere: Vec<String> = elsewhere.collect();
        let finding = Finding::new(Reason::PodMissing).with("pod", &key.name).with("namespace", &key.namespace);
        let here = objects.pods.keys().filter(|other| other.namespace == key.namespace).map(|other| other.name.as_str());
        into.verdict = match super::names::nearest(&key.name, here) {
            _ if !elsewhere.is_empty() => finding.variant("elsewhere").with("others", super::describe::list(elsewhere)),
            Some(near) => finding.variant("near").with("nearest", near),
            None => finding,
        };
        return;
    };
    into.state = objects.raw("Pod", key).map(state::pod).unwrap_or_default();
    into.quotes = quotes::of_pod(objects, key);
    for claim in lifecycle::claims_of(objects, &pod) {
        into.devices.extend(allocated::devices(objects, claim));
        into.findings.extend(lifecycle::remarks(objects, claim));
    }
    of_pod(objects, &pod, into);
}

fn of_pod(objects: &Objects, pod: &PodView, into: &mut Explanation) {
    if let Some(finding) = lifecycle::before_scheduling(objects, pod) {
        into.satisfied = finding.reason == Reason::PodFinished;
        into.verdict = finding;
        return;
    }
    if pod.node.is_some() {
        into.verdict = lifecycle::on_the_node(objects, pod);
        into.satisfied = matches!(into.verdict.reason, Reason::Running | Reason::Starting);
        return;
    }
    if let Some(finding) = lifecycle::binding(objects, pod) {
        into.verdict = finding;
        return;
    }
    let needs = match claims::pre_filter(pod, &objects.snapshot) {
        Ok(needs) => needs,
        Err(Stop::Refused(_) | Stop::Failed(_)) => {
            // A class is missing, or a request is malformed: the nodes' answer says which.
            let claims: Vec<Arc<ResourceClaim>> =
                lifecycle::claims_of(objects, pod).filter(|claim| allocation(claim).is_none()).cloned().map(Arc::new).collect();
            ask_nodes(objects, Some(pod), &claims, None, into);
            return;
        }
    };
    let claims = needs.to_allocate.clone();
    ask_nodes(objects, Some(pod), &claims, Some(&needs), into);
}

fn ask_nodes(
    objects: &Objects,
    pod: Option<&PodView>,
    claims: &[Arc<ResourceClaim>],
    needs: Option<&claims::Needs>,
    into: &mut Explanation,
) {
    let names = Names::of(objects.slices.iter().map(|slice| &**slice));
    let users = |key: &Key| -> Vec<Key> { objects.consumers(key).filter(|pod| !pod.finished).map(|pod| pod.key().clone()).collect() };
    let who = |key: &Key| {
        let pods: Vec<String> = users(key).iter().map(|pod| pod.name.clone()).collect();
        if pods.is_empty() { key.to_string() } else { format!("{key} (pod {})", super::describe::list(pods)) }
    };
    let tolerations = pod.map(|pod| pod.tolerations.as_slice()).unwrap_or_default();
    let around = Around { names: &names, pod_tolerations: tolerations, who: &who };
    let answers = nodes::ask(Question { objects, pod, claims, needs, around });
    if answers.nodes == 0 {
        into.verdict = Finding::new(Reason::NoNodes);
        return;
    }
    judge(objects, &answers, claims, into);
    if let Some(group) = answers.groups.iter().find(|group| group.told.nearest && !into.satisfied)
        && let (Some(problem), Some(cause)) = (&group.problem, &group.cause)
    {
        into.cures = cures::find(problem, cause, Known { names: &names, users: &users });
    }
    // A node that only the other filters keep out.
    let kept_out = answers.groups.iter().find(|group| group.blocked.is_some() && group.cause.is_none() && !group.devices.is_empty());
    if let (Some(group), Some(pod), false) = (kept_out, pod, into.satisfied)
        && let Some(node) = objects.snapshot.nodes().get(&group.told.node)
    {
        into.cures.extend(cures::of_node(pod, node, objects.snapshot.usage(&node.name), &group.devices));
    }
    for claim in claims {
        let expressions = super::problem::requests_of(claim)
            .iter()
            .flat_map(|request| {
                let exactly = request.exactly.iter().flat_map(|exactly| exactly.selectors.iter().flatten());
                exactly.chain(request.first_available.iter().flatten().flat_map(|sub| sub.selectors.iter().flatten()))
            })
            .filter_map(|selector| selector.cel.as_ref());
        for cel in expressions {
            into.findings.extend(names.remarks(&cel.expression).into_iter().filter(|remark| !is_said(&into.verdict, remark)));
        }
    }
    into.nodes = answers.groups.into_iter().take(GROUPS).map(|group| group.told).collect();
}

fn is_said(said: &Finding, finding: &Finding) -> bool {
    said == finding || said.details.iter().any(|detail| is_said(detail, finding))
}

/// The verdict over all nodes: an error stops everything, one node that fits is enough, else the nearest miss.
fn judge(objects: &Objects, answers: &Answers, claims: &[Arc<ResourceClaim>], into: &mut Explanation) {
    let nodes = answers.nodes;
    let fits = answers.groups.iter().find(|group| group.told.answer == "fits");
    let error = answers.groups.iter().find(|group| group.told.answer == "error");
    let bad = error.or_else(|| if fits.is_some() { None } else { answers.groups.iter().find(|group| group.told.nearest) });
    if let Some(group) = bad {
        let mut causes = group.told.causes.iter().cloned();
        if let Some(first) = causes.next() {
            // A class that is missing is missing for every node: the scheduler looks at none.
            into.verdict = if first.reason == Reason::ClassMissing { first } else { first.with("nodes", nodes) };
        }
        into.findings.splice(0..0, causes.chain(group.also.iter().cloned()));
        return;
    }
    let Some(group) = fits else { return };
    into.satisfied = true;
    into.verdict = Finding::new(Reason::WouldFit)
        .with("node", &group.told.node)
        .with("devices", super::describe::list(&group.devices))
        .with("count", answers.groups.iter().filter(|group| group.told.answer == "fits").map(|group| group.told.count).sum::<usize>())
        .with("nodes", nodes);
    if let Some(node) = objects.snapshot.nodes().get(&group.told.node)
        && !claims.is_empty()
    {
        into.findings.extend(luck::find(&nodes::problem(objects, node, claims)));
    }
}

/// The claims of one key, for those who ask by name.
#[must_use]
pub fn claims_named(objects: &Objects, name: &str) -> Vec<Key> {
    objects.snapshot.claims().map(|claim| key_of_claim(claim)).filter(|key| key.name == name).collect()
}
