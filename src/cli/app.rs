//! What commands share: the environment, folders, terminal, and how to reach the lab.

use std::future::Future;
use std::path::{Path, PathBuf};

use kube::Client;

use crate::base::failure::{Failure, Kind};
use crate::cli::args::{ColorArg, Global, LanguageArg};
use crate::cli::environment::Environment;
use crate::cli::interrupt;
use crate::client::connect::{self, Proxies};
use crate::cluster::error::up_hint;
use crate::cluster::{ClusterError, Home, LabFolder, LabRecord};
use crate::lessons::template::Place;
use crate::lessons::{Library, progress};
use crate::ui::terminal::{Manners, Terminal};
use crate::ui::text::{Language, Texts};

/// What commands share.
#[derive(Debug)]
pub struct App {
    /// The environment.
    pub environment: Environment,
    /// The folders.
    pub home: Home,
    /// The terminal.
    pub terminal: Terminal,
    /// The lab's name.
    pub lab: String,
    /// The language.
    pub language: Language,
}

impl App {
    /// Puts together what commands share.
    ///
    /// # Errors
    /// When no folder for state can be told.
    pub fn new(global: &Global, environment: Environment, terminal: Terminal) -> Result<Self, Failure> {
        let home = Home::new(
            environment.path("DRALAB_HOME"),
            environment.path("XDG_STATE_HOME"),
            environment.path("HOME"),
            environment.path("XDG_RUNTIME_DIR"),
        )
        .map_err(Failure::from)?;
        let language = terminal.texts.language();
        Ok(App { environment, home, terminal, lab: global.lab.clone(), language })
    }

    /// Runs a command to its end, or to Ctrl-C, which drops the command; that undoes what it made. A command that is not `interruptible`
    /// listens to signals itself, because it has to end in order.
    ///
    /// # Errors
    /// The command's failure, or that it was interrupted.
    pub fn block_on(&self, interruptible: bool, command: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| Failure::new(Kind::Failed, "DL-RUN-01", "the runtime cannot be started").because(&error))?;
        let result = runtime.block_on(async { if interruptible { interrupt::droppable(command).await } else { command.await } });
        // Blocking threads may still wait for a lock; the process does not wait for them.
        runtime.shutdown_background();
        result
    }

    /// The lab's folder.
    #[must_use]
    pub fn folder(&self) -> LabFolder {
        self.home.lab(&self.lab)
    }

    /// The record of the lab, if it runs.
    ///
    /// # Errors
    /// When there is no such lab, or it does not run.
    pub fn record(&self) -> Result<LabRecord, Failure> {
        let folder = self.folder();
        match LabRecord::read(&folder).map_err(Failure::from)? {
            Some(record) if record.is_up(&folder) => Ok(record),
            Some(_) => Err(Failure::from(ClusterError::NotUp { lab: self.lab.clone() })),
            None => {
                let mut failure = Failure::new(Kind::NoLab, "DL-LAB-01", format!("there is no lab \"{}\"", self.lab));
                let others = self.home.labs();
                if !others.is_empty() {
                    failure = failure.hint(format!("there are: {}; choose one with `--lab NAME`", others.join(", ")));
                }
                Err(failure.hint(up_hint(&self.lab)))
            }
        }
    }

    /// A client for the lab.
    ///
    /// # Errors
    /// When it does not run, or cannot be reached.
    pub async fn client(&self) -> Result<Client, Failure> {
        let record = self.record()?;
        connect::by_kubeconfig(&record.kubeconfig, None, &self.proxies()).await.map_err(Failure::from)
    }

    /// The namespace that a command is about: the one it names, else the current lesson's, else `default`.
    #[must_use]
    pub fn namespace(&self, named: Option<&str>) -> String {
        if let Some(named) = named {
            return named.to_owned();
        }
        let lesson = progress::read(&self.folder().progress()).ok().and_then(|p| p.current);
        let entry = lesson.and_then(|id| Library::embedded().ok().and_then(|l| l.find(&id).cloned().ok()));
        entry.map_or_else(|| "default".to_owned(), |e| self.place().namespace(&e.lesson.namespace()))
    }

    /// Where lessons play: on the lab's own nodes, or on those of the cluster that it is on.
    #[must_use]
    pub fn place(&self) -> Place {
        match LabRecord::read(&self.folder()) {
            Ok(Some(record)) => Place {
                lab: record.lab.clone(),
                worker: record.worker(),
                control_plane: record.control_plane(),
                learner: record.learner().map(str::to_owned),
            },
            _ => Place::of_lab(&self.lab),
        }
    }

    /// The command that lists objects on this machine: `kubectl` where it is on the PATH, else `dralab`, whose grammar is the same for what lessons use.
    #[must_use]
    pub fn kubectl_word(&self) -> &'static str {
        let path = self.environment.path("PATH").unwrap_or_default();
        if std::env::split_paths(&path).any(|dir| dir.join("kubectl").is_file()) { "kubectl" } else { "dralab" }
    }

    /// The kubeconfig that has the context: the one that was named, else of `KUBECONFIG` or `~/.kube/config` the first that has it.
    ///
    /// # Errors
    /// When none has it.
    pub fn kubeconfig(&self, context: Option<&str>, named: Option<&Path>) -> Result<PathBuf, Failure> {
        if let Some(path) = named {
            return Ok(self.environment.current_dir.as_deref().map_or_else(|| path.to_path_buf(), |dir| dir.join(path)));
        }
        let home = self.environment.path("HOME").map(|home| home.join(".kube/config"));
        let listed: Vec<PathBuf> = match self.environment.path("KUBECONFIG") {
            Some(list) => std::env::split_paths(&list).filter(|p| !p.as_os_str().is_empty()).collect(),
            None => home.into_iter().collect(),
        };
        let has = |path: &&PathBuf| {
            let file = kube::config::Kubeconfig::read_from(path).ok();
            file.is_some_and(|file| context.is_none_or(|wanted| file.contexts.iter().any(|c| c.name == wanted)))
        };
        if let Some(path) = listed.iter().find(has) {
            return Ok(path.clone());
        }
        let looked = listed.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        let name = context.unwrap_or_default();
        Err(Failure::new(Kind::Usage, "DL-DOC-02", format!("no context \"{name}\" in {looked}"))
            .hint("see which there are: `kubectl config get-contexts`"))
    }

    /// The width to fold at: the terminal's, within bounds that read well.
    #[must_use]
    pub fn columns(&self) -> usize {
        let told = self.environment.variable("COLUMNS").and_then(|c| c.parse().ok());
        let asked = || console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        let columns = told.or_else(|| if self.environment.stdout_is_terminal { asked() } else { None });
        columns.unwrap_or(100).clamp(50, 120)
    }

    /// The proxies of the environment.
    #[must_use]
    pub fn proxies(&self) -> Proxies {
        let either =
            |upper: &str, lower: &str| self.environment.variable(upper).or_else(|| self.environment.variable(lower)).map(str::to_owned);
        Proxies { https: either("HTTPS_PROXY", "https_proxy"), exempt: either("NO_PROXY", "no_proxy") }
    }

    /// This program's file, to start the lab's process from.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn executable(&self) -> Result<PathBuf, Failure> {
        std::env::current_exe()
            .map_err(|error| Failure::new(Kind::Failed, "DL-RUN-02", "cannot tell where this program's file is").because(&error))
    }
}

/// The terminal, as flags and environment ask for it.
#[must_use]
pub fn terminal(global: &Global, environment: &Environment) -> Terminal {
    let flag = global.lang.map(|lang| match lang {
        LanguageArg::En => Language::English,
        LanguageArg::Zh => Language::Chinese,
    });
    let no_color = environment.variable("NO_COLOR").is_some();
    let dumb = environment.variable("TERM").is_some_and(|t| t == "dumb");
    let forced = environment.variable("CLICOLOR_FORCE").is_some_and(|v| v != "0");
    let color = |is_terminal: bool| {
        !global.plain
            && match global.color {
                ColorArg::Always => true,
                ColorArg::Never => false,
                ColorArg::Auto => !no_color && !dumb && (is_terminal || forced),
            }
    };
    let manners = Manners {
        color_out: color(environment.stdout_is_terminal),
        color_err: color(environment.stderr_is_terminal),
        plain: global.plain,
        unicode: environment.is_utf8(),
        quiet: global.quiet,
        redraw: environment.stderr_is_terminal && !dumb && !global.plain && environment.variable("CI").is_none(),
    };
    Terminal::of_this_process(manners, Texts::new(environment.language(flag)))
}

/// Logs go to stderr: warnings, more with `-v`, all with `-vv`, or as `RUST_LOG` says.
pub fn start_log(verbose: u8, environment: &Environment) {
    use tracing_subscriber::filter::Targets;
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;
    let level = match verbose {
        // The client library calls every refused connection an error; what fails is told by the command itself.
        0 => "error,kube_client=off",
        1 => "info,hyper=warn,h2=warn,tower=warn,kube_client=off",
        _ => "debug,hyper=info,h2=info",
    };
    // By module and level alone: a filter that also looks into spans needs regular expressions, and their memory.
    let filter: Targets =
        environment.variable("RUST_LOG").and_then(|text| text.parse().ok()).or_else(|| level.parse().ok()).unwrap_or_default();
    let to_stderr = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    // A test may have set a subscriber already.
    let _ = tracing_subscriber::registry().with(to_stderr).with(filter).try_init();
}
