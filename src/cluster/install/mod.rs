//! What is applied to a cluster: the manifests of `manifests/`, server-side, by field manager `dralab`.
//!
//! | file | its part |
//! |---|---|
//! | [`manifests`] | which objects for which backend, with a lab's parameters filled in |
//! | [`address`] | where the driver reaches the API server |
//! | [`mod@apply`] | applies them; what is somebody else's is never taken over |
//! | [`ready`] | waits until the driver runs and every worker's pool is complete |
//! | [`remove`] | removes exactly what was applied, in an order that leaves nothing stuck |
//! | [`sharing`] | learners that share one installation |

pub mod address;
pub mod apply;
pub mod manifests;
pub mod ready;
pub mod remove;
pub mod sharing;
#[cfg(test)]
mod testing;

pub use address::{ApiServer, of_api_server};
pub use apply::{Installed, ObjectRef, install};
pub use manifests::{Parameters, ProfileSource, objects};
pub use ready::{Ready, wait_ready};
pub use remove::{Removal, Removed, uninstall};

use crate::base::failure::{Chain, Kind};
use crate::client::ClientError;
use crate::cluster::ClusterError;
use crate::cluster::steps::Say;

pub use crate::client::labels::{LAB as LAB_LABEL, LEARNER as LEARNER_LABEL, LESSON as LESSON_LABEL};

/// The driver's namespace.
pub const NAMESPACE: &str = "dralab-system";

/// The name of the driver's DaemonSet.
pub const DAEMON_SET: &str = "dralab-driver";

/// A server's refusal, or that it was not reached, while something was being done.
pub(super) fn failed(doing: &str, error: ClientError) -> ClusterError {
    match error {
        ClientError::TimedOut { seconds, last, .. } => ClusterError::NotReady { seconds, last },
        ClientError::Refused { code: 403, message, .. } => ClusterError::Advised {
            message: format!("cannot {doing}"),
            id: "DL-INST-03",
            kind: Kind::Failed,
            causes: vec![message],
            advice: vec![Say::new("install.forbidden")],
        },
        other => {
            let (kind, id) = match &other {
                ClientError::Unreachable { .. } => (Kind::NoLab, "DL-CONN-03"),
                _ => (Kind::Failed, "DL-INST-01"),
            };
            ClusterError::Advised {
                message: format!("cannot {doing}"),
                id,
                kind,
                causes: vec![Chain(&other).to_string()],
                advice: Vec::new(),
            }
        }
    }
}

/// That something is not done for safety (exit code 6).
pub(super) fn refused(id: &'static str, message: String, advice: Vec<Say>) -> ClusterError {
    ClusterError::Advised { message, id, kind: Kind::Refused, causes: Vec::new(), advice }
}
