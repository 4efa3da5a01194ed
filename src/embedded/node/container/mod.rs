//! Simulated containers: a small interpreter of the commands that people put in the pods of a lab.
//!
//! A container's command is understood as a shell script (`sh -c …`), as one of the commands that this module
//! knows, or not at all; then it runs until it is told to end and its log says so. Time passes by the lab's clock.

mod builtins;
mod expand;
mod filters;
mod jobs;
mod parse;
mod printf;
mod shell;
mod syntax;
mod test;
mod variables;
mod words;
mod world;

use std::sync::Arc;

use shell::{Dialect, Flow, Io, Shell};
use syntax::Script;
use world::World;

pub use syntax::NotUnderstood;
pub use world::{Output, Signals};

use crate::base::clock::SharedClock;

/// What a container is to do, as far as it is understood.
#[derive(Clone, Debug)]
pub struct Program {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A shell with a script; `arguments` are `$1` and on.
    Script { dialect: Dialect, script: Script, arguments: Vec<String>, exit_on_error: bool },
    /// A single command that is known.
    Command(Vec<String>),
    /// Not understood: runs until it is told to end. `why` is for the log; `None` where nothing need be said.
    Opaque { why: Option<String> },
}

/// Commands that are run without a shell; the others in the tables of builtins exist only inside one.
const PROGRAMS: &[&str] = &[
    "sleep",
    "env",
    "printenv",
    "echo",
    "true",
    "false",
    "printf",
    "date",
    "hostname",
    "cat",
    "ls",
    "seq",
    "tail",
    "head",
    "nvidia-smi",
    "id",
    "whoami",
    "uname",
    "timeout",
];

impl Program {
    /// Understands a container's `command` and `args` (both already with `$(VAR)` replaced). `image` is for the
    /// log, where the image's own command would run.
    #[must_use]
    pub fn new(command: &[String], args: &[String], image: &str) -> Program {
        let words: Vec<String> = if command.is_empty() && !args.first().is_some_and(|a| known(a)) {
            Vec::new()
        } else {
            command.iter().chain(args).cloned().collect()
        };
        let opaque = |why: String| Program { kind: Kind::Opaque { why: Some(why) } };
        let Some((name, rest)) = words.split_first() else {
            let pause = image.rsplit('/').next().is_some_and(|i| i.starts_with("pause"));
            return if pause {
                Program { kind: Kind::Opaque { why: None } }
            } else {
                opaque(format!("the command of image {image} is not simulated"))
            };
        };
        let name = base_name(name);
        if let Some(dialect) = dialect(name) {
            let mut exit_on_error = false;
            for (index, flag) in rest.iter().enumerate() {
                if !flag.starts_with('-') {
                    return opaque(format!("the script file {flag} is not simulated"));
                }
                exit_on_error |= flag.contains('e') && !flag.starts_with("--");
                if !flag.starts_with("--") && flag.contains('c') {
                    let text = rest.get(index + 1).cloned().unwrap_or_default();
                    let arguments = rest.get(index + 3..).unwrap_or_default().to_vec();
                    return match parse::parse(&text) {
                        Ok(script) => Program { kind: Kind::Script { dialect, script, arguments, exit_on_error } },
                        Err(error) => opaque(format!("the script was not understood: {error}")),
                    };
                }
            }
            // A shell without input ends at once.
            return Program { kind: Kind::Script { dialect, script: Script::default(), arguments: Vec::new(), exit_on_error: false } };
        }
        if PROGRAMS.contains(&name) {
            Program { kind: Kind::Command(words) }
        } else {
            opaque(format!("the command `{name}` is not simulated"))
        }
    }

    /// Why the program is not understood; `None` when it is.
    #[must_use]
    pub fn not_understood(&self) -> Option<&str> {
        match &self.kind {
            Kind::Opaque { why } => why.as_deref(),
            Kind::Script { .. } | Kind::Command(_) => None,
        }
    }

    /// Runs the program to its end and gives its exit code. Dropping the future is SIGKILL.
    pub async fn run(self, process: Process) -> i32 {
        let world = Arc::new(World::new(process.clock, process.hostname, Arc::clone(&process.signals), process.output, process.settled));
        let io = Io::log();
        let code = match self.kind {
            Kind::Script { dialect, script, arguments, exit_on_error } => {
                let mut shell = Shell::main(Arc::clone(&world), dialect, &process.environment);
                shell.arguments = arguments;
                shell.exit_on_error = exit_on_error;
                shell.process(&script, &io).await
            }
            Kind::Command(words) => {
                let mut shell = Shell::main(Arc::clone(&world), Dialect::Posix, &process.environment);
                // `env` without a shell shows the environment as it was given.
                shell.variables.retain(|name, _| process.environment.iter().any(|(given, _)| given == name));
                match words.split_first() {
                    Some((name, rest)) => match shell.execute(name, rest, &io).await {
                        Ok(code) | Err(Flow::Exit(code) | Flow::Return(code)) => code,
                        Err(Flow::Break(_) | Flow::Continue(_)) => 0,
                    },
                    None => 0,
                }
            }
            Kind::Opaque { why } => {
                if let Some(why) = why {
                    world.print(
                        &shell::Sink::Log,
                        &format!("[dralab] this container is simulated and {why}; it runs until it is told to end\n"),
                    );
                }
                world.slept();
                process.signals.came().await;
                0
            }
        };
        world.finish();
        code
    }
}

/// What a program runs in.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its environment, in order.
    pub environment: Vec<(String, String)>,
    /// The host name.
    pub hostname: String,
    /// By which it sleeps.
    pub clock: SharedClock,
    /// SIGTERM reaches it here.
    pub signals: Arc<Signals>,
    /// What it prints goes here.
    pub output: Arc<dyn Output>,
    /// Told once when the program first waits for something, or ends: by then its traps are set.
    pub settled: Arc<tokio::sync::Notify>,
}

fn base_name(command: &str) -> &str {
    command.rsplit('/').next().unwrap_or(command)
}

fn dialect(name: &str) -> Option<Dialect> {
    match name {
        "bash" => Some(Dialect::Bash),
        "sh" | "dash" | "ash" => Some(Dialect::Posix),
        _ => None,
    }
}

fn known(command: &str) -> bool {
    let name = base_name(command);
    dialect(name).is_some() || PROGRAMS.contains(&name)
}

#[cfg(test)]
mod tests;
