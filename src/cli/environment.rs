//! The environment of the process, read once: variables, folders, terminals. Nothing else reads it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use crate::cluster::engine::EngineEnvironment;
use crate::ui::text::Language;

/// What the process was started with.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    /// The current directory, where it could be read.
    pub current_dir: Option<PathBuf>,
    /// Standard input is a terminal.
    pub stdin_is_terminal: bool,
    /// Standard output is a terminal.
    pub stdout_is_terminal: bool,
    /// Standard error is a terminal.
    pub stderr_is_terminal: bool,
}

impl Environment {
    /// Reads the environment of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Environment {
            variables: std::env::vars_os().collect(),
            current_dir: std::env::current_dir().ok(),
            stdin_is_terminal: std::io::stdin().is_terminal(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// A variable as text; unset, empty and undecodable are all `None`.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(&OsString::from(name)).and_then(|v| v.to_str()).filter(|v| !v.is_empty())
    }

    /// A variable as a path; unset and empty are `None`.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(&OsString::from(name)).filter(|v| !v.is_empty()).map(PathBuf::from)
    }

    /// What the choice of a container engine depends on.
    #[must_use]
    pub fn engine(&self) -> EngineEnvironment {
        let text = |name: &str| self.variable(name).map(str::to_owned);
        EngineEnvironment {
            docker_host: text("DOCKER_HOST"),
            docker_context: text("DOCKER_CONTEXT"),
            docker_config: self.path("DOCKER_CONFIG"),
            home: self.path("HOME"),
            runtime_dir: self.path("XDG_RUNTIME_DIR"),
            kind_provider: text("KIND_EXPERIMENTAL_PROVIDER"),
            root: None,
        }
    }

    /// The language: flag, then `DRALAB_LANG`, then the locale (`LC_ALL`, `LC_MESSAGES`, `LANG`), then English.
    #[must_use]
    pub fn language(&self, flag: Option<Language>) -> Language {
        flag.or_else(|| self.variable("DRALAB_LANG").and_then(Language::of_locale)).unwrap_or_else(|| {
            let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].iter().find_map(|name| self.variable(name));
            locale.and_then(Language::of_locale).unwrap_or(Language::English)
        })
    }

    /// Prompts make sense: both ends are terminals and this is not a CI machine.
    #[must_use]
    pub fn is_interactive(&self) -> bool {
        self.stdin_is_terminal && self.stderr_is_terminal && self.variable("CI").is_none()
    }

    /// The locale can show characters beyond ASCII. An unset locale is taken as UTF-8, as macOS terminals leave it unset.
    #[must_use]
    pub fn is_utf8(&self) -> bool {
        match ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| self.variable(name)) {
            Some(locale) => {
                let locale = locale.to_ascii_lowercase();
                locale.contains("utf-8") || locale.contains("utf8") || !(locale == "c" || locale == "posix" || locale.contains('.'))
            }
            None => true,
        }
    }
}
