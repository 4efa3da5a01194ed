//! Any text as a device selector, derived attribute and condition: nothing panics, hangs or overflows the stack, and the report
//! of `dralab cel` can be made.
#![no_main]

use std::sync::LazyLock;

use dralab::cel::{Environment, Program, Purpose};
use dralab::lint::fleet::Fleet;
use dralab::lint::selector::examine;
use libfuzzer_sys::fuzz_target;

static FLEET: LazyLock<Fleet> = LazyLock::new(|| {
    let slice = r#"{"metadata":{"name":"s"},"spec":{"driver":"gpu.example.com","nodeName":"n","pool":{"name":"n","generation":1,"resourceSliceCount":1},
        "devices":[{"name":"a","attributes":{"model":{"string":"H100"},"index":{"int":3},"ok":{"bool":true},"v":{"version":"1.2.3"},"l":{"ints":[1,2]}},
        "capacity":{"memory":{"value":"80Gi"}}},{"name":"bare"}]}}"#;
    let mut deserializer = serde_json::Deserializer::from_str(slice);
    Fleet::new(&[serde::Deserialize::deserialize(&mut deserializer).unwrap()])
});

fuzz_target!(|text: &str| {
    let stored = Environment { purpose: Purpose::Stored, consumable_capacity: true, list_type_attributes: true };
    let new = Environment { purpose: Purpose::New, consumable_capacity: false, list_type_attributes: false };
    for device in &FLEET.devices {
        if let Ok(program) = Program::compile_derived(text, stored) {
            let _ = program.derive(&device.input);
        }
    }
    if let Ok(program) = Program::compile_condition(text, &["self"]) {
        let _ = program.holds(&[("self", &serde_json::json!({"a": [1, "x", null], "b": {"c": 1.5}}))]);
    }
    let report = examine(text, stored, &FLEET, None);
    assert_eq!(report.devices.asked() == 0, !report.groups.iter().any(|group| !group.devices.is_empty()));
    let _ = examine(text, new, &FLEET, None);
});
