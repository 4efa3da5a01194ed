//! Conditions on the objects of a lesson, level-triggered: what counts is what is there now.

use serde::Serialize;
use serde_json::Value;

use crate::cel::Program;
use crate::lessons::format::{Check, Expect};
use crate::lessons::template::Names;
use crate::lessons::view::Objects;
use crate::timeline::state;

/// What became of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The check's id; `OBJECT to STATE` for an expected state.
    pub id: String,
    /// It holds.
    pub passed: bool,
    /// The object it is about, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// What was expected: the condition, or the state.
    pub expected: String,
    /// What was seen.
    pub observed: String,
}

/// The variables of conditions: the object, the objects of a kind, and all objects.
struct Bindings {
    this: Value,
    items: Value,
    objects: Value,
}

fn bindings(check: &Check, names: &Names, objects: &Objects) -> Bindings {
    let this = check.object.as_ref().map(|o| names.fill(o)).and_then(|key| objects.get(&key).cloned()).unwrap_or(Value::Null);
    let items = check.items.as_ref().map_or(Value::Null, |kind| {
        let singular = kind.strip_suffix("es").filter(|_| kind.ends_with("classes")).or_else(|| kind.strip_suffix('s')).unwrap_or(kind);
        let prefix = format!("{singular}/");
        Value::Array(objects.iter().filter(|(key, _)| key.starts_with(&prefix)).map(|(_, o)| o.clone()).collect())
    });
    let all = objects.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
    Bindings { this, items, objects: Value::Object(all) }
}

/// Evaluates a condition of a lesson over an object (`self`), the objects of a kind (`items`) and all (`objects`).
/// An error, such as a missing field, is a condition that does not hold; its text is kept.
fn holds(expression: &str, bound: &Bindings) -> Result<bool, String> {
    let program = Program::compile_condition(expression, &["self", "items", "objects"]).map_err(|error| error.to_string())?;
    program.holds(&[("self", &bound.this), ("items", &bound.items), ("objects", &bound.objects)]).map_err(|error| error.to_string())
}

/// Evaluates a check.
#[must_use]
pub fn evaluate(check: &Check, names: &Names, objects: &Objects) -> Outcome {
    let bound = bindings(check, names, objects);
    let object = check.object.as_ref().map(|o| names.fill(o));
    let result = holds(&names.fill(&check.that), &bound);
    let observed = match (&object, &bound.this) {
        (Some(_), Value::Null) => "not there".to_owned(),
        (Some(key), value) => describe(key, value),
        (None, _) => match bound.items.as_array() {
            Some(items) => items
                .iter()
                .map(|item| format!("{} {}", item["metadata"]["name"].as_str().unwrap_or_default(), state::of(item)))
                .collect::<Vec<_>>()
                .join(", "),
            None => String::new(),
        },
    };
    let observed = if observed.is_empty() { "none".to_owned() } else { observed };
    Outcome { id: check.id.clone(), passed: result == Ok(true), object, expected: names.fill(&check.that), observed }
}

/// Evaluates an expected state.
#[must_use]
pub fn reached(expect: &Expect, names: &Names, objects: &Objects) -> Outcome {
    let key = names.fill(&expect.object);
    let observed = objects.get(&key).map_or_else(|| "not there".to_owned(), state::of);
    let passed = (expect.to == "gone" && observed == "not there") || observed == expect.to;
    Outcome { id: format!("{key} to {}", expect.to), passed, object: Some(key), expected: expect.to.clone(), observed }
}

/// The first of a check's diagnoses that holds.
#[must_use]
pub fn diagnose<'c>(check: &'c Check, names: &Names, objects: &Objects) -> Option<&'c str> {
    let bound = bindings(check, names, objects);
    check.wrong.iter().find(|wrong| holds(&names.fill(&wrong.when), &bound) == Ok(true)).map(|wrong| wrong.say.as_str())
}

/// Whether an expression compiles as a condition.
///
/// # Errors
/// Its compile error.
pub fn compiles(expression: &str) -> Result<(), String> {
    Program::compile_condition(expression, &["self", "items", "objects"]).map(|_| ()).map_err(|error| error.to_string())
}

fn describe(key: &str, object: &Value) -> String {
    let state = state::of(object);
    let devices: Vec<String> = object["status"]["allocation"]["devices"]["results"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|r| format!("{}/{}", r["pool"].as_str().unwrap_or_default(), r["device"].as_str().unwrap_or_default()))
        .collect();
    if state.is_empty() {
        format!("{key} is there")
    } else if devices.is_empty() {
        state
    } else {
        format!("{state} ({})", devices.join(", "))
    }
}
