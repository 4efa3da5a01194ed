//! Which of the nodes that fit is taken: the scores of kube-scheduler's default profile that the lab's objects can
//! move, each from 0 to 100, times its weight.
//!
//! Not scored: images, pod topology spread and inter-pod affinity. Of several nodes with the best score the first by
//! name is taken, so that the same input gives the same decision; upstream draws one at random.

use super::resources::Resources;
use super::snapshot::Usage;
use super::view::{NodeView, PodView};

/// The best score of one plugin.
const MAX: i64 = 100;
const WEIGHT_TAINTS: i64 = 3;
const WEIGHT_AFFINITY: i64 = 2;
const WEIGHT_RESOURCES: i64 = 1;
const WEIGHT_CLAIMS: i64 = 1;

/// A node that fits.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The node.
    pub node: &'a NodeView,
    /// What is taken from it.
    pub usage: Option<&'a Usage>,
    /// [`super::claims::score`] of what the claims would get there.
    pub claims: i64,
}

/// The scores of all candidates, in their order.
#[must_use]
pub fn scores(pod: &PodView, candidates: &[Candidate<'_>]) -> Vec<i64> {
    let each = |score: fn(&PodView, &Candidate<'_>) -> i64| candidates.iter().map(|candidate| score(pod, candidate)).collect::<Vec<_>>();
    let parts = [
        (WEIGHT_TAINTS, normalised(each(avoided_taints), true)),
        (WEIGHT_AFFINITY, normalised(each(preference), false)),
        (WEIGHT_CLAIMS, normalised(each(|_, candidate| candidate.claims), false)),
        (WEIGHT_RESOURCES, each(least_allocated)),
        (WEIGHT_RESOURCES, each(balanced)),
    ];
    (0..candidates.len()).map(|index| parts.iter().map(|(weight, part)| weight * part[index]).sum()).collect()
}

/// Scales so that the largest becomes [`MAX`]; `reverse` makes the largest 0 (upstream: `DefaultNormalizeScore`).
fn normalised(mut scores: Vec<i64>, reverse: bool) -> Vec<i64> {
    let largest = scores.iter().copied().max().unwrap_or_default();
    for score in &mut scores {
        let scaled = if largest == 0 { 0 } else { MAX * *score / largest };
        *score = if reverse { MAX - scaled } else { scaled };
    }
    scores
}

/// TaintToleration: taints that say to rather go elsewhere.
fn avoided_taints(pod: &PodView, candidate: &Candidate<'_>) -> i64 {
    let avoid = candidate.node.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule" && !pod.tolerates(taint));
    i64::try_from(avoid.count()).unwrap_or(i64::MAX)
}

/// NodeAffinity: the weights of the preferred terms that match.
fn preference(pod: &PodView, candidate: &Candidate<'_>) -> i64 {
    pod.preferred.iter().filter(|(_, term)| term.matches(&candidate.node.node)).map(|(weight, _)| weight).sum()
}

/// NodeResourcesFit with LeastAllocated: the free share of cpu and memory, with the pod on the node.
fn least_allocated(pod: &PodView, candidate: &Candidate<'_>) -> i64 {
    let used = candidate.usage.map_or_else(Resources::default, |usage| usage.scored.clone());
    let has = &candidate.node.allocatable;
    let free = |used: i64, wanted: i64, has: i64| {
        (has > 0).then(|| if used.saturating_add(wanted) > has { 0 } else { (has - used - wanted).saturating_mul(MAX) / has })
    };
    let shares =
        [free(used.milli_cpu, pod.scored.milli_cpu, has.milli_cpu), free(used.memory, pod.scored.memory, has.memory)].into_iter().flatten();
    let (count, sum) = shares.fold((0, 0), |(count, sum), share| (count + 1, sum + share));
    if count == 0 { 0 } else { sum / count }
}

/// NodeResourcesBalancedAllocation: how near the used shares of cpu and memory are to each other.
fn balanced(pod: &PodView, candidate: &Candidate<'_>) -> i64 {
    let used = candidate.usage.map_or_else(Resources::default, |usage| usage.requests.clone());
    let has = &candidate.node.allocatable;
    // In millionths, so that no floating point is needed.
    let share = |used: i64, wanted: i64, has: i64| {
        let used = i128::from(used) + i128::from(wanted);
        if has <= 0 { 0 } else { (used * 1_000_000 / i128::from(has)).min(1_000_000) }
    };
    let cpu = share(used.milli_cpu, pod.requests.milli_cpu, has.milli_cpu);
    let memory = share(used.memory, pod.requests.memory, has.memory);
    // Of two values the standard deviation is half their distance.
    let deviation = (cpu - memory).abs() / 2;
    i64::try_from((1_000_000 - deviation) * i128::from(MAX) / 1_000_000).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::snapshot::Usage;
    use super::super::view::{NodeView, PodView};
    use super::{Candidate, normalised, scores};

    fn node(taints: &serde_json::Value, zone: &str) -> NodeView {
        NodeView::read(
            serde_json::from_value(json!({"metadata": {"name": zone, "labels": {"zone": zone}}, "spec": {"taints": taints},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}))
            .expect("a node"),
        )
    }

    #[test]
    fn an_emptier_node_is_better_and_preferences_outweigh() {
        let pod = |spec: &serde_json::Value| PodView::read(serde_json::from_value(json!({"spec": spec})).expect("a pod"));
        let plain = pod(&json!({"containers": [{"name": "c"}]}));
        let (a, b) = (node(&json!([]), "a"), node(&json!([]), "b"));
        let mut busy = Usage { pods: 1, ..Usage::default() };
        busy.scored.milli_cpu = 1000;
        let pair = |claims| [Candidate { node: &a, usage: Some(&busy), claims }, Candidate { node: &b, usage: None, claims: 0 }];
        let made = scores(&plain, &pair(0));
        assert!(made[0] < made[1], "{made:?}");
        let made = scores(&plain, &pair(8));
        assert!(made[0] > made[1], "an earlier alternative: {made:?}");
        let prefers = pod(&json!({"containers": [{"name": "c"}], "affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}}]}}}));
        let made = scores(&prefers, &pair(0));
        assert!(made[0] > made[1], "a preference: {made:?}");
        let tainted = node(&json!([{"key": "k", "effect": "PreferNoSchedule"}]), "b");
        let made =
            scores(&plain, &[Candidate { node: &a, usage: Some(&busy), claims: 0 }, Candidate { node: &tainted, usage: None, claims: 0 }]);
        assert!(made[0] > made[1], "a taint to avoid: {made:?}");
    }

    #[test]
    fn normalising() {
        assert_eq!(normalised(vec![0, 5, 10], false), [0, 50, 100]);
        assert_eq!(normalised(vec![0, 5, 10], true), [100, 50, 0]);
        assert_eq!(normalised(vec![0, 0], true), [100, 100]);
        assert_eq!(normalised(vec![0, 0], false), [0, 0]);
    }
}
