//! `dralab cel`: the verdicts of Kubernetes' own answers (rows of the notes on traps), and the sentence that a user reads.

use std::sync::LazyLock;

use crate::support::Home;
use dralab::cel::{Environment, Purpose};
use dralab::lint::fleet::Fleet;
use dralab::lint::selector::{Outcome, Report, Trap, Verdict, examine};
use dralab::ui::selector::{About, lines};
use dralab::ui::terminal::{Manners, Terminal};
use dralab::ui::text::{Language, Texts};
use k8s_openapi::api::resource::v1::ResourceSlice;
use serde_json::{Value, json};

const NEW: Environment = Environment { purpose: Purpose::New, consumable_capacity: true, list_type_attributes: false };

/// Reading the catalogue takes longer than a case.
fn terminal(language: Language) -> &'static Terminal {
    static TERMINALS: LazyLock<[Terminal; 2]> =
        LazyLock::new(|| Language::ALL.map(|l| Terminal::in_memory(Manners::default(), Texts::new(l)).0));
    &TERMINALS[usize::from(language == Language::Chinese)]
}

/// A slice of `gpu.example.com` in pool `n1` on node `n1`.
fn slice(devices: &Value) -> ResourceSlice {
    serde_json::from_value(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "n1-gpu"},
        "spec": {"driver": "gpu.example.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                 "devices": devices},
    }))
    .expect("a slice")
}

#[expect(clippy::needless_pass_by_value, reason = "callers hand over what they have just made")]
fn fleet(devices: Value) -> Fleet {
    Fleet::new(&[slice(&devices)])
}

/// The device of the recorded answers.
fn gpu(name: &str) -> Value {
    json!({"name": name, "attributes": {
        "model": {"string": "LATEST-GPU-MODEL"}, "index": {"int": 0}, "uuid": {"string": "gpu-u0"}, "driverVersion": {"version": "1.0.0"},
        "healthy": {"bool": true}, "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"}}, "capacity": {"memory": {"value": "80Gi"}}})
}

fn written(report: &Report, fleet: &Fleet, language: Language) -> String {
    let about = About { heading: "", kubernetes: 37, stored: false, source: "test", fleet };
    lines(terminal(language), report, &about).join("\n")
}

fn expanded(expression: &str) -> String {
    expression
        .replace("ATTR", "device.attributes[\"gpu.example.com\"]")
        .replace("CAP", "device.capacity[\"gpu.example.com\"]")
        .replace("\"L\"", "\"LATEST-GPU-MODEL\"")
}

/// What Kubernetes answers: `true`, `false`, `run-time` with a part of the message, `compile` with a part of the message.
type Row = (&'static str, &'static str, &'static str, &'static str, Option<(Trap, &'static str)>);

/// id, expression, kind, part of Kubernetes' message, the trap with a part of its sentence or of the rewrite that was tried.
const ROWS: &[Row] = &[
    ("cel01", "CAP.memory.compareTo(quantity(\"40Gi\")) >= 0", "true", "", None),
    (
        "cel02",
        "ATTR.sharingStrategy == \"x\"",
        "run-time",
        "no such key: sharingStrategy. consider using CEL optional chaining",
        Some((
            Trap::UnknownName,
            "`sharingStrategy` is on 0 of 1 devices; under \"gpu.example.com\" there are driverVersion, healthy, index, model, uuid.",
        )),
    ),
    (
        "cel03",
        "device.attributes[\"gpu.nvidia.com\"].model == \"L\"",
        "run-time",
        "no such key: model",
        Some((
            Trap::UnknownDomain,
            "No device publishes attributes under the domain \"gpu.nvidia.com\"; the 1 devices here use gpu.example.com, resource.kubernetes.io.",
        )),
    ),
    (
        "cel04",
        "device.attributes[\"gpu.exmaple.com\"].model == \"L\"",
        "run-time",
        "no such key: model",
        Some((Trap::NearDomain, "the nearest one is \"gpu.example.com\"")),
    ),
    (
        "cel05",
        "device.attributes.model == \"L\"",
        "compile",
        "found no matching overload for '_==_' applied to '(map(string, ",
        Some((
            Trap::NoDomain,
            "try: device.attributes[\"gpu.example.com\"].model == \"LATEST-GPU-MODEL\"\n  tried on these devices: 1 match",
        )),
    ),
    (
        "cel06",
        "ATTR.model == \"latest-gpu-model\"",
        "false",
        "",
        Some((Trap::ValueCase, "letter case counts, and the value is \"LATEST-GPU-MODEL\"")),
    ),
    (
        "cel07",
        "ATTR.Model == \"L\"",
        "run-time",
        "no such key: Model",
        Some((Trap::NameCase, "letter case counts, and the name is `model`")),
    ),
    (
        "cel08",
        "device.attributes[\"GPU.example.com\"].model == \"L\"",
        "run-time",
        "no such key: model",
        Some((Trap::DomainCase, "letter case counts, and it is \"gpu.example.com\"")),
    ),
    (
        "cel09",
        "CAP.memory == \"80Gi\"",
        "compile",
        "'_==_' applied to '(kubernetes.Quantity, string)'",
        Some((Trap::QuantityOperator, "try: CAP.memory.compareTo(quantity(\"80Gi\")) == 0\n  tried on these devices: 1 match")),
    ),
    (
        "cel10",
        "CAP.memory >= \"40Gi\"",
        "compile",
        "'_>=_' applied to '(kubernetes.Quantity, string)'",
        Some((Trap::QuantityOperator, "try: CAP.memory.compareTo(quantity(\"40Gi\")) >= 0")),
    ),
    (
        "cel11",
        "CAP.memory >= quantity(\"40Gi\")",
        "compile",
        "'_>=_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'",
        Some((Trap::QuantityOperator, "try: CAP.memory.compareTo(quantity(\"40Gi\")) >= 0\n  tried on these devices: 1 match")),
    ),
    (
        "cel12",
        "CAP.memory.compareTo(\"40Gi\") >= 0",
        "compile",
        "'compareTo' applied to 'kubernetes.Quantity.(string)'",
        Some((Trap::CompareText, "write `quantity(\"40Gi\")` for \"40Gi\"")),
    ),
    (
        "cel13",
        "CAP.memory.compareTo(quantity(\"40GiB\")) >= 0",
        "run-time",
        "quantities must match the regular expression",
        Some((Trap::NotAQuantity, "most likely 40Gi is meant")),
    ),
    (
        "cel14",
        "CAP.memory.compareTo(quantity(\"40 Gi\")) >= 0",
        "run-time",
        "quantities must match",
        Some((Trap::NotAQuantity, "most likely 40Gi is meant")),
    ),
    (
        "cel15",
        "CAP.memory.compareTo(quantity(\"40GB\")) >= 0",
        "run-time",
        "quantities must match",
        Some((Trap::NotAQuantity, "most likely 40G is meant")),
    ),
    (
        "cel16",
        "CAP.memory.compareTo(quantity(\"80G\")) == 0",
        "false",
        "",
        Some((Trap::DecimalSuffix, "80G is 80 000 000 000 bytes, and devices publish 80Gi, which is 85 899 345 920")),
    ),
    ("cel17", "CAP.memory.compareTo(quantity(\"81920Mi\")) == 0", "true", "", None),
    ("cel18", "CAP.memory == quantity(\"80Gi\")", "true", "", None),
    (
        "cel19",
        "ATTR.memory.compareTo(quantity(\"40Gi\")) >= 0",
        "run-time",
        "no such key: memory",
        Some((Trap::OtherSpace, "`memory` is looked up in device.attributes, and devices publish it in device.capacity.")),
    ),
    (
        "cel20",
        "CAP.model == \"L\"",
        "compile",
        "'(kubernetes.Quantity, string)'",
        Some((Trap::OtherSpace, "try: ATTR.model == \"L\"\n  tried on these devices: 1 match")),
    ),
    (
        "cel22",
        "ATTR.index == \"0\"",
        "false",
        "",
        Some((Trap::Types, "`ATTR.index` is int and `\"0\"` is string: values of different types are never equal")),
    ),
    (
        "cel23",
        "ATTR.driverVersion == \"1.0.0\"",
        "run-time",
        "no such overload",
        Some((Trap::VersionText, "try: ATTR.driverVersion == semver(\"1.0.0\")\n  tried on these devices: 1 match")),
    ),
    (
        "cel24",
        "ATTR.driverVersion >= semver(\"1.0.0\")",
        "compile",
        "'_>=_' applied to '(",
        Some((Trap::VersionOperator, "try: ATTR.driverVersion.compareTo(semver(\"1.0.0\")) >= 0")),
    ),
    ("cel25", "ATTR.driverVersion.compareTo(semver(\"1.0.0\")) >= 0", "true", "", None),
    (
        "cel26",
        "ATTR.driverVersion.compareTo(semver(\"550.127.08\")) >= 0",
        "run-time",
        "Patch number must not contain leading zeroes \"08\"",
        Some((Trap::NotAVersion, "most likely 550.127.8 is meant")),
    ),
    (
        "cel27",
        "ATTR.driverVersion.compareTo(semver(\"9.0\")) < 0",
        "run-time",
        "No Major.Minor.Patch elements found",
        Some((Trap::NotAVersion, "most likely 9.0.0 is meant")),
    ),
    ("cel28", "ATTR.driverVersion.compareTo(semver(\"9.0\", true)) < 0", "true", "", None),
    ("cel29", "has(ATTR.nope) && ATTR.nope == \"x\"", "false", "", Some((Trap::UnknownName, "`nope` is on 0 of 1 devices"))),
    ("cel30", "ATTR.?nope.orValue(\"none\") == \"none\"", "true", "", Some((Trap::UnknownName, "`nope` is on 0 of 1 devices"))),
    ("cel31", "\"nope\" in ATTR && ATTR.nope", "false", "", Some((Trap::UnknownName, "`nope` is on 0 of 1 devices"))),
    (
        "cel32",
        "device.attributes[\"driver\"] == \"gpu.example.com\"",
        "compile",
        "'(map(string, ",
        Some((Trap::NoDomain, "try: device.driver == \"gpu.example.com\"\n  tried on these devices: 1 match")),
    ),
    ("cel33", "device.driver == \"gpu.example.com\"", "true", "", None),
    (
        "cel34",
        "device.name == \"gpu-0\"",
        "compile",
        "undefined field 'name'",
        Some((
            Trap::NoSuchField,
            "A selector cannot see `device.name`: a device has driver, attributes, capacity, allowMultipleAllocations.",
        )),
    ),
    ("cel35", "device.pool == \"n1\"", "compile", "undefined field 'pool'", Some((Trap::NoSuchField, "`device.pool`"))),
    (
        "cel36",
        "device.nodeName == \"n1\"",
        "compile",
        "undefined field 'nodeName'",
        Some((Trap::NoSuchField, "nodes are chosen by the pod")),
    ),
    (
        "cel37",
        "device.attributes[\"resource.kubernetes.io/pcieRoot\"] == \"pci0000:00\"",
        "compile",
        "'(map(string, ",
        Some((Trap::SlashKey, "in CEL they are two steps: `device.attributes[\"resource.kubernetes.io\"].pcieRoot`")),
    ),
    ("cel38", "device.attributes[\"resource.kubernetes.io\"].pcieRoot == \"pci0000:00\"", "true", "", None),
    (
        "cel39",
        "ATTR.model",
        "run-time",
        "CEL result of type string could not be converted to bool",
        Some((Trap::NotBool, "The result is no bool but string (\"LATEST-GPU-MODEL\")")),
    ),
    (
        "cel40",
        "1",
        "compile",
        "must evaluate to bool or the unknown type, not int",
        Some((Trap::StaticResult, "The result is of type int; a selector has to be true or false.")),
    ),
    (
        "cel41",
        "ATTR.model = \"x\"",
        "compile",
        "Syntax error: token recognition error at: '= '",
        Some((Trap::Assignment, "try: ATTR.model == \"x\"")),
    ),
    (
        "cel42",
        "device.driver == \"gpu.example.com\" & true",
        "compile",
        "Syntax error: token recognition error at: '& '",
        Some((Trap::SingleOperator, "try: device.driver == \"gpu.example.com\" && true\n  tried on these devices: 1 match")),
    ),
    (
        "cel43",
        "device.attributes[gpu.example.com].model == \"x\"",
        "compile",
        "undeclared reference to 'gpu' (in container '')",
        Some((Trap::LostQuotes, "try: device.attributes[\"gpu.example.com\"].model == \"x\"")),
    ),
    (
        "cel44",
        "ATTR.gpu-model == \"x\"",
        "compile",
        "undeclared reference to 'model' (in container '')",
        Some((Trap::Hyphen, "`.gpu-model` is a subtraction. Names of attributes are C identifiers")),
    ),
    (
        "cel46",
        "device.driver == \"gpu.example.com\" || ATTR.nope == \"x\"",
        "true",
        "",
        Some((Trap::UnknownName, "`nope` is on 0 of 1 devices")),
    ),
    (
        "cel47",
        "ATTR.nope == \"x\" || device.driver == \"gpu.example.com\"",
        "true",
        "",
        Some((Trap::UnknownName, "warning: `nope` is on 0 of 1 devices")),
    ),
    ("cel48", "ATTR.nope == \"x\" && device.driver == \"other\"", "false", "", Some((Trap::UnknownName, "`nope` is on 0 of 1 devices"))),
    (
        "cel49",
        "device.attributes[\"foo_bar\"].x == \"y\"",
        "run-time",
        "no such key: x",
        Some((Trap::UnknownDomain, "No device publishes attributes under the domain \"foo_bar\"")),
    ),
    ("cel50", "ATTR.healthy == \"true\"", "false", "", Some((Trap::Types, "try: ATTR.healthy == true\n  tried on these devices: 1 match"))),
    (
        "cel51",
        "ATTR.model.includes(\"L\")",
        "compile",
        "undeclared reference to 'includes'",
        Some((Trap::GatedFunction, "`includes` needs the feature gate DRAListTypeAttributes")),
    ),
    ("cel52", "ATTR.model.contains(\"GPU\")", "true", "", None),
    ("cel53", "CAP.memory.asInteger() >= 40000000000", "true", "", None),
    ("cel56", "CAP.memory == quantity(\"81920Mi\")", "true", "", None),
    ("cel57", "ATTR.driverVersion.compareTo(semver(\"550.127.08\", true)) < 0", "true", "", None),
    (
        "cel58",
        "device.attributes[?\"gpu.nvidia.com\"].?model.orValue(\"none\") == \"none\"",
        "true",
        "",
        Some((Trap::UnknownDomain, "\"gpu.nvidia.com\"")),
    ),
    ("cel59", "\"gpu.nvidia.com\" in device.attributes", "false", "", Some((Trap::UnknownDomain, "\"gpu.nvidia.com\""))),
    (
        "cel61",
        "ATTR.model.split(\"-\").filter(x, x == \"GPU\").size() > 0",
        "true",
        "cost: at most 990 of 1000000; most of it for `ATTR.model.split(\"-\").filter(x, x == \"GPU\")`",
        None,
    ),
    ("cel62", "ATTR.model.split(\"-\").exists_one(x, x == \"GPU\")", "true", "cost: at most 275 of 1000000", None),
    (
        "cel63",
        "ATTR.driverVersion.compareTo(semver(\"570.86.15.1\", true)) < 0",
        "run-time",
        "",
        Some((Trap::NotAVersion, "most likely 570.86.15 is meant")),
    ),
    ("cel64", "CAP.memory.isGreaterThan(quantity(\"40Gi\"))", "true", "", None),
    (
        "cel65",
        "CAP.memory.compareTo(quantity(\"40Gi\"))",
        "compile",
        "must evaluate to bool or the unknown type, not int",
        Some((Trap::CompareResult, "try: CAP.memory.compareTo(quantity(\"40Gi\")) >= 0\n  tried on these devices: 1 match")),
    ),
    ("cel67", "device.allowMultipleAllocations", "false", "", None),
    ("cel68", "cel.bind(d, ATTR, d.model == \"L\" && d.index == 0)", "true", "cost: at most 20 of", None),
    ("cel69", "ATTR.index < 1", "true", "", None),
    ("cel70", "ATTR.index < 1.5", "true", "", None),
    ("cel71", "isSemver(\"550.127.08\")", "false", "", Some((Trap::NotAVersion, "most likely 550.127.8 is meant"))),
    ("cel72", "isQuantity(\"40GiB\")", "false", "", Some((Trap::NotAQuantity, "most likely 40Gi is meant"))),
    ("cel73", "!(ATTR.nope == \"x\")", "run-time", "no such key: nope", Some((Trap::UnknownName, "error: `nope` is on 0 of 1 devices"))),
    ("cel74", "device.driver == \"gpu.example.com\"\n", "true", "", None),
    ("cel76", "has(CAP.memoryy)", "false", "", Some((Trap::NearName, "the nearest name under \"gpu.example.com\" is `memory`"))),
    (
        "cel77",
        "CAP.memory.compareTo(quantity(\"40,5Gi\")) >= 0",
        "run-time",
        "quantities must match",
        Some((Trap::NotAQuantity, "most likely 40.5Gi is meant")),
    ),
    (
        "cel78",
        "CAP.memory.compareTo(quantity(\"40gi\")) >= 0",
        "run-time",
        "quantities must match",
        Some((Trap::NotAQuantity, "most likely 40Gi is meant")),
    ),
];

#[test]
fn every_row_is_answered_as_kubernetes_does_and_its_trap_is_told() {
    let fleet = fleet(json!([gpu("gpu-0")]));
    let mut faults = Vec::new();
    for (id, expression, kind, said, trap) in ROWS {
        let expression = expanded(expression);
        let report = examine(&expression, NEW, &fleet, None);
        let text = written(&report, &fleet, Language::English);
        let answered = match (&report.verdict, report.devices.matches, report.devices.misses, report.devices.errors) {
            (Verdict::CompileError { .. }, 0, 0, 0) => "compile",
            (Verdict::Accepted, 1, 0, 0) => "true",
            (Verdict::Accepted, 0, 1, 0) => "false",
            (Verdict::Accepted, 0, 0, 1) => "run-time",
            _ => "something else",
        };
        if answered != *kind {
            faults.push(format!("{id}: answered {answered}, Kubernetes {kind}"));
        }
        if !text.contains(&expanded(said)) {
            faults.push(format!("{id}: does not say {said:?}\n{text}"));
        }
        match trap {
            Some((trap, sentence))
                if !report.findings.iter().any(|finding| finding.trap == *trap) || !text.contains(&expanded(sentence)) =>
            {
                faults.push(format!("{id}: {} is not told as {sentence:?}\n{text}", trap.id()));
            }
            Some(_) => {}
            None if !report.findings.is_empty() => faults.push(format!("{id}: should be fine\n{text}")),
            None => {}
        }
        assert_eq!(report.is_satisfied(), *kind == "true", "{id}");
        let chinese = written(&report, &fleet, Language::Chinese);
        if report.findings.iter().any(|finding| chinese.contains(finding.trap.text()))
            || chinese.contains("cel.") && chinese.contains("cel.trap")
        {
            faults.push(format!("{id}: a text is missing\n{chinese}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn every_trap_has_a_sentence_in_both_languages_and_an_id_of_its_own() {
    let mut ids = std::collections::BTreeSet::new();
    for trap in Trap::ALL {
        assert!(ids.insert(trap.id()), "{} is there twice", trap.id());
        for language in Language::ALL {
            assert!(Texts::new(language).has(trap.text()), "{} has no sentence", trap.id());
        }
    }
}

/// A2: the same two devices in two orders, with and without a guard.
#[test]
fn a_device_without_the_attribute_matters_only_if_it_comes_first() {
    let mut with = gpu("gpu-1");
    with["attributes"]["nvlink"] = json!({"bool": true});
    let (first, last) = (fleet(json!([gpu("gpu-0"), with.clone()])), fleet(json!([with, gpu("gpu-0")])));
    let plain = expanded("ATTR.nvlink");
    let report = examine(&plain, NEW, &first, None);
    assert_eq!(report.attempts[0].outcome, Outcome::Fails);
    assert!(!report.is_satisfied());
    let text = written(&report, &first, Language::English);
    for part in [
        "`nvlink` is on 1 of 2 devices, in 1 of 1 pools",
        "its error ends the whole scheduling attempt of the pod",
        "try: has(device.attributes[\"gpu.example.com\"].nvlink) && device.attributes[\"gpu.example.com\"].nvlink\n  tried on these devices: 1 match, 1 do not, 0 fail",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let report = examine(&plain, NEW, &last, None);
    assert_eq!(report.attempts[0].outcome, Outcome::FitsByOrder);
    let text = written(&report, &last, Language::English);
    assert!(report.is_satisfied() && text.contains("This works by luck of the order: gpu.example.com/n1/gpu-1 is tried first"), "{text}");
    let report = examine(&expanded("ATTR.?nvlink.orValue(false)"), NEW, &first, None);
    assert_eq!((report.attempts[0].outcome, report.attempts[0].takes.as_deref()), (Outcome::Fits, Some("gpu.example.com/n1/gpu-1")));
    assert!(report.findings.is_empty());
}

/// A11: the qualified one counts here, and the reader is told that Kubernetes takes either.
#[test]
fn an_attribute_published_twice_is_told() {
    let fleet = fleet(json!([{"name": "d", "attributes": {"model": {"string": "a"}, "gpu.example.com/model": {"string": "b"}}}]));
    let report = examine(&expanded("ATTR.model == \"b\""), NEW, &fleet, None);
    assert_eq!(report.devices.matches, 1);
    let text = written(&report, &fleet, Language::English);
    assert!(text.contains("gpu.example.com/n1/d publishes `model` twice with different values") && text.contains("at random"), "{text}");
}

/// A7: a version that is none fails every expression on that device, even `true`.
#[test]
fn a_device_with_a_bad_version_is_told_with_the_right_one() {
    let fleet = fleet(json!([{"name": "d", "attributes": {"driverVersion": {"version": "570.86.15.1"}}}, gpu("gpu-1")]));
    let report = examine("true", NEW, &fleet, None);
    assert_eq!((report.devices.errors, report.attempts[0].outcome), (1, Outcome::Fails));
    let text = written(&report, &fleet, Language::English);
    assert!(text.contains("every expression fails on it") && text.contains("The driver should publish 570.86.15."), "{text}");
}

/// A10: values without quotes.
#[test]
fn a_value_without_quotes_is_told() {
    let fleet = fleet(json!([gpu("gpu-0")]));
    let report = examine(&expanded("ATTR.model == A100"), NEW, &fleet, None);
    let text = written(&report, &fleet, Language::English);
    assert!(
        text.contains("`A100` has no quotes")
            && text.contains("ATTR.model == \"A100\"".replace("ATTR", "device.attributes[\"gpu.example.com\"]").as_str()),
        "{text}"
    );
}

/// A class that selects the driver keeps other drivers' devices from ending the attempt.
#[test]
fn devices_that_the_class_does_not_select_are_not_asked() {
    use dralab::cel::Program;
    use dralab::lint::selector::ClassSelectors;
    let mut nic = slice(&json!([{"name": "nic-0", "attributes": {"rail": {"int": 1}}}]));
    nic.spec.driver = "a-nic.example.com".to_owned();
    let fleet = Fleet::new(&[slice(&json!([gpu("gpu-0")])), nic]);
    let expression = expanded("ATTR.model == \"L\"");
    assert_eq!(examine(&expression, NEW, &fleet, None).attempts[0].outcome, Outcome::Fails);
    let class = ClassSelectors {
        name: "gpu.example.com".to_owned(),
        selectors: vec![Program::compile_selector("device.driver == \"gpu.example.com\"", NEW).expect("compiles")],
    };
    let report = examine(&expression, NEW, &fleet, Some(&class));
    assert_eq!((report.attempts[0].outcome, report.devices.not_asked), (Outcome::Fits, 1));
}

/// Only the newest generation counts, and the order is that of driver, pool, slice name, place in the slice.
#[test]
fn devices_are_in_the_order_of_the_search() {
    let make = |name: &str, driver: &str, generation: i64, devices: &[&str]| {
        let mut slice = slice(&devices.iter().map(|name| json!({"name": name})).collect());
        slice.metadata.name = Some(name.to_owned());
        slice.spec.driver = driver.to_owned();
        slice.spec.pool.generation = generation;
        slice.spec.pool.resource_slice_count = 2;
        slice
    };
    let fleet = Fleet::new(&[
        make("z", "b.example.com", 2, &["d2"]),
        make("y", "b.example.com", 2, &["d1", "d0"]),
        make("x", "b.example.com", 1, &["old"]),
        make("w", "a.example.com", 1, &["e"]),
    ]);
    let names: Vec<String> = fleet.devices.iter().map(|device| device.id.to_string()).collect();
    assert_eq!(names, ["a.example.com/n1/e", "b.example.com/n1/d1", "b.example.com/n1/d0", "b.example.com/n1/d2"]);
    assert_eq!(fleet.partial.len(), 1);
}

const SLICE: &str = "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceSlice\nmetadata: {name: n1-gpu}\nspec:\n  driver: gpu.example.com\n  nodeName: n1\n  pool: {name: n1, generation: 1, resourceSliceCount: 1}\n  devices:\n  - name: gpu-0\n    basic: {attributes: {model: {string: M}}, capacity: {memory: {value: 80Gi}}}\n";

/// Writes a file into the home and gives its path.
fn file(home: &Home, name: &str, text: &str) -> String {
    let path = home.path().join(name);
    std::fs::write(&path, text).expect("writes");
    path.display().to_string()
}

/// The command as a process: exit codes, files, JSON.
#[test]
fn the_command_needs_no_lab_with_slices_of_a_file() {
    let home = Home::new();
    let slices = file(&home, "slices.yaml", SLICE);
    let claims = file(
        &home,
        "claims.yaml",
        "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: c, namespace: ns}\nspec: {devices: {requests: [{name: r, deviceClassName: k, selectors: [{cel: {expression: 'device.attributes[\"gpu.example.com\"].model == \"M\"'}}]}]}}\n---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: k}\nspec: {selectors: [{cel: {expression: 'device.driver == \"gpu.example.com\"'}}]}\n",
    );
    let expression = file(&home, "selector.cel", "device.attributes[\"gpu.example.com\"].model == \"X\"\n");
    let asked = |args: &[&str]| home.dralab(&[&["cel", "--slices", &slices], args].concat());
    let good = expanded("ATTR.model == \"M\"");
    for (args, code) in [
        (&[good.as_str()][..], 0),
        (&["false"], 3),
        (&["device.name == 1"], 3),
        (&["-f", &claims], 0),
        (&["-f", &expression], 3),
        (&["true", "--class", "none"], 2),
        (&["true", "--kubernetes", "1.33"], 2),
        (&["true", "-f", &claims], 2),
        (&["device.allowMultipleAllocations == false", "--kubernetes", "1.34"], 3),
        (&["device.allowMultipleAllocations == false", "--kubernetes", "v1.34.2", "--stored"], 0),
        (&["device.allowMultipleAllocations == false"], 0),
    ] {
        let ran = asked(args);
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
    }
    let ran = asked(&["-f", &claims, "-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).expect("one JSON document");
    assert_eq!((&answer["apiVersion"], &answer["kind"], &answer["satisfied"]), (&json!("dralab/v1"), &json!("CelReport"), &json!(true)));
    let first = &answer["selectors"][0];
    assert_eq!(first["path"], "spec.devices.requests[0].exactly.selectors[0].cel.expression");
    assert_eq!(
        (&first["object"], &first["verdict"], &first["devices"]["matches"]),
        (&json!("ResourceClaim ns/c"), &json!("accepted"), &json!(1))
    );
    assert_eq!(first["groups"][0]["values"][0]["values"][0], json!({"value": "\"M\"", "type": "string", "devices": 1}));
    // Without devices a verdict that needs none is given; others say what is missing.
    assert_eq!(home.dralab(&["cel", "device.name"]).code, 3);
    let ran = home.dralab(&["cel", "true"]);
    assert!(ran.code == 4 && ran.stderr.contains("dralab cel EXPR --slices FILE"), "{ran:?}");
}

/// As many as `PROPTEST_CASES` says, for long runs.
#[expect(clippy::disallowed_methods, reason = "how many cases there are is told to the tests by the environment")]
fn cases() -> u32 {
    if std::env::var_os("PROPTEST_CASES").is_some() { proptest::prelude::ProptestConfig::default().cases } else { 200 }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: cases(), ..proptest::prelude::ProptestConfig::default() })]

    /// No text makes the examination panic, hang or overflow the stack.
    #[test]
    fn any_text_is_answered(expression in "\\PC{0,60}", bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
        let fleet = fleet(json!([gpu("gpu-0"), {"name": "bare"}]));
        for text in [expression, String::from_utf8_lossy(&bytes).into_owned()] {
            let report = examine(&text, NEW, &fleet, None);
            let _ = written(&report, &fleet, Language::English);
        }
    }

    /// Texts made of what selectors are made of get further than arbitrary ones.
    #[test]
    fn any_words_are_answered(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..24)) {
        let fleet = fleet(json!([gpu("gpu-0"), {"name": "bare"}]));
        let report = examine(&words.concat(), NEW, &fleet, None);
        let _ = written(&report, &fleet, Language::Chinese);
    }
}

const WORDS: &[&str] = &[
    "device",
    ".attributes",
    ".capacity",
    "[\"gpu.example.com\"]",
    "[?\"gpu.exmaple.com\"]",
    "[gpu]",
    ".model",
    ".?nope",
    ".memory",
    ".gpu-model",
    " == ",
    " != ",
    " >= ",
    " && ",
    " || ",
    " in ",
    "!",
    "(",
    ")",
    "\"80G\"",
    "\"é\"",
    "0",
    "1.5",
    "quantity(",
    "semver(",
    "has(",
    "[1, \"a\"]",
    ".exists(x, x == ",
    ".compareTo(",
    "cel.bind(d, ",
    ", ",
    " ? ",
    " : ",
    "\n",
    "true",
    "=",
    "&",
    ".orValue(",
    "dyn(",
];
