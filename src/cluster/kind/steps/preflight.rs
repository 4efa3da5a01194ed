//! Looks at kind, the engine, and whether the name and the port are free. Changes nothing.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};

use futures::future::BoxFuture;

use crate::base::failure::Kind as FailureKind;
use crate::cluster::ClusterError;
use crate::cluster::engine::NodeContainer;
use crate::cluster::kind::config::REFUSES_CGROUP_V1;
use crate::cluster::kind::down::same_image;
use crate::cluster::kind::lab::Lab;
use crate::cluster::kind::told;
use crate::cluster::kind::tool::{self, Kind, ToolError};
use crate::cluster::record::KindRecord;
use crate::cluster::steps::{Found, Reporter, Say, Step, StepEvent};

/// Preflight.
#[derive(Debug)]
pub struct Preflight;

impl Step<Lab> for Preflight {
    fn describe(&self, _: &Lab) -> Say {
        Say::new("kind.preflight")
    }

    fn can_undo(&self, _: &Lab) -> bool {
        false
    }

    fn check<'a>(&'a self, _: &'a mut Lab) -> BoxFuture<'a, Result<Found, ClusterError>> {
        Box::pin(async { Ok(Found::ToDo) })
    }

    fn apply<'a>(&'a self, lab: &'a mut Lab, report: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            let engine = lab.environment.engine(lab.plan.record.as_ref()).await?;
            let info = engine.info().await?;
            lab.found = ours(&lab.plan.lab, engine.nodes(&lab.plan.lab).await?, lab.plan.record.as_ref().and_then(|r| r.kind.as_ref()))?;
            lab.kind_record().engine = engine.address().docker_host();
            lab.creates = lab.found.is_empty() || lab.record.kind.as_ref().is_none_or(|k| k.containers.is_empty());
            let engine_name = format!("{} {}", info.name, info.version);
            let said = Say::new(if lab.creates { "kind.preflight-done" } else { "kind.preflight-there" }).with("engine", &engine_name);
            let said = if lab.creates {
                let kind = find_kind(lab).await?;
                let client = if engine.is_podman() { "podman" } else { "docker" };
                has_client(lab, client)?;
                if let Some(port) = lab.plan.spec.port {
                    free_port(port)?;
                }
                let said = said.with("kind", &kind.version);
                lab.kind = Some(kind);
                if !lab.plan.image.pinned && !lab.plan.image.named {
                    report(StepEvent::Note(Say::new("kind.unpinned").with("image", &lab.plan.image.name)));
                }
                if info.cgroup_version == Some(1) {
                    let id = if lab.plan.image.version.minor >= REFUSES_CGROUP_V1 { "kind.cgroup-v1-told" } else { "kind.cgroup-v1" };
                    report(StepEvent::Note(Say::new(id)));
                }
                for note in proxies(&lab.environment.proxies) {
                    report(StepEvent::Note(note));
                }
                said
            } else {
                said
            };
            lab.engine = Some(engine);
            lab.info = Some(info);
            Ok(said)
        })
    }
}

async fn find_kind(lab: &Lab) -> Result<Kind, ClusterError> {
    let wrong = |error: ToolError| {
        let (id, advice) = match &error {
            ToolError::TooOld { .. } => ("DL-KIND-06", "kind.advice.old-kind"),
            _ => ("DL-KIND-01", "kind.advice.install"),
        };
        let causes = std::error::Error::source(&error).map(|source| vec![source.to_string()]).unwrap_or_default();
        ClusterError::Advised { message: error.to_string(), id, kind: FailureKind::Failed, causes, advice: vec![Say::new(advice)] }
    };
    let program = tool::locate(lab.environment.kind.as_deref(), &lab.environment.path).ok_or(ToolError::NotFound).map_err(wrong)?;
    let kind = Kind::ask(program).await.map_err(wrong)?;
    kind.check(&lab.plan.image).map_err(wrong)?;
    Ok(kind)
}

/// kind runs the engine's own command.
fn has_client(lab: &Lab, client: &str) -> Result<(), ClusterError> {
    if std::env::split_paths(&lab.environment.path).any(|folder| folder.join(client).is_file()) {
        return Ok(());
    }
    Err(told(FailureKind::Failed, "DL-KIND-24", format!("there is no `{client}` on the PATH"), vec![Say::new("kind.advice.client")]))
}

fn free_port(port: u16) -> Result<(), ClusterError> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Ok(()),
        Err(source) => Err(ClusterError::Advised {
            message: format!("port {port} of 127.0.0.1 cannot be had"),
            id: "DL-KIND-13",
            kind: FailureKind::Failed,
            causes: vec![source.to_string()],
            advice: vec![Say::new("kind.advice.port")],
        }),
    }
}

/// The containers of the cluster, if they are this lab's.
///
/// A lab whose record has no containers yet was interrupted while its cluster was created; what is there of the same image then is its own.
fn ours(lab: &str, there: Vec<NodeContainer>, record: Option<&KindRecord>) -> Result<Vec<NodeContainer>, ClusterError> {
    let foreign = |node: &NodeContainer| match record {
        None => true,
        Some(record) if record.containers.is_empty() => !same_image(&node.image, &record.node_image),
        Some(record) => !record.containers.contains(&node.id),
    };
    if let Some(node) = there.iter().find(|node| foreign(node)) {
        let message = format!("there is a kind cluster \"{lab}\" that this lab did not make (container {})", node.name);
        return Err(told(FailureKind::Refused, "DL-KIND-23", message, vec![Say::new("kind.advice.exists")]));
    }
    let ids: BTreeSet<&String> = there.iter().map(|node| &node.id).collect();
    let gone = record.map(|r| r.containers.iter().filter(|id| !ids.contains(id)).count()).unwrap_or_default();
    // With all of them gone the cluster is made anew; a part of it cannot be.
    if gone > 0 && !there.is_empty() {
        let message = format!("{gone} of the containers of lab \"{lab}\" are gone");
        return Err(told(FailureKind::Failed, "DL-KIND-07", message, vec![Say::new("kind.advice.new-cluster").with("lab", lab)]));
    }
    Ok(there)
}

/// What the nodes get of the proxies. kind hands them on and adds the cluster's own networks and names to `NO_PROXY`.
fn proxies(set: &[(&'static str, String)]) -> Vec<Say> {
    let names: Vec<&str> = set.iter().filter(|(name, _)| *name != "NO_PROXY").map(|(name, _)| *name).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let mut notes = vec![Say::new("kind.proxies").with("names", &names.join(", "))];
    let local = |value: &str| ["://127.", "://localhost", "://[::1]", "@127.", "@localhost"].iter().any(|part| value.contains(part));
    if let Some((name, _)) = set.iter().find(|(name, value)| *name != "NO_PROXY" && local(value)) {
        notes.push(Say::new("kind.proxy-local").with("name", name));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::{ours, proxies};
    use crate::cluster::engine::NodeContainer;
    use crate::cluster::record::KindRecord;

    fn node(id: &str) -> NodeContainer {
        NodeContainer {
            name: format!("x-{id}"),
            id: id.to_owned(),
            cluster: "x".to_owned(),
            role: "worker".to_owned(),
            running: true,
            image: "i:1".to_owned(),
            addresses: std::collections::BTreeMap::new(),
            volumes: Vec::new(),
        }
    }

    #[test]
    fn a_cluster_is_ours_by_its_containers() {
        let record = |ids: &[&str], image: &str| KindRecord {
            node_image: image.to_owned(),
            containers: ids.iter().map(|id| (*id).to_owned()).collect(),
            ..KindRecord::default()
        };
        for (there, record, expected) in [
            (&[][..], None, Ok(0)),
            (&["a"], None, Err("did not make")),
            (&["a", "b"], Some(record(&["a", "b"], "i:1")), Ok(2)),
            (&["a", "c"], Some(record(&["a", "b"], "i:1")), Err("did not make")),
            (&["a"], Some(record(&["a", "b"], "i:1")), Err("1 of the containers")),
            (&[], Some(record(&["a", "b"], "i:1")), Ok(0)),
            // Interrupted while it was created.
            (&["a"], Some(record(&[], "i:1")), Ok(1)),
            (&["a"], Some(record(&[], "other:1")), Err("did not make")),
        ] {
            let found = ours("x", there.iter().map(|id| node(id)).collect(), record.as_ref());
            match (found, expected) {
                (Ok(found), Ok(count)) => assert_eq!(found.len(), count),
                (Err(error), Err(said)) => assert!(error.to_string().contains(said), "{error}"),
                (found, expected) => panic!("{there:?} {record:?}: {found:?}, and not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_proxy_on_this_machine_is_told_of() {
        let ids = |set: &[(&'static str, String)]| proxies(set).into_iter().map(|say| say.id).collect::<Vec<_>>();
        assert!(ids(&[("NO_PROXY", "x".to_owned())]).is_empty());
        assert_eq!(ids(&[("HTTPS_PROXY", "http://proxy:3128".to_owned())]), ["kind.proxies"]);
        assert_eq!(ids(&[("HTTPS_PROXY", "http://127.0.0.1:3128".to_owned())]), ["kind.proxies", "kind.proxy-local"]);
    }
}
