//! Node selectors of slices, allocations and pods (`ValidateNodeSelector`).

use serde_json::Value;

use super::field::{Faults, Path, forbidden, invalid, required};
use super::json::{list, text};
use super::names;

/// Validates a required node selector.
pub(crate) fn validate(selector: &Value, path: &Path, faults: &mut Faults) {
    let (terms, path) = (list(selector, "nodeSelectorTerms"), path.child("nodeSelectorTerms"));
    if terms.is_empty() {
        faults.push(required(&path, "must have at least one node selector term"));
    }
    for (number, term) in terms.iter().enumerate() {
        term_at(term, true, &path.index(number), faults);
    }
}

/// Validates one term. Values are judged in required rules only.
pub(crate) fn term_at(term: &Value, required: bool, path: &Path, faults: &mut Faults) {
    for (number, requirement) in list(term, "matchExpressions").iter().enumerate() {
        expression(requirement, required, &path.child("matchExpressions").index(number), faults);
    }
    for (number, requirement) in list(term, "matchFields").iter().enumerate() {
        node_field(requirement, &path.child("matchFields").index(number), faults);
    }
}

fn expression(requirement: &Value, judge_values: bool, path: &Path, faults: &mut Faults) {
    let (operator, key, values) = (text(requirement, "operator"), text(requirement, "key"), list(requirement, "values"));
    let at = path.child("values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            faults.push(required(&at, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            faults.push(forbidden(&at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            faults.push(required(&at, "must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => faults.push(invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    faults.each(&path.child("key"), key, names::qualified(key));
    for (number, value) in values.iter().enumerate().filter(|_| judge_values) {
        let value = value.as_str().unwrap_or_default();
        faults.each(&at.index(number), value, names::label_value(value));
    }
}

fn node_field(requirement: &Value, path: &Path, faults: &mut Faults) {
    let (operator, key, values) = (text(requirement, "operator"), text(requirement, "key"), list(requirement, "values"));
    match operator {
        "In" | "NotIn" if values.len() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            faults.push(required(&path.child("values"), why));
        }
        "In" | "NotIn" => {}
        other => faults.push(invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    if key != "metadata.name" {
        faults.push(invalid(&path.child("key"), key, "not a valid field selector key"));
        return;
    }
    for (number, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        faults.each(&path.child("values").index(number), value, names::subdomain(value));
    }
}
