//! `doctor`.

use std::path::PathBuf;

use clap::Args;

use super::Format;

/// `doctor`.
#[derive(Args, Clone, Debug, Default)]
pub struct DoctorArgs {
    /// Ids of the checks to run [default: all]
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// List the checks and look at nothing
    #[arg(long)]
    pub list: bool,
    /// Examine the cluster of this context instead of the lab's
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Examine the cluster of this kubeconfig instead of the lab's
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Mend what is the lab's own and safe to mend; asks first
    #[arg(long, conflicts_with_all = ["context", "kubeconfig"])]
    pub fix: bool,
    /// Do not ask
    #[arg(short, long, requires = "fix")]
    pub yes: bool,
    /// Also write what was seen into a tar archive, without secrets
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// How the answer is written
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    pub output: Format,
}
