//! Faults under a real kubelet: what happened, how long until new pods run again, and that no claim is lost.
//!
//! A pod with a claim, the keeper, lives through all of them: its claim must stay as it was and its container must not be started again
//! (but for the reboot of its node).

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::scenes::Listed;
use crate::world::{Stage, World, lab, until};

pub(crate) const SCENES: Listed = &[
    ("chaos-kubelet-restarts", Stage::Lab, kubelet_restarts),
    ("chaos-driver-killed", Stage::Lab, driver_killed),
    ("chaos-driver-killed-in-prepare", Stage::Lab, driver_killed_in_prepare),
    ("chaos-driver-upgraded-by-surge", Stage::Lab, driver_upgraded),
    ("chaos-checkpoint-truncated", Stage::Lab, checkpoint_truncated),
    ("chaos-cdi-folder-wiped", Stage::Lab, cdi_wiped),
    ("chaos-registration-socket-removed", Stage::Lab, registration_removed),
    ("chaos-slice-deleted-and-edited", Stage::Lab, slice_deleted_and_edited),
    ("chaos-api-server-away", Stage::Lab, api_server_away),
    ("chaos-driver-starts-without-api-server", Stage::Lab, starts_without_api_server),
    ("chaos-pod-without-grace", Stage::Lab, without_grace),
    ("chaos-node-restarts", Stage::Lab, node_restarts),
];

const NAMESPACE: &str = "chaos";
const SYSTEM: &str = "dralab-system";
const DRIVER: &str = "daemonset/dralab-driver";
const CHECKPOINT: &str = "/var/lib/kubelet/plugins/gpu.example.com/checkpoint.json";

fn worker() -> String {
    format!("{}-worker", lab())
}

/// A claim for one GPU and a pod that uses it.
pub(crate) fn claim_and_pod(namespace: &str, name: &str) -> String {
    format!(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: gpu.example.com}}}}]}}}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{terminationGracePeriodSeconds: 1, restartPolicy: Always, resourceClaims: [{{name: x, resourceClaimName: {name}}}], containers: [{{name: c, image: 'ubuntu:24.04', command: [bash, -c, \"export; trap 'exit 0' TERM; sleep 9999 & wait\"], resources: {{claims: [{{name: x}}]}}}}]}}\n"
    )
}

fn get(world: &World, object: &str) -> Value {
    world.kubectl(&["get", object, "-n", NAMESPACE, "-o", "json"]).json()
}

/// Makes sure that the keeper runs; gives its claim's allocation and the identity of its container.
fn keeper(world: &World) -> (Value, String, i64) {
    if world.kubectl(&["get", "pod/keeper", "-n", NAMESPACE]).code != 0 {
        world.kubectl(&["create", "namespace", NAMESPACE]).ok();
        world.apply(&claim_and_pod(NAMESPACE, "keeper"));
        runs(world, "keeper", 60);
    }
    let pod = get(world, "pod/keeper");
    let claim = get(world, "resourceclaim/keeper");
    let status = &pod["status"]["containerStatuses"][0];
    (
        claim["status"]["allocation"]["devices"]["results"].clone(),
        status["containerID"].as_str().unwrap_or_default().to_owned(),
        status["restartCount"].as_i64().unwrap_or(-1),
    )
}

#[track_caller]
fn runs(world: &World, pod: &str, seconds: u64) -> Duration {
    until(&format!("pod {pod} running"), Duration::from_secs(seconds), || {
        let ran = world.kubectl(&[
            "get",
            "pod",
            pod,
            "-n",
            NAMESPACE,
            "-o",
            "jsonpath={.status.phase} {.status.containerStatuses[0].state} {.status.conditions[?(@.type=='PodScheduled')].message}",
        ]);
        if ran.stdout.starts_with("Running") { Ok(()) } else { Err(ran.stdout + &ran.stderr) }
    })
    .1
}

fn delete(world: &World, pod: &str) {
    world.kubectl(&["delete", "pod", pod, "-n", NAMESPACE, "--timeout=90s"]).ok();
    world.kubectl(&["delete", "resourceclaim", pod, "-n", NAMESPACE, "--timeout=60s"]).ok();
}

/// Whether the driver on the worker is ready, and how often its container was started.
fn driver(world: &World) -> (bool, String) {
    let pods = world.kubectl(&["get", "pods", "-n", SYSTEM, "-o", "json"]).json();
    let pods = pods["items"].as_array().expect("pods").clone();
    let ready =
        |p: &Value| p["status"]["conditions"].as_array().is_some_and(|c| c.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"));
    let one = pods.len() == 1 && ready(&pods[0]) && pods[0]["metadata"]["deletionTimestamp"].is_null();
    (
        one,
        pods.iter()
            .map(|p| format!("{} {}", p["metadata"]["name"], p["status"]["containerStatuses"][0]["state"]))
            .collect::<Vec<_>>()
            .join("; "),
    )
}

#[track_caller]
fn driver_is_ready(world: &World, seconds: u64) -> Duration {
    until("the driver ready", Duration::from_secs(seconds), || match driver(world) {
        (true, _) => Ok(()),
        (false, seen) => Err(seen),
    })
    .1
}

/// A driver whose container was started only once: each crash doubles the time that the kubelet waits before it starts it again, and that
/// would be measured in the place of the driver.
fn fresh_driver(world: &World) {
    driver_is_ready(world, 400);
    let count = world.kubectl(&["get", "pods", "-n", SYSTEM, "-o", "jsonpath={.items[0].status.containerStatuses[0].restartCount}"]);
    if count.ok() != "0" {
        world.kubectl(&["delete", "pods", "-n", SYSTEM, "-l", "app.kubernetes.io/name=dralab-driver", "--timeout=60s"]).ok();
        driver_is_ready(world, 90);
    }
}

/// Plays one fault with the keeper running; afterwards a new pod gets a device, runs and goes.
fn fault(world: &mut World, name: &str, restarts_keeper: bool, play: impl FnOnce(&mut World) -> String) {
    fresh_driver(world);
    let before = keeper(world);
    let what = play(world);
    let started = Instant::now();
    world.apply(&claim_and_pod(NAMESPACE, "after"));
    // A kubelet whose first attempt fell into the fault asks again after more than a minute.
    runs(world, "after", 240);
    let recovered = started.elapsed();
    let log = world.kubectl(&["logs", "after", "-n", NAMESPACE]);
    assert!(log.ok().contains("GPU_DEVICE_"), "the container has its device: {}", log.stdout);
    delete(world, "after");
    let after = keeper(world);
    assert_eq!(after.0, before.0, "the keeper's claim is as it was");
    if !restarts_keeper {
        assert_eq!((&after.1, after.2), (&before.1, before.2), "the keeper's container was not started again");
    }
    world.note(format!("{name}: {what}; a new pod ran {:.1} s later; claims lost: 0", recovered.as_secs_f64()));
}

fn slice(world: &World) -> Result<Value, String> {
    let slices = world.kubectl(&["get", "resourceslices", "--field-selector", "spec.driver=gpu.example.com", "-o", "json"]);
    let slices: Value = serde_json::from_str(&slices.stdout).map_err(|error| error.to_string())?;
    match slices["items"].as_array().map(Vec::as_slice) {
        Some([one]) => Ok(one.clone()),
        other => Err(format!("{} slices", other.map_or(0, <[Value]>::len))),
    }
}

fn kubelet_restarts(world: &mut World) {
    fault(world, "kubelet restarted", false, |world| {
        world.in_node(&worker(), "systemctl restart kubelet").ok();
        "registered again by itself".to_owned()
    });
}

/// kill -9 of the driver's process, as the node sees it.
const KILL: &str = "pkill -9 -f '[d]ralab driver run'";

fn driver_killed(world: &mut World) {
    fault(world, "driver killed -9", false, |world| {
        world.in_node(&worker(), KILL).ok();
        std::thread::sleep(Duration::from_millis(500));
        let back = driver_is_ready(world, 60);
        format!("ready again after {:.1} s", back.as_secs_f64())
    });
}

fn driver_killed_in_prepare(world: &mut World) {
    fault(world, "driver killed -9 in the middle of prepare, 4 times", false, |world| {
        let mut slowest = Duration::ZERO;
        for n in 0_u64..4 {
            let name = format!("victim-{n}");
            world.apply(&claim_and_pod(NAMESPACE, &name));
            // The kubelet asks the driver about 100 to 900 ms after the pod is made.
            std::thread::sleep(Duration::from_millis(60 + 150 * n));
            world.in_node(&worker(), KILL);
            slowest = slowest.max(runs(world, &name, 240));
            let log = world.kubectl(&["logs", &name, "-n", NAMESPACE]);
            assert!(log.ok().contains("GPU_DEVICE_"), "{}", log.stdout);
            delete(world, &name);
            fresh_driver(world);
        }
        format!("every pod ran, the slowest after {:.1} s (the kubelet's own back-off)", slowest.as_secs_f64())
    });
}

fn driver_upgraded(world: &mut World) {
    fault(world, "driver upgraded by surge", false, |world| {
        let before = slice(world).expect("a slice");
        world.apply(&claim_and_pod(NAMESPACE, "older"));
        runs(world, "older", 60);
        let started = Instant::now();
        world.kubectl(&["rollout", "restart", DRIVER, "-n", SYSTEM]).ok();
        // Pods come and go all along.
        let mut slowest = Duration::ZERO;
        let mut pods = 0;
        while started.elapsed() < Duration::from_secs(15) {
            world.apply(&claim_and_pod(NAMESPACE, "meanwhile"));
            slowest = slowest.max(runs(world, "meanwhile", 60));
            delete(world, "meanwhile");
            pods += 1;
        }
        world.kubectl(&["rollout", "status", DRIVER, "-n", SYSTEM, "--timeout=90s"]).ok();
        let after = slice(world).expect("a slice");
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "the slice is the same");
        assert_eq!(after["spec"]["pool"]["generation"], before["spec"]["pool"]["generation"]);
        // Prepared by the old instance, unprepared by the new one.
        delete(world, "older");
        let specs = world.in_node(&worker(), "ls /var/run/cdi").ok().to_owned();
        format!(
            "{pods} pods ran meanwhile, the slowest took {:.1} s; slice and generation the same; CDI specs left: {}",
            slowest.as_secs_f64(),
            specs.lines().count()
        )
    });
}

fn checkpoint_truncated(world: &mut World) {
    fault(world, "checkpoint truncated", false, |world| {
        world.in_node(&worker(), &format!("cp {CHECKPOINT} /root/checkpoint.kept && printf '{{' > {CHECKPOINT}")).ok();
        world.in_node(&worker(), KILL).ok();
        let (said, _) = until("the driver says what is wrong", Duration::from_secs(60), || {
            let log = world.kubectl(&["logs", "-n", SYSTEM, DRIVER, "--tail=20"]);
            if log.stdout.contains("checkpoint.json") { Ok(log.stdout) } else { Err(log.stdout + &log.stderr) }
        });
        assert!(!said.contains("panicked"), "{said}");
        let content = world.in_node(&worker(), &format!("cat {CHECKPOINT}"));
        assert_eq!(content.ok(), "{", "it is left as it is");
        world.in_node(&worker(), &format!("mv /root/checkpoint.kept {CHECKPOINT}")).ok();
        let back = driver_is_ready(world, 360);
        format!("the driver names the file and does not start over it; with the file back it was ready after {:.1} s", back.as_secs_f64())
    });
}

fn cdi_wiped(world: &mut World) {
    fault(world, "CDI folder wiped", false, |world| {
        let before = world.in_node(&worker(), "cd /var/run/cdi && cat $(ls | sort) | sha256sum").ok().to_owned();
        world.in_node(&worker(), "rm -f /var/run/cdi/*").ok();
        // A reboot does the same; the driver writes them again when it starts, the same ones.
        world.in_node(&worker(), KILL).ok();
        let (_, took) = until("the CDI specs are back", Duration::from_secs(90), || {
            let now = world.in_node(&worker(), "cd /var/run/cdi && cat $(ls | sort) | sha256sum");
            if now.stdout == before { Ok(()) } else { Err(world.in_node(&worker(), "ls -la /var/run/cdi").stdout) }
        });
        driver_is_ready(world, 90);
        format!("byte-equal {:.1} s after the driver's restart began", took.as_secs_f64())
    });
}

fn registration_removed(world: &mut World) {
    fault(world, "registration socket removed", false, |world| {
        let list = "ls /var/lib/kubelet/plugins_registry";
        let before = world.in_node(&worker(), list).ok().to_owned();
        world.in_node(&worker(), "rm -f /var/lib/kubelet/plugins_registry/*").ok();
        let (_, took) = until("the socket is back", Duration::from_secs(60), || {
            let now = world.in_node(&worker(), list).stdout;
            if now == before { Ok(()) } else { Err(now) }
        });
        format!("made again after {:.1} s", took.as_secs_f64())
    });
}

fn slice_deleted_and_edited(world: &mut World) {
    fault(world, "slice deleted, then edited", false, |world| {
        let before = slice(world).expect("a slice");
        let name = before["metadata"]["name"].as_str().expect("a name").to_owned();
        world.kubectl(&["delete", "resourceslice", &name]).ok();
        let (_, deleted) = until("the slice is back", Duration::from_secs(30), || {
            let now = slice(world)?;
            if now["spec"]["devices"] == before["spec"]["devices"] { Ok(()) } else { Err("other devices".to_owned()) }
        });
        let name = slice(world).expect("a slice")["metadata"]["name"].as_str().expect("a name").to_owned();
        world
            .kubectl(&["patch", "resourceslice", &name, "--type=json", "-p", "[{\"op\": \"remove\", \"path\": \"/spec/devices/0\"}]"])
            .ok();
        let (_, edited) = until("the slice is as it was", Duration::from_secs(30), || {
            let now = slice(world)?;
            if now["spec"]["devices"] == before["spec"]["devices"] { Ok(()) } else { Err("edited".to_owned()) }
        });
        format!("back after {:.1} s and {:.1} s", deleted.as_secs_f64(), edited.as_secs_f64())
    });
}

fn control_plane(world: &World, script: &str) {
    world.in_node(&format!("{}-control-plane", lab()), script).ok();
}

/// The API server's static pod is taken away and given back.
const STOP_API: &str = "mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/ && for i in $(seq 120); do pgrep -x kube-apiserver >/dev/null || exit 0; sleep 0.5; done; exit 1";
const START_API: &str = "mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/";

#[track_caller]
fn api_answers(world: &World) -> Duration {
    until("the API server", Duration::from_secs(180), || {
        let ran = world.kubectl(&["get", "--raw", "/readyz"]);
        if ran.code == 0 { Ok(()) } else { Err(ran.stderr) }
    })
    .1
}

fn api_server_away(world: &mut World) {
    fault(world, "API server away for a minute", false, |world| {
        let before = slice(world).expect("a slice");
        control_plane(world, STOP_API);
        std::thread::sleep(Duration::from_secs(60));
        let running = world.in_node(&worker(), "pgrep -f '[d]ralab driver run' | wc -l");
        assert_eq!(running.ok().trim(), "1", "the driver lives on");
        control_plane(world, START_API);
        let back = api_answers(world);
        assert_eq!(slice(world).expect("a slice")["metadata"]["uid"], before["metadata"]["uid"]);
        // The watch works again: what is deleted comes back.
        let name = before["metadata"]["name"].as_str().expect("a name").to_owned();
        world.kubectl(&["delete", "resourceslice", &name]).ok();
        let (_, took) = until("the slice is back", Duration::from_secs(120), || slice(world));
        format!("API back after {:.1} s; a slice deleted then was back after {:.1} s", back.as_secs_f64(), took.as_secs_f64())
    });
}

fn starts_without_api_server(world: &mut World) {
    fault(world, "driver started without an API server", false, |world| {
        control_plane(world, STOP_API);
        world.in_node(&worker(), KILL).ok();
        let (_, started) = until("the driver runs", Duration::from_secs(120), || {
            let ran = world.in_node(&worker(), "pgrep -f '[d]ralab driver run'");
            if ran.code == 0 { Ok(()) } else { Err("no process".to_owned()) }
        });
        std::thread::sleep(Duration::from_secs(5));
        control_plane(world, START_API);
        api_answers(world);
        let ready = driver_is_ready(world, 120);
        format!("it was there {:.1} s after the kill, and ready {:.1} s after the API server", started.as_secs_f64(), ready.as_secs_f64())
    });
}

fn without_grace(world: &mut World) {
    fault(world, "pod deleted without grace", false, |world| {
        for _ in 0..3 {
            world.apply(&claim_and_pod(NAMESPACE, "hasty"));
            // A kubelet that has not yet unprepared the claim of the earlier pod refuses the new one of the same name, and asks again after
            // more than a minute.
            runs(world, "hasty", 240);
            world.kubectl(&["delete", "pod", "hasty", "-n", NAMESPACE, "--grace-period=0", "--force"]).ok();
            world.kubectl(&["delete", "resourceclaim", "hasty", "-n", NAMESPACE, "--timeout=60s"]).ok();
        }
        "three times, each got its device".to_owned()
    });
}

fn node_restarts(world: &mut World) {
    fault(world, "node restarted", true, |world| {
        crate::cluster::docker(&["restart", "-t", "5", &worker()]).ok();
        let node = worker();
        until("the node is ready", Duration::from_secs(120), || {
            let ran = world.kubectl(&["get", "node", &node, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}"]);
            if ran.stdout == "True" { Ok(()) } else { Err(ran.stdout + &ran.stderr) }
        });
        let ready = driver_is_ready(world, 180);
        let keeper = runs(world, "keeper", 180);
        format!("driver ready after {:.1} s, the keeper's container after {:.1} s", ready.as_secs_f64(), keeper.as_secs_f64())
    });
    world.kubectl(&["delete", "namespace", NAMESPACE, "--timeout=120s"]).ok();
}
