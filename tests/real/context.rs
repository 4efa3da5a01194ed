//! A cluster that dralab did not make.

use std::collections::BTreeSet;

use crate::scenes::Listed;
use crate::world::{PLAIN, Ran, Stage, World};

pub(crate) const SCENES: Listed = &[
    ("context-asks-before-it-installs", Stage::Plain, asks_first),
    ("context-lessons-and-no-trace", Stage::Plain, no_trace),
    ("context-two-learners", Stage::Plain, two_learners),
];

/// Every object of the cluster but events and leases, which nodes and leaders write as they go: kind, namespace, name, uid.
fn objects(world: &World) -> BTreeSet<String> {
    let kinds = world.kubectl(&["api-resources", "--verbs=list", "-o", "name"]);
    let kinds: Vec<&str> = kinds.ok().lines().filter(|kind| !kind.starts_with("events") && !kind.starts_with("leases")).collect();
    let all = world.kubectl(&[
        "get",
        &kinds.join(","),
        "-A",
        "-o",
        "jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.uid}{\"\\n\"}{end}",
    ]);
    all.ok().lines().map(str::to_owned).collect()
}

/// Labels of nodes and namespaces: these are not ours to change.
fn labels(world: &World) -> String {
    world
        .kubectl(&[
            "get",
            "nodes,namespaces",
            "-o",
            "jsonpath={range .items[*]}{.metadata.name} {.metadata.labels} {.metadata.annotations} {.metadata.finalizers}{\"\\n\"}{end}",
        ])
        .ok()
        .to_owned()
}

fn up(world: &World, more: &[&str]) -> Ran {
    up_as(world, None, more)
}

/// dralab of a learner, who has a machine (here: a home) of their own.
fn dralab_of(world: &World, learner: Option<&str>, args: &[&str]) -> Ran {
    let mut command = world.dralab_command(args);
    if let Some(learner) = learner {
        command.env("DRALAB_HOME", world.home.path().join(learner)).env("DRALAB_LEARNER", learner);
    }
    Ran::of(&command.output().expect("dralab starts"))
}

fn up_as(world: &World, learner: Option<&str>, more: &[&str]) -> Ran {
    let context = format!("kind-{PLAIN}");
    let kubeconfig = world.kubeconfig().display().to_string();
    let mut args = vec!["up", "--context", &context, "--kubeconfig", &kubeconfig];
    if let [.., "--workload-image", image] = crate::world::images().as_slice() {
        args.extend(["--workload-image", image]);
    }
    args.extend(more);
    dralab_of(world, learner, &args)
}

fn asks_first(world: &mut World) {
    let before = objects(world);
    // No terminal and no --yes: it says what it would do, and does nothing.
    let ran = up(world, &[]);
    ran.refused(6, &["--yes"]);
    let plan = up(world, &["--dry-run"]);
    assert!(plan.ok().contains("dralab-driver"), "{}", plan.stdout);
    assert_eq!(objects(world), before);
}

fn no_trace(world: &mut World) {
    let (before, labels_before) = (objects(world), labels(world));
    let kubeconfig = std::fs::read(world.kubeconfig()).expect("a kubeconfig");
    up(world, &["--yes"]).ok();
    crate::lab::play_lessons(world);
    let status = world.dralab(&["status", "-o", "json"]).json();
    assert_eq!((&status["backend"], &status["state"]), (&"context".into(), &"running".into()));
    world.dralab(&["down"]).ok();
    let after = objects(world);
    let (made, lost): (Vec<_>, Vec<_>) = (after.difference(&before).collect(), before.difference(&after).collect());
    assert!(made.is_empty() && lost.is_empty(), "left behind: {made:?}; missing: {lost:?}");
    assert_eq!(labels(world), labels_before);
    assert_eq!(std::fs::read(world.kubeconfig()).expect("a kubeconfig"), kubeconfig, "the kubeconfig is untouched");
    world.note(format!("{} objects before and after", before.len()));
    world.dralab(&["down", "--purge"]).ok();
}

fn two_learners(world: &mut World) {
    let before = objects(world);
    let lesson = |world: &World, learner: &str| dralab_of(world, Some(learner), &["lesson", "run", "some-gpu", "-o", "json"]).json();
    for learner in ["anna", "bo"] {
        up_as(world, Some(learner), &["--yes"]).ok();
    }
    for learner in ["anna", "bo"] {
        let run = lesson(world, learner);
        assert_eq!(run["passed"], 1, "{learner}: {run}");
    }
    let namespaces = |world: &World| world.kubectl(&["get", "namespaces", "-o", "name"]).ok().to_owned();
    let both = namespaces(world);
    assert!(both.contains("anna") && both.contains("bo"), "each has a namespace: {both}");
    // One goes; the other goes on.
    dralab_of(world, Some("anna"), &["down", "--purge"]).ok();
    let left = namespaces(world);
    assert!(!left.contains("anna") && left.contains("bo"), "{left}");
    let run = lesson(world, "bo");
    assert_eq!(run["passed"], 1, "{run}");
    dralab_of(world, Some("bo"), &["down", "--purge"]).ok();
    let after = objects(world);
    assert_eq!(after.difference(&before).collect::<Vec<_>>(), Vec::<&String>::new(), "nothing is left");
}
