//! Two drivers on one real kubelet, and dralab's driver under the real kubelet and under the embedded agent.

use std::time::Duration;

use serde_json::Value;

use crate::scenes::Listed;
use crate::world::{Ran, Stage, World, dralab, lab, tool, until};

pub(crate) const SCENES: Listed =
    &[("outsiders-two-drivers-in-one-claim", Stage::Lab, two_drivers), ("outsiders-same-answers-as-embedded", Stage::Lab, same_answers)];

fn worker() -> String {
    format!("{}-worker", lab())
}

/// Starts Kubernetes' own test driver in the worker; it is ended with the value.
struct TestDriver<'w>(&'w World);

impl<'w> TestDriver<'w> {
    fn start(world: &'w World) -> Self {
        let node = worker();
        crate::cluster::docker(&["cp", &tool("dra-test-driver").display().to_string(), &format!("{node}:/usr/local/bin/dra-test-driver")])
            .ok();
        let kubeconfig = std::fs::read_to_string(world.kubeconfig()).expect("a kubeconfig");
        let inside: String = kubeconfig
            .lines()
            .map(|line| match line.split_once("server: ") {
                Some((indent, _)) => format!("{indent}server: https://{}-control-plane:6443\n", lab()),
                None => format!("{line}\n"),
            })
            .collect();
        let file = world.file("inside.kubeconfig", &inside);
        crate::cluster::docker(&["cp", &file, &format!("{node}:/root/inside.kubeconfig")]).ok();
        crate::cluster::docker(&[
            "exec", "-d", &node, "sh", "-c",
            &format!("mkdir -p /var/lib/kubelet/plugins/test-driver.cdi.k8s.io; KUBECONFIG=/root/inside.kubeconfig exec dra-test-driver kubelet-plugin --node-name {node} --num-devices 4 >/var/log/test-driver.log 2>&1"),
        ])
        .ok();
        until("the test driver's slice", Duration::from_secs(60), || {
            let slices = world.kubectl(&["get", "resourceslices", "--field-selector", "spec.driver=test-driver.cdi.k8s.io", "-o", "name"]);
            if slices.stdout.trim().is_empty() {
                Err(slices.stderr + &world.in_node(&node, "tail -3 /var/log/test-driver.log").stdout)
            } else {
                Ok(())
            }
        });
        TestDriver(world)
    }
}

impl Drop for TestDriver<'_> {
    fn drop(&mut self) {
        self.0.in_node(&worker(), "pkill -TERM -f '[d]ra-test-driver'; rm -f /root/inside.kubeconfig");
        // The kubelet would do it after 30 s.
        self.0.kubectl(&["delete", "resourceslices", "--field-selector", "spec.driver=test-driver.cdi.k8s.io"]);
    }
}

const BOTH: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: both}\n---\n\
    apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: test}\nspec: {selectors: [{cel: {expression: device.driver == 'test-driver.cdi.k8s.io'}}]}\n---\n\
    apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: both, namespace: both}\nspec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}, {name: other, exactly: {deviceClassName: test}}]}}\n---\n\
    apiVersion: v1\nkind: Pod\nmetadata: {name: both, namespace: both}\nspec: {terminationGracePeriodSeconds: 1, restartPolicy: Never, resourceClaims: [{name: x, resourceClaimName: both}], containers: [{name: c, image: 'ubuntu:24.04', command: [bash, -c, \"export; trap 'exit 0' TERM; sleep 9999 & wait\"], resources: {claims: [{name: x}]}}]}\n";

fn two_drivers(world: &mut World) {
    let figures = {
        let _driver = TestDriver::start(world);
        world.apply(BOTH);
        world.kubectl(&["wait", "pod/both", "-n", "both", "--for=jsonpath={.status.phase}=Running", "--timeout=60s"]).ok();
        let log = world.kubectl(&["logs", "both", "-n", "both"]);
        assert!(log.ok().contains("GPU_DEVICE_"), "{}", log.stdout);
        let claim = world.kubectl(&["get", "resourceclaim/both", "-n", "both", "-o", "json"]).json();
        let mut drivers: Vec<&str> = claim["status"]["allocation"]["devices"]["results"]
            .as_array()
            .expect("results")
            .iter()
            .filter_map(|r| r["driver"].as_str())
            .collect();
        drivers.sort_unstable();
        assert_eq!(drivers, ["gpu.example.com", "test-driver.cdi.k8s.io"]);
        let rss = |pattern: &str| {
            world.in_node(&worker(), &format!("ps -o rss= -p $(pgrep -o -f '{pattern}')")).ok().trim().parse::<u64>().expect("a number")
        };
        let figures = format!("RSS: dralab {} KiB, dra-test-driver {} KiB", rss("[d]ralab driver run"), rss("[d]ra-test-driver"));
        world.kubectl(&["delete", "namespace/both", "deviceclass/test", "--timeout=90s"]).ok();
        figures
    };
    world.note(figures);
}

/// What one driver did with the claim of lesson one: the slice, the allocation, the claim's device status, the environment of the container, the CDI specs.
fn answers(kubectl: &dyn Fn(&[&str]) -> Ran, cdi: &str) -> Value {
    let of = |args: &[&str]| kubectl(args).json();
    let slices = of(&["get", "resourceslices", "-o", "json"]);
    let slice = &slices["items"][0];
    let claim = of(&["get", "resourceclaim/some-gpu", "-n", "same", "-o", "json"]);
    let pod = of(&["get", "pod/some-gpu", "-n", "same", "-o", "json"]);
    let log = kubectl(&["logs", "some-gpu", "-n", "same"]);
    let mut environment: Vec<&str> = log.ok().lines().filter(|line| line.contains("GPU") || line.contains("DRA")).collect();
    environment.sort_unstable();
    let uid = claim["metadata"]["uid"].as_str().expect("a uid");
    let mut status = claim["status"]["devices"].clone();
    for device in status.as_array_mut().into_iter().flatten() {
        for condition in device["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = Value::Null;
        }
    }
    let answers = serde_json::json!({
        "slice": {"generateName": slice["metadata"]["generateName"], "spec": slice["spec"], "owner": slice["metadata"]["ownerReferences"][0]["kind"]},
        "results": claim["status"]["allocation"]["devices"]["results"],
        "devices": status,
        "claimStatuses": pod["status"]["resourceClaimStatuses"],
        "health": pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"],
        "environment": environment,
        "cdi": cdi,
    });
    serde_json::from_str(&answers.to_string().replace(uid, "UID")).expect("JSON")
}

/// Where the embedded agent is known to answer otherwise, and why.
const DIFFERENT: &[(&str, &str)] =
    &[("health", "the embedded agent does not ask drivers for the health of devices yet: Unknown in the place of Healthy")];

fn same_answers(world: &mut World) {
    let manifests =
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: same}}\n---\n{}", crate::chaos::claim_and_pod("same", "some-gpu"));
    world.apply(&manifests);
    world.kubectl(&["wait", "pod/some-gpu", "-n", "same", "--for=jsonpath={.status.phase}=Running", "--timeout=60s"]).ok();
    std::thread::sleep(Duration::from_secs(1));
    let uid = world.kubectl(&["get", "resourceclaim/some-gpu", "-n", "same", "-o", "jsonpath={.metadata.uid}"]).ok().to_owned();
    let specs = world.in_node(&worker(), &format!("cat /var/run/cdi/*{uid}*"));
    let real = answers(&|args| world.kubectl(args), specs.ok());
    world.kubectl(&["delete", "namespace", "same", "--timeout=90s"]).ok();

    // The same lab, embedded, in a home of its own and under the same name.
    let home = tempfile::tempdir().expect("a temp dir");
    let embedded = |args: &[&str]| {
        let mut command = world.command(&dralab());
        command.env("HOME", home.path()).env("DRALAB_LAB", lab()).args(args);
        Ran::of(&command.output().expect("dralab starts"))
    };
    embedded(&["up", "--backend", "embedded"]).ok();
    let status = embedded(&["status", "-o", "json"]).json();
    let kubeconfig = status["kubeconfig"].as_str().expect("a path").to_owned();
    let kubectl = |args: &[&str]| {
        Ran::of(&world.command(&tool("kubectl")).env("KUBECONFIG", &kubeconfig).args(args).output().expect("kubectl starts"))
    };
    let file = world.file("same.yaml", &manifests);
    let ours = {
        kubectl(&["apply", "-f", &file]).ok();
        kubectl(&["wait", "pod/some-gpu", "-n", "same", "--for=jsonpath={.status.phase}=Running", "--timeout=60s"]).ok();
        std::thread::sleep(Duration::from_secs(1));
        let uid = kubectl(&["get", "resourceclaim/some-gpu", "-n", "same", "-o", "jsonpath={.metadata.uid}"]).ok().to_owned();
        let node = status["nodes"].as_array().expect("nodes").iter().find(|n| n["name"] == worker().as_str()).expect("the worker").clone();
        let folder = std::fs::read_dir(node["cdi"].as_str().expect("a folder")).expect("a folder");
        let spec = folder.filter_map(Result::ok).find(|e| e.file_name().to_string_lossy().contains(&uid)).expect("a spec");
        answers(&kubectl, &std::fs::read_to_string(spec.path()).expect("text"))
    };
    embedded(&["down", "--purge"]).ok();
    let fields = real.as_object().expect("an object");
    let mut same = Vec::new();
    let mut different = Vec::new();
    let mut known = Vec::new();
    for (field, value) in fields {
        if *value == ours[field] {
            same.push(field.as_str());
        } else if let Some((_, why)) = DIFFERENT.iter().find(|(known, _)| known == field) {
            known.push(format!("{field} ({why})"));
        } else {
            different.push(format!("{field}:\n  real     {value}\n  embedded {}", ours[field]));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    world.note(format!("the same under the real kubelet and the embedded agent: {}; not: {}", same.join(", "), known.join(", ")));
}
