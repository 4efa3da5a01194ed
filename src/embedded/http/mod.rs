//! The API over HTTP: the same verbs as [`super::api`], for kubectl, client-go and everything else outside, and
//! for `kube::Client` in process.
//!
//! | file | what it does |
//! |---|---|
//! | `query`, `route` | reads the request line: percent-encoding, options, which endpoint is meant |
//! | `negotiate` | what the caller accepts: JSON or YAML; the object, a Table or its metadata only |
//! | `body` | bounded reading of bodies by content type; delete options |
//! | `respond` | bodies and headers of answers |
//! | `service` | from a request to an answer: one [`tower::Service`], generic over the request's body |
//! | `read`, `write`, `stream`, `logs`, `reviews` | the endpoints |
//! | `server`, `certificate`, `kubeconfig` | HTTPS on loopback with a token, and how clients are told |

mod body;
mod certificate;
mod exec;
mod kubeconfig;
mod logs;
mod negotiate;
mod query;
mod read;
mod respond;
mod reviews;
mod route;
mod server;
mod service;
mod stream;
mod write;

pub use certificate::{Certificate, CertificateError};
pub use kubeconfig::kubeconfig;
pub use respond::Body;
pub use server::{Server, ServerError};
pub use service::Service;

use super::api::{Api, Caller};

/// A `kube::Client` on the API in process: no port, no token, the very same service.
///
/// Writes without a `fieldManager` are recorded as the manager `dralab`.
#[must_use]
pub fn client(api: &Api) -> kube::Client {
    client_as(api, Caller { manager: "dralab".to_owned(), user: "kubernetes-admin".to_owned() })
}

/// The same, as a given caller.
#[must_use]
pub fn client_as(api: &Api, caller: Caller) -> kube::Client {
    kube::Client::new(Service::new(api.clone()).with_caller(caller), "default")
}
