//! Runs a syntax tree: lists, pipelines, variables, jobs and traps, as a shell that is process 1 of a container.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

use super::jobs::Jobs;
use super::parse::parse;
use super::syntax::{Command, Item, Kind, Link, Pipeline, Redirect, Script, Target};
use super::world::World;

/// The value of `$?` for a command that is not there.
pub(super) const NOT_FOUND: i32 = 127;
/// Which shell's manners: the wording of errors and of `export` differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `bash`.
    Bash,
    /// `sh` (dash, busybox).
    Posix,
}

/// Where one descriptor leads.
#[derive(Clone, Debug)]
pub(super) enum Sink {
    /// The container's log.
    Log,
    /// Nowhere.
    Null,
    /// Collected, for pipes and substitutions.
    Buffer(Arc<Mutex<String>>),
    /// A file of the container.
    File(String),
}

/// The descriptors of a command.
#[derive(Clone, Debug)]
pub(super) struct Io {
    /// What can be read.
    pub(super) stdin: Option<Arc<String>>,
    /// Descriptor 1.
    pub(super) out: Sink,
    /// Descriptor 2.
    pub(super) err: Sink,
}

impl Io {
    /// The descriptors of process 1.
    pub(super) fn log() -> Self {
        Io { stdin: None, out: Sink::Log, err: Sink::Log }
    }
}

/// How a command ended other than with a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// `exit`: the shell ends.
    Exit(i32),
    /// `return` from a function.
    Return(i32),
    /// `break` out of so many loops.
    Break(u32),
    /// `continue` the loop that is so many out.
    Continue(u32),
}

/// A status, or a jump.
pub(super) type Ran = Result<i32, Flow>;

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    /// `None` is declared without a value (bash's OLDPWD).
    pub(super) value: Option<String>,
    /// Part of the environment of commands.
    pub(super) exported: bool,
}

/// One shell.
pub(super) struct Shell {
    pub(super) world: Arc<World>,
    pub(super) dialect: Dialect,
    pub(super) variables: BTreeMap<String, Variable>,
    pub(super) arguments: Vec<String>,
    pub(super) status: i32,
    pub(super) traps: HashMap<&'static str, String>,
    pub(super) functions: HashMap<String, Arc<Command>>,
    pub(super) exit_on_error: bool,
    /// Only process 1 gets the signals that the node agent sends.
    pub(super) is_main: bool,
    pub(super) jobs: Jobs,
    pub(super) last_job: Option<u32>,
    in_trap: bool,
    /// Nesting of function calls and nested shells, bounded so that a script cannot exhaust the stack.
    calls: u32,
}

impl Shell {
    /// The shell that is process 1, with an environment.
    pub(super) fn main(world: Arc<World>, dialect: Dialect, environment: &[(String, String)]) -> Self {
        let mut variables: BTreeMap<String, Variable> =
            environment.iter().map(|(name, value)| (name.clone(), Variable { value: Some(value.clone()), exported: true })).collect();
        let mut add = |name: &str, value: Option<&str>| {
            variables.entry(name.to_owned()).or_insert(Variable { value: value.map(str::to_owned), exported: true });
        };
        add("PWD", Some("/"));
        if dialect == Dialect::Bash {
            add("OLDPWD", None);
            add("SHLVL", Some("1"));
        }
        Shell {
            world,
            dialect,
            variables,
            arguments: Vec::new(),
            status: 0,
            traps: HashMap::new(),
            functions: HashMap::new(),
            exit_on_error: false,
            is_main: true,
            jobs: Jobs::default(),
            last_job: None,
            in_trap: false,
            calls: 0,
        }
    }

    /// A copy for `( … )`, pipes and background jobs.
    pub(super) fn subshell(&self) -> Shell {
        Shell {
            world: Arc::clone(&self.world),
            dialect: self.dialect,
            variables: self.variables.clone(),
            arguments: self.arguments.clone(),
            status: self.status,
            traps: HashMap::new(),
            functions: self.functions.clone(),
            exit_on_error: self.exit_on_error,
            is_main: false,
            jobs: Jobs::default(),
            last_job: self.last_job,
            in_trap: false,
            calls: self.calls,
        }
    }

    /// Runs a whole script as a process: the end of it is the exit code.
    pub(super) async fn process(&mut self, script: &Script, io: &Io) -> i32 {
        let status = match self.run(script, io).await {
            Ok(status) | Err(Flow::Exit(status) | Flow::Return(status)) => status,
            Err(Flow::Break(_) | Flow::Continue(_)) => self.status,
        };
        self.status = status;
        match self.traps.remove("EXIT") {
            Some(text) => match self.run_text(&text, io).await {
                Err(Flow::Exit(status)) => status,
                _ => status,
            },
            None => status,
        }
    }

    /// Parses and runs a text in this shell.
    pub(super) fn run_text<'a>(&'a mut self, text: &'a str, io: &'a Io) -> BoxFuture<'a, Ran> {
        Box::pin(async move {
            match parse(text) {
                Ok(script) => self.run(&script, io).await,
                Err(error) => {
                    self.complain(io, &error.to_string());
                    self.status = 2;
                    Ok(2)
                }
            }
        })
    }

    /// Runs a list.
    pub(super) fn run<'a>(&'a mut self, script: &'a Script, io: &'a Io) -> BoxFuture<'a, Ran> {
        Box::pin(async move {
            for item in &script.items {
                self.signals(io).await?;
                if item.background {
                    self.spawn(item, io);
                    self.status = 0;
                } else {
                    self.item(item, io).await?;
                }
            }
            self.signals(io).await?;
            Ok(self.status)
        })
    }

    async fn item(&mut self, item: &Item, io: &Io) -> Result<(), Flow> {
        let last = item.rest.len();
        let mut checked = item.first.negated;
        self.status = self.pipeline(&item.first, io).await?;
        let mut ran = 0;
        for (index, (link, pipeline)) in item.rest.iter().enumerate() {
            let wanted = match link {
                Link::And => self.status == 0,
                Link::Or => self.status != 0,
            };
            if wanted {
                self.status = self.pipeline(pipeline, io).await?;
                checked = pipeline.negated;
                ran = index + 1;
            }
        }
        // `set -e` looks at the last command of a chain only.
        if self.exit_on_error && self.status != 0 && ran == last && !checked {
            return Err(Flow::Exit(self.status));
        }
        Ok(())
    }

    async fn pipeline(&mut self, pipeline: &Pipeline, io: &Io) -> Ran {
        let status = match pipeline.commands.as_slice() {
            [only] => self.command(only, io).await?,
            commands => {
                let mut stdin = io.stdin.clone();
                let mut status = 0;
                for (index, command) in commands.iter().enumerate() {
                    let mut shell = self.subshell();
                    let last = index + 1 == commands.len();
                    let buffer = Arc::new(Mutex::new(String::new()));
                    let out = if last { io.out.clone() } else { Sink::Buffer(Arc::clone(&buffer)) };
                    let io = Io { stdin: stdin.take(), out, err: io.err.clone() };
                    status = match shell.command(command, &io).await {
                        Ok(status) | Err(Flow::Exit(status) | Flow::Return(status)) => status,
                        Err(Flow::Break(_) | Flow::Continue(_)) => 0,
                    };
                    stdin = Some(Arc::new(std::mem::take(&mut *buffer.lock().unwrap_or_else(PoisonError::into_inner))));
                }
                status
            }
        };
        Ok(if pipeline.negated { i32::from(status == 0) } else { status })
    }

    /// Runs one command.
    pub(super) fn command<'a>(&'a mut self, command: &'a Command, io: &'a Io) -> BoxFuture<'a, Ran> {
        Box::pin(async move {
            self.world.breathe().await;
            let io = match self.redirect(&command.redirects, io).await? {
                Ok(io) => io,
                Err(message) => {
                    self.complain(io, &message);
                    return Ok(1);
                }
            };
            match &command.kind {
                Kind::Simple { assignments, words } => self.simple(assignments, words, &io).await,
                Kind::Group(script) => self.run(script, &io).await,
                Kind::Subshell(script) => Ok(self.subshell().process(script, &io).await),
                Kind::If { arms, otherwise } => self.conditional(arms, otherwise.as_ref(), &io).await,
                Kind::Loop { condition, until, body } => self.repeat(condition, *until, body, &io).await,
                Kind::For { variable, words, body } => {
                    let mut values = Vec::new();
                    for word in words {
                        values.extend(self.expand(word, &io).await?);
                    }
                    let mut status = 0;
                    for value in values {
                        self.assign(variable, value);
                        match self.run(body, &io).await {
                            Err(flow) => match outer(flow)? {
                                true => break,
                                false => continue,
                            },
                            Ok(ran) => status = ran,
                        }
                    }
                    Ok(status)
                }
                Kind::Function { name, body } => {
                    self.functions.insert(name.clone(), Arc::new((**body).clone()));
                    Ok(0)
                }
            }
        })
    }

    /// Runs a condition, for which `set -e` does not count.
    async fn condition(&mut self, script: &Script, io: &Io) -> Ran {
        let exit_on_error = std::mem::take(&mut self.exit_on_error);
        let ran = self.run(script, io).await;
        self.exit_on_error = exit_on_error;
        ran
    }

    async fn conditional(&mut self, arms: &[(Script, Script)], otherwise: Option<&Script>, io: &Io) -> Ran {
        for (condition, body) in arms {
            if self.condition(condition, io).await? == 0 {
                return self.run(body, io).await;
            }
        }
        match otherwise {
            Some(body) => self.run(body, io).await,
            None => Ok(0),
        }
    }

    async fn repeat(&mut self, condition: &Script, until: bool, body: &Script, io: &Io) -> Ran {
        let mut status = 0;
        loop {
            self.world.breathe().await;
            let holds = match self.condition(condition, io).await {
                Ok(status) => status == 0,
                Err(flow) => {
                    if outer(flow)? {
                        return Ok(status);
                    }
                    continue;
                }
            };
            if holds == until {
                return Ok(status);
            }
            match self.run(body, io).await {
                Ok(ran) => status = ran,
                Err(flow) => {
                    if outer(flow)? {
                        return Ok(0);
                    }
                }
            }
        }
    }

    /// Calls a function; `Exit(2)` when calls are nested too deeply.
    pub(super) async fn call(&mut self, body: Arc<Command>, arguments: Vec<String>, io: &Io) -> Ran {
        self.nested(io)?;
        let outer = std::mem::replace(&mut self.arguments, arguments);
        let ran = self.command(&body, io).await;
        self.arguments = outer;
        self.calls -= 1;
        match ran {
            Err(Flow::Return(status)) => Ok(status),
            other => other,
        }
    }

    /// Goes one call deeper.
    pub(super) fn nested(&mut self, io: &Io) -> Result<(), Flow> {
        self.calls += 1;
        if self.calls > 32 {
            self.complain(io, "nested too deeply");
            return Err(Flow::Exit(2));
        }
        Ok(())
    }

    async fn redirect(&mut self, redirects: &[Redirect], io: &Io) -> Result<Result<Io, String>, Flow> {
        let mut io = io.clone();
        for redirect in redirects {
            let sink = match &redirect.target {
                Target::Read(word) => {
                    let file = self.expand_joined(word, &io).await?;
                    match self.world.read(&file) {
                        Some(text) => io.stdin = Some(Arc::new(text)),
                        None => return Ok(Err(format!("{file}: No such file or directory"))),
                    }
                    continue;
                }
                Target::Write { file, append } => {
                    let file = self.expand_joined(file, &io).await?;
                    self.world.open(&file, *append)
                }
                Target::Duplicate(1) => io.out.clone(),
                Target::Duplicate(_) => io.err.clone(),
            };
            match redirect.descriptor {
                1 => io.out = sink,
                2 => io.err = sink,
                _ => {}
            }
        }
        Ok(Ok(io))
    }

    /// Sets a variable; it stays exported if it was.
    pub(super) fn assign(&mut self, name: &str, value: String) {
        match self.variables.get_mut(name) {
            Some(variable) => variable.value = Some(value),
            None => {
                self.variables.insert(name.to_owned(), Variable { value: Some(value), exported: false });
            }
        }
    }

    /// The value of a variable or special parameter; `None` when it is unset.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        match name {
            "?" => Some(self.status.to_string()),
            "$" => Some("1".to_owned()),
            "!" => Some(self.last_job.map(|n| n.to_string()).unwrap_or_default()),
            "#" => Some(self.arguments.len().to_string()),
            "@" | "*" => Some(self.arguments.join(" ")),
            "-" => Some(String::new()),
            "0" => Some(self.name().to_owned()),
            "RANDOM" if self.dialect == Dialect::Bash => Some((self.world.next_process() * 7919 % 32768).to_string()),
            "HOSTNAME" if self.dialect == Dialect::Bash && !self.variables.contains_key(name) => Some(self.world.hostname.clone()),
            _ => match name.parse::<usize>() {
                Ok(position) => self.arguments.get(position.wrapping_sub(1)).cloned(),
                Err(_) => self.variables.get(name).and_then(|v| v.value.clone()),
            },
        }
    }

    /// `bash` or `sh`.
    pub(super) fn name(&self) -> &'static str {
        match self.dialect {
            Dialect::Bash => "bash",
            Dialect::Posix => "sh",
        }
    }

    /// An error on descriptor 2, as the shell words it.
    pub(super) fn complain(&self, io: &Io, message: &str) {
        let text = match self.dialect {
            Dialect::Bash => format!("bash: line 1: {message}\n"),
            Dialect::Posix => format!("sh: 1: {message}\n"),
        };
        self.world.print(&io.err, &text);
    }

    /// Runs the trap of a signal that has come in the meantime. Without a trap process 1 ignores it, as the kernel
    /// does for the first process of a PID namespace.
    async fn signals(&mut self, io: &Io) -> Result<(), Flow> {
        if !self.is_main || self.in_trap || !self.world.signals.take() {
            return Ok(());
        }
        let Some(text) = self.traps.get("TERM").cloned().filter(|text| !text.is_empty()) else { return Ok(()) };
        let before = self.status;
        self.in_trap = true;
        let ran = self.run_text(&text, io).await;
        self.in_trap = false;
        self.status = before;
        ran.map(|_| ())
    }

    /// Waits by the clock.
    pub(super) async fn sleep(&self, duration: Option<Duration>) {
        self.world.slept();
        match duration {
            Some(duration) => {
                self.world.clock.sleep(duration).await;
            }
            None => std::future::pending().await,
        }
    }
}

/// What a jump means for the loop it reaches: `true` leaves it, `false` goes on; further out it is passed on.
fn outer(flow: Flow) -> Result<bool, Flow> {
    match flow {
        Flow::Break(1) => Ok(true),
        Flow::Break(n) => Err(Flow::Break(n - 1)),
        Flow::Continue(1) => Ok(false),
        Flow::Continue(n) => Err(Flow::Continue(n - 1)),
        other => Err(other),
    }
}
