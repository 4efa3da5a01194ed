//! `dralab lint`: an input, the finding and its sentence for each trap of the notes.

use std::fmt::Write as _;
use std::sync::LazyLock;

use dralab::lint::manifest::{Cluster, Judgement, Rule, Source, Target, lint};
use dralab::lint::selector::Severity;
use dralab::model::features::Features;
use dralab::ui::manifest::{id, lines};
use dralab::ui::terminal::{Manners, Terminal};
use dralab::ui::text::{Language, Texts};
use serde_json::{Value, json};

use crate::support::Home;

const CLAIM: &str = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: gpu, namespace: ns}\nspec:\n  devices:\n    requests:\n    - name: r\n      exactly: {deviceClassName: gpu.example.com}\n";

const SLICE: &str = "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: n1-gpu}\nspec:\n  driver: gpu.example.com\n  nodeName: n1\n  pool: {name: n1, generation: 1, resourceSliceCount: 1}\n  devices:\n  - name: gpu-0\n    attributes: {model: {string: M}, resource.kubernetes.io/pcieRoot: {string: a}}\n    capacity: {memory: {value: 80Gi}}\n";

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\nspec:\n  resourceClaims:\n  - {name: gpu, resourceClaimName: gpu}\n  containers:\n  - name: c\n    image: ubuntu:24.04\n    resources: {claims: [{name: gpu}]}\n";

fn target(minor: u32) -> Target {
    Target { minor, features: Features::for_kubernetes(minor).expect("a known version") }
}

fn judged(text: &str, minor: u32) -> Judgement {
    lint(&[Source { name: "x.yaml".to_owned(), text: text.to_owned() }], target(minor), None)
}

/// Reading the catalogue takes longer than a case.
fn terminal(language: Language) -> &'static Terminal {
    static TERMINALS: LazyLock<[Terminal; 2]> =
        LazyLock::new(|| Language::ALL.map(|l| Terminal::in_memory(Manners::default(), Texts::new(l)).0));
    &TERMINALS[usize::from(language == Language::Chinese)]
}

fn written(judgement: &Judgement, language: Language) -> String {
    let terminal = terminal(language);
    let mut text = String::new();
    for finding in &judgement.findings {
        for line in lines(terminal, finding) {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Pain point, minor version, manifest, id, place, parts of what is said.
type Row = (&'static str, u32, String, &'static str, (u64, u64), &'static [&'static str]);

fn claim(from: &str, to: &str) -> String {
    assert!(CLAIM.contains(from));
    CLAIM.replace(from, to)
}

fn pod(from: &str, to: &str) -> String {
    assert!(POD.contains(from));
    POD.replace(from, to)
}

fn slice(from: &str, to: &str) -> String {
    assert!(SLICE.contains(from));
    SLICE.replace(from, to)
}

fn with(a: &str, b: &str) -> String {
    format!("{a}---\n{b}")
}

fn rows() -> Vec<Row> {
    let selector = |expression: &str| {
        claim(
            "{deviceClassName: gpu.example.com}",
            &format!(
                "\n        deviceClassName: gpu.example.com\n        selectors:\n        - cel:\n            expression: {expression}"
            ),
        )
    };
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: ns}\nspec:\n  replicas: 2\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      resourceClaims:\n      - {name: gpu, resourceClaimName: one-gpu}\n      containers:\n      - {name: c, image: i, resources: {claims: [{name: gpu}]}}\n";
    vec![
        ("A1", 37, with(&selector("device.attributes['gpu.exmaple.com'].model == 'M'"), SLICE), "DL-CEL-DOMAIN-NEAR", (12, 13), &["the nearest one is \"gpu.example.com\"", "spec.devices.requests[0].exactly.selectors[0].cel.expression", "tried on these devices: 1 match"]),
        ("A7", 37, slice("model: {string: M}", "driverVersion: {version: 570.86.15.1}"), "DL-LINT-SEMVER", (10, 34), &["the API server refuses the whole slice", "Publish 570.86.15."]),
        ("A7", 37, slice("model: {string: M}", "driverVersion: {version: 550.127.08}"), "DL-LINT-SEMVER", (10, 34), &["Publish 550.127.8."]),
        ("A8", 37, slice("model:", "numa-1:"), "DL-LINT-IDENTIFIER", (10, 18), &["\"numa-1\" is no C identifier", "numa_1"]),
        ("A11", 37, slice("model: {string: M}", "model: {string: M}, gpu.example.com/model: {string: N}"), "DL-LINT-TWICE", (10, 18), &["Kubernetes takes either at random"]),
        ("A13", 37, with(&with(CLAIM, SLICE), "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: my-gpus}\nspec: {selectors: [{cel: {expression: 'true'}}]}\n"), "DL-LINT-CLASS-DRIVER", (8, 17), &["\"gpu.example.com\" is a driver and no DeviceClass; the classes are: my-gpus."]),
        ("A13", 37, "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: any}\nspec: {}\n".to_owned(), "DL-LINT-OPEN-CLASS", (4, 1), &["selects the devices of every driver"]),
        ("A14", 37, claim("exactly: {deviceClassName: gpu.example.com}", "deviceClassName: gpu.example.com"), "DL-LINT-SHAPE", (8, 7), &["v1 and v1beta2 want requests under `exactly:`", "- exactly:", "deviceClassName: gpu.example.com"]),
        ("A14", 37, claim("resource.k8s.io/v1", "resource.k8s.io/v1beta1"), "DL-LINT-SHAPE", (8, 7), &["v1alpha3 and v1beta1 the reverse"]),
        ("A14", 37, slice("    attributes: {", "    basic: {attributes: {").replace("pcieRoot: {string: a}}", "pcieRoot: {string: a}}}"), "DL-LINT-SHAPE", (10, 5), &["`basic:`"]),
        ("A14", 37, claim("resource.k8s.io/v1", "resource.k8s.io/v1beta2"), "DL-LINT-OLD-VERSION", (1, 1), &["resource.k8s.io/v1beta2 is not served by default"]),
        ("A16", 34, claim("deviceClassName: gpu.example.com", "deviceClassName: gpu.example.com, capacity: {requests: {memory: 1Gi}}"), "DL-LINT-GATE", (8, 51), &["`capacity` needs DRAConsumableCapacity, off by default in 1.34"]),
        ("A16", 34, slice("    capacity", "    taints: [{key: k, effect: NoSchedule}]\n    capacity"), "DL-LINT-GATE", (11, 5), &["`taints` needs DRADeviceTaints, off by default in 1.34"]),
        ("A16", 35, slice("model: {string: M}", "numa: {ints: [0, 1]}"), "DL-LINT-VERSION", (10, 25), &["`ints` came with DRAListTypeAttributes, which Kubernetes 1.35 does not have yet."]),
        ("A17", 37, pod("resourceClaimName: gpu}", "source: {resourceClaimName: gpu}}"), "DL-LINT-SOURCE", (6, 17), &["`source:` was Kubernetes 1.30 and before", "Put it one level up."]),
        ("A17", 37, pod("resourceClaimName: gpu}", "resourceClaimName: gpu, resourceClaimTemplateName: t}"), "DL-LINT-INVALID", (6, 5), &["at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"]),
        ("A17", 37, pod(", resourceClaimName: gpu}", "}"), "DL-LINT-INVALID", (6, 5), &["must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"]),
        ("A19", 37, deployment.to_owned(), "DL-LINT-NAMED-CLAIM", (11, 21), &["All pods of this Deployment (replicas: 2) share the one claim one-gpu", "use resourceClaimTemplateName"]),
        ("A22", 37, with(POD.replace("namespace: ns", "namespace: other").as_str(), CLAIM), "DL-LINT-NAMESPACE", (6, 17), &["ResourceClaim gpu is in namespace ns, and a pod finds claims and templates only in its own (other)."]),
        ("A26", 37, pod("resourceClaimName: gpu}", "resourceClaimTemplateName: gpu}").replace("  containers:", "  nodeName: n1\n  containers:"), "DL-LINT-NODE-NAME", (7, 3), &["only the scheduler allocates claims", "Use nodeSelector."]),
        ("A32", 37, slice("resourceSliceCount: 1", "resourceSliceCount: 2"), "DL-LINT-POOL", (7, 35), &["Pool gpu.example.com/n1 says it has 2 slices and 1 are here"]),
        ("A32", 37, format!("{SLICE}  - name: gpu-0\n"), "DL-LINT-SAME-DEVICE", (12, 5), &["the whole pool is invalid"]),
        ("A34", 37, with(&SLICE.replace("resourceSliceCount: 1", "resourceSliceCount: 2"), &SLICE.replace("resourceSliceCount: 1", "resourceSliceCount: 2").replace("n1-gpu", "n2-gpu").replace("nodeName: n1", "nodeName: n2").replace("gpu-0", "gpu-1")), "DL-LINT-SHARED-POOL", (7, 10), &["Pool gpu.example.com/n1 is on several nodes (n1, n2)"]),
        ("A38", 37, with(&format!("{CLAIM}    constraints: [{{matchAttribute: resource.kubernetes.io/numa}}]\n"), SLICE), "DL-LINT-CONSTRAINT", (9, 20), &["None of the 1 devices has the attribute resource.kubernetes.io/numa", "even for one device"]),
        ("A38", 37, format!("{CLAIM}    constraints: [{{matchAttribute: pcieRoot}}]\n"), "DL-LINT-INVALID", (9, 20), &["a fully qualified name must be a domain and a name separated by a slash"]),
        ("A43", 37, with(&claim("deviceClassName: gpu.example.com", "deviceClassName: gpu.example.com, adminAccess: true"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns, labels: {resource.k8s.io/admin-access: \"true\"}}\n"), "DL-LINT-ADMIN-ACCESS", (8, 51), &["it needs the label resource.kubernetes.io/admin-access: \"true\"", "seen: resource.k8s.io/admin-access: \"true\""]),
        ("A43", 37, with(&claim("deviceClassName: gpu.example.com", "deviceClassName: gpu.example.com, adminAccess: true"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns, labels: {resource.kubernetes.io/admin-access: \"True\"}}\n"), "DL-LINT-ADMIN-ACCESS", (8, 51), &["exactly so (seen: resource.kubernetes.io/admin-access: \"True\")"]),
        ("A44", 37, "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: r}\nspec:\n  deviceSelector: {}\n  taint: {key: k, effect: NoExecute}\n".to_owned(), "DL-LINT-TAINT-RULE", (5, 3), &["taints every device of every driver (effect: NoExecute)"]),
        ("A47", 37, claim("    requests:", "    tolerations: [{key: k, operator: Exists}]\n    requests:"), "DL-LINT-TOLERATION-PLACE", (6, 5), &["spec.devices.requests[].exactly.tolerations"]),
        ("A47", 37, with(&pod("  containers:", "  tolerations: [{key: example.com/broken, operator: Exists}]\n  containers:"), &slice("    capacity", "    taints: [{key: example.com/broken, effect: NoSchedule}]\n    capacity")), "DL-LINT-POD-TOLERATION", (7, 17), &["example.com/broken is a taint of devices"]),
        ("A56", 37, pod("claims: [{name: gpu}]", "claims: [{name: gpu, request: r/two}]"), "DL-LINT-SUBREQUEST", (10, 38), &["r instead of r/two"]),
        ("A58", 37, slice("name: gpu-0", "name: GPU-0"), "DL-LINT-DEVICE-NAME", (9, 5), &["gpu-0 instead of GPU-0"]),
        ("request", 37, with(&pod("claims: [{name: gpu}]", "claims: [{name: gpu, request: q}]"), CLAIM), "DL-LINT-REQUEST", (10, 38), &["ResourceClaim gpu has no request \"q\"", "its requests are: r."]),
        ("unused", 37, pod("    resources: {claims: [{name: gpu}]}\n", ""), "DL-LINT-UNUSED-CLAIM", (6, 5), &["No container uses claim gpu"]),
        ("unlisted", 37, pod("claims: [{name: gpu}]", "claims: [{name: gqu}]"), "DL-LINT-INVALID", (10, 26), &["Not found: \"gqu\""]),
        ("near", 37, with(&pod("resourceClaimName: gpu", "resourceClaimName: gqu"), CLAIM), "DL-LINT-CLAIM-NEAR", (6, 17), &["the nearest is gpu"]),
        ("field", 37, claim("deviceClassName: gpu", "deviceClasName: gpu"), "DL-LINT-UNKNOWN-FIELD-NEAR", (8, 17), &["unknown field \"spec.devices.requests[0].exactly.deviceClasName\"", "the nearest is `deviceClassName`"]),
        ("field", 37, deployment.replace("      containers:", "      gpus: 1\n      containers:"), "DL-LINT-UNKNOWN-FIELD", (12, 7), &["unknown field \"spec.template.spec.gpus\""]),
        ("type", 37, claim("deviceClassName: gpu.example.com", "deviceClassName: gpu.example.com, count: \"2\""), "DL-LINT-TYPE", (8, 51), &["cannot unmarshal string into Go struct field"]),
        ("count", 37, claim("deviceClassName: gpu.example.com", "deviceClassName: gpu.example.com, count: 33"), "DL-LINT-COUNT", (6, 5), &["asks for 33 devices, and a claim can have 32"]),
        ("cel", 37, selector("device.name == 'x'"), "DL-LINT-INVALID", (12, 13), &["Invalid value: \"device.name == 'x'\": compilation failed: ERROR: <input>:1:7: undefined field 'name'"]),
        ("cel", 37, with(&selector("device.driver == 'a' || device.driver == 'b'"), SLICE), "DL-CEL-VALUE", (12, 13), &["No device has 'a' as `device.driver`"]),
        ("name", 37, claim("name: gpu,", "name: Gpu_1,"), "DL-LINT-INVALID", (3, 12), &["metadata.name: Invalid value: \"Gpu_1\""]),
        ("yaml", 37, "a: [1\nb: }".to_owned(), "DL-LINT-YAML", (2, 2), &["This is no YAML"]),
        ("kind", 37, "metadata: {name: x}\nkind: Pod\n".to_owned(), "DL-LINT-OBJECT", (1, 1), &["has no apiVersion"]),
    ]
}

#[test]
fn every_trap_is_found_at_its_place_and_said() {
    let mut faults = Vec::new();
    for (point, minor, text, wanted, place, said) in rows() {
        let judgement = judged(&text, minor);
        let english = written(&judgement, Language::English);
        let finding = judgement.findings.iter().find(|finding| id(finding) == wanted && finding.place == Some(place));
        if finding.is_none() {
            faults.push(format!("{point}: no {wanted} at {place:?} in\n{text}\n{english}"));
        }
        for part in said {
            if !english.contains(part) {
                faults.push(format!("{point}: {wanted} does not say {part:?}\n{english}"));
            }
        }
        let chinese = written(&judgement, Language::Chinese);
        if chinese.contains("lint.rule.") || chinese.contains("cel.trap.") {
            faults.push(format!("{point}: a text is missing\n{chinese}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn what_is_right_has_no_findings() {
    let class = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu.example.com}\nspec: {selectors: [{cel: {expression: 'device.driver == \"gpu.example.com\"'}}]}\n";
    for minor in 34..=37 {
        let judgement = judged(&[CLAIM, SLICE, POD, class].join("---\n"), minor);
        assert_eq!((judgement.objects, written(&judgement, Language::English)), (4, String::new()), "1.{minor}");
    }
    // The lesson's own manifests.
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("lessons");
    let mut seen = 0;
    for lesson in std::fs::read_dir(folder).expect("lessons").filter_map(Result::ok) {
        let Ok(files) = std::fs::read_dir(lesson.path().join("solution")) else { continue };
        let sources: Vec<Source> = files
            .filter_map(Result::ok)
            .filter(|file| file.path().extension().is_some_and(|e| e == "yaml"))
            .map(|file| Source {
                name: file.path().display().to_string(),
                text: std::fs::read_to_string(file.path()).expect("reads").replace("{{", "").replace("}}", ""),
            })
            .collect();
        let judgement = lint(&sources, target(37), None);
        seen += judgement.objects;
        assert_eq!(judgement.count(Severity::Error), 0, "{}", written(&judgement, Language::English));
    }
    assert!(seen > 3, "the lessons were found");
}

#[test]
fn every_rule_has_a_sentence_in_both_languages_and_an_id_of_its_own() {
    let mut ids = std::collections::BTreeSet::new();
    for rule in Rule::ALL {
        assert!(ids.insert(rule.id()), "{} is there twice", rule.id());
        for language in Language::ALL {
            assert!(Texts::new(language).has(rule.text()), "{} has no sentence", rule.id());
        }
    }
}

#[test]
fn a_cluster_gives_devices_classes_and_namespaces() {
    let namespace: Value = serde_saphyr::from_str("{apiVersion: v1, kind: Namespace, metadata: {name: ns}}").expect("an object");
    let cluster = Cluster { namespaces: vec![namespace], ..Cluster::default() };
    let text = CLAIM.replace("deviceClassName: gpu.example.com", "deviceClassName: gpu.example.com, adminAccess: true");
    let judgement = lint(&[Source { name: "x".to_owned(), text }], target(37), Some(&cluster));
    assert!(judgement.findings.iter().any(|finding| finding.rule == Rule::AdminAccess), "{judgement:?}");
}

#[test]
fn the_command_ends_with_three_on_errors_only() {
    let home = Home::new();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("writes");
        path.display().to_string()
    };
    let good = file("good/a.yaml", CLAIM);
    file("good/deep/b.yaml", &SLICE.replace("resourceSliceCount: 1", "resourceSliceCount: 2"));
    let bad = file("bad.yaml", &CLAIM.replace("exactly", "exactyl"));
    let folder = home.path().join("good").display().to_string();
    for (args, code, said) in [
        (vec!["lint", "-f", &good], 0, "1 objects for Kubernetes 1.37: 0 errors, 0 warnings"),
        (vec!["lint", "-f", &folder], 0, "2 objects for Kubernetes 1.37: 0 errors, 1 warnings"),
        (vec!["lint", "-f", &bad], 3, "bad.yaml:8:7: error: unknown field"),
        (vec!["lint", "-f", "/nowhere"], 2, ""),
        (vec!["lint"], 2, ""),
    ] {
        let ran = home.dralab(&args);
        assert!(ran.code == code && ran.stdout.contains(said), "{args:?}: {ran:?}");
    }
    let ran = home.dralab(&["lint", "-f", &bad, "-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).expect("one JSON document");
    assert_eq!((&answer["kind"], ran.code), (&json!("LintReport"), 3));
    let finding = answer["findings"].as_array().and_then(|all| all.iter().find(|one| one["id"] == "DL-LINT-UNKNOWN-FIELD-NEAR"));
    let finding = finding.expect("the unknown field");
    assert_eq!(
        (&finding["line"], &finding["column"], &finding["path"]),
        (&json!(8), &json!(7), &json!("spec.devices.requests[0].exactyl"))
    );
}

const WORDS: &[&str] = &[
    "apiVersion: resource.k8s.io/v1\n",
    "apiVersion: v1\n",
    "kind: ResourceClaim\n",
    "kind: Pod\n",
    "kind: ResourceSlice\n",
    "kind: List\n",
    "items:\n",
    "metadata: {name: x}\n",
    "spec:\n",
    "  devices:\n",
    "    requests:\n",
    "    - name: r\n",
    "      exactly: {",
    "}",
    "{",
    "[",
    "]",
    ": ",
    "---\n",
    "- ",
    "&a ",
    "*a",
    "<<: ",
    "capacity",
    "\"\\u0000\"",
    "!!binary x",
    "? ",
    "| \n",
    "é",
    "\t",
    "9999999999999999999999",
    "1e999",
    ".nan",
];

/// As many as `PROPTEST_CASES` says, for long runs.
#[expect(clippy::disallowed_methods, reason = "how many cases there are is told to the tests by the environment")]
fn cases() -> u32 {
    if std::env::var_os("PROPTEST_CASES").is_some() { proptest::prelude::ProptestConfig::default().cases } else { 200 }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: cases(), ..proptest::prelude::ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_judged(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = written(&judged(&String::from_utf8_lossy(&bytes), 37), Language::English);
    }

    #[test]
    fn any_words_are_judged(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..30)) {
        let _ = written(&judged(&words.concat(), 34), Language::Chinese);
    }

    /// A byte of a good manifest in another place or with another value.
    #[test]
    fn any_change_of_a_manifest_is_judged(at in 0_usize..600, with in proptest::num::u8::ANY) {
        let mut bytes = [CLAIM, SLICE, POD].join("---\n").into_bytes();
        let place = at % bytes.len();
        bytes[place] = with;
        let _ = written(&judged(&String::from_utf8_lossy(&bytes), 35), Language::English);
    }
}

#[test]
fn deep_and_wide_texts_are_judged() {
    for text in [
        "[".repeat(10_000),
        "{a: ".repeat(10_000),
        "- ".repeat(10_000),
        format!("a: {}", "x".repeat(1 << 16)),
        "a: &a [1]\n".to_owned() + &"b: [*a, *a]\n".repeat(200),
    ] {
        let _ = judged(&text, 37);
    }
}
