//! `up`, `down`, `env`, `kubectl`: where a lab runs is decided here, each backend has a file.

pub mod context;
pub mod embedded;
pub mod status;

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use crate::base::failure::{Failure, Kind};
use crate::base::shell;
use crate::cli::app::App;
use crate::cli::args::{BackendArg, DownArgs, KubectlArgs, UpArgs};
use crate::cli::interrupt;
use crate::cluster::embedded::Wanted;
use crate::cluster::steps::Stopped;
use crate::cluster::{Backend, ClusterError, LabRecord, serve};
use crate::ui;
use crate::ui::terminal::Style;

/// `up`.
///
/// # Errors
/// When the lab cannot be brought up; what this run made is undone then.
pub async fn up(app: &App, args: &UpArgs) -> Result<u8, Failure> {
    match backend(app, args)? {
        Backend::Embedded if args.foreground => embedded::up(app, args).await,
        Backend::Embedded => interrupt::droppable(embedded::up(app, args)).await,
        Backend::Context => context::up(app, args).await,
        other => Err(Failure::new(Kind::Usage, "DL-BACKEND-01", format!("this dralab cannot bring a lab up on backend {other}"))),
    }
}

/// Where the lab runs, or is to run.
fn backend(app: &App, args: &UpArgs) -> Result<Backend, Failure> {
    if args.on.context.is_some() {
        return Ok(Backend::Context);
    }
    let record = LabRecord::read(&app.folder()).map_err(Failure::from)?;
    let asked = args.backend.map(|asked| match asked {
        BackendArg::Embedded => Backend::Embedded,
    });
    let there = record.map(|r| r.backend);
    match (asked, there) {
        (Some(asked), Some(Backend::Context)) if asked != Backend::Context => {
            Err(Failure::new(Kind::Refused, "DL-BACKEND-02", format!("lab \"{}\" is on a cluster that was there before", app.lab))
                .hint(format!("take it down first: `{}`, or use another name: `--lab NAME`", lab_command(app, "down"))))
        }
        _ => Ok(asked.or(there).unwrap_or(Backend::Embedded)),
    }
}

/// `down`.
///
/// # Errors
/// When something of the lab cannot be removed.
pub async fn down(app: &App, args: &DownArgs) -> Result<u8, Failure> {
    let record = LabRecord::read(&app.folder());
    match record.as_ref().ok().and_then(Option::as_ref).map(|record| record.backend) {
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
