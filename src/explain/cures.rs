//! What would make it fit. Every suggestion is tried: the allocator is asked again about a changed copy, and only what it
//! then found devices for is said.

use std::collections::BTreeMap;
use std::fmt::Display;

use k8s_openapi::api::core::v1::Toleration;

use super::cause::Cause;
use super::edit::Edit;
use super::finding::Cure;
use super::names::{Names, nearest};
use super::problem::{Problem, RequestRef, constraints_of, is_of};
use super::rewrite::{guarded, renamed, with_seen};
use super::selector::false_parts;
use crate::allocator::{Obstacle, Outcome};
use crate::model::ids::DeviceId;
use crate::scheduling::filters;
use crate::scheduling::snapshot::Usage;
use crate::scheduling::view::{Key, NodeView, PodView};

/// How many suggestions are made.
const MOST: usize = 5;

/// What is known besides the problem.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The names that are published.
    pub names: &'a Names,
    /// The pods that use a claim: `namespace/name`.
    pub users: &'a dyn Fn(&Key) -> Vec<Key>,
}

/// Suggestions for one node's problem, each tried.
#[must_use]
pub fn find(problem: &Problem, cause: &Cause, known: Known<'_>) -> Vec<Cure> {
    let mut trial = Trial { problem, known, base: Vec::new(), cures: Vec::new() };
    if cause.edits.len() > 1 {
        // Each of several causes is cured while the others are out of the way.
        for number in 0..cause.edits.len() {
            let others = cause.edits.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, edit)| edit.clone());
            trial.base = others.collect();
            trial.cure(&cause.edits[number]);
        }
        for cure in &mut trial.cures {
            cure.values.insert("together", cause.edits.len().to_string());
        }
    } else {
        for edit in cause.edits.iter().chain(&cause.others) {
            trial.cure(edit);
        }
    }
    trial.cures.truncate(MOST);
    trial.cures
}

struct Trial<'a> {
    problem: &'a Problem,
    known: Known<'a>,
    base: Vec<Edit>,
    cures: Vec<Cure>,
}

impl Trial<'_> {
    /// Tries a change; what fits is a cure.
    fn try_it(&mut self, change: &'static str, edits: &[Edit], values: &[(&'static str, &dyn Display)], command: Option<String>) -> bool {
        if self.cures.len() >= MOST {
            return false;
        }
        let Outcome::Fits(results) = self.problem.with(self.base.iter().chain(edits)).solve() else { return false };
        let devices = results
            .iter()
            .flat_map(|result| result.devices.iter().flat_map(|devices| devices.results.iter().flatten()))
            .map(|result| format!("{}={}/{}/{}", result.request, result.driver, result.pool, result.device))
            .collect();
        let values: BTreeMap<&'static str, String> = values.iter().map(|(name, value)| (*name, value.to_string())).collect();
        let node = self.problem.node.metadata.name.clone().unwrap_or_default();
        if !self.cures.iter().any(|cure| cure.change == change && cure.values == values) {
            self.cures.push(Cure { change, message: String::new(), values, node, devices, command });
        }
        true
    }

    fn cure(&mut self, edit: &Edit) {
        let same = std::slice::from_ref(edit);
        match edit {
            Edit::Free(devices) => self.free(devices),
            Edit::Gate(feature) => {
                self.try_it("switch-gate-on", same, &[("gate", feature)], None);
            }
            Edit::AddClass(class) => {
                self.use_class_instead_of(class);
                self.try_it("add-class", same, &[("class", class)], None);
            }
            Edit::MendRequest(of) => {
                self.try_it("mend-request", same, &[("request", &of.request)], None);
            }
            Edit::CompletePool(pool) | Edit::OldGeneration(pool) => {
                self.try_it("complete-pool", same, &[("pool", pool)], None);
            }
            Edit::MendPool(pool) => {
                self.try_it("mend-pool", same, &[("pool", pool)], None);
            }
            Edit::Untaint(key) => {
                for of in self.problem.requests() {
                    self.try_it("tolerate", &[Edit::Tolerate(of.clone(), key.clone())], &[("key", key), ("request", &of.request)], None);
                }
                self.try_it("remove-taint", same, &[("key", key)], None);
            }
            Edit::DropConstraint(claim, number) => self.constraint(*claim, *number, same),
            Edit::NoCounters(pool) => {
                let held: Vec<DeviceId> = self.problem.holders.keys().filter(|id| id.pool == *pool).cloned().collect();
                if !held.is_empty() {
                    self.free(&held);
                }
            }
            Edit::LeastCapacity(of) | Edit::NoCapacity(of) => self.capacity(of),
            Edit::Count(of, _) => self.count(of),
            Edit::DropSelector { request, of_class: false, number } => self.selector(request, *number, same),
            Edit::DropSelector { request, of_class: true, .. } => {
                if let Some(class) = self.problem.asked(request).map(|asked| asked.class.to_owned()) {
                    self.other_classes(request, &class);
                }
            }
            Edit::NoDerived(of) => {
                self.try_it("drop-derived", same, &[("request", &of.request)], None);
            }
            Edit::WithNodeOperations => {
                self.try_it("node-operations", same, &[], None);
            }
            Edit::DropSlice(slice) => {
                self.try_it("drop-slice", same, &[("slice", slice)], None);
            }
            _ => {}
        }
    }

    fn free(&mut self, devices: &[DeviceId]) {
        let mut holders: BTreeMap<Key, Vec<DeviceId>> = BTreeMap::new();
        for device in devices {
            for holder in self.problem.holders.get(device).into_iter().flatten() {
                holders.entry(holder.clone()).or_default().push(device.clone());
            }
        }
        let mut alone = false;
        for (holder, devices) in &holders {
            let users = (self.known.users)(holder);
            let freed = Edit::Free(devices.clone());
            let list: Vec<String> = users.iter().map(ToString::to_string).collect();
            let command = match users.as_slice() {
                [] => None,
                users => Some(format!(
                    "kubectl delete pod -n {} {}",
                    holder.namespace,
                    users.iter().map(|user| user.name.as_str()).collect::<Vec<_>>().join(" ")
                )),
            };
            alone |= if list.is_empty() {
                self.try_it("release-claim", &[freed], &[("claim", holder)], None)
            } else {
                self.try_it("end-pods", &[freed], &[("claim", holder), ("pods", &list.join(", "))], command)
            };
        }
        if !alone {
            let all = super::describe::list(devices.iter().map(|id| id.device.to_string()));
            self.try_it("free-devices", &[Edit::Free(devices.to_vec())], &[("devices", &all)], None);
        }
    }

    fn use_class_instead_of(&mut self, missing: &str) {
        let classes: Vec<&str> = self.problem.classes.keys().map(String::as_str).collect();
        let Some(near) = nearest(missing, classes.into_iter()).map(str::to_owned) else {
            for of in self.problem.requests() {
                if self.problem.asked(&of).is_some_and(|asked| asked.class == missing) {
                    self.other_classes(&of, missing);
                }
            }
            return;
        };
        let using: Vec<Edit> = self
            .problem
            .requests()
            .into_iter()
            .filter(|of| self.problem.asked(of).is_some_and(|asked| asked.class == missing))
            .map(|of| Edit::UseClass(of, near.clone()))
            .collect();
        self.try_it("use-class", &using, &[("class", &near)], None);
    }

    fn other_classes(&mut self, of: &RequestRef, but: &str) {
        let others: Vec<String> = self.problem.classes.keys().filter(|class| *class != but).take(8).cloned().collect();
        for class in others {
            if self.try_it("use-class", &[Edit::UseClass(of.clone(), class.clone())], &[("class", &class)], None) {
                return;
            }
        }
    }

    fn constraint(&mut self, claim: usize, number: usize, drop: &[Edit]) {
        let constraints = self.problem.claims.get(claim).map(|claim| constraints_of(claim)).unwrap_or_default();
        let attribute =
            constraints.get(number).and_then(|c| c.match_attribute.clone().or_else(|| c.distinct_attribute.clone())).unwrap_or_default();
        let own = Names::of(self.problem.slices.iter().map(|slice| &**slice));
        if let Some(near) = own.constraint(&attribute).and_then(|finding| finding.values.get("nearest").cloned()) {
            self.try_it(
                "constrain-by",
                &[Edit::ConstrainBy(claim, number, near.clone())],
                &[("attribute", &near), ("instead", &attribute)],
                None,
            );
        }
        self.try_it("drop-constraint", drop, &[("number", &number), ("attribute", &attribute)], None);
    }

    fn capacity(&mut self, of: &RequestRef) {
        let survey = self.problem.with(&self.base).allocator().survey(&self.problem.node, &self.problem.claims).ok();
        let request = survey.iter().flat_map(|survey| &survey.requests).find(|r| r.claim == of.claim && r.name == of.request);
        let mut lefts: Vec<(String, String)> = request
            .into_iter()
            .flat_map(|request| &request.obstacles)
            .filter_map(|obstacle| match obstacle {
                Some(Obstacle::Capacity(short)) => short.left.clone().map(|left| (short.name.clone(), left)),
                _ => None,
            })
            .collect();
        lefts.sort_by(|a, b| {
            let amount = |text: &str| crate::model::quantity::Quantity::parse(text).ok();
            amount(&b.1).cmp(&amount(&a.1))
        });
        lefts.dedup();
        for (name, left) in lefts.into_iter().take(3) {
            let edit = Edit::Capacity(of.clone(), name.clone(), left.clone());
            if self.try_it("less-capacity", &[edit], &[("request", &of.request), ("name", &name), ("amount", &left)], None) {
                return;
            }
        }
        self.try_it("no-capacity", &[Edit::NoCapacity(of.clone())], &[("request", &of.request)], None);
    }

    /// The largest number that fits.
    fn count(&mut self, of: &RequestRef) {
        let Some(asked) = self.problem.asked(of) else { return };
        let all = asked.mode == "All";
        let most = if all { 32 } else { (asked.count - 1).min(32) };
        for count in (1..=most).rev() {
            if self.try_it("count", &[Edit::Count(of.clone(), count)], &[("request", &of.request), ("count", &count)], None) {
                return;
            }
        }
    }

    fn selector(&mut self, of: &RequestRef, number: usize, drop: &[Edit]) {
        let Some(asked) = self.problem.asked(of) else { return };
        let Some(expression) = asked.selectors.get(number).and_then(|selector| selector.cel.as_ref()).map(|cel| cel.expression.clone())
        else {
            return;
        };
        let mut tried = false;
        for rewritten in renamed(self.known.names, &expression).into_iter().chain(guarded(&expression)) {
            tried |= self.select(of, number, &rewritten);
        }
        let survey = self.problem.allocator().survey(&self.problem.node, &self.problem.claims).ok();
        if let Some(survey) = survey {
            let request = survey.requests.iter().find(|r| r.claim == of.claim && r.name == of.request);
            let stopped: Vec<&DeviceId> = request
                .map(|request| {
                    let here =
                        |o: &Option<Obstacle>| matches!(o, Some(Obstacle::Selector { of_class: false, number: which }) if *which == number);
                    survey.devices.iter().zip(&request.obstacles).filter(|(_, o)| here(o)).map(|(id, _)| id).collect()
                })
                .unwrap_or_default();
            let devices = self
                .problem
                .devices_here()
                .filter(|(slice, device)| stopped.iter().any(|id| *id.device == *device.name && is_of(slice, &id.pool)));
            for part in false_parts(&expression, self.problem.features, devices).iter().take(2) {
                for rewritten in with_seen(&expression, part) {
                    tried |= self.select(of, number, &rewritten);
                }
            }
        }
        if !tried {
            self.try_it("drop-selector", drop, &[("request", &of.request), ("number", &number)], None);
        }
    }

    fn select(&mut self, of: &RequestRef, number: usize, expression: &str) -> bool {
        let edit = Edit::Select(of.clone(), number, expression.to_owned());
        self.try_it("select", &[edit], &[("request", &of.request), ("expression", &expression), ("number", &number)], None)
    }
}

/// Changes of the pod or the node after which kube-scheduler's other filters let the pod onto a node whose devices would
/// do; each tried with the filters themselves.
#[must_use]
pub fn of_node(pod: &PodView, node: &NodeView, usage: Option<&Usage>, devices: &[String]) -> Vec<Cure> {
    let mut cures = Vec::new();
    let passes = |pod: &PodView, node: &NodeView| filters::check(pod, node, usage).is_none();
    let mut add = |change: &'static str, values: &[(&'static str, String)], command: Option<String>| {
        cures.push(Cure {
            change,
            message: String::new(),
            values: values.iter().cloned().collect(),
            node: node.name.clone(),
            devices: devices.to_vec(),
            command,
        });
    };
    let mut open = pod.clone();
    (open.node_selector, open.required) = (BTreeMap::new(), None);
    if passes(&open, node) {
        add("node-selector", &[], None);
    }
    if let Some(taint) = filters::untolerated(pod, &node.taints) {
        let mut tolerant = pod.clone();
        tolerant.tolerations.push(Toleration {
            operator: Some("Exists".to_owned()),
            key: Some(taint.key.clone()),
            ..Toleration::default()
        });
        if passes(&tolerant, node) {
            add("tolerate-node", &[("taint", format!("{}:{}", taint.key, taint.effect))], None);
        }
    }
    if node.unschedulable {
        let mut ready = node.clone();
        ready.unschedulable = false;
        ready.taints.retain(|taint| taint.key != "node.kubernetes.io/unschedulable");
        if passes(pod, &ready) {
            add("uncordon", &[], Some(format!("kubectl uncordon {}", node.name)));
        }
    }
    cures
}
