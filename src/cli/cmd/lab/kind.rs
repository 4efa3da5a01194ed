//! The kind backend: `up`, `down`.

use std::time::{Duration, Instant};

use crate::base::failure::{Failure, Kind};
use crate::base::shell;
use crate::cli::app::App;
use crate::cli::args::{DownArgs, FeaturesArg, UpArgs};
use crate::cli::cmd::lab::{failure, left_hint, next_commands, stopped, wanted};
use crate::cli::interrupt;
use crate::cluster::engine::{self, Engine};
use crate::cluster::kind::{self, Environment, Wanted, tool};
use crate::cluster::steps::StepEvent;
use crate::cluster::{LabRecord, kind::lab::Lab};
use crate::model::gates::Wanted as Features;
use crate::ui::steps::{StepLog, text};

/// How long an engine may take to answer before a lab without a backend of its own goes without it.
const GLANCE: Duration = Duration::from_secs(1);

/// `up`.
///
/// # Errors
/// When a step fails or the user interrupts; what this run made is undone then, unless `--retain`.
pub async fn up(app: &App, args: &UpArgs) -> Result<u8, Failure> {
    let wanted = asked(app, args)?;
    let environment = environment(app)?;
    if args.dry_run {
        return dry_run(app, wanted, environment);
    }
    bring_up(app, wanted, environment, args.images.retain).await?;
    next_commands(app)?;
    Ok(0)
}

/// Brings the lab up and shows the steps on stderr.
///
/// # Errors
/// When a step fails or the user interrupts.
pub async fn bring_up(app: &App, wanted: Wanted, environment: Environment, retain: bool) -> Result<(), Failure> {
    let terminal = &app.terminal;
    let started = Instant::now();
    terminal.progress(terminal.text("up.begin", &[("lab", &app.lab), ("backend", &"kind")]));
    let log = StepLog::new(terminal);
    let report = |event: StepEvent| log.report(event);
    let record = app.folder().record();
    let was_there = record.exists();
    interrupt::undone(terminal, &left_hint(app), async |cancel| {
        let ended = kind::up(&app.home, &app.lab, wanted, environment, retain, &cancel, &report).await;
        // Where the record stays, something of this run does, too.
        ended.map_err(|why| stopped(app, why, !was_there && record.exists()))
    })
    .await?;
    let seconds = format!("{:.1}", started.elapsed().as_secs_f64());
    terminal.progress(terminal.text("up.ready", &[("seconds", &seconds)]));
    Ok(())
}

fn dry_run(app: &App, wanted: Wanted, environment: Environment) -> Result<u8, Failure> {
    let terminal = &app.terminal;
    let plan = kind::plan_of(&app.home, &app.lab, wanted).map_err(|error| failure(app, error))?;
    let there = plan.record.is_some();
    let lab = Lab::new(app.folder(), plan, environment, false);
    if there {
        terminal.line(format!("{} {}", terminal.item_mark(), terminal.text("kind.plan-there", &[("lab", &app.lab)])))?;
    }
    for step in kind::step_list() {
        terminal.line(format!("{} {}", terminal.item_mark(), text(terminal, &step.describe(&lab))))?;
    }
    Ok(0)
}

/// What the flags ask for.
fn asked(app: &App, args: &UpArgs) -> Result<Wanted, Failure> {
    let absolute = |path: &std::path::PathBuf| app.environment.current_dir.as_ref().map_or_else(|| path.clone(), |dir| dir.join(path));
    Ok(Wanted {
        spec: wanted(app, args)?,
        node_image: args.kind.node_image.clone(),
        kubernetes: args.kind.kubernetes.clone(),
        features: args.kind.features.map(|features| match features {
            FeaturesArg::Stable => Features::Stable,
            FeaturesArg::Beta => Features::Beta,
            FeaturesArg::All => Features::All,
        }),
        gates: args.kind.feature_gates.clone(),
        workload_image: args.images.workload_image.clone(),
        driver_image: args.images.driver_image.clone(),
        driver_binary: args.images.driver_binary.as_ref().map(absolute),
        driver_source: args.images.driver_source.as_ref().map(absolute),
    })
}

/// What of the environment the kind backend depends on.
///
/// # Errors
/// When the system cannot tell where this program's file is.
pub fn environment(app: &App) -> Result<Environment, Failure> {
    let either = |name: &'static str| {
        let lower = name.to_lowercase();
        app.environment.variable(name).or_else(|| app.environment.variable(&lower)).map(|value| (name, value.to_owned()))
    };
    Ok(Environment {
        engine: app.environment.engine(),
        kind: app.environment.path("DRALAB_KIND"),
        path: app.environment.path("PATH").unwrap_or_default().into_os_string(),
        network: app.environment.variable("KIND_EXPERIMENTAL_DOCKER_NETWORK").map(str::to_owned),
        proxies: ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"].into_iter().filter_map(either).collect(),
        client: app.proxies(),
        executable: app.executable()?,
    })
}

/// Whether kind and an engine that answers at once are there.
pub async fn is_there(app: &App) -> bool {
    let path = app.environment.path("PATH").unwrap_or_default();
    let Some(program) = tool::locate(app.environment.path("DRALAB_KIND").as_deref(), path.as_os_str()) else { return false };
    let Ok(address) = engine::choose(&app.environment.engine()) else { return false };
    let answers = async { Engine::connect(&address).await.is_ok() && tool::Kind::ask(program).await.is_ok() };
    tokio::time::timeout(GLANCE, answers).await.unwrap_or(false)
}

/// `down`.
///
/// # Errors
/// When the engine does not answer, or something cannot be removed.
pub async fn down(app: &App, args: &DownArgs) -> Result<u8, Failure> {
    let environment = environment(app)?;
    if args.dry_run {
        return dry_down(app, args, &environment).await;
    }
    let terminal = &app.terminal;
    let log = StepLog::new(terminal);
    let begin = crate::cluster::steps::Say::new("kind.down").with("lab", &app.lab);
    log.report(StepEvent::Begin(begin));
    let done = kind::down(&app.home, &app.lab, &environment, args.purge).await.map_err(|error| {
        log.report(StepEvent::Failed);
        failure(app, error)
    })?;
    let mut said = crate::cluster::steps::Say::new(if args.purge { "kind.purged" } else { "kind.downed" }).with("lab", &app.lab);
    if done.containers.is_empty() {
        said = crate::cluster::steps::Say::new("kind.downed-empty").with("lab", &app.lab);
    } else {
        said = said.with("containers", &done.containers.join(", "));
    }
    log.report(StepEvent::Done(said));
    if !done.foreign.is_empty() {
        terminal.progress(terminal.text("kind.foreign-left", &[("containers", &done.foreign.join(", "))]));
    }
    if let Some(why) = done.without_engine {
        terminal.progress(terminal.text("kind.without-engine", &[("why", &why)]));
    }
    Ok(0)
}

async fn dry_down(app: &App, args: &DownArgs, environment: &Environment) -> Result<u8, Failure> {
    let terminal = &app.terminal;
    let folder = app.folder();
    let Some(record) = LabRecord::read(&folder).map_err(Failure::from)? else { return Ok(Kind::NoLab.exit_code()) };
    let there = kind::look(environment, &record).await.map_err(|error| failure(app, error))?;
    let mut lines: Vec<String> =
        there.containers.iter().map(|node| terminal.text("kind.plan-container", &[("container", &node.name)])).collect();
    lines.extend(there.network.iter().map(|network| terminal.text("kind.plan-network", &[("network", network)])));
    lines.extend(there.foreign.iter().map(|name| terminal.text("kind.plan-foreign", &[("container", name)])));
    let path = shell::quote(&folder.path);
    lines.push(terminal.text(if args.purge { "plan.purge" } else { "kind.plan-files" }, &[("folder", &path)]));
    super::items(terminal, &lines)?;
    Ok(0)
}
