//! The lab's files, and what was installed for it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use kube::Client;
use serde_json::Value;

use crate::base::failure::Chain;
use crate::client::Kinds;
use crate::client::apply;
use crate::cluster::install::manifests::{PARAMETERS_ANNOTATION, title};
use crate::cluster::install::{self, LAB_LABEL, NAMESPACE, Parameters, ProfileSource};
use crate::cluster::{Backend, Home, LabFolder, LabRecord};
use crate::doctor::facts::{Installed, Lab, Part};
use crate::doctor::fix::is_leftover;
use crate::doctor::{Absent, Blind};

/// How long the server may take for what was installed.
const ANSWERS: Duration = Duration::from_secs(8);

/// The lab's files. Blocking, but nothing here waits for anybody. What was installed is asked of the cluster by [`installed`].
#[must_use]
pub(super) fn lab(home: &Home, name: &str) -> Lab {
    let folder = home.lab(name);
    let record = match LabRecord::read(&folder) {
        Ok(Some(record)) => Ok(record),
        Ok(None) => Err(Blind::NotHere(Absent::NoLab)),
        Err(error) => Err(Blind::because(Chain(&error))),
    };
    let kubeconfig = record.as_ref().map_err(Clone::clone).and_then(|record| usable(&record.kubeconfig));
    Lab {
        name: name.to_owned(),
        folder: folder.path.display().to_string(),
        running: folder.is_running(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kubeconfig,
        sockets: record.as_ref().ok().and_then(|r| r.sockets.as_ref()).map(|path| path.is_dir()),
        installed: Err(Blind::NotHere(Absent::NoCluster)),
        known: home.labs(),
        leftovers: leftovers(home),
        record,
    }
}

/// A kubeconfig's permission bits, if it can be used.
fn usable(path: &Path) -> Part<u32> {
    let mode = path.metadata().map_err(Blind::because)?.permissions().mode() & 0o777;
    kube::config::Kubeconfig::read_from(path).map_err(|error| Blind::because(Chain(&error)))?;
    Ok(mode)
}

fn leftovers(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.state().join("labs")).into_iter().flatten().flatten();
    let mut left: Vec<String> = entries
        .filter(|entry| is_leftover(&LabFolder::at(&entry.file_name().to_string_lossy(), entry.path())))
        .map(|entry| entry.path().display().to_string())
        .collect();
    left.sort();
    left
}

/// What the lab was installed with; `None`: an embedded lab, which needs no parameters.
///
/// # Errors
/// When the cluster does not say, or the lab's profile cannot be read.
pub async fn parameters(client: &Client, record: &LabRecord) -> Part<Option<Parameters>> {
    let image = match record.backend {
        Backend::Embedded => return Ok(None),
        Backend::Kind => record.kind.as_ref().map(|k| k.driver_image.clone()),
        Backend::Context => record.context.as_ref().map(|c| c.driver_image.clone()),
    };
    let mut parameters = Parameters::new(&record.lab, &image.unwrap_or_default());
    parameters.profile = ProfileSource::of(&record.spec.profile).map_err(|error| Blind::because(Chain(&error)))?;
    parameters.gpus = record.spec.gpus;
    // On a cluster that is shared, the first who came has installed it, and its parameters count.
    let namespaces = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
    if let Some(namespace) = namespaces.get_opt(NAMESPACE).await.map_err(|error| Blind::because(Chain(&error)))? {
        let labels = namespace.metadata.labels.unwrap_or_default();
        parameters.lab = labels.get(LAB_LABEL).cloned().unwrap_or(parameters.lab);
        let told = namespace.metadata.annotations.unwrap_or_default().get(PARAMETERS_ANNOTATION).cloned().unwrap_or_default();
        let told: Value = serde_json::from_str(&told).unwrap_or_default();
        if let Some(image) = told["image"].as_str() {
            image.clone_into(&mut parameters.image);
        }
        if let Some(name) = told["profile"].as_str().filter(|name| *name != parameters.profile.short()) {
            let other =
                ProfileSource::of(name).map_err(|_| Blind::because(format!("the installation has profile {name}, which is not here")))?;
            parameters.profile = other;
        }
        if let Some(gpus) = told.get("gpus") {
            parameters.gpus = gpus.as_u64().and_then(|gpus| u32::try_from(gpus).ok());
        }
        for (label, value) in told["nodeSelector"].as_object().into_iter().flatten() {
            parameters.node_selector.insert(label.clone(), value.as_str().unwrap_or_default().to_owned());
        }
    }
    Ok(Some(parameters))
}

/// What was installed, beside what this dralab would apply.
///
/// # Errors
/// When the cluster cannot be asked.
pub(super) async fn installed(client: &Client, record: &LabRecord) -> Part<Vec<Installed>> {
    let look = async {
        let parameters = parameters(client, record).await?;
        let wanted = install::objects(parameters.as_ref()).map_err(|error| Blind::because(Chain(&error)))?;
        let kinds = Kinds::discover(client).await.map_err(|error| Blind::because(Chain(&error)))?;
        let there = install::apply::find(client, &kinds, &wanted).await.map_err(|error| Blind::because(Chain(&error)))?;
        let same = |a: &Value, b: &Value| {
            let place = |o: &Value| (o["kind"].clone(), o["metadata"]["name"].clone(), apply::namespace_of(o, "").to_owned());
            place(a) == place(b)
        };
        Ok(wanted
            .into_iter()
            .map(|wanted| {
                let found = there.iter().find(|found| same(found, &wanted)).cloned();
                Installed { object: title(&wanted), wanted, found }
            })
            .collect())
    };
    match tokio::time::timeout(ANSWERS, look).await {
        Ok(answer) => answer,
        Err(_) => Err(Blind::because(format!("no answer within {} s", ANSWERS.as_secs()))),
    }
}
