//! Domains and names that no device publishes, with the nearest that one does.

use std::collections::BTreeSet;

use super::super::Case;
use super::super::finding::{Finding, Severity, Trap};
use super::super::lookups::{Domain, Lookup, Lookups};
use super::super::rewrite::{better, literal, text};
use super::listed;
use crate::base::nearest::nearest;
use crate::cel::Span;
use crate::lint::fleet::{Fleet, Space};

pub(super) fn find(case: &Case<'_>, lookups: &Lookups, found: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for lookup in &lookups.lookups {
        let Domain { space, name: domain, .. } = &lookup.domain;
        if case.fleet.with(*space, domain, &lookup.id).next().is_some() || !seen.insert((*space, domain.clone(), lookup.id.clone())) {
            continue;
        }
        let known = case.fleet.domains(*space).contains(&**domain) || case.fleet.domains(space.other()).contains(&**domain);
        found.push(if known { unknown_name(case, lookup) } else { unknown_domain(case, lookup) });
    }
    for domain in &lookups.domains {
        if !case.fleet.domains(domain.space).contains(&*domain.name) {
            let as_lookup = Lookup { domain: domain.clone(), id: String::new(), span: domain.place, test: true, optional: true };
            found.push(unknown_domain(case, &as_lookup));
        }
    }
}

/// How bad a name that is not there is: an error where it fails on a device, a warning where it is a slip or not reached.
fn severity(case: &Case<'_>, lookup: &Lookup, near: bool) -> Severity {
    let fails = lookup.is_strict()
        && case
            .answers
            .answers
            .iter()
            .filter_map(|answer| answer.error())
            .any(|error| error.contains(&format!("no such key: {}", lookup.id)));
    match (fails, lookup.is_strict() || near) {
        (true, _) => Severity::Error,
        (false, true) => Severity::Warning,
        (false, false) => Severity::Note,
    }
}

fn unknown_domain(case: &Case<'_>, lookup: &Lookup) -> Finding {
    let Domain { space, name, place, .. } = &lookup.domain;
    let domains = case.fleet.domains(*space);
    let same_case = domains.iter().find(|domain| domain.eq_ignore_ascii_case(name)).copied();
    let near = same_case.or_else(|| nearest(name, domains.iter().copied()));
    let trap = match (same_case, near) {
        (Some(_), _) => Trap::DomainCase,
        (None, Some(_)) => Trap::NearDomain,
        (None, None) => Trap::UnknownDomain,
    };
    let publishing: Vec<&str> =
        domains.iter().copied().filter(|domain| case.fleet.with(*space, domain, &lookup.id).next().is_some()).collect();
    let only = if let [only] = publishing.as_slice() { Some(*only) } else { None };
    let instead = near.or(only);
    let fix = instead.zip(*place).and_then(|(domain, place)| better(case, &replace_all(case, lookup, place, domain)));
    Finding::new(trap, severity(case, lookup, near.is_some()), lookup.span)
        .with("domain", name)
        .with("space", space.field())
        .with("near", near.unwrap_or("-"))
        .with("domains", listed(&domains))
        .with("devices", case.fleet.devices.len())
        .fixed(fix)
}

/// The edits that replace the domain wherever it stands.
fn replace_all(case: &Case<'_>, lookup: &Lookup, place: Span, domain: &str) -> Vec<(Span, String)> {
    let same = text(case.expression, place);
    let places = case.outline.map(Lookups::of).unwrap_or_default();
    let mut spans: Vec<Span> = places
        .lookups
        .iter()
        .map(|lookup| &lookup.domain)
        .chain(&places.domains)
        .filter(|other| other.name == lookup.domain.name && other.space == lookup.domain.space)
        .filter_map(|other| other.place)
        .filter(|span| text(case.expression, *span) == same)
        .collect();
    spans.sort_unstable();
    spans.dedup();
    spans.into_iter().map(|span| (span, literal(domain))).collect()
}

fn unknown_name(case: &Case<'_>, lookup: &Lookup) -> Finding {
    let Domain { space, name: domain, .. } = &lookup.domain;
    let names = case.fleet.names(*space, domain);
    let same_case = names.iter().find(|name| name.eq_ignore_ascii_case(&lookup.id)).copied();
    let elsewhere = other_domain(case.fleet, *space, &lookup.id);
    let in_other_space = case.fleet.with(space.other(), domain, &lookup.id).count();
    let near = nearest(&lookup.id, names.iter().copied());
    let (trap, instead) = match (same_case, elsewhere, near) {
        (Some(name), ..) => (Trap::NameCase, Some(access(*space, domain, name))),
        _ if in_other_space > 0 => (Trap::OtherSpace, Some(access(space.other(), domain, &lookup.id))),
        (None, Some(other), _) => (Trap::OtherDomain, Some(access(*space, other, &lookup.id))),
        (None, None, Some(name)) => (Trap::NearName, Some(access(*space, domain, name))),
        (None, None, None) => (Trap::UnknownName, None),
    };
    let fix = instead.zip(lookup.span.filter(|_| lookup.is_strict())).and_then(|(instead, span)| better(case, &[(span, instead)]));
    Finding::new(trap, severity(case, lookup, trap != Trap::UnknownName), lookup.span)
        .with("name", &lookup.id)
        .with("domain", domain)
        .with("space", space.field())
        .with("other", space.other().field())
        .with("near", same_case.or(near).unwrap_or("-"))
        .with("elsewhere", elsewhere.unwrap_or("-"))
        .with("names", listed(&names))
        .with("devices", case.fleet.devices.len())
        .fixed(fix)
}

fn other_domain<'f>(fleet: &'f Fleet, space: Space, id: &str) -> Option<&'f str> {
    fleet.domains(space).into_iter().find(|domain| fleet.with(space, domain, id).next().is_some())
}

/// How a name is looked up.
pub(super) fn access(space: Space, domain: &str, id: &str) -> String {
    format!("device.{}[{}].{id}", space.field(), literal(domain))
}
