//! Controllers: claims from templates, claim release, owner garbage collection, namespaces.
//!
//! Each is a client of the API and a task of its own, driven by watches; none polls. Failed work comes back with the
//! delays of client-go's work queue, on the lab's clock.

use std::fmt;
use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::api::{Api, Caller, Status};
use crate::base::clock::SharedClock;

mod claims;
mod informer;
mod queue;
#[cfg(test)]
mod testing;

/// The running controllers. They end with the shutdown token; [`Controllers::join`] waits for that.
pub struct Controllers {
    tasks: JoinSet<()>,
}

impl fmt::Debug for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controllers").field("running", &self.tasks.len()).finish()
    }
}

/// Writes as the controllers do: manager and user of kube-controller-manager.
fn caller() -> Caller {
    Caller::component("kube-controller-manager")
}

impl Controllers {
    /// Starts all controllers. Must be called within a tokio runtime.
    #[must_use]
    pub fn start(api: &Api, clock: &SharedClock, shutdown: &CancellationToken) -> Self {
        let mut controllers = Controllers { tasks: JoinSet::new() };
        controllers.spawn("resource claims", claims::run(api.clone(), clock.clone(), shutdown.clone()));
        controllers
    }

    fn spawn(&mut self, name: &'static str, controller: impl Future<Output = Result<(), Status>> + Send + 'static) {
        self.tasks.spawn(async move {
            if let Err(status) = controller.await {
                tracing::error!(controller = name, %status, "controller ended");
            }
        });
    }

    /// Waits until all controllers have ended. A controller that panicked is reported in the log.
    pub async fn join(mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "controller failed");
            }
        }
    }
}
