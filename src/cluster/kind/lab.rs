//! What the steps of a lab on kind share and hand on to each other.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kube::Client;
use tokio::process::Command;

use crate::base::failure::Kind as FailureKind;
use crate::client::connect::{self, Proxies};
use crate::cluster::engine::{self, Engine, EngineEnvironment, EngineInfo, NodeContainer};
use crate::cluster::image::{DriverImage, DriverWanted, ImageError};
use crate::cluster::install::{Parameters, ProfileSource};
use crate::cluster::kind::plan::Plan;
use crate::cluster::kind::told;
use crate::cluster::kind::tool::Kind;
use crate::cluster::record::FORMAT;
use crate::cluster::{Backend, ClusterError, KindRecord, LabFolder, LabRecord, NodeRecord, embedded};

/// The network that kind makes and puts its nodes on.
const NETWORK: &str = "kind";

/// What of the environment this backend depends on.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// What the choice of the engine depends on.
    pub engine: EngineEnvironment,
    /// `DRALAB_KIND`.
    pub kind: Option<PathBuf>,
    /// `PATH`.
    pub path: OsString,
    /// `KIND_EXPERIMENTAL_DOCKER_NETWORK`.
    pub network: Option<String>,
    /// `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` as they are set, in either case.
    pub proxies: Vec<(&'static str, String)>,
    /// Proxies for reaching the API server.
    pub client: Proxies,
    /// The running dralab.
    pub executable: PathBuf,
}

impl Environment {
    /// The engine of a lab: the one that it was made with, else the one that the environment chooses.
    ///
    /// # Errors
    /// When there is none, or it does not answer.
    pub async fn engine(&self, record: Option<&LabRecord>) -> Result<Engine, ClusterError> {
        let mut environment = self.engine.clone();
        if let Some(address) = record.and_then(|r| r.kind.as_ref()).map(|k| &k.engine).filter(|a| !a.is_empty()) {
            environment.docker_host = Some(address.clone());
        }
        let address = engine::choose(&environment)?;
        Ok(Engine::connect(&address).await?)
    }

    /// The network that kind puts the nodes on.
    #[must_use]
    pub fn network(&self) -> &str {
        self.network.as_deref().unwrap_or(NETWORK)
    }
}

/// What the steps share.
pub struct Lab {
    /// The lab's folder.
    pub folder: LabFolder,
    /// What it is to be made of.
    pub plan: Plan,
    /// The environment.
    pub environment: Environment,
    /// What was made is kept when a step fails.
    pub retain: bool,
    /// kind, once it was found. A lab whose cluster is there needs none.
    pub kind: Option<Kind>,
    /// The engine, once it answered.
    pub engine: Option<Engine>,
    /// What the engine says about itself.
    pub info: Option<EngineInfo>,
    /// The cluster's containers as they were found. Empty: it is to be created.
    pub found: Vec<NodeContainer>,
    /// The record as it is to be written next.
    pub record: LabRecord,
    /// This run creates the cluster.
    pub creates: bool,
    /// Lessons' pods are to get another image than before.
    pub workload_changed: bool,
    /// What this run made of the cluster could not be removed again: the record has to stay, for `down`.
    pub left: bool,
    /// A client for the cluster, once there is one.
    pub client: Option<Client>,
    /// The driver's image, once it was made.
    pub driver: Option<Result<DriverImage, ImageError>>,
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").field("folder", &self.folder).field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Lab {
    /// What is known before the first step.
    #[must_use]
    pub fn new(folder: LabFolder, plan: Plan, environment: Environment, retain: bool) -> Self {
        let workload_before = plan.record.as_ref().and_then(|r| r.kind.as_ref()).and_then(|k| k.workload_image.clone());
        let record = plan.record.clone().unwrap_or_else(|| LabRecord {
            format: FORMAT,
            lab: plan.lab.clone(),
            backend: Backend::Kind,
            version: String::new(),
            pid: None,
            server: String::new(),
            kubeconfig: folder.kubeconfig(),
            spec: plan.spec.clone(),
            sockets: None,
            nodes: Vec::new(),
            kind: None,
            context: None,
        });
        let workload_changed = workload_before != plan.workload_image;
        let mut lab = Lab {
            folder,
            plan,
            environment,
            retain,
            kind: None,
            engine: None,
            info: None,
            found: Vec::new(),
            record,
            creates: false,
            workload_changed,
            left: false,
            client: None,
            driver: None,
        };
        lab.refresh_record();
        lab
    }

    /// Brings the record up to what the plan says; what only the cluster tells stays.
    fn refresh_record(&mut self) {
        let plan = &self.plan;
        embedded::VERSION.clone_into(&mut self.record.version);
        self.record.spec = plan.spec.clone();
        // Where a kubelet has its folders, inside of the node.
        self.record.nodes = plan
            .nodes()
            .into_iter()
            .map(|name| NodeRecord {
                name,
                plugin_registry: "/var/lib/kubelet/plugins_registry".into(),
                plugins: "/var/lib/kubelet/plugins".into(),
                cdi: "/var/run/cdi".into(),
            })
            .collect();
        let kind = self.record.kind.get_or_insert_with(KindRecord::default);
        kind.node_image.clone_from(&plan.image.name);
        if kind.kubernetes.is_empty() {
            kind.kubernetes = plan.image.version.to_string();
        }
        plan.features.name().clone_into(&mut kind.features);
        kind.gates.clone_from(&plan.extra);
        kind.workload_image.clone_from(&plan.workload_image);
    }

    /// The part of the record that is kind's.
    pub fn kind_record(&mut self) -> &mut KindRecord {
        self.record.kind.get_or_insert_with(KindRecord::default)
    }

    /// The engine. The first step finds it.
    ///
    /// # Errors
    /// When that step did not run.
    pub fn engine(&self) -> Result<Engine, ClusterError> {
        self.engine.clone().ok_or_else(|| told(FailureKind::Failed, "DL-KIND-09", "the container engine was not looked for", Vec::new()))
    }

    /// The client of the cluster; connects once.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub async fn client(&mut self) -> Result<Client, ClusterError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = connect::by_kubeconfig(&self.folder.kubeconfig(), None, &self.environment.client)
            .await
            .map_err(|error| told(FailureKind::NoLab, "DL-KIND-08", error.to_string(), Vec::new()))?;
        self.client = Some(client.clone());
        Ok(client)
    }

    /// The names of the nodes, the control plane first.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        self.plan.nodes()
    }

    /// Where the configuration for kind is.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.path.join("kind.yaml")
    }

    /// Which dralab is wanted on the nodes.
    #[must_use]
    pub fn driver_wanted(&self) -> DriverWanted {
        DriverWanted {
            binary: self.plan.driver_binary.clone(),
            image: self.plan.driver_image.clone(),
            source: self.plan.driver_source.clone(),
            executable: self.environment.executable.clone(),
        }
    }

    /// What is installed.
    ///
    /// # Errors
    /// When the profile cannot be read.
    pub fn parameters(&self) -> Result<Parameters, ClusterError> {
        let image = self.record.kind.as_ref().map(|k| k.driver_image.clone()).unwrap_or_default();
        Ok(Parameters {
            profile: ProfileSource::of(&self.plan.spec.profile)?,
            gpus: self.plan.spec.gpus,
            ..Parameters::new(&self.plan.lab, &image)
        })
    }

    /// Writes the record.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_record(&self) -> Result<(), ClusterError> {
        self.record.write(&self.folder)
    }
}

/// A run of kind against this engine.
#[must_use]
pub fn command(program: &Path, engine: &Engine) -> Command {
    let mut command = Command::new(program);
    if engine.is_podman() {
        command.env("KIND_EXPERIMENTAL_PROVIDER", "podman");
    } else {
        // A context would win over the address.
        command.env("DOCKER_HOST", engine.address().docker_host()).env_remove("DOCKER_CONTEXT");
        command.env("KIND_EXPERIMENTAL_PROVIDER", "docker");
    }
    command
}
