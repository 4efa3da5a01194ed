//! What can be typed. Only clap types here; everything after this sees plain values.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A lab for learning and debugging Kubernetes Dynamic Resource Allocation (DRA).
#[derive(Debug, Parser)]
#[command(
    name = "dralab",
    version,
    about = "A lab for learning and debugging Kubernetes Dynamic Resource Allocation (DRA)",
    long_about = None,
    after_help = "Begin with:\n  dralab tour           the main job in one command\n  dralab up             bring a lab up, then: dralab lesson next\n\nExit codes: 0 done, 1 failed, 2 usage, 3 checked and not satisfied, 4 no lab, 5 timed out, 6 refused for safety, 130 interrupted",
    disable_help_subcommand = true,
    propagate_version = true,
    max_term_width = 100
)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// Name of the lab
    #[arg(long, global = true, value_name = "NAME", env = "DRALAB_LAB", default_value = "dra-lab", value_parser = lab_name, hide_env = true)]
    pub lab: String,
    /// Language of what a learner reads
    #[arg(long, global = true, value_enum, value_name = "LANG")]
    pub lang: Option<LanguageArg>,
    /// No colour, box drawing, emoji or redrawing
    #[arg(long, global = true)]
    pub plain: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    pub color: ColorArg,
    /// No progress and no hints
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Tell more on standard error (twice for everything)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// The names of the languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LanguageArg {
    /// English
    En,
    /// 中文
    Zh,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// Where the stream is a terminal that wants it
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Where the cluster comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendArg {
    /// A Kubernetes API, scheduler and node agents inside dralab
    Embedded,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text for people
    #[default]
    Text,
    /// More columns
    Wide,
    /// One JSON document
    Json,
    /// YAML
    Yaml,
    /// TYPE/NAME, a line each
    Name,
}

/// Text or JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people
    #[default]
    Text,
    /// One JSON document
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Bring a lab up; running it again changes nothing
    Up(UpArgs),
    /// Stop the lab; what was learned is kept
    Down(DownArgs),
    /// What runs, and where its files are
    Status(StatusArgs),
    /// Print what to evaluate so that kubectl reaches the lab
    Env,
    /// Run kubectl against the lab
    #[command(disable_help_flag = true)]
    Kubectl(KubectlArgs),
    /// The main job in one command: a claim goes from pending to allocated,reserved
    Tour(TourArgs),
    /// Lessons
    #[command(subcommand)]
    Lesson(LessonCommand),
    /// Check the lesson by what the cluster did
    Verify(VerifyArgs),
    /// List objects, or show one
    Get(GetArgs),
    /// Show an object and what belongs to it
    Describe(ObjectArgs),
    /// Apply manifests (server-side)
    Apply(ApplyArgs),
    /// Delete objects
    Delete(DeleteArgs),
    /// Print what a container wrote
    Logs(LogsArgs),
    /// List events, oldest first
    Events(EventsArgs),
    /// The DRA driver
    #[command(subcommand)]
    Driver(DriverCommand),
    /// Write shell completions to standard output
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the man page to standard output
    Man,
    /// Print the version
    Version(VersionArgs),
    /// For builders of dralab
    #[command(subcommand, hide = true)]
    Dev(DevCommand),
    /// The process of an embedded lab (started by `up`)
    #[command(name = "lab-process", hide = true)]
    LabProcess(LabProcessArgs),
}

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
    /// Stay in the foreground until Ctrl-C
    #[arg(long)]
    pub foreground: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
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

/// `lesson`.
#[derive(Debug, Subcommand)]
pub enum LessonCommand {
    /// List the lessons and what has passed
    List(StatusArgs),
    /// Go on: begin the next lesson, or show where the current one stands
    Next {
        /// Leave the current lesson although it has not passed
        #[arg(long)]
        skip: bool,
    },
    /// Show a lesson (default: the current one)
    Show {
        /// Lesson id or number
        id: Option<String>,
    },
    /// Show the next hint of the current step
    Hint {
        /// Lesson id or number
        id: Option<String>,
        /// Show all hints
        #[arg(long)]
        all: bool,
    },
    /// Show a solution
    Solution {
        /// Lesson id or number
        id: Option<String>,
    },
    /// Delete what the lesson made and begin it again
    Reset {
        /// Lesson id or number
        id: Option<String>,
    },
    /// Run lessons unattended with their solutions
    Run {
        /// Lesson ids or numbers
        #[arg(required_unless_present = "all")]
        ids: Vec<String>,
        /// All lessons
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        /// How the answer is written
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
        output: Format,
    },
}

/// `verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {
    /// Lesson id or number [default: the current one]
    pub lesson: Option<String>,
    /// How long to wait for what is not yet right, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub timeout: Option<u64>,
    /// How the answer is written
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    pub output: Format,
}

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
    /// What to list: KIND[,KIND…] or KIND/NAME
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
    /// What to delete: KIND/NAME…, or KIND NAME…
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

/// A lab's name becomes part of node names and paths: a DNS label of at most 40 characters.
fn lab_name(text: &str) -> Result<String, String> {
    let fine = !text.is_empty()
        && text.len() <= 40
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if fine {
        Ok(text.to_owned())
    } else {
        Err("a lab's name has 1 to 40 lower-case letters, digits and dashes, and no dash at its ends".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_tree_is_sound() {
        Cli::command().debug_assert();
    }
}
