//! The cause that `explain` names is sufficient and not too much: judged on every case of Kubernetes' own allocator that does
//! not fit or fails. Taking the cause away makes it fit; with any part of it left in place it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dralab::allocator::{AllocatedState, Outcome};
use dralab::explain::cause;
use dralab::explain::cures::{self, Known};
use dralab::explain::describe::{Around, findings};
use dralab::explain::names::Names;
use dralab::explain::problem::Problem;
use dralab::model::features::Features;
use dralab::model::ids::DeviceId;
use dralab::model::quantity::Quantity;
use dralab::scheduling::view::Key;
use dralab::ui::text::{Language, Texts};
use serde_json::Value;

use crate::case_files::unzipped;

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn id(device: &Value) -> DeviceId {
    let text = |field: &str| device[field].as_str().unwrap_or_default();
    DeviceId::new(text("driver"), text("pool"), text("device"))
}

fn problem(case: &Value) -> Problem {
    let input = &case["input"];
    let names: Vec<&str> = list(&case["features"]).iter().filter_map(Value::as_str).collect();
    let mut state = AllocatedState::default();
    let held = &input["allocatedState"];
    state.devices.extend(list(&held["devices"]).iter().map(id));
    for shared in list(&held["sharedDevices"]) {
        state.shared.entry(id(shared)).or_default().insert(shared["shareID"].as_str().unwrap_or_default().to_owned());
    }
    for aggregated in list(&held["aggregatedCapacity"]) {
        let amounts = aggregated["consumedCapacity"].as_object().into_iter().flatten();
        let amounts = amounts.map(|(name, amount)| (name.clone(), Quantity::parse(amount.as_str().expect("text")).expect("a quantity")));
        state.aggregated_capacity.insert(id(aggregated), amounts.collect());
    }
    let classes = list(&input["deviceClasses"]).iter().map(|class| {
        let class: k8s_openapi::api::resource::v1::DeviceClass = serde_json::from_value(class.clone()).expect("a class");
        (class.metadata.name.clone().unwrap_or_default(), Arc::new(class))
    });
    Problem {
        features: Features::from_names(names).expect("known gates"),
        node: Arc::new(serde_json::from_value(input["node"].clone()).expect("a node")),
        slices: list(&input["resourceSlices"])
            .iter()
            .map(|slice| Arc::new(serde_json::from_value(slice.clone()).expect("a slice")))
            .collect(),
        classes: classes.collect(),
        claims: list(&input["claims"]).iter().map(|claim| Arc::new(serde_json::from_value(claim.clone()).expect("a claim"))).collect(),
        state,
        holders: BTreeMap::new(),
    }
}

/// Checks the cases of a file, of so many parts the one; the answer says how many had how many causes, and how many had a cure.
fn check(text: &str, (part, parts): (usize, usize)) -> (BTreeMap<usize, usize>, usize, BTreeSet<&'static str>) {
    let document: Value = serde_json::from_str(text).expect("a case file");
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    let mut cured = 0;
    let mut reasons = BTreeSet::new();
    let mut faults = Vec::new();
    let texts = Texts::new(Language::English);
    for case in list(&document["cases"]).iter().skip(part).step_by(parts) {
        let name = case["name"].as_str().expect("a name");
        let problem = problem(case);
        let before = problem.solve();
        let Some(cause) = cause::find(&problem) else {
            assert!(matches!(before, Outcome::Fits(_)), "{name}: no cause for what does not fit");
            continue;
        };
        assert!(!matches!(before, Outcome::Fits(_)), "{name}: a cause for what fits");
        if cause.edits.is_empty() {
            faults.push(format!("{name}: no cause found ({before:?})"));
            continue;
        }
        *sizes.entry(cause.edits.len()).or_default() += 1;
        let after = problem.with(&cause.edits).solve();
        if !matches!(after, Outcome::Fits(_)) {
            faults.push(format!("{name}: without {:?} it is {after:?}", cause.edits));
        }
        for left_in in 0..cause.edits.len() {
            let others = cause.edits.iter().enumerate().filter(|(number, _)| *number != left_in).map(|(_, edit)| edit);
            if problem.fits_with(others) {
                faults.push(format!("{name}: {:?} is not needed", cause.edits[left_in]));
            }
        }
        let error = match &before {
            Outcome::Invalid(text) | Outcome::NodeError(text) => Some(text.as_str()),
            _ => None,
        };
        let names = Names::of(problem.slices.iter().map(|slice| &**slice));
        let who = |key: &Key| key.to_string();
        let told = findings(&problem, &cause, error, Around { names: &names, pod_tolerations: &[], who: &who });
        assert!(!told.is_empty(), "{name}: the cause is told");
        for finding in &told {
            reasons.insert(finding.reason.slug());
            let values: Vec<(&str, &dyn std::fmt::Display)> =
                finding.values.iter().map(|(n, v)| (*n, v as &dyn std::fmt::Display)).collect();
            let sentence = texts.get(&finding.text_id(), &values);
            let gap = sentence.starts_with("explain.") || finding.values.keys().len() < placeholders(&texts.get(&finding.text_id(), &[]));
            if gap {
                faults.push(format!("{name}: {} has no sentence, or lacks values: {sentence}", finding.text_id()));
            }
        }
        let users = |_: &Key| Vec::new();
        let cures = cures::find(&problem, &cause, Known { names: &names, users: &users });
        cured += usize::from(!cures.is_empty());
        for cure in cures {
            assert!(texts.has(&format!("explain.cure.{}", cure.change)), "{}", cure.change);
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults[..faults.len().min(20)].join("\n"));
    (sizes, cured, reasons)
}

/// How many different placeholders a text has.
fn placeholders(text: &str) -> usize {
    let names: BTreeSet<&str> = text
        .split('{')
        .skip(1)
        .filter_map(|part| part.split_once('}').map(|(name, _)| name))
        .filter(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        .collect();
    names.len()
}

#[test]
fn the_cause_is_sufficient_and_minimal_in_upstreams_unit_tests() {
    let (sizes, cured, _) = check(&unzipped("upstream-alloc.json.gz"), (0, 1));
    assert!(sizes.values().sum::<usize>() == 80 && sizes[&1] > 60 && cured > 60, "{sizes:?}, cured {cured}");
}

#[test]
fn the_cause_is_sufficient_and_minimal_in_the_case_per_rule() {
    let (sizes, cured, reasons) = check(&unzipped("oracle-alloc.json.gz"), (0, 1));
    assert!(sizes[&1] >= 20 && cured > 15, "{sizes:?}, cured {cured}");
    assert!(reasons.len() > 10, "{reasons:?}");
}

#[test]
fn the_cause_is_sufficient_and_minimal_in_one_of_ten_random_inputs() {
    let (sizes, cured, reasons) = check(&unzipped("random-alloc.json.gz"), (3, 10));
    assert!(sizes.values().sum::<usize>() > 50 && cured > 20, "{sizes:?}, cured {cured}");
    assert!(reasons.len() > 6, "{reasons:?}");
}

#[test]
#[ignore = "minutes of CPU without optimisation: cargo test --test it -- --ignored random_inputs"]
fn the_cause_is_sufficient_and_minimal_in_all_random_inputs() {
    let (sizes, cured, reasons) = check(&unzipped("random-alloc.json.gz"), (0, 1));
    assert!(sizes.values().sum::<usize>() > 700 && cured > 400, "{sizes:?}, cured {cured}");
    assert!(reasons.len() > 14, "{reasons:?}");
}
