//! Collects the facts: bounded, in parallel, and what cannot be had carries its reason. Nothing is changed anywhere.

mod cluster;
mod engine;
mod host;
mod lab;
mod probe;

pub use engine::connect;
pub use host::HostEnvironment;
pub use lab::parameters;

use std::path::Path;

use kube::Client;

use crate::base::clock::Clock;
use crate::cluster::engine::{Engine, EngineEnvironment};
use crate::cluster::{Backend, Home};
use crate::doctor::facts::{Facts, Part};
use crate::doctor::{Absent, Blind};

/// What is to be examined.
pub struct Asked {
    /// What of the environment the facts depend on.
    pub environment: HostEnvironment,
    /// How the engine is chosen.
    pub engine: EngineEnvironment,
    /// The folders of this user.
    pub home: Home,
    /// The lab's name.
    pub lab: String,
    /// `DRALAB_BACKEND`: where a lab is to run when there is none yet.
    pub backend: Option<String>,
    /// The cluster, and how it is named to the user; or why there is none.
    pub target: Part<(Client, String)>,
    /// What another command needs to reach the same cluster, as [`facts::Cluster::flags`](crate::doctor::facts::Cluster::flags).
    pub flags: String,
    /// The cluster is the lab's, and not one that was named.
    pub of_lab: bool,
}

/// Gathers everything.
pub async fn facts(asked: &Asked, clock: &dyn Clock) -> (Facts, Part<Engine>) {
    let (environment, home, name) = (asked.environment.clone(), asked.home.clone(), asked.lab.clone());
    // File systems may hang (a network mount); the rest goes on meanwhile, and this is bounded by the process's end.
    let files = tokio::task::spawn_blocking(move || (host::host(&environment, home.state()), lab::lab(&home, &name)));
    let cluster = async {
        match &asked.target {
            Ok((client, server)) => cluster::cluster(client, server, &asked.flags, clock).await,
            Err(blind) => Err(blind.clone()),
        }
    };
    let (files, cluster, tools, connected) =
        futures::join!(files, cluster, engine::tools(&asked.environment), engine::connect(&asked.engine));
    let (mut host, mut lab) =
        files.unwrap_or_else(|_| (host::host(&asked.environment, asked.home.state()), lab::lab(&asked.home, &asked.lab)));
    let engine = async {
        match &connected {
            Ok(engine) => engine::engine(engine, host.kernel.as_ref().ok().map(String::as_str), &lab.known).await,
            Err(blind) => Err(blind.clone()),
        }
    };
    let installed = async {
        match (&asked.target, &lab.record, &cluster) {
            (Ok((client, _)), Ok(record), Ok(_)) if asked.of_lab => lab::installed(client, record).await,
            (_, _, Err(blind)) if asked.of_lab => Err(blind.clone()),
            _ => Err(Blind::NotHere(Absent::NoCluster)),
        }
    };
    let (engine, installed) = futures::join!(engine, installed);
    lab.installed = installed;
    if let Ok(engine) = engine.as_ref()
        && engine.local
    {
        host.disks.insert("engine", host::disk(Path::new(&engine.folder)));
    }
    let purpose = match (&lab.record, asked.of_lab) {
        (_, false) => Backend::Context,
        (Ok(record), _) => record.backend,
        (Err(_), _) if asked.backend.as_deref() == Some("kind") => Backend::Kind,
        (Err(_), _) if asked.backend.is_none() && tools.kind.is_ok() && engine.is_ok() => Backend::Kind,
        (Err(_), _) => Backend::Embedded,
    };
    (Facts { now: clock.now(), purpose, host, engine, tools, lab, cluster }, connected)
}
