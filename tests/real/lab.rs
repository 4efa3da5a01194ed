//! A lab on kind from `up` to `down`, twice.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cluster;
use crate::scenes::Listed;
use crate::world::{Stage, World, lab};

pub(crate) const SCENES: Listed = &[
    ("lab-is-up", Stage::Lab, is_up),
    ("lab-up-again-changes-nothing", Stage::Lab, up_again),
    ("lab-lessons", Stage::Lab, lessons),
    ("lab-doctor", Stage::Lab, doctor),
    ("lab-driver-is-kept-to-its-node", Stage::Lab, kept_to_its_node),
];

/// After all that plays on the lab.
pub(crate) const LAST_SCENES: Listed =
    &[("lab-down-and-up-again", Stage::Lab, lessons_after_down), ("lab-leaves-nothing", Stage::Bare, leaves_nothing)];

fn is_up(world: &mut World) {
    let status = world.dralab(&["status", "-o", "json"]).json();
    assert_eq!(status["state"], "running", "{status}");
    assert_eq!(status["backend"], "kind");
    let worker = format!("{}-worker", lab());
    let slices = world.kubectl(&["get", "resourceslices", "-o", "json"]).json();
    let slices = slices["items"].as_array().expect("slices").clone();
    assert_eq!(slices.len(), 1, "one worker, one slice");
    assert_eq!(slices[0]["spec"]["nodeName"], worker.as_str());
    assert_eq!(slices[0]["spec"]["devices"].as_array().map(Vec::len), Some(8));
    assert!(slices[0]["metadata"]["generateName"].as_str().is_some_and(|n| n.starts_with(&format!("{worker}-gpu.example.com-"))));
    assert_eq!(slices[0]["metadata"]["ownerReferences"][0]["kind"], "Node");
    assert!(!world.home.path().join(".kube/config").exists(), "the user's kubeconfig is not touched");
    // What dralab says and what kubectl says of the same cluster.
    let through_dralab = world.dralab(&["kubectl", "--", "get", "nodes", "-o", "name"]);
    assert_eq!(through_dralab.ok(), world.kubectl(&["get", "nodes", "-o", "name"]).ok());
}

fn up_again(world: &mut World) {
    let revision = |world: &World| -> Vec<String> {
        let objects = world
            .kubectl(&[
                "get",
                "deviceclass,clusterrole,clusterrolebinding,validatingadmissionpolicy,daemonset,serviceaccount",
                "-A",
                "-l",
                &format!("dralab.dev/lab={}", lab()),
                "-o",
                "json",
            ])
            .json();
        let items = objects["items"].as_array().expect("items").clone();
        items.iter().map(|o| format!("{}/{} {}", o["kind"], o["metadata"]["name"], o["metadata"]["generation"])).collect()
    };
    let before = revision(world);
    assert!(before.len() >= 5, "{before:?}");
    let args = world.up_args();
    let again = world.dralab(&args);
    again.ok();
    assert_eq!(revision(world), before);
    world.dralab(&["up"]).ok();
    assert_eq!(revision(world), before);
}

fn lessons(world: &mut World) {
    play_lessons(world);
    // The last one stays as it ended, so that verify can look at it: it holds, by its state transitions.
    let verified = world.dralab(&["verify", "-o", "json"]);
    assert_eq!(verified.json()["result"], "passed", "{}", verified.stdout);
    // It has all eight GPUs, which the scenes after this one need.
    world.kubectl(&["delete", "namespace", "-l", "dralab.dev/lesson", "--timeout=90s"]).ok();
}

pub(crate) fn play_lessons(world: &mut World) {
    let started = std::time::Instant::now();
    let run = world.dralab(&["lesson", "run", "--all", "-o", "json"]);
    let run = run.json();
    assert_eq!((run["passed"].as_u64(), run["failed"].as_u64(), run["skipped"].as_u64()), (Some(7), Some(0), Some(0)), "{run}");
    world.note(format!("lessons 1 to 7: {:.1} s", started.elapsed().as_secs_f64()));
}

/// Ids of the checks that found something, with the severity.
pub(crate) fn findings(report: &Value) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |check: &Value| {
        let findings = check["findings"].as_array().cloned().unwrap_or_default();
        findings.iter().map(|finding| format!("{} {}", text(&finding["severity"]), text(&check["id"]))).collect::<Vec<_>>()
    };
    report["checks"].as_array().expect("checks").iter().flat_map(of).collect()
}

fn doctor(world: &mut World) {
    let ran = world.dralab(&["doctor", "-o", "json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let found = findings(&report);
    assert!(found.iter().all(|f| !f.starts_with("blocker")), "{}", ran.stdout);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    // A hand-made slice of a driver that is not there, and a namespace that spells the label of admin access the old way.
    world.apply(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: nobody}\nspec: {driver: nobody.example.com, nodeName: nowhere, pool: {name: p, generation: 1, resourceSliceCount: 2}, devices: [{name: d}]}\n---\n\
         apiVersion: v1\nkind: Namespace\nmetadata: {name: spelled, labels: {resource.k8s.io/admin-access: 'true'}}\n",
    );
    let planted = world.dralab(&["doctor", "-o", "json"]);
    let planted: Value = serde_json::from_str(&planted.stdout).expect("JSON");
    let new: Vec<String> = findings(&planted).difference(&found).cloned().collect();
    world.kubectl(&["delete", "resourceslice/nobody", "namespace/spelled"]).ok();
    assert!(new.len() >= 2, "a slice without driver and a wrong label are found: {new:?}");
    world.note(format!("planted and found: {}", new.join(", ")));
    let bundle = world.home.path().join("bundle.tar").display().to_string();
    world.dralab(&["doctor", "--bundle", &bundle]).ok();
    let bytes = std::fs::read(&bundle).expect("a bundle");
    let kubeconfig = std::fs::read_to_string(world.kubeconfig()).expect("a kubeconfig");
    let secrets = kubeconfig.lines().filter_map(|line| line.trim().split_once("-data: ")).map(|(_, data)| data.trim().to_owned());
    for secret in secrets.filter(|s| s.len() > 64) {
        assert!(!bytes.windows(64).any(|window| window == &secret.as_bytes()[..64]), "no credentials in the bundle");
    }
}

/// The admission policy: the driver's own identity, on one node, cannot write another node's slice.
fn kept_to_its_node(world: &mut World) {
    let pod = world.kubectl(&["get", "pods", "-n", "dralab-system", "-o", "json"]).json();
    let pod = pod["items"][0].clone();
    let (name, uid) = (pod["metadata"]["name"].as_str().expect("a name"), pod["metadata"]["uid"].as_str().expect("a uid"));
    let account = pod["spec"]["serviceAccountName"].as_str().expect("an account");
    let token = world.kubectl(&[
        "create",
        "token",
        account,
        "-n",
        "dralab-system",
        "--bound-object-kind",
        "Pod",
        "--bound-object-name",
        name,
        "--bound-object-uid",
        uid,
    ]);
    let token = format!("--token={}", token.ok().trim());
    let slice = |node: &str| {
        format!(
            "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {{name: forged}}\nspec: {{driver: gpu.example.com, nodeName: {node}, pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}, devices: [{{name: d}}]}}\n"
        )
    };
    // A kubeconfig without the client certificate of the administrator, which would win over the token.
    let server = world.kubectl(&["config", "view", "--raw", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]).ok().to_owned();
    let bare = world.file("bare.kubeconfig", "");
    let as_driver = |node: &str| {
        let file = world.file("forged.yaml", &slice(node));
        let args =
            ["--kubeconfig", &bare, "--server", &server, "--insecure-skip-tls-verify", &token, "create", "--dry-run=server", "-f", &file];
        world.kubectl(&args)
    };
    let other = as_driver(&format!("{}-control-plane", lab()));
    other.refused(1, &["ValidatingAdmissionPolicy"]);
    as_driver(&format!("{}-worker", lab())).ok();
}

fn lessons_after_down(world: &mut World) {
    world.leave();
    assert!(!cluster::exists(lab()), "down deletes the cluster");
    let before = cluster::inventory();
    world.enter(Stage::Lab);
    play_lessons(world);
    world.leave();
    assert_eq!(cluster::inventory(), before, "nothing is left and nothing else touched");
}

fn leaves_nothing(world: &mut World) {
    assert!(!world.lab_folder().exists(), "the lab's folder is gone");
    let left: Vec<_> = cluster::inventory().into_iter().filter(|line| line.contains("dralab.local") || line.contains(lab())).collect();
    assert!(left.is_empty(), "{left:?}");
    let status = world.dralab(&["status", "-o", "json"]);
    assert_eq!(status.code, 3, "{status:?}");
    let down = world.dralab(&["down", "--purge"]);
    down.ok();
}
