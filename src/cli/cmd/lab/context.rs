//! The context backend: `up --context NAME` on a cluster that was there before, and `down`.

use std::time::Instant;

use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::args::{DownArgs, UpArgs};
use crate::cli::cmd::lab::{failure, lab_command, left_hint, next_commands, stopped, wanted as asked};
use crate::cli::interrupt;
use crate::cluster::context::{self, Plan, Wanted, down as downing, images::Images, kubeconfig, survey};
use crate::cluster::image::DriverWanted;
use crate::cluster::steps::Say;
use crate::cluster::{Backend, LabRecord};
use crate::ui;
use crate::ui::steps::{StepLog, text};

/// `up` on a context: looks, says what it found and what it will make, asks once, and makes it.
///
/// # Errors
/// When a lab cannot be made there; what this run made is undone then.
pub async fn up(app: &App, args: &UpArgs) -> Result<u8, Failure> {
    let terminal = &app.terminal;
    let started = Instant::now();
    let plan = interrupt::droppable(plan(app, args)).await?;
    found(app, &plan);
    let lines: Vec<String> = plan.lines().iter().map(|say| text(terminal, say)).collect();
    if args.dry_run {
        super::items(terminal, &lines)?;
        return Ok(0);
    }
    if !plan.is_known() {
        terminal.progress(terminal.text("context.will", &[]));
        for line in lines {
            terminal.progress(format!(" {} {line}", terminal.item_mark()));
        }
        consent(app, args, plan.context())?;
    }
    terminal.progress(terminal.text("up.begin", &[("lab", &app.lab), ("backend", &plan.context())]));
    let log = StepLog::new(terminal);
    let report = |event| log.report(event);
    let retain = args.images.retain;
    let work = |cancel: tokio_util::sync::CancellationToken| async move {
        context::up(plan, retain, &cancel, &report).await.map_err(|why| stopped(app, why, retain))
    };
    interrupt::undone(terminal, &left_hint(app), work).await?;
    let seconds = format!("{:.1}", started.elapsed().as_secs_f64());
    terminal.progress(terminal.text("up.ready", &[("seconds", &seconds)]));
    next_commands(app)?;
    Ok(0)
}

async fn plan(app: &App, args: &UpArgs) -> Result<Plan, Failure> {
    let current = app.environment.current_dir.clone().unwrap_or_else(|| "/".into());
    let named = args.on.kubeconfig.as_ref().map(|path| current.join(path));
    let variable = app.environment.path("KUBECONFIG");
    let home = app.environment.path("HOME");
    let files = kubeconfig::files(named.as_deref(), variable.as_deref().map(std::path::Path::as_os_str), home.as_deref());
    let usual = asked(app, args)?;
    let wanted = Wanted {
        context: args.on.context.clone(),
        kubeconfigs: files.into_iter().map(|path| current.join(path)).collect(),
        learner: args.on.learner.clone(),
        driver_image: args.images.driver_image.clone(),
        node_selector: (!args.on.nodes_with.is_empty()).then(|| args.on.nodes_with.iter().cloned().collect()),
        gpus: usual.gpus,
        profile: usual.profile,
    };
    context::plan(&app.home, &app.lab, &wanted, images(app, Some(args))?, &app.proxies()).await.map_err(|error| failure(app, error))
}

/// How the engine is found, and which images are wanted.
fn images(app: &App, args: Option<&UpArgs>) -> Result<Images, Failure> {
    let of = args.map(|args| args.images.clone()).unwrap_or_default();
    let driver = DriverWanted { binary: of.driver_binary, image: of.driver_image, source: of.driver_source, executable: app.executable()? };
    Ok(Images::new(app.environment.engine(), driver, of.workload_image, app.home.state().to_path_buf()))
}

/// Says what was found.
fn found(app: &App, plan: &Plan) {
    let terminal = &app.terminal;
    let survey = &plan.survey;
    let workers: Vec<&str> = survey.workers().map(|node| node.name.as_str()).collect();
    let shown = if workers.len() > 3 { format!("{}, ... {}", workers[0], workers[workers.len() - 1]) } else { workers.join(", ") };
    let mut lines = vec![
        Say::new("context.found").with("context", plan.context()).with("server", &plan.server).with("version", &survey.version),
        Say::new("context.found-nodes").with("all", &survey.nodes.len()).with("count", &workers.len()).with("nodes", &shown),
        Say::new("context.found-served").with("versions", &survey.served.join(", ")),
        Say::new("context.found-gates").with("on", &survey.gates.on().collect::<Vec<_>>().join(", ")),
    ];
    let off: Vec<&str> = survey.gates.off().collect();
    if !off.is_empty() {
        lines.push(Say::new("context.found-gates-off").with("off", &off.join(", ")));
    }
    for line in lines {
        terminal.progress(text(terminal, &line));
    }
    for note in survey::notes(survey) {
        terminal.progress(format!(" ! {}", text(terminal, &note)));
    }
}

/// Asks once whether to go on; without a terminal only `--yes` answers.
fn consent(app: &App, args: &UpArgs, context: &str) -> Result<(), Failure> {
    if args.on.yes {
        return Ok(());
    }
    let refused = |message: &str| Failure::new(Kind::Refused, "DL-CTX-03", message.to_owned());
    if !app.environment.is_interactive() {
        return Err(refused("a cluster that others may use is not changed without being asked to, and there is no terminal to ask on")
            .hint("say yes beforehand: add `--yes`; see what would be done: add `--dry-run`"));
    }
    if ui::ask::confirm(&app.terminal.text("context.ask", &[("context", &context)]))? {
        Ok(())
    } else {
        Err(refused("not done: the answer was no"))
    }
}

/// `down` on a context.
///
/// # Errors
/// When something of the lab cannot be removed.
pub async fn down(app: &App, args: &DownArgs) -> Result<u8, Failure> {
    let terminal = &app.terminal;
    if args.dry_run {
        return interrupt::droppable(preview(app, args)).await;
    }
    let log = StepLog::new(terminal);
    let report = |event| log.report(event);
    let proxies = app.proxies();
    let images = images(app, None)?;
    let work =
        async { downing::down(&app.home, &app.lab, args.purge, &images, &proxies, &report).await.map_err(|error| failure(app, error)) };
    let done = interrupt::droppable(work).await.map_err(|failure| match failure.kind {
        Kind::Interrupted => failure.hint(format!("go on: `{}`", lab_command(app, "down"))),
        _ => failure,
    })?;
    let id = match (done.removed.is_some(), done.purged) {
        (true, true) => "context.down-and-purged",
        (true, false) => "context.down",
        (false, true) => "down.purged",
        (false, false) => "down.nothing",
    };
    terminal.progress(format!(" {} {}", terminal.good_mark(), terminal.text(id, &[("lab", &app.lab)])));
    Ok(0)
}

async fn preview(app: &App, args: &DownArgs) -> Result<u8, Failure> {
    let terminal = &app.terminal;
    let folder = app.folder();
    let mut lines = Vec::new();
    if let Some(record) = LabRecord::read(&folder).map_err(Failure::from)?.filter(|record| record.backend == Backend::Context) {
        let preview = downing::preview(&record, &app.proxies()).await.map_err(|error| failure(app, error))?;
        lines.extend(preview.lessons.iter().map(|name| terminal.text("context.plan-remove", &[("object", &format!("namespace {name}"))])));
        lines.extend(preview.objects.iter().map(|object| terminal.text("context.plan-remove", &[("object", object)])));
        if !preview.others.is_empty() {
            lines.push(terminal.text("context.plan-stays", &[("others", &preview.others.join(", "))]));
        }
    }
    if args.purge && folder.path.exists() {
        lines.push(terminal.text("plan.purge", &[("folder", &folder.path.display())]));
    }
    if lines.is_empty() {
        lines.push(terminal.text("plan.nothing", &[]));
    }
    super::items(terminal, &lines)?;
    Ok(0)
}
