//! The sentence of a pod that fits nowhere (upstream: `FitError.Error`).

use std::collections::BTreeMap;

use super::attempt::{NodeVerdict, Verdict};

/// Why preemption does nothing for a node whose reason it cannot change.
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
/// Why preemption does nothing for a node without pods of lower priority.
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// What PostFilter adds.
#[derive(Clone, Copy, Debug, Default)]
pub struct PostFilter {
    /// A claim is being deallocated.
    pub deallocates: bool,
    /// The pod must not preempt.
    pub never_preempts: bool,
}

/// `0/N nodes are available: …` for the verdicts of `total` nodes, or for a refusal before any node was looked at.
#[must_use]
pub fn unschedulable(total: usize, before_nodes: Option<&str>, nodes: &[NodeVerdict], post: PostFilter) -> String {
    let mut text = available(total);
    if let Some(refusal) = before_nodes {
        text = format!("{text}: {refusal}.");
    } else {
        text.push_str(&counted(nodes.iter().flat_map(|node| match &node.verdict {
            Verdict::Refused { reasons, .. } => reasons.iter().map(AsRef::as_ref).collect(),
            _ => Vec::new(),
        })));
    }
    let mut after = Vec::new();
    if post.deallocates {
        after.push("deallocation of ResourceClaim completed".to_owned());
    }
    after.push(format!("preemption: {}", preemption(total, nodes, post)));
    format!("{text} {}", after.join(", "))
}

fn available(total: usize) -> String {
    format!("0/{total} nodes are available")
}

fn preemption(total: usize, nodes: &[NodeVerdict], post: PostFilter) -> String {
    if post.never_preempts {
        return "not eligible due to preemptionPolicy=Never.".to_owned();
    }
    let resolvable = nodes.iter().filter(|node| matches!(node.verdict, Verdict::Refused { resolvable: true, .. })).count();
    let reasons = std::iter::repeat_n(NO_VICTIMS, resolvable).chain(std::iter::repeat_n(NOT_HELPFUL, total.saturating_sub(resolvable)));
    available(total) + &counted(reasons)
}

/// `: 1 reason, 2 other reason.`: counted and sorted as text.
fn counted<'a>(reasons: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut parts: Vec<String> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    if parts.is_empty() { ".".to_owned() } else { format!(": {}.", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::super::attempt::{NodeVerdict, Verdict};
    use super::super::hints::Plugin;
    use super::{PostFilter, unschedulable};

    fn verdict(reasons: &[&'static str], resolvable: bool) -> NodeVerdict {
        let reasons = reasons.iter().map(|reason| (*reason).into()).collect();
        let verdict = Verdict::Refused { plugin: Plugin::TaintToleration, reasons, resolvable };
        NodeVerdict { node: "n".to_owned(), verdict, steps: 0, score: None }
    }

    #[test]
    fn as_recorded() {
        let taint = || verdict(&["node(s) had untolerated taint(s)"], false);
        let devices = || verdict(&["cannot allocate all claims"], false);
        let none = PostFilter::default();
        let table = [
            (
                unschedulable(2, None, &[taint(), devices()], none),
                "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) had untolerated taint(s). \
                 preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            ),
            (
                unschedulable(2, Some("request gpu: device class gpu.nvidia.com does not exist"), &[], none),
                "0/2 nodes are available: request gpu: device class gpu.nvidia.com does not exist. \
                 preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            ),
            (
                unschedulable(
                    2,
                    None,
                    &[taint(), verdict(&["resourceclaim not available on the node"], false)],
                    PostFilter { deallocates: true, never_preempts: false },
                ),
                "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 resourceclaim not available on the node. \
                 deallocation of ResourceClaim completed, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            ),
            (
                unschedulable(
                    12,
                    None,
                    &(0..10)
                        .map(|_| devices())
                        .chain([taint(), verdict(&["Insufficient cpu", "Insufficient memory"], true)])
                        .collect::<Vec<_>>(),
                    none,
                ),
                "0/12 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) had untolerated taint(s), 10 cannot allocate all claims. \
                 preemption: 0/12 nodes are available: 1 No preemption victims found for incoming pod, 11 Preemption is not helpful for scheduling.",
            ),
            (
                unschedulable(1, None, &[taint()], PostFilter { deallocates: false, never_preempts: true }),
                "0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: not eligible due to preemptionPolicy=Never.",
            ),
        ];
        for (made, recorded) in table {
            assert_eq!(made, recorded);
        }
    }
}
