//! Conditions over JSON, and the trace of an evaluation.

use std::collections::BTreeMap;

use dralab::cel::{DeviceInput, Environment, Program, Purpose};
use serde_json::{Value, json};

fn holds(expression: &str, object: &Value) -> Result<bool, String> {
    let program = Program::compile_condition(expression, &["self"]).map_err(|error| error.message)?;
    program.holds(&[("self", object)]).map_err(|error| error.message)
}

#[test]
fn conditions_over_json() {
    let pod = json!({
        "metadata": {"name": "pod", "labels": {"app": "x"}, "generation": 3},
        "spec": {"nodeName": "worker", "containers": [{"name": "a"}, {"name": "b"}], "weight": 0.5},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            "capacity": {"memory": "80Gi"},
            "empty": null,
        },
    });
    for (expression, expected) in [
        ("self.status.phase == 'Pending'", Ok(true)),
        ("!has(self.status.allocation)", Ok(true)),
        ("has(self.spec.nodeName) && self.spec.nodeName.startsWith('work')", Ok(true)),
        ("self.status.conditions.exists(c, c.type == 'PodScheduled' && c.reason == 'Unschedulable')", Ok(true)),
        ("self.status.conditions.all(c, c.status == 'True')", Ok(false)),
        ("size(self.spec.containers) == 2 && self.spec.containers[1].name == 'b'", Ok(true)),
        ("self.spec.containers.map(c, c.name) == ['a', 'b']", Ok(true)),
        ("self.metadata.generation == 3 && self.metadata.generation < 4", Ok(true)),
        ("self.spec.weight == 0.5 && self.spec.weight < 1", Ok(true)),
        ("self.metadata.labels['app'] == 'x' && 'app' in self.metadata.labels", Ok(true)),
        ("quantity(self.status.capacity.memory).isGreaterThan(quantity('40Gi'))", Ok(true)),
        ("self.?status.?allocation.?devices.hasValue()", Ok(false)),
        ("self.status.?reason.orValue('none') == 'none'", Ok(true)),
        ("self.status.empty == null", Ok(true)),
        ("self.status.allocation.devices.size() > 0", Err("no such key: allocation")),
        ("self.status.phase", Err("CEL result of type string could not be converted to bool")),
        ("other.status", Err("undeclared reference to 'other'")),
        ("self.status.phase ==", Err("Syntax error")),
        ("1 + 1", Err("must evaluate to bool, not int")),
    ] {
        match (holds(expression, &pod), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{expression}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{expression}: {found}"),
            (found, _) => panic!("{expression}: {found:?}"),
        }
    }
}

#[test]
fn conditions_may_have_several_variables() {
    let program = Program::compile_condition("claim.name == pod.claim && pod.claim != ''", &["claim", "pod"]).expect("compiles");
    let (claim, pod) = (json!({"name": "c"}), json!({"claim": "c"}));
    assert_eq!(program.holds(&[("pod", &pod), ("claim", &claim)]), Ok(true));
    assert!(program.holds(&[("pod", &pod)]).is_err(), "what is not bound is null");
}

#[test]
fn a_trace_has_every_part_with_its_value_or_error() {
    let attributes: BTreeMap<_, _> = serde_json::from_value(json!({"model": {"string": "H100"}, "index": {"int": 3}})).expect("attributes");
    let capacity: BTreeMap<_, _> = serde_json::from_value(json!({"memory": {"value": "80Gi"}})).expect("capacity");
    let device = DeviceInput::new("gpu.example.com", &attributes, &capacity, false);
    let environment = Environment { purpose: Purpose::Stored, consumable_capacity: true, list_type_attributes: true };
    let expression = "device.attributes['gpu.example.com'].model == 'A100' || \
        (device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0 && device.attributes['gpu.example.com'].nope)";
    let program = Program::compile_selector(expression, environment).expect("compiles");
    let trace = program.trace(&device);
    let seen = |text: &str| {
        let step = trace.steps.iter().rfind(|step| step.text == text).unwrap_or_else(|| panic!("{text} in {:#?}", trace.steps));
        let characters: Vec<char> = expression.chars().collect();
        let part: String = characters[step.span.start as usize..step.span.end as usize].iter().collect();
        assert_eq!(part, text, "the span leads to the text");
        step.result.clone().map(|value| value.text)
    };
    assert_eq!(seen("device.attributes['gpu.example.com'].model"), Ok("\"H100\"".to_owned()));
    assert_eq!(seen("device.attributes['gpu.example.com'].model == 'A100'"), Ok("false".to_owned()));
    assert_eq!(seen("device.capacity['gpu.example.com'].memory"), Ok("quantity(\"80Gi\")".to_owned()));
    assert_eq!(seen("device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0"), Ok("true".to_owned()));
    assert_eq!(seen("device.attributes['gpu.example.com'].nope"), Err("no such key: nope".to_owned()));
    assert_eq!(trace.result.clone().map(|value| value.text), Err("no such key: nope".to_owned()));
    let (verdict, cost) = program.matches(&device);
    assert_eq!(cost, trace.cost);
    assert!(verdict.is_err_and(|error| error.message.starts_with("no such key: nope. consider using")));
}

#[test]
fn a_loop_is_traced_round_by_round() {
    let attributes: BTreeMap<_, _> = serde_json::from_value(json!({"numa": {"ints": [4, 7]}})).expect("attributes");
    let device = DeviceInput::new("d", &attributes, &BTreeMap::new(), false);
    let environment = Environment { purpose: Purpose::Stored, consumable_capacity: true, list_type_attributes: true };
    let program = Program::compile_selector("device.attributes['d'].numa.all(n, n < 7)", environment).expect("compiles");
    let trace = program.trace(&device);
    let rounds: Vec<_> = trace.steps.iter().filter(|step| step.text == "n < 7").map(|step| step.result.clone().map(|v| v.text)).collect();
    assert_eq!(rounds, [Ok("true".to_owned()), Ok("false".to_owned())]);
    assert_eq!(trace.result.map(|value| value.text), Ok("false".to_owned()));
}
