//! Which devices a claim has, and why these: what stands in the way of those before them, as things are now.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::ResourceClaim;

use super::finding::{Held, Stage};
use super::nodes::{problem, stage};
use super::objects::Objects;
use crate::scheduling::snapshot::key_of_claim;
use crate::scheduling::view::{NodeView, allocation};

/// The devices of an allocated claim.
#[must_use]
pub fn devices(objects: &Objects, claim: &ResourceClaim) -> Vec<Held> {
    let Some(held) = allocation(claim) else { return Vec::new() };
    let results = held.devices.as_ref().and_then(|devices| devices.results.as_deref()).unwrap_or_default();
    // The claim as it was before: the problem that the allocator had, with what others hold now.
    let mut before = claim.clone();
    before.status = None;
    let claims = [std::sync::Arc::new(before)];
    let survey = node_of(objects, claim).and_then(|node| {
        let problem = problem(objects, node, &claims);
        problem.allocator().survey(&problem.node, &claims).ok()
    });
    let taken_before = |number: usize, device: &str| results[..number].iter().any(|result| result.device == device);
    results
        .iter()
        .enumerate()
        .map(|(number, result)| {
            let mut told = Held {
                request: result.request.clone(),
                device: format!("{}/{}/{}", result.driver, result.pool, result.device),
                consumed: result.consumed_capacity.iter().flatten().map(|(name, amount)| (name.clone(), amount.0.clone())).collect(),
                passed_over: Vec::new(),
                place: None,
            };
            let Some(survey) = &survey else { return told };
            let Some(request) = survey.requests.iter().find(|request| request.name == result.request) else { return told };
            let place = survey
                .devices
                .iter()
                .position(|id| *id.device == *result.device && *id.pool.pool == *result.pool && *id.pool.driver == *result.driver);
            told.place = place.map(|place| place + 1);
            let mut stages: BTreeMap<(u8, &'static str), Vec<String>> = BTreeMap::new();
            for (id, obstacle) in survey.devices.iter().zip(&request.obstacles).take(place.unwrap_or_default()) {
                let (order, name, which) = match obstacle {
                    Some(obstacle) => stage(obstacle),
                    None if taken_before(number, &id.device) => continue,
                    None => (20, "free-now", String::new()),
                };
                let by: Vec<String> =
                    objects.holders(id).iter().filter(|key| **key != key_of_claim(claim)).map(ToString::to_string).collect();
                let which = if name == "in-use" && !by.is_empty() { by.join(", ") } else { which };
                let shown = if which.is_empty() { id.device.to_string() } else { format!("{} ({which})", id.device) };
                stages.entry((order, name)).or_default().push(shown);
            }
            let mut left: usize = stages.values().map(Vec::len).sum();
            told.passed_over = stages
                .into_iter()
                .map(|((_, stage), devices)| {
                    left -= devices.len();
                    Stage { stage, which: super::describe::list(&devices), stopped: devices.len(), left }
                })
                .collect();
            told
        })
        .collect()
}

/// A node on which the allocation can be used.
fn node_of<'a>(objects: &'a Objects, claim: &ResourceClaim) -> Option<&'a NodeView> {
    let selector = allocation(claim)?.node_selector.as_ref();
    let parsed = selector.map(crate::model::node_selector::ParsedNodeSelector::parse).transpose().ok()?;
    let nodes = objects.snapshot.nodes().values();
    let mut nodes = nodes.filter(|node| parsed.as_ref().is_none_or(|selector| selector.matches(&node.node)));
    nodes.next().map(|node| &**node)
}
