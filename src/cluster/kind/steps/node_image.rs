//! The node image is in the engine, or is pulled.

use futures::future::BoxFuture;

use crate::base::failure::Kind as FailureKind;
use crate::cluster::ClusterError;
use crate::cluster::kind::lab::Lab;
use crate::cluster::kind::told;
use crate::cluster::steps::{Found, Reporter, Say, Step, StepEvent};

/// The node image. One that was pulled stays in the engine, for the next time.
#[derive(Debug)]
pub struct NodeImage;

impl Step<Lab> for NodeImage {
    fn describe(&self, lab: &Lab) -> Say {
        Say::new("kind.node-image").with("image", &lab.plan.image.name)
    }

    fn can_undo(&self, _: &Lab) -> bool {
        false
    }

    fn check<'a>(&'a self, lab: &'a mut Lab) -> BoxFuture<'a, Result<Found, ClusterError>> {
        Box::pin(async move {
            let name = &lab.plan.image.name;
            let there = Found::Done(Say::new("kind.node-image-there").with("image", name));
            if !lab.creates {
                return Ok(there);
            }
            let Some(image) = lab.engine()?.image(name).await? else { return Ok(Found::ToDo) };
            let machine = lab.info.as_ref().map(|info| info.architecture.clone()).unwrap_or_default();
            if !machine.is_empty() && image.architecture != machine {
                let message = format!("node image {name} is for {}, and the engine's machine is {machine}", image.architecture);
                return Err(told(FailureKind::Failed, "DL-KIND-17", message, vec![Say::new("kind.advice.architecture")]));
            }
            Ok(there)
        })
    }

    fn apply<'a>(&'a self, lab: &'a mut Lab, report: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            let name = &lab.plan.image.name;
            let platform = lab.info.as_ref().map(|info| format!("linux/{}", info.architecture));
            let progress = |done, total| report(StepEvent::Bytes { what: None, done, total });
            lab.engine()?.pull(name, platform.as_deref(), &progress).await?;
            Ok(Say::new("kind.node-image-pulled").with("image", name))
        })
    }
}
