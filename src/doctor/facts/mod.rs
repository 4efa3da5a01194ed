//! What the checks look at: plain values, gathered before any check runs. Each part may be missing, with the reason.

mod cluster;
mod host;
mod lab;
mod objects;

pub use cluster::{Cluster, Dropped, Probe};
pub use host::{Disk, EngineFacts, Host, Inotify, Memory, Net, Node, Route, Tool, Tools};
pub use lab::{Installed, Lab};
pub use objects::*;

use jiff::Timestamp;
use serde::Serialize;

use crate::cluster::Backend;
use crate::doctor::{Absent, Blind, Severity};

/// A fact, or why it is not there.
pub type Part<T> = Result<T, Blind>;

/// Everything that was gathered.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// When it was gathered, by this machine's clock.
    pub now: Timestamp,
    /// What the machine is to be good for: the lab's backend, or the one that `up` would choose.
    pub purpose: Backend,
    /// The machine.
    pub host: Host,
    /// The container engine; [`Absent::NoEngine`] where none is to be found, and the reason where one does not answer.
    pub engine: Part<EngineFacts>,
    /// The tools.
    pub tools: Tools,
    /// The lab.
    pub lab: Lab,
    /// The cluster.
    pub cluster: Part<Cluster>,
}

impl Facts {
    /// The engine.
    ///
    /// # Errors
    /// Why it is not there; one that does not answer has a check of its own.
    pub fn engine(&self) -> Part<&EngineFacts> {
        self.engine.as_ref().map_err(|_| Blind::NotHere(Absent::NoEngine))
    }

    /// The engine, where it is on this machine and shares its kernel.
    ///
    /// # Errors
    /// When there is none, or it is elsewhere (a virtual machine such as Docker Desktop's, or another host).
    pub fn local_engine(&self) -> Part<&EngineFacts> {
        let engine = self.engine()?;
        if engine.local { Ok(engine) } else { Err(Blind::NotHere(Absent::EngineElsewhere)) }
    }

    /// The record of the lab.
    ///
    /// # Errors
    /// When there is none, or it is broken, which has a check of its own.
    pub fn record(&self) -> Part<&crate::cluster::LabRecord> {
        self.lab.record.as_ref().map_err(|_| Blind::NotHere(Absent::NoLab))
    }

    /// How bad something is that only matters to nodes in containers.
    #[must_use]
    pub fn for_kind(&self, severity: Severity) -> Severity {
        if self.purpose == Backend::Kind { severity } else { Severity::Note }
    }

    /// The nodes that a lab in containers has, or would have.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        match &self.lab.record {
            Ok(record) if record.backend == Backend::Kind => u64::from(record.spec.nodes) + 1,
            _ => 2,
        }
    }

    /// A lab in containers runs already: what it needs it has taken.
    #[must_use]
    pub fn is_kind_up(&self) -> bool {
        let clusters = self.engine.as_ref().ok().and_then(|e| e.clusters.as_ref().ok());
        clusters.and_then(|c| c.get(&self.lab.name)).is_some_and(|nodes| nodes.iter().any(|n| n.running))
    }

    /// The cluster's objects of a kind, by its plural name.
    ///
    /// # Errors
    /// Why they are not there.
    pub fn list(&self, plural: &str) -> Part<&[serde_json::Value]> {
        self.cluster.as_ref().map_err(Clone::clone)?.list(plural)
    }

    /// The cluster.
    ///
    /// # Errors
    /// Why it is not there.
    pub fn cluster(&self) -> Part<&Cluster> {
        self.cluster.as_ref().map_err(Clone::clone)
    }
}
