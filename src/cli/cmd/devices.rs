//! Where `cel` and `lint` get devices and classes from: files, the cluster of a context, or the lab.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use k8s_openapi::api::resource::v1::ResourceSlice;
use serde_json::Value;

use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::args::DeviceSource;
use crate::client::{connect, manifests, raw};
use crate::lint::convert::to_v1;
use crate::lint::fleet::Fleet;

/// Devices and classes, and where they are from.
pub(super) struct Published {
    pub(super) fleet: Fleet,
    /// DeviceClasses.
    pub(super) classes: Vec<Value>,
    /// Namespaces.
    pub(super) namespaces: Vec<Value>,
    /// For the reader: `lab "dra-lab"`, `context kind-x`, `slices.yaml`.
    pub(super) source: String,
}

/// A file as it was read.
pub(super) struct Text {
    /// Its name for messages.
    pub(super) name: String,
    pub(super) text: String,
}

/// Reads files, folders (recursively) and standard input (`-`).
///
/// # Errors
/// When one cannot be read, or a folder has no manifests.
pub(super) fn texts(paths: &[PathBuf]) -> Result<Vec<Text>, Failure> {
    let mut texts = Vec::new();
    for path in paths {
        let unreadable =
            |error: std::io::Error| Failure::new(Kind::Usage, "DL-MAN-04", format!("cannot read {}", path.display())).because(&error);
        if path == Path::new("-") {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map_err(unreadable)?;
            texts.push(Text { name: "standard input".to_owned(), text: String::from_utf8_lossy(&bytes).into_owned() });
            continue;
        }
        let mut files = BTreeSet::new();
        if path.is_dir() {
            below(path, &mut files, 0).map_err(unreadable)?;
            if files.is_empty() {
                return Err(Failure::new(Kind::Usage, "DL-MAN-05", format!("there are no manifests in {}", path.display())));
            }
        } else {
            files.insert(path.clone());
        }
        for file in files {
            let bytes = std::fs::read(&file)
                .map_err(|error| Failure::new(Kind::Usage, "DL-MAN-04", format!("cannot read {}", file.display())).because(&error))?;
            texts.push(Text { name: file.display().to_string(), text: String::from_utf8_lossy(&bytes).into_owned() });
        }
    }
    Ok(texts)
}

/// Folders deeper than this are left out; links may go round in circles.
const MAX_DEPTH: usize = 16;

fn below(folder: &Path, files: &mut BTreeSet<PathBuf>, depth: usize) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if depth < MAX_DEPTH {
                below(&path, files, depth + 1)?;
            }
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json") {
            files.insert(path);
        }
    }
    Ok(())
}

/// The devices that a command is about.
///
/// # Errors
/// When files cannot be read, or the cluster cannot be reached.
pub(super) async fn published(app: &App, source: &DeviceSource) -> Result<Published, Failure> {
    if !source.slices.is_empty() {
        return from_files(&source.slices);
    }
    let (client, name) = match &source.context {
        Some(context) => {
            let path = app.kubeconfig(Some(context), None)?;
            let client = connect::by_kubeconfig(&path, Some(context), &app.proxies()).await.map_err(Failure::from)?;
            (client, format!("context {context}"))
        }
        None => (app.client().await?, format!("lab \"{}\"", app.lab)),
    };
    let list = |path: &'static str| {
        let client = client.clone();
        async move { raw::get_json(&client, path, "application/json").await.map_err(Failure::from) }
    };
    let slices = list("/apis/resource.k8s.io/v1/resourceslices").await?;
    let classes = list("/apis/resource.k8s.io/v1/deviceclasses").await?;
    let items = |list: &Value, kind: &str| -> Vec<Value> {
        let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
        items
            .map(|item| {
                let mut item = item.clone();
                item["apiVersion"] = Value::from("resource.k8s.io/v1");
                item["kind"] = Value::from(kind);
                item
            })
            .collect()
    };
    // Who may read devices may still not list namespaces.
    let namespaces = list("/api/v1/namespaces").await.map(|list| items(&list, "Namespace")).unwrap_or_default();
    put_together(items(&slices, "ResourceSlice"), items(&classes, "DeviceClass"), namespaces, name)
}

fn from_files(paths: &[PathBuf]) -> Result<Published, Failure> {
    let (mut slices, mut classes, mut namespaces, mut names) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for Text { name, text } in texts(paths)? {
        for object in manifests::read(&name, &text).map_err(Failure::from)? {
            match (object["kind"].as_str().unwrap_or_default(), to_v1(&object)) {
                ("ResourceSlice", Some(slice)) => slices.push(slice),
                ("DeviceClass", Some(class)) => classes.push(class),
                ("Namespace", _) => namespaces.push(object),
                _ => {}
            }
        }
        names.push(name);
    }
    if slices.is_empty() {
        return Err(Failure::new(Kind::Usage, "DL-CEL-FILE-01", format!("there is no ResourceSlice in {}", names.join(", ")))
            .hint("`kubectl get resourceslices -o yaml` writes those of a cluster"));
    }
    put_together(slices, classes, namespaces, names.join(", "))
}

fn put_together(slices: Vec<Value>, classes: Vec<Value>, namespaces: Vec<Value>, source: String) -> Result<Published, Failure> {
    let slices: Vec<ResourceSlice> = slices
        .into_iter()
        .map(|slice| {
            let name = slice.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
            serde_json::from_value(slice).map_err(|error| {
                Failure::new(Kind::Usage, "DL-CEL-FILE-02", format!("{source}: the ResourceSlice \"{name}\" cannot be read"))
                    .because(&error)
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(Published { fleet: Fleet::new(&slices), classes, namespaces, source })
}
