//! Taking a lab away from a cluster that was there before: exactly what `up` made, and nothing on another cluster.

use crate::base::failure::{Chain, Kind};
use crate::client::apply::api_of;
use crate::client::connect::{self, Proxies};
use crate::client::{ClientError, Kinds};
use crate::cluster::context::images::Images;
use crate::cluster::context::survey::another_cluster;
use crate::cluster::embedded::change_lock;
use crate::cluster::install::sharing::{self, Participant};
use crate::cluster::install::{self, Removal, Removed, manifests, remove};
use crate::cluster::steps::{Reporter, Say, StepEvent};
use crate::cluster::{ClusterError, ContextRecord, Home, LabFolder, LabRecord};

/// What `down` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Downed {
    /// What was removed from the cluster; `None`: it was not touched.
    pub removed: Option<Removed>,
    /// How many images were taken off the nodes.
    pub images: usize,
    /// The lab's folder was removed too.
    pub purged: bool,
}

/// What `down` would remove from the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Namespaces of lessons.
    pub lessons: Vec<String>,
    /// Objects of the installation; empty while others use it.
    pub objects: Vec<String>,
    /// Others that use it.
    pub others: Vec<String>,
}

fn removal(record: &LabRecord, context: &ContextRecord) -> Removal {
    Removal {
        lab: record.lab.clone(),
        driver_name: crate::driver::DEFAULT_DRIVER_NAME.to_owned(),
        participant: Participant { learner: context.learner.clone(), id: context.id.clone() },
        objects: context.objects.clone(),
    }
}

/// Whether the context leads to the cluster that the lab was made on; its kinds, if so.
async fn same_cluster(client: &kube::Client, context: &ContextRecord) -> Result<Kinds, ClusterError> {
    let look = async {
        let kinds = Kinds::discover(client).await?;
        let system = api_of(client, kinds.find("namespaces")?, "").get("kube-system").await?;
        Ok::<_, ClientError>((kinds, system.metadata.uid.unwrap_or_default()))
    };
    let (kinds, uid) = look.await.map_err(|error| unreachable(context, &error))?;
    if uid == context.cluster { Ok(kinds) } else { Err(another_cluster(&context.cluster, &uid)) }
}

fn unreachable(context: &ContextRecord, error: &ClientError) -> ClusterError {
    ClusterError::Advised {
        message: format!("the cluster of context \"{}\" cannot be asked, and nothing was removed from it", context.context),
        id: "DL-CTX-13",
        kind: Kind::NoLab,
        causes: vec![Chain(error).to_string()],
        advice: vec![Say::new("context.forget")],
    }
}

/// What `down` would remove.
///
/// # Errors
/// When the cluster cannot be asked, or is another one.
pub async fn preview(record: &LabRecord, proxies: &Proxies) -> Result<Preview, ClusterError> {
    let context = record.context.clone().unwrap_or_default();
    let client = connect::by_kubeconfig(&record.kubeconfig, None, proxies).await.map_err(|error| unreachable(&context, &error))?;
    let kinds = same_cluster(&client, &context).await?;
    let removal = removal(record, &context);
    let lessons = remove::lesson_namespaces(&client, &kinds, &removal.lab, context.learner.as_deref()).await?;
    let shared = sharing::look(&client, &kinds).await?;
    let others: Vec<String> = shared.iter().flat_map(|shared| shared.others(&removal.participant)).map(str::to_owned).collect();
    let objects =
        if others.is_empty() && shared.is_some() { removal.objects.iter().rev().map(ToString::to_string).collect() } else { Vec::new() };
    Ok(Preview { lessons, objects, others })
}

/// Takes the lab away from its cluster, and forgets it; what was learned is kept unless `purge`. With `purge` a lab is also forgotten when its
/// cluster cannot be asked or is another one now; nothing is removed there then, and a note says so.
///
/// # Errors
/// When the cluster cannot be asked, is another one, or something does not go.
pub async fn down(
    home: &Home,
    lab: &str,
    purge: bool,
    images: &Images,
    proxies: &Proxies,
    report: Reporter<'_>,
) -> Result<Downed, ClusterError> {
    let folder = home.lab(lab);
    if !folder.path.exists() {
        return Ok(Downed::default());
    }
    let lock = change_lock(&folder).await?;
    let mut downed = Downed::default();
    if let Some(record) = LabRecord::read(&folder)? {
        let context = record.context.clone().unwrap_or_default();
        report(StepEvent::Begin(Say::new("context.removing-from").with("context", &context.context)));
        match remove_from(&record, &context, images, proxies).await {
            Ok((removed, images)) => {
                report(StepEvent::Done(said(&removed, &context)));
                for (object, why) in &removed.left {
                    report(StepEvent::Note(Say::new("context.left").with("object", object).with("why", why)));
                }
                downed.removed = Some(removed);
                downed.images = images;
            }
            Err(error) if purge && is_elsewhere(&error) => {
                report(StepEvent::Failed);
                report(StepEvent::Note(Say::new("context.forgotten").with("why", &error)));
            }
            Err(error) => {
                report(StepEvent::Failed);
                return Err(error);
            }
        }
        forget(&folder)?;
    }
    if purge {
        folder.remove()?;
        downed.purged = true;
    }
    drop(lock);
    Ok(downed)
}

/// The cluster is not the lab's, or not there: what `--purge` forgets.
fn is_elsewhere(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Advised { id: "DL-CTX-11" | "DL-CTX-13", .. })
}

fn said(removed: &Removed, context: &ContextRecord) -> Say {
    let say = if removed.others.is_empty() {
        Say::new("context.removed").with("objects", &removed.objects.len()).with("slices", &removed.slices)
    } else {
        Say::new("context.left-others").with("others", &removed.others.join(", "))
    };
    say.with("lessons", &removed.lessons.len()).with("context", &context.context)
}

async fn remove_from(
    record: &LabRecord,
    context: &ContextRecord,
    images: &Images,
    proxies: &Proxies,
) -> Result<(Removed, usize), ClusterError> {
    let client = connect::by_kubeconfig(&record.kubeconfig, None, proxies).await.map_err(|error| unreachable(context, &error))?;
    let kinds = same_cluster(&client, context).await?;
    let mut removal = removal(record, context);
    if removal.objects.is_empty() {
        // A record of an `up` that was killed before it knew: by the names of the manifests, and the labels decide.
        let parameters = install::Parameters::new(&record.lab, &context.driver_image);
        removal.objects = manifests::objects(Some(&parameters))?.iter().map(install::ObjectRef::of).collect();
    }
    let put = sharing::look(&client, &kinds).await?.map(|shared| shared.images).unwrap_or_default();
    let removed = install::uninstall(&client, &removal).await?;
    if !removed.others.is_empty() {
        return Ok((removed, 0));
    }
    let nodes = super::survey::nodes(&client, &kinds, &context.node_selector).await?;
    let Some(local) = images.locate(&nodes).await else { return Ok((removed, 0)) };
    images.remove(&local, &put).await?;
    local.remove_files(&removal.driver_name).await?;
    let names: std::collections::BTreeSet<&String> = put.values().flatten().filter(|name| !name.starts_with("sha256:")).collect();
    Ok((removed, names.len()))
}

/// Removes what makes a lab of the folder; what was learned stays.
///
/// # Errors
/// When a file cannot be removed.
pub(super) fn forget(folder: &LabFolder) -> Result<(), ClusterError> {
    for path in [folder.record(), folder.kubeconfig()] {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(ClusterError::file("remove", path)(error)),
            _ => {}
        }
    }
    Ok(())
}
