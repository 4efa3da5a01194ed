//! Rewritten expressions: replacing parts by place, and trying the result on the devices before it is proposed.

use super::Case;
use super::answers::{Answers, Tally};
use super::finding::Fix;
use super::lookups::terms;
use super::verdict;
use crate::cel::Span;

/// The text of a place.
pub(super) fn text(expression: &str, span: Span) -> String {
    let length = span.end.saturating_sub(span.start) as usize;
    expression.chars().skip(span.start as usize).take(length).collect()
}

/// The expression with each place replaced by a text. Places must not overlap; those that do are left as they are.
pub(super) fn replaced(expression: &str, mut edits: Vec<(Span, String)>) -> String {
    edits.sort_by_key(|(span, _)| (span.start, span.end));
    let characters: Vec<char> = expression.chars().collect();
    let (mut text, mut at) = (String::new(), 0);
    for (span, by) in edits {
        let (start, end) = (span.start as usize, span.end as usize);
        if start < at || end > characters.len() || start > end {
            continue;
        }
        text.extend(&characters[at..start]);
        text.push_str(&by);
        at = end;
    }
    text.extend(characters.get(at..).unwrap_or_default());
    text
}

/// A string literal with this value.
pub(super) fn literal(value: &str) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// What the devices answer to an expression; `None` if the API server would refuse it.
pub(super) fn tried(case: &Case<'_>, expression: &str) -> Option<Tally> {
    let (verdict, program) = verdict::judge(expression, case.environment);
    let program = program.filter(|_| verdict.is_accepted())?;
    Some(Answers::ask(&program, case.fleet, case.class).tally())
}

/// A rewrite, if it differs and would be accepted; with what the devices answer to it.
pub(super) fn fix(case: &Case<'_>, expression: String) -> Option<Fix> {
    if expression == case.expression {
        return None;
    }
    let devices = tried(case, &expression)?;
    Some(Fix { expression, devices })
}

/// The edited expression, if it would be accepted and does better: fewer devices fail, or as many and others match. What other
/// parts hide is looked at term by term.
pub(super) fn better(case: &Case<'_>, edits: &[(Span, String)]) -> Option<Fix> {
    let improves =
        |before: Tally, after: Tally| after.errors < before.errors || (after.errors == before.errors && after.matches != before.matches);
    let fix = fix(case, replaced(case.expression, edits.to_vec()))?;
    if improves(case.answers.tally(), fix.devices) {
        return Some(fix);
    }
    let terms = case.outline.map(terms).unwrap_or_default();
    let improved = terms.into_iter().filter(|term| !term.bound).any(|term| {
        let Some(whole) = term.span else { return false };
        let inside: Vec<(Span, String)> = edits
            .iter()
            .filter(|(span, _)| span.start >= whole.start && span.end <= whole.end)
            .map(|(span, by)| (Span { start: span.start - whole.start, end: span.end - whole.start }, by.clone()))
            .collect();
        let before = text(case.expression, whole);
        let after = replaced(&before, inside);
        after != before && tried(case, &before).zip(tried(case, &after)).is_some_and(|(before, after)| improves(before, after))
    });
    improved.then_some(fix)
}
