//! The lab's process: started in the background, told ready by one line on its standard output, stopped by a signal.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::base::failure::Failure;
use crate::cluster::{ClusterError, LabFolder, LabSpec};

/// The one line that a lab's process writes when it is ready, or when it could not become so.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Ready {
    /// It serves.
    Ready,
    /// It could not start.
    Failed {
        /// The failure, as the process has it.
        failure: OwnedFailure,
    },
}

/// A failure that crossed a pipe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OwnedFailure {
    /// Stable id.
    pub id: String,
    /// Message.
    pub message: String,
    /// Causes.
    pub causes: Vec<String>,
    /// Hints.
    pub hints: Vec<String>,
}

impl From<&Failure> for OwnedFailure {
    fn from(failure: &Failure) -> Self {
        OwnedFailure {
            id: failure.id.to_owned(),
            message: failure.message.clone(),
            causes: failure.causes.clone(),
            hints: failure.hints.clone(),
        }
    }
}

/// A lab process that was started and is not yet ready.
#[derive(Debug)]
pub struct Starting {
    child: Child,
    log: PathBuf,
}

/// Starts the lab's process in the background: own process group, no terminal, its log in the lab's folder.
///
/// # Errors
/// When the log cannot be opened or the process not be started.
pub fn start(executable: &Path, folder: &LabFolder, spec: &LabSpec) -> Result<Starting, ClusterError> {
    let log_path = folder.log();
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&log_path).map_err(ClusterError::file("write", &log_path))?;
    let spec = serde_json::to_string(spec).map_err(|error| ClusterError::Record { path: folder.record(), reason: error.to_string() })?;
    let mut command = std::process::Command::new(executable);
    command
        .arg("lab-process")
        .arg("--lab")
        .arg(&folder.name)
        .arg("--dir")
        .arg(&folder.path)
        .arg("--spec")
        .arg(spec)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(log))
        .process_group(0);
    let child = Command::from(command).spawn().map_err(|source| ClusterError::Spawn { source })?;
    Ok(Starting { child, log: log_path })
}

impl Starting {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for its ready line.
    ///
    /// # Errors
    /// When it ends, says that it failed, or is not ready in time; it is stopped then.
    pub async fn ready(mut self, bound: Duration) -> Result<(), ClusterError> {
        let Some(stdout) = self.child.stdout.take() else {
            return Err(ClusterError::Spawn { source: std::io::Error::other("no pipe to its standard output") });
        };
        let mut lines = BufReader::new(stdout).lines();
        let line = match tokio::time::timeout(bound, lines.next_line()).await {
            Ok(Ok(Some(line))) => line,
            Ok(_) => {
                // It closed its standard output without a word: it is ending, wait for it so that no zombie stays.
                let status = self.child.wait().await;
                let said = last_line(&self.log).unwrap_or_else(|| status.map_or_else(|e| e.to_string(), |s| s.to_string()));
                return Err(ClusterError::Died { said, failure: None });
            }
            Err(_) => {
                self.stop().await;
                return Err(ClusterError::NotReady {
                    seconds: bound.as_secs(),
                    last: last_line(&self.log).unwrap_or_else(|| "nothing".to_owned()),
                });
            }
        };
        match serde_json::from_str(&line) {
            Ok(Ready::Ready) => Ok(()),
            Ok(Ready::Failed { failure }) => {
                let _ = self.child.wait().await;
                Err(ClusterError::Died { said: failure.message.clone(), failure: Some(Box::new(into_failure(&failure))) })
            }
            Err(_) => {
                self.stop().await;
                Err(ClusterError::Died { said: line, failure: None })
            }
        }
    }

    /// Ends it, politely first.
    pub async fn stop(&mut self) {
        if let Some(pid) = self.child.id().and_then(to_pid) {
            // It may have ended in the meantime; then there is nothing to do.
            let _ = kill_process(pid, Signal::TERM);
        }
        if tokio::time::timeout(Duration::from_secs(5), self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

/// Ids that a lab process can fail with keep their meaning across the pipe.
fn into_failure(failure: &OwnedFailure) -> Failure {
    const IDS: &[(&str, crate::base::failure::Kind)] = &[
        ("DL-PORT-01", crate::base::failure::Kind::Failed),
        ("DL-STORE-01", crate::base::failure::Kind::Failed),
        ("DL-STORE-02", crate::base::failure::Kind::Failed),
        ("DL-SOCK-01", crate::base::failure::Kind::Failed),
        ("DL-SOCK-02", crate::base::failure::Kind::Refused),
        ("DL-FILE-01", crate::base::failure::Kind::Failed),
        ("DL-PROF-01", crate::base::failure::Kind::Usage),
        ("DL-LIMIT-01", crate::base::failure::Kind::Failed),
        ("DL-LAB-02", crate::base::failure::Kind::Failed),
        ("DL-LAB-09", crate::base::failure::Kind::Failed),
    ];
    let (id, kind) = IDS.iter().find(|(id, _)| *id == failure.id).copied().unwrap_or(("DL-LAB-05", crate::base::failure::Kind::Failed));
    Failure { id, kind, message: failure.message.clone(), causes: failure.causes.clone(), hints: failure.hints.clone() }
}

/// Asks the process of a lab to end and waits until it has given its lock back; insists after a while.
///
/// The process is the one that holds the lock; `recorded` counts where the lock names none. A record may be of an earlier process
/// (an `up` that was interrupted), and its id may be anybody's by now.
///
/// # Errors
/// When it does not end.
pub async fn stop(folder: &LabFolder, recorded: Option<u32>, bound: Duration) -> Result<(), ClusterError> {
    if !folder.is_running() {
        return Ok(());
    }
    let mut pid = recorded;
    for signal in [Signal::TERM, Signal::KILL] {
        pid = folder.process_id().or(recorded);
        if let Some(pid) = pid.and_then(to_pid) {
            let _ = kill_process(pid, signal);
        }
        let waiting = folder.clone();
        let stopped = tokio::task::spawn_blocking(move || waiting.wait_until_stopped(bound)).await;
        if let Ok(stopped) = stopped
            && stopped?
        {
            return Ok(());
        }
    }
    Err(ClusterError::DidNotEnd { pid: pid.unwrap_or_default(), seconds: bound.as_secs() * 2 })
}

/// Ends a child of this process and waits for it, insisting after a while. It may not have taken the lab's lock yet, so the lock says
/// nothing about it. A child that was waited for already is left alone: its id may be another's by now.
pub fn end_child(pid: Pid, bound: Duration) {
    for signal in [Signal::TERM, Signal::KILL] {
        let deadline = Instant::now() + bound;
        // Waiting comes first: an error says that it is not, or no longer, a child of ours.
        let mut told = false;
        while Instant::now() < deadline {
            if !matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)) {
                return;
            }
            if !told {
                let _ = kill_process(pid, signal);
                told = true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// The last line that a process wrote into its log.
fn last_line(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    text.lines().rev().find(|l| !l.trim().is_empty()).map(str::to_owned)
}
