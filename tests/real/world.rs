//! What scenes share: the programs, the engine, the clusters, and what is told and collected.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster;
pub(crate) use crate::ran::Ran;

impl Ran {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.ok()).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// Fails unless the command ended with this code and said all of this on standard error.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        for part in said {
            assert!(self.stderr.contains(part), "{part:?} is not in:\n{}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
    }
}

/// The cluster that a scene plays on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// None.
    Bare,
    /// A lab that dralab made with kind.
    Lab,
    /// A cluster that kind made without dralab.
    Plain,
}

/// The name of the lab, and so of its kind cluster: `DRALAB_TEST_LAB`. Not `dra-lab` by itself: whoever runs the tests may have that one.
/// The recordings know only that name, so that they need an engine of the tests' own.
pub(crate) fn lab() -> &'static str {
    static NAME: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("DRALAB_TEST_LAB").unwrap_or_else(|_| "dralab-real".to_owned()))
}
/// The name of the cluster that dralab does not make.
pub(crate) const PLAIN: &str = "dralab-plain";

/// What scenes share.
pub(crate) struct World {
    pub(crate) home: tempfile::TempDir,
    stage: Stage,
    notes: String,
    logs: PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        let logs = std::env::var_os("DRALAB_TEST_LOGS").map_or_else(|| std::env::temp_dir().join("dralab-real-logs"), PathBuf::from);
        World { home: tempfile::tempdir().expect("a temp dir"), stage: Stage::Bare, notes: String::new(), logs }
    }

    /// Makes the stage's cluster, and removes that of the stage before.
    pub(crate) fn enter(&mut self, stage: Stage) {
        if stage == self.stage {
            return;
        }
        self.leave();
        // Set first: a stage that was made by half is removed, too.
        self.stage = stage;
        match stage {
            Stage::Bare => {}
            Stage::Lab => {
                assert!(!cluster::exists(lab()), "a kind cluster {} is there already; these tests do not touch it", lab());
                self.dralab(&self.up_args()).ok();
            }
            Stage::Plain => cluster::create_plain(self),
        }
    }

    /// Removes the stage's cluster.
    pub(crate) fn leave(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Bare) {
            Stage::Bare => {}
            Stage::Lab => {
                let down = self.dralab(&["down", "--purge"]);
                cluster::delete(lab());
                down.ok();
            }
            Stage::Plain => cluster::delete(PLAIN),
        }
    }

    /// The arguments of `up` on kind, with the images that the environment names.
    pub(crate) fn up_args(&self) -> Vec<&'static str> {
        let mut args = vec!["up", "--backend", "kind"];
        args.extend(images());
        args
    }

    /// Tells a figure with the scene's line.
    pub(crate) fn note(&mut self, text: impl AsRef<str>) {
        let _ = write!(self.notes, "\n    {}", text.as_ref());
    }

    pub(crate) fn take_notes(&mut self) -> String {
        std::mem::take(&mut self.notes)
    }

    /// A command in a home of its own, with the engine and the programs on its PATH.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let run = self.home.path().join("run");
        std::fs::create_dir_all(&run).expect("a folder");
        command.env_clear().env("HOME", self.home.path()).env("PATH", path()).env("LANG", "C.UTF-8").env("XDG_RUNTIME_DIR", run);
        if let Some(host) = std::env::var_os("DOCKER_HOST") {
            command.env("DOCKER_HOST", host);
        }
        command.current_dir(self.home.path()).stdin(Stdio::null());
        command
    }

    /// dralab on the lab of these tests.
    pub(crate) fn dralab_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(&dralab());
        command.env("DRALAB_LAB", lab()).args(args);
        command
    }

    pub(crate) fn dralab(&self, args: &[&str]) -> Ran {
        Ran::of(&self.dralab_command(args).output().expect("dralab starts"))
    }

    /// kubectl on the cluster of this stage.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Ran {
        let kubeconfig = self.kubeconfig();
        Ran::of(&self.command(&tool("kubectl")).env("KUBECONFIG", kubeconfig).args(args).output().expect("kubectl starts"))
    }

    /// The kubeconfig of the cluster of this stage.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        match self.stage {
            Stage::Plain => self.home.path().join("plain.kubeconfig"),
            Stage::Lab | Stage::Bare => self.lab_folder().join("kubeconfig"),
        }
    }

    pub(crate) fn lab_folder(&self) -> PathBuf {
        self.home.path().join(".local/state/dralab/labs").join(lab())
    }

    /// Applies manifests with kubectl.
    pub(crate) fn apply(&self, manifests: &str) {
        let file = self.file("manifests.yaml", manifests);
        self.kubectl(&["apply", "-f", &file]).ok();
    }

    /// Writes a file into the home and gives its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    /// Runs a command in a node.
    pub(crate) fn in_node(&self, node: &str, script: &str) -> Ran {
        Ran::of(&self.command(Path::new("docker")).args(["exec", node, "sh", "-c", script]).output().expect("docker starts"))
    }

    /// Keeps what may explain a failed scene.
    pub(crate) fn collect(&self, scene: &str) {
        let folder = self.logs.join(scene);
        if std::fs::create_dir_all(&folder).is_err() {
            return;
        }
        if self.stage != Stage::Bare {
            for (name, args) in [
                ("objects.txt", vec!["get", "nodes,pods,resourceclaims,resourceslices,events", "-A", "-o", "wide"]),
                ("describe.txt", vec!["describe", "pods", "-A"]),
                (
                    "driver.log",
                    vec!["logs", "-n", "dralab-system", "daemonset/dralab-driver", "--all-containers", "--prefix", "--tail=500"],
                ),
            ] {
                let ran = self.kubectl(&args);
                let _ = std::fs::write(folder.join(name), ran.stdout + &ran.stderr);
            }
        }
        let _ = std::fs::copy(self.lab_folder().join("log"), folder.join("lab.log"));
        println!("    logs: {}", folder.display());
    }
}

/// The images that the environment names, as flags of `up`.
pub(crate) fn images() -> Vec<&'static str> {
    let mut args = Vec::new();
    for (variable, flag) in [("DRALAB_KIND_IMAGE", "--node-image"), ("DRALAB_WORKLOAD_IMAGE", "--workload-image")] {
        if let Ok(value) = std::env::var(variable) {
            args.extend([flag, String::leak(value)]);
        }
    }
    args
}

/// The dralab under test.
pub(crate) fn dralab() -> PathBuf {
    std::env::var_os("DRALAB_TEST_DRALAB").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_dralab")), PathBuf::from)
}

/// The PATH: the folder of the testbed first, where there is one.
pub(crate) fn path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    match std::env::var("DRALAB_TEST_BIN") {
        Ok(folder) => format!("{folder}:{path}"),
        Err(_) => path,
    }
}

/// A program that must be there.
pub(crate) fn tool(name: &str) -> PathBuf {
    let path = path();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} is on the PATH or in DRALAB_TEST_BIN"))
}

/// Looks again and again until `look` gives something; fails with what it saw last. Returns that and how long it took.
#[track_caller]
pub(crate) fn until<T>(what: &str, bound: Duration, mut look: impl FnMut() -> Result<T, String>) -> (T, Duration) {
    let started = Instant::now();
    loop {
        let last = match look() {
            Ok(value) => return (value, started.elapsed()),
            Err(last) => last,
        };
        assert!(started.elapsed() < bound, "{what} did not come within {} s; last seen: {last}", bound.as_secs());
        std::thread::sleep(Duration::from_millis(100));
    }
}
