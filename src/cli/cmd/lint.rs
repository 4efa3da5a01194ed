//! `lint`: judges manifests before they are applied.

use serde_json::{Value, json};

use super::devices::{Published, published, texts};
use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::args::{Format, LintArgs};
use crate::lint::manifest::{Cluster, Judgement, Source, Target, lint};
use crate::lint::selector::Severity;
use crate::model::features::Features;
use crate::ui;

/// Runs the command: exit code 0 without errors, 3 with some.
///
/// # Errors
/// When files cannot be read, or a named source of devices cannot be.
pub async fn run(app: &App, args: &LintArgs) -> Result<u8, Failure> {
    let sources: Vec<Source> = texts(&args.files)?.into_iter().map(|file| Source { name: file.name, text: file.text }).collect();
    let features = Features::for_kubernetes(args.kubernetes).map_err(|error| Failure::new(Kind::Usage, "DL-USE-03", error.to_string()))?;
    let devices = match published(app, &args.devices).await {
        Ok(devices) => Some(devices),
        // The lab is only asked where nothing else was named.
        Err(_) if args.devices.context.is_none() && args.devices.slices.is_empty() => None,
        Err(failure) => return Err(failure),
    };
    let (cluster, source) = match devices {
        Some(Published { fleet, classes, namespaces, source }) => (Some(Cluster { fleet, classes, namespaces }), source),
        None => (None, String::new()),
    };
    let judgement = lint(&sources, Target { minor: args.kubernetes, features }, cluster.as_ref());
    match args.output {
        Format::Json => app.terminal.line(document(app, args, &source, &judgement)?.to_string())?,
        Format::Text => {
            for finding in &judgement.findings {
                for line in ui::manifest::lines(&app.terminal, finding) {
                    app.terminal.line(line)?;
                }
            }
            let values: &[(&str, &dyn std::fmt::Display)] = &[
                ("objects", &judgement.objects),
                ("errors", &judgement.count(Severity::Error)),
                ("warnings", &judgement.count(Severity::Warning)),
                ("notes", &judgement.count(Severity::Note)),
                ("version", &format!("1.{}", args.kubernetes)),
            ];
            app.terminal.line(app.terminal.text("lint.summary", values))?;
            if judgement.findings.is_empty() && source.is_empty() {
                app.terminal.progress(app.terminal.text("lint.no-devices", &[]));
            }
        }
    }
    Ok(if judgement.count(Severity::Error) > 0 { Kind::NotSatisfied.exit_code() } else { 0 })
}

/// The answer as one JSON document.
fn document(app: &App, args: &LintArgs, source: &str, judgement: &Judgement) -> Result<Value, Failure> {
    let failed = |error: serde_json::Error| Failure::new(Kind::Failed, "DL-OUT-02", "the answer cannot be written as JSON").because(&error);
    let mut findings = serde_json::to_value(&judgement.findings).map_err(failed)?;
    for (finding, written) in judgement.findings.iter().zip(findings.as_array_mut().into_iter().flatten()) {
        written["message"] = json!(ui::manifest::sentence(&app.terminal, finding));
        written["id"] = json!(ui::manifest::id(finding));
        if let Some((line, column)) = finding.place {
            written["line"] = json!(line);
            written["column"] = json!(column);
            if let Some(fields) = written.as_object_mut() {
                fields.remove("place");
            }
        }
    }
    Ok(json!({
        "apiVersion": "dralab/v1", "kind": "LintReport",
        "kubernetes": format!("1.{}", args.kubernetes), "source": source, "objects": judgement.objects,
        "errors": judgement.count(Severity::Error), "warnings": judgement.count(Severity::Warning), "notes": judgement.count(Severity::Note),
        "findings": findings,
    }))
}
