//! One pod against one snapshot: filter, score, pick. Used by the state machine, and by whoever asks "what if".

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::ResourceClaim;

use super::attempt::{Decision, NodeVerdict, Verdict};
use super::claims::{self, Needs, Stop};
use super::filters;
use super::hints::Plugin;
use super::message::{self, PostFilter};
use super::score::{self, Candidate};
use super::snapshot::{Snapshot, key_of_claim};
use super::view::PodView;
use crate::allocator::Allocator;

/// In clusters up to this size all nodes are looked at (upstream: `minFeasibleNodesToFind`).
const ALL_NODES_UP_TO: usize = 100;
/// In larger clusters at least this share of the nodes that fit is looked for, in percent.
const LEAST_PERCENT: usize = 5;

/// What looking at a pod has shown.
#[derive(Debug)]
pub struct Finding {
    /// The decision.
    pub decision: Decision,
    /// The pod's claims; empty where they are not all there.
    pub needs: Needs,
    /// The refusal of PreFilter.
    pub refused_before_nodes: Option<String>,
    /// Every node that was looked at.
    pub nodes: Vec<NodeVerdict>,
}

/// Decides about `pod`. `start` is where the round over the nodes begins and is moved on, so that in a large cluster
/// each node has its turn.
pub fn decide(snapshot: &mut Snapshot, pod: &PodView, start: &mut usize) -> Finding {
    let total = snapshot.nodes().len();
    let mut finding = Finding {
        decision: Decision::Unschedulable {
            message: "no nodes available to schedule pods".to_owned(),
            plugins: BTreeSet::new(),
            deallocated: None,
        },
        needs: Needs::default(),
        refused_before_nodes: None,
        nodes: Vec::new(),
    };
    if total == 0 {
        return finding;
    }
    match claims::pre_filter(pod, snapshot) {
        Ok(needs) => finding.needs = needs,
        Err(Stop::Failed(message)) => {
            finding.decision = Decision::Failed { message };
            return finding;
        }
        Err(Stop::Refused(refusal)) => {
            let post = PostFilter { deallocates: false, never_preempts: pod.never_preempts };
            finding.decision = Decision::Unschedulable {
                message: message::unschedulable(total, Some(&refusal), &[], post),
                plugins: [Plugin::DynamicResources].into(),
                deallocated: None,
            };
            finding.refused_before_nodes = Some(refusal);
            return finding;
        }
    }
    let allocator = (!finding.needs.to_allocate.is_empty()).then(|| snapshot.allocator());
    let mut round = Round { snapshot, pod, needs: &finding.needs, allocator, unavailable: BTreeSet::new(), nodes: Vec::new() };
    let decision = round.run(start);
    let nodes = round.nodes;
    finding.decision = decision;
    finding.nodes = nodes;
    finding
}

struct Round<'a> {
    snapshot: &'a Snapshot,
    pod: &'a PodView,
    needs: &'a Needs,
    allocator: Option<Arc<Allocator>>,
    unavailable: BTreeSet<usize>,
    nodes: Vec<NodeVerdict>,
}

impl Round<'_> {
    fn run(&mut self, start: &mut usize) -> Decision {
        let total = self.snapshot.nodes().len();
        // A node that the pod was nominated for is tried alone at first.
        if let Some(nominated) = self.pod.nominated.as_deref().filter(|name| self.snapshot.nodes().contains_key(*name)) {
            if let Some(failure) = self.look_at(nominated) {
                return failure;
            }
            if let Some(decision) = self.pick() {
                return decision;
            }
            self.nodes.clear();
        }
        let enough = enough(total);
        let mut found = 0;
        let names: Vec<String> = self.snapshot.nodes().keys().cloned().collect();
        let first = *start % total;
        for name in names[first..].iter().chain(&names[..first]) {
            if let Some(failure) = self.look_at(name) {
                return failure;
            }
            if matches!(self.nodes.last(), Some(NodeVerdict { verdict: Verdict::Fits { .. }, .. })) {
                found += 1;
                if found >= enough {
                    break;
                }
            }
        }
        *start = (first + self.nodes.len()) % total;
        self.pick().unwrap_or_else(|| self.nothing_fits(total))
    }

    /// Asks a node; an answer is a failure of the attempt as a whole.
    fn look_at(&mut self, name: &str) -> Option<Decision> {
        let node = self.snapshot.nodes().get(name)?;
        let (verdict, steps) = match filters::check(self.pod, node, self.snapshot.usage(name)) {
            Some(refused) => (refused, 0),
            None => claims::filter(self.needs, self.allocator.as_deref(), node, &mut self.unavailable),
        };
        let failure = match &verdict {
            Verdict::Failed { plugin, text } => {
                Some(Decision::Failed { message: format!("running \"{}\" filter plugin: {text}", plugin.name()) })
            }
            _ => None,
        };
        self.nodes.push(NodeVerdict { node: name.to_owned(), verdict, steps, score: None });
        failure
    }

    /// Scores the nodes that fit and takes the best.
    fn pick(&mut self) -> Option<Decision> {
        let mut fitting = Vec::new();
        let mut candidates = Vec::new();
        for (index, verdict) in self.nodes.iter().enumerate() {
            if let (Verdict::Fits { allocations }, Some(node)) = (&verdict.verdict, self.snapshot.nodes().get(&verdict.node)) {
                fitting.push(index);
                candidates.push(Candidate {
                    node,
                    usage: self.snapshot.usage(&verdict.node),
                    claims: claims::score(&self.needs.to_allocate, allocations),
                });
            }
        }
        if fitting.len() > 1 {
            for (index, score) in fitting.iter().zip(score::scores(self.pod, &candidates)) {
                self.nodes[*index].score = Some(score);
            }
        }
        let best =
            fitting.into_iter().map(|index| &self.nodes[index]).min_by(|a, b| b.score.cmp(&a.score).then_with(|| a.node.cmp(&b.node)))?;
        let Verdict::Fits { allocations } = &best.verdict else {
            return None;
        };
        let keys = self.needs.to_allocate.iter().map(|claim: &Arc<ResourceClaim>| key_of_claim(claim));
        Some(Decision::Placed { node: best.node.clone(), allocations: keys.zip(allocations.iter().cloned()).collect() })
    }

    fn nothing_fits(&self, total: usize) -> Decision {
        let plugins = self.nodes.iter().filter_map(|node| match &node.verdict {
            Verdict::Refused { plugin, .. } => Some(*plugin),
            _ => None,
        });
        let deallocated = claims::to_deallocate(self.needs, &self.unavailable, self.pod).map(|claim| key_of_claim(claim));
        let post = PostFilter { deallocates: deallocated.is_some(), never_preempts: self.pod.never_preempts };
        Decision::Unschedulable { message: message::unschedulable(total, None, &self.nodes, post), plugins: plugins.collect(), deallocated }
    }
}

/// How many nodes that fit are enough (upstream: `numFeasibleNodesToFind` with the adaptive percentage).
fn enough(total: usize) -> usize {
    if total < ALL_NODES_UP_TO {
        return total.max(1);
    }
    let percent = 50_usize.saturating_sub(total / 125).max(LEAST_PERCENT);
    (total * percent / 100).max(ALL_NODES_UP_TO)
}

#[cfg(test)]
mod tests {
    use super::enough;

    #[test]
    fn how_many_nodes_are_enough() {
        let table = [(1, 1), (99, 99), (100, 100), (200, 100), (1000, 420), (5000, 500), (10_000, 500)];
        for (total, expected) in table {
            assert_eq!(enough(total), expected, "{total} nodes");
        }
    }
}
