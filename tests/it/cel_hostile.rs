//! Nothing an expression says makes the compiler or the evaluator panic, overflow the stack or run on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dralab::cel::{DeviceInput, Environment, Program, Purpose};
use serde_json::{Value, json};

/// Generous, because tests run unoptimized and in parallel; what hangs takes forever.
const PATIENCE: Duration = Duration::from_secs(20);

fn device() -> DeviceInput {
    let attributes: BTreeMap<_, _> = serde_json::from_value(json!({
        "model": {"string": "H100-80GB"}, "index": {"int": 3}, "numa": {"ints": [0, 1, 1]},
        "driverVersion": {"version": "1.2.3"}, "ok": {"bool": true},
    }))
    .expect("attributes");
    let capacity: BTreeMap<_, _> = serde_json::from_value(json!({"memory": {"value": "80Gi"}})).expect("capacity");
    DeviceInput::new("gpu.example.com", &attributes, &capacity, false)
}

/// Compiles in all ways and evaluates what compiles; whether it compiled as a selector.
fn exercise(expression: &str, device: &DeviceInput) -> bool {
    let start = Instant::now();
    let stored = Environment { purpose: Purpose::Stored, consumable_capacity: true, list_type_attributes: true };
    let new = Environment { purpose: Purpose::New, consumable_capacity: false, list_type_attributes: false };
    let selector = Program::compile_selector(expression, stored);
    if let Ok(program) = &selector {
        let _ = (program.estimated_cost(), program.matches(device));
    }
    if let Ok(program) = Program::compile_derived(expression, new) {
        let _ = program.derive(device);
    }
    if let Ok(program) = Program::compile_condition(expression, &["device"]) {
        let _ = program.holds(&[("device", &json!({"driver": "gpu.example.com"}))]);
    }
    assert!(start.elapsed() < PATIENCE, "{} took {:?}", &expression.chars().take(200).collect::<String>(), start.elapsed());
    selector.is_ok()
}

#[test]
fn deep_and_long_expressions_are_answered() {
    let device = device();
    let repeated = |open: &str, middle: &str, close: &str, times: usize| format!("{}{middle}{}", open.repeat(times), close.repeat(times));
    for (expression, compiles) in [
        (repeated("(", "true", ")", 249), true),
        (repeated("(", "true", ")", 250), false),
        (repeated("(", "true", ")", 5_000), false),
        (repeated("!(", "true", ")", 248), true),
        (repeated("[", "1", "]", 249) + " == []", true),
        (repeated("{'a': ", "1", "}", 249) + " == {}", true),
        (format!("{}true", "!".repeat(10_000)), true),
        (format!("{}1 == 1", "-".repeat(10_001)), true),
        (vec!["true"; 2_000].join(" && "), true),
        (format!("{} > 0", vec!["1"; 240].join(" + ")), true),
        (format!("{} > 0", vec!["1"; 5_000].join(" + ")), false),
        (format!("dyn(device){} == 1", ".a".repeat(240)), true),
        (format!("dyn(device){} == 1", ".a".repeat(3_000)), false),
        (format!("device.driver{} == ''", ".lowerAscii()".repeat(240)), true),
        (format!("{}true{}", "[1].all(x, ".repeat(100), ")".repeat(100)), true),
        (format!("{}1{} == 1", "cel.bind(x, 1, ".repeat(200), ")".repeat(200)), true),
        (format!("{}true{}", "true ? ".repeat(240), " : false".repeat(240)), false),
        ("\"".repeat(9_999), false),
        ("'\\".repeat(5_000), false),
        ("{".repeat(5_000), false),
        ("a.".repeat(5_000), false),
        ("/*".repeat(5_000), false),
    ] {
        let label: String = expression.chars().take(40).collect();
        assert_eq!(exercise(&expression, &device), compiles, "{label}");
    }
}

#[test]
fn macros_that_copy_do_not_grow_without_bound() {
    let device = device();
    let chain = format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(60));
    assert!(!exercise(&chain, &device), "it would have 2^60 nodes");
    assert!(exercise(&format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(8)), &device));
}

#[test]
fn evaluation_stops_at_its_limit() {
    let device = device();
    for expression in [
        "lists.range(1000000).all(x, lists.range(1000000).all(y, x + y >= 0))",
        "lists.range(20000).map(x, [x]).map(y, y).flatten().size() > 0",
        "lists.range(20000).all(i, device.attributes['gpu.example.com'].index != i)",
        "lists.range(20000).transformMap(i, v, v).size() == 1",
        "lists.range(20000).all(i, optional.none().orValue(true))",
        "lists.range(300).distinct().size() == 300",
        "[1].map(a, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaa').replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaa').replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaa').replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaa').replace('a', 'aaaaaaaaaaaaaaaaaaaaa')).size() == 1",
        "'a'.matches('(((((a{100}){100}){100}){100}){100})')",
        "('a' + 'a').matches('(x+x+)+y' + device.driver)",
        "quantity('1e2147483647').add(quantity('1e-2147483648')).isGreaterThan(quantity('1e2147483646'))",
        "'%.99999999f'.format([1.5]).size() > 0",
        "duration('999999999999h') > duration('0s')",
        "timestamp('9999-12-31T23:59:59Z').getHours('+9223372036854775807:00') == 0",
        "lists.range(3).flatten(9223372036854775807).size() == 3",
    ] {
        exercise(expression, &device);
    }
}

/// A generator of pseudo-random numbers, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

fn expressions() -> Vec<String> {
    let document: Value = serde_json::from_str(include_str!("../cases/oracle-cel.json")).expect("JSON");
    let cases = document["cases"].as_array().expect("cases");
    cases.iter().filter_map(|case| case["expression"].as_str()).filter(|text| text.len() < 300).map(str::to_owned).collect()
}

#[test]
fn mutations_of_the_cases_are_answered() {
    let (device, expressions) = (device(), expressions());
    let pieces: Vec<&str> = expressions.iter().flat_map(|text| text.split_inclusive([' ', '.', '(', ')', '[', ']', ','])).collect();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut compiled = 0;
    for _ in 0..1_500 {
        let mut text: Vec<char> = expressions[dice.roll(expressions.len())].chars().collect();
        for _ in 0..=dice.roll(3) {
            let at = dice.roll(text.len() + 1);
            let end = (at + dice.roll(6)).min(text.len());
            let replacement: Vec<char> = match dice.roll(4) {
                0 => Vec::new(),
                1 => pieces[dice.roll(pieces.len())].chars().collect(),
                2 => text[at..end].iter().flat_map(|c| [*c, *c]).collect(),
                _ => vec![char::from_u32(dice.roll(0x2_0000) as u32).unwrap_or('\u{fffd}')],
            };
            text.splice(at..end, replacement);
        }
        compiled += usize::from(exercise(&text.iter().collect::<String>(), &device));
    }
    assert!(compiled > 20, "some mutations are expressions: {compiled}");
}

#[test]
fn random_texts_are_answered() {
    let device = device();
    let alphabet: Vec<char> = "abdr01.,:?!&|<>=+-*/%(){}[]\"'`\\ \n\té日device true null in has all map x".chars().collect();
    let mut dice = Dice(42);
    for _ in 0..2_000 {
        let length = dice.roll(60);
        let text: String = (0..length).map(|_| alphabet[dice.roll(alphabet.len())]).collect();
        exercise(&text, &device);
    }
}
