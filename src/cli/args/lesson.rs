//! Learning: `lesson …` and `verify`.

use clap::{Args, Subcommand};

use super::{Format, StatusArgs};

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
