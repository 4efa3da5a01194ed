//! Answers CEL cases: what the API server says of a new expression and what a stored one gives on the case's device.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{DeviceAttribute, DeviceCapacity};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cel::{CompileError, DeviceInput, Environment, MAX_COST, MAX_LENGTH, Program, Purpose};

/// A case, as far as the answer depends on it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    expression: String,
    #[serde(default)]
    derived_attribute: bool,
    device: Device,
    #[serde(default)]
    features: BTreeMap<String, bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    driver: String,
    #[serde(default)]
    attributes: Option<BTreeMap<String, DeviceAttribute>>,
    #[serde(default)]
    capacity: Option<BTreeMap<String, DeviceCapacity>>,
    #[serde(default)]
    allow_multiple_allocations: Option<bool>,
}

/// The answer to one case: `admission` and `expect`, or `skippedBecause` if it is no CEL case.
#[must_use]
pub(super) fn answer(case: &Value) -> Value {
    match Case::deserialize(case) {
        Ok(case) => json!({"admission": admission(&case), "expect": expectation(&case)}),
        Err(error) => json!({"skippedBecause": format!("not a CEL case: {error}")}),
    }
}

/// Whether an answer is the recorded outcome: verdict, kind, value, first lines of messages.
#[must_use]
pub(super) fn agrees(case: &Value, answer: &Value) -> bool {
    let (recorded, given) = (&case["expect"], &answer["expect"]);
    let kinds = recorded["alternatives"].as_array();
    let kind = kinds.map_or(recorded["kind"] == given["kind"], |kinds| kinds.contains(&given["kind"]));
    kind && case["admission"]["verdict"] == answer["admission"]["verdict"]
        && recorded.get("value").unwrap_or(&Value::Null) == &given["value"]
        && first_line(&recorded["message"]) == first_line(&given["message"])
        && (answer["admission"]["verdict"] == "too-long"
            || first_line(&case["admission"]["message"]) == first_line(&answer["admission"]["message"]))
}

fn first_line(message: &Value) -> Option<&str> {
    message.as_str().and_then(|text| text.lines().next()).map(comparable)
}

/// The part of a message that is not worded by Go or by a parser generator.
fn comparable(line: &str) -> &str {
    const FOREIGN: &[&str] = &[
        "Syntax error:",
        "could not be converted to bool:",
        "internal error:",
        "error parsing regexp:",
        "parse error during conversion from string:",
        "unsupported CEL return type:",
        "got '",
        "unknown time zone",
    ];
    let end = FOREIGN.iter().filter_map(|text| line.find(text).map(|at| at + text.len())).min();
    &line[..end.unwrap_or(line.len())]
}

fn compile(case: &Case, purpose: Purpose) -> Result<Program, CompileError> {
    let gate = |name: &str| case.features.get(name).copied().unwrap_or(false);
    let environment =
        Environment { purpose, consumable_capacity: gate("DRAConsumableCapacity"), list_type_attributes: gate("DRAListTypeAttributes") };
    let compile = if case.derived_attribute { Program::compile_derived } else { Program::compile_selector };
    compile(&case.expression, environment)
}

fn admission(case: &Case) -> Value {
    if case.expression.len() > MAX_LENGTH {
        return json!({"verdict": "too-long", "message": Value::Null, "maxCost": Value::Null});
    }
    match compile(case, Purpose::New) {
        Err(error) => json!({"verdict": "compile-error", "message": error.message, "maxCost": Value::Null}),
        Ok(program) if program.estimated_cost() > MAX_COST => {
            json!({"verdict": "too-complex", "message": "too complex, exceeds cost limit", "maxCost": program.estimated_cost()})
        }
        Ok(program) => json!({"verdict": "accepted", "message": Value::Null, "maxCost": program.estimated_cost()}),
    }
}

fn expectation(case: &Case) -> Value {
    let program = match compile(case, Purpose::Stored) {
        Ok(program) => program,
        Err(error) => {
            return json!({"kind": "compile-error", "message": error.message, "maxCost": Value::Null, "actualCost": Value::Null, "value": Value::Null});
        }
    };
    let Device { driver, attributes, capacity, allow_multiple_allocations } = &case.device;
    let (no_attributes, no_capacity) = (BTreeMap::new(), BTreeMap::new());
    let device = DeviceInput::new(
        driver,
        attributes.as_ref().unwrap_or(&no_attributes),
        capacity.as_ref().unwrap_or(&no_capacity),
        allow_multiple_allocations.unwrap_or(false),
    );
    let (result, cost) = if case.derived_attribute {
        let (result, cost) = program.derive(&device);
        (result.map(|attribute| ("value", json!(attribute))), cost)
    } else {
        let (result, cost) = program.matches(&device);
        (result.map(|matches| (if matches { "match" } else { "nomatch" }, Value::Null)), cost)
    };
    let (kind, message, value) = match result {
        Ok((kind, value)) => (kind, Value::Null, value),
        Err(error) => ("runtime-error", Value::String(error.message), Value::Null),
    };
    // A device that cannot be converted is not evaluated at all.
    let cost = device.is_usable().then_some(cost);
    json!({"kind": kind, "message": message, "maxCost": program.estimated_cost(), "actualCost": cost, "value": value})
}
