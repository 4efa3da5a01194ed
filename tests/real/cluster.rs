//! Clusters and what is left of them, as the engine and kind tell.

use std::path::Path;

use crate::world::{PLAIN, Ran, World, tool};

/// A command with this process's own environment: for looking, not for what is tested.
fn outside(program: &Path, args: &[&str]) -> Ran {
    Ran::of(&std::process::Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{}: {error}", program.display())))
}

pub(crate) fn docker(args: &[&str]) -> Ran {
    outside(Path::new("docker"), args)
}

/// Whether kind knows a cluster of this name.
pub(crate) fn exists(name: &str) -> bool {
    let label = format!("label=io.x-k8s.kind.cluster={name}");
    !docker(&["ps", "-aq", "--filter", &label]).ok().trim().is_empty()
}

/// Deletes a cluster of these tests, if it is there.
pub(crate) fn delete(name: &str) {
    if exists(name) {
        let folder = tempfile::tempdir().expect("a temp dir");
        let kubeconfig = folder.path().join("kubeconfig");
        outside(&tool("kind"), &["delete", "cluster", "--name", name, "--kubeconfig", &kubeconfig.display().to_string()]).ok();
    }
}

/// Everything that the engine has, one name a line: containers, networks, volumes, images.
pub(crate) fn inventory() -> Vec<String> {
    let mut all = Vec::new();
    for (what, args) in [
        ("container", vec!["ps", "-a", "--format", "{{.Names}}"]),
        ("network", vec!["network", "ls", "--format", "{{.Name}}"]),
        ("volume", vec!["volume", "ls", "-q"]),
        ("image", vec!["images", "-a", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}"]),
    ] {
        all.extend(docker(&args).ok().lines().map(|line| format!("{what} {line}")));
    }
    all.sort();
    all
}

/// The configuration of a plain cluster: one control plane, one worker, and what a cgroup v1 host needs.
const PLAIN_CONFIG: &str = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: [{role: control-plane}, {role: worker}]\n";

/// Makes a cluster without dralab.
pub(crate) fn create_plain(world: &World) {
    assert!(!exists(PLAIN), "a kind cluster {PLAIN} is there already; these tests do not touch it");
    let cgroup = docker(&["info", "-f", "{{.CgroupVersion}}"]);
    let patch = "kubeadmConfigPatches: [\"kind: KubeletConfiguration\\nfailCgroupV1: false\\n\"]\n";
    let config = if cgroup.ok().trim() == "1" { format!("{PLAIN_CONFIG}{patch}") } else { PLAIN_CONFIG.to_owned() };
    let config = world.file("plain.yaml", &config);
    let kubeconfig = world.kubeconfig().display().to_string();
    let mut args = vec!["create", "cluster", "--name", PLAIN, "--config", &config, "--kubeconfig", &kubeconfig, "--wait", "120s"];
    let image = std::env::var("DRALAB_KIND_IMAGE").ok();
    if let Some(image) = &image {
        args.extend(["--image", image]);
    }
    outside(&tool("kind"), &args).ok();
}
