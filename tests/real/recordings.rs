//! What a real cluster did with another driver, played again on a lab's kind cluster with dralab's driver.
//!
//! The judge is the recordings' own (`diff.py`). Where dralab's driver answers otherwise than the recorded one, [`DIFFERENT`] says why,
//! and only there.

use std::path::PathBuf;
use std::process::Command;

use crate::scenes::Listed;
use crate::world::{Ran, Stage, World, tool};

pub(crate) const SCENES: Listed = &[("recording-scenarios", Stage::Lab, scenarios)];

/// Scenarios that are not played: they are surroundings or raw streams only.
const NOT_PLAYED: &[&str] = &["00-cluster", "32-watch-bookmarks"];

/// A difference that is to be: the scenario, what the judge's line contains, and why.
const DIFFERENT: &[(&str, &str, &str)] = &[(
    "49-forbidden",
    ".managedFields[",
    "managedFields are sorted by whole seconds and then by manager; which requests fell into one second is the client's luck",
)];

/// Scenarios whose output shows managedFields in order: these need a client that is as slow as the recorder's was.
const SLOW_CLIENT: &[&str] = &["01-seed-tutorial", "30-server-side-apply-conflict"];

fn recordings() -> PathBuf {
    PathBuf::from(std::env::var_os("DRALAB_TEST_RECORDINGS").expect("DRALAB_TEST_RECORDINGS names the recordings"))
}

fn python(world: &World, program: &str, args: &[&str]) -> Ran {
    let mut command = Command::new("python3");
    command.arg(recordings().join("tools").join(program)).args(args);
    command.env("HOME", world.home.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    Ran::of(&command.output().expect("python3 starts"))
}

/// All scenarios, or those that `DRALAB_TEST_SCENARIOS` names (`01 22`).
fn chosen() -> Vec<String> {
    let folder = std::fs::read_dir(recordings().join("scenarios")).expect("scenarios");
    let mut names: Vec<String> = folder.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.retain(|name| !NOT_PLAYED.contains(&name.as_str()));
    if let Ok(wanted) = std::env::var("DRALAB_TEST_SCENARIOS") {
        names.retain(|name| wanted.split_whitespace().any(|w| name.starts_with(w)));
    }
    assert!(!names.is_empty(), "there are scenarios");
    names
}

fn scenarios(world: &mut World) {
    // The recorded driver's devices and slice names.
    world.dralab(&["up", "--profile", "recorded"]).ok();
    let mut different = Vec::new();
    let mut agreed = Vec::new();
    for name in chosen() {
        match play(world, &name) {
            Ok(()) => agreed.push(name),
            Err(why) => different.push(format!("{name}: {why}")),
        }
    }
    world.dralab(&["up", "--profile", "default"]).ok();
    world.note(format!("agree: {} ({})", agreed.len(), agreed.join(" ")));
    assert!(different.is_empty(), "{} of {} differ:\n{}", different.len(), different.len() + agreed.len(), different.join("\n"));
}

/// Plays one scenario and has it judged.
fn play(world: &World, name: &str) -> Result<(), String> {
    let scenario = recordings().join("scenarios").join(name).display().to_string();
    let out = world.home.path().join("replayed").join(name).display().to_string();
    let kubeconfig = world.kubeconfig().display().to_string();
    let kubectl = if SLOW_CLIENT.contains(&name) {
        script(world, "slow-kubectl", &format!("#!/bin/sh\nsleep 0.4\nexec {} \"$@\"\n", tool("kubectl").display()))
    } else {
        tool("kubectl").display().to_string()
    };
    let hook = hook(world);
    let mut args = vec![scenario.as_str(), "--kubeconfig", &kubeconfig, "--out", &out, "--kubectl", &kubectl, "--hook", &hook];
    // Two pods compete for one device there; which is first depends on the scheduler's back-off.
    args.extend(["--speed", if name.starts_with("46") { "real" } else { "fast" }]);
    let played = python(world, "replay.py", &args);
    if played.code != 0 {
        return Err(format!("not played, exit code {}: {}{}", played.code, played.stdout, played.stderr));
    }
    let judged = python(world, "diff.py", &[&scenario, &out, "--show", "40"]);
    let lines: Vec<&str> = judged.stdout.lines().filter(|line| !line.starts_with("compared:") && !line.starts_with("scenario ")).collect();
    let unexplained: Vec<&&str> = lines
        .iter()
        .filter(|line| !DIFFERENT.iter().any(|(scenario, part, _)| name.starts_with(scenario) && line.contains(part)))
        .collect();
    match (judged.code, unexplained.as_slice()) {
        (0, _) => Ok(()),
        (1, []) if !lines.is_empty() => Ok(()),
        _ => Err(unexplained.iter().map(|line| format!("\n  {line}")).collect::<String>() + &judged.stderr),
    }
}

/// What happened outside of the API: the driver and Kubernetes' own test driver are stopped and started.
fn hook(world: &World) -> String {
    let node = format!("{}-worker", crate::world::lab());
    let script = format!(
        "#!/bin/sh\nset -e\nk() {{ {kubectl} --kubeconfig {kubeconfig} -n dralab-system \"$@\"; }}\n\
         case $1 in\n\
         driver-stop) k patch daemonset dralab-driver --type=merge -p '{{\"spec\":{{\"template\":{{\"spec\":{{\"nodeSelector\":{{\"dralab.dev/nowhere\":\"true\"}}}}}}}}}}' >/dev/null; k wait --for=delete pod -l app.kubernetes.io/name=dralab-driver --timeout=60s >/dev/null ;;\n\
         driver-start) k patch daemonset dralab-driver --type=json -p '[{{\"op\":\"remove\",\"path\":\"/spec/template/spec/nodeSelector/dralab.dev~1nowhere\"}}]' >/dev/null ;;\n\
         second-driver-start) docker cp {test_driver} {node}:/usr/local/bin/dra-test-driver >/dev/null 2>&1; docker cp {kubeconfig} {node}:/root/admin.conf >/dev/null 2>&1\n\
           docker exec {node} sed -i 's#server: .*#server: https://{control}:6443#' /root/admin.conf\n\
           docker exec -d {node} sh -c 'mkdir -p /var/lib/kubelet/plugins/test-driver.cdi.k8s.io; KUBECONFIG=/root/admin.conf exec dra-test-driver kubelet-plugin --node-name {node} --num-devices 4 >/var/log/test-driver.log 2>&1' ;;\n\
         second-driver-stop) docker exec {node} pkill -TERM -f '[d]ra-test-driver' ;;\n\
         *) echo \"no hook $1\" >&2; exit 1 ;;\nesac\n",
        kubectl = tool("kubectl").display(),
        kubeconfig = world.kubeconfig().display(),
        test_driver = tool("dra-test-driver").display(),
        control = format_args!("{}-control-plane", crate::world::lab()),
    );
    self::script(world, "hook", &script)
}

fn script(world: &World, name: &str, text: &str) -> String {
    let file = world.file(name, text);
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    file
}
