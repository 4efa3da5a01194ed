//! `up` on kind: the list of steps, run under the lab's lock.

use tokio_util::sync::CancellationToken;

use crate::cluster::embedded::change_lock;
use crate::cluster::kind::lab::{Environment, Lab};
use crate::cluster::kind::plan::{Plan, Wanted};
use crate::cluster::kind::steps::{Configuration, CreateCluster, DriverImage, Install, LessonImage, NodeImage, Preflight, Ready};
use crate::cluster::steps::{self, Reporter, Step, Stopped};
use crate::cluster::{ClusterError, Home, LabRecord};

/// The steps in their order.
#[must_use]
pub fn step_list() -> Vec<Box<dyn Step<Lab>>> {
    vec![
        Box::new(Preflight),
        Box::new(NodeImage),
        Box::new(Configuration),
        Box::new(CreateCluster),
        Box::new(LessonImage),
        Box::new(DriverImage),
        Box::new(Install),
        Box::new(Ready),
    ]
}

/// The plan for a lab, from what is recorded of it.
///
/// # Errors
/// As [`Plan::make`], and when the record cannot be read.
pub fn plan_of(home: &Home, lab: &str, wanted: Wanted) -> Result<Plan, ClusterError> {
    Plan::make(lab, wanted, LabRecord::read(&home.lab(lab))?)
}

/// Brings the lab up, or finds it up. What this run made is undone when it fails or `cancel` is cancelled, unless `retain`.
///
/// # Errors
/// Why it did not come through.
pub async fn up(
    home: &Home,
    lab: &str,
    wanted: Wanted,
    environment: Environment,
    retain: bool,
    cancel: &CancellationToken,
    report: Reporter<'_>,
) -> Result<LabRecord, Stopped> {
    let folder = home.lab(lab);
    let fresh = !folder.path.exists();
    // What can be refused is refused before anything is written.
    plan_of(home, lab, wanted.clone()).map_err(Stopped::Failed)?;
    let lock = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(Stopped::Interrupted),
        lock = change_lock(&folder) => lock.map_err(Stopped::Failed)?,
    };
    // Another `up` or `down` may have been at work while this one waited.
    let ended = match plan_of(home, lab, wanted) {
        Ok(plan) => {
            let mut shared = Lab::new(folder.clone(), plan, environment, retain);
            steps::run(&step_list(), &mut shared, retain, cancel, report).await.map(|()| shared.record)
        }
        Err(error) => Err(Stopped::Failed(error)),
    };
    let told_in_log = matches!(ended, Err(Stopped::Failed(_))) && folder.log().exists();
    if ended.is_err() && fresh && !folder.record().exists() && !told_in_log {
        // It is as if this had never been; the lock in the folder is held until the end. A failure leaves what kind wrote.
        if let Err(error) = folder.remove() {
            tracing::debug!(%error, path = %folder.path.display(), "the lab's folder was not removed");
        }
    }
    drop(lock);
    ended
}
