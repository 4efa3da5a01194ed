//! Controllers: claims from templates, claim release, owner garbage collection, namespaces and what each of them has,
//! pods on missing nodes, expiry of events.
//!
//! Each is a client of the API and a task of its own, driven by watches; none polls. Failed work comes back with the
//! delays of client-go's work queue, on the lab's clock.

use std::fmt;
use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::api::{Api, Caller, Status};
use crate::base::clock::SharedClock;

mod accounts;
mod claims;
mod expiry;
mod garbage;
mod informer;
mod namespaces;
mod pods;
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
        Self::start_with_root_ca(api, clock, "", shutdown)
    }

    /// As [`Controllers::start`], publishing a certificate (PEM) as `kube-root-ca.crt` in every namespace.
    #[must_use]
    pub fn start_with_root_ca(api: &Api, clock: &SharedClock, root_ca: &str, shutdown: &CancellationToken) -> Self {
        let mut controllers = Controllers { tasks: JoinSet::new() };
        let seat = || (api.clone(), clock.clone(), shutdown.clone());
        let (to, by, until) = seat();
        controllers.spawn("resource claims", claims::run(to, by, until));
        let (to, by, until) = seat();
        controllers.spawn("garbage collector", garbage::run(to, by, until));
        let (to, by, until) = seat();
        controllers.spawn("namespaces", namespaces::run(to, by, until));
        let (to, by, until) = seat();
        controllers.spawn("accounts", accounts::run(to, by, root_ca.to_owned(), until));
        let (to, by, until) = seat();
        controllers.spawn("pods of missing nodes", pods::run(to, by, until));
        let (to, by, until) = seat();
        controllers.spawn("expiry of events", expiry::run(to, by, until));
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
