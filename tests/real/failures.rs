//! Every way in which a lab on kind fails to come up: message, exit code, and the state afterwards.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use crate::cluster::{self, docker};
use crate::scenes::Listed;
use crate::world::{Ran, Stage, World, lab, tool, until};

pub(crate) const SCENES: Listed = &[
    ("failure-no-engine", Stage::Bare, no_engine),
    ("failure-no-kind", Stage::Bare, no_kind),
    ("failure-old-kind", Stage::Bare, old_kind),
    ("failure-wrong-image", Stage::Bare, wrong_image),
    ("failure-mistyped-gate", Stage::Bare, mistyped_gate),
    ("failure-port-in-use", Stage::Bare, port_in_use),
    ("failure-somebody-elses-cluster", Stage::Bare, somebody_elses_cluster),
    ("failure-interrupted", Stage::Bare, interrupted),
];

/// Runs `up` and proves that whatever became of it, nothing is left.
fn up_fails(world: &World, change: impl FnOnce(&mut std::process::Command), more: &[&str]) -> Ran {
    let before = cluster::inventory();
    let mut args = world.up_args();
    args.extend(more);
    let mut command = world.dralab_command(&args);
    change(&mut command);
    let ran = Ran::of(&command.output().expect("dralab starts"));
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(cluster::inventory(), before, "what was made is undone");
    assert!(!world.lab_folder().join("kubeconfig").exists(), "no kubeconfig is left");
    assert!(ran.stderr.contains("hint"), "what to do is said:\n{}", ran.stderr);
    ran
}

fn no_engine(world: &mut World) {
    let ran = up_fails(
        world,
        |c| {
            c.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
        },
        &[],
    );
    ran.refused(1, &["/nowhere/docker.sock"]);
}

fn no_kind(world: &mut World) {
    let ran = up_fails(
        world,
        |c| {
            c.env("PATH", "/nowhere");
        },
        &[],
    );
    ran.refused(1, &["kind"]);
}

/// A program that answers as another kind would.
fn fake_kind(world: &World, script: &str) -> PathBuf {
    let path = PathBuf::from(world.file("kind", script));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
    path
}

fn old_kind(world: &mut World) {
    let kind = fake_kind(world, "#!/bin/sh\necho 'kind v0.31.0 go1.25.5 linux/amd64'\n");
    let ran = up_fails(
        world,
        |c| {
            c.env("DRALAB_KIND", &kind);
        },
        &[],
    );
    ran.refused(1, &["0.31", "0.32"]);
}

fn wrong_image(world: &mut World) {
    let before = cluster::inventory();
    let ran = world.dralab(&["up", "--backend", "kind", "--node-image", "dralab-test/no-such-image:v1.37.2"]);
    ran.refused(1, &["dralab-test/no-such-image:v1.37.2"]);
    assert_eq!(cluster::inventory(), before);
}

fn mistyped_gate(world: &mut World) {
    let ran = up_fails(world, |_| {}, &["--feature-gates", "DRADeviceTaint=true"]);
    ran.refused(2, &["DRADeviceTaint", "DRADeviceTaints"]);
}

fn port_in_use(world: &mut World) {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let ran = up_fails(world, |_| {}, &["--port", &port]);
    ran.refused(1, &[&port]);
}

fn somebody_elses_cluster(world: &mut World) {
    // As good as a cluster for whoever asks the engine: a container with kind's labels.
    let label = format!("io.x-k8s.kind.cluster={}", lab());
    let image = std::env::var("DRALAB_WORKLOAD_IMAGE").unwrap_or_else(|_| "ubuntu:24.04".to_owned());
    let name = format!("{}-control-plane", lab());
    docker(&["run", "-d", "--name", &name, "--label", &label, "--label", "io.x-k8s.kind.role=control-plane", &image, "sleep", "600"]).ok();
    let before = cluster::inventory();
    let args = world.up_args();
    let ran = world.dralab(&args);
    let down = world.dralab(&["down", "--purge"]);
    let after = cluster::inventory();
    docker(&["rm", "-f", &name]).ok();
    ran.refused(6, &[lab()]);
    assert_eq!(after, before, "somebody else's cluster is not touched, {down:?}");
}

/// Ctrl-C at moments all over `up`.
fn interrupted(world: &mut World) {
    let before = cluster::inventory();
    for milliseconds in [50, 400, 1500, 6000, 15_000, 24_000] {
        let args = world.up_args();
        let mut up = world.dralab_command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("dralab starts");
        std::thread::sleep(Duration::from_millis(milliseconds));
        let pid = up.id().to_string();
        std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill starts");
        let (status, took) = until("the end of up", Duration::from_secs(60), || match up.try_wait().expect("a child") {
            Some(status) => Ok(status),
            None => Err("it runs".to_owned()),
        });
        let mut said = String::new();
        std::io::Read::read_to_string(&mut up.stderr.take().expect("piped"), &mut said).expect("text");
        world.note(format!("Ctrl-C after {milliseconds} ms: exit code {:?}, {:.1} s later", status.code(), took.as_secs_f64()));
        if status.code() == Some(0) {
            // It was faster than the signal.
            world.dralab(&["down", "--purge"]).ok();
        } else {
            assert_eq!(status.code(), Some(130), "{said}");
        }
        assert_eq!(cluster::inventory(), before, "after {milliseconds} ms\n{said}");
    }
    assert!(tool("kind").is_file());
    // And the way is free again.
    assert!(!world.lab_folder().join("kubeconfig").exists());
}
