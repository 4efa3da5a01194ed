//! What is done to the cluster for a lesson: apply, delete, wait, label. Used by `start`, solutions, unattended runs and the lint.

use std::time::Duration;

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::runtime::watcher;
use serde_json::{Value, json};

use crate::client::apply::{self, api_of, namespace_of};
use crate::client::{ClientError, Kinds, manifests, wait};
use crate::lessons::LessonError;
use crate::lessons::format::{Action, Refused};
use crate::lessons::library::Entry;
use crate::lessons::template::Names;
use crate::timeline::state;

/// What an action did, for the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Did {
    /// The command that a learner would have typed.
    pub command: String,
    /// What it answered, a line each.
    pub lines: Vec<String>,
}

/// The manifests of a lesson's file with the names filled in, as text.
///
/// # Errors
/// When there is no such file.
pub fn text(entry: &Entry, path: &str, names: &Names) -> Result<String, LessonError> {
    Ok(names.fill(entry.file(path)?))
}

/// Applies a file of the lesson.
///
/// # Errors
/// When the file is broken or the server refuses.
pub async fn apply_file(
    client: &Client,
    kinds: &Kinds,
    entry: &Entry,
    path: &str,
    names: &Names,
    manager: &str,
) -> Result<Vec<String>, LessonError> {
    let text = text(entry, path, names)?;
    let mut lines = Vec::new();
    for object in manifests::read(path, &text)? {
        let (name, done) =
            apply::apply(client, kinds, &object, names.namespace(), apply::How { manager, force: true, dry_run: false }).await?;
        lines.push(format!("{name} {}", done.word()));
    }
    Ok(lines)
}

/// Carries out an action; `folder` is where its files are (`solution` or `wrong`).
///
/// # Errors
/// When the server refuses, or a wait runs out.
pub async fn perform(
    client: &Client,
    kinds: &Kinds,
    entry: &Entry,
    folder: &str,
    names: &Names,
    manager: &str,
    action: &Action,
) -> Result<Did, LessonError> {
    match action {
        Action::Apply(file) => {
            let path = action.manifest(folder).unwrap_or_default();
            let lines = apply_file(client, kinds, entry, &path, names, manager).await?;
            Ok(Did { command: format!("dralab apply -f {file}"), lines })
        }
        Action::Refused(Refused { apply, says }) => {
            let path = action.manifest(folder).unwrap_or_default();
            let answer = match apply_file(client, kinds, entry, &path, names, manager).await {
                Err(LessonError::Client(ClientError::Refused { message, .. })) => message,
                Err(error) => return Err(error),
                Ok(_) => return Err(LessonError::Broken { file: path, reason: "the server accepts what it should refuse".to_owned() }),
            };
            if !answer.contains(says.as_str()) {
                return Err(LessonError::Broken { file: path, reason: format!("the server does not say \"{says}\" but: {answer}") });
            }
            Ok(Did { command: format!("dralab apply -f {apply}"), lines: vec![answer] })
        }
        Action::Delete(object) => {
            let (kind, name) = named(kinds, &names.fill(object))?;
            let namespace = names.namespace();
            let there = apply::delete(client, kind, namespace, &name).await?;
            wait::gone(api_of(client, kind, namespace), &name, Duration::from_secs(60)).await?;
            let line =
                if there { format!("{} deleted", kind.object_name(&name)) } else { format!("{} was not there", kind.object_name(&name)) };
            Ok(Did { command: format!("dralab delete -n {namespace} {}/{name}", kind.singular), lines: vec![line] })
        }
        Action::StartDelete(object) => {
            let (kind, name) = named(kinds, &names.fill(object))?;
            let namespace = names.namespace();
            apply::delete(client, kind, namespace, &name).await?;
            Ok(Did {
                command: format!("dralab delete -n {namespace} {}/{name} --no-wait", kind.singular),
                lines: vec![format!("{} deleted", kind.object_name(&name))],
            })
        }
        Action::Wait(expect) => {
            let (kind, name) = named(kinds, &names.fill(&expect.object))?;
            let api = api_of(client, kind, names.namespace());
            let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
            let wanted = expect.to.clone();
            let state = |objects: &std::collections::BTreeMap<String, Value>| {
                objects.values().next().map_or_else(|| "gone".to_owned(), |object| state::of(&kind.typed(object)))
            };
            wait::until(
                api,
                config,
                Duration::from_secs(expect.within),
                &format!("{}/{name} to be {wanted}", kind.singular),
                |objects| (state(objects) == wanted).then_some(()),
                state,
            )
            .await?;
            Ok(Did { command: format!("# wait until {}/{name} is {wanted}", kind.singular), lines: Vec::new() })
        }
        Action::Label(text) => {
            let filled = names.fill(text);
            let broken =
                || LessonError::Broken { file: entry.folder.clone(), reason: format!("`label: {text}` is not KIND/NAME KEY=VALUE") };
            let (object, label) = filled.split_once(' ').ok_or_else(broken)?;
            let (key, value) = label.split_once('=').ok_or_else(broken)?;
            let (kind, name) = named(kinds, object)?;
            let api: kube::Api<DynamicObject> = api_of(client, kind, names.namespace());
            let mut labels = serde_json::Map::new();
            labels.insert(key.to_owned(), json!(value));
            api.patch(
                &name,
                &PatchParams { field_manager: Some(apply::MANAGER.to_owned()), ..PatchParams::default() },
                &Patch::Merge(json!({"metadata": {"labels": labels}})),
            )
            .await
            .map_err(ClientError::from)?;
            Ok(Did { command: format!("kubectl label {object} {label}"), lines: vec![format!("{} labeled", kind.object_name(&name))] })
        }
    }
}

/// Applies an object that a lesson needs around its files, such as its namespace.
///
/// # Errors
/// When the server refuses.
pub async fn apply_object(client: &Client, kinds: &Kinds, object: &Value, names: &Names) -> Result<(), LessonError> {
    let namespace = namespace_of(object, names.namespace()).to_owned();
    apply::apply(client, kinds, object, &namespace, apply::How { force: true, ..apply::How::default() }).await?;
    Ok(())
}

fn named<'k>(kinds: &'k Kinds, object: &str) -> Result<(&'k crate::client::Kind, String), LessonError> {
    let (kind, name) =
        object.split_once('/').ok_or_else(|| LessonError::Broken { file: object.to_owned(), reason: "it is not KIND/NAME".to_owned() })?;
    Ok((kinds.find(kind)?, name.to_owned()))
}
