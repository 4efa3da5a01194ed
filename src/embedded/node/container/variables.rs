//! The commands around variables: `export`, `set`, `env`, `printenv`.

use super::parse;
use super::shell::{Dialect, Io, Ran, Shell, Variable};

impl Shell {
    /// The environment that a command gets.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        self.variables.iter().filter(|(_, v)| v.exported).filter_map(|(name, v)| Some((name.clone(), v.value.clone()?))).collect()
    }

    pub(super) fn export(&mut self, command: &str, arguments: &[String], io: &Io) -> i32 {
        let flags: Vec<&String> = arguments.iter().take_while(|a| a.starts_with('-')).collect();
        let exports = command == "export" || flags.iter().any(|f| f.contains('x'));
        if arguments.len() == flags.len() {
            let mut text = String::new();
            for (name, variable) in self.variables.iter().filter(|(_, v)| v.exported || !exports) {
                text.push_str(&declared(self.dialect, name, variable));
            }
            self.world.print(&io.out, &text);
            return 0;
        }
        for argument in &arguments[flags.len()..] {
            let (name, value) = argument.split_once('=').map_or((argument.as_str(), None), |(n, v)| (n, Some(v.to_owned())));
            if !parse::is_name(name) {
                self.complain(io, &format!("{command}: {argument}: bad variable name"));
                return 2;
            }
            let variable = self.variables.entry(name.to_owned()).or_insert(Variable { value: None, exported: false });
            variable.exported |= exports;
            if value.is_some() {
                variable.value = value;
            }
        }
        0
    }

    pub(super) fn set(&mut self, arguments: &[String]) -> i32 {
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--" => {
                    self.arguments = rest.cloned().collect();
                    return 0;
                }
                "-o" | "+o" => {
                    if rest.next().is_some_and(|o| o == "errexit") {
                        self.exit_on_error = argument == "-o";
                    }
                }
                flags if flags.starts_with('-') => self.exit_on_error |= flags.contains('e'),
                flags if flags.starts_with('+') => self.exit_on_error &= !flags.contains('e'),
                _ => {
                    self.arguments = arguments.to_vec();
                    return 0;
                }
            }
        }
        0
    }

    pub(super) async fn env(&mut self, arguments: &[String], io: &Io) -> Ran {
        let mut shell = self.subshell();
        let mut rest = arguments;
        while let Some((argument, more)) = rest.split_first() {
            if argument == "-i" {
                shell.variables.clear();
            } else if argument == "-u" {
                let Some((name, more)) = more.split_first() else { return Ok(125) };
                shell.variables.remove(name);
                rest = more;
                continue;
            } else if let Some((name, value)) = argument.split_once('=') {
                shell.variables.insert(name.to_owned(), Variable { value: Some(value.to_owned()), exported: true });
            } else {
                break;
            }
            rest = more;
        }
        match rest.split_first() {
            Some((name, arguments)) => Box::pin(shell.execute(name, arguments, io)).await,
            None => {
                let text: String = shell.environment().iter().map(|(name, value)| format!("{name}={value}\n")).collect();
                self.world.print(&io.out, &text);
                Ok(0)
            }
        }
    }

    pub(super) fn printenv(&self, arguments: &[String], io: &Io) -> i32 {
        let environment = self.environment();
        if arguments.is_empty() {
            let text: String = environment.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
            self.world.print(&io.out, &text);
            return 0;
        }
        let mut status = 0;
        for name in arguments {
            match environment.iter().find(|(n, _)| n == name) {
                Some((_, value)) => self.world.print(&io.out, &format!("{value}\n")),
                None => status = 1,
            }
        }
        status
    }
}

/// A line of `export` or `declare -x`.
fn declared(dialect: Dialect, name: &str, variable: &Variable) -> String {
    match (dialect, &variable.value) {
        (Dialect::Bash, None) => format!("declare -x {name}\n"),
        (Dialect::Bash, Some(value)) => {
            let escaped: String = value.chars().flat_map(|c| if "\"\\$`".contains(c) { vec!['\\', c] } else { vec![c] }).collect();
            format!("declare -x {name}=\"{escaped}\"\n")
        }
        (Dialect::Posix, None) => format!("export {name}\n"),
        (Dialect::Posix, Some(value)) => format!("export {name}='{}'\n", value.replace('\'', "'\"'\"'")),
    }
}
