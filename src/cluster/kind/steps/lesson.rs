//! The image of the lessons' pods on the nodes, under the name that the manifests use.

use futures::future::BoxFuture;

use crate::cluster::ClusterError;
use crate::cluster::image::{LESSON_IMAGE, lacking, lesson};
use crate::cluster::kind::lab::Lab;
use crate::cluster::steps::{Found, Reporter, Say, Step};

/// The lesson image. It goes with the nodes.
#[derive(Debug)]
pub struct LessonImage;

impl Step<Lab> for LessonImage {
    fn describe(&self, lab: &Lab) -> Say {
        match &lab.plan.workload_image {
            Some(image) => Say::new("kind.lesson-image-as").with("image", image).with("name", LESSON_IMAGE),
            None => Say::new("kind.lesson-image").with("name", LESSON_IMAGE),
        }
    }

    fn can_undo(&self, _: &Lab) -> bool {
        false
    }

    fn check<'a>(&'a self, lab: &'a mut Lab) -> BoxFuture<'a, Result<Found, ClusterError>> {
        Box::pin(async move {
            if lab.plan.workload_image.is_some() && (lab.creates || lab.workload_changed) {
                return Ok(Found::ToDo);
            }
            let missing = lacking(&lab.engine()?, &lab.plan.spec.workers(&lab.plan.lab), LESSON_IMAGE).await?;
            Ok(if missing.is_empty() { Found::Done(Say::new("image.there").with("image", LESSON_IMAGE)) } else { Found::ToDo })
        })
    }

    fn apply<'a>(&'a self, lab: &'a mut Lab, report: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            let instead = lab.plan.workload_image.as_deref();
            // The control plane takes no pods of lessons.
            let workers = lab.plan.spec.workers(&lab.plan.lab);
            Ok(lesson::ensure(&lab.engine()?, &workers, LESSON_IMAGE, instead, &lab.folder.path, report).await?)
        })
    }
}
