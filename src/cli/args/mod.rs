//! What can be typed. Only clap types here; everything after this sees plain values.

mod asking;
mod builders;
mod cluster;
mod doctor;
mod explain;
mod lab;
mod lesson;
mod objects;

pub use asking::*;
pub use builders::*;
pub use cluster::*;
pub use doctor::*;
pub use explain::*;
pub use lab::*;
pub use lesson::*;
pub use objects::*;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A lab for learning and debugging Kubernetes Dynamic Resource Allocation (DRA).
#[derive(Debug, Parser)]
#[command(
    name = "dralab",
    version,
    about = "A lab for learning and debugging Kubernetes Dynamic Resource Allocation (DRA)",
    long_about = None,
    after_help = "Begin with:\n  dralab tour           the main job in one command\n  dralab up             bring a lab up, then: dralab lesson next\n\nExit codes: 0 done, 1 failed, 2 usage, 3 checked and not satisfied, 4 no lab, 5 timed out, 6 refused for safety, 130 interrupted",
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
    /// Chinese
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
    /// A real cluster in containers, made with kind
    Kind,
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
    /// Look for what is wrong with machine, tools, lab and cluster, and say what to do
    Doctor(DoctorArgs),
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
    /// Ask the devices a selector: verdict, cost, who matches, and the traps in it
    Cel(CelArgs),
    /// Why a claim or a pod is as it is, device by device, and what would make it fit
    Explain(ExplainArgs),
    /// Judge claims, templates, classes, slices and pods before they are applied
    Lint(LintArgs),
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

/// A lab's name becomes part of node names and paths: a DNS label of at most 40 characters.
fn lab_name(text: &str) -> Result<String, String> {
    dns_label("a lab's name", text, 40)
}

/// A name that becomes part of others: a DNS label of at most so many characters.
fn dns_label(what: &str, text: &str, longest: usize) -> Result<String, String> {
    let fine = !text.is_empty()
        && text.len() <= longest
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if fine {
        Ok(text.to_owned())
    } else {
        Err(format!("{what} has 1 to {longest} lower-case letters, digits and dashes, and no dash at its ends"))
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
