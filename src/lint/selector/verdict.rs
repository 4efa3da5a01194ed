//! What the API server says of an expression, and what it estimates.

use serde::Serialize;

use crate::cel::{Environment, MAX_COST, MAX_LENGTH, Part, PartKind, Program, Purpose, Span};

/// The verdict, with the wording of the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "camelCase")]
pub enum Verdict {
    /// It is accepted.
    Accepted,
    /// It is too long to be compiled at all.
    TooLong {
        /// What the API server says.
        message: String,
    },
    /// It compiles, and could cost more than is allowed.
    TooComplex {
        /// What the API server says.
        message: String,
    },
    /// It does not compile.
    CompileError {
        /// What the API server says, with the place marked.
        message: String,
        /// Line of the first fault, from 1, where it has a place.
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
        /// Column of the first fault, from 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        column: Option<u32>,
    },
}

impl Verdict {
    /// Whether an object with it can be created.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        matches!(self, Verdict::Accepted)
    }

    /// What the API server says; `None` for what it accepts.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match self {
            Verdict::Accepted => None,
            Verdict::TooLong { message } | Verdict::TooComplex { message } | Verdict::CompileError { message, .. } => Some(message),
        }
    }
}

/// Judges an expression as the API server does (or, for [`Purpose::Stored`], as the scheduler does, which knows no limits of
/// length and estimate). What compiles comes back as a program.
pub(super) fn judge(expression: &str, environment: Environment) -> (Verdict, Option<Program>) {
    let new = environment.purpose == Purpose::New;
    if new && expression.len() > MAX_LENGTH {
        return (Verdict::TooLong { message: format!("Too long: may not be more than {MAX_LENGTH} bytes") }, None);
    }
    match Program::compile_selector(expression, environment) {
        Ok(program) if new && program.estimated_cost() > MAX_COST => {
            (Verdict::TooComplex { message: "too complex, exceeds cost limit".to_owned() }, Some(program))
        }
        Ok(program) => (Verdict::Accepted, Some(program)),
        Err(error) => {
            let place = place(&error.message);
            let verdict =
                Verdict::CompileError { line: place.map(|place| place.0), column: place.map(|place| place.1), message: error.message };
            (verdict, None)
        }
    }
}

/// The place in a message of cel-go: `ERROR: <input>:1:25: …`.
fn place(message: &str) -> Option<(u32, u32)> {
    let mut parts = message.split_once("<input>:")?.1.splitn(3, ':');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// An estimated cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// What evaluating it may cost at most; `None` where there is no bound.
    pub estimate: Option<u64>,
    /// What is allowed.
    pub limit: u64,
    /// The call that costs most by itself: its text and its cost without what it is made of (`None`: no bound).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dearest: Option<Dearest>,
}

/// The call that costs most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dearest {
    /// Its text.
    pub text: String,
    /// What it adds; `None` where there is no bound.
    pub cost: Option<u64>,
}

impl Cost {
    pub(super) fn of(program: &Program, outline: Option<&Part>, expression: &str) -> Self {
        let mut dearest: Option<(u64, Span)> = None;
        if let Some(outline) = outline {
            outline.walk(&mut |part| {
                if let (PartKind::Call { .. } | PartKind::Loop { .. }, Some(span)) = (&part.kind, part.span) {
                    let mut own = part.cost;
                    part.for_children(&mut |child| own = own.saturating_sub(child.cost));
                    // A call without a bound makes those around it unbounded as well.
                    let mut unbounded_below = false;
                    part.for_children(&mut |child| unbounded_below |= child.cost == u64::MAX);
                    if !unbounded_below && dearest.is_none_or(|(most, _)| own > most) {
                        dearest = Some((own, span));
                    }
                }
            });
        }
        let bounded = |cost: u64| (cost < u64::MAX / 2).then_some(cost);
        Cost {
            estimate: bounded(program.estimated_cost()),
            limit: MAX_COST,
            dearest: dearest.map(|(cost, span)| Dearest { text: super::rewrite::text(expression, span), cost: bounded(cost) }),
        }
    }
}
