//! `status`: what runs, and where its files are.

use serde_json::json;

use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::args::{Format, StatusArgs};
use crate::cli::cmd::lab::{failure, kind};
use crate::cluster::{Backend, LabRecord, embedded};

/// `status`.
///
/// # Errors
/// When the record cannot be understood.
pub async fn run(app: &App, args: &StatusArgs) -> Result<u8, Failure> {
    let terminal = &app.terminal;
    let folder = app.folder();
    let record = LabRecord::read(&folder).map_err(Failure::from)?;
    let (state, trouble) = match &record {
        None => ("absent", None),
        Some(record) if record.backend == Backend::Kind => of_containers(app, record).await?,
        Some(record) if record.is_up(&folder) => ("running", None),
        Some(_) => ("stopped", None),
    };
    let running = state == "running";
    let kind = record.as_ref().and_then(|r| r.kind.as_ref());
    let other = record.as_ref().filter(|r| running && r.version != embedded::VERSION);
    match args.output {
        Format::Json => {
            let answer = json!({
                "apiVersion": "dralab/v1", "kind": "Status", "lab": app.lab, "state": state, "folder": folder.path, "log": folder.log(),
                "backend": record.as_ref().map(|r| &r.backend), "version": record.as_ref().map(|r| &r.version),
                "pid": record.as_ref().filter(|_| running).and_then(|r| r.pid), "server": record.as_ref().filter(|_| running).map(|r| &r.server),
                "kubeconfig": record.as_ref().map(|r| &r.kubeconfig), "spec": record.as_ref().map(|r| &r.spec),
                "nodes": record.as_ref().map(|r| &r.nodes), "cluster": kind, "thisVersion": embedded::VERSION,
            });
            terminal.line(answer.to_string())?;
        }
        Format::Text => {
            let row = |id: &str, value: String| format!("{}  {value}", crate::ui::table::pad(&terminal.text(id, &[]), 12));
            terminal.line(row("status.lab", app.lab.clone()))?;
            terminal.line(row("status.state", terminal.text(&format!("status.{state}"), &[])))?;
            if let Some(record) = &record {
                terminal.line(row("status.backend", format!("{} (dralab {})", record.backend, record.version)))?;
                if running {
                    if let Some(pid) = record.pid {
                        terminal.line(row("status.process", pid.to_string()))?;
                    }
                    terminal.line(row("status.server", record.server.clone()))?;
                }
                terminal.line(row(
                    "status.nodes",
                    record.nodes.iter().take(6).map(|n| n.name.clone()).collect::<Vec<_>>().join(", ")
                        + if record.nodes.len() > 6 { ", ..." } else { "" },
                ))?;
                if let Some(kind) = kind {
                    for (id, value) in [
                        ("status.kubernetes", &kind.kubernetes),
                        ("status.node-image", &kind.node_image),
                        ("status.features", &kind.features),
                        ("status.driver-image", &kind.driver_image),
                        ("status.engine", &kind.engine),
                    ] {
                        terminal.line(row(id, value.clone()))?;
                    }
                }
                terminal.line(row("status.profile", record.spec.profile.clone()))?;
                terminal.line(row("status.kubeconfig", record.kubeconfig.display().to_string()))?;
                terminal.line(row("status.folder", folder.path.display().to_string()))?;
            }
        }
    }
    if let Some(failure) = trouble {
        crate::ui::failure::render(terminal, &failure);
    }
    if let Some(record) = other {
        terminal.progress(terminal.text("status.other-version", &[("theirs", &record.version), ("ours", &embedded::VERSION)]));
    }
    if running {
        Ok(0)
    } else {
        terminal.progress(format!("{}: {}", terminal.text("failure.hint", &[]), crate::cluster::error::up_hint(&app.lab)));
        Ok(Kind::NotSatisfied.exit_code())
    }
}

/// How a lab on kind is, by its containers. An engine that does not answer leaves it unknown, and says why.
async fn of_containers(app: &App, record: &LabRecord) -> Result<(&'static str, Option<Failure>), Failure> {
    let there = match crate::cluster::kind::look(&kind::environment(app)?, record).await {
        Ok(there) => there.containers,
        Err(error) => return Ok(("unknown", Some(failure(app, error)))),
    };
    let made = record.kind.as_ref().map_or(0, |kind| kind.containers.len());
    let state = match there.len() {
        _ if made == 0 => "incomplete",
        0 => "gone",
        count if count < made => "broken",
        _ if there.iter().all(|node| node.running) => "running",
        _ => "stopped",
    };
    Ok((state, None))
}
