//! `doctor`: gathers the facts, runs the checks, and shows what they found.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kube::Client;

use crate::base::clock::SystemClock;
use crate::base::failure::{Failure, Kind};
use crate::base::nearest::levenshtein;
use crate::base::shell;
use crate::cli::app::App;
use crate::cli::args::{DoctorArgs, Format};
use crate::cli::cmd::lab::lab_command;
use crate::client::connect;
use crate::cluster::LabRecord;
use crate::cluster::engine::{Engine, EngineEnvironment};
use crate::doctor::bundle::{self, BundleError};
use crate::doctor::checks::CHECKS;
use crate::doctor::facts::Part;
use crate::doctor::fix::{Fix, Means};
use crate::doctor::gather::{Asked, HostEnvironment};
use crate::doctor::{Absent, Blind, Facts, Report, Severity, examine, gather};
use crate::ui;

/// `doctor`.
///
/// # Errors
/// When an id is not one of a check, or a context does not exist.
pub async fn run(app: &App, args: &DoctorArgs) -> Result<u8, Failure> {
    let terminal = &app.terminal;
    known(&args.ids)?;
    if args.list {
        match args.output {
            Format::Json => terminal.line(ui::doctor::list_as_json(terminal).to_string())?,
            Format::Text => ui::doctor::list(terminal)?,
        }
        return Ok(0);
    }
    let asked = asked(app, args).await?;
    let (mut facts, engine) = gather::facts(&asked, &SystemClock).await;
    let mut report = examine(&facts, &args.ids);
    if args.output == Format::Text {
        ui::doctor::render(terminal, &facts, &report, app.columns())?;
    }
    let mut made = Vec::new();
    if args.fix {
        made = fix(app, args, &asked, &facts, &report, engine.as_ref().ok()).await?;
        if !made.is_empty() {
            terminal.progress(terminal.text("doctor.fix.again", &[]));
            facts = gather::facts(&asked, &SystemClock).await.0;
            report = examine(&facts, &args.ids);
            if args.output == Format::Text {
                ui::doctor::render(terminal, &facts, &report, app.columns())?;
            }
        }
    }
    let mut answer = ui::doctor::as_json(terminal, &facts, &report);
    if args.fix {
        answer["fixed"] = made.iter().map(|fix| ui::doctor::say(terminal, &fix.describe())).collect();
    }
    if let Some(path) = &args.bundle {
        let path = app.environment.current_dir.as_deref().map_or_else(|| path.clone(), |dir| dir.join(path));
        let files = bundle::write(&path, &facts, &answer, &app.folder().path, app.environment.path("HOME").as_deref())
            .map_err(|error| bundle_failure(&error))?;
        terminal.progress(terminal.text("doctor.bundle", &[("path", &path.display()), ("files", &files.len())]));
        answer["bundle"] = path.display().to_string().into();
    }
    match args.output {
        Format::Json => terminal.line(answer.to_string())?,
        Format::Text => footer(app, args, &facts, &report)?,
    }
    Ok(if report.worst() == Some(Severity::Blocker) { Kind::NotSatisfied.exit_code() } else { 0 })
}

fn bundle_failure(error: &BundleError) -> Failure {
    let kind = if matches!(error, BundleError::Exists(_)) { Kind::Refused } else { Kind::Failed };
    let failure = Failure::new(kind, "DL-DOC-03", error.to_string());
    match std::error::Error::source(error) {
        Some(source) => failure.because(source),
        None if kind == Kind::Refused => failure.hint("name a file that is not there yet: `dralab doctor --bundle FILE`"),
        None => failure,
    }
}

/// Says what would be done, asks, and does it. Returns what was done.
async fn fix(
    app: &App,
    args: &DoctorArgs,
    asked: &Asked,
    facts: &Facts,
    report: &Report,
    engine: Option<&Engine>,
) -> Result<Vec<Fix>, Failure> {
    let terminal = &app.terminal;
    let fixes: BTreeSet<Fix> = report.findings().flat_map(|(_, finding)| finding.fixes.iter().cloned()).collect();
    if fixes.is_empty() {
        terminal.progress(terminal.text("doctor.fix.nothing", &[]));
        return Ok(Vec::new());
    }
    terminal.note("");
    terminal.note(terminal.text("doctor.fix.plan", &[]));
    for fix in &fixes {
        terminal.note(format!(" {} {}", terminal.item_mark(), ui::doctor::say(terminal, &fix.describe())));
    }
    if !args.yes {
        if !app.environment.is_interactive() {
            return Err(Failure::new(Kind::Usage, "DL-DOC-04", "nobody can be asked here")
                .hint("do it without asking: `dralab doctor --fix --yes`"));
        }
        if !ui::ask::confirm(&terminal.text("doctor.fix.ask", &[]))? {
            return Ok(Vec::new());
        }
    }
    let client = asked.target.as_ref().ok().map(|(client, _)| client);
    let parameters = match (client, &facts.lab.record) {
        (Some(client), Ok(record)) => gather::parameters(client, record).await.ok().flatten(),
        _ => None,
    };
    let means = Means { home: &app.home, engine, client, parameters: parameters.as_ref() };
    let mut made = Vec::new();
    for fix in fixes {
        let text = ui::doctor::say(terminal, &fix.describe());
        let step = ui::steps::begin(terminal, &text);
        match fix.make(&means).await {
            Ok(()) => {
                step.done(&text);
                made.push(fix);
            }
            Err(failure) => {
                step.failed(&text);
                ui::failure::render(terminal, &failure);
            }
        }
    }
    Ok(made)
}

/// Refuses an id that no check has.
fn known(ids: &[String]) -> Result<(), Failure> {
    for id in ids {
        if !CHECKS.iter().any(|check| check.id.eq_ignore_ascii_case(id)) {
            let near = CHECKS.iter().map(|c| c.id).min_by_key(|known| levenshtein(known, &id.to_ascii_uppercase()));
            let failure = Failure::new(Kind::Usage, "DL-DOC-01", format!("there is no check \"{id}\""));
            let failure = near.map_or(failure.clone(), |near| failure.hint(format!("near to it: {near}")));
            return Err(failure.hint("see all: `dralab doctor --list`"));
        }
    }
    Ok(())
}

async fn asked(app: &App, args: &DoctorArgs) -> Result<Asked, Failure> {
    let environment = &app.environment;
    let of_lab = args.context.is_none() && args.kubeconfig.is_none();
    let variable = |name: &str| environment.variable(name).map(str::to_owned);
    let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"];
    // A lab in containers is in the engine that it was made in.
    let recorded =
        LabRecord::read(&app.folder()).ok().flatten().filter(|_| of_lab).and_then(|r| r.kind).map(|k| k.engine).filter(|e| !e.is_empty());
    Ok(Asked {
        environment: HostEnvironment {
            proxies: proxies.iter().filter_map(|name| Some(((*name).to_owned(), variable(name)?))).collect(),
            path: environment.path("PATH").unwrap_or_default().into_os_string(),
            home: environment.path("HOME"),
            kubeconfigs: kubeconfigs(app),
            kind: environment.path("DRALAB_KIND"),
            kubectl: environment.path("DRALAB_KUBECTL"),
        },
        engine: EngineEnvironment { docker_host: recorded.or_else(|| variable("DOCKER_HOST")), ..environment.engine() },
        backend: variable("DRALAB_BACKEND"),
        home: app.home.clone(),
        lab: app.lab.clone(),
        target: target(app, args).await?,
        flags: flags(args),
        of_lab,
    })
}

/// The flags that name the same cluster to another command; none for the lab's own.
fn flags(args: &DoctorArgs) -> String {
    let context = args.context.as_ref().map(|name| format!(" --context {name}"));
    let kubeconfig = args.kubeconfig.as_ref().map(|path| format!(" --kubeconfig {}", shell::quote(path)));
    [context, kubeconfig].into_iter().flatten().collect()
}

/// The user's kubeconfigs: of `KUBECONFIG`, else `~/.kube/config`.
fn kubeconfigs(app: &App) -> Vec<PathBuf> {
    match app.environment.path("KUBECONFIG") {
        Some(list) => std::env::split_paths(&list).filter(|p| !p.as_os_str().is_empty()).collect(),
        None => app.environment.path("HOME").map(|home| home.join(".kube/config")).into_iter().collect(),
    }
}

/// The cluster to examine: the one that was named, else the lab's where it is up.
async fn target(app: &App, args: &DoctorArgs) -> Result<Part<(Client, String)>, Failure> {
    if args.context.is_some() || args.kubeconfig.is_some() {
        let path = app.kubeconfig(args.context.as_deref(), args.kubeconfig.as_deref())?;
        let client = connect::by_kubeconfig(&path, args.context.as_deref(), &app.proxies()).await.map_err(Failure::from)?;
        let name = args.context.clone().unwrap_or_else(|| path.display().to_string());
        return Ok(Ok((client, name)));
    }
    let folder = app.folder();
    let record = match LabRecord::read(&folder) {
        Ok(Some(record)) if record.is_up(&folder) => record,
        Ok(_) => return Ok(Err(Blind::NotHere(Absent::NoCluster))),
        // The lab's own checks say what is wrong with the record.
        Err(error) => return Ok(Err(Blind::because(error))),
    };
    match connect::by_kubeconfig(&record.kubeconfig, None, &app.proxies()).await {
        Ok(client) => Ok(Ok((client, record.server))),
        Err(error) => Ok(Err(Blind::because(error))),
    }
}

/// The counts, and the one next step.
fn footer(app: &App, args: &DoctorArgs, facts: &Facts, report: &Report) -> Result<(), Failure> {
    let terminal = &app.terminal;
    let (blockers, warnings, notes) = (report.count(Severity::Blocker), report.count(Severity::Warning), report.count(Severity::Note));
    let fine = report.examined.iter().filter(|e| e.outcome.as_ref().is_ok_and(Vec::is_empty)).count();
    let blind = report.examined.iter().filter(|e| matches!(e.outcome, Err(Blind::CouldNotLook(_)))).count();
    terminal.line("")?;
    terminal.line(terminal.text(
        "doctor.counts",
        &[
            ("blockers", &blockers),
            ("warnings", &warnings),
            ("notes", &notes),
            ("fine", &fine),
            ("all", &report.examined.len()),
            ("blind", &blind),
        ],
    ))?;
    let again = format!("doctor{}", flags(args));
    let can_fix = !args.fix && args.context.is_none() && report.findings().any(|(_, finding)| !finding.fixes.is_empty());
    let next = match (&facts.cluster, report.worst()) {
        _ if can_fix => "doctor --fix".to_owned(),
        (_, Some(Severity::Blocker | Severity::Warning)) => again,
        (Err(Blind::NotHere(_)), _) => "up".to_owned(),
        _ => "lesson next".to_owned(),
    };
    terminal.progress(terminal.text("doctor.next", &[("command", &lab_command(app, &next))]));
    Ok(())
}
