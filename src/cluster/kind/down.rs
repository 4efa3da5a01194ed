//! `down` on kind: removes the cluster and what belongs to it, like `rm -f`. Goes by the engine alone, so that it works without kind.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::base::failure::Kind as FailureKind;
use crate::cluster::embedded::change_lock;
use crate::cluster::engine::{Engine, EngineError, NodeContainer};
use crate::cluster::kind::lab::Environment;
use crate::cluster::kind::told;
use crate::cluster::steps::Say;
use crate::cluster::{ClusterError, Home, LabFolder, LabRecord};

/// How long after the last container it is looked for another: one that kind's `docker run` had asked for when it was killed.
const SETTLE: Duration = Duration::from_millis(500);
/// How long removing may take in all.
const BOUND: Duration = Duration::from_secs(120);

/// Files of a lab's folder that `down` keeps: what was learned, the learner's own files, and the lock that is held.
const KEPT: &[&str] = &["progress.json", "lessons", "change.lock"];

/// What there is of a lab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct There {
    /// Its containers.
    pub containers: Vec<NodeContainer>,
    /// The network that its cluster made, where it is there and nobody else is on it.
    pub network: Option<String>,
    /// Containers of a cluster of that name that are not this lab's.
    pub foreign: Vec<String>,
}

/// What `down` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Downed {
    /// Containers that were removed.
    pub containers: Vec<String>,
    /// The network was removed.
    pub network: bool,
    /// There was a lab.
    pub was_there: bool,
    /// The folder is gone, too.
    pub folder: bool,
    /// Containers of that name which are not this lab's, and were left alone.
    pub foreign: Vec<String>,
    /// The engine is not there any more, and what it may have of the lab could not be looked at.
    pub without_engine: Option<String>,
}

/// Whether a container is the lab's: its id is recorded, or the cluster was being created and it has the image.
fn is_ours(record: &LabRecord, node: &NodeContainer) -> bool {
    record.kind.as_ref().is_some_and(|kind| {
        if kind.containers.is_empty() { same_image(&node.image, &kind.node_image) } else { kind.containers.contains(&node.id) }
    })
}

/// Whether two names are of one image: a name with a tag and a digest goes by either.
pub(super) fn same_image(a: &str, b: &str) -> bool {
    let parts =
        |name: &str| name.split_once('@').map_or((name.to_owned(), None), |(name, digest)| (name.to_owned(), Some(digest.to_owned())));
    let ((name_a, digest_a), (name_b, digest_b)) = (parts(a), parts(b));
    match (digest_a, digest_b) {
        (Some(a), Some(b)) => a == b,
        _ => name_a == name_b,
    }
}

/// Looks at what there is of a lab. Changes nothing.
///
/// # Errors
/// When the engine does not answer.
pub async fn look(environment: &Environment, record: &LabRecord) -> Result<There, ClusterError> {
    let engine = environment.engine(Some(record)).await?;
    let (containers, foreign): (Vec<_>, Vec<_>) = engine.nodes(&record.lab).await?.into_iter().partition(|node| is_ours(record, node));
    let network = if record.kind.as_ref().is_some_and(|kind| kind.made_network) {
        let name = environment.network();
        engine.network(name).await?.filter(|on_it| *on_it <= containers.len()).map(|_| name.to_owned())
    } else {
        None
    };
    Ok(There { containers, network, foreign: foreign.into_iter().map(|node| node.name).collect() })
}

/// Takes the lab down. With `purge` what was learned goes, too.
///
/// # Errors
/// When the engine does not answer or refuses, or files cannot be removed. With `purge` an engine that is gone is no error.
pub async fn down(home: &Home, lab: &str, environment: &Environment, purge: bool) -> Result<Downed, ClusterError> {
    let folder = home.lab(lab);
    if !folder.path.exists() {
        return Ok(Downed::default());
    }
    let lock = change_lock(&folder).await?;
    let mut done = Downed::default();
    if let Some(record) = LabRecord::read(&folder)? {
        done.was_there = true;
        match environment.engine(Some(&record)).await {
            Ok(engine) => {
                let network = record.kind.as_ref().is_some_and(|kind| kind.made_network).then(|| environment.network().to_owned());
                let removed = remove_cluster(&engine, lab, &|node| is_ours(&record, node), network.as_deref()).await?;
                (done.containers, done.network, done.foreign) = (removed.containers, removed.network, removed.foreign);
            }
            Err(ClusterError::Engine(error)) if purge && is_gone(&error) => done.without_engine = Some(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    clear(&folder, purge)?;
    done.folder = !folder.path.exists();
    drop(lock);
    Ok(done)
}

/// There is no engine any more, as opposed to one that does not answer now.
fn is_gone(error: &EngineError) -> bool {
    matches!(error, EngineError::NoEngine { .. } | EngineError::NoSocket { .. } | EngineError::Refused { .. })
}

/// Removes the lab's files; what was learned stays unless `purge`. A folder in which nothing is left goes.
fn clear(folder: &LabFolder, purge: bool) -> Result<(), ClusterError> {
    let entries: Vec<PathBuf> =
        fs::read_dir(&folder.path).map_err(ClusterError::file("read", &folder.path))?.flatten().map(|entry| entry.path()).collect();
    let kept = |path: &PathBuf| path.file_name().is_some_and(|name| KEPT.iter().any(|kept| name == *kept));
    let learned = entries.iter().any(|path| kept(path) && path.file_name().is_some_and(|name| name != "change.lock"));
    if purge || !learned {
        return folder.remove();
    }
    // The record goes last: until then the rest can be removed by another `down`.
    let record = folder.record();
    let files: Vec<PathBuf> = entries.into_iter().filter(|path| !kept(path) && *path != record).collect();
    remove_files(&files)?;
    remove_files(&[record])
}

/// Removes files and folders; what is not there is not missed.
///
/// # Errors
/// When one cannot be removed.
pub(super) fn remove_files(paths: &[PathBuf]) -> Result<(), ClusterError> {
    for path in paths {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(ClusterError::file("remove", path)(error)),
            _ => {}
        }
    }
    Ok(())
}

/// What was removed of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Removed {
    containers: Vec<String>,
    network: bool,
    foreign: Vec<String>,
}

/// Removes the containers of a cluster that are `ours`, their volumes, and the network if nobody else is on it.
///
/// # Errors
/// When the engine refuses, or containers keep coming.
pub(super) async fn remove_cluster(
    engine: &Engine,
    cluster: &str,
    ours: &(dyn Fn(&NodeContainer) -> bool + Sync),
    network: Option<&str>,
) -> Result<Removed, ClusterError> {
    let began = Instant::now();
    let mut removed = Removed::default();
    loop {
        let (nodes, foreign): (Vec<_>, Vec<_>) = engine.nodes(cluster).await?.into_iter().partition(|node| ours(node));
        removed.foreign = foreign.into_iter().map(|node| node.name).collect();
        if nodes.is_empty() {
            break;
        }
        let each = nodes.iter().map(|node| async {
            engine.remove_container(&node.id).await?;
            // podman's volumes are not anonymous and do not go with the container.
            for volume in &node.volumes {
                engine.remove_volume(volume).await?;
            }
            Ok::<_, EngineError>(())
        });
        futures::future::try_join_all(each).await?;
        for node in nodes {
            if !removed.containers.contains(&node.name) {
                removed.containers.push(node.name);
            }
        }
        if began.elapsed() > BOUND {
            let message = format!("containers of cluster {cluster} keep coming back");
            return Err(told(FailureKind::Failed, "DL-KIND-07", message, vec![Say::new("kind.advice.engine")]));
        }
        tokio::time::sleep(SETTLE).await;
    }
    if let Some(network) = network
        && removed.foreign.is_empty()
        && engine.network(network).await? == Some(0)
    {
        // Somebody may have put a container on it in this moment: then it stays.
        removed.network = engine.remove_network(network).await.unwrap_or(false);
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::{clear, is_ours};
    use crate::cluster::engine::NodeContainer;
    use crate::cluster::record::FORMAT;
    use crate::cluster::{Backend, Home, KindRecord, LabRecord, LabSpec};

    #[test]
    fn what_was_learned_is_kept_until_it_is_purged() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Home::new(Some(dir.path().to_path_buf()), None, None, None).expect("a home").lab("x");
        let fill = |learned: bool| {
            folder.create().expect("made");
            for name in ["lab.json", "kubeconfig", "kind.yaml", "lab.log", "change.lock"] {
                std::fs::write(folder.path.join(name), "").expect("written");
            }
            if learned {
                std::fs::write(folder.progress(), "").expect("written");
                std::fs::create_dir_all(folder.lessons().join("01")).expect("made");
            }
        };
        let left = || {
            let mut names: Vec<_> =
                std::fs::read_dir(&folder.path).expect("a folder").flatten().map(|e| e.file_name().into_string().expect("text")).collect();
            names.sort();
            names
        };
        fill(true);
        clear(&folder, false).expect("cleared");
        assert_eq!(left(), ["change.lock", "lessons", "progress.json"]);
        clear(&folder, true).expect("cleared");
        assert!(!folder.path.exists());
        fill(false);
        clear(&folder, false).expect("cleared");
        assert!(!folder.path.exists(), "nothing was learned: nothing is left");
    }

    #[test]
    fn only_recorded_containers_are_the_labs() {
        let record = |containers: &[&str]| LabRecord {
            format: FORMAT,
            lab: "x".to_owned(),
            backend: Backend::Kind,
            version: String::new(),
            pid: None,
            server: String::new(),
            kubeconfig: "k".into(),
            spec: LabSpec::default(),
            sockets: None,
            nodes: Vec::new(),
            kind: Some(KindRecord {
                node_image: "i:1".to_owned(),
                containers: containers.iter().map(|c| (*c).to_owned()).collect(),
                ..KindRecord::default()
            }),
            context: None,
        };
        let node = |id: &str, image: &str| NodeContainer {
            name: "n".to_owned(),
            id: id.to_owned(),
            cluster: "x".to_owned(),
            role: "worker".to_owned(),
            running: true,
            image: image.to_owned(),
            addresses: std::collections::BTreeMap::new(),
            volumes: Vec::new(),
        };
        assert!(is_ours(&record(&["a"]), &node("a", "other")) && !is_ours(&record(&["a"]), &node("b", "i:1")));
        for (a, b, same) in [
            ("i:1", "i:1", true),
            ("i:1@sha256:0", "i:1", true),
            ("i@sha256:0", "i:1@sha256:0", true),
            ("i:1@sha256:0", "i:1@sha256:1", false),
            ("i:1", "i:2", false),
        ] {
            assert_eq!(super::same_image(a, b), same, "{a} {b}");
        }
        assert!(is_ours(&record(&[]), &node("a", "i:1")) && !is_ours(&record(&[]), &node("a", "i:2")));
    }
}
