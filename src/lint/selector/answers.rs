//! What the devices answer, and those that answer alike.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ClassSelectors;
use super::lookups::Lookups;
use crate::cel::{EvalError, Part, Program, Span, Trace, TraceValue};
use crate::lint::fleet::Fleet;

/// How many devices answer how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// It is true.
    pub matches: usize,
    /// It is false.
    pub misses: usize,
    /// It fails.
    pub errors: usize,
    /// The class does not select them, so that they are not asked.
    pub not_asked: usize,
}

impl Tally {
    /// The devices that were asked.
    #[must_use]
    pub fn asked(self) -> usize {
        self.matches + self.misses + self.errors
    }
}

/// The answer of one device.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Asked {
        verdict: Result<bool, EvalError>,
        trace: Trace,
    },
    /// The class's selectors do not select it.
    NotAsked,
    /// A selector of the class fails on it.
    ClassFails(String),
}

impl Answer {
    pub(super) fn error(&self) -> Option<&str> {
        match self {
            Answer::Asked { verdict: Err(error), .. } => Some(&error.message),
            Answer::ClassFails(message) => Some(message),
            _ => None,
        }
    }

    pub(super) fn matches(&self) -> bool {
        matches!(self, Answer::Asked { verdict: Ok(true), .. })
    }

    pub(super) fn trace(&self) -> Option<&Trace> {
        match self {
            Answer::Asked { trace, .. } => Some(trace),
            _ => None,
        }
    }
}

/// The answers of all devices, in the order of the fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    pub(super) answers: Vec<Answer>,
}

impl Answers {
    /// Asks every device.
    pub(super) fn ask(program: &Program, fleet: &Fleet, class: Option<&ClassSelectors>) -> Self {
        let answers = fleet.devices.iter().map(|device| {
            if let Some(class) = class {
                for (number, selector) in class.selectors.iter().enumerate() {
                    match selector.matches(&device.input).0 {
                        Ok(true) => {}
                        Ok(false) => return Answer::NotAsked,
                        Err(error) => return Answer::ClassFails(format!("class {}: selector #{number}: {error}", class.name)),
                    }
                }
            }
            Answer::Asked { verdict: program.matches(&device.input).0, trace: program.trace(&device.input) }
        });
        Answers { answers: answers.collect() }
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for answer in &self.answers {
            match answer {
                Answer::Asked { verdict: Ok(true), .. } => tally.matches += 1,
                Answer::Asked { verdict: Ok(false), .. } => tally.misses += 1,
                Answer::Asked { verdict: Err(_), .. } | Answer::ClassFails(_) => tally.errors += 1,
                Answer::NotAsked => tally.not_asked += 1,
            }
        }
        tally
    }

    /// Devices with the same verdict and the same outcome of every term.
    pub(super) fn groups(&self, fleet: &Fleet, terms: &[&Part], outline: Option<&Part>) -> Vec<Group> {
        let looked_up: Vec<Span> =
            outline.map(|root| Lookups::of(root).lookups.iter().filter_map(|l| l.span).collect()).unwrap_or_default();
        let mut places: BTreeMap<Key, usize> = BTreeMap::new();
        let mut groups: Vec<Group> = Vec::new();
        for (device, answer) in fleet.devices.iter().zip(&self.answers) {
            let key = Key::of(answer, terms);
            let at = *places.entry(key.clone()).or_insert_with(|| {
                groups.push(Group {
                    verdict: key.verdict,
                    message: key.message,
                    devices: Vec::new(),
                    terms: key.terms,
                    values: Vec::new(),
                });
                groups.len() - 1
            });
            let Some(group) = groups.get_mut(at) else { continue };
            group.devices.push(device.id.to_string());
            let Some(trace) = answer.trace() else { continue };
            // In loops a part is evaluated many times on the same device.
            let mut seen = Vec::new();
            for step in trace.steps.iter().filter(|step| looked_up.contains(&step.span)) {
                if !seen.contains(&(step.span, &step.result)) {
                    seen.push((step.span, &step.result));
                    group.see(&step.text, step.result.as_ref());
                }
            }
        }
        groups
    }
}

/// What devices of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    verdict: GroupVerdict,
    message: Option<String>,
    terms: Vec<TermValue>,
}

impl Key {
    fn of(answer: &Answer, terms: &[&Part]) -> Self {
        let verdict = match answer {
            Answer::Asked { verdict: Ok(true), .. } => GroupVerdict::Match,
            Answer::Asked { verdict: Ok(false), .. } => GroupVerdict::NoMatch,
            Answer::Asked { verdict: Err(_), .. } | Answer::ClassFails(_) => GroupVerdict::Error,
            Answer::NotAsked => GroupVerdict::NotAsked,
        };
        let terms = match answer.trace() {
            // A single term is the whole expression.
            Some(trace) if terms.len() > 1 => terms.iter().filter_map(|term| TermValue::of(trace, term.span?)).collect(),
            _ => Vec::new(),
        };
        Key { verdict, message: answer.error().map(str::to_owned), terms }
    }
}

/// The answer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupVerdict {
    /// It is true.
    Match,
    /// It is false.
    NoMatch,
    /// It fails.
    Error,
    /// The class does not select these devices.
    NotAsked,
}

/// Devices that answer alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Their answer.
    pub verdict: GroupVerdict,
    /// The error, as the scheduler words it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `driver/pool/device`, in the order of the search.
    pub devices: Vec<String>,
    /// What each part that `&&` and `||` join came to.
    pub terms: Vec<TermValue>,
    /// What was looked up, and the values seen.
    pub values: Vec<SeenValue>,
}

/// The outcome of one term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TermValue {
    /// Its text.
    pub text: String,
    /// `true`, `false` or another value; `None` where it was not reached or failed.
    pub value: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl TermValue {
    fn of(trace: &Trace, span: Span) -> Option<Self> {
        let step = trace.steps.iter().rfind(|step| step.span == span)?;
        let (value, error) = match &step.result {
            Ok(value) => (Some(value.text.clone()), None),
            Err(error) => (None, Some(error.clone())),
        };
        Some(TermValue { text: step.text.clone(), value, error })
    }
}

/// A look-up and what the devices have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenValue {
    /// The look-up as written.
    pub text: String,
    /// Different values (or errors) in the order seen, with the number of devices of each.
    pub values: Vec<Seen>,
}

/// A value and how often it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// The value as CEL writes it; an error in CEL's words.
    pub value: String,
    /// Its type; `None` for an error.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<&'static str>,
    /// How many devices.
    pub devices: usize,
}

impl Group {
    fn see(&mut self, text: &str, result: Result<&TraceValue, &String>) {
        let (value, type_name) = match result {
            Ok(value) => (&value.text, Some(value.type_name)),
            Err(error) => (error, None),
        };
        let at = self.values.iter().position(|seen| seen.text == text).unwrap_or_else(|| {
            self.values.push(SeenValue { text: text.to_owned(), values: Vec::new() });
            self.values.len() - 1
        });
        let Some(seen) = self.values.get_mut(at) else { return };
        match seen.values.iter_mut().find(|seen| seen.value == *value && seen.type_name == type_name) {
            Some(seen) => seen.devices += 1,
            None => seen.values.push(Seen { value: value.clone(), type_name, devices: 1 }),
        }
    }
}
