//! The cluster: its version and its objects, as JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::doctor::facts::Part;
use crate::doctor::{Absent, Blind};

/// What a cluster said.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Where it was reached.
    pub server: String,
    /// What a command of dralab needs to reach it too, such as ` --context NAME`; empty for the lab's own.
    pub flags: String,
    /// The API server's version, such as `v1.37.2`.
    pub version: String,
    /// It is the embedded cluster of a lab: its drivers and nodes are not pods and machines.
    pub embedded: bool,
    /// The versions of `resource.k8s.io` that it serves, preferred first.
    pub dra_versions: Vec<String>,
    /// Objects by the plural name of their kind, without managed fields.
    pub objects: BTreeMap<&'static str, Part<Vec<Value>>>,
    /// What a dry run showed.
    pub probe: Part<Probe>,
}

/// What the server made of objects that were written with dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// The server's time when it answered, of a resolution of one second.
    pub server_time: Option<Timestamp>,
    /// This machine's time just before it asked and just after it had the answer.
    pub asked: (Timestamp, Timestamp),
    /// Fields that a gate guards and that were not in the answer.
    pub dropped: Vec<Dropped>,
}

/// A field that the server drops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The field, with its kind: `Pod spec.resourceClaims`.
    pub field: String,
    /// The gate that guards it.
    pub gate: String,
}

impl Cluster {
    /// Objects of a kind.
    ///
    /// # Errors
    /// Why they are not there.
    pub fn list(&self, plural: &str) -> Part<&[Value]> {
        match self.objects.get(plural) {
            Some(Ok(list)) => Ok(list),
            Some(Err(blind)) => Err(blind.clone()),
            None => Err(Blind::NotHere(Absent::NotServed)),
        }
    }

    /// Objects of a kind, none where they could not be had: for checks that only use them to say more.
    #[must_use]
    pub fn list_or_none(&self, plural: &str) -> &[Value] {
        self.list(plural).unwrap_or_default()
    }
}
