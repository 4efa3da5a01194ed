//! `get`, `events`, `logs`: for machines without kubectl.

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, LogParams};
use serde_json::{Value, json};

use crate::base::failure::{Failure, Kind as FailureKind};
use crate::cli::app::App;
use crate::cli::args::{EventsArgs, GetArgs, LogsArgs, Output};
use crate::client::{ClientError, Kind, Kinds, raw};
use crate::ui::table;

/// What a command was asked about: kinds, and names where there are some.
pub(super) struct Asked<'k> {
    pub(super) kind: &'k Kind,
    pub(super) name: Option<String>,
}

/// Reads `KIND`, `KIND,KIND`, `KIND/NAME …` and `KIND NAME …` as kubectl does.
///
/// # Errors
/// When a kind is not served, or both forms are mixed.
pub(super) fn asked<'k>(kinds: &'k Kinds, what: &[String]) -> Result<Vec<Asked<'k>>, Failure> {
    let mut found = Vec::new();
    // An empty word is a variable of the shell that is not set; it must not come to mean every object.
    if what.iter().any(|word| word.trim().is_empty() || word.split(',').all(str::is_empty)) {
        return Err(Failure::new(FailureKind::Usage, "DL-USE-01", "a kind or name is empty").hint("either KIND NAME..., or KIND/NAME..."));
    }
    if what.iter().any(|w| w.contains('/')) {
        for word in what {
            let Some((kind, name)) = word.split_once('/').filter(|(k, n)| !k.is_empty() && !n.is_empty()) else {
                return Err(Failure::new(FailureKind::Usage, "DL-USE-01", format!("\"{word}\" is not KIND/NAME"))
                    .hint("either KIND NAME..., or KIND/NAME..."));
            };
            found.push(Asked { kind: kinds.find(kind).map_err(Failure::from)?, name: Some(name.to_owned()) });
        }
        return Ok(found);
    }
    let Some((first, names)) = what.split_first() else { return Ok(found) };
    for kind in first.split(',').filter(|k| !k.is_empty()) {
        let in_category = kinds.in_category(kind);
        let these = if in_category.is_empty() { vec![kinds.find(kind).map_err(Failure::from)?] } else { in_category };
        for kind in these {
            if names.is_empty() {
                found.push(Asked { kind, name: None });
            }
            found.extend(names.iter().map(|name| Asked { kind, name: Some(name.clone()) }));
        }
    }
    Ok(found)
}

/// `get`.
///
/// # Errors
/// When the lab is not up, or the server refuses.
pub async fn get(app: &App, args: &GetArgs) -> Result<u8, Failure> {
    let client = app.client().await?;
    let kinds = Kinds::discover(&client).await.map_err(Failure::from)?;
    let asked = asked(&kinds, &args.what)?;
    let namespace = app.namespace(args.namespace.namespace.as_deref());
    let several = asked.iter().map(|a| &a.kind.plural).collect::<std::collections::BTreeSet<_>>().len() > 1;
    let mut documents = Vec::new();
    let mut printed = 0usize;
    let mut groups: Vec<(&Kind, Vec<Value>, Vec<Value>)> = Vec::new();
    for one in &asked {
        let path = one.kind.path((!args.all_namespaces).then_some(namespace.as_str()));
        let mut path = match &one.name {
            Some(name) => format!("{path}/{name}"),
            None => path,
        };
        if let Some(selector) = &args.selector {
            path = format!("{path}?labelSelector={}", raw::query_escape(selector));
        }
        let accept = if matches!(args.output, Output::Text | Output::Wide) { raw::TABLE } else { "application/json" };
        let answer = raw::get_json(&client, &path, accept).await.map_err(Failure::from)?;
        match args.output {
            Output::Text | Output::Wide => {
                let columns = answer["columnDefinitions"].as_array().cloned().unwrap_or_default();
                let rows = answer["rows"].as_array().cloned().unwrap_or_default();
                printed += rows.len();
                match groups.last_mut() {
                    Some((kind, _, all)) if **kind == *one.kind => all.extend(rows),
                    _ => groups.push((one.kind, columns, rows)),
                }
            }
            Output::Json | Output::Yaml | Output::Name => match answer.get("items").and_then(Value::as_array) {
                Some(items) => documents.extend(items.iter().map(|item| one.kind.typed(item))),
                None => documents.push(answer),
            },
        }
    }
    match args.output {
        Output::Text | Output::Wide => {
            let mut first = true;
            for (kind, columns, rows) in groups.iter().filter(|(_, _, rows)| !rows.is_empty()) {
                if !first {
                    app.terminal.line("")?;
                }
                first = false;
                app.terminal.write(print_table(kind, columns, rows, args, several).as_bytes())?;
            }
            if printed == 0 {
                let id = if args.all_namespaces || asked.iter().all(|a| !a.kind.namespaced) { "get.none" } else { "get.none-in-namespace" };
                app.terminal.progress(app.terminal.text(id, &[("namespace", &namespace)]));
            }
        }
        Output::Name => {
            for document in &documents {
                let kind =
                    kinds.by_type(document["apiVersion"].as_str().unwrap_or_default(), document["kind"].as_str().unwrap_or_default());
                let name = document["metadata"]["name"].as_str().unwrap_or_default();
                app.terminal.line(kind.map_or_else(|| name.to_owned(), |k| k.object_name(name)))?;
            }
        }
        Output::Json | Output::Yaml => {
            let one = documents.len() == 1 && asked.len() == 1 && asked[0].name.is_some();
            let document = if one {
                documents.remove(0)
            } else {
                json!({"apiVersion": "v1", "kind": "List", "items": documents, "metadata": {"resourceVersion": ""}})
            };
            app.terminal.line(to_text(&document, args.output)?)?;
        }
    }
    Ok(0)
}

/// JSON or YAML text without managedFields, as kubectl shows objects.
fn to_text(document: &Value, output: Output) -> Result<String, Failure> {
    let mut document = document.clone();
    strip_managed_fields(&mut document);
    let broken = |error: String| {
        Failure::new(FailureKind::Failed, "DL-OUT-02", "the answer cannot be written").because(&std::io::Error::other(error))
    };
    match output {
        Output::Yaml => serde_saphyr::to_string(&document).map(|t| t.trim_end().to_owned()).map_err(|e| broken(e.to_string())),
        _ => serde_json::to_string_pretty(&document).map_err(|e| broken(e.to_string())),
    }
}

fn strip_managed_fields(document: &mut Value) {
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    for item in document.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        strip_managed_fields(item);
    }
}

fn print_table(kind: &Kind, columns: &[Value], rows: &[Value], args: &GetArgs, several: bool) -> String {
    let wide = args.output == Output::Wide;
    let shown: Vec<usize> = (0..columns.len()).filter(|i| wide || columns[*i]["priority"].as_i64().unwrap_or(0) == 0).collect();
    let with_namespace = args.all_namespaces && kind.namespaced;
    let mut header: Vec<String> = shown.iter().map(|i| columns[*i]["name"].as_str().unwrap_or_default().to_uppercase()).collect();
    if with_namespace {
        header.insert(0, "NAMESPACE".to_owned());
    }
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut cells: Vec<String> = shown.iter().map(|i| cell(&row["cells"][*i])).collect();
            if several && let Some(first) = cells.first_mut() {
                *first = kind.object_name(first);
            }
            if with_namespace {
                cells.insert(0, cell(&row["object"]["metadata"]["namespace"]));
            }
            cells
        })
        .collect();
    table::render(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<none>".to_owned(),
        other => other.to_string(),
    }
}

/// `events`, oldest first.
///
/// # Errors
/// When the lab is not up, or the server refuses.
pub async fn events(app: &App, args: &EventsArgs) -> Result<u8, Failure> {
    let client = app.client().await?;
    let kinds = Kinds::discover(&client).await.map_err(Failure::from)?;
    let namespace = app.namespace(args.namespace.namespace.as_deref());
    let about = match &args.about {
        Some(about) => {
            let words = asked(&kinds, std::slice::from_ref(about))?;
            words.into_iter().next().and_then(|a| Some((a.kind.kind.clone(), a.name?)))
        }
        None => None,
    };
    if args.about.is_some() && about.is_none() {
        return Err(Failure::new(FailureKind::Usage, "DL-USE-01", "--for takes KIND/NAME").hint("such as `dralab events --for pod/pod0`"));
    }
    let kind = kinds.find("events").map_err(Failure::from)?;
    let answer = raw::get_json(&client, &kind.path((!args.all_namespaces).then_some(namespace.as_str())), "application/json")
        .await
        .map_err(Failure::from)?;
    let mut events: Vec<&Value> = answer["items"].as_array().into_iter().flatten().collect();
    if let Some((kind, name)) = &about {
        events.retain(|e| e["involvedObject"]["kind"] == kind.as_str() && e["involvedObject"]["name"] == name.as_str());
    }
    events.sort_by_key(|e| event_time(e).to_owned());
    if events.is_empty() {
        let id = if args.all_namespaces { "get.none" } else { "get.none-in-namespace" };
        app.terminal.progress(app.terminal.text(id, &[("namespace", &namespace)]));
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = events
        .iter()
        .map(|e| {
            let text = |field: &str| e[field].as_str().unwrap_or_default().to_owned();
            let object = format!(
                "{}/{}",
                e["involvedObject"]["kind"].as_str().unwrap_or_default().to_lowercase(),
                e["involvedObject"]["name"].as_str().unwrap_or_default()
            );
            let mut row = vec![event_time(e).to_owned(), text("type"), text("reason"), object, text("message").trim().to_owned()];
            if args.all_namespaces {
                row.insert(0, e["metadata"]["namespace"].as_str().unwrap_or_default().to_owned());
            }
            row
        })
        .collect();
    let mut header = vec!["TIME", "TYPE", "REASON", "OBJECT", "MESSAGE"];
    if args.all_namespaces {
        header.insert(0, "NAMESPACE");
    }
    app.terminal.write(table::render(&header, &rows).as_bytes())?;
    Ok(0)
}

/// When an event was seen last: of its series, as core/v1 or as events.k8s.io writes it.
pub(super) fn event_time(event: &Value) -> &str {
    [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"], &event["metadata"]["creationTimestamp"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or_default()
}

/// `logs`.
///
/// # Errors
/// When the lab is not up, or there is no such pod or container.
pub async fn logs(app: &App, args: &LogsArgs) -> Result<u8, Failure> {
    let client: Client = app.client().await?;
    let namespace = app.namespace(args.namespace.namespace.as_deref());
    let name = args.pod.strip_prefix("pod/").unwrap_or(&args.pod);
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let params = LogParams { container: args.container.clone(), follow: args.follow, ..LogParams::default() };
    let refused = |error: kube::Error| Failure::from(ClientError::from(error));
    let mut lines = pods.log_stream(name, &params).await.map_err(refused)?.lines();
    while let Some(line) =
        lines.try_next().await.map_err(|error| Failure::new(FailureKind::Failed, "DL-API-05", "the log was cut off").because(&error))?
    {
        app.terminal.line(line)?;
    }
    Ok(0)
}
