//! Waits until the driver runs and every worker's pool is complete.

use std::time::Duration;

use futures::future::BoxFuture;

use crate::cluster::ClusterError;
use crate::cluster::image::driver;
use crate::cluster::install;
use crate::cluster::kind::lab::Lab;
use crate::cluster::steps::{Found, Reporter, Say, Step};

/// How long nodes and drivers may take.
const READY: Duration = Duration::from_secs(180);

/// The drivers are ready.
#[derive(Debug)]
pub struct Ready;

impl Step<Lab> for Ready {
    fn describe(&self, _: &Lab) -> Say {
        Say::new("kind.ready").with("seconds", &READY.as_secs())
    }

    fn can_undo(&self, _: &Lab) -> bool {
        false
    }

    fn check<'a>(&'a self, _: &'a mut Lab) -> BoxFuture<'a, Result<Found, ClusterError>> {
        Box::pin(async { Ok(Found::ToDo) })
    }

    fn apply<'a>(&'a self, lab: &'a mut Lab, _: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            let workers = lab.plan.spec.workers(&lab.plan.lab);
            let parameters = lab.parameters()?;
            let ready = install::wait_ready(&lab.client().await?, &parameters, Some(&workers), READY).await?;
            if !lab.creates {
                // The images of drivers before this one.
                driver::remove(&lab.engine()?, &workers, Some(&parameters.image)).await?;
            }
            Ok(Say::new("up.published").with("devices", &ready.devices).with("slices", &ready.slices))
        })
    }
}
