//! Names that only some devices publish: the first device without one ends the attempt, unless a match comes before it.

use std::collections::BTreeMap;

use super::super::Case;
use super::super::attempt::{Outcome, attempts};
use super::super::finding::{Finding, Fix, Severity, Trap};
use super::super::lookups::{Lookup, Lookups, terms};
use super::super::rewrite::{fix, replaced, text};
use super::listed;
use super::names::access;
use crate::cel::Part;

pub(super) fn find(case: &Case<'_>, outline: &Part, lookups: &Lookups, found: &mut Vec<Finding>) {
    let mut causes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (device, answer) in case.answers.answers.iter().enumerate() {
        let (Some(trace), Some(_)) = (answer.trace(), answer.error()) else { continue };
        let Err(message) = &trace.result else { continue };
        let Some(step) = trace.steps.iter().find(|step| step.result.as_ref() == Err(message)) else { continue };
        let cause = lookups.lookups.iter().position(|lookup| lookup.is_strict() && lookup.span == Some(step.span));
        if let Some(cause) = cause {
            causes.entry(cause).or_default().push(device);
        }
    }
    let partly: Vec<&Lookup> = lookups
        .lookups
        .iter()
        .filter(|lookup| lookup.is_strict() && case.fleet.with(lookup.domain.space, &lookup.domain.name, &lookup.id).next().is_some())
        .collect();
    let fix = guarded(case, outline, &partly);
    for (cause, devices) in causes {
        let Some(lookup) = lookups.lookups.get(cause) else { continue };
        let (space, domain, id) = (lookup.domain.space, &lookup.domain.name, &lookup.id);
        let having = case.fleet.with(space, domain, id).count();
        if having == 0 {
            continue;
        }
        let pools: std::collections::BTreeSet<_> = case.fleet.with(space, domain, id).map(|device| &device.id.pool).collect();
        let without = devices.iter().filter_map(|device| case.fleet.devices.get(*device)).map(|device| device.id.to_string());
        found.push(
            Finding::new(Trap::Missing, Severity::Error, lookup.span)
                .with("name", id)
                .with("having", having)
                .with("devices", case.fleet.devices.len())
                .with("pools", pools.len())
                .with("allPools", case.fleet.pools())
                .with("without", listed(without))
                .fixed(fix.clone()),
        );
    }
    for attempt in attempts(case.fleet, case.answers).into_iter().filter(|attempt| attempt.outcome == Outcome::FitsByOrder) {
        found.push(
            Finding::new(Trap::LuckOfOrder, Severity::Warning, None)
                .with("takes", attempt.takes.unwrap_or_default())
                .with("fails", attempt.fails_at.unwrap_or_default()),
        );
    }
}

/// The expression with a guard before each term that looks up what only some devices have. It must fail on no device and
/// match wherever the original does.
fn guarded(case: &Case<'_>, outline: &Part, partly: &[&Lookup]) -> Option<Fix> {
    let mut edits = Vec::new();
    for term in terms(outline) {
        let Some(span) = term.span else { continue };
        let inside = |lookup: &&&Lookup| lookup.span.is_some_and(|s| s.start >= span.start && s.end <= span.end);
        let mut guards: Vec<String> = partly
            .iter()
            .filter(inside)
            .filter(|lookup| {
                let having = case.fleet.with(lookup.domain.space, &lookup.domain.name, &lookup.id).count();
                having < case.fleet.devices.len()
            })
            .map(|lookup| format!("has({})", access(lookup.domain.space, &lookup.domain.name, &lookup.id)))
            .collect();
        guards.dedup();
        if !guards.is_empty() {
            let whole = text(case.expression, span);
            let term = if term.operands("_?_:_").is_some() { format!("({whole})") } else { whole };
            edits.push((span, format!("{} && {term}", guards.join(" && "))));
        }
    }
    let before = case.answers.tally();
    fix(case, replaced(case.expression, edits)).filter(|fix| fix.devices.errors < before.errors && fix.devices.matches >= before.matches)
}
