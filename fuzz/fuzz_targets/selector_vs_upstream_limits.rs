//! Upstream's limits hold: an evaluation costs no more than the estimate (where there is one) and stops at the limit; a trace
//! agrees with the plain evaluation; new expressions are never allowed more than stored ones.
#![no_main]

use std::collections::BTreeMap;

use dralab::cel::{DeviceInput, Environment, MAX_COST, Program, Purpose};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let stored = Environment { purpose: Purpose::Stored, consumable_capacity: true, list_type_attributes: true };
    let new = Environment { purpose: Purpose::New, consumable_capacity: true, list_type_attributes: false };
    let program = Program::compile_selector(text, stored);
    if Program::compile_selector(text, new).is_ok() {
        // `any` attributes may be a verdict where `dyn` ones are, so that what is new is stored too.
        assert!(program.is_ok(), "a new expression that stored ones may not have: {text:?}");
    }
    let Ok(program) = program else { return };
    let attributes: BTreeMap<_, _> = serde_json::from_value(serde_json::json!({
        "model": {"string": "H100-80GB"}, "index": {"int": 3}, "ok": {"bool": true}, "v": {"version": "1.2.3"},
    }))
    .unwrap();
    let capacity: BTreeMap<_, _> = serde_json::from_value(serde_json::json!({"memory": {"value": "80Gi"}})).unwrap();
    let device = DeviceInput::new("gpu.example.com", &attributes, &capacity, false);
    let (verdict, cost) = program.matches(&device);
    // One step may go over the limit before it is seen.
    assert!(cost <= MAX_COST.saturating_mul(64) || verdict.is_err(), "{cost} for {text:?}");
    let trace = program.trace(&device);
    assert_eq!(trace.cost, cost);
    if let Ok(verdict) = verdict {
        assert!(trace.result.is_ok_and(|value| value.text.contains(&verdict.to_string())));
    }
});
