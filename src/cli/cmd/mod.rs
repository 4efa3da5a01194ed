//! One file per command: from arguments to a call of the layers below, and its answer to the terminal.

pub mod cel;
pub mod change;
pub mod describe;
pub mod dev;
pub mod devices;
pub mod doctor;
pub mod driver;
pub mod explain;
pub mod generate;
pub mod lab;
pub mod lesson;
pub mod lint;
pub mod look;
pub mod tour;
pub mod verify;
pub mod version;
pub mod walk;

use crate::base::failure::Failure;
use crate::cli::app::App;
use crate::cli::args::{Command, DevCommand, DriverCommand, Format, LessonCommand, Output};

/// Runs a command that needs the lab's folders; returns the exit code of a command that came to its end.
///
/// # Errors
/// The command's failure.
pub async fn run(app: &App, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Up(args) => lab::up(app, &args).await,
        Command::Down(args) => lab::down(app, &args).await,
        Command::Status(args) => lab::status::run(app, &args).await,
        Command::Doctor(args) => doctor::run(app, &args).await,
        Command::Explain(args) => explain::run(app, &args).await,
        Command::Env => lab::env(app),
        Command::Kubectl(args) => lab::kubectl(app, &args).await,
        Command::LabProcess(args) => lab::embedded::process(app, &args).await,
        Command::Get(args) => look::get(app, &args).await,
        Command::Events(args) => look::events(app, &args).await,
        Command::Logs(args) => look::logs(app, &args).await,
        Command::Apply(args) => change::apply(app, &args).await,
        Command::Delete(args) => change::delete(app, &args).await,
        Command::Cel(args) => cel::run(app, &args).await,
        Command::Lint(args) => lint::run(app, &args).await,
        Command::Describe(args) => describe::run(app, &args).await,
        Command::Tour(args) => tour::run(app, &args).await,
        Command::Lesson(command) => {
            let walks = matches!(command, LessonCommand::Next { .. }) && walk::is_welcome(app);
            let code = lesson::run(app, command).await?;
            if walks { walk::walk(app).await } else { Ok(code) }
        }
        Command::Verify(args) => verify::run(app, &args).await,
        Command::Driver(DriverCommand::Run(args)) => driver::run(app, &args).await,
        Command::Dev(DevCommand::Lint { ids }) => dev::lint(app, &ids).await,
        // Handled before there is a runtime.
        Command::Dev(DevCommand::Cases { .. }) | Command::Completions { .. } | Command::Man | Command::Version(_) => Ok(0),
    }
}

/// Whether Ctrl-C may drop a command. What serves until it is told to end, or takes back what it made, listens itself.
#[must_use]
pub fn is_interruptible(command: &Command) -> bool {
    !matches!(command, Command::LabProcess(_) | Command::Driver(DriverCommand::Run(_)) | Command::Up(_) | Command::Tour(_))
}

/// How much a command logs even when nobody asks for more: a driver has no other way to say what it does.
#[must_use]
pub fn least_verbosity(command: &Command) -> u8 {
    u8::from(matches!(command, Command::Driver(DriverCommand::Run(_))))
}

/// Whether a command was asked for one JSON document.
#[must_use]
pub fn answers_in_json(command: &Command) -> bool {
    match command {
        Command::Status(args) => args.output == Format::Json,
        Command::Doctor(args) => args.output == Format::Json,
        Command::Explain(args) => args.output == crate::cli::args::ExplainOutput::Json,
        Command::Verify(args) => args.output == Format::Json,
        Command::Cel(args) => args.output == Format::Json,
        Command::Lint(args) => args.output == Format::Json,
        Command::Version(args) => args.output == Format::Json,
        Command::Get(args) => args.output == Output::Json,
        Command::Lesson(LessonCommand::List(args)) => args.output == Format::Json,
        Command::Lesson(LessonCommand::Run { output, .. }) => *output == Format::Json,
        _ => false,
    }
}
