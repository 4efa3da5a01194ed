//! What every node answers, like nodes together, the nearest miss first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};

use super::cause::{self, Cause};
use super::describe::{self, Around};
use super::finding::{Finding, Funnel, NodeGroup, Stage};
use super::objects::Objects;
use super::problem::Problem;
use super::reason::Reason;
use crate::allocator::{AllocatedState, Allocator, Obstacle, Outcome, Survey};
use crate::model::ids::{DeviceId, PoolId};
use crate::model::node_selector::ParsedNodeSelector;
use crate::scheduling::attempt::Verdict;
use crate::scheduling::claims::{self, Needs};
use crate::scheduling::filters;
use crate::scheduling::hints::Plugin;
use crate::scheduling::snapshot::key_of_claim;
use crate::scheduling::view::{NodeView, PodView};

/// How many groups of nodes are looked at closely.
const CLOSELY: usize = 4;
/// How many names of like nodes are given.
const NAMED: usize = 5;
/// How many other ways to say why are given.
const ALSO: usize = 2;
/// How many steps the searches on all nodes may take together, and how many each may take at least and at most before it
/// counts as given up.
const STEPS: (u64, u64, u64) = (2_000_000, 2_000, 100_000);

/// A group of like nodes, with what was found about the first of them.
#[derive(Debug)]
pub struct Group {
    /// As it is told.
    pub told: NodeGroup,
    /// The problem of its first node; `None` where it was not looked at closely.
    pub problem: Option<Problem>,
    /// Why the devices do not fit there; `None` where they do.
    pub cause: Option<Cause>,
    /// What would do instead of the cause: other ways to say why.
    pub also: Vec<Finding>,
    /// The filter that refuses the node, whatever its devices.
    pub blocked: Option<Plugin>,
    /// The devices that it would be, where it fits.
    pub devices: Vec<String>,
}

/// What all nodes answer.
#[derive(Debug, Default)]
pub struct Answers {
    /// Like nodes together: errors, nodes that fit, then the nearest misses.
    pub groups: Vec<Group>,
    /// How many nodes there are.
    pub nodes: usize,
}

/// What is asked of the nodes.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The objects.
    pub objects: &'a Objects,
    /// The pod; `None` if there is none yet.
    pub pod: Option<&'a PodView>,
    /// The claims to allocate.
    pub claims: &'a [Arc<ResourceClaim>],
    /// All that the pod needs, with claims that are allocated already.
    pub needs: Option<&'a Needs>,
    /// What is known besides.
    pub around: Around<'a>,
}

struct Look<'a> {
    node: &'a NodeView,
    blocked: Option<(Plugin, String)>,
    elsewhere: bool,
    outcome: Outcome,
    survey: Option<Survey>,
}

/// Asks every node.
#[must_use]
pub fn ask(question: Question<'_>) -> Answers {
    let objects = question.objects;
    let state = AllocatedState::from_claims(objects.snapshot.claims().map(|claim| &**claim), &objects.features);
    let allocator = Allocator::new(objects.features, &objects.slices, &objects.classes, state).with_step_budget(steps(objects));
    let mut groups: Vec<(Look<'_>, Vec<&str>)> = Vec::new();
    let mut known: HashMap<Vec<(String, usize)>, usize> = HashMap::new();
    for node in objects.snapshot.nodes().values() {
        let look = look(question, &allocator, node);
        match known.entry(signature(&look)) {
            std::collections::hash_map::Entry::Occupied(entry) => groups[*entry.get()].1.push(&node.name),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(groups.len());
                groups.push((look, vec![&node.name]));
            }
        }
    }
    groups.sort_by_key(|(look, names)| (class_of(look), rank(look), std::cmp::Reverse(names.len()), look.node.name.clone()));
    let mut answers = Answers { groups: Vec::new(), nodes: objects.snapshot.nodes().len() };
    for (number, (look, names)) in groups.iter().enumerate() {
        answers.groups.push(group(question, look, names, number < CLOSELY));
    }
    let nearest = answers.groups.iter().position(|group| group.told.answer != "fits" && !group.told.causes.is_empty());
    if let Some(nearest) = nearest {
        answers.groups[nearest].told.nearest = true;
    }
    answers
}

/// How many steps the search on one node may take.
fn steps(objects: &Objects) -> u64 {
    let (together, least, most) = STEPS;
    (together / objects.snapshot.nodes().len().max(1) as u64).clamp(least, most)
}

fn look<'a>(question: Question<'_>, allocator: &Allocator, node: &'a NodeView) -> Look<'a> {
    let usage = question.objects.snapshot.usage(&node.name);
    let blocked = question.pod.and_then(|pod| filters::check(pod, node, usage)).and_then(|verdict| match verdict {
        Verdict::Refused { plugin, reasons, .. } => Some((plugin, reasons.join(", "))),
        _ => None,
    });
    let elsewhere = question.needs.is_some_and(|needs| {
        let (verdict, _) = claims::filter(needs, None, node, &mut BTreeSet::new());
        matches!(verdict, Verdict::Refused { .. })
    });
    let outcome = if question.claims.is_empty() { Outcome::Fits(Vec::new()) } else { allocator.allocate(&node.node, question.claims).0 };
    let survey = allocator.survey(&node.node, question.claims).ok();
    Look { node, blocked, elsewhere, outcome, survey }
}

/// What makes nodes alike: the answer, and how many devices are stopped by what.
fn signature(look: &Look<'_>) -> Vec<(String, usize)> {
    let name = &look.node.name;
    let mut key = vec![(format!("{:?} {}", look.blocked, look.elsewhere), 0)];
    match &look.outcome {
        Outcome::Fits(_) => key.push(("fits".to_owned(), 0)),
        Outcome::DoesNotFit => key.push(("does not fit".to_owned(), 0)),
        Outcome::NodeError(text) | Outcome::Invalid(text) => key.push((text.replace(name.as_str(), "*"), 0)),
        Outcome::GaveUp => key.push(("gave up".to_owned(), 0)),
    }
    if let Some(survey) = &look.survey {
        let unusable = survey.pools.iter().filter(|pool| pool.state != crate::allocator::PoolState::Usable);
        key.extend(unusable.map(|pool| (format!("{:?}", pool.state), 0)));
        key.push((String::new(), survey.devices.len()));
        for (number, request) in survey.requests.iter().enumerate() {
            let mut counts: HashMap<Option<&Obstacle>, usize> = HashMap::new();
            for obstacle in &request.obstacles {
                *counts.entry(obstacle.as_ref()).or_default() += 1;
            }
            let mut counts: Vec<(String, usize)> = counts.into_iter().map(|(o, count)| (format!("{number} {o:?}"), count)).collect();
            counts.sort();
            key.extend(counts);
        }
    }
    key
}

/// Errors stop everything, so they come first; then where it fits; then where it nearly does.
fn class_of(look: &Look<'_>) -> u8 {
    match (&look.outcome, &look.blocked, look.elsewhere) {
        (Outcome::Invalid(_) | Outcome::GaveUp, None, _) => 0,
        (Outcome::Fits(_), None, false) => 1,
        _ => 2,
    }
}

/// The less is missing, the nearer: how many of the wanted devices are not there (in thousandths), then how far the
/// devices came.
fn rank(look: &Look<'_>) -> (i64, u8, std::cmp::Reverse<usize>) {
    let blocked = u8::from(look.blocked.is_some() || look.elsewhere);
    if matches!(look.outcome, Outcome::Fits(_)) {
        return (0, blocked, std::cmp::Reverse(0));
    }
    let Some(survey) = &look.survey else { return (i64::MAX, blocked, std::cmp::Reverse(0)) };
    let mut missing = 1;
    let mut passed = 0;
    for request in &survey.requests {
        let left = request.obstacles.iter().filter(|obstacle| obstacle.is_none()).count();
        let wanted = request.count.unwrap_or(1).max(1);
        missing += (wanted - i64::try_from(left).unwrap_or(wanted)).max(0) * 1000 / wanted;
        let selected = |o: &&Option<Obstacle>| !matches!(o, Some(Obstacle::Selector { .. } | Obstacle::SelectorFails { .. }));
        passed += request.obstacles.iter().filter(selected).count() * 1000 + request.obstacles.len();
    }
    // Fewer devices selected, or none at all, is farther away.
    (missing + if survey.devices.is_empty() { 10_000 } else { 0 }, blocked, std::cmp::Reverse(passed))
}

fn group(question: Question<'_>, look: &Look<'_>, names: &[&str], closely: bool) -> Group {
    let (answer, words) = match (&look.outcome, &look.blocked, look.elsewhere) {
        (_, Some((_, words)), _) => ("refused", words.clone()),
        (Outcome::Invalid(text), ..) => ("error", text.clone()),
        (_, _, true) => ("refused", "resourceclaim not available on the node".to_owned()),
        (Outcome::Fits(_), None, false) => ("fits", String::new()),
        (Outcome::DoesNotFit, ..) => ("refused", "cannot allocate all claims".to_owned()),
        (Outcome::NodeError(text), ..) => ("refused", text.clone()),
        (Outcome::GaveUp, ..) => ("error", String::new()),
    };
    let told = NodeGroup {
        node: look.node.name.clone(),
        count: names.len(),
        names: names.iter().take(NAMED).map(|name| (*name).to_owned()).collect(),
        answer,
        words,
        causes: Vec::new(),
        funnels: look.survey.as_ref().map(|survey| funnels(survey, question.claims)).unwrap_or_default(),
        nearest: false,
    };
    let devices = match &look.outcome {
        Outcome::Fits(results) => results
            .iter()
            .flat_map(|result| result.devices.iter().flat_map(|devices| devices.results.iter().flatten()))
            .map(|result| format!("{}={}/{}/{}", result.request, result.driver, result.pool, result.device))
            .collect(),
        _ => Vec::new(),
    };
    let blocked = look.blocked.as_ref().map(|(plugin, _)| *plugin);
    let mut group = Group { told, problem: None, cause: None, also: Vec::new(), blocked, devices };
    if answer == "fits" || !closely {
        return group;
    }
    if let Some((plugin, words)) = &look.blocked {
        group.told.causes.push(block(*plugin, words, question, look.node));
    }
    if look.elsewhere {
        group.told.causes.push(Finding::new(Reason::NodeElsewhere).with("node", &look.node.name).with("where", allocated_where(question)));
    }
    if !matches!(look.outcome, Outcome::Fits(_)) {
        let problem = problem(question.objects, look.node, question.claims);
        let error = match &look.outcome {
            Outcome::Invalid(text) | Outcome::NodeError(text) => Some(text.as_str()),
            _ => None,
        };
        if matches!(look.outcome, Outcome::GaveUp) {
            group.told.causes.push(Finding::new(Reason::GaveUp).with("node", &look.node.name).with("steps", steps(question.objects)));
        }
        group.cause = cause::find(&problem);
        if let Some(cause) = &group.cause {
            group.told.causes.extend(describe::findings(&problem, cause, error, question.around));
            let others = Cause { edits: cause.others.clone(), others: Vec::new() };
            for finding in describe::findings(&problem, &others, error, question.around) {
                let new = group.told.causes.iter().chain(&group.also).all(|known| known.reason != finding.reason);
                if new && finding.reason != Reason::NoDevices && group.also.len() < ALSO {
                    group.also.push(finding);
                }
            }
        }
        if group.told.causes.is_empty() {
            group
                .told
                .causes
                .push(Finding::new(Reason::NothingFits).with("node", &look.node.name).with("error", error.unwrap_or_default()));
        }
        group.problem = Some(problem);
    }
    group
}

fn allocated_where(question: Question<'_>) -> String {
    let claims = question.needs.map(|needs| needs.claims.as_slice()).unwrap_or_default();
    let results =
        claims.iter().filter_map(|claim| crate::scheduling::view::allocation(claim)?.devices.as_ref()?.results.as_ref()).flatten();
    describe::list(results.map(|result| format!("{}/{}", result.pool, result.device)))
}

/// Why a node is out of the question whatever its devices.
fn block(plugin: Plugin, words: &str, question: Question<'_>, node: &NodeView) -> Finding {
    let finding = |reason| Finding::new(reason).with("node", &node.name).with("words", words);
    match plugin {
        Plugin::NodeUnschedulable => finding(Reason::NodeUnschedulable),
        Plugin::TaintToleration => {
            let taint = question.pod.and_then(|pod| filters::untolerated(pod, &node.taints));
            finding(Reason::NodeTaint).with("taint", taint.map(|taint| format!("{}:{}", taint.key, taint.effect)).unwrap_or_default())
        }
        Plugin::NodeAffinity | Plugin::NodeName => {
            let selector = question.pod.map(|pod| &pod.node_selector).into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
            let selector: Vec<String> = selector.collect();
            let shown = if selector.is_empty() { "affinity".to_owned() } else { selector.join(", ") };
            finding(Reason::NodeAffinity).with("selector", shown)
        }
        _ => finding(Reason::NodeResources),
    }
}

/// The problem of one node, with only what matters for it.
#[must_use]
pub fn problem(objects: &Objects, node: &NodeView, claims: &[Arc<ResourceClaim>]) -> Problem {
    let reaches = |slice: &ResourceSlice| match (slice.spec.node_name.as_deref(), &slice.spec.node_selector) {
        (Some(name), _) => name == node.name,
        (None, Some(selector)) => ParsedNodeSelector::parse(selector).map_or(true, |parsed| parsed.matches(&node.node)),
        (None, None) => true,
    };
    let pools: BTreeSet<PoolId> =
        objects.slices.iter().filter(|slice| reaches(slice)).map(|slice| PoolId::new(&slice.spec.driver, &slice.spec.pool.name)).collect();
    let slices: Vec<_> =
        objects.slices.iter().filter(|slice| pools.contains(&PoolId::new(&slice.spec.driver, &slice.spec.pool.name))).cloned().collect();
    let asked: BTreeSet<_> = claims.iter().map(|claim| key_of_claim(claim)).collect();
    let mut state = AllocatedState::default();
    let mut holders: BTreeMap<DeviceId, Vec<_>> = BTreeMap::new();
    for claim in objects.snapshot.claims().filter(|claim| !asked.contains(&key_of_claim(claim))) {
        let Some(allocation) = crate::scheduling::view::allocation(claim) else { continue };
        let results = allocation.devices.as_ref().and_then(|devices| devices.results.as_deref()).unwrap_or_default();
        let mut matters = false;
        for result in results.iter().filter(|result| result.admin_access != Some(true)) {
            let id = DeviceId::new(&result.driver, &result.pool, &result.device);
            if pools.contains(&id.pool) {
                matters = true;
                let keys = holders.entry(id).or_default();
                if !keys.contains(&key_of_claim(claim)) {
                    keys.push(key_of_claim(claim));
                }
            }
        }
        if matters {
            state.add(allocation, objects.features);
        }
    }
    Problem {
        features: objects.features,
        node: node.node.clone(),
        slices,
        classes: objects.classes.clone(),
        claims: claims.to_vec(),
        state,
        holders,
    }
}

/// How many devices each obstacle stopped, in the order in which people think.
#[must_use]
pub fn funnels(survey: &Survey, claims: &[Arc<ResourceClaim>]) -> Vec<Funnel> {
    survey
        .requests
        .iter()
        .map(|request| {
            let mut counts: BTreeMap<(u8, &'static str, String), usize> = BTreeMap::new();
            for obstacle in request.obstacles.iter().flatten() {
                let (order, stage, which) = stage(obstacle);
                *counts.entry((order, stage, which)).or_default() += 1;
            }
            let mut left = request.obstacles.len();
            let stages = counts.into_iter().map(|((_, stage, which), stopped)| {
                left -= stopped;
                Stage { stage, which, stopped, left }
            });
            let stages = stages.collect();
            Funnel {
                claim: claims.get(request.claim).map(|claim| key_of_claim(claim).to_string()).unwrap_or_default(),
                request: request.name.clone(),
                device_class: request.class.clone(),
                wanted: request.count,
                seen: request.obstacles.len(),
                stages,
                left,
            }
        })
        .collect()
}

/// Place, name and which of a stage.
#[must_use]
pub fn stage(obstacle: &Obstacle) -> (u8, &'static str, String) {
    match obstacle {
        Obstacle::BindingConditions => (0, "gate", "DRADeviceBindingConditions".to_owned()),
        Obstacle::Selector { of_class: true, number } => (1, "class-selector", format!("#{number}")),
        Obstacle::SelectorFails { of_class: true, number, .. } => (2, "class-selector-error", format!("#{number}")),
        Obstacle::Selector { of_class: false, number } => (3, "request-selector", format!("#{number}")),
        Obstacle::SelectorFails { of_class: false, number, .. } => (4, "request-selector-error", format!("#{number}")),
        Obstacle::Node => (5, "node-selection", String::new()),
        Obstacle::InUse => (6, "in-use", String::new()),
        Obstacle::NodeOperations => (7, "node-operations", String::new()),
        Obstacle::Taint { key, .. } => (8, "taint", key.clone()),
        Obstacle::Counters => (9, "counters", String::new()),
        Obstacle::CompatibilityGroups => (10, "compatibility-groups", String::new()),
        Obstacle::Capacity(short) => (11, "capacity", short.name.clone()),
        Obstacle::CapacityFails(_) => (12, "capacity-error", String::new()),
    }
}
