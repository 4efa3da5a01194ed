//! The user's `kind`: found, asked for its version, run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::cluster::kind::image::NodeImage;

/// How long `kind version` may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How many of the last lines a failure shows.
const LAST: usize = 12;

/// The first kind whose parser knows the containerd configuration of newer node images (kind commit b22acfaf), and the first whose
/// containerd patches of another version are skipped.
pub const NEW: Version = Version { major: 0, minor: 32, patch: 0 };

/// A version of kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Major.
    pub major: u32,
    /// Minor.
    pub minor: u32,
    /// Patch.
    pub patch: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl Version {
    /// Reads what `kind version` writes: `kind v0.33.0 go1.26 linux/amd64`. A pre-release counts as its version.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let word = words.find_map(|word| word.strip_prefix('v').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))?;
        let mut parts = word.split(['-', '+']).next().unwrap_or_default().split('.').map(str::parse);
        let mut next = || parts.next().and_then(Result::ok);
        Some(Version { major: next()?, minor: next()?, patch: next()? })
    }
}

/// Why there is no kind to use.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It is nowhere.
    #[error("there is no `kind` on the PATH")]
    NotFound,
    /// It cannot be run.
    #[error("cannot run {}", program.display())]
    Run {
        /// Its file.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It does not say its version.
    #[error("{} does not say its version: {said:?}", program.display())]
    Unreadable {
        /// Its file.
        program: PathBuf,
        /// What it said.
        said: String,
    },
    /// It is too old for the node image.
    #[error("kind {found} is too old for node image {image}: it needs {NEW} or newer")]
    TooOld {
        /// What is there.
        found: Version,
        /// The node image.
        image: String,
    },
}

/// A kind that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its file.
    pub program: PathBuf,
    /// Its version.
    pub version: Version,
}

/// Where kind is: the program named (`DRALAB_KIND`), else the first on the PATH.
#[must_use]
pub fn locate(named: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    if let Some(named) = named {
        return Some(named.to_path_buf());
    }
    std::env::split_paths(path).map(|folder| folder.join("kind")).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

impl Kind {
    /// Asks a program for its version.
    ///
    /// # Errors
    /// When it cannot be run, or says no version.
    pub async fn ask(program: PathBuf) -> Result<Self, ToolError> {
        let run = |source| ToolError::Run { program: program.clone(), source };
        let asked = Command::new(&program).arg("version").stdin(Stdio::null()).kill_on_drop(true).output();
        let answer = match tokio::time::timeout(ANSWER, asked).await {
            Ok(answer) => answer.map_err(run)?,
            Err(_) => return Err(run(std::io::Error::other(format!("`kind version` did not end within {} s", ANSWER.as_secs())))),
        };
        let said = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        match Version::parse(&said) {
            Some(version) => Ok(Kind { program, version }),
            None => {
                let said = if said.is_empty() { String::from_utf8_lossy(&answer.stderr).trim().to_owned() } else { said };
                Err(ToolError::Unreadable { program, said: said.lines().next().unwrap_or_default().to_owned() })
            }
        }
    }

    /// Whether it can make nodes of this image. Images of Kubernetes 1.36 and newer, and those that kind 0.33 was released with, have a
    /// containerd whose configuration an older kind cannot read.
    ///
    /// # Errors
    /// It is too old.
    pub fn check(&self, image: &NodeImage) -> Result<(), ToolError> {
        if self.version < NEW && (image.version.minor >= 36 || (!image.named && image.pinned)) {
            return Err(ToolError::TooOld { found: self.version, image: image.name.clone() });
        }
        Ok(())
    }
}

/// How a run of kind ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// It ended well.
    pub success: bool,
    /// How it ended, in words.
    pub status: String,
    /// All that it wrote, both streams.
    pub output: String,
}

impl Ran {
    /// The last lines, for a failure.
    #[must_use]
    pub fn last_lines(&self) -> Vec<String> {
        let lines: Vec<&str> = self.output.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LAST)..].iter().map(|line| (*line).to_owned()).collect()
    }
}

/// A child in a process group of its own: Ctrl-C at the terminal reaches this process only, and when it is dropped the whole group ends,
/// kind's own children (`docker run`) too.
struct Group {
    child: Child,
    group: Option<Pid>,
}

impl Drop for Group {
    fn drop(&mut self) {
        // Only while it was not waited for: after that the id may be another's.
        if self.child.id().is_some()
            && let Some(group) = self.group
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs a command to its end, gives each line of its output to `line` as it comes, and writes them to `log`. Dropped half-way, the command and
/// its children are killed.
///
/// # Errors
/// When it cannot be started or waited for.
pub async fn run(mut command: Command, log: Option<&Path>, line: &(dyn Fn(&str) + Sync)) -> std::io::Result<Ran> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let child = command.spawn()?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut group = Group { child, group };
    let mut log = match log {
        Some(path) => Some(tokio::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).await?),
        None => None,
    };
    let mut output = String::new();
    {
        let (send, mut receive) = tokio::sync::mpsc::channel::<String>(64);
        let streams = [
            group.child.stdout.take().map(|s| read(s, send.clone())).map(futures::future::FutureExt::left_future),
            group.child.stderr.take().map(|s| read(s, send.clone())).map(futures::future::FutureExt::right_future),
        ];
        drop(send);
        let reading = futures::future::join_all(streams.into_iter().flatten());
        let writing = async {
            while let Some(said) = receive.recv().await {
                line(&said);
                if let Some(log) = &mut log {
                    // A log that cannot be written is no reason to fail what it is about.
                    let _ = log.write_all(format!("{said}\n").as_bytes()).await;
                }
                output.push_str(&said);
                output.push('\n');
            }
        };
        futures::future::join(reading, writing).await;
    }
    if let Some(log) = &mut log {
        let _ = log.flush().await;
    }
    let status = group.child.wait().await?;
    Ok(Ran { success: status.success(), status: status.to_string(), output })
}

async fn read(stream: impl AsyncRead + Unpin, send: tokio::sync::mpsc::Sender<String>) {
    let mut reader = BufReader::new(stream);
    let mut bytes = Vec::new();
    // The stream ends with the child; an error ends it as well.
    while let Ok(1..) = reader.read_until(b'\n', &mut bytes).await {
        let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        bytes.clear();
        if send.send(text).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    use tokio::process::Command;

    use super::{Kind, NEW, ToolError, Version, locate, run};
    use crate::cluster::kind::image::choose;

    /// Another process writes the file: one that this process has open for writing while another thread forks cannot be run.
    fn script(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("kind");
        let write = "printf '#!/bin/sh\n%s\n' \"$2\" > \"$1\" && chmod 755 \"$1\"";
        let done = std::process::Command::new("sh").args(["-c", write, "sh"]).arg(&path).arg(text).status().expect("sh runs");
        assert!(done.success());
        path
    }

    #[test]
    fn versions_read() {
        let version = |major, minor, patch| Some(Version { major, minor, patch });
        for (text, expected) in [
            ("kind v0.33.0 go1.26.1 linux/amd64", version(0, 33, 0)),
            ("kind v0.34.0-alpha.12+abcdef go1.26 darwin/arm64", version(0, 34, 0)),
            ("v0.9.1", version(0, 9, 1)),
            ("kind (devel)", None),
            ("kind version", None),
            ("kind v0.x.1", None),
            ("", None),
        ] {
            assert_eq!(Version::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn an_old_kind_is_refused_for_new_images_only() {
        let kind = |minor| Kind { program: "kind".into(), version: Version { major: 0, minor, patch: 0 } };
        let check = |minor, image, kubernetes| kind(minor).check(&choose(image, kubernetes).expect("an image")).is_ok();
        assert!(check(32, None, None) && check(33, None, Some("1.34")));
        assert!(!check(31, None, None) && !check(31, Some("x:v1.36.1"), None) && !check(31, None, Some("1.34")));
        assert!(check(31, Some("x:v1.35.0"), None) && check(30, None, Some("1.34.2")));
        assert_eq!(NEW.to_string(), "0.32.0");
    }

    #[test]
    fn it_is_the_first_program_of_that_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let (empty, real) = (dir.path().join("a"), dir.path().join("b"));
        for folder in [&empty, &real] {
            std::fs::create_dir(folder).expect("made");
        }
        std::fs::write(empty.join("kind"), "not a program").expect("written");
        let file = script(&real, "true");
        let path = std::env::join_paths([&empty, &real]).expect("a path");
        assert_eq!(locate(None, &path), Some(file));
        assert_eq!(locate(Some(Path::new("/x")), &path), Some("/x".into()));
        assert_eq!(locate(None, empty.as_os_str()), None);
    }

    #[tokio::test]
    async fn it_is_asked_for_its_version() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = script(dir.path(), "echo kind v0.33.0 go1.26 linux/amd64");
        assert_eq!(Kind::ask(file).await.expect("a version").version.to_string(), "0.33.0");
        let file = script(dir.path(), "echo what >&2; exit 1");
        assert!(matches!(Kind::ask(file).await, Err(ToolError::Unreadable { said, .. }) if said == "what"));
        assert!(matches!(Kind::ask(dir.path().join("none")).await, Err(ToolError::Run { .. })));
    }

    #[tokio::test]
    async fn its_output_is_kept_whole_and_shown_as_it_comes() {
        let dir = tempfile::tempdir().expect("a folder");
        let log = dir.path().join("log");
        let file = script(dir.path(), "echo one; echo two >&2; printf 'three'; exit 3");
        let lines = Mutex::new(Vec::new());
        let ran = run(Command::new(file), Some(&log), &|line| lines.lock().expect("no panic").push(line.to_owned())).await.expect("it ran");
        assert!(!ran.success && ran.status.contains('3'), "{}", ran.status);
        let mut lines = lines.into_inner().expect("no panic");
        lines.sort();
        assert_eq!(lines, ["one", "three", "two"]);
        assert_eq!(std::fs::read_to_string(&log).expect("a log"), ran.output);
        assert_eq!(ran.last_lines().len(), 3);
    }

    #[tokio::test]
    async fn dropped_half_way_its_children_end_too() {
        let dir = tempfile::tempdir().expect("a folder");
        let mark = dir.path().join("pid");
        let file = script(dir.path(), &format!("sleep 60 & echo $! > {}; wait", mark.display()));
        let running = tokio::time::timeout(Duration::from_millis(400), run(Command::new(file), None, &|_| ()));
        assert!(running.await.is_err());
        let pid: i32 = std::fs::read_to_string(&mark).expect("it began").trim().parse().expect("a pid");
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        let deadline = Instant::now() + Duration::from_secs(5);
        // A killed process that nobody has waited for yet is a zombie.
        let lives = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
            !(stat.is_empty() || stat.contains(") Z "))
        };
        while cfg!(target_os = "linux") && lives() {
            assert!(Instant::now() < deadline, "the child's child ends");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
