//! Runs the checks over the facts.

use crate::doctor::{Blind, Check, Facts, Finding, Severity, checks};

/// What a check came to.
#[derive(Debug)]
pub struct Examined {
    /// The check.
    pub check: &'static Check,
    /// Its findings, worst first, or why it did not look.
    pub outcome: Result<Vec<Finding>, Blind>,
}

/// What all checks came to, in the order of the table.
#[derive(Debug)]
pub struct Report {
    /// One for each check that was run.
    pub examined: Vec<Examined>,
}

impl Report {
    /// The worst that was found.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings().map(|(_, finding)| finding.severity).max()
    }

    /// All findings with their checks, in the order of the table.
    pub fn findings(&self) -> impl Iterator<Item = (&'static Check, &Finding)> {
        self.examined.iter().flat_map(|one| one.outcome.iter().flatten().map(|finding| (one.check, finding)))
    }

    /// How many findings have this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings().filter(|(_, finding)| finding.severity == severity).count()
    }
}

/// Runs the checks whose ids are named; all of them when none is.
#[must_use]
pub fn examine(facts: &Facts, only: &[String]) -> Report {
    let chosen = checks::CHECKS.iter().copied().filter(|check| only.is_empty() || only.iter().any(|id| id.eq_ignore_ascii_case(check.id)));
    let examined = chosen.map(|check| {
        let mut outcome = (check.look)(facts);
        if let Ok(findings) = &mut outcome {
            findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        }
        Examined { check, outcome }
    });
    Report { examined: examined.collect() }
}
