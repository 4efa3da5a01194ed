//! Expressions that do not compile: what was most likely meant, by the message and the parts.

use super::super::Case;
use super::super::finding::{Finding, Severity, Trap};
use super::super::lookups::{Domain, Lookups};
use super::super::rewrite::{fix, literal, replaced, text};
use super::listed;
use super::names::access;
use crate::base::nearest::nearest;
use crate::cel::{Part, PartKind, Span};
use crate::lint::fleet::Space;

/// The fields that a device has.
const FIELDS: [&str; 4] = ["driver", "attributes", "capacity", "allowMultipleAllocations"];
/// What orders values.
const ORDER: [&str; 6] = ["_>=_", "_>_", "_<=_", "_<_", "_==_", "_!=_"];

pub(super) fn find(case: &Case<'_>, message: &str, found: &mut Vec<Finding>) {
    for line in message.lines() {
        let finding = if let Some(type_name) = line.strip_prefix("must evaluate to bool or the unknown type, not ") {
            Some(result(case, type_name))
        } else if let Some((_, rest)) = line.split_once("Syntax error: token recognition error at: '") {
            token(case, line, rest)
        } else if let Some(field) = quoted(line, "undefined field '") {
            Some(no_such_field(case, field))
        } else if let Some(name) = quoted(line, "undeclared reference to '") {
            undeclared(case, line, name)
        } else if let Some(rest) = line.split_once("found no matching overload for '").map(|(_, rest)| rest) {
            overload(case, rest)
        } else {
            None
        };
        found.extend(finding);
    }
}

fn quoted<'l>(line: &'l str, before: &str) -> Option<&'l str> {
    line.split_once(before)?.1.split('\'').next()
}

/// The offset (in characters) of the place that a line of the message names.
fn offset(case: &Case<'_>, line: &str) -> Option<u32> {
    let mut parts = line.split_once("<input>:")?.1.splitn(3, ':');
    let (row, column): (usize, usize) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let before: usize = case.expression.split('\n').take(row.checked_sub(1)?).map(|line| line.chars().count() + 1).sum();
    u32::try_from(before + column.checked_sub(1)?).ok()
}

fn error(trap: Trap, span: Option<Span>) -> Finding {
    Finding::new(trap, Severity::Error, span)
}

fn edited(case: &Case<'_>, span: Option<Span>, by: String) -> Option<super::super::Fix> {
    span.and_then(|span| fix(case, replaced(case.expression, vec![(span, by)])))
}

/// The whole has a type that is no verdict.
fn result(case: &Case<'_>, type_name: &str) -> Finding {
    let compares = case.outline.is_some_and(|root| matches!(&root.kind, PartKind::Call { function, .. } if function == "compareTo"));
    if compares {
        return error(Trap::CompareResult, None).fixed(fix(case, format!("{} >= 0", case.expression.trim_end())));
    }
    error(Trap::StaticResult, None).with("type", type_name)
}

/// A character that no token begins with.
fn token(case: &Case<'_>, line: &str, rest: &str) -> Option<Finding> {
    let start = offset(case, line)?;
    let span = Span { start, end: start + 1 };
    let (trap, by) = match rest.chars().next()? {
        '=' => (Trap::Assignment, "=="),
        '&' => (Trap::SingleOperator, "&&"),
        '|' => (Trap::SingleOperator, "||"),
        _ => return None,
    };
    Some(error(trap, Some(span)).with("instead", by).fixed(edited(case, Some(span), by.to_owned())))
}

fn no_such_field(case: &Case<'_>, field: &str) -> Finding {
    let span = part_of(case, |part| matches!(&part.kind, PartKind::Field { name, .. } if name == field)).and_then(|part| part.span);
    if field == "allowMultipleAllocations" {
        return error(Trap::GatedField, span).with("field", field).with("gate", "DRAConsumableCapacity");
    }
    for space in [Space::Attributes, Space::Capacity] {
        if let Some(domain) = publisher(case, space, field) {
            let by = access(space, domain, field);
            return error(Trap::NoDomain, span).with("name", field).with("instead", &by).fixed(edited(case, span, by));
        }
    }
    error(Trap::NoSuchField, span).with("field", field).with("fields", FIELDS.join(", "))
}

/// The domain under which a name is published.
fn publisher<'c>(case: &'c Case<'_>, space: Space, id: &str) -> Option<&'c str> {
    case.fleet.domains(space).into_iter().find(|domain| case.fleet.with(space, domain, id).next().is_some())
}

fn part_of<'c>(case: &'c Case<'_>, wanted: impl Fn(&Part) -> bool) -> Option<&'c Part> {
    let mut found = None;
    case.outline?.walk(&mut |part| {
        if found.is_none() && wanted(part) {
            found = Some(part);
        }
    });
    found
}

/// Whether a part is nothing but `name`, or `name.a.b`.
fn is_name(part: &Part, name: &str) -> bool {
    match &part.kind {
        PartKind::Name(found) => found == name,
        PartKind::Field { of, test: false, .. } => is_name(of, name),
        _ => false,
    }
}

fn undeclared(case: &Case<'_>, line: &str, name: &str) -> Option<Finding> {
    if name == "includes" {
        return Some(error(Trap::GatedFunction, None).with("function", name).with("gate", "DRAListTypeAttributes"));
    }
    // `….gpu-model`: a subtraction of the attribute gpu and a variable model.
    let minus = part_of(case, |part| {
        part.operands("_-_").is_some_and(|sides| {
            matches!(sides, [left, right] if matches!(left.kind, PartKind::Field { .. }) && matches!(&right.kind, PartKind::Name(found) if found == name))
        })
    });
    if let Some(minus) = minus {
        let lookups = Lookups::of(minus);
        let lookup = lookups.lookups.first();
        let whole = lookup.map_or_else(|| name.to_owned(), |lookup| format!("{}-{name}", lookup.id));
        let domain = lookup.map(|lookup| &lookup.domain);
        let near = domain.and_then(|domain| {
            let names = case.fleet.names(domain.space, &domain.name);
            nearest(&whole, names.iter().copied()).or_else(|| names.into_iter().find(|found| *found == name)).map(str::to_owned)
        });
        let instead = domain.zip(near.as_ref()).map(|(domain, near)| access(domain.space, &domain.name, near));
        let names = domain.map(|domain| listed(case.fleet.names(domain.space, &domain.name))).unwrap_or_default();
        return Some(
            error(Trap::Hyphen, minus.span)
                .with("name", whole)
                .with("names", names)
                .fixed(instead.and_then(|instead| edited(case, minus.span, instead))),
        );
    }
    // `attributes[gpu.example.com]`: quotes were lost, or never there.
    let mut unquoted = None;
    case.outline?.walk(&mut |part| {
        let here = match &part.kind {
            PartKind::Index { key, .. } if is_name(key, name) => key.span,
            PartKind::Call { function, args, .. } if ORDER.contains(&function.as_str()) => {
                args.iter().find(|arg| is_name(arg, name)).and_then(|arg| arg.span)
            }
            _ => None,
        };
        unquoted = unquoted.or(here);
    });
    if let Some(span) = unquoted {
        let value = text(case.expression, span);
        return Some(error(Trap::LostQuotes, Some(span)).with("text", &value).fixed(edited(case, Some(span), literal(&value))));
    }
    let after = offset(case, line).map(|at| case.expression.chars().skip(at as usize).take(name.len() + 8).collect::<String>());
    let called = after.is_some_and(|after| after.contains('('));
    called.then(|| error(Trap::NoSuchFunction, None).with("function", name))
}

/// `'_==_' applied to '(map(string, dyn), string)'`
fn overload(case: &Case<'_>, rest: &str) -> Option<Finding> {
    let (function, types) = rest.split_once("' applied to '")?;
    let types = types.trim_end().trim_end_matches('\'');
    let call = part_of(case, |part| matches!(&part.kind, PartKind::Call { function: name, .. } if name == function))?;
    let PartKind::Call { target, args, .. } = &call.kind else { return None };
    if function == "compareTo" && types.ends_with(".(string)") {
        let make = if types.starts_with("kubernetes.Quantity") { "quantity" } else { "semver" };
        let arg = args.first()?;
        let value = text(case.expression, arg.span?);
        let by = format!("{make}({value})");
        return Some(error(Trap::CompareText, arg.span).with("text", value).with("instead", &by).fixed(edited(case, arg.span, by)));
    }
    let sides: Vec<&Part> = target.as_deref().into_iter().chain(args).collect();
    if types.contains("map(string, ") {
        return sides.iter().find_map(|side| one_map(case, side));
    }
    if types.contains("kubernetes.Quantity") && ORDER.contains(&function) {
        return Some(quantity(case, call, function, args));
    }
    if types.contains("kubernetes.Semver") && ORDER.contains(&function) {
        return Some(
            error(Trap::VersionOperator, call.span).with("operator", sign(function)).fixed(method(case, call, function, args, "semver")),
        );
    }
    None
}

/// A whole domain where a value is meant: the domain is missing, or both are in one key.
fn one_map(case: &Case<'_>, side: &Part) -> Option<Finding> {
    let probe = Lookups::of(&Part {
        span: None,
        // Asking for any name of it tells whether it is a domain.
        kind: PartKind::Field { of: Box::new(side.clone()), name: String::new(), optional: false, test: false },
        type_name: String::new(),
        cost: 0,
        bound: false,
    });
    let Domain { space, name, .. } = &probe.lookups.last()?.domain;
    let (trap, by) = match name.split_once('/') {
        Some((domain, id)) => (Trap::SlashKey, access(*space, domain, id)),
        None if name == "driver" => (Trap::NoDomain, "device.driver".to_owned()),
        None => {
            let (space, domain) =
                [*space, space.other()].into_iter().find_map(|space| Some((space, publisher(case, space, name)?))).unzip();
            let domain = domain.or_else(|| case.fleet.domains(Space::Attributes).into_iter().next()).unwrap_or("DOMAIN");
            (Trap::NoDomain, access(space.unwrap_or(Space::Attributes), domain, name))
        }
    };
    Some(error(trap, side.span).with("name", name).with("instead", &by).fixed(edited(case, side.span, by)))
}

/// A capacity compared by an operator, or a name that is no capacity.
fn quantity(case: &Case<'_>, call: &Part, function: &str, args: &[Part]) -> Finding {
    for lookup in args.iter().flat_map(|arg| Lookups::of(arg).lookups) {
        let Domain { space, name: domain, .. } = &lookup.domain;
        let (here, there) = (*space, space.other());
        let missing = case.fleet.with(here, domain, &lookup.id).next().is_none();
        if missing && case.fleet.with(there, domain, &lookup.id).next().is_some() {
            return error(Trap::OtherSpace, lookup.span)
                .with("name", &lookup.id)
                .with("domain", domain)
                .with("space", here.field())
                .with("other", there.field())
                .with("near", "-")
                .with("elsewhere", "-")
                .with("names", listed(case.fleet.names(here, domain)))
                .with("devices", case.fleet.devices.len())
                .fixed(edited(case, lookup.span, access(there, domain, &lookup.id)));
        }
    }
    error(Trap::QuantityOperator, call.span).with("operator", sign(function)).fixed(method(case, call, function, args, "quantity"))
}

/// `a >= b` as `a.compareTo(b) >= 0`, a text made a quantity or version.
fn method(case: &Case<'_>, call: &Part, function: &str, args: &[Part], make: &str) -> Option<super::super::Fix> {
    let [left, right] = args else { return None };
    let shown = |part: &Part| {
        let text = text(case.expression, part.span?);
        Some(if matches!(part.kind, PartKind::Text(_)) { format!("{make}({text})") } else { text })
    };
    let by = format!("{}.compareTo({}) {} 0", shown(left)?, shown(right)?, sign(function));
    edited(case, call.span, by)
}

fn sign(function: &str) -> &str {
    function.trim_matches('_')
}
