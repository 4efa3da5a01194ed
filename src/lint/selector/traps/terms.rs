//! Parts that are the same on every device: one that is never true makes the whole never true, one that always is says nothing.

use super::super::Case;
use super::super::answers::Answer;
use super::super::finding::{Finding, Severity, Trap};
use super::super::lookups::{is_driver, terms};
use super::super::rewrite::text;
use super::covers;
use crate::cel::{Part, PartKind, Program};

pub(super) fn find(case: &Case<'_>, outline: &Part, found: &mut Vec<Finding>) {
    let terms = terms(outline);
    if terms.len() < 2 {
        return;
    }
    let mut more = Vec::new();
    for term in terms {
        let Some(span) = term.span.filter(|_| !term.bound) else { continue };
        if matches!(term.kind, PartKind::Literal(_)) || covers(found, span) {
            continue;
        }
        let text = text(case.expression, span);
        let Ok(program) = Program::compile_selector(&text, case.environment) else { continue };
        let asked = case.fleet.devices.iter().zip(&case.answers.answers).filter(|(_, answer)| matches!(answer, Answer::Asked { .. }));
        let (mut yes, mut no, mut failed) = (0_usize, 0_usize, 0_usize);
        for (device, _) in asked {
            match program.matches(&device.input).0 {
                Ok(true) => yes += 1,
                Ok(false) => no += 1,
                Err(_) => failed += 1,
            }
        }
        let finding = if yes == 0 && no > 0 && failed == 0 {
            Finding::new(Trap::NeverTrue, Severity::Warning, Some(span)).with("devices", no)
        } else if no == 0 && failed == 0 && yes > 1 && !is_guard(term) {
            Finding::new(Trap::AlwaysTrue, Severity::Note, Some(span)).with("devices", yes)
        } else {
            continue;
        };
        more.push(finding.with("text", text));
    }
    found.append(&mut more);
}

/// `has(…)`, `"id" in …` and `device.driver == …` are there for other devices than these.
fn is_guard(term: &Part) -> bool {
    if term.operands("@in").is_some() || matches!(term.kind, PartKind::Field { test: true, .. }) {
        return true;
    }
    term.operands("_==_").is_some_and(|sides| sides.iter().any(is_driver))
}
