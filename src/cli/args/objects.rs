//! Objects: `get`, `describe`, `apply`, `delete`, `logs`, `events`.

use std::path::PathBuf;

use clap::Args;

use super::Output;

/// Which namespace.
#[derive(Args, Clone, Debug, Default)]
pub struct Namespace {
    /// Namespace [default: the lesson's, else `default`]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// `get`.
#[derive(Args, Clone, Debug)]
pub struct GetArgs {
    /// What to list: KIND[,KIND...] or KIND/NAME
    #[arg(required = true, value_name = "KIND[/NAME]")]
    pub what: Vec<String>,
    /// Which namespace
    #[command(flatten)]
    pub namespace: Namespace,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Label selector
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// How the answer is written
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    pub output: Output,
}

/// `describe`.
#[derive(Args, Clone, Debug)]
pub struct ObjectArgs {
    /// What to show: KIND/NAME, or KIND NAME, or KIND for all
    #[arg(required = true, value_name = "KIND[/NAME]")]
    pub what: Vec<String>,
    /// Which namespace
    #[command(flatten)]
    pub namespace: Namespace,
}

/// `apply`.
#[derive(Args, Clone, Debug)]
pub struct ApplyArgs {
    /// File or folder with manifests, or `-` for standard input
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Which namespace
    #[command(flatten)]
    pub namespace: Namespace,
    /// Only ask the server what would happen
    #[arg(long)]
    pub dry_run: bool,
}

/// `delete`.
#[derive(Args, Clone, Debug)]
pub struct DeleteArgs {
    /// What to delete: KIND/NAME..., or KIND NAME...
    #[arg(value_name = "KIND[/NAME]", required_unless_present = "files")]
    pub what: Vec<String>,
    /// File or folder with manifests, or `-` for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "what")]
    pub files: Vec<PathBuf>,
    /// Which namespace
    #[command(flatten)]
    pub namespace: Namespace,
    /// Return at once instead of waiting until the objects are gone
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    pub timeout: u64,
}

/// `logs`.
#[derive(Args, Clone, Debug)]
pub struct LogsArgs {
    /// The pod
    pub pod: String,
    /// Which container
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Go on until the container ends
    #[arg(short, long)]
    pub follow: bool,
    /// Which namespace
    #[command(flatten)]
    pub namespace: Namespace,
}

/// `events`.
#[derive(Args, Clone, Debug)]
pub struct EventsArgs {
    /// Which namespace
    #[command(flatten)]
    pub namespace: Namespace,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only of this object
    #[arg(long = "for", value_name = "KIND/NAME")]
    pub about: Option<String>,
}
