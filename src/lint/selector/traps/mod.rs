//! The traps, by what shows them.

mod compare;
mod guard;
mod literals;
mod names;
mod refused;
mod results;
mod terms;

pub(in crate::lint) use self::literals::nearest_version;

use super::finding::{Finding, Severity, Trap};
use super::verdict::Verdict;
use super::{Case, lookups::Lookups};
use crate::cel::{MAX_LENGTH, Span};

/// All findings, the gravest first, then in the order of the expression.
pub(super) fn find(case: &Case<'_>, verdict: &Verdict) -> Vec<Finding> {
    let mut found = Vec::new();
    match verdict {
        Verdict::TooLong { .. } => {
            found.push(Finding::new(Trap::TooLong, Severity::Error, None).with("length", case.expression.len()).with("limit", MAX_LENGTH));
        }
        Verdict::CompileError { message, .. } => refused::find(case, message, &mut found),
        Verdict::Accepted | Verdict::TooComplex { .. } => {
            if !verdict.is_accepted() {
                found.push(Finding::new(Trap::TooComplex, Severity::Error, None));
            }
            if let Some(outline) = case.outline {
                let lookups = Lookups::of(outline);
                literals::find(case, outline, &mut found);
                if !case.fleet.devices.is_empty() {
                    names::find(case, &lookups, &mut found);
                    guard::find(case, outline, &lookups, &mut found);
                    compare::find(case, outline, &mut found);
                    literals::suffixes(case, outline, &mut found);
                    terms::find(case, outline, &mut found);
                }
            }
            results::find(case, &mut found);
        }
    }
    found.sort_by_key(|finding| (finding.severity, finding.span.map_or(0, |span| span.start)));
    let mut seen: Vec<Finding> = Vec::new();
    for finding in found {
        let known = seen.iter().any(|before| before.trap == finding.trap && before.values == finding.values);
        if !known {
            seen.push(finding);
        }
    }
    seen
}

/// Whether a finding is about a place inside `span`.
fn covers(found: &[Finding], span: Span) -> bool {
    found.iter().filter_map(|finding| finding.span).any(|inner| inner.start >= span.start && inner.end <= span.end)
}

/// Names for a sentence: at most `MOST`, then an ellipsis.
fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    const MOST: usize = 8;
    let names: Vec<S> = names.into_iter().collect();
    let mut text = names.iter().take(MOST).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text.push_str(", …");
    }
    if text.is_empty() { "-".to_owned() } else { text }
}
