//! A cause in values: which selector and which value it saw, who uses what, what is short by how much.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Toleration;

use super::cause::Cause;
use super::edit::Edit;
use super::finding::Finding;
use super::names::{Names, nearest};
use super::problem::{Problem, RequestRef, is_of};
use super::reason::Reason;
use super::selector::{FalsePart, false_parts};
use crate::allocator::{Obstacle, PoolState, Survey, SurveyedRequest};
use crate::model::ids::{DeviceId, PoolId};

/// How many names a sentence lists.
const LISTED: usize = 4;

/// What is known besides the problem.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The names that are published in the cluster.
    pub names: &'a Names,
    /// The tolerations of the pod, which do nothing for devices.
    pub pod_tolerations: &'a [Toleration],
    /// Says who has a claim: `claim a (pod b)`.
    pub who: &'a dyn Fn(&crate::scheduling::view::Key) -> String,
}

/// The findings of a cause, the most important first.
#[must_use]
pub fn findings(problem: &Problem, cause: &Cause, error: Option<&str>, around: Around<'_>) -> Vec<Finding> {
    let survey = problem.allocator().survey(&problem.node, &problem.claims).ok();
    let teller = Teller { problem, survey: survey.as_ref(), error, around };
    if cause.edits.iter().any(|edit| matches!(edit, Edit::MoreDevices(_))) && teller.sees_nothing() {
        return vec![teller.no_devices()];
    }
    cause.edits.iter().map(|edit| teller.tell(edit)).collect()
}

/// Some names as a list, with how many more there are.
#[must_use]
pub fn list<T: std::fmt::Display>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    let shown = names[..names.len().min(LISTED)].join(", ");
    if names.len() > LISTED { format!("{shown} +{}", names.len() - LISTED) } else { shown }
}

/// Tells what changes mean.
pub(super) struct Teller<'a> {
    pub(super) problem: &'a Problem,
    pub(super) survey: Option<&'a Survey>,
    pub(super) error: Option<&'a str>,
    around: Around<'a>,
}

impl Teller<'_> {
    pub(super) fn node(&self) -> &str {
        self.problem.node.metadata.name.as_deref().unwrap_or_default()
    }

    fn sees_nothing(&self) -> bool {
        self.survey.is_none_or(|survey| survey.devices.is_empty())
    }

    pub(super) fn surveyed(&self, of: &RequestRef) -> Option<&SurveyedRequest> {
        self.survey?.requests.iter().find(|request| request.claim == of.claim && request.name == of.request)
    }

    fn tell(&self, edit: &Edit) -> Finding {
        match edit {
            Edit::Gate(feature) => Finding::new(Reason::GateOff).with("gate", feature),
            Edit::AddClass(class) => self.class_missing(class),
            Edit::MendRequest(of) => self.malformed(of),
            Edit::CompletePool(pool) => self.pool(pool, Reason::PoolIncomplete),
            Edit::OldGeneration(pool) => Finding::new(Reason::PoolSuperseded).with("pool", pool).with("node", self.node()),
            Edit::MendPool(pool) => self.pool(pool, Reason::PoolInvalid),
            Edit::DropSlice(slice) => {
                Finding::new(Reason::SliceSelector).with("slice", slice).with("error", self.error.unwrap_or_default())
            }
            Edit::Free(devices) => self.in_use(devices),
            Edit::Untaint(key) | Edit::Tolerate(_, key) => self.taint(key),
            Edit::DropConstraint(claim, number) | Edit::ConstrainBy(claim, number, _) => self.constraint(*claim, *number),
            Edit::NoCounters(pool) => self.counters(pool),
            Edit::NoGroups => Finding::new(Reason::CompatibilityGroups).with("node", self.node()),
            Edit::LeastCapacity(of) | Edit::NoCapacity(of) | Edit::Capacity(of, ..) => self.capacity(of),
            Edit::HereToo => Finding::new(Reason::SliceNodes).with("node", self.node()),
            Edit::WithNodeOperations => Finding::new(Reason::NodeOperations).with("node", self.node()),
            Edit::NoBindingConditions => Finding::new(Reason::GateOff).with("gate", "DRADeviceBindingConditions"),
            Edit::DropSelector { request, of_class, number } => self.selector(request, *of_class, *number),
            Edit::Select(of, number, _) => self.selector(of, false, *number),
            Edit::UseClass(of, _) => self.class_missing(self.problem.asked(of).map_or("", |asked| asked.class)),
            Edit::Count(of, _) => self.count(of),
            Edit::NoDerived(_) => Finding::new(Reason::DerivedAttribute).with("error", self.error.unwrap_or_default()),
            Edit::NoAdmin(_) => Finding::new(Reason::GateOff).with("gate", "DRAAdminAccess"),
            Edit::PlainDevices => Finding::new(Reason::CapacityError).with("error", self.error.unwrap_or_default()),
            Edit::MoreDevices(_) => self.no_devices(),
        }
    }

    fn no_devices(&self) -> Finding {
        let hidden: BTreeSet<String> = self.survey.iter().flat_map(|survey| &survey.hidden).map(|(_, gate)| gate.to_string()).collect();
        let finding = Finding::new(Reason::NoDevices).with("node", self.node());
        if self.sees_nothing() {
            if hidden.is_empty() { finding } else { finding.variant("hidden").with("gate", list(hidden)) }
        } else {
            let seen = self.survey.map_or(0, |survey| survey.devices.len());
            finding.variant("more").with("seen", seen)
        }
    }

    fn class_missing(&self, class: &str) -> Finding {
        let known: Vec<&str> = self.problem.classes.keys().map(String::as_str).collect();
        let finding = Finding::new(Reason::ClassMissing).with("class", class).with("known", list(known.iter().copied()));
        let finding = match nearest(class, known.into_iter()) {
            Some(near) => finding.variant("near").with("nearest", near),
            None => finding,
        };
        let driver = self.around.names.drivers.contains(class);
        finding.because(driver.then(|| Finding::new(Reason::ClassIsDriver).with("driver", class)))
    }

    fn malformed(&self, of: &RequestRef) -> Finding {
        Finding::new(Reason::RequestMalformed).with("request", &of.request).with("error", self.error.unwrap_or_default())
    }

    fn pool(&self, pool: &PoolId, reason: Reason) -> Finding {
        let finding = Finding::new(reason).with("pool", pool).with("node", self.node());
        let survey = self.problem.allocator().survey(&self.problem.node, &[]).ok();
        let state = survey.and_then(|survey| survey.pools.into_iter().find(|surveyed| surveyed.id == *pool)).map(|surveyed| surveyed.state);
        let finding = match &state {
            Some(PoolState::Incomplete { have, want }) => finding.with("have", have).with("want", want),
            Some(PoolState::Invalid(why)) => finding.with("why", why),
            _ => finding,
        };
        if self.error.is_some_and(|error| error.contains("asks for all devices")) { finding.variant("all") } else { finding }
    }

    /// Requests for which the devices would do but for being in use.
    fn in_use(&self, devices: &[DeviceId]) -> Finding {
        let mut busy: BTreeSet<&DeviceId> = BTreeSet::new();
        let (mut matching, mut seen) = (0, 0);
        let mut names = Vec::new();
        for request in self.survey.iter().flat_map(|survey| &survey.requests) {
            let all = self.survey.map(|survey| survey.devices.as_slice()).unwrap_or_default();
            let selected = |obstacle: &Option<Obstacle>| {
                !matches!(obstacle, Some(Obstacle::Selector { .. } | Obstacle::SelectorFails { .. } | Obstacle::Node))
            };
            let would_do = |id: &DeviceId, o: &Option<Obstacle>| selected(o) && self.problem.state.is_allocated(id);
            let of_these: Vec<&DeviceId> = all.iter().zip(&request.obstacles).filter(|(id, o)| would_do(id, o)).map(|(id, _)| id).collect();
            if of_these.iter().any(|id| devices.contains(id)) {
                matching = request.obstacles.iter().filter(|o| selected(o)).count().max(matching);
                seen = all.len();
                names.push(request.name.clone());
                busy.extend(of_these);
            }
        }
        if busy.is_empty() {
            busy.extend(devices);
        }
        let holders: BTreeSet<String> =
            busy.iter().flat_map(|id| self.problem.holders.get(*id).into_iter().flatten()).map(|key| (self.around.who)(key)).collect();
        let finding = Finding::new(Reason::DevicesInUse)
            .with("node", self.node())
            .with("request", list(names))
            .with("busy", busy.len())
            .with("matching", matching.max(busy.len()))
            .with("seen", seen)
            .with("devices", list(busy.iter().map(|id| id.device.to_string())));
        if holders.is_empty() { finding.variant("unknown") } else { finding.with("by", list(holders)) }
    }

    fn taint(&self, key: &str) -> Finding {
        let mut on = Vec::new();
        let mut taint = None;
        for (_, device) in self.problem.devices_here() {
            if let Some(found) = device.taints.iter().flatten().find(|taint| taint.key == key) {
                on.push(device.name.as_str());
                taint = taint.or(Some(found));
            }
        }
        let (value, effect) = taint.map_or(("", ""), |taint| (taint.value.as_deref().unwrap_or_default(), taint.effect.as_str()));
        let shown = if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") };
        let mut details = Vec::new();
        if self.around.pod_tolerations.iter().any(|toleration| toleration.key.as_deref() == Some(key)) {
            details.push(Finding::new(Reason::TolerationMisplaced).with("key", key));
        }
        let tolerations = self.problem.requests();
        let near = tolerations
            .iter()
            .filter_map(|of| self.problem.asked(of))
            .flat_map(|asked| asked.tolerations)
            .find(|toleration| toleration.key.as_deref() == Some(key));
        if let Some(toleration) = near {
            let has = toleration.value.clone().unwrap_or_default();
            details.push(Finding::new(Reason::TolerationMisplaced).variant("differs").with("key", key).with("has", has).with("is", value));
        }
        Finding::new(Reason::DeviceTaint)
            .with("taint", shown)
            .with("count", on.len())
            .with("devices", list(on))
            .with("node", self.node())
            .because(details)
    }

    fn selector(&self, of: &RequestRef, of_class: bool, number: usize) -> Finding {
        let asked = self.problem.asked(of);
        let class = asked.map_or("", |asked| asked.class);
        let of_the_class = self.problem.classes.get(class).and_then(|class| class.spec.as_ref()?.selectors.as_deref());
        let selectors = if of_class { of_the_class.unwrap_or_default() } else { asked.map(|asked| asked.selectors).unwrap_or_default() };
        let expression = selectors.get(number).and_then(|selector| selector.cel.as_ref()).map_or("", |cel| cel.expression.trim());
        let seen = self.survey.map_or(0, |survey| survey.devices.len());
        let fill = |finding: Finding| {
            finding
                .with("request", &of.request)
                .with("class", class)
                .with("number", number)
                .with("expression", expression)
                .with("seen", seen)
                .with("node", self.node())
        };
        if expression.is_empty() {
            return self.malformed(of);
        }
        let mut stopped: Vec<&DeviceId> = Vec::new();
        let mut failing: Option<(&DeviceId, bool, &str)> = None;
        if let (Some(survey), Some(request)) = (self.survey, self.surveyed(of)) {
            for (id, obstacle) in survey.devices.iter().zip(&request.obstacles) {
                match obstacle {
                    Some(Obstacle::Selector { of_class: whose, number: which }) if *whose == of_class && *which == number => {
                        stopped.push(id);
                    }
                    Some(Obstacle::SelectorFails { of_class: whose, number: which, compile, text })
                        if *whose == of_class && *which == number =>
                    {
                        failing = failing.or(Some((id, *compile, text)));
                    }
                    _ => {}
                }
            }
        }
        let remarks = self.around.names.remarks(expression);
        if let Some((device, compile, text)) = failing {
            let reason = if compile { Reason::SelectorCompile } else { Reason::SelectorError };
            let missing = text.split_once("no such key: ").map(|(_, rest)| rest.split(['.', ' ']).next().unwrap_or_default().to_owned());
            let relevant = remarks.into_iter().filter(|remark| {
                missing.as_ref().is_none_or(|missing| {
                    remark.reason == Reason::UnknownDomain || remark.values.get("name").is_some_and(|name| name == missing)
                })
            });
            return fill(Finding::new(reason)).with("device", device).with("error", text).because(relevant);
        }
        let devices = self
            .problem
            .devices_here()
            .filter(|(slice, device)| stopped.iter().any(|id| *id.device == *device.name && is_of(slice, &id.pool)));
        let parts = false_parts(expression, self.problem.features, devices);
        let reason = if of_class { Reason::ClassSelector } else { Reason::RequestSelector };
        let details = parts.iter().take(LISTED).map(|part| part_finding(part, expression, reason));
        fill(Finding::new(reason)).with("stopped", stopped.len()).because(details).because(remarks)
    }

    fn count(&self, of: &RequestRef) -> Finding {
        let asked = self.problem.asked(of);
        let (wanted, all) = asked.map_or((0, false), |asked| (asked.count, asked.mode == "All"));
        let left = self.surveyed(of).map_or(0, |request| request.obstacles.iter().filter(|obstacle| obstacle.is_none()).count());
        let seen = self.survey.map_or(0, |survey| survey.devices.len());
        if self.error.is_some_and(|error| error.contains("exceeds the claim limit") || error.contains("max size")) {
            return Finding::new(Reason::TooManyDevices).with("request", &of.request).with("error", self.error.unwrap_or_default());
        }
        let finding = Finding::new(Reason::TooFewDevices)
            .with("request", &of.request)
            .with("wanted", wanted)
            .with("left", left)
            .with("seen", seen)
            .with("node", self.node());
        if all {
            return finding.variant("all");
        }
        if i64::try_from(left).unwrap_or(i64::MAX) >= wanted { finding.variant("shared") } else { finding }
    }
}

/// `memory is 80Gi on 8 devices`.
fn part_finding(part: &FalsePart, expression: &str, reason: Reason) -> Finding {
    let seen = part.seen.iter().map(|seen| format!("{} = {} ({})", short(&seen.what), seen.value, seen.devices));
    let finding = Finding::new(reason).with("part", &part.text).with("devices", part.devices);
    let finding = if part.seen.is_empty() { finding.variant("part-bare") } else { finding.with("values", list(seen)).variant("part") };
    if part.text == expression && part.seen.is_empty() { finding.variant("part-whole") } else { finding }
}

/// The last name of a chain of fields.
fn short(chain: &str) -> &str {
    let end = chain.trim_end_matches(['"', '\'', ']']);
    let start = end.rfind(['.', '"', '\'']).map_or(0, |at| at + 1);
    let name = &end[start..];
    if name.is_empty() { chain } else { name }
}
