//! The driver's image on the nodes.

use futures::future::BoxFuture;

use crate::cluster::ClusterError;
use crate::cluster::image::{driver, lacking};
use crate::cluster::kind::lab::Lab;
use crate::cluster::steps::{Found, Reporter, Say, Step, StepEvent};

/// The driver's image. It goes with the nodes.
#[derive(Debug)]
pub struct DriverImage;

impl Step<Lab> for DriverImage {
    fn describe(&self, _: &Lab) -> Say {
        Say::new("kind.driver-image")
    }

    fn can_undo(&self, _: &Lab) -> bool {
        false
    }

    fn check<'a>(&'a self, lab: &'a mut Lab) -> BoxFuture<'a, Result<Found, ClusterError>> {
        Box::pin(async move {
            // Making it from an image or the source moves bytes that should be seen: that is for `apply`.
            if lab.driver.is_none() && lab.plan.driver_image.is_none() && lab.plan.driver_source.is_none() {
                make(lab, &|_| ()).await?;
            }
            let Some(Ok(image)) = &lab.driver else { return Ok(Found::ToDo) };
            let missing = lacking(&lab.engine()?, &lab.plan.spec.workers(&lab.plan.lab), &image.name).await?;
            if !missing.is_empty() {
                return Ok(Found::ToDo);
            }
            let (name, made_from) = (image.name.clone(), image.made_from.clone());
            lab.kind_record().driver_image = name;
            Ok(Found::Done(made_from))
        })
    }

    fn apply<'a>(&'a self, lab: &'a mut Lab, report: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            if !matches!(lab.driver, Some(Ok(_))) {
                make(lab, report).await?;
            }
            let Some(Ok(image)) = &lab.driver else { return Ok(Say::new("kind.driver-image")) };
            report(StepEvent::Note(image.made_from.clone()));
            let workers = lab.plan.spec.workers(&lab.plan.lab);
            let said = driver::load(&lab.engine()?, &workers, image, report).await?;
            let name = image.name.clone();
            lab.kind_record().driver_image = name;
            Ok(said)
        })
    }
}

/// Makes the image. One that could not be made while the cluster was created says so here.
async fn make(lab: &mut Lab, report: Reporter<'_>) -> Result<(), ClusterError> {
    let image = match lab.driver.take() {
        Some(made) => made?,
        None => {
            let architecture = lab.info.as_ref().map(|info| info.architecture.clone()).unwrap_or_default();
            driver::prepare(&lab.engine()?, &lab.driver_wanted(), &architecture, &lab.folder.path, report).await?
        }
    };
    lab.driver = Some(Ok(image));
    Ok(())
}
