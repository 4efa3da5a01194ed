//! `apply` and `delete`.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::base::failure::{Failure, Kind as FailureKind};
use crate::cli::app::App;
use crate::cli::args::{ApplyArgs, DeleteArgs};
use crate::cli::cmd::look::asked;
use crate::client::{Kind, Kinds, apply as client_apply, manifests, wait};

/// `apply`: server-side, by manager `dralab`.
///
/// # Errors
/// When a file cannot be read, or the server refuses an object; the objects before it stay applied.
pub async fn apply(app: &App, args: &ApplyArgs) -> Result<u8, Failure> {
    let objects = read(&args.files)?;
    let client = app.client().await?;
    let kinds = Kinds::discover(&client).await.map_err(Failure::from)?;
    let namespace = app.namespace(args.namespace.namespace.as_deref());
    for object in &objects {
        let (name, done) = client_apply::apply(&client, &kinds, object, &namespace, client_apply::How { dry_run: args.dry_run, ..client_apply::How::default() }).await.map_err(|error| {
            let conflict = error.is_conflict();
            let failure = Failure::from(error);
            if conflict { failure.hint("another manager owns these fields; delete the object first, or use `dralab kubectl -- apply --server-side --force-conflicts -f FILE`") } else { failure }
        })?;
        let suffix = if args.dry_run { " (dry run)" } else { "" };
        app.terminal.line(format!("{name} {}{suffix}", done.word()))?;
    }
    Ok(0)
}

/// `delete`; waits until the objects are gone unless told not to.
///
/// # Errors
/// When the server refuses, an object is not there, or does not go in time.
pub async fn delete(app: &App, args: &DeleteArgs) -> Result<u8, Failure> {
    let from_files = read(&args.files)?;
    let client = app.client().await?;
    let kinds = Kinds::discover(&client).await.map_err(Failure::from)?;
    let namespace = app.namespace(args.namespace.namespace.as_deref());
    let mut targets: Vec<(&Kind, String, String)> = Vec::new();
    for object in &from_files {
        let (kind, name) = client_apply::identify(&kinds, object).map_err(Failure::from)?;
        targets.push((kind, client_apply::namespace_of(object, &namespace).to_owned(), name));
    }
    for one in asked(&kinds, &args.what)? {
        let Some(name) = one.name else {
            return Err(Failure::new(FailureKind::Usage, "DL-USE-02", format!("delete needs names: {}/NAME", one.kind.singular)));
        };
        targets.push((one.kind, namespace.clone(), name));
    }
    // Objects that use others go first: pods before their claims.
    let mut missing = Vec::new();
    let mut waiting = Vec::new();
    for (kind, namespace, name) in targets {
        let shown = kind.object_name(&name);
        if client_apply::delete(&client, kind, &namespace, &name).await.map_err(Failure::from)? {
            app.terminal.line(format!("{shown} deleted"))?;
            waiting.push((kind, namespace, name));
        } else {
            missing.push(shown);
        }
    }
    if !args.no_wait {
        for (kind, namespace, name) in waiting {
            wait::gone(client_apply::api_of(&client, kind, &namespace), &name, Duration::from_secs(args.timeout))
                .await
                .map_err(Failure::from)?;
        }
    }
    if missing.is_empty() {
        Ok(0)
    } else {
        Err(Failure::new(FailureKind::Failed, "DL-API-06", format!("not found: {}", missing.join(", "))))
    }
}

/// Reads the objects of files, folders and standard input.
fn read(files: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    let mut objects = Vec::new();
    for path in files {
        let unreadable = |error: std::io::Error| {
            Failure::new(FailureKind::Usage, "DL-MAN-04", format!("cannot read {}", path.display())).because(&error)
        };
        if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(unreadable)?;
            objects.extend(manifests::read("standard input", &text).map_err(Failure::from)?);
            continue;
        }
        let mut these = BTreeSet::new();
        if path.is_dir() {
            for entry in std::fs::read_dir(path).map_err(unreadable)? {
                let file = entry.map_err(unreadable)?.path();
                if file.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json") {
                    these.insert(file);
                }
            }
            if these.is_empty() {
                return Err(Failure::new(FailureKind::Usage, "DL-MAN-05", format!("there are no manifests in {}", path.display())));
            }
        } else {
            these.insert(path.clone());
        }
        for file in these {
            let text = std::fs::read_to_string(&file).map_err(|error| {
                Failure::new(FailureKind::Usage, "DL-MAN-04", format!("cannot read {}", file.display())).because(&error)
            })?;
            objects.extend(manifests::read(&file.display().to_string(), &text).map_err(Failure::from)?);
        }
    }
    if objects.is_empty() && !files.is_empty() {
        return Err(Failure::new(FailureKind::Usage, "DL-MAN-06", "there is no object in what was given"));
    }
    Ok(objects)
}
