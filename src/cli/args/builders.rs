//! `driver run`, `version`, `dev`, and the process of a lab.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Format;

/// `driver`.
#[derive(Debug, Subcommand)]
pub enum DriverCommand {
    /// Run the driver of one node until it is told to end
    Run(DriverRunArgs),
}

/// `driver run`.
#[derive(Args, Clone, Debug)]
pub struct DriverRunArgs {
    /// The node whose devices are published
    #[arg(long, value_name = "NAME", env = "NODE_NAME", hide_env = true)]
    pub node: String,
    /// Where the devices come from
    #[arg(long, value_enum, value_name = "KIND", default_value = "simulated")]
    pub inventory: InventoryArg,
    /// Device profile of the simulated inventory: a name, or a YAML file
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub profile: String,
    /// GPUs to simulate [default: as the profile says]
    #[arg(long, value_name = "N")]
    pub gpus: Option<u32>,
    /// The driver's name
    #[arg(long, value_name = "NAME", default_value = "gpu.example.com")]
    pub driver_name: String,
    /// The kubelet's plugin registration folder
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet/plugins_registry")]
    pub registry_dir: PathBuf,
    /// The kubelet's plugins folder
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet/plugins")]
    pub plugins_dir: PathBuf,
    /// Where CDI specs are written
    #[arg(long, value_name = "DIR", default_value = "/var/run/cdi")]
    pub cdi_dir: PathBuf,
    /// The uid of the pod that this is: lets two instances run side by side during a rolling update
    #[arg(long, value_name = "UID", env = "POD_UID", hide_env = true)]
    pub pod_uid: Option<String>,
    /// Answer /healthz and /readyz over HTTP at this address, such as 0.0.0.0:8080
    #[arg(long, value_name = "ADDR")]
    pub health_address: Option<SocketAddr>,
    /// Write no conditions into the status of claims
    #[arg(long)]
    pub no_device_status: bool,
    /// Kubeconfig [default: the lab's, else in-cluster]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// Where devices come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InventoryArg {
    /// Simulated GPUs from a profile
    Simulated,
}

/// `version`.
#[derive(Args, Clone, Debug)]
pub struct VersionArgs {
    /// How the answer is written
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    pub output: Format,
}

/// `dev`.
#[derive(Debug, Subcommand)]
pub enum DevCommand {
    /// Answer case files and say how many agree
    Cases {
        /// Case files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Where the answers go, one JSON object a line
        #[arg(long, value_name = "FILE")]
        answers: Option<PathBuf>,
    },
    /// Prove every lesson on an embedded lab
    Lint {
        /// Only these lessons
        ids: Vec<String>,
    },
}

/// The process of an embedded lab.
#[derive(Args, Clone, Debug)]
pub struct LabProcessArgs {
    /// The lab's folder
    #[arg(long)]
    pub dir: PathBuf,
    /// What to bring up, as JSON
    #[arg(long)]
    pub spec: String,
}
