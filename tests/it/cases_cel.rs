//! Every CEL case of Kubernetes' own answers: verdict, kind, value, first line of the message, and all costs.

use serde_json::Value;

const CASES: &str = include_str!("../cases/oracle-cel.json");

/// What follows these is worded by Go or by its parser generator.
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

fn first_line(message: &Value) -> Option<&str> {
    let line = message.as_str()?.lines().next()?;
    let end = FOREIGN.iter().filter_map(|text| line.find(text).map(|at| at + text.len())).min();
    Some(&line[..end.unwrap_or(line.len())])
}

fn differences(case: &Value, answer: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, recorded: &Value, given: &Value| {
        if recorded != given {
            found.push(format!("{what}: recorded {recorded}, answered {given}"));
        }
    };
    let (admission, expect) = (&case["admission"], &case["expect"]);
    compare("verdict", &admission["verdict"], &answer["admission"]["verdict"]);
    if !admission["maxCost"].is_null() {
        compare("admission cost", &admission["maxCost"], &answer["admission"]["maxCost"]);
    }
    match expect["alternatives"].as_array() {
        Some(kinds) if kinds.contains(&answer["expect"]["kind"]) => {}
        _ => compare("kind", &expect["kind"], &answer["expect"]["kind"]),
    }
    compare("value", expect.get("value").unwrap_or(&Value::Null), &answer["expect"]["value"]);
    for cost in ["maxCost", "actualCost"] {
        if !expect[cost].is_null() {
            compare(cost, &expect[cost], &answer["expect"][cost]);
        }
    }
    for part in ["admission", "expect"] {
        let (recorded, given) = (first_line(&case[part]["message"]), first_line(&answer[part]["message"]));
        if recorded != given && case[part]["verdict"] != "too-long" {
            found.push(format!("{part} message: recorded {recorded:?}, answered {given:?}"));
        }
    }
    found
}

#[test]
fn every_cel_case_is_answered_as_kubernetes_does() {
    let document: Value = serde_json::from_str(CASES).expect("the cases are JSON");
    let cases = document["cases"].as_array().expect("a list of cases");
    let mut answers = Vec::new();
    let files = [("oracle-cel.json".to_owned(), CASES.to_owned())];
    let summary = dralab::cases::run(&files, &mut answers).expect("the cases are answered");
    let answers: Vec<Value> =
        String::from_utf8(answers).expect("text").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(cases.len(), answers.len());
    assert!(cases.len() > 500, "the file is the whole one");
    let mut faults = Vec::new();
    for (case, answer) in cases.iter().zip(&answers) {
        assert_eq!(case["name"], answer["name"]);
        for difference in differences(case, answer) {
            faults.push(format!("{}: {difference}", case["name"]));
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert_eq!((summary.failed, summary.skipped), (0, 0));
}
