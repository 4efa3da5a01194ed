//! The verbs of kubectl, each with its output.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::outsiders::tool;
use crate::support::{Lab, Ran};

const CLAIM: &str = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata:\n  name: some-gpu\n  namespace: w\nspec:\n  devices:\n    requests:\n    - name: some-gpu\n      exactly:\n        deviceClassName: gpu.example.com\n        selectors:\n        - cel:\n            expression: device.capacity['gpu.example.com'].memory.compareTo(quantity('10Gi')) >= 0\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: pod0\n  namespace: w\n  labels:\n    app: pod\nspec:\n  containers:\n  - name: ctr0\n    image: ubuntu:24.04\n    command: [bash, -c]\n    args: [\"export; trap 'exit 0' TERM; sleep 9999 & wait\"]\n    resources:\n      claims:\n      - name: gpu\n  resourceClaims:\n  - name: gpu\n    resourceClaimName: some-gpu\n";

struct Wire {
    lab: Lab,
}

impl Wire {
    fn new() -> Self {
        let wire = Wire { lab: Lab::up(&[]) };
        wire.kubectl(&["create", "namespace", "w"]).ok();
        wire
    }

    fn kubectl(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).output().expect("kubectl starts"))
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.lab.home.command(&tool("kubectl"));
        command.env("KUBECONFIG", self.lab.kubeconfig()).args(args);
        command
    }

    #[track_caller]
    fn says(&self, args: &[&str], expected: &str) {
        let ran = self.kubectl(args);
        assert_eq!(ran.ok(), expected, "kubectl {}", args.join(" "));
    }
}

/// The cells of a table's line, so that widths and ages do not matter.
fn cells(text: &str, line: usize) -> Vec<&str> {
    text.lines().nth(line).unwrap_or_default().split_whitespace().collect()
}

#[test]
fn the_tutorial_with_kubectl() {
    let wire = Wire::new();
    let claim = wire.lab.file("claim.yaml", CLAIM);
    let pod = wire.lab.file("pod.yaml", POD);
    wire.says(&["apply", "-f", &claim], "resourceclaim.resource.k8s.io/some-gpu created\n");
    let got = wire.kubectl(&["get", "resourceclaim", "-n", "w"]);
    assert_eq!((cells(got.ok(), 0), &cells(got.ok(), 1)[..2]), (vec!["NAME", "STATE", "AGE"], &["some-gpu", "pending"][..]));
    // A watch sees the claim change.
    let mut watch = wire.command(&["get", "resourceclaim", "-n", "w", "-w"]).stdout(Stdio::piped()).spawn().expect("kubectl starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    assert!(lines.next().expect("a line").expect("text").starts_with("NAME"));
    assert!(lines.next().expect("a line").expect("text").contains("pending"));
    wire.says(&["apply", "-f", &pod], "pod/pod0 created\n");
    let seen = lines.map_while(Result::ok).find(|l| l.contains("allocated,reserved"));
    let _ = watch.kill();
    let _ = watch.wait();
    assert!(seen.is_some(), "the watch shows allocated,reserved");
    wire.says(&["wait", "-n", "w", "pod/pod0", "--for=condition=Ready", "--timeout=30s"], "pod/pod0 condition met\n");
    let wide = wire.kubectl(&["get", "pods", "-n", "w", "-o", "wide"]);
    assert_eq!(
        cells(wide.ok(), 0),
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"]
    );
    let row = cells(wide.ok(), 1);
    assert_eq!((&row[..4], row[6]), (&["pod0", "1/1", "Running", "0"][..], "dra-lab-worker"));
    wire.says(&["get", "pod,resourceclaim", "-n", "w", "-o", "name"], "pod/pod0\nresourceclaim.resource.k8s.io/some-gpu\n");
    wire.says(&["get", "resourceclaim", "some-gpu", "-n", "w", "-o", "jsonpath={.status.allocation.devices.results[0].device}"], "gpu-0");
    let yaml = wire.kubectl(&["get", "resourceclaim", "some-gpu", "-n", "w", "-o", "yaml"]);
    assert!(yaml.ok().contains("  reservedFor:\n  - name: pod0\n    resource: pods\n"), "{}", yaml.stdout);
    let json: serde_json::Value = serde_json::from_str(wire.kubectl(&["get", "pod", "pod0", "-n", "w", "-o", "json"]).ok()).expect("JSON");
    assert_eq!(json["spec"]["nodeName"], "dra-lab-worker");
    let described = wire.kubectl(&["describe", "resourceclaim", "some-gpu", "-n", "w"]);
    for part in ["Finalizers:\n    resource.kubernetes.io/delete-protection", "Device:   gpu-0", "Reserved For:\n    Name:      pod0"] {
        assert!(described.ok().contains(part), "{part}\n{}", described.stdout);
    }
    let described = wire.kubectl(&["describe", "pod", "pod0", "-n", "w"]);
    assert!(described.ok().contains("Successfully assigned w/pod0 to dra-lab-worker"), "{}", described.stdout);
    let logs = wire.kubectl(&["logs", "pod0", "-n", "w"]);
    assert!(logs.ok().contains("gpu-0"), "{}", logs.stdout);
    let exec = wire.kubectl(&["exec", "pod0", "-n", "w", "--", "env"]);
    assert!(exec.ok().contains("GPU_DEVICE_0=gpu-0"), "{}", exec.stdout);
    let exec = wire.kubectl(&["exec", "pod0", "-n", "w", "--", "sh", "-c", "echo $GPU_DEVICE_0; exit 3"]);
    assert_eq!((exec.code, exec.stdout.as_str()), (3, "gpu-0\n"), "{}", exec.stderr);
    let exec = wire.kubectl(&["exec", "pod0", "-n", "w", "--", "python3"]);
    assert!(exec.code != 0 && exec.stderr.contains("containers are simulated"), "{}", exec.stderr);
    let events = wire.kubectl(&["events", "-n", "w"]);
    for reason in ["Scheduled", "Pulled", "Created", "Started"] {
        assert!(events.ok().contains(reason), "{reason}\n{}", events.stdout);
    }
    wire.says(&["delete", "pod", "pod0", "-n", "w"], "pod \"pod0\" deleted from w namespace\n");
    wire.says(
        &["wait", "-n", "w", "resourceclaim/some-gpu", "--for=jsonpath={.spec.devices.requests[0].name}=some-gpu", "--timeout=10s"],
        "resourceclaim.resource.k8s.io/some-gpu condition met\n",
    );
    let got = wire.kubectl(&["get", "resourceclaim", "-n", "w"]);
    assert_eq!(&cells(got.ok(), 1)[..2], ["some-gpu", "pending"]);
    wire.says(&["delete", "-f", &claim], "resourceclaim.resource.k8s.io \"some-gpu\" deleted from w namespace\n");
}

#[test]
fn apply_patch_label_and_their_refusals() {
    let wire = Wire::new();
    let claim = wire.lab.file("claim.yaml", CLAIM);
    wire.says(&["apply", "--server-side", "-f", &claim], "resourceclaim.resource.k8s.io/some-gpu serverside-applied\n");
    wire.says(&["label", "resourceclaim", "some-gpu", "-n", "w", "team=a"], "resourceclaim.resource.k8s.io/some-gpu labeled\n");
    wire.says(&["get", "resourceclaim", "-n", "w", "-l", "team=a", "-o", "name"], "resourceclaim.resource.k8s.io/some-gpu\n");
    wire.says(&["annotate", "resourceclaim", "some-gpu", "-n", "w", "note=x"], "resourceclaim.resource.k8s.io/some-gpu annotated\n");
    for (kind, patch) in
        [("merge", r#"{"metadata":{"labels":{"team":"b"}}}"#), ("json", r#"[{"op":"add","path":"/metadata/labels/tier","value":"c"}]"#)]
    {
        wire.says(
            &["patch", "resourceclaim", "some-gpu", "-n", "w", "--type", kind, "-p", patch],
            "resourceclaim.resource.k8s.io/some-gpu patched\n",
        );
    }
    wire.says(&["get", "resourceclaim", "some-gpu", "-n", "w", "-o", "jsonpath={.metadata.labels}"], r#"{"team":"b","tier":"c"}"#);
    // A claim's spec cannot be changed, in the API server's words.
    let refused = wire.kubectl(&[
        "patch",
        "resourceclaim",
        "some-gpu",
        "-n",
        "w",
        "--type=json",
        "-p",
        r#"[{"op":"replace","path":"/spec/devices/requests/0/exactly/count","value":2}]"#,
    ]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("field is immutable"), "{}", refused.stderr);
    // Unknown fields are refused by name.
    let typo = wire.lab.file("typo.yaml", &CLAIM.replace("deviceClassName", "deviceClass"));
    let refused = wire.kubectl(&["apply", "-f", &typo]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("unknown field \"spec.devices.requests[0].exactly.deviceClass\""), "{}", refused.stderr);
    // Pods keep their containers in a strategic merge patch.
    let pod = wire.lab.file("pod.yaml", POD);
    wire.says(&["create", "-f", &pod], "pod/pod0 created\n");
    wire.says(
        &["patch", "pod", "pod0", "-n", "w", "-p", r#"{"spec":{"containers":[{"name":"ctr0","image":"ubuntu:26.04"}]}}"#],
        "pod/pod0 patched\n",
    );
    wire.says(
        &["get", "pod", "pod0", "-n", "w", "-o", "jsonpath={.spec.containers[0].image} {.spec.containers[0].command[0]}"],
        "ubuntu:26.04 bash",
    );
    let again = wire.kubectl(&["create", "-f", &pod]);
    assert!(again.stderr.contains("pods \"pod0\" already exists"), "{}", again.stderr);
    wire.says(&["create", "configmap", "settings", "-n", "w", "--from-literal=a=b"], "configmap/settings created\n");
    let waiting = wire
        .command(&["wait", "-n", "w", "pod/pod0", "--for=delete", "--timeout=40s"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    std::thread::sleep(std::time::Duration::from_millis(500));
    wire.says(&["delete", "pod", "pod0", "-n", "w", "--wait=false"], "pod \"pod0\" deleted from w namespace\n");
    assert_eq!(Ran::of(&waiting.wait_with_output().expect("kubectl ends")).ok(), "pod/pod0 condition met\n");
    wire.says(&["delete", "namespace", "w", "--timeout=60s"], "namespace \"w\" deleted\n");
    let gone = wire.kubectl(&["get", "resourceclaim", "some-gpu", "-n", "w"]);
    assert!(gone.stderr.contains("not found"), "{}", gone.stderr);
}

#[test]
fn what_there_is_and_what_it_means() {
    let wire = Wire::new();
    let resources = wire.kubectl(&["api-resources"]);
    for line in ["resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "pods"] {
        assert!(resources.ok().lines().any(|l| l.starts_with(line)), "{line}\n{}", resources.stdout);
    }
    let explained = wire.kubectl(&["explain", "resourceclaim.spec.devices.requests"]);
    for part in ["KIND:       ResourceClaim", "VERSION:    v1", "FIELD: requests <[]DeviceRequest>", "exactly\t<ExactDeviceRequest>"] {
        assert!(explained.ok().contains(part), "{part}\n{}", explained.stdout);
    }
    let nodes = wire.kubectl(&["get", "nodes"]);
    assert_eq!(cells(nodes.ok(), 0), ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
    assert_eq!(&cells(nodes.ok(), 1)[..3], ["dra-lab-control-plane", "Ready", "control-plane"]);
    let slices = wire.kubectl(&["get", "resourceslices"]);
    assert_eq!(&cells(slices.ok(), 1)[1..4], ["dra-lab-worker", "gpu.example.com", "dra-lab-worker"]);
    assert!(cells(slices.ok(), 1)[0].starts_with("dra-lab-worker-gpu.example.com-"));
    let without = wire.kubectl(&["get", "pods", "--token", "wrong"]);
    assert_ne!(without.code, 0);
    assert!(without.stderr.contains("Unauthorized") || without.stderr.contains("logged in"), "{}", without.stderr);
}
