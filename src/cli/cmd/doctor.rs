//! `doctor`: gathers the facts, runs the checks, and shows what they found.

use kube::Client;

use crate::base::clock::SystemClock;
use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::args::{DoctorArgs, Format};
use crate::cli::cmd::lab::lab_command;
use crate::client::connect;
use crate::client::kinds::distance;
use crate::cluster::LabRecord;
use crate::doctor::checks::CHECKS;
use crate::doctor::facts::Part;
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
    let facts = facts(app, args).await?;
    let report = examine(&facts, &args.ids);
    match args.output {
        Format::Json => terminal.line(ui::doctor::as_json(terminal, &facts, &report).to_string())?,
        Format::Text => {
            ui::doctor::render(terminal, &facts, &report, app.columns())?;
            footer(app, args, &facts, &report)?;
        }
    }
    Ok(if report.worst() == Some(Severity::Blocker) { Kind::NotSatisfied.exit_code() } else { 0 })
}

/// Refuses an id that no check has.
fn known(ids: &[String]) -> Result<(), Failure> {
    for id in ids {
        if !CHECKS.iter().any(|check| check.id.eq_ignore_ascii_case(id)) {
            let near = CHECKS.iter().map(|c| c.id).min_by_key(|known| distance(known, &id.to_ascii_uppercase()));
            let failure = Failure::new(Kind::Usage, "DL-DOC-01", format!("there is no check \"{id}\""));
            let failure = near.map_or(failure.clone(), |near| failure.hint(format!("near to it: {near}")));
            return Err(failure.hint("see all: `dralab doctor --list`"));
        }
    }
    Ok(())
}

async fn facts(app: &App, args: &DoctorArgs) -> Result<Facts, Failure> {
    let cluster = match target(app, args).await? {
        Ok((client, server)) => gather::cluster(&client, &server, &SystemClock).await,
        Err(blind) => Err(blind),
    };
    Ok(gather::facts(&SystemClock, cluster))
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
    let context = record.context.as_ref().map(|c| c.context.clone());
    match connect::by_kubeconfig(&record.kubeconfig, context.as_deref(), &app.proxies()).await {
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
    let mut again = "doctor".to_owned();
    for (flag, value) in [("--context", args.context.clone()), ("--kubeconfig", args.kubeconfig.as_ref().map(|p| p.display().to_string()))]
    {
        again.extend(value.map(|value| format!(" {flag} {value}")));
    }
    let next = match (&facts.cluster, report.worst()) {
        (_, Some(Severity::Blocker | Severity::Warning)) => again,
        (Err(Blind::NotHere(_)), _) => "up".to_owned(),
        _ => "lesson next".to_owned(),
    };
    terminal.progress(terminal.text("doctor.next", &[("command", &lab_command(app, &next))]));
    Ok(())
}
