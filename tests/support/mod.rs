//! A lab of one's own for tests: the command as a process, in a home of its own, with nothing of this machine's environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

mod ran;

pub(crate) use ran::Ran;

/// A home folder of its own, and the command in it.
#[derive(Debug)]
pub(crate) struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Home { dir: tempfile::tempdir().expect("a temp dir") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The command with only this environment.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", "/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            // What this machine has of engines and kind is nothing to these tests.
            .env("DRALAB_BACKEND", "embedded")
            .env("XDG_RUNTIME_DIR", self.path().join("run"));
        std::fs::create_dir_all(self.path().join("run")).expect("a folder");
        command.current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// Runs dralab.
    pub(crate) fn dralab(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(&dralab()).args(args).output().expect("dralab starts"))
    }
}

/// The binary under test.
pub(crate) fn dralab() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_dralab"))
}

/// A lab that is up; it is taken down and its files removed at the end.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) home: Home,
}

impl Lab {
    pub(crate) fn up(args: &[&str]) -> Self {
        Self::up_in(Home::new(), args)
    }

    pub(crate) fn up_in(home: Home, args: &[&str]) -> Self {
        let lab = Lab { home };
        let mut all = vec!["up"];
        all.extend(args);
        lab.home.dralab(&all).ok();
        lab
    }

    pub(crate) fn dralab(&self, args: &[&str]) -> Ran {
        self.home.dralab(args)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.home.path().join(".local/state/dralab/labs/dra-lab/kubeconfig")
    }

    /// Writes a file into the home and gives its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
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
