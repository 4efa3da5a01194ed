//! What each part of an expression came to on a device, for explanations.

use super::source::Span;
use super::value::Value;
use crate::model::semver::quoted;

/// The evaluation of an expression, part by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Every evaluated part, in the order of evaluation. In loops a part has one entry per round.
    pub steps: Vec<TraceStep>,
    /// The result, or why there is none.
    pub result: Result<TraceValue, String>,
    /// The cost of the evaluation.
    pub cost: u64,
}

/// One evaluated part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// Where it is, in characters.
    pub span: Span,
    /// Its text.
    pub text: String,
    /// Its value, or its error as CEL words it.
    pub result: Result<TraceValue, String>,
}

/// A value as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceValue {
    /// The value, strings in quotes.
    pub text: String,
    /// The name of its type: `string`, `kubernetes.Quantity`.
    pub type_name: &'static str,
}

impl From<&Value> for TraceValue {
    fn from(value: &Value) -> Self {
        Self { text: shown(value), type_name: value.type_name() }
    }
}

/// The value as an expression would have it, as far as there is one.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => quoted(text),
        Value::Quantity { .. } => format!("quantity({})", quoted(&value.to_string())),
        Value::Semver(_) => format!("semver({})", quoted(&value.to_string())),
        Value::List(values) => {
            let values: Vec<String> = values.iter().map(shown).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Map(map) => {
            let entries: Vec<String> = map.iter().map(|(key, value)| format!("{}: {}", shown(key), shown(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(Some(inner)) => format!("optional.of({})", shown(inner)),
        other => other.to_string(),
    }
}
