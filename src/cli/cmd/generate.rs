//! `completions` and `man`, from the same tree that parses.

use clap::CommandFactory as _;

use crate::base::failure::{Failure, Kind};
use crate::cli::args::Cli;
use crate::ui::terminal::Terminal;

/// Writes shell completions.
///
/// # Errors
/// When stdout cannot be written.
pub fn completions(terminal: &Terminal, shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "dralab", &mut bytes);
    terminal.write(&bytes)
}

/// Writes the man page, and one section for each subcommand after it.
///
/// # Errors
/// When stdout cannot be written.
pub fn man(terminal: &Terminal) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    let failed = |error: std::io::Error| Failure::new(Kind::Failed, "DL-MAN-03", "the man page cannot be made").because(&error);
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut bytes).map_err(failed)?;
    for subcommand in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        clap_mangen::Man::new(subcommand.clone()).render(&mut bytes).map_err(failed)?;
    }
    terminal.write(&bytes)
}
