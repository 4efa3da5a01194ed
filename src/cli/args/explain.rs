//! `explain`.

use std::path::PathBuf;

use clap::Args;

use super::Namespace;
use super::asking::minor;

/// `explain`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  dralab explain claim/some-gpu\n  dralab explain pod/pod0 -n dra-tutorial --context kind-x\n  kubectl get resourceclaims,pods,nodes,resourceslices,deviceclasses -A -o yaml | dralab explain claim/some-gpu -f -\n\nExit codes: 0 explained; 3 explained, and it cannot be satisfied now"
)]
pub struct ExplainArgs {
    /// What to explain: claim/NAME or pod/NAME
    #[arg(value_name = "KIND/NAME", required_unless_present_any = ["reasons", "reason"], num_args = 1..=2)]
    pub what: Vec<String>,
    /// Which namespace
    #[command(flatten)]
    pub namespace: Namespace,
    /// Objects from this file or folder instead of a cluster (YAML or JSON, Lists too; `-` for standard input; can be repeated)
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with_all = ["context", "kubeconfig"])]
    pub files: Vec<PathBuf>,
    /// Ask the cluster of this context instead of the lab
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Ask the cluster of this kubeconfig instead of the lab
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The Kubernetes version whose feature gates count: 1.34 to 1.37 [default: the server's]
    #[arg(long, value_name = "VERSION", value_parser = minor)]
    pub kubernetes: Option<u32>,
    /// List all reasons
    #[arg(long, conflicts_with_all = ["what", "reason"])]
    pub reasons: bool,
    /// Print the page of a reason
    #[arg(long, value_name = "ID", conflicts_with = "what")]
    pub reason: Option<String>,
    /// How the answer is written
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    pub output: ExplainOutput,
}

/// How an explanation is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ExplainOutput {
    /// Text for people
    #[default]
    Text,
    /// Text with every node
    Wide,
    /// One JSON document
    Json,
}
