//! The configuration file for kind, and the record that says whose the cluster will be.

use std::fs;

use futures::future::BoxFuture;

use crate::cluster::ClusterError;
use crate::cluster::kind::config::{self, Shape};
use crate::cluster::kind::lab::Lab;
use crate::cluster::kind::tool::NEW;
use crate::cluster::record::write_private;
use crate::cluster::steps::{Found, Reporter, Say, Step};

/// The configuration file.
#[derive(Debug)]
pub struct Configuration;

/// The configuration's text.
#[must_use]
pub fn text(lab: &Lab) -> String {
    config::render(&Shape {
        lab: &lab.plan.lab,
        workers: lab.plan.spec.nodes,
        image: &lab.plan.image.name,
        version: lab.plan.image.version,
        gates: &lab.plan.gates,
        port: lab.plan.spec.port,
        cgroup_v1: lab.info.as_ref().is_some_and(|info| info.cgroup_version == Some(1)),
        skips_other_versions: lab.kind.as_ref().is_none_or(|kind| kind.version >= NEW),
    })
}

impl Step<Lab> for Configuration {
    fn describe(&self, lab: &Lab) -> Say {
        Say::new("kind.config")
            .with("path", &lab.config().display())
            .with("features", lab.plan.features.name())
            .with("gates", &lab.plan.gates_line())
    }

    fn can_undo(&self, lab: &Lab) -> bool {
        // The record says whose the rest is.
        !lab.left
    }

    fn check<'a>(&'a self, lab: &'a mut Lab) -> BoxFuture<'a, Result<Found, ClusterError>> {
        Box::pin(async move {
            if lab.creates {
                return Ok(Found::ToDo);
            }
            Ok(Found::Done(Say::new("kind.config-there").with("path", &lab.config().display())))
        })
    }

    fn apply<'a>(&'a self, lab: &'a mut Lab, _: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            lab.folder.create()?;
            write_private(&lab.config(), text(lab).as_bytes())?;
            // From here on a cluster of this name is this lab's, also when this process is killed before it is done.
            lab.kind_record().containers.clear();
            lab.write_record()?;
            Ok(Say::new("kind.config-done")
                .with("path", &lab.config().display())
                .with("features", lab.plan.features.name())
                .with("gates", &lab.plan.gates_line()))
        })
    }

    fn undo<'a>(&'a self, lab: &'a mut Lab) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            for path in [lab.config(), lab.folder.record()] {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(ClusterError::file("remove", path)(error)),
                    _ => {}
                }
            }
            Ok(())
        })
    }
}
