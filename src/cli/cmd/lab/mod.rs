//! `up`, `down`, `env`, `kubectl`: where a lab runs is decided here, each backend has a file.

pub mod context;
pub mod embedded;
pub mod kind;
pub mod status;

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;

use crate::base::failure::{Failure, Kind};
use crate::base::shell;
use crate::cli::app::App;
use crate::cli::args::{BackendArg, DownArgs, KubectlArgs, UpArgs};
use crate::cli::interrupt;
use crate::cluster::embedded::Wanted;
use crate::cluster::kind::plan::other_backend;
use crate::cluster::steps::Stopped;
use crate::cluster::{Backend, ClusterError, LabRecord, serve};
use crate::ui;
use crate::ui::terminal::{Style, Terminal};

/// `up`.
///
/// # Errors
/// When the lab cannot be brought up; what this run made is undone then.
pub async fn up(app: &App, args: &UpArgs) -> Result<u8, Failure> {
    let (backend, because) = interrupt::droppable(choose(app, args)).await?;
    if let Some(flag) = misplaced(backend, args) {
        let mut failure = Failure::new(Kind::Usage, "DL-BACKEND-01", format!("{flag} makes no sense with backend {backend}"));
        if let Some(because) = because {
            failure = failure.hint(because);
        }
        return Err(failure);
    }
    match backend {
        Backend::Embedded if args.foreground => embedded::up(app, args).await,
        Backend::Embedded => interrupt::droppable(embedded::up(app, args)).await,
        Backend::Kind => kind::up(app, args).await,
        Backend::Context => context::up(app, args).await,
    }
}

/// A flag that the backend has no use for.
fn misplaced(backend: Backend, args: &UpArgs) -> Option<&'static str> {
    let foreground = args.foreground.then_some("--foreground");
    match backend {
        Backend::Embedded => args.kind.first().or_else(|| args.images.first()),
        Backend::Kind => foreground,
        Backend::Context => foreground.or_else(|| args.kind.first()),
    }
}

/// Where the lab is to run, and why, where nobody said so: as the flags say; as the lab is; as `DRALAB_BACKEND` says; on kind where kind and
/// an engine are there; else embedded.
async fn choose(app: &App, args: &UpArgs) -> Result<(Backend, Option<String>), Failure> {
    let asked = if args.on.context.is_some() { Some(Backend::Context) } else { args.backend.map(of_arg) };
    if let (Some(backend), Some(other)) = (args.backend.map(of_arg), asked)
        && backend != other
    {
        return Err(Failure::new(Kind::Usage, "DL-BACKEND-01", format!("--context makes no sense with backend {backend}")));
    }
    let there = LabRecord::read(&app.folder()).map_err(Failure::from)?.map(|record| record.backend);
    match (asked, there) {
        (Some(asked), Some(there)) if asked != there => Err(failure(app, other_backend(&app.lab, there, asked))),
        (Some(asked), _) => Ok((asked, None)),
        (None, Some(there)) => Ok((there, Some(app.terminal.text("backend.recorded", &[("lab", &app.lab), ("backend", &there)])))),
        (None, None) => {
            if let Some(name) = app.environment.variable("DRALAB_BACKEND") {
                let asked = BackendArg::from_str(name, true).map_err(|_| {
                    Failure::new(Kind::Usage, "DL-BACKEND-03", format!("DRALAB_BACKEND is {name:?}, and there is no such backend"))
                        .hint("it is one of: embedded, kind")
                })?;
                return Ok((of_arg(asked), Some(format!("DRALAB_BACKEND={name}"))));
            }
            let chosen = if kind::is_there(app).await { Backend::Kind } else { Backend::Embedded };
            Ok((chosen, Some(app.terminal.text("backend.chosen", &[("backend", &chosen)]))))
        }
    }
}

const fn of_arg(arg: BackendArg) -> Backend {
    match arg {
        BackendArg::Embedded => Backend::Embedded,
        BackendArg::Kind => Backend::Kind,
    }
}

/// `down`.
///
/// # Errors
/// When something of the lab cannot be removed.
pub async fn down(app: &App, args: &DownArgs) -> Result<u8, Failure> {
    let record = match LabRecord::read(&app.folder()) {
        Ok(record) => record,
        // The way out for a record that cannot be read: only an embedded lab has all that is its own in its folder.
        Err(_) if args.purge => None,
        Err(error) => return Err(Failure::from(error)),
    };
    match record.map(|record| record.backend) {
        Some(Backend::Kind) => kind::down(app, args).await,
        Some(Backend::Context) => context::down(app, args).await,
        _ => embedded::down(app, args).await,
    }
}

/// The failure of a backend, with its advice in the user's language.
#[must_use]
pub fn failure(app: &App, error: ClusterError) -> Failure {
    let advice: Vec<String> = error.advice().iter().map(|say| ui::steps::text(&app.terminal, say)).collect();
    let mut failure = Failure::from(error);
    failure.hints.extend(advice);
    failure
}

/// How a list of steps was stopped, as a failure. A run that kept what it made says how to remove it.
#[must_use]
pub fn stopped(app: &App, stopped: Stopped, retained: bool) -> Failure {
    let failure = match stopped {
        Stopped::Failed(error) => failure(app, error),
        Stopped::Interrupted => interrupt::interrupted("Ctrl-C"),
    };
    if retained { failure.hint(left_hint(app)) } else { failure }
}

/// How to remove what is left of a lab.
#[must_use]
pub fn left_hint(app: &App) -> String {
    app.terminal.text("up.left", &[("command", &lab_command(app, "down"))])
}

/// The last lines of `up`: what to run next.
///
/// # Errors
/// When standard output cannot be written.
pub fn next_commands(app: &App) -> Result<(), Failure> {
    let terminal = &app.terminal;
    let kubeconfig = app.folder().kubeconfig();
    terminal.line("")?;
    terminal.line(format!("  export KUBECONFIG={}", shell::quote(&kubeconfig)))?;
    terminal.line(format!("  {}", terminal.styled(Style::Literal, &lab_command(app, "lesson next"))))
}

/// A command of dralab for this lab.
#[must_use]
pub fn lab_command(app: &App, command: &str) -> String {
    if app.lab == "dra-lab" { format!("dralab {command}") } else { format!("dralab --lab {} {command}", app.lab) }
}

/// What the flags ask for. A profile that is a file becomes an absolute path, since the lab's process runs elsewhere.
fn wanted(app: &App, args: &UpArgs) -> Result<Wanted, Failure> {
    let profile = match &args.profile {
        Some(name) if name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml") => {
            let path = app.environment.current_dir.as_deref().unwrap_or_else(|| Path::new("/")).join(name);
            if !path.is_file() {
                return Err(Failure::new(Kind::Usage, "DL-PROF-01", format!("there is no profile file {}", path.display())));
            }
            Some(path.display().to_string())
        }
        other => other.clone(),
    };
    if let Some(name) = profile.as_deref() {
        serve::check_profile(name).map_err(Failure::from)?;
    }
    Ok(Wanted { nodes: args.nodes, gpus: args.gpus, profile, port: args.port })
}

/// `env`.
///
/// # Errors
/// When there is no lab.
pub fn env(app: &App) -> Result<u8, Failure> {
    let record = app.record()?;
    app.terminal.line(format!("export KUBECONFIG={}", shell::quote(&record.kubeconfig)))?;
    Ok(0)
}

/// `kubectl -- …`: the user's kubectl with the lab's kubeconfig. Its exit code is passed on.
///
/// # Errors
/// When there is no lab or no kubectl.
pub async fn kubectl(app: &App, args: &KubectlArgs) -> Result<u8, Failure> {
    let record = app.record()?;
    let program = app.environment.path("DRALAB_KUBECTL").unwrap_or_else(|| PathBuf::from("kubectl"));
    let rest: Vec<_> = args.args.iter().skip_while(|a| *a == "--").cloned().collect();
    let status =
        tokio::process::Command::new(&program).args(rest).env("KUBECONFIG", &record.kubeconfig).status().await.map_err(|error| {
            Failure::new(Kind::Failed, "DL-KUBECTL-01", format!("cannot run {}", program.display()))
                .because(&error)
                .hint("install kubectl, name it with `export DRALAB_KUBECTL=PATH`, or use `dralab get`, `dralab describe`, `dralab apply`")
        })?;
    let code = status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}

/// A plan on standard output, a line each.
fn items(terminal: &Terminal, lines: &[String]) -> Result<(), Failure> {
    lines.iter().try_for_each(|line| terminal.line(format!("{} {line}", terminal.item_mark())))
}
