//! Reads words: quotes, variables, substitutions.

use super::parse::{Parsed, Parser, parse};
use super::syntax::{Default_, NotUnderstood, Operator, Piece, Word};

impl Parser {
    /// A word: everything up to an unquoted blank or operator.
    pub(super) fn word(&mut self) -> Parsed<Word> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        loop {
            match self.peek() {
                None | Some(' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>') => break,
                Some('\'') => {
                    self.at += 1;
                    flush(&mut pieces, &mut text, false);
                    pieces.push(Piece::Text { text: self.until('\'')?, quoted: true });
                }
                Some('"') => {
                    self.at += 1;
                    flush(&mut pieces, &mut text, false);
                    self.double_quoted(&mut pieces)?;
                }
                Some('\\') => {
                    self.at += 1;
                    flush(&mut pieces, &mut text, false);
                    match self.peek() {
                        Some('\n') => {}
                        Some(c) => pieces.push(Piece::Text { text: c.to_string(), quoted: true }),
                        None => pieces.push(Piece::Text { text: "\\".to_owned(), quoted: true }),
                    }
                    self.at += 1;
                }
                Some('$' | '`') => {
                    flush(&mut pieces, &mut text, false);
                    pieces.push(self.dollar(false)?);
                }
                Some(c) => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
        flush(&mut pieces, &mut text, false);
        if pieces.is_empty() {
            return match self.peek() {
                None => Err(NotUnderstood::Unfinished("a word")),
                Some(c) => Err(NotUnderstood::Unexpected(c.to_string())),
            };
        }
        Ok(Word { pieces })
    }

    fn until(&mut self, end: char) -> Parsed<String> {
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            if c == end {
                return Ok(text);
            }
            text.push(c);
        }
        Err(NotUnderstood::Unfinished("quotes"))
    }

    fn double_quoted(&mut self, pieces: &mut Vec<Piece>) -> Parsed<()> {
        let mut text = String::new();
        loop {
            match self.peek() {
                None => return Err(NotUnderstood::Unfinished("quotes")),
                Some('"') => {
                    self.at += 1;
                    // Also when empty: "" is a word.
                    pieces.push(Piece::Text { text, quoted: true });
                    return Ok(());
                }
                Some('\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(c @ ('$' | '`' | '"' | '\\')) => text.push(c),
                        Some('\n') => {}
                        Some(c) => text.extend(['\\', c]),
                        None => return Err(NotUnderstood::Unfinished("quotes")),
                    }
                    self.at += 1;
                }
                Some('$' | '`') => {
                    flush(pieces, &mut text, true);
                    pieces.push(self.dollar(true)?);
                }
                Some(c) => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    /// What `$` or a backquote begins.
    fn dollar(&mut self, quoted: bool) -> Parsed<Piece> {
        if self.take("`") {
            let script = parse(&self.until('`')?)?;
            return Ok(Piece::Command { script, quoted });
        }
        self.at += 1;
        if self.take("((") {
            let mut depth = 0usize;
            let mut expression = String::new();
            loop {
                match self.peek() {
                    None => return Err(NotUnderstood::Unfinished("arithmetic")),
                    Some(')') if depth == 0 => break,
                    Some(c) => {
                        depth = match c {
                            '(' => depth + 1,
                            ')' => depth - 1,
                            _ => depth,
                        };
                        expression.push(c);
                        self.at += 1;
                    }
                }
            }
            return if self.take("))") { Ok(Piece::Arithmetic { expression }) } else { Err(NotUnderstood::Unfinished("arithmetic")) };
        }
        if self.take("(") {
            let script = self.script(&[")"])?;
            self.close(")")?;
            return Ok(Piece::Command { script, quoted });
        }
        if self.take("{") {
            return self.braces(quoted);
        }
        match self.peek() {
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name: String = self.chars[self.at..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
                self.at += name.len();
                Ok(Piece::Variable { name, default: None, quoted })
            }
            Some(c) if c.is_ascii_digit() || "?$!#@*-".contains(c) => {
                self.at += 1;
                Ok(Piece::Variable { name: c.to_string(), default: None, quoted })
            }
            _ => Ok(Piece::Text { text: "$".to_owned(), quoted }),
        }
    }

    fn braces(&mut self, quoted: bool) -> Parsed<Piece> {
        let length = self.peek() == Some('#') && self.chars.get(self.at + 1) != Some(&'}');
        if length {
            self.at += 1;
        }
        let mut name: String = self.chars[self.at..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
        if name.is_empty() {
            name = self.peek().filter(|c| "?$!#@*".contains(*c)).map(String::from).unwrap_or_default();
        }
        self.at += name.len();
        if name.is_empty() {
            return Err(NotUnderstood::Unexpected("${".to_owned()));
        }
        if self.take("}") {
            return Ok(if length { Piece::Length { name } } else { Piece::Variable { name, default: None, quoted } });
        }
        let colon = self.take(":");
        let operator = match self.peek() {
            Some('-') => Operator::Use,
            Some('=') => Operator::Assign,
            Some('+') => Operator::Alternative,
            Some('?') => Operator::Fail,
            _ => return Err(NotUnderstood::Unexpected(format!("${{{name}…}}"))),
        };
        self.at += 1;
        let mut pieces = Vec::new();
        let mut text = String::new();
        loop {
            match self.peek() {
                None => return Err(NotUnderstood::Unfinished("${…}")),
                Some('}') => {
                    self.at += 1;
                    break;
                }
                Some('$' | '`') => {
                    flush(&mut pieces, &mut text, quoted);
                    pieces.push(self.dollar(quoted)?);
                }
                Some('"') => {
                    self.at += 1;
                    flush(&mut pieces, &mut text, quoted);
                    self.double_quoted(&mut pieces)?;
                }
                Some('\'') if !quoted => {
                    self.at += 1;
                    flush(&mut pieces, &mut text, quoted);
                    pieces.push(Piece::Text { text: self.until('\'')?, quoted: true });
                }
                Some(c) => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
        flush(&mut pieces, &mut text, quoted);
        Ok(Piece::Variable { name, default: Some((Default_ { colon, operator }, Word { pieces })), quoted })
    }
}

fn flush(pieces: &mut Vec<Piece>, text: &mut String, quoted: bool) {
    if !text.is_empty() {
        pieces.push(Piece::Text { text: std::mem::take(text), quoted });
    }
}
