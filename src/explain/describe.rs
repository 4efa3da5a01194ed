//! A cause in values: which selector and which value it saw, who uses what, what is short by how much.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Toleration;

use super::cause::Cause;
use super::finding::Finding;
use super::names::{Names, nearest};
use super::problem::{Edit, Problem, RequestRef, constraints_of, is_of};
use super::reason::Reason;
use super::selector::{FalsePart, false_parts};
use crate::allocator::{Obstacle, PoolState, Survey, SurveyedRequest};
use crate::model::attribute::{AttributeValue, Scalar, lookup};
use crate::model::ids::{DeviceId, PoolId};
use crate::model::quantity::Quantity;

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

struct Teller<'a> {
    problem: &'a Problem,
    survey: Option<&'a Survey>,
    error: Option<&'a str>,
    around: Around<'a>,
}

impl Teller<'_> {
    fn node(&self) -> &str {
        self.problem.node.metadata.name.as_deref().unwrap_or_default()
    }

    fn sees_nothing(&self) -> bool {
        self.survey.is_none_or(|survey| survey.devices.is_empty())
    }

    fn surveyed(&self, of: &RequestRef) -> Option<&SurveyedRequest> {
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
            Edit::NoCapacity(of) | Edit::Capacity(of, ..) => self.capacity(of),
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
            let of_these: Vec<&DeviceId> =
                all.iter().zip(&request.obstacles).filter(|(id, o)| selected(o) && devices.contains(id)).map(|(id, _)| id).collect();
            if !of_these.is_empty() {
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
        for (_, device) in self.problem.devices() {
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

    fn constraint(&self, claim: usize, number: usize) -> Finding {
        let constraints = self.problem.claims.get(claim).map(|claim| constraints_of(claim)).unwrap_or_default();
        let Some(constraint) = constraints.get(number) else { return Finding::new(Reason::ConstraintUnmet) };
        let matches = constraint.match_attribute.is_some();
        let attribute = constraint.match_attribute.as_deref().or(constraint.distinct_attribute.as_deref()).unwrap_or_default();
        if attribute.is_empty() {
            return Finding::new(Reason::RequestMalformed).with("request", format!("constraints[{number}]")).with("error", self.error.unwrap_or_default());
        }
        let own = Names::of(self.problem.slices.iter().map(|slice| &**slice));
        let derived = self.problem.requests().iter().any(|of| self.problem.asked(of).is_some_and(|asked| asked.derived));
        if let Some(finding) = own.constraint(attribute).filter(|_| !derived) {
            return finding.with("node", self.node()).with("constraint", number);
        }
        let mut values: BTreeMap<String, usize> = BTreeMap::new();
        let mut kinds = BTreeSet::new();
        let mut without = 0;
        let selected = self.selected();
        for (slice, device) in self.problem.devices() {
            let id = DeviceId::new(&slice.spec.driver, &slice.spec.pool.name, &device.name);
            if !selected.is_empty() && !selected.contains(&id) {
                continue;
            }
            match device.attributes.as_ref().and_then(|all| lookup(all, &slice.spec.driver, attribute)) {
                None => without += 1,
                Some(found) => {
                    let value = AttributeValue::of(found);
                    kinds.extend(value.values().iter().map(kind));
                    let shown: Vec<String> = value.values().iter().map(shown).collect();
                    *values.entry(shown.join(",")).or_default() += 1;
                }
            }
        }
        let mut parts: Vec<String> = values.iter().map(|(value, count)| format!("{value} ({count})")).collect();
        if without > 0 {
            parts.push(format!("unset ({without})"));
        }
        let finding = Finding::new(Reason::ConstraintUnmet)
            .with("constraint", number)
            .with("attribute", attribute)
            .with("values", list(parts))
            .with("node", self.node());
        if kinds.len() > 1 {
            return finding.variant("types").with("types", kinds.into_iter().collect::<Vec<_>>().join(", "));
        }
        if matches { finding } else { finding.variant("distinct") }
    }

    /// The devices that pass the selectors of some request.
    fn selected(&self) -> BTreeSet<DeviceId> {
        let Some(survey) = self.survey else { return BTreeSet::new() };
        let passes = |o: &Option<Obstacle>| !matches!(o, Some(Obstacle::Selector { .. } | Obstacle::SelectorFails { .. } | Obstacle::Node));
        survey
            .requests
            .iter()
            .flat_map(|request| survey.devices.iter().zip(&request.obstacles).filter(|(_, o)| passes(o)).map(|(id, _)| id.clone()))
            .collect()
    }

    fn counters(&self, pool: &PoolId) -> Finding {
        let slices = || self.problem.slices.iter().filter(|slice| is_of(slice, pool));
        let mut left: BTreeMap<(&str, &str), Quantity> = BTreeMap::new();
        for set in slices().flat_map(|slice| slice.spec.shared_counters.iter().flatten()) {
            for (name, counter) in &set.counters {
                if let Ok(value) = Quantity::parse(&counter.value.0) {
                    left.insert((&set.name, name), value);
                }
            }
        }
        let mut users = BTreeSet::new();
        for device in slices().flat_map(|slice| slice.spec.devices.iter().flatten()) {
            let id = DeviceId { pool: pool.clone(), device: device.name.as_str().into() };
            if !self.problem.state.is_allocated(&id) {
                continue;
            }
            users.insert(device.name.as_str());
            for entry in device.consumes_counters.iter().flatten() {
                for (name, counter) in &entry.counters {
                    if let (Some(left), Ok(taken)) = (left.get_mut(&(entry.counter_set.as_str(), name.as_str())), Quantity::parse(&counter.value.0)) {
                        *left = left.sub(&taken);
                    }
                }
            }
        }
        // The device that comes nearest: the fewest counters short.
        let selected = self.selected();
        let mut nearest: Option<(usize, String, Vec<String>)> = None;
        for device in slices().flat_map(|slice| slice.spec.devices.iter().flatten()) {
            let id = DeviceId { pool: pool.clone(), device: device.name.as_str().into() };
            if self.problem.state.is_allocated(&id) || (!selected.is_empty() && !selected.contains(&id)) {
                continue;
            }
            let mut short = Vec::new();
            for entry in device.consumes_counters.iter().flatten() {
                for (name, counter) in &entry.counters {
                    let (Some(left), Ok(needs)) = (left.get(&(entry.counter_set.as_str(), name.as_str())), Quantity::parse(&counter.value.0)) else { continue };
                    if needs > *left {
                        short.push(format!("{}/{name}: {needs} > {left} (-{})", entry.counter_set, needs.sub(left)));
                    }
                }
            }
            if !short.is_empty() && nearest.as_ref().is_none_or(|(fewest, ..)| short.len() < *fewest) {
                nearest = Some((short.len(), device.name.clone(), short));
            }
        }
        let finding = Finding::new(Reason::CountersShort).with("pool", pool).with("node", self.node());
        match nearest {
            Some((_, device, short)) => {
                finding.with("device", device).with("short", list(short)).with("users", if users.is_empty() { "-".to_owned() } else { list(users) })
            }
            None => {
                let left = left.iter().map(|((set, name), left)| format!("{set}/{name}: {left}"));
                finding.variant("together").with("left", list(left))
            }
        }
    }

    fn capacity(&self, of: &RequestRef) -> Finding {
        let finding = Finding::new(Reason::CapacityShort).with("request", &of.request).with("node", self.node());
        let survey = self.survey;
        let mut nearest: Option<(DeviceId, crate::allocator::Shortage)> = None;
        let mut failing = None;
        if let (Some(survey), Some(request)) = (survey, self.surveyed(of)) {
            for (id, obstacle) in survey.devices.iter().zip(&request.obstacles) {
                match obstacle {
                    Some(Obstacle::Capacity(short)) => {
                        let amount = |short: &crate::allocator::Shortage| short.left.as_deref().and_then(|left| Quantity::parse(left).ok());
                        if nearest.as_ref().is_none_or(|(_, known)| amount(short) > amount(known)) {
                            nearest = Some((id.clone(), short.clone()));
                        }
                    }
                    Some(Obstacle::CapacityFails(text)) => failing = Some(text.clone()),
                    _ => {}
                }
            }
        }
        if let Some(error) = failing.or_else(|| self.error.filter(|error| error.contains("checking capacity")).map(str::to_owned)) {
            return Finding::new(Reason::CapacityError).with("error", error);
        }
        let Some((device, short)) = nearest else { return finding.variant("together") };
        let finding = finding.with("device", &device.device).with("name", &short.name).with("asked", &short.asked);
        let Some(left) = &short.left else { return finding.variant("missing") };
        let finding = finding.with("left", left);
        if short.forbidden {
            return finding.variant("forbidden");
        }
        match (Quantity::parse(&short.asked), Quantity::parse(left)) {
            (Ok(asked), Ok(left)) => finding.with("short", asked.sub(&left)),
            _ => finding.with("short", "?"),
        }
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
                    Some(Obstacle::Selector { of_class: whose, number: which }) if *whose == of_class && *which == number => stopped.push(id),
                    Some(Obstacle::SelectorFails { of_class: whose, number: which, compile, text }) if *whose == of_class && *which == number => {
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
        let devices = self.problem.devices().filter(|(slice, device)| {
            stopped.iter().any(|id| *id.device == *device.name && is_of(slice, &id.pool))
        });
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

fn kind(value: &Scalar<'_>) -> &'static str {
    match value {
        Scalar::String(_) => "string",
        Scalar::Int(_) => "int",
        Scalar::Bool(_) => "bool",
        Scalar::Version(_) => "version",
    }
}

fn shown(value: &Scalar<'_>) -> String {
    match value {
        Scalar::String(text) => format!("\"{text}\""),
        Scalar::Int(value) => value.to_string(),
        Scalar::Bool(value) => value.to_string(),
        Scalar::Version(text) => format!("version {text}"),
    }
}
