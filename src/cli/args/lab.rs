//! The lab: `up`, `down`, `status`, `kubectl`, `tour`.

use clap::{Args, ValueEnum};

use super::{BackendArg, ContextArgs, Format, ImageArgs};

/// `up`.
#[derive(Args, Clone, Debug)]
pub struct UpArgs {
    /// Where the cluster comes from
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub backend: Option<BackendArg>,
    /// Number of worker nodes [default: 1, or as before]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000))]
    pub nodes: Option<u32>,
    /// GPUs per worker [default: as the profile says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub gpus: Option<u32>,
    /// Device profile: a name, or a YAML file [default: default, or as before]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Port of the API on 127.0.0.1 [default: any that is free]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Stay in the foreground until Ctrl-C (embedded)
    #[arg(long)]
    pub foreground: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// A cluster that is there.
    #[command(flatten)]
    pub on: ContextArgs,
    /// Images for nodes.
    #[command(flatten)]
    pub images: ImageArgs,
    /// A cluster to be made with kind.
    #[command(flatten)]
    pub kind: KindArgs,
}

/// What only a lab on kind has.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct KindArgs {
    /// Kubernetes version of kind's own node image: 1.34 to 1.37, or with a patch
    #[arg(long, value_name = "VERSION", help_heading = "With kind")]
    pub kubernetes: Option<String>,
    /// Node image
    #[arg(long, value_name = "IMAGE", help_heading = "With kind")]
    pub node_image: Option<String>,
    /// DRA feature gates beyond the version's defaults [default: beta, or as before]
    #[arg(long, value_enum, value_name = "STAGE", help_heading = "With kind")]
    pub features: Option<FeaturesArg>,
    /// More feature gates, as NAME=true,NAME=false (can be repeated)
    #[arg(long, value_name = "GATES", value_delimiter = ',', help_heading = "With kind")]
    pub feature_gates: Vec<String>,
}

impl KindArgs {
    /// The first of the flags that is set.
    #[must_use]
    pub fn first(&self) -> Option<&'static str> {
        [
            (self.kubernetes.is_some(), "--kubernetes"),
            (self.node_image.is_some(), "--node-image"),
            (self.features.is_some(), "--features"),
            (!self.feature_gates.is_empty(), "--feature-gates"),
        ]
        .into_iter()
        .find_map(|(set, flag)| set.then_some(flag))
    }
}

/// How much of DRA is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FeaturesArg {
    /// What the version has on by itself
    Stable,
    /// Beta gates that are off by default, too
    Beta,
    /// Alpha gates, too
    All,
}

/// `down`.
#[derive(Args, Clone, Debug)]
pub struct DownArgs {
    /// Also delete the lab's objects, progress and files
    #[arg(long)]
    pub purge: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `status`.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// How the answer is written
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    pub output: Format,
}

/// `kubectl`.
#[derive(Args, Clone, Debug)]
pub struct KubectlArgs {
    /// Arguments for kubectl
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub args: Vec<std::ffi::OsString>,
}

/// `tour`.
#[derive(Args, Clone, Debug)]
pub struct TourArgs {
    /// Where the cluster comes from
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub backend: Option<BackendArg>,
}
