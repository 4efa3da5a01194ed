//! Splits an expression into tokens, by the lexer rules of cel-go's grammar (CEL.g4).

use super::source::{Issue, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscapedIdent,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) span: Span,
}

/// All tokens, with [`Token::End`] last, and the places that are no token.
pub(crate) fn tokens(text: &[char]) -> (Vec<Lexeme>, Vec<Issue>) {
    let mut lexer = Lexer { text, at: 0 };
    let mut lexemes = Vec::new();
    let mut issues = Vec::new();
    while lexer.skip_hidden() {
        let start = lexer.at;
        match lexer.next() {
            Some(token) => lexemes.push(Lexeme { token, span: Span { start: start as u32, end: lexer.at as u32 } }),
            None => {
                // The generated lexer reports what it read up to the character that fits no rule, and goes on behind it.
                let end = (start + lexer.failed(start).max(1)).min(text.len());
                let bad: String = text[start..end].iter().collect();
                issues.push(Issue {
                    offset: Some(start as u32),
                    message: format!("Syntax error: token recognition error at: '{}'", escaped(&bad)),
                });
                lexer.at = end;
            }
        }
    }
    let end = text.len() as u32;
    lexemes.push(Lexeme { token: Token::End, span: Span { start: end, end } });
    (lexemes, issues)
}

fn escaped(text: &str) -> String {
    text.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r")
}

struct Lexer<'t> {
    text: &'t [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    /// Skips white space and comments; false at the end.
    fn skip_hidden(&mut self) -> bool {
        loop {
            match self.peek(0) {
                None => return false,
                Some('\t' | ' ' | '\r' | '\n' | '\u{c}') => self.at += 1,
                Some('/') if self.peek(1) == Some('/') => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                Some(_) => return true,
            }
        }
    }

    fn next(&mut self) -> Option<Token> {
        let first = self.peek(0)?;
        if let Some(token) = self.string() {
            return Some(token);
        }
        if first.is_ascii_digit() || (first == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return Some(self.number());
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return Some(self.word());
        }
        if first == '`' {
            return self.escaped_ident();
        }
        const OPERATORS: &[(&str, Token)] = &[
            ("==", Token::Equals),
            ("!=", Token::NotEquals),
            ("<=", Token::LessEquals),
            (">=", Token::GreaterEquals),
            ("&&", Token::And),
            ("||", Token::Or),
            ("<", Token::Less),
            (">", Token::Greater),
            ("[", Token::LeftBracket),
            ("]", Token::RightBracket),
            ("{", Token::LeftBrace),
            ("}", Token::RightBrace),
            ("(", Token::LeftParen),
            (")", Token::RightParen),
            (".", Token::Dot),
            (",", Token::Comma),
            ("-", Token::Minus),
            ("!", Token::Not),
            ("?", Token::Question),
            (":", Token::Colon),
            ("+", Token::Plus),
            ("*", Token::Star),
            ("/", Token::Slash),
            ("%", Token::Percent),
        ];
        let (text, token) = OPERATORS.iter().find(|(text, _)| self.starts_with(text))?;
        self.at += text.len();
        Some(*token)
    }

    fn word(&mut self) -> Token {
        let start = self.at;
        while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        let word: String = self.text[start..self.at].iter().collect();
        match word.as_str() {
            "in" => Token::In,
            "true" => Token::True,
            "false" => Token::False,
            "null" => Token::Null,
            _ => Token::Ident,
        }
    }

    fn escaped_ident(&mut self) -> Option<Token> {
        let body = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        let length = self.text[self.at + 1..].iter().take_while(|c| body(c)).count();
        if length == 0 || self.peek(length + 1) != Some('`') {
            return None;
        }
        self.at += length + 2;
        Some(Token::EscapedIdent)
    }

    fn digits(&self, ahead: usize) -> usize {
        self.text[self.at + ahead..].iter().take_while(|c| c.is_ascii_digit()).count()
    }

    fn number(&mut self) -> Token {
        if self.starts_with("0x") {
            let hex = self.text[self.at + 2..].iter().take_while(|c| c.is_ascii_hexdigit()).count();
            if hex > 0 {
                self.at += 2 + hex;
                return self.unsigned_suffix();
            }
        }
        let mut length = self.digits(0);
        let mut float = false;
        if self.peek(length) == Some('.') {
            let fraction = self.digits(length + 1);
            if fraction > 0 {
                length += 1 + fraction;
                float = true;
            }
        }
        if matches!(self.peek(length), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(length + 1), Some('+' | '-')));
            let exponent = self.digits((length + 1 + sign).min(self.text.len() - self.at));
            if exponent > 0 {
                length += 1 + sign + exponent;
                float = true;
            }
        }
        self.at += length;
        if float { Token::Float } else { self.unsigned_suffix() }
    }

    fn unsigned_suffix(&mut self) -> Token {
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return Token::Uint;
        }
        Token::Int
    }

    /// A string or bytes literal, if one starts here and ends somewhere.
    fn string(&mut self) -> Option<Token> {
        let bytes = matches!(self.peek(0), Some('b' | 'B'));
        let raw = matches!(self.peek(usize::from(bytes)), Some('r' | 'R'));
        let prefix = usize::from(bytes) + usize::from(raw);
        let quote = self.peek(prefix).filter(|c| matches!(c, '"' | '\''))?;
        let body = self.at + prefix;
        let triple = [quote; 3];
        let is_triple = |at: usize| self.text.get(at..at + 3) == Some(&triple[..]);
        let end = if is_triple(body) { self.long_string(body + 3, raw, &is_triple) } else { None };
        // `""` followed by a quote is the start of a long string or, if that has no end, an empty string.
        self.at = end.or_else(|| self.short_string(body + 1, raw, quote))?;
        Some(if bytes { Token::Bytes } else { Token::String })
    }

    fn long_string(&self, mut at: usize, raw: bool, closes: &dyn Fn(usize) -> bool) -> Option<usize> {
        loop {
            if closes(at) {
                return Some(at + 3);
            }
            match self.text.get(at)? {
                '\\' if !raw => at += escape_length(&self.text[at..])?,
                _ => at += 1,
            }
        }
    }

    fn short_string(&self, mut at: usize, raw: bool, quote: char) -> Option<usize> {
        loop {
            match self.text.get(at)? {
                '\n' | '\r' => return None,
                c if *c == quote => return Some(at + 1),
                '\\' if !raw => at += escape_length(&self.text[at..])?,
                _ => at += 1,
            }
        }
    }

    /// How many characters the generated lexer consumes at a place that is no token.
    fn failed(&self, start: usize) -> usize {
        let rest = &self.text[start..];
        let prefix = rest.iter().take(2).take_while(|c| matches!(c, 'b' | 'B' | 'r' | 'R')).count();
        match rest.get(prefix).copied() {
            Some(quote @ ('"' | '\'')) => {
                let raw = rest[..prefix].iter().any(|c| matches!(c, 'r' | 'R'));
                let long = rest.get(prefix..prefix + 3) == Some(&[quote; 3][..]);
                let mut at = prefix + if long { 3 } else { 1 };
                while let Some(c) = rest.get(at) {
                    match c {
                        '\n' | '\r' if !long => return at + 1,
                        '\\' if !raw => match escape_length(&rest[at..]) {
                            Some(length) => at += length,
                            None => return at + 2,
                        },
                        _ => at += 1,
                    }
                }
                at
            }
            _ => match rest.first() {
                Some('=' | '&' | '|') => 2,
                Some('`') => {
                    1 + rest[1..].iter().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ')).count() + 1
                }
                _ => 1,
            },
        }
    }
}

/// Length of the escape sequence at the start of `text`.
fn escape_length(text: &[char]) -> Option<usize> {
    let hex = |count: usize| {
        let digits = text.get(2..2 + count)?;
        digits.iter().all(char::is_ascii_hexdigit).then_some(2 + count)
    };
    match text.get(1)? {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Some(2),
        'x' | 'X' => hex(2),
        'u' => hex(4),
        'U' => hex(8),
        '0'..='3' => text.get(2..4)?.iter().all(|c| ('0'..='7').contains(c)).then_some(4),
        _ => None,
    }
}
