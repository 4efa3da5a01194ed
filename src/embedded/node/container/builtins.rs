//! The commands that a simulated container knows.

use std::sync::Arc;
use std::time::Duration;

use super::shell::{Dialect, Flow, Io, NOT_FOUND, Ran, Shell, Variable};
use super::syntax::Word;
use super::{filters, parse, printf, test};

impl Shell {
    /// Assignments, a command and its arguments.
    pub(super) async fn simple(&mut self, assignments: &[(String, Word)], words: &[Word], io: &Io) -> Ran {
        let mut fields = Vec::new();
        for word in words {
            fields.extend(self.expand(word, io).await?);
        }
        let mut values = Vec::new();
        // The status of a substitution in an assignment is the assignment's.
        let before = self.status;
        self.status = 0;
        for (name, word) in assignments {
            values.push((name.clone(), self.expand_joined(word, io).await?));
        }
        let substituted = std::mem::replace(&mut self.status, before);
        let Some((name, arguments)) = fields.split_first() else {
            for (name, value) in values {
                self.assign(&name, value);
            }
            return Ok(substituted);
        };
        // `X=1 command`: exported for that command only.
        let mut outer = Vec::new();
        for (name, value) in values {
            outer.push((name.clone(), self.variables.get(&name).cloned()));
            self.variables.insert(name, Variable { value: Some(value), exported: true });
        }
        let ran = self.execute(name, arguments, io).await;
        for (name, variable) in outer {
            match variable {
                Some(variable) => self.variables.insert(name, variable),
                None => self.variables.remove(&name),
            };
        }
        ran
    }

    /// Runs a command by its name.
    pub(super) async fn execute(&mut self, name: &str, arguments: &[String], io: &Io) -> Ran {
        if let Some(body) = self.functions.get(name).cloned() {
            return self.call(body, arguments.to_vec(), io).await;
        }
        let name = name
            .strip_prefix("/usr/local/bin/")
            .or_else(|| name.strip_prefix("/usr/bin/"))
            .or_else(|| name.strip_prefix("/bin/"))
            .unwrap_or(name);
        let first = arguments.first().map(String::as_str);
        let out = |shell: &Shell, text: &str| shell.world.print(&io.out, text);
        match name {
            ":" | "true" | "mkdir" | "touch" | "chmod" | "chown" | "sync" | "umask" | "ulimit" | "stty" => Ok(0),
            "false" => Ok(1),
            "exit" => Err(Flow::Exit(first.and_then(|n| n.parse::<i32>().ok()).map_or(self.status, |n| n & 255))),
            "return" => Err(Flow::Return(first.and_then(|n| n.parse::<i32>().ok()).map_or(self.status, |n| n & 255))),
            "break" => Err(Flow::Break(first.and_then(|n| n.parse().ok()).unwrap_or(1).max(1))),
            "continue" => Err(Flow::Continue(first.and_then(|n| n.parse().ok()).unwrap_or(1).max(1))),
            "echo" => {
                out(self, &printf::echo(arguments, self.dialect == Dialect::Posix));
                Ok(0)
            }
            "printf" => match arguments.split_first() {
                Some((format, rest)) => {
                    out(self, &printf::printf(format, rest));
                    Ok(0)
                }
                None => Ok(2),
            },
            "export" | "declare" | "typeset" | "readonly" | "local" => Ok(self.export(name, arguments, io)),
            "unset" => {
                for name in arguments {
                    self.variables.remove(name);
                }
                Ok(0)
            }
            "set" => Ok(self.set(arguments)),
            "shift" => {
                let count = first.and_then(|n| n.parse().ok()).unwrap_or(1usize).min(self.arguments.len());
                self.arguments.drain(..count);
                Ok(0)
            }
            "env" => self.env(arguments, io).await,
            "printenv" => Ok(self.printenv(arguments, io)),
            "trap" => Ok(self.trap(arguments)),
            "wait" => Ok(self.wait(first.and_then(|n| n.parse().ok())).await),
            "kill" => Ok(self.kill_command(arguments, io)),
            "sleep" => self.sleep_command(arguments, io).await,
            "exec" => match arguments.split_first() {
                Some((name, rest)) => {
                    // The new program replaces the shell and its traps.
                    self.traps.clear();
                    let status = match Box::pin(self.execute(name, rest, io)).await {
                        Ok(status) | Err(Flow::Exit(status) | Flow::Return(status)) => status,
                        Err(_) => 0,
                    };
                    Err(Flow::Exit(status))
                }
                None => Ok(0),
            },
            "eval" => {
                self.nested(io)?;
                let text = arguments.join(" ");
                self.run_text(&text, io).await
            }
            "sh" | "bash" | "dash" | "ash" => self.shell_command(name, arguments, io).await,
            "timeout" | "nohup" | "time" | "command" | "nice" | "setsid" => self.wrapper(name, arguments, io).await,
            "read" => Ok(1),
            "cd" => {
                let to = first.map_or_else(|| self.value("HOME").unwrap_or_else(|| "/".to_owned()), str::to_owned);
                self.assign("PWD", to);
                Ok(0)
            }
            "pwd" => {
                let pwd = self.value("PWD").unwrap_or_default();
                out(self, &format!("{pwd}\n"));
                Ok(0)
            }
            "hostname" => {
                out(self, &format!("{}\n", self.world.hostname));
                Ok(0)
            }
            "whoami" => {
                out(self, "root\n");
                Ok(0)
            }
            "id" => {
                out(self, if first == Some("-u") { "0\n" } else { "uid=0(root) gid=0(root) groups=0(root)\n" });
                Ok(0)
            }
            "nproc" => {
                out(self, "2\n");
                Ok(0)
            }
            "uname" => {
                let text = match first {
                    Some("-n") => self.world.hostname.clone(),
                    Some("-a") => format!("Linux {} dralab simulated", self.world.hostname),
                    Some("-m") => "x86_64".to_owned(),
                    _ => "Linux".to_owned(),
                };
                out(self, &format!("{text}\n"));
                Ok(0)
            }
            "date" => {
                out(self, &format!("{}\n", printf::date(self.world.clock.now(), arguments)));
                Ok(0)
            }
            "test" => Ok(test::test(&self.world, arguments)),
            "[" | "[[" => match arguments.split_last() {
                Some((end, inner)) if end == "]" || end == "]]" => Ok(test::test(&self.world, inner)),
                _ => {
                    self.complain(io, "[: missing ]");
                    Ok(2)
                }
            },
            "nvidia-smi" | "rocm-smi" | "xpu-smi" | "npu-smi" => {
                out(
                    self,
                    &format!(
                        "{name}: this container is simulated by dralab, there is no GPU behind it; `env` shows what the driver gave it\n"
                    ),
                );
                Ok(0)
            }
            "rm" => {
                for name in arguments.iter().filter(|a| !a.starts_with('-')) {
                    self.world.remove(name);
                }
                Ok(0)
            }
            "tail" if arguments.iter().any(|a| a == "-f" || a == "-F") => {
                self.sleep(None).await;
                Ok(0)
            }
            _ => match filters::run(&self.world, name, arguments, io) {
                Some(status) => Ok(status),
                None => {
                    let text = match self.dialect {
                        Dialect::Bash => format!("{name}: command not found"),
                        Dialect::Posix => format!("{name}: not found"),
                    };
                    self.complain(io, &text);
                    self.world.explain(name);
                    Ok(NOT_FOUND)
                }
            },
        }
    }

    fn trap(&mut self, arguments: &[String]) -> i32 {
        let Some((action, names)) = arguments.split_first() else { return 0 };
        for name in names {
            let signal = match name.trim_start_matches("SIG") {
                "TERM" | "15" => "TERM",
                "EXIT" | "0" => "EXIT",
                // The node agent sends no others.
                _ => continue,
            };
            if action == "-" {
                self.traps.remove(signal);
            } else {
                self.traps.insert(signal, action.clone());
            }
        }
        0
    }

    fn kill_command(&mut self, arguments: &[String], io: &Io) -> i32 {
        let mut status = 0;
        for target in arguments.iter().filter(|a| !a.starts_with('-') && a.as_str() != "TERM") {
            match target.trim_start_matches('%').parse::<u32>() {
                Ok(0 | 1) => self.world.signals.terminate(),
                Ok(number) if self.kill(number) => {}
                _ => {
                    self.complain(io, &format!("kill: ({target}) - No such process"));
                    status = 1;
                }
            }
        }
        status
    }

    async fn sleep_command(&mut self, arguments: &[String], io: &Io) -> Ran {
        let mut total = Duration::ZERO;
        for argument in arguments {
            match duration(argument) {
                Some(Some(part)) => total = total.saturating_add(part),
                Some(None) => {
                    self.sleep(None).await;
                }
                None => {
                    self.world.print(&io.err, &format!("sleep: invalid time interval '{argument}'\n"));
                    return Ok(1);
                }
            }
        }
        if arguments.is_empty() {
            self.world.print(&io.err, "sleep: missing operand\n");
            return Ok(1);
        }
        self.sleep(Some(total)).await;
        Ok(0)
    }

    async fn shell_command(&mut self, name: &str, arguments: &[String], io: &Io) -> Ran {
        self.nested(io)?;
        let mut rest = arguments;
        let mut exit_on_error = false;
        while let Some((argument, more)) = rest.split_first() {
            if !argument.starts_with('-') {
                break;
            }
            exit_on_error |= argument.contains('e');
            if argument.contains('c') {
                let Some((text, arguments)) = more.split_first() else { return Ok(2) };
                let mut shell = self.subshell();
                shell.dialect = if name == "bash" { Dialect::Bash } else { Dialect::Posix };
                shell.variables.retain(|_, v| v.exported);
                shell.functions.clear();
                shell.exit_on_error = exit_on_error;
                shell.arguments = arguments.get(1..).unwrap_or_default().to_vec();
                let status = match parse::parse(text) {
                    Ok(script) => shell.process(&script, io).await,
                    Err(error) => {
                        shell.complain(io, &error.to_string());
                        2
                    }
                };
                return Ok(status);
            }
            rest = more;
        }
        // A script file or an interactive shell: nothing to read, so it ends at once.
        Ok(0)
    }

    async fn wrapper(&mut self, name: &str, arguments: &[String], io: &Io) -> Ran {
        let mut rest: Vec<String> = arguments.iter().skip_while(|a| a.starts_with('-')).cloned().collect();
        let mut limit = None;
        if name == "timeout" && !rest.is_empty() {
            limit = duration(&rest.remove(0)).flatten();
        }
        let Some((command, arguments)) = rest.split_first() else { return Ok(0) };
        let clock = Arc::clone(&self.world.clock);
        let run = Box::pin(self.execute(command, arguments, io));
        match limit {
            None => run.await,
            Some(limit) => tokio::select! {
                ran = run => ran,
                () = clock.sleep(limit) => Ok(124),
            },
        }
    }
}

/// `10`, `0.5`, `1m`, `infinity`: `Some(None)` is without end, `None` is not a time.
fn duration(text: &str) -> Option<Option<Duration>> {
    if text == "infinity" || text == "inf" {
        return Some(None);
    }
    let (number, unit) = match text.char_indices().next_back()? {
        (at, 's') => (&text[..at], 1.0),
        (at, 'm') => (&text[..at], 60.0),
        (at, 'h') => (&text[..at], 3600.0),
        (at, 'd') => (&text[..at], 86400.0),
        _ => (text, 1.0),
    };
    let seconds = number.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)? * unit;
    // A hundred years is as good as for ever.
    Some(Duration::try_from_secs_f64(seconds.min(3.2e9)).ok())
}
