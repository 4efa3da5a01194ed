//! What is short by how much: counters, capacity, and constraints with the values that disagree.

use std::collections::{BTreeMap, BTreeSet};

use super::describe::{Teller, list};
use super::finding::Finding;
use super::names::Names;
use super::problem::{RequestRef, constraints_of, is_of};
use super::reason::Reason;
use crate::allocator::{Obstacle, Shortage};
use crate::model::attribute::{AttributeValue, Scalar, lookup};
use crate::model::ids::{DeviceId, PoolId};
use crate::model::quantity::Quantity;

impl Teller<'_> {
    pub(super) fn constraint(&self, claim: usize, number: usize) -> Finding {
        let constraints = self.problem.claims.get(claim).map(|claim| constraints_of(claim)).unwrap_or_default();
        let Some(constraint) = constraints.get(number) else { return Finding::new(Reason::ConstraintUnmet) };
        let matches = constraint.match_attribute.is_some();
        let attribute = constraint.match_attribute.as_deref().or(constraint.distinct_attribute.as_deref()).unwrap_or_default();
        if attribute.is_empty() {
            return Finding::new(Reason::RequestMalformed)
                .with("request", format!("constraints[{number}]"))
                .with("error", self.error.unwrap_or_default());
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
        for (slice, device) in self.problem.devices_here() {
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
    pub(super) fn selected(&self) -> BTreeSet<DeviceId> {
        let Some(survey) = self.survey else { return BTreeSet::new() };
        let passes = |o: &Option<Obstacle>| !matches!(o, Some(Obstacle::Selector { .. } | Obstacle::SelectorFails { .. } | Obstacle::Node));
        survey
            .requests
            .iter()
            .flat_map(|request| survey.devices.iter().zip(&request.obstacles).filter(|(_, o)| passes(o)).map(|(id, _)| id.clone()))
            .collect()
    }

    pub(super) fn counters(&self, pool: &PoolId) -> Finding {
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
                    if let (Some(left), Ok(taken)) =
                        (left.get_mut(&(entry.counter_set.as_str(), name.as_str())), Quantity::parse(&counter.value.0))
                    {
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
                    let (Some(left), Ok(needs)) =
                        (left.get(&(entry.counter_set.as_str(), name.as_str())), Quantity::parse(&counter.value.0))
                    else {
                        continue;
                    };
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
            Some((_, device, short)) => finding
                .with("device", device)
                .with("short", list(short))
                .with("users", if users.is_empty() { "-".to_owned() } else { list(users) }),
            None => {
                let left = left.iter().map(|((set, name), left)| format!("{set}/{name}: {left}"));
                finding.variant("together").with("left", list(left))
            }
        }
    }

    pub(super) fn capacity(&self, of: &RequestRef) -> Finding {
        let finding = Finding::new(Reason::CapacityShort).with("request", &of.request).with("node", self.node());
        let survey = self.survey;
        let mut nearest: Option<(DeviceId, Shortage)> = None;
        let mut failing = None;
        if let (Some(survey), Some(request)) = (survey, self.surveyed(of)) {
            for (id, obstacle) in survey.devices.iter().zip(&request.obstacles) {
                match obstacle {
                    Some(Obstacle::Capacity(short)) => {
                        let amount = |short: &Shortage| short.left.as_deref().and_then(|left| Quantity::parse(left).ok());
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
