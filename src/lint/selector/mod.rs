//! A device selector: what the API server says of it, what it costs, what each device answers, and the traps it may be in.

mod answers;
mod attempt;
mod finding;
mod lookups;
mod rewrite;
mod traps;
mod verdict;

use serde::Serialize;

pub use self::answers::{Group, GroupVerdict, Seen, SeenValue, Tally, TermValue};
pub use self::attempt::{Attempt, Outcome};
pub use self::finding::{Finding, Fix, Severity, Trap};
pub(in crate::lint) use self::traps::nearest_version;
pub use self::verdict::{Cost, Dearest, Verdict};

use self::answers::Answers;
use super::fleet::Fleet;
use crate::cel::{Environment, Part, Program};

/// The selectors of a device class, which are asked before those of a request.
#[derive(Clone, Debug)]
pub struct ClassSelectors {
    /// The class.
    pub name: String,
    /// Its selectors, compiled.
    pub selectors: Vec<Program>,
}

/// What there is to say of one selector.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The expression.
    pub expression: String,
    /// What the API server says.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What it may cost; `None` where it does not compile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// How many devices answer how.
    pub devices: Tally,
    /// Devices that answer alike, in the order of the search.
    pub groups: Vec<Group>,
    /// What a claim for one device would come to on each node, all devices being free.
    pub attempts: Vec<Attempt>,
    /// The traps.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether a claim with this selector would be accepted, some device matches, and no device ends the scheduling attempt.
    #[must_use]
    pub fn is_satisfied(&self) -> bool {
        self.verdict.is_accepted() && self.devices.matches > 0 && !self.attempts.iter().any(|attempt| attempt.outcome == Outcome::Fails)
    }
}

/// Everything that the traps look at.
struct Case<'c> {
    expression: &'c str,
    environment: Environment,
    /// The parts, where it is CEL at all.
    outline: Option<&'c Part>,
    fleet: &'c Fleet,
    /// Empty where it does not compile.
    answers: &'c Answers,
    class: Option<&'c ClassSelectors>,
}

/// Examines a selector on all devices of `fleet`. Devices that `class` does not select are not asked.
///
/// Nothing of an expression can make this fail: what does not compile is a verdict, what fails on a device an answer.
#[must_use]
pub fn examine(expression: &str, environment: Environment, fleet: &Fleet, class: Option<&ClassSelectors>) -> Report {
    let (verdict, program) = verdict::judge(expression, environment);
    let outline = Program::outline(expression, environment);
    let terms = outline.as_ref().map(lookups::terms).unwrap_or_default();
    let answers = program.as_ref().map(|program| Answers::ask(program, fleet, class)).unwrap_or_default();
    let cost = program.as_ref().map(|program| Cost::of(program, outline.as_ref(), expression));
    let case = Case { expression, environment, outline: outline.as_ref(), fleet, answers: &answers, class };
    let findings = traps::find(&case, &verdict);
    Report {
        expression: expression.to_owned(),
        verdict,
        cost,
        devices: answers.tally(),
        groups: answers.groups(fleet, &terms, outline.as_ref()),
        attempts: attempt::attempts(fleet, &answers),
        findings,
    }
}
