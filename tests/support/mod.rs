//! A lab of one's own for tests: the command as a process, in a home of its own, with nothing of this machine's environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a command did.
#[derive(Clone, Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: &Output) -> Self {
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Fails the test unless the command ended well; gives its standard output.
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        &self.stdout
    }
}

/// A home folder of its own, and the command in it.
#[derive(Debug)]
pub struct Home {
    dir: tempfile::TempDir,
    env: Vec<(String, String)>,
}

impl Home {
    pub fn new() -> Self {
        Home { dir: tempfile::tempdir().expect("a temp dir"), env: Vec::new() }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Adds a variable to what the commands see.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The command with only this environment.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", "/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("XDG_RUNTIME_DIR", self.path().join("run"));
        std::fs::create_dir_all(self.path().join("run")).expect("a folder");
        command.envs(self.env.iter().map(|(k, v)| (k, v))).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// Runs dralab.
    pub fn dralab(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(&dralab()).args(args).output().expect("dralab starts"))
    }
}

/// The binary under test.
pub fn dralab() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_dralab"))
}

/// A lab that is up; it is taken down and its files removed at the end.
#[derive(Debug)]
pub struct Lab {
    pub home: Home,
}

impl Lab {
    pub fn up(args: &[&str]) -> Self {
        Self::up_in(Home::new(), args)
    }

    pub fn up_in(home: Home, args: &[&str]) -> Self {
        let lab = Lab { home };
        let mut all = vec!["up"];
        all.extend(args);
        lab.home.dralab(&all).ok();
        lab
    }

    pub fn dralab(&self, args: &[&str]) -> Ran {
        self.home.dralab(args)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.home.path().join(".local/state/dralab/labs/dra-lab/kubeconfig")
    }

    /// Writes a file into the home and gives its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let down = self.home.dralab(&["down", "--purge"]);
        if !std::thread::panicking() {
            assert_eq!(down.code, 0, "{down:?}");
        }
    }
}
