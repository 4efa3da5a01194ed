//! The record of a lab: what it is made of and where it can be reached (`lab.json`).

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cluster::install::ObjectRef;
use crate::cluster::{ClusterError, LabFolder};

/// The version of the record's format. A newer one is refused, never overwritten.
pub const FORMAT: u32 = 1;

/// What a lab is to be made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabSpec {
    /// Number of worker nodes.
    pub nodes: u32,
    /// GPUs per worker; `None` is the profile's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Device profile: a name, or an absolute path of a YAML file.
    pub profile: String,
    /// The API's port, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl Default for LabSpec {
    fn default() -> Self {
        LabSpec { nodes: 1, gpus: None, profile: "default".to_owned(), port: None }
    }
}

impl LabSpec {
    /// The name of the control-plane node of a lab.
    #[must_use]
    pub fn control_plane(lab: &str) -> String {
        format!("{lab}-control-plane")
    }

    /// The names of the workers, as kind names them: `-worker`, `-worker2`, …
    #[must_use]
    pub fn workers(&self, lab: &str) -> Vec<String> {
        (1..=self.nodes).map(|n| if n == 1 { format!("{lab}-worker") } else { format!("{lab}-worker{n}") }).collect()
    }
}

/// One node and the folders that a driver on it uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRecord {
    /// The node's name.
    pub name: String,
    /// The plugin registration folder that the node agent watches.
    pub plugin_registry: PathBuf,
    /// Where drivers have their sockets.
    pub plugins: PathBuf,
    /// Where CDI specs are written.
    pub cdi: PathBuf,
}

/// Where a lab runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// A Kubernetes API, scheduler and node agents in a process of dralab.
    Embedded,
    /// A cluster that dralab made with kind.
    Kind,
    /// A cluster that was there before.
    Context,
}

impl Backend {
    /// Its name, as `--backend` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Embedded => "embedded",
            Backend::Kind => "kind",
            Backend::Context => "context",
        }
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The record of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabRecord {
    /// [`FORMAT`].
    pub format: u32,
    /// The lab's name.
    pub lab: String,
    /// Where it runs.
    pub backend: Backend,
    /// The dralab that runs it.
    pub version: String,
    /// The process of an embedded lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The API server's address.
    pub server: String,
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
    /// What it is made of.
    pub spec: LabSpec,
    /// The folder that holds the sockets of an embedded lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<PathBuf>,
    /// Its nodes, the control plane first. Empty on a cluster that was there before.
    pub nodes: Vec<NodeRecord>,
    /// What a lab on kind was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindRecord>,
    /// What a lab on a cluster that was there before is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextRecord>,
}

/// What a lab on kind was made of. `up` without flags keeps it so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KindRecord {
    /// The engine's address, as `DOCKER_HOST` would have it.
    pub engine: String,
    /// The node image, as it was named.
    pub node_image: String,
    /// The Kubernetes version that the nodes have.
    pub kubernetes: String,
    /// Stage of the feature gates: `stable`, `beta` or `all`.
    pub features: String,
    /// Feature gates beyond that, as `NAME=true`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<String>,
    /// The image that lessons' pods get, where one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_image: Option<String>,
    /// The driver's image on the nodes.
    pub driver_image: String,
    /// The ids of the node containers: by them the lab knows its own from a cluster of the same name that somebody else made.
    /// Empty while the cluster is being created.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<String>,
    /// The lab's cluster made the network that its nodes are on.
    pub made_network: bool,
}

/// What a lab on a cluster that was there before is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContextRecord {
    /// The context's name.
    pub context: String,
    /// The kubeconfig that it was found in.
    pub kubeconfig: PathBuf,
    /// The uid of namespace kube-system: tells whether it is still the same cluster.
    pub cluster: String,
    /// The learner, on a cluster that several share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learner: Option<String>,
    /// The driver's image.
    pub driver_image: String,
    /// Tells this lab from another of the same name on the same cluster.
    pub id: String,
    /// Labels of the nodes that have a driver, where they were chosen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// What is installed for the lab, in the order in which it was applied.
    pub objects: Vec<ObjectRef>,
    /// A node with devices, for the lessons.
    pub worker: String,
    /// A node of the control plane, or else another one than [`ContextRecord::worker`], for the lessons.
    pub control_plane: String,
}

impl LabRecord {
    /// The learner, on a cluster that several share.
    #[must_use]
    pub fn learner(&self) -> Option<&str> {
        self.context.as_ref().and_then(|context| context.learner.as_deref())
    }

    /// The node with devices that lessons speak of.
    #[must_use]
    pub fn worker(&self) -> String {
        let named = self.context.as_ref().map(|context| context.worker.clone()).filter(|name| !name.is_empty());
        named.unwrap_or_else(|| format!("{}-worker", self.lab))
    }

    /// The node without devices that lessons speak of.
    #[must_use]
    pub fn control_plane(&self) -> String {
        let named = self.context.as_ref().map(|context| context.control_plane.clone()).filter(|name| !name.is_empty());
        named.unwrap_or_else(|| LabSpec::control_plane(&self.lab))
    }

    /// Whether the lab is up as far as this machine can tell without asking anybody: an embedded lab's process runs, any other has a record.
    #[must_use]
    pub fn is_up(&self, folder: &LabFolder) -> bool {
        match self.backend {
            Backend::Embedded => folder.is_running(),
            Backend::Kind | Backend::Context => true,
        }
    }

    /// Reads the record of a lab; `None` when it has none.
    ///
    /// # Errors
    /// When it cannot be read, or was written by a newer dralab.
    pub fn read(folder: &LabFolder) -> Result<Option<Self>, ClusterError> {
        let path = folder.record();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ClusterError::File { action: "read", path, source }),
        };
        let bad = |reason: String| ClusterError::Record { path: path.clone(), reason };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let format = value.get("format").and_then(serde_json::Value::as_u64);
        if format != Some(u64::from(FORMAT)) {
            let found = format.map_or_else(|| "none".to_owned(), |f| f.to_string());
            return Err(bad(format!("its format is {found}, and this build knows {FORMAT}")));
        }
        serde_json::from_value(value).map(Some).map_err(|error| bad(error.to_string()))
    }

    /// Writes the record (a temporary file, then a rename).
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, folder: &LabFolder) -> Result<(), ClusterError> {
        let path = folder.record();
        let text =
            serde_json::to_string_pretty(self).map_err(|error| ClusterError::Record { path: path.clone(), reason: error.to_string() })?;
        write_private(&path, text.as_bytes())
    }
}

/// Writes a file that only this user can read: a temporary file in the same folder, flushed to disk, then renamed.
///
/// # Errors
/// When it cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), ClusterError> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(ClusterError::file("write", path))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(ClusterError::file("write", path))?;
    file.persist(path).map_err(|error| ClusterError::File { action: "write", path: path.to_path_buf(), source: error.error })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LabRecord, LabSpec};
    use crate::cluster::Home;

    #[test]
    fn workers_are_named_as_kind_names_them() {
        let spec = LabSpec { nodes: 3, ..LabSpec::default() };
        assert_eq!(spec.workers("dra-lab"), ["dra-lab-worker", "dra-lab-worker2", "dra-lab-worker3"]);
        assert_eq!(LabSpec::control_plane("dra-lab"), "dra-lab-control-plane");
    }

    #[test]
    fn a_newer_record_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().expect("a temp dir");
        let folder = Home::new(Some(dir.path().to_path_buf()), None, None, None).expect("a home").lab("x");
        folder.create().expect("a folder");
        assert!(LabRecord::read(&folder).expect("no record is fine").is_none());
        std::fs::write(folder.record(), "{\"format\": 99}").expect("written");
        let error = LabRecord::read(&folder).expect_err("refused").to_string();
        assert!(error.contains("its format is 99"), "{error}");
        std::fs::write(folder.record(), "{").expect("written");
        assert!(LabRecord::read(&folder).is_err());
    }
}
