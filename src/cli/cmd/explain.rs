//! `explain`: gathers the objects, has them explained, and shows what came of it.

use std::path::PathBuf;

use kube::Client;
use serde_json::{Value, json};

use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::args::{ExplainArgs, ExplainOutput};
use crate::cli::cmd::devices::{Text, texts};
use crate::client::{connect, manifests, raw};
use crate::explain::{Objects, Reason, Target, explain};
use crate::model::features::Features;
use crate::scheduling::view::Key;
use crate::ui;

/// What an explanation looks at: path and kind. What a cluster does not serve, or forbids, is left out unless it must be there.
const LISTS: &[(&str, &str, bool)] = &[
    ("/api/v1/nodes", "Node", true),
    ("/api/v1/pods", "Pod", true),
    ("/apis/resource.k8s.io/v1/resourceclaims", "ResourceClaim", true),
    ("/apis/resource.k8s.io/v1/resourceslices", "ResourceSlice", true),
    ("/apis/resource.k8s.io/v1/deviceclasses", "DeviceClass", true),
    ("/apis/resource.k8s.io/v1/resourceclaimtemplates", "ResourceClaimTemplate", false),
    ("/apis/resource.k8s.io/v1/devicetaintrules", "DeviceTaintRule", false),
    ("/apis/resource.k8s.io/v1beta2/devicetaintrules", "DeviceTaintRule", false),
    ("/api/v1/namespaces", "Namespace", false),
    ("/api/v1/events", "Event", false),
];

/// `explain`.
///
/// # Errors
/// When objects cannot be read, the cluster cannot be reached, or what is asked about is no claim and no pod.
pub async fn run(app: &App, args: &ExplainArgs) -> Result<u8, Failure> {
    let terminal = &app.terminal;
    if args.reasons {
        match args.output {
            ExplainOutput::Json => terminal.line(reasons_as_json(app).to_string())?,
            ExplainOutput::Text | ExplainOutput::Wide => ui::explain::list_reasons(terminal)?,
        }
        return Ok(0);
    }
    if let Some(id) = &args.reason {
        return page(app, id).map(|()| 0);
    }
    let (found, minor) = if args.files.is_empty() { gather(app, args).await? } else { (read(&args.files)?, None) };
    let minor = args.kubernetes.or(minor);
    let features = minor.and_then(|minor| Features::for_kubernetes(minor).ok()).unwrap_or_else(Features::latest);
    let objects = Objects::read(found, features)
        .map_err(|error| Failure::new(Kind::Failed, "DL-EXPLAIN-02", "an object cannot be read").because(&error))?;
    let target = target(app, args, &objects)?;
    let mut explanation = explain(&objects, &target);
    ui::explain::tell(&mut explanation, &terminal.texts);
    match args.output {
        ExplainOutput::Json => {
            let text = serde_json::to_string_pretty(&explanation)
                .map_err(|error| Failure::new(Kind::Failed, "DL-OUT-02", "the answer cannot be written").because(&error))?;
            terminal.line(text)?;
        }
        ExplainOutput::Text | ExplainOutput::Wide => {
            ui::explain::render(terminal, &explanation, app.columns(), args.output == ExplainOutput::Wide)?;
            if objects.nodes_from_slices {
                terminal.progress(terminal.text("explain.nodes-from-slices", &[]));
            }
            let command = format!("dralab explain --reason {}", explanation.verdict.reason.slug());
            terminal.progress(terminal.text("explain.next.reason", &[("command", &command)]));
        }
    }
    Ok(if explanation.satisfied { 0 } else { Kind::NotSatisfied.exit_code() })
}

fn reasons_as_json(app: &App) -> Value {
    let language = app.language;
    let reasons: Vec<Value> = Reason::all()
        .map(
            |reason| json!({"id": reason.id(), "title": ui::reasons::title(reason, language), "page": ui::reasons::page(reason, language)}),
        )
        .collect();
    json!({"apiVersion": "dralab/v1", "kind": "Reasons", "items": reasons})
}

fn page(app: &App, id: &str) -> Result<(), Failure> {
    let found = Reason::by_id(id).and_then(|reason| ui::reasons::page(reason, app.language));
    let Some(page) = found else {
        let near = crate::explain::names::nearest(id.trim_start_matches("DL-EXP-"), Reason::all().map(Reason::slug));
        let failure = Failure::new(Kind::Usage, "DL-EXPLAIN-03", format!("there is no reason \"{id}\""));
        let failure = near.map_or(failure.clone(), |near| failure.hint(format!("near to it: {near}")));
        return Err(failure.hint("see all: `dralab explain --reasons`"));
    };
    app.terminal.line(ui::markdown::render(&app.terminal, page, app.columns()).trim_end())
}

/// What is asked about: `claim/x`, `claim x`, `pod/x`. Without a namespace it is the lesson's; where files or the cluster
/// have the name in one other namespace only, it is that.
fn target(app: &App, args: &ExplainArgs, objects: &Objects) -> Result<Target, Failure> {
    let (kind, name) = match args.what.as_slice() {
        [both] => both.split_once('/').map(|(kind, name)| (kind.to_owned(), name.to_owned())),
        [kind, name] if !kind.contains('/') => Some((kind.clone(), name.clone())),
        _ => None,
    }
    .filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
    .ok_or_else(|| {
        Failure::new(Kind::Usage, "DL-USE-01", format!("\"{}\" is not KIND/NAME", args.what.join(" ")))
            .hint("either claim/NAME or pod/NAME")
    })?;
    let is_claim = match kind.to_ascii_lowercase().as_str() {
        "claim" | "claims" | "resourceclaim" | "resourceclaims" | "resourceclaim.resource.k8s.io" | "resourceclaims.resource.k8s.io" => {
            true
        }
        "pod" | "pods" | "po" => false,
        _ => {
            return Err(Failure::new(Kind::Usage, "DL-EXPLAIN-01", format!("\"{kind}\" cannot be explained, only claims and pods"))
                .hint("either claim/NAME or pod/NAME"));
        }
    };
    let here = Key::new(&app.namespace(args.namespace.namespace.as_deref()), &name);
    let exists = |key: &Key| if is_claim { objects.claim(key).is_some() } else { objects.pods.contains_key(key) };
    let key = if args.namespace.namespace.is_some() || exists(&here) {
        here
    } else {
        let others: Vec<Key> = if is_claim {
            crate::explain::verdict::claims_named(objects, &name)
        } else {
            objects.pods.keys().filter(|key| key.name == name).cloned().collect()
        };
        match others.as_slice() {
            [only] => only.clone(),
            _ => here,
        }
    };
    Ok(if is_claim { Target::Claim(key) } else { Target::Pod(key) })
}

/// The objects of files, folders and standard input.
fn read(files: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    let mut objects = Vec::new();
    for Text { name, text } in texts(files)? {
        objects.extend(manifests::read(&name, &text).map_err(Failure::from)?);
    }
    Ok(objects)
}

/// The objects of a cluster, and its minor version where it tells.
async fn gather(app: &App, args: &ExplainArgs) -> Result<(Vec<Value>, Option<u32>), Failure> {
    let client: Client = if args.context.is_some() || args.kubeconfig.is_some() {
        let path = app.kubeconfig(args.context.as_deref(), args.kubeconfig.as_deref())?;
        connect::by_kubeconfig(&path, args.context.as_deref(), &app.proxies()).await.map_err(Failure::from)?
    } else {
        app.client().await?
    };
    let version = raw::get_json(&client, "/version", "application/json");
    let lists = LISTS.iter().map(|(path, _, _)| raw::get_json(&client, path, "application/json"));
    let (version, lists) = futures::join!(version, futures::future::join_all(lists));
    let mut objects = Vec::new();
    for ((path, kind, must), answer) in LISTS.iter().zip(lists) {
        let mut list = match answer {
            Ok(list) => list,
            Err(error) if *must => {
                return Err(Failure::from(error).hint(format!("`explain` needs to list {}", path.rsplit('/').next().unwrap_or(path))));
            }
            Err(_) => continue,
        };
        // A list that the older version of an API served already is not taken twice.
        if *kind == "DeviceTaintRule" && objects.iter().any(|object: &Value| object["kind"] == *kind) {
            continue;
        }
        if let Some(Value::Array(items)) = list.get_mut("items").map(Value::take) {
            let (group, _) = path.rsplit_once('/').unwrap_or((path, ""));
            let version = group.trim_start_matches("/apis/").trim_start_matches("/api/");
            objects.extend(items.into_iter().filter(Value::is_object).map(|mut item| {
                item["apiVersion"] = Value::from(version);
                item["kind"] = Value::from(*kind);
                item
            }));
        }
    }
    let minor = version.ok().and_then(|version| version["minor"].as_str()?.trim_end_matches('+').parse().ok());
    Ok((objects, minor))
}
