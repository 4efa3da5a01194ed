//! Every allocator case, answered and compared field by field with what Kubernetes' own code answered, steps included.

use std::collections::{BTreeMap, BTreeSet};

use dralab::cases;
use dralab::model::quantity::Quantity;
use serde_json::{Value, json};

use crate::case_files::unzipped;

/// Fields of a result that are compared as they are; absent, null and empty are the same.
const PLAIN: &[&str] =
    &["request", "driver", "pool", "device", "tolerations", "bindingConditions", "bindingFailureConditions", "skipNodeOperations"];

/// `null` for everything that says nothing.
fn said(value: &Value) -> Value {
    match value {
        Value::Array(list) if list.is_empty() => Value::Null,
        Value::Object(fields) if fields.is_empty() => Value::Null,
        other => other.clone(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn amounts(value: &Value) -> BTreeMap<&str, Quantity> {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, amount)| (name.as_str(), Quantity::parse(amount.as_str().expect("a quantity")).expect("a quantity"))).collect()
}

/// What differs between an answer and a recorded outcome.
fn differences(case: &Value, outcome: &Value, answer: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, recorded: Value, answered: Value| {
        if recorded != answered {
            found.push(format!("{what}: recorded {recorded}, answered {answered}"));
        }
    };
    let failed = outcome["errorMessage"].is_string();
    let on_node = outcome["failedOnNodeOnly"] == json!(true);
    let kind = match (failed, on_node, list(&outcome["allocations"]).is_empty()) {
        (true, true, _) => "node-error",
        (true, false, _) => "error",
        (false, _, false) => "allocated",
        (false, _, true) if list(&case["input"]["claims"]).is_empty() => "nothing-to-do",
        (false, _, true) => "does-not-fit",
    };
    compare("kind", json!(kind), answer["kind"].clone());
    compare("failedOnNodeOnly", json!(on_node), answer["failedOnNodeOnly"].clone());
    compare("steps", outcome["allocateOneInvocations"].clone(), answer["allocateOneInvocations"].clone());
    compare("a message", json!(failed), json!(answer["errorMessage"].is_string()));
    for part in list(&case["errorSubstrings"]).iter().filter(|_| failed) {
        let message = answer["errorMessage"].as_str().unwrap_or_default();
        if !message.contains(part.as_str().expect("text")) {
            compare("message", part.clone(), json!(message));
        }
    }
    let (recorded, answered) = (list(&outcome["allocations"]), list(&answer["allocations"]));
    compare("allocations", json!(recorded.len()), json!(answered.len()));
    for (recorded, answered) in recorded.iter().zip(answered) {
        compare("nodeSelector", said(&recorded["nodeSelector"]), said(&answered["nodeSelector"]));
        compare("config", said(&recorded["devices"]["config"]), said(&answered["devices"]["config"]));
        compare("allocationTimestamp", Value::Null, answered["allocationTimestamp"].clone());
        let (recorded, answered) = (list(&recorded["devices"]["results"]), list(&answered["devices"]["results"]));
        compare("results", json!(recorded.len()), json!(answered.len()));
        for (recorded, answered) in recorded.iter().zip(answered) {
            for field in PLAIN {
                compare(field, said(&recorded[field]), said(&answered[field]));
            }
            compare("adminAccess", json!(recorded["adminAccess"] == true), json!(answered["adminAccess"] == true));
            compare("shareID", json!(recorded["shareID"].is_string()), json!(answered["shareID"].is_string()));
            if amounts(&recorded["consumedCapacity"]) != amounts(&answered["consumedCapacity"]) {
                compare("consumedCapacity", recorded["consumedCapacity"].clone(), answered["consumedCapacity"].clone());
            }
        }
    }
    found
}

fn check(name: &str, expected: usize) {
    let text = unzipped(&format!("{name}.gz"));
    let document: Value = serde_json::from_str(&text).expect("a case file");
    let mut out = Vec::new();
    let summary = cases::run(&[(format!("somewhere/{name}"), text)], &mut out).expect("answers");
    let answers: BTreeMap<String, Value> = String::from_utf8(out)
        .expect("text")
        .lines()
        .map(|line| {
            let answer: Value = serde_json::from_str(line).expect("one JSON object per line");
            assert_eq!(answer["file"], json!(name));
            (answer["name"].as_str().expect("a name").to_owned(), answer)
        })
        .collect();
    let cases = list(&document["cases"]);
    assert_eq!(cases.len(), expected);
    assert_eq!(answers.len(), cases.len(), "one answer per case");
    let mut faults = Vec::new();
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let default = case["defaultVariant"].as_str().unwrap_or_default();
        let outcomes = [&case["outcome"], &case["variantDifferences"][default]];
        let accepted = outcomes.iter().filter(|outcome| outcome.is_object()).map(|outcome| differences(case, outcome, &answers[name]));
        let fewest = accepted.min_by_key(Vec::len).expect("an outcome");
        if !fewest.is_empty() {
            faults.push(format!("{name}:\n    {}", fewest.join("\n    ")));
        }
    }
    assert!(faults.is_empty(), "{} of {expected} cases:\n{}", faults.len(), faults[..faults.len().min(10)].join("\n"));
    assert_eq!((summary.passed, summary.failed, summary.skipped), (expected, 0, 0), "the command's own summary");
}

#[test]
fn upstreams_unit_tests() {
    check("upstream-alloc.json", 207);
}

#[test]
fn one_case_per_rule() {
    check("oracle-alloc.json", 51);
}

#[test]
fn random_inputs() {
    check("random-alloc.json", 1500);
}

#[test]
fn the_comparison_notices_changes() {
    let text = unzipped("oracle-alloc.json.gz");
    let document: Value = serde_json::from_str(&text).expect("a case file");
    let case = list(&document["cases"]).iter().find(|case| case["kind"] == "allocated").expect("a case that is allocated");
    let outcome = &case["outcome"];
    let mut answer = outcome.clone();
    answer["kind"] = json!("allocated");
    assert_eq!(differences(case, outcome, &answer), Vec::<String>::new());
    let mut seen = BTreeSet::new();
    for (pointer, value) in [
        ("/kind", json!("does-not-fit")),
        ("/allocateOneInvocations", json!(0)),
        ("/allocations/0/devices/results/0/device", json!("other")),
        ("/allocations/0/devices/results/0/tolerations", json!([{"key": "x"}])),
        ("/allocations/0/nodeSelector", json!({"nodeSelectorTerms": [{}]})),
        ("/allocations", json!([])),
    ] {
        let mut changed = answer.clone();
        match changed.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => changed["allocations"][0]["devices"]["results"][0]["tolerations"] = value,
        }
        let found = differences(case, outcome, &changed);
        assert!(!found.is_empty(), "{pointer}");
        seen.extend(found);
    }
    assert!(seen.len() >= 6);
}
