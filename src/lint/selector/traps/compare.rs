//! Comparisons that can never be true on these devices: types that differ, values in another spelling.

use std::collections::BTreeSet;

use super::super::Case;
use super::super::finding::{Finding, Severity, Trap};
use super::super::rewrite::{better, fix, literal, replaced, text};
use super::listed;
use crate::base::nearest::nearest;
use crate::cel::{Part, PartKind, Span, TraceValue};

/// Types that are compared as numbers whatever they are.
const NUMBERS: [&str; 3] = ["int", "uint", "double"];

pub(super) fn find(case: &Case<'_>, outline: &Part, found: &mut Vec<Finding>) {
    outline.walk(&mut |part| {
        let equality = part.operands("_==_").map(|sides| (sides, true)).or_else(|| part.operands("_!=_").map(|sides| (sides, false)));
        if let (Some(([left, right], equal)), Some(span)) = (equality, part.span) {
            // The literal, if there is one, is on the right.
            let (left, right) = if constant(left).is_some() { (right, left) } else { (left, right) };
            compared(case, span, left, std::slice::from_ref(right), equal, found);
        }
        if let (Some([element, list]), Some(span)) = (part.operands("@in"), part.span)
            && let PartKind::Group(values) = &list.kind
        {
            compared(case, span, element, values, true, found);
        }
    });
}

/// What a literal is: its text as a value shows itself, and its type.
fn constant(part: &Part) -> Option<(String, &'static str)> {
    match &part.kind {
        PartKind::Text(value) => Some((value.clone(), "string")),
        PartKind::Literal(TraceValue { text, type_name }) => Some((text.clone(), type_name)),
        _ => None,
    }
}

fn comparable(a: &str, b: &str) -> bool {
    a == b || (NUMBERS.contains(&a) && NUMBERS.contains(&b))
}

/// The different values that a part has on the devices.
fn seen(case: &Case<'_>, span: Option<Span>) -> Vec<TraceValue> {
    let mut values: Vec<TraceValue> = Vec::new();
    for trace in case.answers.answers.iter().filter_map(|answer| answer.trace()) {
        for step in trace.steps.iter().filter(|step| Some(step.span) == span) {
            if let Ok(value) = &step.result
                && !values.contains(value)
            {
                values.push(value.clone());
            }
        }
    }
    values
}

fn compared(case: &Case<'_>, span: Span, left: &Part, rights: &[Part], equal: bool, found: &mut Vec<Finding>) {
    let values = seen(case, left.span);
    if values.is_empty() {
        return;
    }
    for right in rights {
        let Some((value, type_name)) = constant(right) else {
            by_type(case, span, left, right, &values, &seen(case, right.span), found);
            continue;
        };
        if values.iter().all(|seen| !comparable(seen.type_name, type_name)) {
            mismatch(case, span, left, right, &values, (&value, type_name), found);
            continue;
        }
        let shown = if type_name == "string" { literal(&value) } else { value.clone() };
        if type_name == "double" || values.iter().any(|seen| comparable(seen.type_name, type_name) && seen.text == shown) || !equal {
            continue;
        }
        never_seen(case, left, right, &values, (&value, type_name), found);
    }
}

/// Two values that are no literals.
fn by_type(case: &Case<'_>, span: Span, left: &Part, right: &Part, lefts: &[TraceValue], rights: &[TraceValue], found: &mut Vec<Finding>) {
    let (Some(a), Some(b)) = (lefts.first(), rights.first()) else { return };
    let differ = lefts.iter().all(|left| rights.iter().all(|right| !comparable(left.type_name, right.type_name)));
    if differ && a.type_name != "optional_type" && b.type_name != "optional_type" {
        found.push(
            Finding::new(Trap::Types, Severity::Warning, Some(span))
                .with("left", part_text(case, left))
                .with("leftType", a.type_name)
                .with("right", part_text(case, right))
                .with("rightType", b.type_name),
        );
    }
}

fn part_text(case: &Case<'_>, part: &Part) -> String {
    part.span.map(|span| text(case.expression, span)).unwrap_or_default()
}

fn mismatch(
    case: &Case<'_>,
    span: Span,
    left: &Part,
    right: &Part,
    values: &[TraceValue],
    (value, type_name): (&str, &'static str),
    found: &mut Vec<Finding>,
) {
    let Some(first) = values.first() else { return };
    if first.type_name == "optional_type" {
        return;
    }
    let instead = match (first.type_name, type_name) {
        ("int", "string") => value.trim().parse::<i64>().ok().map(|number| number.to_string()),
        ("bool", "string") => matches!(value, "true" | "false").then(|| value.to_owned()),
        ("string", "int" | "bool" | "double") => Some(literal(value)),
        ("kubernetes.Semver", "string") => Some(format!("semver({})", literal(value))),
        _ => None,
    };
    let fix = instead.zip(right.span).and_then(|(instead, span)| fix(case, replaced(case.expression, vec![(span, instead)])));
    let (trap, severity) = match (first.type_name, type_name) {
        ("kubernetes.Semver", "string") => (Trap::VersionText, Severity::Error),
        _ => (Trap::Types, Severity::Warning),
    };
    found.push(
        Finding::new(trap, severity, Some(span))
            .with("left", part_text(case, left))
            .with("leftType", first.type_name)
            .with("right", part_text(case, right))
            .with("rightType", type_name)
            .fixed(fix),
    );
}

fn never_seen(
    case: &Case<'_>,
    left: &Part,
    right: &Part,
    values: &[TraceValue],
    (value, type_name): (&str, &'static str),
    found: &mut Vec<Finding>,
) {
    let texts: Vec<String> = values
        .iter()
        .filter(|seen| seen.type_name == type_name)
        .map(|seen| serde_json::from_str(&seen.text).unwrap_or_else(|_| seen.text.clone()))
        .collect();
    let names: BTreeSet<&str> = texts.iter().map(String::as_str).collect();
    let is_text = type_name == "string";
    let same_case = names.iter().find(|name| is_text && name.eq_ignore_ascii_case(value)).copied();
    let near = same_case.or_else(|| nearest(value, names.iter().copied()).filter(|_| is_text));
    let trap = match (same_case, near) {
        (Some(_), _) => Trap::ValueCase,
        (None, Some(_)) => Trap::NearValue,
        (None, None) => Trap::UnknownValue,
    };
    // What is computed has no values that could be listed.
    if near.is_none() && matches!(left.kind, PartKind::Call { .. } | PartKind::Loop { .. }) {
        return;
    }
    let fix = near.zip(right.span).and_then(|(near, span)| better(case, &[(span, literal(near))]));
    found.push(
        Finding::new(trap, Severity::Warning, right.span)
            .with("what", part_text(case, left))
            .with("value", part_text(case, right))
            .with("near", near.map_or_else(|| "-".to_owned(), literal))
            .with("values", listed(values.iter().map(|seen| seen.text.as_str())))
            .fixed(fix),
    );
}
