//! The command as a process, in a home of its own: the main job, manners, and what is done wrong.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Home, Lab, Ran, dralab};

const CLAIM: &str = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c, namespace: default}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com}}]}}\n";

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\nspec: {resourceClaims: [{name: x, resourceClaimName: c}], containers: [{name: a, image: i, command: [sleep, '100'], resources: {claims: [{name: x}]}}]}\n";

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Fails unless the command ended with this code and said this on standard error.
#[track_caller]
fn refused(ran: &Ran, code: i32, said: &str) {
    assert_eq!(ran.code, code, "{ran:?}");
    assert!(ran.stderr.contains(said), "{said:?} is not in:\n{}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

#[test]
fn the_tour_takes_the_claim_from_pending_to_allocated_and_reserved() {
    let home = Home::new();
    let tour = home.dralab(&["tour", "--lang", "en"]);
    let lab = Lab { home };
    let out = tour.ok();
    for part in [
        "none → pending",
        "pending → allocated,reserved",
        "by kube-scheduler",
        "ContainerCreating → Running",
        "GPU_DEVICE_0=\"gpu-0\"",
        "dralab lesson next",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let pod = json(lab.dralab(&["get", "pod/pod0", "-n", "dra-tutorial", "-o", "json"]).ok());
    assert_eq!(pod["status"]["phase"], "Running");
    let lessons = json(lab.dralab(&["lesson", "list", "-o", "json"]).ok());
    assert_eq!(lessons["items"][0]["state"], "passed");
    // Again: its own objects are its own to replace.
    lab.dralab(&["tour"]).ok();
    // What somebody else made is left alone.
    lab.dralab(&["delete", "pod/pod0", "resourceclaim/some-gpu", "-n", "dra-tutorial"]).ok();
    let claim = lab.file("claim.yaml", &CLAIM.replace("default", "dra-tutorial"));
    lab.dralab(&["apply", "-f", &claim]).ok();
    refused(&lab.dralab(&["tour"]), 6, "resourceclaim/c");
    assert!(lab.dralab(&["get", "resourceclaim", "-n", "dra-tutorial", "-o", "name"]).ok().contains("/c\n"));
}

#[test]
fn a_learner_goes_through_lesson_one() {
    let lab = Lab::up(&[]);
    refused(&lab.dralab(&["verify"]), 2, "no lesson has begun");
    let shown = lab.dralab(&["lesson", "next", "--lang", "en"]);
    assert!(shown.ok().contains("Lesson 1: One GPU for one pod"), "{}", shown.stdout);
    // Red, with the reason and the next command; exit code 3.
    let red = lab.dralab(&["verify", "--timeout", "0"]);
    assert_eq!(red.code, 3, "{red:?}");
    assert!(red.stdout.contains("There is no claim some-gpu") || red.stdout.contains("There is no claim `some-gpu`"), "{}", red.stdout);
    assert!(lab.dralab(&["lesson", "hint"]).ok().contains("Hint 1 of 2"));
    let work = lab.home.path().join(".local/state/dralab/labs/dra-lab/lessons/01-some-gpu");
    lab.dralab(&["apply", "-f", &work.join("claim.yaml").display().to_string()]).ok();
    let green = json(lab.dralab(&["verify", "-o", "json"]).ok());
    assert_eq!((&green["kind"], &green["result"], &green["lessonPassed"]), (&"VerifyResult".into(), &"passed".into(), &false.into()));
    assert_eq!(green["transitions"][0]["to"], "pending");
    // The lesson stays until it has passed.
    assert!(lab.dralab(&["lesson", "next"]).ok().contains("step 2 of 2"));
    lab.dralab(&["apply", "-f", &work.join("pod.yaml").display().to_string()]).ok();
    let passed = json(lab.dralab(&["verify", "-o", "json"]).ok());
    assert_eq!(passed["lessonPassed"], true);
    let made = passed["transitions"]
        .as_array()
        .expect("transitions")
        .iter()
        .find(|t| t["to"] == "allocated,reserved")
        .expect("the transition")
        .clone();
    assert_eq!((&made["from"], &made["result"]), (&"pending".into(), &"seen".into()));
    // In Chinese, by the environment.
    let chinese = Ran::of(
        &lab.home.command(&dralab()).env("LC_ALL", "zh_CN.UTF-8").args(["lesson", "show", "some-gpu"]).output().expect("it starts"),
    );
    assert!(chinese.ok().contains("一个 Pod，一块 GPU"), "{}", chinese.stdout);
    // Plain: nothing but ASCII marks.
    for args in [
        &["--help"][..],
        &["get", "--help"],
        &["get", ""],
        &["status"],
        &["up", "--dry-run", "--nodes", "9"],
        &["verify"],
        &["tour", "--help"],
    ] {
        let plain = lab.home.dralab(&[args, &["--plain", "--lang", "en"]].concat());
        assert!(plain.stdout.is_ascii() && plain.stderr.is_ascii(), "{args:?}: {plain:?}");
    }
    let plain = lab.dralab(&["lesson", "list", "--plain", "--lang", "en"]);
    assert!(plain.ok().is_ascii(), "{}", plain.stdout);
}

#[test]
fn up_converges_and_what_was_acknowledged_survives_kill_9() {
    let lab = Lab::up(&["--nodes", "2", "--gpus", "3"]);
    let status = json(lab.dralab(&["status", "-o", "json"]).ok());
    assert_eq!((&status["state"], &status["spec"]["nodes"]), (&"running".into(), &2.into()));
    for field in ["name", "pluginRegistry", "plugins", "cdi"] {
        assert!(status["nodes"][1][field].is_string(), "{field}: {status}");
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(lab.kubeconfig()).expect("a kubeconfig").permissions());
    assert_eq!(mode & 0o777, 0o600);
    // Running it again changes nothing.
    let pid = status["pid"].as_i64().expect("a pid");
    lab.dralab(&["up"]).ok();
    assert_eq!(json(lab.dralab(&["status", "-o", "json"]).ok())["pid"], pid);
    // A node that was deleted registers again.
    lab.dralab(&["delete", "node/dra-lab-worker2"]).ok();
    lab.dralab(&["up"]).ok();
    assert_eq!(lab.dralab(&["get", "nodes", "-o", "name"]).ok().lines().count(), 3);
    let pid = json(lab.dralab(&["status", "-o", "json"]).ok())["pid"].as_i64().expect("a pid");
    let claim = lab.file("claim.yaml", CLAIM);
    lab.dralab(&["apply", "-f", &claim]).ok();
    Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill runs");
    let deadline = Instant::now() + Duration::from_secs(10);
    while lab.dralab(&["status"]).code == 0 {
        assert!(Instant::now() < deadline, "the process ends");
    }
    refused(&lab.dralab(&["get", "pods"]), 4, "is not up");
    lab.dralab(&["up"]).ok();
    assert_eq!(lab.dralab(&["get", "resourceclaim", "-n", "default", "-o", "name"]).ok(), "resourceclaim.resource.k8s.io/c\n");
    assert_eq!(lab.dralab(&["get", "nodes", "-o", "name"]).ok().lines().count(), 3);
    // Down keeps it all, twice is fine, and purge removes it.
    lab.dralab(&["down"]).ok();
    lab.dralab(&["down"]).ok();
    lab.dralab(&["up"]).ok();
    assert_eq!(lab.dralab(&["get", "resourceclaim", "-n", "default", "-o", "name"]).ok(), "resourceclaim.resource.k8s.io/c\n");
    lab.dralab(&["down", "--purge"]).ok();
    assert!(!lab.home.path().join(".local/state/dralab/labs/dra-lab").exists());
    assert_eq!(std::fs::read_dir(lab.home.path().join("run")).expect("a folder").count(), 0, "no sockets are left behind");
}

#[test]
fn two_ups_at_once_end_with_one_lab() {
    let home = Home::new();
    let mut ups: Vec<_> = (0..2)
        .map(|_| home.command(&dralab()).arg("up").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts"))
        .collect();
    let lab = Lab { home };
    for up in &mut ups {
        let mut said = String::new();
        up.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        assert!(up.wait().expect("it ends").success(), "{said}");
    }
    assert_eq!(lab.dralab(&["status"]).code, 0);
}

#[test]
fn an_interrupted_up_leaves_nothing_behind() {
    let home = Home::new();
    // A profile that is a pipe keeps `up` waiting at its beginning.
    let mut up =
        home.command(&dralab()).args(["up", "--nodes", "300"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(150));
    Command::new("kill").args(["-INT", &up.id().to_string()]).status().expect("kill runs");
    let mut said = String::new();
    up.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    let code = up.wait().expect("it ends").code();
    if code == Some(0) {
        // This machine was faster than the interrupt.
        drop(Lab { home });
        return;
    }
    assert_eq!(code, Some(130), "{said}");
    assert!(!home.path().join(".local/state/dralab/labs/dra-lab").exists(), "{said}");
    assert_eq!(home.dralab(&["status"]).code, 3);
}

#[test]
fn after_an_interrupted_up_the_next_one_begins_at_once() {
    let lab = Lab::up(&[]);
    for wait in [3, 8, 12, 16, 20, 30, 45, 60] {
        // The record names a process that is gone.
        let pid = json(lab.dralab(&["status", "-o", "json"]).ok())["pid"].to_string();
        Command::new("kill").args(["-9", &pid]).status().expect("kill runs");
        let mut up = lab.home.command(&dralab()).arg("up").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(wait));
        let signal = if wait % 3 == 0 { "-9" } else { "-INT" };
        Command::new("kill").args([signal, &up.id().to_string()]).status().expect("kill runs");
        up.wait().expect("it ends");
        let began = Instant::now();
        lab.dralab(&["up"]).ok();
        assert!(began.elapsed() < Duration::from_secs(10), "{wait}: {:?}", began.elapsed());
    }
    let ups = [&["up"][..], &["down", "--purge"], &["up"], &["down"], &["down", "--purge"], &["up"]];
    let mut all: Vec<_> = ups
        .iter()
        .map(|args| lab.home.command(&dralab()).args(*args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts"))
        .collect();
    for (one, args) in all.drain(..).zip(ups) {
        let ran = Ran::of(&one.wait_with_output().expect("it ends"));
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
    }
    lab.dralab(&["up"]).ok();
}

#[test]
fn usage_is_told() {
    let home = Home::new();
    for (args, said) in [
        (&["upp"][..], "unrecognized subcommand"),
        (&["up", "--nodes", "0"], "0 is not in"),
        (&["up", "--nodes", "many"], "invalid value"),
        (&["up", "--lab", "Not A Name"], "lower-case letters"),
        (&["up", "--backend", "moon"], "possible values: embedded"),
        (&["up", "--profile", "nope"], "DL-PROF-01"),
        (&["up", "--profile", "./nope.yaml"], "there is no profile file"),
        (&["up", "--port", "70000"], "70000 is not in"),
        (&["get"], "required arguments"),
        (&["lesson", "show", "some-gpo"], "some-gpu"),
        (&["lesson", "run"], "required arguments"),
        (&["dev", "cases", "/no/such/file"], "DL-CASE-01"),
        (&["status", "-o", "xml"], "possible values"),
        (&["help", "nope"], "unrecognized subcommand"),
    ] {
        refused(&home.dralab(args), 2, said);
    }
    for args in [&["get", "pods"][..], &["verify"], &["env"], &["kubectl", "--", "get", "pods"], &["logs", "x"], &["lesson", "next"]] {
        let ran = home.dralab(args);
        assert!(ran.code == 4 || ran.code == 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("hint: "), "{args:?}: {ran:?}");
    }
    assert_eq!(home.dralab(&["status"]).code, 3);
    assert_eq!(home.dralab(&["down"]).code, 0);
    assert_eq!(home.dralab(&["down", "--purge"]).code, 0);
    assert!(!home.path().join(".local").exists(), "looking makes no folders");
    assert!(home.dralab(&["man"]).ok().contains(".TH dralab"));
    assert!(home.dralab(&["completions", "bash"]).ok().contains("dralab"));
    assert_eq!(json(home.dralab(&["version", "-o", "json"]).ok())["kind"], "Version");
    let plan = home.dralab(&["up", "--dry-run", "--lang", "en"]);
    assert!(plan.ok().contains("nodes: dra-lab-control-plane (tainted, no driver), dra-lab-worker"), "{}", plan.stdout);
    // No home at all.
    let lost = Ran::of(&Command::new(dralab()).env_clear().arg("status").output().expect("it starts"));
    refused(&lost, 1, "DL-LAB-03");
}

#[test]
fn bad_manifests_and_selectors_are_told_in_place() {
    let lab = Lab::up(&[]);
    for (name, text, code, said) in [
        ("tabs.yaml", "kind: Pod\n\tmetadata: {}\n", 2, "line 1 column 7"),
        ("list.yaml", "- a\n", 2, "is not an object"),
        ("kindless.yaml", "apiVersion: v1\n", 2, "has no kind"),
        ("unknown.yaml", "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: x}\n", 2, "Gadget in example.com/v1"),
        ("typo.yaml", &CLAIM.replace("deviceClassName", "deviceClass"), 1, "deviceClass"),
        (
            "cel.yaml",
            &CLAIM.replace("gpu.example.com}", "gpu.example.com, selectors: [{cel: {expression: 'device.memory > 1'}}]}"),
            1,
            "undefined field 'memory'",
        ),
        ("empty.yaml", "# nothing\n", 2, "there is no object"),
    ] {
        let path = lab.file(name, text);
        refused(&lab.dralab(&["apply", "-f", &path]), code, said);
    }
    refused(&lab.dralab(&["apply", "-f", "/no/such.yaml"]), 2, "cannot read");
    refused(&lab.dralab(&["get", "podz"]), 2, "near to it: pods");
    refused(&lab.dralab(&["get", "pod/nobody", "-n", "default"]), 1, "pods \"nobody\" not found");
    // An empty word, as of a variable that is not set, never means every object.
    for args in
        [&["get", ""][..], &["delete", "pod", ""], &["delete", "pod", "", "-n", "default"], &["describe", "pod", ""], &["get", "pod", ""]]
    {
        refused(&lab.dralab(args), 2, "is empty");
    }
    assert!(lab.dralab(&["describe", "pods", "-n", "default", "--lang", "en"]).stderr.contains("No resources found"));
    assert!(lab.dralab(&["help", "verify"]).ok().contains("--timeout"));
    refused(&lab.dralab(&["describe", "pod/nobody", "-n", "default"]), 1, "not found");
    refused(&lab.dralab(&["delete", "pod/nobody", "-n", "default"]), 1, "not found: pod/nobody");
    // From standard input.
    let mut apply =
        lab.home.command(&dralab()).args(["apply", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    apply.stdin.take().expect("a pipe").write_all(CLAIM.as_bytes()).expect("written");
    assert_eq!(Ran::of(&apply.wait_with_output().expect("it ends")).ok(), "resourceclaim.resource.k8s.io/c created\n");
    let described = lab.dralab(&["describe", "resourceclaim/c", "-n", "default"]);
    assert!(described.ok().contains("State:        pending"), "{}", described.stdout);
    // A closed pipe is quiet.
    let mut get = lab
        .home
        .command(&dralab())
        .args(["get", "pods,resourceslices,nodes", "-A", "-o", "yaml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(get.stdout.take());
    let ran = Ran::of(&get.wait_with_output().expect("it ends"));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    // A proxy in the environment is not for loopback.
    let proxied = Ran::of(
        &lab.home
            .command(&dralab())
            .env("HTTPS_PROXY", "http://127.0.0.1:9")
            .env("https_proxy", "http://127.0.0.1:9")
            .args(["get", "nodes"])
            .output()
            .expect("it starts"),
    );
    assert!(proxied.ok().contains("dra-lab-worker"));
    // Colour only where asked for.
    assert!(!lab.dralab(&["lesson", "next"]).stdout.contains('\x1b'));
    let colored =
        Ran::of(&lab.home.command(&dralab()).args(["lesson", "show", "some-gpu", "--color", "always"]).output().expect("it starts"));
    assert!(colored.ok().contains('\x1b'));
    let not = Ran::of(
        &lab.home
            .command(&dralab())
            .env("NO_COLOR", "1")
            .env("CLICOLOR_FORCE", "1")
            .args(["lesson", "show", "some-gpu"])
            .output()
            .expect("it starts"),
    );
    assert!(!not.ok().contains('\x1b'));
}

#[test]
fn folders_and_ports_that_cannot_be_used_are_told() {
    // A port that is taken.
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let home = Home::new();
    refused(&home.dralab(&["up", "--port", &port]), 1, "DL-PORT-01");
    assert!(!home.path().join(".local/state/dralab/labs/dra-lab").exists(), "undone");
    // A state folder that is a file.
    let home = Home::new();
    std::fs::write(home.path().join("file"), "").expect("written");
    let ran = Ran::of(&home.command(&dralab()).env("DRALAB_HOME", home.path().join("file")).arg("up").output().expect("it starts"));
    refused(&ran, 1, "DL-FILE-01");
    // A store that was damaged, and a record of a newer dralab: told, and left as they are.
    let lab = Lab::up(&[]);
    lab.dralab(&["down"]).ok();
    let folder = lab.home.path().join(".local/state/dralab/labs/dra-lab");
    let journal = std::fs::read_dir(folder.join("store"))
        .expect("a store")
        .filter_map(Result::ok)
        .map(|e| e.path())
        .find(|p| p.metadata().is_ok_and(|m| m.len() > 1000))
        .expect("a journal");
    let bytes = std::fs::read(&journal).expect("readable");
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x55;
    std::fs::write(&journal, &damaged).expect("written");
    refused(&lab.dralab(&["up"]), 1, "DL-STORE-01");
    assert_eq!(std::fs::read(&journal).expect("readable"), damaged, "a damaged store is not touched");
    std::fs::write(&journal, &bytes).expect("written");
    let record = std::fs::read_to_string(folder.join("lab.json")).expect("a record");
    std::fs::write(folder.join("lab.json"), record.replace("\"format\": 1", "\"format\": 9")).expect("written");
    for args in [&["up"][..], &["status"], &["down"]] {
        refused(&lab.dralab(args), 1, "its format is 9");
    }
    std::fs::write(folder.join("lab.json"), record).expect("written");
    lab.dralab(&["up"]).ok();
    // A driver whose memory was damaged says so at once.
    lab.dralab(&["apply", "-f", &lab.file("c.yaml", CLAIM)]).ok();
    lab.dralab(&["apply", "-f", &lab.file("p.yaml", POD)]).ok();
    let checkpoint = folder.join("nodes/dra-lab-worker/state/driver/checkpoint.json");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !checkpoint.exists() {
        assert!(Instant::now() < deadline, "the claim is prepared");
        std::thread::sleep(Duration::from_millis(20));
    }
    lab.dralab(&["down"]).ok();
    std::fs::write(&checkpoint, "garbage").expect("written");
    let ran = lab.dralab(&["up"]);
    refused(&ran, 1, "the driver of node dra-lab-worker cannot begin: checkpoint ");
    refused(&ran, 1, "hint: the file is left as it is");
    std::fs::remove_file(&checkpoint).expect("removed");
    lab.dralab(&["up"]).ok();
    // A home with a blank: what is to be copied is quoted.
    let home = Home::new();
    let odd = home.path().join("my home's");
    std::fs::create_dir(&odd).expect("made");
    let in_odd = |args: &[&str]| Ran::of(&home.command(&dralab()).env("HOME", &odd).args(args).output().expect("it starts"));
    in_odd(&["up"]).ok();
    let shown = in_odd(&["lesson", "next", "--lang", "en"]);
    let apply = shown.ok().lines().find(|l| l.contains("apply -f")).expect("a command").replace("kubectl apply", "dralab apply");
    let words = apply.trim().replace("dralab apply", &format!("'{}' apply", dralab().display()));
    let ran = Ran::of(&home.command(Path::new("sh")).env("HOME", &odd).args(["-c", &words]).output().expect("it starts"));
    assert!(ran.ok().contains("some-gpu created"), "{words}");
    in_odd(&["down", "--purge"]).ok();
    // A home of ninety characters: sockets go elsewhere.
    let home = Home::new();
    let deep = home.path().join("x".repeat(90));
    std::fs::create_dir(&deep).expect("made");
    let in_deep = |args: &[&str]| {
        Ran::of(&home.command(&dralab()).env("HOME", &deep).env("XDG_RUNTIME_DIR", &deep).args(args).output().expect("it starts"))
    };
    in_deep(&["up"]).ok();
    in_deep(&["down", "--purge"]).ok();
}
