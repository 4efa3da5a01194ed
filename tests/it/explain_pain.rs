//! What people really run into (public reports, by the id under which this project keeps them): input, reason, and the
//! sentence that a user reads.

use dralab::explain::{Explanation, Objects, Target, explain};
use dralab::model::features::Features;
use dralab::scheduling::view::Key;
use dralab::ui;
use dralab::ui::text::{Language, Texts};
use serde_json::{Value, json};

fn yaml(text: &str) -> Vec<Value> {
    dralab::client::manifests::read("objects.yaml", text).expect("manifests")
}

fn ask(features: Features, text: &str, target: &str) -> Explanation {
    let objects = Objects::read(yaml(text), features).expect("readable objects");
    let (kind, name) = target.split_once('/').expect("kind and name");
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let key = Key::new(namespace, name);
    let mut explanation = explain(&objects, &if kind == "claim" { Target::Claim(key) } else { Target::Pod(key) });
    ui::explain::tell(&mut explanation, &Texts::new(Language::English));
    explanation
}

/// Everything that is said, in one text.
fn said(explanation: &Explanation) -> String {
    fn collect(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                into.extend(fields.get("message").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| collect(value, into));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, into)),
            _ => {}
        }
    }
    let mut lines = Vec::new();
    collect(&serde_json::to_value(explanation).expect("JSON"), &mut lines);
    lines.join("\n")
}

#[track_caller]
fn expect(what: &str, explanation: &Explanation, reason: &str, satisfied: bool, sentences: &[&str]) {
    let said = said(explanation);
    assert_eq!(explanation.verdict.reason.slug(), reason, "{what}: {said}");
    assert_eq!(explanation.satisfied, satisfied, "{what}: {said}");
    for sentence in sentences {
        assert!(said.contains(sentence), "{what}: {sentence:?} is not in:\n{said}");
    }
    assert!(!said.contains("explain.") && !said.contains("{node}"), "{what}: a sentence is missing in:\n{said}");
}

const CLASS: &str = r#"
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]}
---
"#;

/// A slice on node n1 with these devices.
fn slice(devices: &str) -> String {
    format!(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {{name: s1, ownerReferences: [{{apiVersion: v1, kind: Node, name: n1, uid: u}}]}}\nspec: {{driver: gpu.example.com, nodeName: n1, pool: {{name: n1, generation: 1, resourceSliceCount: 1}}, devices: {devices}}}\n---\n"
    )
}

/// A claim with these request fields.
fn claim(name: &str, exactly: &str) -> String {
    format!(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: {name}, namespace: default, uid: c-{name}}}\nspec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu.example.com{exactly}}}}}]}}}}\n---\n"
    )
}

fn allocated(name: &str, device: &str, pod: &str) -> String {
    let mut claim = yaml(&claim(name, ""))[0].clone();
    claim["status"] = json!({
        "allocation": {"devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": device}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": format!("p-{pod}")}]});
    format!("{claim}\n---\n")
}

fn pod(name: &str, entry: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default, uid: p-{name}, creationTimestamp: \"2026-12-01T10:00:00Z\"}}\nspec: {{resourceClaims: [{entry}], containers: [{{name: c, image: i, resources: {{claims: [{{name: gpu}}]}}}}]{more}}}\nstatus: {{phase: Pending}}\n---\n"
    )
}

fn named(claim: &str) -> String {
    format!("{{name: gpu, resourceClaimName: {claim}}}")
}

fn selector(expression: &str) -> String {
    format!(", selectors: [{{cel: {{expression: {}}}}}]", json!(expression))
}

const TWO: &str = "[{name: gpu-0, attributes: {model: {string: L}, index: {int: 0}}, capacity: {memory: {value: 80Gi}}}, {name: gpu-1, attributes: {model: {string: L}, index: {int: 1}}, capacity: {memory: {value: 80Gi}}}]";

fn with(exactly: &str, devices: &str) -> String {
    format!("{CLASS}{}{}{}", slice(devices), claim("c", exactly), pod("p", &named("c"), ""))
}

#[test]
fn a1_wrong_domain_wrong_name_and_wrong_case_are_told_apart() {
    let table = [
        (r#"device.attributes["gpu.nvidia.com"].model == "L""#, "the domains are gpu.example.com"),
        (r#"device.attributes["gpu.exmaple.com"].model == "L""#, "did you mean gpu.example.com?"),
        (r#"device.attributes["gpu.example.com"].modle == "L""#, "did you mean `model`? There are: index, model."),
        (r#"device.attributes["gpu.example.com"].Model == "L""#, "names are case-sensitive, it is `model`"),
        (r#"device.attributes["gpu.example.com"].memory == "L""#, "it is in device.capacity"),
    ];
    for (expression, sentence) in table {
        let answer = ask(Features::latest(), &with(&selector(expression), TWO), "claim/c");
        expect(
            expression,
            &answer,
            "selector-error",
            false,
            &["CEL runtime error: no such key".trim_start_matches("CEL runtime error: "), sentence],
        );
        if sentence.contains("did you mean") || sentence.contains("case-sensitive") {
            let cure = answer.cures.first().unwrap_or_else(|| panic!("{expression}: a cure"));
            assert!(cure.change == "select" && cure.devices == ["gpu=gpu.example.com/n1/gpu-0"], "{cure:?}");
        }
    }
}

#[test]
fn a2_one_device_without_the_attribute() {
    let expression = r#"device.attributes["gpu.example.com"].nvlink"#;
    let without = "{name: gpu-0, attributes: {model: {string: L}}}";
    let has = "{name: gpu-1, attributes: {nvlink: {bool: true}}}";
    let first = ask(Features::latest(), &with(&selector(expression), &format!("[{without}, {has}]")), "claim/c");
    expect(
        "first",
        &first,
        "selector-error",
        false,
        &[
            "`nvlink` (gpu.example.com) is on 1 of 2 devices",
            "device gpu.example.com/n1/gpu-0",
            "has(device.attributes[\"gpu.example.com\"].nvlink) &&",
        ],
    );
    let last = ask(Features::latest(), &with(&selector(expression), &format!("[{has}, {without}]")), "claim/c");
    expect("last", &last, "would-fit", true, &["It works only by the order of the devices in pool gpu.example.com/n1"]);
    let busy = format!(
        "{}{}{}",
        with(&selector(expression), &format!("[{without}, {has}]")),
        allocated("other", "gpu-0", "q"),
        pod("q", &named("other"), ", nodeName: n1")
    );
    let busy = ask(Features::latest(), &busy, "claim/c");
    expect("busy", &busy, "would-fit", true, &["It works only because gpu.example.com/n1/gpu-0 is in use"]);
    let guarded = r#"device.attributes["gpu.example.com"].?nvlink.orValue(false)"#;
    let guarded = ask(Features::latest(), &with(&selector(guarded), &format!("[{without}, {has}]")), "claim/c");
    expect("guarded", &guarded, "would-fit", true, &["gpu=gpu.example.com/n1/gpu-1"]);
    assert!(!said(&guarded).contains("works only"));
}

#[test]
fn a4_one_sentence_of_kubernetes_has_many_causes() {
    let three = ask(Features::latest(), &with(", count: 3", TWO), "pod/p");
    expect("count 3 of 2", &three, "too-few-devices", false, &["asks for 3 devices; of 2 on node n1 only 2 would do", "Ask for 2"]);
    let busy = format!(
        "{}{}{}{}{}",
        with("", TWO),
        allocated("a", "gpu-0", "pa"),
        pod("pa", &named("a"), ", nodeName: n1"),
        allocated("b", "gpu-1", "pb"),
        pod("pb", &named("b"), ", nodeName: n1")
    );
    let busy = ask(Features::latest(), &busy, "claim/c");
    expect(
        "all busy",
        &busy,
        "devices-in-use",
        false,
        &["are in use by default/a (pod pa), default/b (pod pb)", "End what uses the claim default/a: default/pa"],
    );
    assert_eq!(busy.cures[0].command.as_deref(), Some("kubectl delete pod -n default pa"));
    let memory = r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("100Gi")) >= 0"#;
    let none = ask(Features::latest(), &with(&selector(memory), TWO), "claim/c");
    expect(
        "selector",
        &none,
        "request-selector",
        false,
        &["Selector #0 of request gpu is false on 2 of the 2 devices", "memory = quantity(\"80Gi\") (2)", "quantity(\"80Gi\")) >= 0`"],
    );
    let funnel = &none.nodes[0].funnels[0];
    assert_eq!((funnel.seen, funnel.left, funnel.stages[0].stage, funnel.stages[0].stopped), (2, 0, "request-selector", 2));
    let tainted = TWO.replace("{name: gpu-", "{taints: [{key: broken, value: \"Yes\", effect: NoSchedule}], name: gpu-");
    let tainted = ask(Features::latest(), &with("", &tainted), "claim/c");
    expect(
        "taint",
        &tainted,
        "device-taint",
        false,
        &[
            "2 devices of node n1 (gpu-0, gpu-1) have the taint broken=Yes:NoSchedule",
            "exactly.tolerations: [{key: broken, operator: Exists}]",
        ],
    );
    let missing =
        ask(Features::latest(), &with("", TWO).replace("deviceClassName: gpu.example.com", "deviceClassName: gpu.exmaple.com"), "claim/c");
    expect(
        "class",
        &missing,
        "class-missing",
        false,
        &["There is no DeviceClass gpu.exmaple.com; did you mean gpu.example.com?", "Ask for the DeviceClass gpu.example.com"],
    );
    let empty = format!("{CLASS}{}{}apiVersion: v1\nkind: Node\nmetadata: {{name: n9}}\n", claim("c", ""), pod("p", &named("c"), ""));
    expect("no devices", &ask(Features::latest(), &empty, "claim/c"), "no-devices", false, &["Node n9 has no devices at all"]);
}

#[test]
fn a4_the_words_of_kubernetes_come_unchanged() {
    let sentence = "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable";
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}, "type": "Warning",
        "reason": "FailedScheduling", "message": sentence, "source": {"component": "default-scheduler"}, "lastTimestamp": "2026-12-01T10:00:05Z",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "p-p"}});
    let answer = ask(Features::latest(), &format!("{}{event}", with(", count: 3", TWO)), "claim/c");
    let quote = answer.quotes.first().expect("a quote");
    assert_eq!((quote.message.as_str(), quote.from.as_str(), quote.object.as_str()), (sentence, "default-scheduler", "pod/p"));
}

#[test]
fn a13_the_name_of_a_driver_is_no_class() {
    let text = with("", TWO).replace("metadata: {name: gpu.example.com}", "metadata: {name: my-gpus}");
    expect(
        "driver as class",
        &ask(Features::latest(), &text, "claim/c"),
        "class-missing",
        false,
        &["gpu.example.com is the name of a driver, not of a class", "Ask for the DeviceClass my-gpus"],
    );
}

#[test]
fn a14_the_shape_of_another_version() {
    let flat = with("", TWO).replace("exactly: {deviceClassName: gpu.example.com}", "deviceClassName: gpu.example.com");
    expect(
        "flat in v1",
        &ask(Features::latest(), &flat, "claim/c"),
        "request-malformed",
        false,
        &["has deviceClassName at its top, as v1beta1 had it; resource.k8s.io/v1 wants it under `exactly:`"],
    );
    let old =
        flat.replace("apiVersion: resource.k8s.io/v1\nkind: ResourceClaim", "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim");
    expect("flat in v1beta1", &ask(Features::latest(), &old, "claim/c"), "would-fit", true, &["gpu=gpu.example.com/n1/gpu-0"]);
}

#[test]
fn a16_a_dropped_field() {
    let text = with("", TWO).replace("resourceClaims: [{name: gpu, resourceClaimName: c}], ", "");
    expect("dropped", &ask(Features::latest(), &text, "pod/p"), "field-dropped", false, &["the field was dropped on its way"]);
    let gate = ask(
        Features::none(),
        &with(", count: 1", TWO).replace(
            "exactly: {deviceClassName: gpu.example.com, count: 1}",
            "firstAvailable: [{name: one, deviceClassName: gpu.example.com}]",
        ),
        "claim/c",
    );
    expect("gate", &gate, "gate-off", false, &["The feature gate DRAPrioritizedList is off"]);
}

#[test]
fn a17_three_ways_to_name_no_claim() {
    for (entry, sentence) in [
        ("{name: gpu, source: {resourceClaimName: c}}", "as Kubernetes 1.30 had it"),
        ("{name: gpu, resourceClaimName: c, resourceClaimTemplateName: t}", "exactly one is allowed"),
        ("{name: gpu}", "an old client or webhook may have dropped it"),
    ] {
        let text = format!("{CLASS}{}{}{}", slice(TWO), claim("c", ""), pod("p", entry, ""));
        expect(entry, &ask(Features::latest(), &text, "pod/p"), "source-invalid", false, &[sentence]);
    }
}

#[test]
fn a19_a_named_claim_is_shared() {
    let text = format!("{}{}", with("", TWO), pod("second", &named("c"), ""));
    expect(
        "shared",
        &ask(Features::latest(), &text, "claim/c"),
        "would-fit",
        true,
        &["2 pods name the claim default/c (p, second)", "use a ResourceClaimTemplate"],
    );
}

#[test]
fn a20_a_template_that_is_missing_or_late() {
    let pods = pod("p", "{name: gpu, resourceClaimTemplateName: gpus}", "");
    let template = |name: &str, made: &str| {
        format!(
            "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {{name: {name}, namespace: default, creationTimestamp: \"{made}\"}}\nspec: {{spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu.example.com}}}}]}}}}}}\n---\n"
        )
    };
    let base = format!("{CLASS}{}{pods}", slice(TWO));
    expect(
        "missing",
        &ask(Features::latest(), &base, "pod/p"),
        "template-missing",
        false,
        &["There is no ResourceClaimTemplate gpus in namespace default, which entry gpu of the pod names."],
    );
    let near = format!("{base}{}", template("gpu", "2026-12-01T09:00:00Z"));
    expect("near", &ask(Features::latest(), &near, "pod/p"), "template-missing", false, &["did you mean gpu?"]);
    let late = format!("{base}{}", template("gpus", "2026-12-01T10:00:05Z"));
    expect(
        "late",
        &ask(Features::latest(), &late, "pod/p"),
        "template-later",
        false,
        &["was made (2026-12-01T10:00:05Z) after the pod (2026-12-01T10:00:00Z)"],
    );
    let early = format!("{base}{}", template("gpus", "2026-12-01T09:00:00Z"));
    expect("early", &ask(Features::latest(), &early, "pod/p"), "claim-not-created", false, &["has not been made from template gpus yet"]);
}

#[test]
fn a22_a_claim_in_another_namespace() {
    let text = with("", TWO).replace("metadata: {name: c, namespace: default", "metadata: {name: c, namespace: other");
    expect(
        "pod",
        &ask(Features::latest(), &text, "pod/p"),
        "claim-other-namespace",
        false,
        &["other has one of that name, but a pod reads only its own namespace"],
    );
    expect(
        "claim",
        &ask(Features::latest(), &text, "claim/other/c"),
        "claim-other-namespace",
        true,
        &["No pod of namespace other asks for the claim c; pods elsewhere name it (default/p)"],
    );
    let missing = text.replace("name: c, namespace: other", "name: cc, namespace: default");
    expect("missing", &ask(Features::latest(), &missing, "pod/p"), "claim-missing", false, &["did you mean cc?", "no event, no condition"]);
}

#[test]
fn a23_reservations_that_are_left_over_and_too_many() {
    let text = format!("{CLASS}{}{}{}", slice(TWO), allocated("c", "gpu-0", "gone"), pod("p", &named("c"), ""));
    expect("left over", &ask(Features::latest(), &text, "claim/c"), "allocated", true, &["names pods that are gone: gone"]);
    let mut full = yaml(&allocated("c", "gpu-0", "x"))[0].clone();
    full["status"]["reservedFor"] =
        (0..256).map(|n| json!({"resource": "pods", "name": format!("x{n}"), "uid": format!("u{n}")})).collect();
    let text = format!("{CLASS}{}{full}\n---\n{}", slice(TWO), pod("p", &named("c"), ""));
    expect("full", &ask(Features::latest(), &text, "pod/p"), "reserved-full", false, &["is in use by 256 pods, which is the limit"]);
}

#[test]
fn a25_a_claim_of_an_earlier_pod() {
    let mut old = yaml(&claim("p-gpu-x", ""))[0].clone();
    old["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "old", "controller": true}]);
    let mut young = yaml(&pod("p", "{name: gpu, resourceClaimTemplateName: t}", ""))[0].clone();
    young["status"]["resourceClaimStatuses"] = json!([{"name": "gpu", "resourceClaimName": "p-gpu-x"}]);
    let text = format!("{CLASS}{}{old}\n---\n{young}", slice(TWO));
    expect(
        "earlier",
        &ask(Features::latest(), &text, "pod/p"),
        "claim-earlier-pod",
        false,
        &["belongs to an earlier pod of this name (uid old); this pod is another (uid p-p)"],
    );
}

fn event(reason: &str, message: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}, "type": "Warning", "reason": reason,
        "message": message, "source": {"component": "kubelet"}, "lastTimestamp": "2026-12-01T10:00:05Z",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "p-p"}})
}

#[test]
fn a26_a_node_name_by_hand() {
    let text = format!("{CLASS}{}{}{}", slice(TWO), claim("c", ""), pod("p", &named("c"), ", nodeName: n1"));
    expect(
        "by hand",
        &ask(Features::latest(), &text, "claim/c"),
        "node-name-by-hand",
        false,
        &["was put on a node by spec.nodeName (node n1), past the scheduler", "Use a nodeSelector"],
    );
}

#[test]
fn a28_a_pod_that_does_not_go() {
    let mut leaving = yaml(&pod("p", &named("c"), ", nodeName: n1"))[0].clone();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-12-01T10:00:09Z");
    let gone = slice(TWO).replace("driver: gpu.example.com", "driver: other.example.com");
    let text = format!("{CLASS}{gone}{}{leaving}", allocated("c", "gpu-0", "p"));
    expect(
        "driver gone",
        &ask(Features::latest(), &text, "pod/p"),
        "pod-deleting",
        false,
        &["gpu.example.com does not publish for node n1 any more. Start the driver again."],
    );
}

#[test]
fn a29_and_a35_a_driver_that_is_not_registered() {
    let text = "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.example.com is not registered";
    let base = format!("{CLASS}{}{}{}", slice(TWO), allocated("c", "gpu-0", "p"), pod("p", &named("c"), ", nodeName: n1"));
    let answer = ask(Features::latest(), &format!("{base}{}", event("FailedPrepareDynamicResources", text)), "claim/c");
    expect("not registered", &answer, "driver-not-registered", false, &["The kubelet of node n1 knows no driver gpu.example.com", text]);
    assert!(!said(&answer).contains("made by hand"));
    let by_hand = base.replace(", ownerReferences: [{apiVersion: v1, kind: Node, name: n1, uid: u}]", "");
    let answer = ask(Features::latest(), &format!("{by_hand}{}", event("FailedPrepareDynamicResources", text)), "pod/p");
    expect(
        "by hand",
        &answer,
        "driver-not-registered",
        false,
        &["ResourceSlice s1 has no owner: it was made by hand, and no driver gpu.example.com stands behind it"],
    );
    let own = "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim c: no room";
    let answer = ask(Features::latest(), &format!("{base}{}", event("FailedPrepareDynamicResources", own)), "pod/p");
    expect("prepare", &answer, "prepare-failed", false, &["The driver cannot prepare the claim on node n1", "no room"]);
}

#[test]
fn a31_kubelets_with_a_known_fault() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {nodeInfo: {kubeletVersion: v1.34.1}}\n---\n";
    let text = format!("{CLASS}{node}{}{}{}", slice(TWO), allocated("c", "gpu-0", "p"), pod("p", &named("c"), ", nodeName: n1"));
    expect(
        "1.34.1",
        &ask(Features::latest(), &text, "pod/p"),
        "kubelet-fault",
        false,
        &["Node n1 runs kubelet v1.34.1", "kubernetes#133920"],
    );
    let fine = text.replace("v1.34.1", "v1.34.2");
    expect("1.34.2", &ask(Features::latest(), &fine, "pod/p"), "starting", true, &[]);
}

#[test]
fn a32_incomplete_and_invalid_pools() {
    let half = with("", TWO).replace("resourceSliceCount: 1", "resourceSliceCount: 2");
    expect(
        "incomplete",
        &ask(Features::latest(), &half, "claim/c"),
        "pool-incomplete",
        false,
        &["Pool gpu.example.com/n1 is incomplete: 1 of 2 slices are there", "Wait until the pool gpu.example.com/n1 is complete"],
    );
    let all = with(", allocationMode: All", TWO).replace("resourceSliceCount: 1", "resourceSliceCount: 2");
    expect(
        "incomplete, all",
        &ask(Features::latest(), &all, "claim/c"),
        "pool-incomplete",
        false,
        &["A request for all devices fails as long as any pool of node n1 is"],
    );
    let twice = with("", &TWO.replace("gpu-1", "gpu-0"));
    expect(
        "invalid",
        &ask(Features::latest(), &twice, "claim/c"),
        "pool-invalid",
        false,
        &["contradicts itself: duplicate device name gpu-0"],
    );
}

#[test]
fn a37_all_devices() {
    let busy = format!(
        "{}{}{}",
        with(", allocationMode: All", TWO),
        allocated("other", "gpu-0", "q"),
        pod("q", &named("other"), ", nodeName: n1")
    );
    expect(
        "one busy",
        &ask(Features::latest(), &busy, "claim/c"),
        "devices-in-use",
        false,
        &["1 of the 2 devices of node n1 that would do (gpu-0) are in use by default/other (pod q)"],
    );
}

#[test]
fn a38_constraints_that_nothing_can_meet() {
    let constrained = |attribute: &str, count: u8, devices: &str| {
        with(&format!(", count: {count}"), devices)
            .replace("}}]}}\n---", &format!("}}}}], constraints: [{{matchAttribute: {attribute}}}]}}}}\n---"))
    };
    let numa = TWO.replace("index: {int: 0}", "numa: {int: 0}").replace("index: {int: 1}", "numa: {int: 1}");
    for (attribute, sentence) in [
        ("gpu.example.com/nosuch", "which none of the 2 devices of node n1 has"),
        ("resource.kubernetes.io/numa", "they have gpu.example.com/numa"),
        ("gpu.example.com/nume", "they have gpu.example.com/numa"),
    ] {
        expect(attribute, &ask(Features::latest(), &constrained(attribute, 1, &numa), "claim/c"), "constraint-unknown", false, &[sentence]);
    }
    let unmet = ask(Features::latest(), &constrained("gpu.example.com/numa", 2, &numa), "claim/c");
    expect(
        "differs",
        &unmet,
        "constraint-unmet",
        false,
        &["wants one value of gpu.example.com/numa on all devices; on node n1 they have 0 (1), 1 (1)"],
    );
    let types = numa.replace("numa: {int: 1}", "numa: {string: \"0\"}");
    let types = ask(Features::latest(), &constrained("gpu.example.com/numa", 2, &types), "claim/c");
    expect("types", &types, "constraint-unmet", false, &["across types (int, string), which are never equal", "\"0\" (1), 0 (1)"]);
}

#[test]
fn a40_and_a41_counters_and_the_order_of_devices() {
    let partitions = r#"[{name: full, consumesCounters: [{counterSet: gpu, counters: {memory: {value: 80Gi}}}]}, {name: half-0, consumesCounters: [{counterSet: gpu, counters: {memory: {value: 40Gi}}}]}, {name: half-1, consumesCounters: [{counterSet: gpu, counters: {memory: {value: 40Gi}}}]}]"#;
    let counters = "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s0}\nspec: {driver: gpu.example.com, nodeName: n1, pool: {name: n1, generation: 1, resourceSliceCount: 2}, sharedCounters: [{name: gpu, counters: {memory: {value: 80Gi}}}]}\n---\n";
    let base = format!("{}{counters}", with("", partitions).replace("resourceSliceCount: 1", "resourceSliceCount: 2"));
    expect("free", &ask(Features::latest(), &base, "claim/c"), "would-fit", true, &["gpu=gpu.example.com/n1/full"]);
    let taken = format!("{base}{}{}", allocated("other", "full", "q"), pod("q", &named("other"), ", nodeName: n1"));
    let answer = ask(Features::latest(), &taken, "claim/c");
    expect("taken", &answer, "devices-in-use", false, &["default/other (pod q)", "End what uses the claim default/other: default/q"]);
    let half = format!("{base}{}{}", allocated("other", "half-0", "q"), pod("q", &named("other"), ", nodeName: n1"));
    let half = half.replace("deviceClassName: gpu.example.com}}]}}", "deviceClassName: gpu.example.com, count: 2}}]}}");
    let answer = ask(Features::latest(), &half, "claim/c");
    assert!(!answer.satisfied);
    assert!(answer.nodes[0].funnels[0].stages.iter().any(|stage| stage.stage == "counters"), "{:?}", answer.nodes[0].funnels);
}

#[test]
fn a43_the_label_for_admin_access() {
    let base = with(", adminAccess: true", TWO);
    for (labels, sentence) in [
        ("", "on namespace default; it has none"),
        ("resource.k8s.io/admin-access: \"true\"", "which is how early documents spelt it"),
        ("resource.kubernetes.io/admin-access: \"True\"", "to be exactly \"true\"; it is \"True\""),
    ] {
        let text = format!("{base}apiVersion: v1\nkind: Namespace\nmetadata: {{name: default, labels: {{{labels}}}}}\n");
        expect(labels, &ask(Features::latest(), &text, "claim/c"), "admin-label", false, &[sentence]);
    }
    let right = format!(
        "{base}apiVersion: v1\nkind: Namespace\nmetadata: {{name: default, labels: {{resource.kubernetes.io/admin-access: \"true\"}}}}\n"
    );
    expect("right", &ask(Features::latest(), &right, "claim/c"), "would-fit", true, &[]);
    let off = ask(Features::latest().without(dralab::model::features::Feature::AdminAccess), &base, "claim/c");
    expect("gate off", &off, "gate-off", false, &["DRAAdminAccess"]);
}

#[test]
fn a47_a_toleration_at_the_wrong_place() {
    let tainted = TWO.replace("{name: gpu-", "{taints: [{key: broken, value: \"Yes\", effect: NoSchedule}], name: gpu-");
    let on_pod = with("", &tainted).replace(
        "resources: {claims: [{name: gpu}]}}]}",
        "resources: {claims: [{name: gpu}]}}], tolerations: [{key: broken, operator: Exists}]}",
    );
    expect(
        "on the pod",
        &ask(Features::latest(), &on_pod, "claim/c"),
        "device-taint",
        false,
        &["The pod tolerates broken, but that is for nodes"],
    );
    let on_claim = with("", &tainted).replace("spec: {devices: {requests:", "spec: {devices: {tolerations: [{key: broken}], requests:");
    expect(
        "on the claim",
        &ask(Features::latest(), &on_claim, "claim/c"),
        "device-taint",
        false,
        &["has `spec.devices.tolerations`, which does nothing"],
    );
    let case = with(", tolerations: [{key: broken, value: \"yes\", operator: Equal}]", &tainted);
    expect(
        "case",
        &ask(Features::latest(), &case, "claim/c"),
        "device-taint",
        false,
        &["has the value \"yes\", the taint has \"Yes\" (values are case-sensitive)"],
    );
}

#[test]
fn a53_a_search_that_is_given_up() {
    let devices: Vec<String> = (0..64).map(|n| format!("{{name: g{n}, attributes: {{numa: {{int: {}}}}}}}", n % 16)).collect();
    let text = with(", count: 5", &format!("[{}]", devices.join(", ")));
    let text = text.replace("}}]}}\n---", "}}], constraints: [{matchAttribute: gpu.example.com/numa}]}}\n---");
    let answer = ask(Features::latest(), &text, "claim/c");
    assert!(!answer.satisfied);
    assert!(matches!(answer.verdict.reason.slug(), "gave-up" | "constraint-unmet"), "{}", said(&answer));
}

#[test]
fn a59_another_scheduler() {
    let text = with("", TWO).replace("spec: {resourceClaims:", "spec: {schedulerName: mine, resourceClaims:");
    expect(
        "mine",
        &ask(Features::latest(), &text, "pod/p"),
        "other-scheduler",
        false,
        &["waits for the scheduler mine", "may read resourceslices and deviceclasses"],
    );
}

#[test]
fn consumable_capacity_is_short_by_so_much() {
    let shared = "[{name: gpu-0, allowMultipleAllocations: true, capacity: {memory: {value: 80Gi}}}]";
    let mut other = yaml(&allocated("other", "gpu-0", "q"))[0].clone();
    let result = &mut other["status"]["allocation"]["devices"]["results"][0];
    (result["shareID"], result["consumedCapacity"]) = (json!("s"), json!({"memory": "50Gi"}));
    let text =
        format!("{}{other}\n---\n{}", with(", capacity: {requests: {memory: 40Gi}}", shared), pod("q", &named("other"), ", nodeName: n1"));
    let answer = ask(Features::latest(), &text, "claim/c");
    assert!(!answer.satisfied);
    let words = said(&answer);
    assert_eq!(answer.verdict.reason.slug(), "capacity-short", "{words}");
    assert!(words.contains("takes 40Gi of memory; on node n1 device gpu-0 has the most left, 30Gi: 10Gi short"), "{words}");
    assert!(answer.nodes[0].funnels[0].stages.iter().any(|stage| stage.stage == "capacity" && stage.which == "memory"), "{words}");
    assert!(answer.cures.iter().any(|cure| cure.change == "less-capacity" && cure.message.contains("30Gi")), "{words}");
}

#[test]
fn node_side_causes() {
    let nodes = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {zone: a}}\nspec: {taints: [{key: dedicated, effect: NoSchedule}]}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n2, labels: {zone: b}}\n---\n";
    let text = format!("{}{nodes}", with("", TWO));
    expect(
        "taint",
        &ask(Features::latest(), &text, "pod/p"),
        "node-taint",
        false,
        &["Node n1 has the taint dedicated:NoSchedule", "None of the 2 nodes can serve it"],
    );
    let tolerating =
        text.replace("spec: {resourceClaims:", "spec: {nodeSelector: {zone: b}, tolerations: [{operator: Exists}], resourceClaims:");
    expect(
        "selector",
        &ask(Features::latest(), &tolerating, "pod/p"),
        "node-affinity",
        false,
        &["Node n1 does not match the pod's node selection (zone=b)"],
    );
    let cordoned = text.replace("spec: {taints: [{key: dedicated, effect: NoSchedule}]}", "spec: {unschedulable: true}");
    expect("cordon", &ask(Features::latest(), &cordoned, "pod/p"), "node-unschedulable", false, &["Node n1 is cordoned"]);
}

#[test]
fn no_pod_yet_finished_gated_and_deleted() {
    let text = format!("{CLASS}{}{}", slice(TWO), claim("c", ""));
    expect(
        "nobody",
        &ask(Features::latest(), &text, "claim/c"),
        "no-pod-yet",
        true,
        &["No pod asks for the claim default/c", "Nothing stands in the way"],
    );
    let finished = with("", TWO).replace("phase: Pending", "phase: Succeeded");
    expect("finished", &ask(Features::latest(), &finished, "pod/p"), "pod-finished", true, &["has finished (Succeeded)"]);
    let gated = with("", TWO).replace("spec: {resourceClaims:", "spec: {schedulingGates: [{name: example.com/wait}], resourceClaims:");
    expect("gated", &ask(Features::latest(), &gated, "pod/p"), "scheduling-gated", false, &["example.com/wait"]);
    let deleted = with("", TWO).replace(
        "uid: c-c}",
        "uid: c-c, deletionTimestamp: \"2026-12-01T10:00:00Z\", finalizers: [resource.kubernetes.io/delete-protection]}",
    );
    expect(
        "deleted",
        &ask(Features::latest(), &deleted, "claim/c"),
        "claim-deleting",
        false,
        &["waits for its finalizers: resource.kubernetes.io/delete-protection"],
    );
    expect(
        "no claim",
        &ask(Features::latest(), &text, "claim/d"),
        "claim-missing",
        false,
        &["There is no ResourceClaim d in namespace default"],
    );
    expect(
        "no pod",
        &ask(Features::latest(), &with("", TWO), "pod/q"),
        "pod-missing",
        false,
        &["There is no pod q in namespace default; did you mean p?"],
    );
}

#[test]
fn binding_conditions_are_waited_for() {
    let mut waiting = yaml(&allocated("c", "gpu-0", "p"))[0].clone();
    waiting["status"]["allocation"]["devices"]["results"][0]["bindingConditions"] = json!(["example.com/Ready"]);
    waiting["status"]["allocation"]["devices"]["results"][0]["bindingFailureConditions"] = json!(["example.com/Failed"]);
    let text = |claim: &Value| format!("{CLASS}{}{claim}\n---\n{}", slice(TWO), pod("p", &named("c"), ""));
    expect(
        "waiting",
        &ask(Features::latest(), &text(&waiting), "pod/p"),
        "binding-waiting",
        false,
        &["waits for conditions of device gpu.example.com/n1/gpu-0: example.com/Ready"],
    );
    waiting["status"]["devices"] = json!([{"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0",
        "conditions": [{"type": "example.com/Failed", "status": "True", "message": "broken cable", "reason": "R", "lastTransitionTime": "2026-12-01T10:00:00Z"}]}]);
    let answer = ask(Features::latest(), &text(&waiting), "claim/c");
    expect("failed", &answer, "binding-failed", false, &["has the failure condition example.com/Failed", "broken cable"]);
}

#[test]
fn an_allocated_claim_says_which_device_and_why() {
    let text = format!(
        "{CLASS}{}{}{}{}{}",
        slice(TWO),
        allocated("first", "gpu-0", "q"),
        pod("q", &named("first"), ", nodeName: n1"),
        allocated("c", "gpu-1", "p"),
        pod("p", &named("c"), ", nodeName: n1").replace("phase: Pending", "phase: Running")
    );
    let answer = ask(Features::latest(), &text, "claim/c");
    expect("allocated", &answer, "allocated", true, &["reserved for pods/p"]);
    let held = &answer.devices[0];
    assert_eq!((held.device.as_str(), held.place), ("gpu.example.com/n1/gpu-1", Some(2)));
    assert_eq!((held.passed_over[0].stage, held.passed_over[0].which.as_str()), ("in-use", "gpu-0 (default/first)"));
}

#[test]
fn like_nodes_are_grouped() {
    let slices: String =
        (0..50).map(|n| slice(TWO).replace("n1", &format!("node-{n:02}")).replace("name: s1", &format!("name: s{n:02}"))).collect();
    let text = format!("{CLASS}{slices}{}{}", claim("c", ", count: 3"), pod("p", &named("c"), ""));
    let answer = ask(Features::latest(), &text, "claim/c");
    expect(
        "50 nodes",
        &answer,
        "too-few-devices",
        false,
        &["None of the 50 nodes can serve it. On the nearest one: Request gpu asks for 3 devices; of 2 on node node-00 only 2 would do."],
    );
    assert_eq!((answer.nodes.len(), answer.nodes[0].count, answer.nodes[0].nearest), (1, 50, true));
}

#[test]
fn objects_of_odd_shape_are_refused_or_passed_over_and_never_a_panic() {
    for text in [
        "apiVersion: v1\nkind: Pod\nmetadata: 5\n",
        "apiVersion: v1\nkind: Pod\nspec: x\n",
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: []\n",
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nspec: {pool: 5, devices: 7}\n",
        "apiVersion: v1\nkind: List\nitems: [5, x, {kind: Node, status: 5}]\n",
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {devices: {requests: [5, {name: x, exactly: 7}]}}\n",
    ] {
        if let Ok(objects) = Objects::read(yaml(text), Features::latest()) {
            let _ = explain(&objects, &Target::Claim(Key::new("default", "c")));
        }
    }
}

#[test]
fn a_template_of_a_file_is_explained_as_if_its_claim_were_made() {
    let text = format!(
        "{CLASS}{}apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {{name: t}}\nspec: {{spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu.example.com, count: 3}}}}]}}}}}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{resourceClaims: [{{name: gpu, resourceClaimTemplateName: t}}], containers: [{{name: c, image: i}}]}}\n",
        slice(TWO)
    );
    expect(
        "template",
        &ask(Features::latest(), &text, "pod/p"),
        "too-few-devices",
        false,
        &["asks for 3 devices; of 2 on node n1 only 2 would do"],
    );
}
