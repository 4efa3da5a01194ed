//! kube-scheduler's filters, in the order of its default profile and with its words.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::Taint;

use super::attempt::Verdict;
use super::hints::Plugin;
use super::snapshot::Usage;
use super::view::{NodeView, PodView};

/// The taint that a cordoned node carries; a pod that tolerates it may go there.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The first filter before DynamicResources that rejects the pod on the node, or `None`.
#[must_use]
pub fn check(pod: &PodView, node: &NodeView, usage: Option<&Usage>) -> Option<Verdict> {
    let refused =
        |plugin, reason: &'static str, resolvable| Some(Verdict::Refused { plugin, reasons: vec![Cow::Borrowed(reason)], resolvable });
    if node.unschedulable && !tolerates_cordon(pod) {
        return refused(Plugin::NodeUnschedulable, "node(s) were unschedulable", false);
    }
    if pod.node.as_deref().is_some_and(|name| name != node.name) {
        return refused(Plugin::NodeName, "node(s) didn't match the requested node name", false);
    }
    if untolerated(pod, &node.taints).is_some() {
        return refused(Plugin::TaintToleration, "node(s) had untolerated taint(s)", false);
    }
    if !affinity_matches(pod, node) {
        return refused(Plugin::NodeAffinity, "node(s) didn't match Pod's node affinity/selector", false);
    }
    let none = Usage::default();
    let usage = usage.unwrap_or(&none);
    if pod.ports.iter().any(|wanted| usage.ports.iter().any(|bound| wanted.conflicts(bound))) {
        return refused(Plugin::NodePorts, "node(s) didn't have free ports for the requested pod ports", true);
    }
    insufficient(pod, node, usage)
}

/// The first taint that keeps the pod away (NoSchedule or NoExecute) and that it does not tolerate.
#[must_use]
pub fn untolerated<'a>(pod: &PodView, taints: &'a [Taint]) -> Option<&'a Taint> {
    taints.iter().find(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute") && !pod.tolerates(taint))
}

/// True if node selector and required affinity of the pod match the node.
#[must_use]
pub fn affinity_matches(pod: &PodView, node: &NodeView) -> bool {
    let labels = node.node.metadata.labels.as_ref();
    let has = |(key, value): (&String, &String)| labels.and_then(|labels| labels.get(key)) == Some(value);
    pod.node_selector.iter().all(has) && pod.required.as_ref().is_none_or(|required| required.matches(&node.node))
}

/// True if the node could take the pod were it empty.
#[must_use]
pub fn fits_empty(pod: &PodView, node: &NodeView) -> bool {
    insufficient(pod, node, &Usage::default()).is_none()
}

fn tolerates_cordon(pod: &PodView) -> bool {
    let cordon = Taint { key: UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), value: None, time_added: None };
    pod.tolerates(&cordon)
}

/// NodeResourcesFit. Preempting could help only where no single request is larger than all that the node has.
fn insufficient(pod: &PodView, node: &NodeView, usage: &Usage) -> Option<Verdict> {
    let mut reasons: Vec<Cow<'static, str>> = Vec::new();
    let mut resolvable = true;
    if usage.pods + 1 > node.pods {
        reasons.push("Too many pods".into());
    }
    let mut check = |name: &str, wanted: i64, used: i64, has: i64| {
        if wanted > 0 && wanted > has.saturating_sub(used) {
            reasons.push(format!("Insufficient {name}").into());
            resolvable &= wanted <= has;
        }
    };
    let (wants, used, has) = (&pod.requests, &usage.requests, &node.allocatable);
    check("cpu", wants.milli_cpu, used.milli_cpu, has.milli_cpu);
    check("memory", wants.memory, used.memory, has.memory);
    check("ephemeral-storage", wants.ephemeral_storage, used.ephemeral_storage, has.ephemeral_storage);
    for (name, wanted) in &wants.others {
        let of = |resources: &super::resources::Resources| resources.others.get(name).copied().unwrap_or_default();
        check(name, *wanted, of(used), of(has));
    }
    if reasons.is_empty() { None } else { Some(Verdict::Refused { plugin: Plugin::NodeResourcesFit, reasons, resolvable }) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::attempt::Verdict;
    use super::super::snapshot::Usage;
    use super::super::view::{HostPort, NodeView, PodView};
    use super::check;

    fn refusal(pod: &Value, node: Value, usage: &Usage) -> Option<(Vec<String>, bool)> {
        let pod = PodView::read(serde_json::from_value(json!({"spec": pod})).expect("a pod"));
        let node = NodeView::read(serde_json::from_value(node).expect("a node"));
        match check(&pod, &node, Some(usage)) {
            Some(Verdict::Refused { reasons, resolvable, .. }) => Some((reasons.iter().map(ToString::to_string).collect(), resolvable)),
            None => None,
            Some(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn reasons_in_the_order_of_the_filters() {
        let node = |taints: Value, unschedulable: bool| {
            json!({"metadata": {"name": "n", "labels": {"zone": "a"}}, "spec": {"taints": taints, "unschedulable": unschedulable},
                   "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "2"}}})
        };
        let taint = json!([{"key": "k", "effect": "NoSchedule"}]);
        let container =
            |cpu: &str| json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}, "ports": [{"containerPort": 1, "hostPort": 80}]}]);
        let plain = json!({"containers": container("1")});
        let mut used = Usage { pods: 1, ..Usage::default() };
        used.requests.milli_cpu = 1500;
        let mut full = Usage { pods: 2, ..Usage::default() };
        full.ports.push(HostPort { address: String::new(), protocol: "TCP".to_owned(), port: 80 });
        let empty = Usage::default();
        let elsewhere = json!({"containers": container("1"), "nodeSelector": {"zone": "b"}});
        type Expected<'a> = Option<(&'a [&'a str], bool)>;
        let table: Vec<(Value, Value, &Usage, Expected<'_>)> = vec![
            (plain.clone(), node(taint.clone(), true), &used, Some((&["node(s) were unschedulable"], false))),
            (
                json!({"containers": container("1"), "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}),
                node(taint.clone(), true),
                &used,
                Some((&["node(s) had untolerated taint(s)"], false)),
            ),
            (elsewhere, node(json!([]), false), &full, Some((&["node(s) didn't match Pod's node affinity/selector"], false))),
            (plain.clone(), node(json!([]), false), &full, Some((&["node(s) didn't have free ports for the requested pod ports"], true))),
            (plain.clone(), node(json!([]), false), &used, Some((&["Insufficient cpu"], true))),
            (json!({"containers": container("3")}), node(json!([]), false), &used, Some((&["Insufficient cpu"], false))),
            (
                json!({"containers": [{"name": "c", "resources": {"requests": {"nosuch.example.com/gpu": "1"}}}]}),
                node(json!([]), false),
                &full,
                Some((&["Too many pods", "Insufficient nosuch.example.com/gpu"], false)),
            ),
            (plain, node(json!([{"key": "k", "effect": "PreferNoSchedule"}]), false), &empty, None),
        ];
        for (pod, node, usage, expected) in table {
            let expected = expected.map(|(reasons, resolvable)| (reasons.iter().map(|r| (*r).to_owned()).collect(), resolvable));
            assert_eq!(refusal(&pod, node, usage), expected, "{pod}");
        }
    }
}
