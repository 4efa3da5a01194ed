//! The manifests: driver, rights, policy, device class.

use futures::future::BoxFuture;

use crate::client::apply::Applied;
use crate::cluster::ClusterError;
use crate::cluster::install;
use crate::cluster::kind::lab::Lab;
use crate::cluster::steps::{Found, Reporter, Say, Step};

/// The manifests. They go with the cluster; on one that was there before, the next `up` goes on from where this one stopped.
#[derive(Debug)]
pub struct Install;

impl Step<Lab> for Install {
    fn describe(&self, lab: &Lab) -> Say {
        let objects = lab.parameters().and_then(|parameters| install::objects(Some(&parameters))).map_or(0, |objects| objects.len());
        Say::new("kind.install").with("objects", &objects)
    }

    fn can_undo(&self, _: &Lab) -> bool {
        false
    }

    fn check<'a>(&'a self, _: &'a mut Lab) -> BoxFuture<'a, Result<Found, ClusterError>> {
        // Applying what is there already changes nothing, and says so.
        Box::pin(async { Ok(Found::ToDo) })
    }

    fn apply<'a>(&'a self, lab: &'a mut Lab, _: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            let client = lab.client().await?;
            let mut parameters = lab.parameters()?;
            parameters.api_server = install::of_api_server(&client).await;
            let installed = install::install(&client, Some(&parameters)).await?;
            let changed = installed.iter().filter(|one| one.applied != Applied::Unchanged).count();
            lab.write_record()?;
            let id = if changed == 0 { "up.installed-already" } else { "up.installed" };
            Ok(Say::new(id).with("objects", &installed.len()))
        })
    }
}
