//! One file per verb. They follow `k8s.io/apiserver/pkg/registry/generic/registry/store.go` and
//! `registry/rest` (BeforeCreate, BeforeUpdate, BeforeDelete): the same order of checks, so the same answer where
//! several would apply.
//!
//! A write reads the object, computes its new state without holding anything, and commits it under the expectation
//! that the object has not moved; where it has, it starts again, as GuaranteedUpdate does.

mod bind;
mod continuation;
mod create;
mod delete;
mod list;
mod patch;
mod update;
mod watch;

pub use list::{ListOptions, Page};
pub use watch::{Selected, WatchEvent, WatchOptions};

use serde_json::Value;

use super::{Api, Object, Resource, Status};
use crate::embedded::store::{Entry, StoreError};

/// A stored object and what the answer's `Warning` headers say.
#[derive(Clone, Debug)]
pub struct Written {
    /// The object as it is now.
    pub object: Object,
    /// Warnings, such as `unknown field "spec.x"`.
    pub warnings: Vec<String>,
    /// True when the write made the object (server-side apply may).
    pub created: bool,
}

/// How often a write starts again when another came first; each round some writer has got through.
const ROUNDS: usize = 64;

impl Api {
    fn entry(&self, resource: &'static Resource, namespace: &str, name: &str) -> Result<Entry, Status> {
        self.store().get(resource.collection, &resource.key(namespace, name)).ok_or_else(|| Status::not_found(resource, name))
    }
}

/// The metadata must be a map before anything is read from it.
fn well_formed(resource: &Resource, object: &mut Value) -> Result<(), Status> {
    if super::meta::map(object).is_none() {
        let kind = resource.kind;
        return Err(Status::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {kind}: the object or its metadata is not a map",
            resource.version
        )));
    }
    object["apiVersion"] = Value::String(resource.api_version());
    object["kind"] = Value::String(resource.kind.to_owned());
    Ok(())
}

/// `EnsureObjectNamespaceMatchesRequestNamespace`.
fn match_namespace(resource: &Resource, namespace: &str, object: &mut Value) -> Result<(), Status> {
    if !resource.namespaced {
        super::meta::set(object, "namespace", Value::Null);
        return Ok(());
    }
    let own = super::meta::namespace(object);
    if own.is_empty() {
        super::meta::set(object, "namespace", Value::String(namespace.to_owned()));
    } else if own != namespace {
        return Err(Status::bad_request("the namespace of the provided object does not match the namespace sent on the request"));
    }
    Ok(())
}

/// A failure of the store that is not about expectations.
fn storage_failure(error: &StoreError) -> Status {
    Status::internal(error)
}
