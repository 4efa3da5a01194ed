//! Arguments, wiring and exit codes. The only module that knows clap.

pub mod app;
pub mod args;
pub mod cmd;
pub mod environment;
pub mod interrupt;

use std::process::ExitCode;

use clap::Parser as _;

use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::args::{Cli, Command};
use crate::cli::environment::Environment;
use crate::ui;
use crate::ui::terminal::{Terminal, is_closed_pipe};

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let environment = Environment::of_this_process();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap writes help to stdout and mistakes to stderr; a closed pipe there is nobody's fault.
            let code = if error.use_stderr() { Kind::Usage.exit_code() } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let terminal = app::terminal(&cli.global, &environment);
    app::start_log(cli.global.verbose.max(cmd::least_verbosity(&cli.command)), &environment);
    let json = cmd::answers_in_json(&cli.command);
    match run(cli, environment, &terminal) {
        Ok(code) => ExitCode::from(code),
        Err(failure) if is_closed_pipe(&failure) => ExitCode::SUCCESS,
        Err(failure) => {
            if json {
                // One JSON document per command, also on failure.
                let _ = terminal.line(ui::failure::as_json(&failure).to_string());
            }
            ui::failure::render(&terminal, &failure);
            ExitCode::from(failure.kind.exit_code())
        }
    }
}

fn run(cli: Cli, environment: Environment, terminal: &Terminal) -> Result<u8, Failure> {
    match cli.command {
        // Commands that need neither a folder nor a runtime.
        Command::Completions { shell } => cmd::generate::completions(terminal, shell).map(|()| 0),
        Command::Man => cmd::generate::man(terminal).map(|()| 0),
        Command::Version(args) => cmd::version::run(terminal, &args).map(|()| 0),
        Command::Dev(args::DevCommand::Cases { files, answers }) => cmd::dev::cases(terminal, &files, answers.as_deref()),
        command => {
            let app = App::new(&cli.global, environment, terminal.clone())?;
            app.block_on(cmd::is_interruptible(&command), cmd::run(&app, command))
        }
    }
}
