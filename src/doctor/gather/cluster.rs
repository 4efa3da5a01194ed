//! The cluster's version and objects.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use serde_json::Value;

use crate::base::clock::Clock;
use crate::base::failure::Chain;
use crate::client::{ClientError, Kind, Kinds, raw};
use crate::doctor::facts::{Cluster, Part};
use crate::doctor::gather::probe::probe;
use crate::doctor::{Absent, Blind};

/// How long the server may take to say its version and kinds.
const ANSWERS: Duration = Duration::from_secs(6);
/// How long it may take to list the objects of one kind.
const LISTS: Duration = Duration::from_secs(8);
/// Objects in one answer.
const PAGE: usize = 500;
/// Objects of one kind in all: a cluster that has more is judged by these.
const MOST: usize = 20_000;

/// Kinds that checks look at, with what is asked of the server beside them. Never Secrets or ConfigMaps.
const LISTED: &[(&str, &str)] = &[
    ("nodes", ""),
    ("namespaces", ""),
    ("pods", ""),
    ("events", "fieldSelector=type%3DWarning"),
    ("resourcequotas", ""),
    ("resourceslices.resource.k8s.io", ""),
    ("resourceclaims.resource.k8s.io", ""),
    ("resourceclaimtemplates.resource.k8s.io", ""),
    ("deviceclasses.resource.k8s.io", ""),
    ("devicetaintrules.resource.k8s.io", ""),
    ("daemonsets.apps", ""),
    ("clusterroles.rbac.authorization.k8s.io", ""),
    ("clusterrolebindings.rbac.authorization.k8s.io", ""),
    ("validatingadmissionpolicies.admissionregistration.k8s.io", ""),
    ("validatingadmissionpolicybindings.admissionregistration.k8s.io", ""),
];

/// Collects what the checks need of a cluster. `server` is how it is named to the user, `flags` what another
/// command needs to reach it.
///
/// # Errors
/// When it cannot be reached, or does not tell its version and kinds.
pub(super) async fn cluster(client: &Client, server: &str, flags: &str, clock: &dyn Clock) -> Part<Cluster> {
    let about = async { futures::try_join!(raw::get_json(client, "/version", "application/json"), Kinds::discover(client)) };
    let (version, kinds) = bounded(ANSWERS, about).await?;
    let version = version["gitVersion"].as_str().unwrap_or_default().to_owned();
    let lists = join_all(LISTED.iter().map(|(name, query)| async {
        let plural = name.split('.').next().unwrap_or_default();
        let list = match kinds.find(name) {
            Ok(kind) => bounded(LISTS, list(client, kind, query)).await,
            Err(_) => Err(Blind::NotHere(Absent::NotServed)),
        };
        (plural, list)
    }));
    let (lists, probe) =
        futures::join!(lists, async { bounded(LISTS, async { Ok(probe(client, &kinds, clock).await) }).await.and_then(|p| p) });
    Ok(Cluster {
        server: server.to_owned(),
        flags: flags.to_owned(),
        embedded: version.contains("+dralab"),
        version,
        dra_versions: kinds.versions("resource.k8s.io"),
        objects: lists.into_iter().collect::<BTreeMap<_, _>>(),
        probe,
    })
}

/// Waits for an answer; a refusal and a wait in vain are reasons.
async fn bounded<T>(bound: Duration, answer: impl Future<Output = Result<T, ClientError>>) -> Part<T> {
    match tokio::time::timeout(bound, answer).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Blind::because(Chain(&error))),
        Err(_) => Err(Blind::because(format!("no answer within {} s", bound.as_secs()))),
    }
}

/// All objects of a kind, page by page, without managed fields.
async fn list(client: &Client, kind: &Kind, query: &str) -> Result<Vec<Value>, ClientError> {
    let mut objects = Vec::new();
    let mut next = String::new();
    loop {
        let mut path = format!("{}?limit={PAGE}", kind.path(None));
        for part in [query, next.as_str()].into_iter().filter(|p| !p.is_empty()) {
            path.push('&');
            path.push_str(part);
        }
        let mut answer = raw::get_json(client, &path, "application/json").await?;
        let cut = answer["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if let Value::Array(items) = answer["items"].take() {
            for mut item in items {
                if let Some(metadata) = item["metadata"].as_object_mut() {
                    metadata.remove("managedFields");
                }
                objects.push(item);
            }
        }
        if cut.is_empty() || objects.len() >= MOST {
            return Ok(objects);
        }
        next = format!("continue={}", raw::query_escape(&cut));
    }
}
