//! A lab on kind without an engine and without kind: both are fakes, so that what can go wrong before and while a cluster is made is tried
//! on any machine. Clusters themselves are for tests/real.

mod engine;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use self::engine::Engine;
use crate::support::{Home, Ran, dralab};

/// A home with a fake engine, a fake `docker` (kind would run it) and a fake `kind` with these lines for `create cluster`.
struct Machine {
    home: Home,
    engine: Engine,
}

impl Machine {
    fn new(create: &str) -> Self {
        let machine = Machine { home: Home::new(), engine: Engine::start() };
        machine.program("docker", "exit 1");
        machine.kind("v0.33.0", create);
        machine
    }

    /// Another process writes the file: one that this process had open for writing while another thread forks could not be run.
    fn program(&self, name: &str, text: &str) {
        let bin = self.home.path().join("bin");
        std::fs::create_dir_all(&bin).expect("made");
        let write = "printf '#!/bin/sh\n%s\n' \"$2\" > \"$1\" && chmod 755 \"$1\"";
        let done = Command::new("sh").args(["-c", write, "sh"]).arg(bin.join(name)).arg(text).status().expect("sh runs");
        assert!(done.success());
    }

    fn kind(&self, version: &str, create: &str) {
        let text = format!(
            "case \"$1\" in version) echo \"kind {version} go1.26 linux/amd64\";; create) echo \"$@\" > {home}/args; {create}\n;; esac",
            home = self.home.path().display()
        );
        self.program("kind", &text);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(&dralab());
        let path = format!("{}:/usr/bin:/bin", self.home.path().join("bin").display());
        command.args(args).env("PATH", path).env("DOCKER_HOST", self.engine.host()).env_remove("DRALAB_BACKEND");
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).output().expect("dralab starts"))
    }

    fn up(&self, args: &[&str]) -> Ran {
        self.run(&[&["up", "--backend", "kind", "--node-image", "i:v1.37.2", "--lang", "en"], args].concat())
    }

    /// What fake kinds do first: make the containers of cluster dra-lab.
    fn makes(engine: &Engine, then: &str) -> String {
        let folder = engine.containers().display().to_string();
        let make = |role: &str| format!("echo i:v1.37.2 > {folder}/dra-lab.{role}.dra-lab-{role}; ");
        format!("{}{}{then}", make("control-plane"), make("worker"))
    }

    /// Begins an `up` and comes back when kind has made its containers.
    fn begin(&self) -> (std::process::Child, BufReader<std::process::ChildStderr>) {
        let mut command = self.command(&["up", "--backend", "kind", "--node-image", "i:v1.37.2", "--lang", "en"]);
        let mut up = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let stderr = until(up.stderr.take().expect("a pipe"), "Wrote");
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.engine.container_names().len() < 2 {
            assert!(Instant::now() < deadline, "kind makes its containers");
            std::thread::sleep(Duration::from_millis(5));
        }
        (up, stderr)
    }

    fn lab(&self) -> std::path::PathBuf {
        self.home.path().join(".local/state/dralab/labs/dra-lab")
    }
}

#[track_caller]
fn refused(ran: &Ran, code: i32, said: &[&str]) {
    assert_eq!(ran.code, code, "{ran:?}");
    for said in said {
        assert!(ran.stderr.contains(said), "{said:?} is not in:\n{}", ran.stderr);
    }
}

#[test]
fn what_would_be_done_is_told_without_an_engine() {
    let home = Home::new();
    let args = ["up", "--backend", "kind", "--dry-run", "--plain", "--lang", "en", "--kubernetes", "1.36", "--nodes", "2"];
    let lab = home.path().join(".local/state/dralab/labs/dra-lab").display().to_string();
    let expected = format!(
        "\
- Look at kind, the container engine, and whether the lab's name is free
- Have node image kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed in the engine, or pull it
- Write {lab}/kind.yaml for kind (feature gates of stage beta: DRADeviceTaintRules)
- Create the cluster: kind create cluster --name dra-lab --config {lab}/kind.yaml --kubeconfig {lab}/kubeconfig
- Have docker.io/library/ubuntu:24.04, the image of the lessons' pods, on the workers
- Make the driver's image of dralab and load it onto the workers
- Apply 8 objects, server-side, as manager dralab: driver, rights, policy, device class
- Wait until every worker's pool is complete, up to 180 s
"
    );
    assert_eq!(home.dralab(&args).ok(), expected);
    assert!(!home.path().join(".local").exists(), "nothing was made");
    assert!(home.dralab(&["up", "--backend", "kind", "--dry-run", "--lang", "zh"]).ok().contains("节点镜像"));
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let home = Home::new();
    for (args, code, said) in [
        (&["--feature-gates", "DRADeviceTaint=true"][..], 2, "the nearest is DRADeviceTaints"),
        (&["--kubernetes", "1.34", "--feature-gates", "DRAListTypeAttributes=true"], 2, "it is in 1.36, 1.37"),
        (&["--feature-gates", "DynamicResourceAllocation=false"], 2, "is locked in Kubernetes 1.37"),
        (&["--kubernetes", "1.34.1"], 6, "kubernetes/kubernetes#133920"),
        (&["--kubernetes", "1.33"], 6, "a lab needs Kubernetes 1.34 to 1.37"),
        (&["--kubernetes", "latest"], 2, "not a Kubernetes version"),
        (&["--node-image", "mine:latest"], 2, "--node-image IMAGE --kubernetes 1.37"),
        (&["--foreground"], 2, "--foreground makes no sense with backend kind"),
        (&["--profile", "none"], 2, "none"),
    ] {
        let ran = home.dralab(&[&["up", "--backend", "kind", "--lang", "en"], args].concat());
        refused(&ran, code, &[said]);
        assert!(!home.path().join(".local").exists(), "{args:?}: nothing was made");
    }
    let ran = home.dralab(&["up", "--kubernetes", "1.36", "--lang", "en"]);
    refused(&ran, 2, &["--kubernetes makes no sense with backend embedded", "DRALAB_BACKEND"]);
}

#[test]
fn a_machine_that_lacks_something_is_told_what() {
    let home = Home::new();
    let up = |host: &str| {
        let mut command = home.command(&dralab());
        Ran::of(&command.args(["up", "--backend", "kind", "--lang", "en"]).env("DOCKER_HOST", host).output().expect("it starts"))
    };
    refused(&up(&format!("unix://{}/none.sock", home.path().display())), 1, &["is not there", "[DL-ENG-"]);
    refused(&up("ssh://me@far"), 2, &["cannot be used"]);
    let machine = Machine::new("");
    let engine = machine.engine.host();
    // No kind at all.
    refused(&up(&engine), 1, &["there is no `kind` on the PATH", "DRALAB_KIND", "dralab up --backend embedded"]);
    machine.kind("v0.31.0", "");
    refused(&machine.up(&[]), 1, &["kind 0.31.0 is too old for node image i:v1.37.2", "[DL-KIND-06]"]);
    machine.kind("(devel)", "");
    refused(&machine.up(&[]), 1, &["does not say its version"]);
    machine.kind("v0.33.0", "");
    std::fs::remove_file(machine.home.path().join("bin/docker")).expect("removed");
    // The real docker may be in /usr/bin: then this is not to be seen.
    if !Path::new("/usr/bin/docker").exists() && !Path::new("/bin/docker").exists() {
        refused(&machine.up(&[]), 1, &["there is no `docker` on the PATH"]);
    }
    machine.program("docker", "exit 1");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = taken.local_addr().expect("an address").port().to_string();
    refused(&machine.up(&["--port", &port]), 1, &["cannot be had", "[DL-KIND-13]"]);
    refused(&machine.run(&["up", "--backend", "kind", "--node-image", "absent:v1.37.0"]), 1, &["absent"]);
    assert!(!machine.home.path().join("args").exists(), "kind was never asked to create");
    assert!(!machine.lab().exists());
}

#[test]
fn what_kind_says_is_kept_and_what_it_made_is_removed() {
    let machine = Machine::new("");
    let fails = "echo ' • Preparing nodes 📦  ...' >&2; echo 'write /x: no space left on device' >&2; echo 'ERROR: failed to create cluster' >&2; exit 1";
    machine.kind("v0.33.0", &Machine::makes(&machine.engine, fails));
    let ran = machine.up(&[]);
    refused(
        &ran,
        1,
        &["kind did not create the cluster", "[DL-KIND-11]", "no space left on device", "docker system df", "Undone: Create the cluster"],
    );
    assert_eq!(machine.engine.container_names(), [""; 0], "rolled back");
    let left: Vec<_> = std::fs::read_dir(machine.lab()).expect("a folder").flatten().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| name == "lab.log" || name == "change.lock"), "{left:?}");
    assert!(std::fs::read_to_string(machine.lab().join("lab.log")).expect("a log").contains("Preparing nodes"));
    let args = std::fs::read_to_string(machine.home.path().join("args")).expect("kind ran");
    let lab = machine.lab().display().to_string();
    assert_eq!(args.trim(), format!("create cluster --name dra-lab --config {lab}/kind.yaml --kubeconfig {lab}/kubeconfig"));
    // Kept on demand: the record tells whose it is, the log has all, and `down` removes it.
    let ran = machine.up(&["--retain"]);
    refused(&ran, 1, &["--retain", "dralab down"]);
    assert_eq!(machine.engine.container_names(), ["dra-lab-control-plane", "dra-lab-worker"]);
    assert!(std::fs::read_to_string(machine.lab().join("lab.log")).expect("a log").contains("Preparing nodes"));
    let plan = machine.run(&["down", "--dry-run", "--lang", "en"]);
    assert!(plan.ok().contains("remove container dra-lab-worker"), "{plan:?}");
    machine.run(&["down"]).ok();
    assert_eq!(machine.engine.container_names(), [""; 0]);
    assert!(!machine.lab().exists());
    machine.run(&["down"]).ok();
}

#[test]
fn an_engine_that_dies_midway_leaves_a_record_for_down() {
    let machine = Machine::new("");
    let dies =
        format!("rm {}; echo 'Cannot connect to the Docker daemon at unix:///x' >&2; exit 1", &machine.engine.host()["unix://".len()..]);
    machine.kind("v0.33.0", &Machine::makes(&machine.engine, &dies));
    let ran = machine.up(&[]);
    refused(&ran, 1, &["[DL-KIND-26]", "Not undone: Create the cluster", "dralab down"]);
    assert!(machine.lab().join("lab.json").exists());
    refused(&machine.run(&["status", "--lang", "en"]), 3, &["is not there"]);
    refused(&machine.run(&["down"]), 1, &["is not there"]);
    assert!(machine.lab().join("lab.json").exists(), "what may be there is not forgotten");
    let gone = machine.run(&["down", "--purge", "--lang", "en"]);
    gone.ok();
    assert!(gone.stderr.contains("The engine is gone"), "{gone:?}");
    assert!(!machine.lab().exists());
}

#[test]
fn a_cluster_of_that_name_that_is_not_the_labs_is_left_alone() {
    let machine = Machine::new("exit 1");
    std::fs::write(machine.engine.containers().join("dra-lab.control-plane.dra-lab-control-plane"), "i:v1.37.2").expect("written");
    std::fs::write(machine.engine.containers().join("other.control-plane.other-control-plane"), "i:v1.37.2").expect("written");
    refused(&machine.up(&[]), 6, &["that this lab did not make (container dra-lab-control-plane)", "[DL-KIND-23]"]);
    machine.run(&["down"]).ok();
    machine.run(&["down", "--purge"]).ok();
    assert_eq!(machine.engine.container_names(), ["dra-lab-control-plane", "other-control-plane"]);
    assert_eq!(machine.engine.changes(), [""; 0], "nothing was touched");
    assert!(!machine.lab().exists());
}

/// Waits until a line on standard error has this in it; gives the rest of the stream.
fn until(stderr: std::process::ChildStderr, said: &str) -> BufReader<std::process::ChildStderr> {
    let mut reader = BufReader::new(stderr);
    let mut seen = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).expect("text"), 0, "it ended without {said:?}:\n{seen}");
        seen.push_str(&line);
        if line.contains(said) {
            return reader;
        }
    }
}

#[test]
fn an_interrupt_while_kind_works_takes_back_what_it_made() {
    let machine = Machine::new("");
    // What kind has started goes on making containers until it is ended, too.
    let late =
        format!("(sleep 0.7; echo i:v1.37.2 > {}/dra-lab.worker.dra-lab-worker2) & sleep 100", machine.engine.containers().display());
    machine.kind("v0.33.0", &Machine::makes(&machine.engine, &late));
    let (mut up, mut reader) = machine.begin();
    Command::new("kill").args(["-INT", &up.id().to_string()]).status().expect("kill runs");
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("text");
    assert_eq!(up.wait().expect("it ends").code(), Some(130), "{said}");
    assert!(said.contains("Interrupted: taking back") && said.contains("Undone: Create the cluster"), "{said}");
    std::thread::sleep(Duration::from_millis(900));
    assert_eq!(machine.engine.container_names(), [""; 0]);
    assert!(!machine.lab().exists());
}

#[test]
fn a_kill_leaves_what_the_next_up_or_down_knows_as_its_own() {
    let machine = Machine::new("");
    machine.kind("v0.33.0", &Machine::makes(&machine.engine, "sleep 3"));
    let (mut up, reader) = machine.begin();
    drop(reader);
    up.kill().expect("killed");
    up.wait().expect("it ends");
    assert_eq!(machine.engine.container_names(), ["dra-lab-control-plane", "dra-lab-worker"]);
    let status = machine.run(&["status", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).expect("JSON");
    assert_eq!((&status["backend"], &status["state"]), (&"kind".into(), &"incomplete".into()));
    // Another backend under this name is refused, and other flags say what to do.
    refused(&machine.run(&["up", "--backend", "embedded", "--lang", "en"]), 6, &["is on backend kind"]);
    refused(&machine.up(&["--nodes", "3"]), 6, &["this needs a new cluster: number of workers 1 would become 3"]);
    machine.run(&["down"]).ok();
    assert_eq!(machine.engine.container_names(), [""; 0]);
    assert!(!machine.lab().exists());
}
