//! The `dralab` command. Everything is in the library; this only hands over the arguments.

use std::process::ExitCode;

fn main() -> ExitCode {
    dralab::cli::main()
}
