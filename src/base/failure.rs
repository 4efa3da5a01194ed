//! A failure as the user will meet it: what happened, why, and what to do next, as data.
//!
//! Each module has its own typed errors (`thiserror`); at the edge they become a [`Failure`], which one place
//! renders (`ui::render`) and which alone decides the exit code.

use std::fmt;

/// What kind of end a command came to. The exit codes are published and tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The operation failed (1).
    Failed,
    /// The command was used wrongly (2).
    Usage,
    /// Checked, and not satisfied (3).
    NotSatisfied,
    /// There is no lab, or it cannot be reached (4).
    NoLab,
    /// A bounded wait ran out (5).
    TimedOut,
    /// Refused for safety (6).
    Refused,
    /// Interrupted by the user (130).
    Interrupted,
}

impl Kind {
    /// The process exit code of this kind.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Kind::Failed => 1,
            Kind::Usage => 2,
            Kind::NotSatisfied => 3,
            Kind::NoLab => 4,
            Kind::TimedOut => 5,
            Kind::Refused => 6,
            Kind::Interrupted => 130,
        }
    }
}

/// A failure with a stable id, its causes and hints. Rendered once, at the top.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Stable id such as `DL-LAB-01`; never changes its meaning.
    pub id: &'static str,
    /// Which exit code it leads to.
    pub kind: Kind,
    /// A lowercase phrase without a full stop, naming what was expected and what was seen.
    pub message: String,
    /// Why, outermost first. Never repeats the message.
    pub causes: Vec<String>,
    /// What to do next; each hint has a runnable command in backticks where there is one.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure without causes and hints.
    #[must_use]
    pub fn new(kind: Kind, id: &'static str, message: impl Into<String>) -> Self {
        Failure { id, kind, message: message.into(), causes: Vec::new(), hints: Vec::new() }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds the chain of an error as causes. A link whose text is already contained in the text before it
    /// is left out, so that nothing is printed twice.
    #[must_use]
    pub fn because(mut self, error: &dyn std::error::Error) -> Self {
        let mut next = Some(error);
        while let Some(link) = next {
            let text = link.to_string();
            let said = self.causes.last().is_some_and(|last| last.contains(&text)) || self.message.contains(&text);
            if !said {
                self.causes.push(text);
            }
            next = link.source();
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        for cause in &self.causes {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// An error with its causes in one line, outermost first.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'e>(pub &'e dyn std::error::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            write!(f, ": {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Kind};

    #[test]
    fn a_cause_is_not_said_twice() {
        let inner = std::io::Error::other("disk full");
        let failure = Failure::new(Kind::Failed, "DL-T-01", "cannot write x: disk full").because(&inner);
        assert!(failure.causes.is_empty());
        let failure = Failure::new(Kind::Failed, "DL-T-01", "cannot write x").because(&inner);
        assert_eq!(failure.causes, ["disk full"]);
    }
}
