//! `cel`: asks the devices a selector.

use serde_json::{Value, json};

use super::devices::{Published, published, texts};
use crate::base::failure::{Failure, Kind};
use crate::cel::{Environment, Program, Purpose};
use crate::cli::app::App;
use crate::cli::args::{CelArgs, Format};
use crate::client::manifests;
use crate::lint::convert::to_v1;
use crate::lint::fleet::Fleet;
use crate::lint::places::{SelectorPlace, selectors};
use crate::lint::selector::{ClassSelectors, Report, examine};
use crate::model::features::{Feature, Features};
use crate::ui;

/// A selector that was asked for.
struct Asked {
    /// `ResourceClaim default/some-gpu`; empty for an expression by itself.
    object: String,
    place: SelectorPlace,
}

/// Runs the command: exit code 0 if some device matches each selector, 3 if not.
///
/// # Errors
/// When files cannot be read, or there are no devices to ask.
pub async fn run(app: &App, args: &CelArgs) -> Result<u8, Failure> {
    let (asked, mut classes) = asked(args)?;
    let environment = environment(args)?;
    // What does not compile needs no devices.
    let compile = |asked: &Asked| Program::compile_selector(&asked.place.expression, environment).is_ok();
    let devices = match published(app, &args.devices).await {
        Ok(devices) => devices,
        Err(failure) if failure.kind == Kind::NoLab && !asked.iter().any(compile) => {
            Published { fleet: Fleet::default(), classes: Vec::new(), namespaces: Vec::new(), source: String::new() }
        }
        Err(failure) if failure.kind == Kind::NoLab => {
            return Err(failure.hint("devices of a file: `dralab cel EXPR --slices FILE`; of a cluster: `--context NAME`"));
        }
        Err(failure) => return Err(failure),
    };
    classes.extend(devices.classes.iter().cloned());
    let mut reports = Vec::new();
    for one in &asked {
        let class = match args.class.as_ref().or(one.place.class.as_ref()) {
            Some(name) => class_selectors(&classes, name, args.class.is_some())?,
            None => None,
        };
        reports.push(examine(&one.place.expression, environment, &devices.fleet, class.as_ref()));
    }
    let satisfied = reports.iter().all(Report::is_satisfied);
    match args.output {
        Format::Json => app.terminal.line(document(app, args, &devices, &asked, &reports)?.to_string())?,
        Format::Text => {
            for (number, (one, report)) in asked.iter().zip(&reports).enumerate() {
                if number > 0 {
                    app.terminal.line("")?;
                }
                let heading = if one.object.is_empty() { String::new() } else { format!("{}: {}", one.object, one.place.path) };
                let about = ui::selector::About {
                    heading: &heading,
                    kubernetes: args.kubernetes,
                    stored: args.stored,
                    source: &devices.source,
                    fleet: &devices.fleet,
                };
                for line in ui::selector::lines(&app.terminal, report, &about) {
                    app.terminal.line(line)?;
                }
            }
        }
    }
    Ok(if satisfied { 0 } else { Kind::NotSatisfied.exit_code() })
}

fn environment(args: &CelArgs) -> Result<Environment, Failure> {
    let features = Features::for_kubernetes(args.kubernetes).map_err(|error| Failure::new(Kind::Usage, "DL-USE-03", error.to_string()))?;
    Ok(Environment {
        purpose: if args.stored { Purpose::Stored } else { Purpose::New },
        consumable_capacity: features.has(Feature::ConsumableCapacity),
        list_type_attributes: features.has(Feature::ListTypeAttributes),
    })
}

/// The selectors of the command line or of the files, and the classes of the files.
fn asked(args: &CelArgs) -> Result<(Vec<Asked>, Vec<Value>), Failure> {
    let plain = |expression: &str| Asked {
        object: String::new(),
        place: SelectorPlace { path: String::new(), expression: expression.to_owned(), class: None },
    };
    if let Some(expression) = &args.expression {
        return Ok((vec![plain(expression)], Vec::new()));
    }
    let (mut asked, mut classes) = (Vec::new(), Vec::new());
    for file in texts(&args.files)? {
        let objects = match manifests::read(&file.name, &file.text) {
            Ok(objects) => objects,
            // A text that looks like a manifest and is none is no expression either.
            Err(error) if file.text.contains("apiVersion") || file.text.trim_start().starts_with("---") => {
                return Err(Failure::from(error));
            }
            Err(_) => {
                asked.push(plain(file.text.trim_end()));
                continue;
            }
        };
        for object in objects.iter().filter_map(to_v1) {
            let name = ui::selector::object_name(&object);
            asked.extend(selectors(&object).into_iter().map(|place| Asked { object: name.clone(), place }));
            if object["kind"] == "DeviceClass" {
                classes.push(object);
            }
        }
    }
    if asked.is_empty() {
        let names: Vec<String> = args.files.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::new(Kind::Usage, "DL-CEL-FILE-03", format!("there is no selector in {}", names.join(", "))));
    }
    Ok((asked, classes))
}

/// The selectors of a class. A class that is not known, or does not compile, selects everything here unless it was `named`.
fn class_selectors(classes: &[Value], name: &str, named: bool) -> Result<Option<ClassSelectors>, Failure> {
    let Some(class) = classes.iter().find(|class| class.pointer("/metadata/name").and_then(Value::as_str) == Some(name)) else {
        if !named {
            return Ok(None);
        }
        let known: Vec<&str> = classes.iter().filter_map(|class| class.pointer("/metadata/name")?.as_str()).collect();
        let failure = Failure::new(Kind::Usage, "DL-CEL-CLASS-01", format!("there is no DeviceClass \"{name}\""));
        return Err(if known.is_empty() { failure } else { failure.hint(format!("there are: {}", known.join(", "))) });
    };
    let stored = Environment { purpose: Purpose::Stored, consumable_capacity: true, list_type_attributes: true };
    let programs = selectors(class).iter().map(|place| Program::compile_selector(&place.expression, stored)).collect::<Result<Vec<_>, _>>();
    Ok(programs.ok().map(|selectors| ClassSelectors { name: name.to_owned(), selectors }))
}

/// The answer as one JSON document.
fn document(app: &App, args: &CelArgs, devices: &Published, asked: &[Asked], reports: &[Report]) -> Result<Value, Failure> {
    let failed = |error: serde_json::Error| Failure::new(Kind::Failed, "DL-OUT-02", "the answer cannot be written as JSON").because(&error);
    let mut selectors = Vec::new();
    for (one, report) in asked.iter().zip(reports) {
        let mut value = serde_json::to_value(report).map_err(failed)?;
        for (finding, written) in report.findings.iter().zip(value["findings"].as_array_mut().into_iter().flatten()) {
            written["message"] = json!(ui::selector::sentence(&app.terminal, finding));
        }
        if !one.object.is_empty() {
            value["object"] = json!(one.object);
            value["path"] = json!(one.place.path);
            value["class"] = json!(one.place.class);
        }
        value["satisfied"] = json!(report.is_satisfied());
        selectors.push(value);
    }
    Ok(json!({
        "apiVersion": "dralab/v1", "kind": "CelReport",
        "kubernetes": format!("1.{}", args.kubernetes),
        "purpose": if args.stored { "stored" } else { "new" },
        "source": devices.source,
        "published": {
            "devices": devices.fleet.devices.len(), "pools": devices.fleet.pools(),
            "drivers": devices.fleet.drivers(), "nodes": devices.fleet.nodes(),
        },
        "selectors": selectors,
        "satisfied": reports.iter().all(Report::is_satisfied),
    }))
}
