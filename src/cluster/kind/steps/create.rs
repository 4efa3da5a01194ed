//! The cluster: created by kind into the lab's own kubeconfig, or started again.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use kube::config::Kubeconfig;
use tokio::sync::Notify;

use crate::base::failure::Kind as FailureKind;
use crate::cluster::ClusterError;
use crate::cluster::engine::{Engine, NodeContainer};
use crate::cluster::image::{DriverImage, ImageError, LESSON_IMAGE, driver, lesson};
use crate::cluster::kind::image::Kubernetes;
use crate::cluster::kind::lab::{Lab, command};
use crate::cluster::kind::tool::{self, Ran};
use crate::cluster::kind::{causes, down, told};
use crate::cluster::steps::{Found, Reporter, Say, Step, StepEvent};

/// How long the API server of a cluster that was started again may take.
const STARTED: Duration = Duration::from_secs(120);
/// How long to wait before it is asked again.
const AGAIN: Duration = Duration::from_millis(250);

/// What kind says it is doing once the nodes have booted and their configuration is written.
const BOOTED: &str = "Starting control-plane";

/// The cluster.
#[derive(Debug)]
pub struct CreateCluster;

impl Step<Lab> for CreateCluster {
    fn describe(&self, lab: &Lab) -> Say {
        Say::new("kind.create")
            .with("lab", &lab.plan.lab)
            .with("config", &lab.config().display())
            .with("kubeconfig", &lab.folder.kubeconfig().display())
    }

    fn can_undo(&self, lab: &Lab) -> bool {
        // What was there before is only running again.
        lab.creates
    }

    fn check<'a>(&'a self, lab: &'a mut Lab) -> BoxFuture<'a, Result<Found, ClusterError>> {
        Box::pin(async move {
            if lab.creates || lab.found.iter().any(|node| !node.running) || !lab.folder.kubeconfig().is_file() {
                return Ok(Found::ToDo);
            }
            wait_for_api(lab).await?;
            Ok(Found::Done(there(lab)))
        })
    }

    fn apply<'a>(&'a self, lab: &'a mut Lab, report: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            let engine = lab.engine()?;
            if lab.creates {
                create(lab, report).await?;
            } else {
                for node in lab.found.iter().filter(|node| !node.running) {
                    report(StepEvent::Bytes { what: Some(Say::new("kind.starting").with("node", &node.name)), done: 0, total: 0 });
                    engine.start_container(&node.name).await?;
                }
                if !lab.folder.kubeconfig().is_file() {
                    export(lab).await?;
                }
            }
            wait_for_api(lab).await?;
            version(lab, report).await?;
            lab.write_record()?;
            Ok(if lab.creates { created(lab) } else { there(lab) })
        })
    }

    fn undo<'a>(&'a self, lab: &'a mut Lab) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            lab.client = None;
            lab.left = true;
            let made_network = lab.kind_record().made_network;
            let network = made_network.then(|| lab.environment.network().to_owned());
            let ours = |node: &NodeContainer| down::same_image(&node.image, &lab.plan.image.name);
            down::remove_cluster(&lab.engine()?, &lab.plan.lab, &ours, network.as_deref()).await?;
            lab.left = false;
            down::remove_files(&[lab.folder.kubeconfig()])
        })
    }
}

fn created(lab: &Lab) -> Say {
    let kubernetes = lab.record.kind.as_ref().map(|k| k.kubernetes.clone()).unwrap_or_default();
    Say::new("kind.created").with("kubernetes", &kubernetes).with("nodes", &lab.nodes().join(", "))
}

fn there(lab: &Lab) -> Say {
    let kubernetes = lab.record.kind.as_ref().map(|k| k.kubernetes.clone()).unwrap_or_default();
    Say::new("kind.there").with("kubernetes", &kubernetes).with("nodes", &lab.nodes().join(", "))
}

async fn create(lab: &mut Lab, report: Reporter<'_>) -> Result<(), ClusterError> {
    let engine = lab.engine()?;
    let network = lab.environment.network().to_owned();
    // What an interrupted `up` left of it.
    let image = lab.plan.image.name.clone();
    let ours = |node: &NodeContainer| down::same_image(&node.image, &image);
    down::remove_cluster(&engine, &lab.plan.lab, &ours, None).await?;
    down::remove_files(&[lab.folder.kubeconfig()])?;
    lab.kind_record().made_network |= engine.network(&network).await?.is_none();
    lab.write_record()?;
    let Some(kind) = lab.kind.clone() else {
        return Err(told(FailureKind::Failed, "DL-KIND-09", "kind was not looked for", Vec::new()));
    };
    let mut run = command(&kind.program, &engine);
    run.args(["create", "cluster", "--name", &lab.plan.lab, "--config"]).arg(lab.config());
    run.arg("--kubeconfig").arg(lab.folder.kubeconfig());
    if lab.retain {
        run.arg("--retain");
    }
    let log = lab.folder.log();
    let booted = Notify::new();
    let line = |line: &str| {
        if let Some(doing) = doing(line) {
            if doing.starts_with(BOOTED) {
                booted.notify_one();
            }
            report(StepEvent::Bytes { what: Some(Say::new("kind.creating").with("doing", &doing)), done: 0, total: 0 });
        }
    };
    let (ran, made) = {
        let creating = tool::run(run, Some(&log), &line);
        let ahead = images_ahead(lab, &engine, &booted);
        tokio::pin!(creating, ahead);
        tokio::select! {
            ran = &mut creating => {
                let made = if ran.as_ref().is_ok_and(|ran| ran.success) {
                    booted.notify_one();
                    ahead.await
                } else {
                    None
                };
                (ran, made)
            }
            made = &mut ahead => (creating.await, made),
        }
    };
    lab.driver = made;
    let ran = ran.map_err(|source| told(FailureKind::Failed, "DL-KIND-01", format!("cannot run kind: {source}"), Vec::new()))?;
    if !ran.success {
        return Err(failed(&ran, &log));
    }
    lab.found = engine.nodes(&lab.plan.lab).await?;
    let ids = lab.found.iter().map(|node| node.id.clone()).collect();
    lab.kind_record().containers = ids;
    Ok(())
}

/// Makes the driver's image while the cluster is made, and brings it and the lessons' image onto the workers as soon as these have booted: kubeadm
/// leaves them idle then. Only what is on this machine; what has to be pulled or built is for its own step, where its progress is seen.
/// What goes wrong here goes wrong there again, and is told there.
async fn images_ahead(lab: &Lab, engine: &Engine, booted: &Notify) -> Option<Result<DriverImage, ImageError>> {
    let wanted = lab.driver_wanted();
    let architecture = lab.info.as_ref().map(|info| info.architecture.clone()).unwrap_or_default();
    let quiet = |_: StepEvent| {};
    let made = match (&wanted.image, &wanted.source) {
        (None, None) => Some(driver::prepare(engine, &wanted, &architecture, &lab.folder.path, &quiet).await),
        _ => None,
    };
    let instead = lab.plan.workload_image.as_deref();
    let lesson_is_here = engine.image(instead.unwrap_or(LESSON_IMAGE)).await.is_ok_and(|image| image.is_some());
    booted.notified().await;
    let workers = lab.plan.spec.workers(&lab.plan.lab);
    let lessons = async {
        if lesson_is_here && let Err(error) = lesson::ensure(engine, &workers, LESSON_IMAGE, instead, &lab.folder.path, &quiet).await {
            tracing::debug!(%error, "the lessons' image was not loaded ahead");
        }
    };
    let drivers = async {
        if let Some(Ok(image)) = &made
            && let Err(error) = driver::load(engine, &workers, image, &quiet).await
        {
            tracing::debug!(%error, "the driver's image was not loaded ahead");
        }
    };
    tokio::join!(lessons, drivers);
    made
}

/// Writes the kubeconfig anew, of a cluster that runs.
async fn export(lab: &Lab) -> Result<(), ClusterError> {
    let engine = lab.engine()?;
    let program = tool::locate(lab.environment.kind.as_deref(), &lab.environment.path).ok_or_else(|| {
        told(FailureKind::Failed, "DL-KIND-01", tool::ToolError::NotFound.to_string(), vec![Say::new("kind.advice.install")])
    })?;
    let mut run = command(&program, &engine);
    run.args(["export", "kubeconfig", "--name", &lab.plan.lab, "--kubeconfig"]).arg(lab.folder.kubeconfig());
    let log = lab.folder.log();
    let ran = tool::run(run, Some(&log), &|_| ()).await;
    let ran = ran.map_err(|source| told(FailureKind::Failed, "DL-KIND-01", format!("cannot run kind: {source}"), Vec::new()))?;
    if ran.success { Ok(()) } else { Err(failed(&ran, &log)) }
}

/// What kind says it is doing: ` • Preparing nodes 📦 📦  ...`.
fn doing(line: &str) -> Option<String> {
    let text = line.trim_start().strip_prefix(['•', '✓'])?;
    let text: String = text.chars().filter(char::is_ascii).collect();
    let text = text.trim().trim_end_matches('.').trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The failure of a run of kind: its last lines, the cause if it is known, and where the rest is.
fn failed(ran: &Ran, log: &std::path::Path) -> ClusterError {
    let cause = causes::find(&ran.output);
    let mut advice: Vec<Say> = cause.iter().map(|cause| cause.advice()).collect();
    advice.push(Say::new("kind.advice.log").with("log", &log.display()));
    ClusterError::Advised {
        message: format!("kind did not create the cluster ({})", ran.status),
        id: cause.map_or(causes::UNKNOWN, |cause| cause.id),
        kind: FailureKind::Failed,
        causes: ran.last_lines(),
        advice,
    }
}

/// Waits until the API server answers.
async fn wait_for_api(lab: &mut Lab) -> Result<(), ClusterError> {
    let client = lab.client().await?;
    let began = Instant::now();
    loop {
        let last = match tokio::time::timeout(STARTED.saturating_sub(began.elapsed()), client.apiserver_version()).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        if began.elapsed() > STARTED {
            return Err(ClusterError::NotReady { seconds: STARTED.as_secs(), last });
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Reads what version the cluster really has; an image can be other than its name says.
async fn version(lab: &mut Lab, report: Reporter<'_>) -> Result<(), ClusterError> {
    let wrong = |error: kube::Error| ClusterError::Api { what: "its version".to_owned(), source: Box::new(error) };
    let told_version = lab.client().await?.apiserver_version().await.map_err(wrong)?.git_version;
    if let Some(real) = Kubernetes::parse(&told_version) {
        let planned = lab.plan.image.version;
        if real.minor != planned.minor {
            let note = Say::new("kind.other-version").with("image", &lab.plan.image.name).with("real", &real).with("planned", &planned);
            report(StepEvent::Note(note));
        }
        real.check()
            .map_err(|error| told(FailureKind::Refused, "DL-KIND-02", error.to_string(), vec![Say::new("kind.advice.versions")]))?;
        lab.kind_record().kubernetes = real.to_string();
    }
    let kubeconfig = lab.folder.kubeconfig();
    if let Ok(read) = Kubeconfig::read_from(&kubeconfig) {
        let cluster = read.clusters.into_iter().next().and_then(|named| named.cluster);
        lab.record.server = cluster.and_then(|cluster| cluster.server).unwrap_or_default();
    }
    lab.record.kubeconfig = kubeconfig;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::doing;

    #[test]
    fn what_kind_is_doing_is_told_without_its_pictures() {
        for (line, expected) in [
            (" • Preparing nodes 📦 📦   ...", Some("Preparing nodes")),
            (" ✓ Starting control-plane 🕹️", Some("Starting control-plane")),
            ("Creating cluster \"x\" ...", None),
            (" ✓ ", None),
            ("", None),
        ] {
            assert_eq!(doing(line).as_deref(), expected, "{line}");
        }
    }
}
