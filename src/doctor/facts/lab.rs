//! The lab: its record, its files, its process, and what was installed for it.

use serde::Serialize;
use serde_json::Value;

use crate::cluster::LabRecord;
use crate::doctor::facts::Part;

/// The lab.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lab {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: String,
    /// Its record; [`crate::doctor::Absent::NoLab`] when it has none, and the reason when it cannot be understood.
    pub record: Part<LabRecord>,
    /// The dralab that looks.
    pub version: String,
    /// A process holds the lab's lock.
    pub running: bool,
    /// Its kubeconfig: permission bits, or why it cannot be used.
    pub kubeconfig: Part<u32>,
    /// Its sockets' folder is there, where the lab has one.
    pub sockets: Option<bool>,
    /// What was installed for it, beside what is there now.
    pub installed: Part<Vec<Installed>>,
    /// Names of all labs of this user that have a record.
    pub known: Vec<String>,
    /// Folders of labs that are none any more.
    pub leftovers: Vec<String>,
}

/// An object of the installation.
#[derive(Clone, Debug, Serialize)]
pub struct Installed {
    /// As the user names it: `clusterrole/dralab-driver`.
    pub object: String,
    /// As this dralab applies it.
    pub wanted: Value,
    /// As it is; `None`: it is not there.
    pub found: Option<Value>,
}
