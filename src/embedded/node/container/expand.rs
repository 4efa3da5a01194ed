//! Expansion of words: variables, command substitution, arithmetic, fields.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;

use super::shell::{Flow, Io, Shell, Sink};
use super::syntax::{Operator, Piece, Script, Word};

/// How long a word may become.
const WORD: usize = 1 << 20;

impl Shell {
    /// A word as fields: unquoted expansions are split at blanks.
    pub(super) fn expand<'a>(&'a mut self, word: &'a Word, io: &'a Io) -> BoxFuture<'a, Result<Vec<String>, Flow>> {
        Box::pin(async move {
            let mut fields: Vec<String> = Vec::new();
            let mut open: Option<String> = None;
            for piece in &word.pieces {
                let so_far: usize = fields.iter().chain(&open).map(|f| f.len() + 1).sum();
                let all_arguments = matches!(piece, Piece::Variable { name, quoted: true, default: None } if name == "@");
                if all_arguments {
                    self.bounded(so_far + self.arguments.iter().map(|a| a.len() + 1).sum::<usize>(), io)?;
                    for (index, argument) in self.arguments.clone().into_iter().enumerate() {
                        if index > 0 {
                            fields.extend(open.take());
                        }
                        open.get_or_insert_default().push_str(&argument);
                    }
                    continue;
                }
                let (text, quoted, literal) = self.piece(piece, io).await?;
                self.bounded(so_far + text.len(), io)?;
                if quoted || literal {
                    open.get_or_insert_default().push_str(&text);
                    continue;
                }
                for (index, part) in text.split([' ', '\t', '\n']).enumerate() {
                    if index > 0 {
                        fields.extend(open.take());
                    }
                    if !part.is_empty() {
                        open.get_or_insert_default().push_str(part);
                    }
                }
            }
            fields.extend(open);
            Ok(fields)
        })
    }

    /// A word as one text, for assignments and redirections.
    pub(super) fn expand_joined<'a>(&'a mut self, word: &'a Word, io: &'a Io) -> BoxFuture<'a, Result<String, Flow>> {
        Box::pin(async move {
            let mut text = String::new();
            for piece in &word.pieces {
                text.push_str(&self.piece(piece, io).await?.0);
                self.bounded(text.len(), io)?;
            }
            Ok(text)
        })
    }

    /// `Exit(2)` where a word becomes longer than the lab's process should hold for a container.
    fn bounded(&self, length: usize, io: &Io) -> Result<(), Flow> {
        if length <= WORD {
            return Ok(());
        }
        self.complain(io, "out of memory: a word of a simulated container has at most 1 MiB");
        Err(Flow::Exit(2))
    }

    /// The text of a piece, whether it is quoted, and whether it stands in the script as it is.
    async fn piece(&mut self, piece: &Piece, io: &Io) -> Result<(String, bool, bool), Flow> {
        Ok(match piece {
            Piece::Text { text, quoted } => {
                let home = !quoted && (text == "~" || text.starts_with("~/"));
                let text = if home { text.replacen('~', &self.value("HOME").unwrap_or_default(), 1) } else { text.clone() };
                (text, *quoted, true)
            }
            Piece::Length { name } => (self.value(name).unwrap_or_default().chars().count().to_string(), false, true),
            Piece::Variable { name, default: None, quoted } => (self.value(name).unwrap_or_default(), *quoted, false),
            Piece::Variable { name, default: Some((how, word)), quoted } => {
                let value = self.value(name).filter(|value| !(how.colon && value.is_empty()));
                let text = match (how.operator, value) {
                    (Operator::Alternative, Some(_)) | (Operator::Use, None) => self.expand_joined(word, io).await?,
                    (Operator::Alternative, None) => String::new(),
                    (Operator::Use | Operator::Assign | Operator::Fail, Some(value)) => value,
                    (Operator::Assign, None) => {
                        let text = self.expand_joined(word, io).await?;
                        self.assign(name, text.clone());
                        text
                    }
                    (Operator::Fail, None) => {
                        let text = self.expand_joined(word, io).await?;
                        let text = if text.is_empty() { "parameter not set".to_owned() } else { text };
                        self.complain(io, &format!("{name}: {text}"));
                        return Err(Flow::Exit(if self.name() == "bash" { 127 } else { 2 }));
                    }
                };
                (text, *quoted, false)
            }
            Piece::Command { script, quoted } => (self.substitute(script, io).await, *quoted, false),
            Piece::Arithmetic { expression } => match self.arithmetic(expression) {
                Some(value) => (value.to_string(), false, true),
                None => {
                    self.complain(io, &format!("arithmetic expression: expecting primary: \"{}\"", expression.trim()));
                    return Err(Flow::Exit(2));
                }
            },
        })
    }

    async fn substitute(&mut self, script: &Script, io: &Io) -> String {
        let buffer = Arc::new(Mutex::new(String::new()));
        let inner = Io { stdin: io.stdin.clone(), out: Sink::Buffer(Arc::clone(&buffer)), err: io.err.clone() };
        self.status = self.subshell().process(script, &inner).await;
        let text = std::mem::take(&mut *buffer.lock().unwrap_or_else(PoisonError::into_inner));
        text.trim_end_matches('\n').to_owned()
    }

    /// Integer arithmetic: `+ - * / %`, comparisons, brackets, names. `None` when it is not understood.
    fn arithmetic(&self, text: &str) -> Option<i64> {
        let chars: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        let mut sum = Sum { shell: self, chars: &chars, at: 0, depth: 0 };
        let value = sum.comparison()?;
        (sum.at == chars.len()).then_some(value)
    }
}

struct Sum<'a> {
    shell: &'a Shell,
    chars: &'a [char],
    at: usize,
    depth: u32,
}

impl Sum<'_> {
    fn take(&mut self, sign: &str) -> bool {
        let found = sign.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c));
        self.at += if found { sign.len() } else { 0 };
        found
    }

    fn comparison(&mut self) -> Option<i64> {
        let left = self.sum()?;
        for (sign, holds) in [
            ("==", (|a, b| a == b) as fn(i64, i64) -> bool),
            ("!=", |a, b| a != b),
            ("<=", |a, b| a <= b),
            (">=", |a, b| a >= b),
            ("<", |a, b| a < b),
            (">", |a, b| a > b),
        ] {
            if self.take(sign) {
                return Some(i64::from(holds(left, self.sum()?)));
            }
        }
        Some(left)
    }

    fn sum(&mut self) -> Option<i64> {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value = value.wrapping_add(self.product()?);
            } else if self.take("-") {
                value = value.wrapping_sub(self.product()?);
            } else {
                return Some(value);
            }
        }
    }

    fn product(&mut self) -> Option<i64> {
        let mut value = self.primary()?;
        loop {
            if self.take("*") {
                value = value.wrapping_mul(self.primary()?);
            } else if self.take("/") {
                value = value.checked_div(self.primary()?)?;
            } else if self.take("%") {
                value = value.checked_rem(self.primary()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn primary(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > 64 {
            return None;
        }
        let value = if self.take("-") {
            self.primary()?.checked_neg()?
        } else if self.take("(") {
            let value = self.comparison()?;
            if !self.take(")") {
                return None;
            }
            value
        } else {
            self.take("$");
            let word: String = self.chars.get(self.at..)?.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
            self.at += word.len();
            match word.parse() {
                Ok(number) => number,
                Err(_) if super::parse::is_name(&word) => self.shell.value(&word).map_or(Some(0), |v| v.trim().parse().ok())?,
                Err(_) => return None,
            }
        };
        self.depth -= 1;
        Some(value)
    }
}
