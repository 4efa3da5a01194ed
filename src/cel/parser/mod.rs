//! A recursive-descent parser for the grammar of cel-go (CEL.g4), with its limits and its places of errors.
//!
//! Ids are given out in the order in which cel-go visits its parse tree. Two limits of cel-go bound the recursion: no
//! grammar rule may be active more than 250 times, and no chain of operators, selections and calls may be deeper
//! than 250. A syntax error ends parsing; cel-go would go on and find more, but the first one is the same.

mod operators;
mod primary;

use super::ast::{Expr, Id, Ids, Kind};
use super::lexer::{Lexeme, Token, tokens};
use super::macros;
use super::source::{Issue, Source, Span};

const MAX_DEPTH: u32 = 250;
/// Macros copy parts of the tree; beyond this many nodes an expression is refused, where cel-go would go on.
pub(crate) const MAX_NODES: usize = 200_000;

/// Words that are no identifiers, though they are field names.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// A parsed expression.
pub(crate) struct Parsed {
    pub(crate) expr: Expr,
    pub(crate) ids: Ids,
}

/// Parses and expands macros.
pub(crate) fn parse(source: &Source) -> Result<Parsed, Vec<Issue>> {
    let (lexemes, issues) = tokens(source.characters());
    let mut parser = Parser { source, lexemes, at: 0, ids: Ids::new(), issues, depths: [0; RULES], partial: None };
    match parser.start() {
        Ok(expr) if parser.issues.is_empty() => Ok(Parsed { expr, ids: parser.ids }),
        _ => Err(parser.issues),
    }
}

/// The parser cannot go on; the reason is among the issues.
pub(crate) struct Stop;

type Result<T, E = Stop> = std::result::Result<T, E>;

/// An expression and how deep cel-go's visitor has to go for it.
type Deep = (Expr, u32);

/// What was read of the arguments of a call.
struct Arguments {
    args: Vec<Expr>,
    depth: u32,
    complete: bool,
}

#[derive(Clone, Copy)]
enum Rule {
    Expr,
    Relation,
    Calc,
    Member,
}

const RULES: usize = 4;

pub(crate) struct Parser<'s> {
    source: &'s Source,
    lexemes: Vec<Lexeme>,
    at: usize,
    pub(crate) ids: Ids,
    pub(crate) issues: Vec<Issue>,
    depths: [u32; RULES],
    /// What was read of an argument when its syntax went wrong.
    partial: Option<Expr>,
}

impl Parser<'_> {
    fn start(&mut self) -> Result<Expr> {
        let (expr, depth) = self.expr()?;
        if self.token() != Token::End {
            return Err(self.unexpected());
        }
        if depth > MAX_DEPTH {
            return Err(self.nowhere("max recursion depth exceeded".to_owned()));
        }
        Ok(expr)
    }

    pub(super) fn peek(&self, ahead: usize) -> Lexeme {
        let last = self.lexemes.len() - 1;
        self.lexemes[(self.at + ahead).min(last)]
    }

    pub(super) fn token(&self) -> Token {
        self.peek(0).token
    }

    pub(super) fn advance(&mut self) -> Lexeme {
        let lexeme = self.peek(0);
        self.at += 1;
        lexeme
    }

    pub(super) fn accept(&mut self, token: Token) -> Option<Lexeme> {
        (self.token() == token).then(|| self.advance())
    }

    /// Takes a token that has to come. As in cel-go one surplus token before it is skipped and a missing closing bracket
    /// is added, so that what follows is still looked at; the error is reported either way.
    pub(super) fn expect(&mut self, token: Token) -> Result<Lexeme> {
        if let Some(lexeme) = self.accept(token) {
            return Ok(lexeme);
        }
        let stop = self.unexpected();
        if self.peek(1).token == token {
            self.at += 1;
            return Ok(self.advance());
        }
        let closes = matches!(token, Token::RightParen | Token::RightBracket | Token::RightBrace);
        let follows = matches!(self.token(), Token::End | Token::RightParen | Token::RightBracket | Token::RightBrace | Token::Comma);
        if closes && follows { Ok(self.peek(0)) } else { Err(stop) }
    }

    pub(super) fn text(&self, lexeme: Lexeme) -> String {
        self.source.text(lexeme.span)
    }

    pub(super) fn unexpected(&mut self) -> Stop {
        let lexeme = self.peek(0);
        let found = if lexeme.token == Token::End { "<EOF>".to_owned() } else { self.text(lexeme) };
        self.issues.push(Issue { offset: Some(lexeme.span.start), message: format!("Syntax error: mismatched input '{found}'") });
        Stop
    }

    /// Keeps what was read before the syntax went wrong.
    pub(super) fn stopped(&mut self, partial: Expr) -> Stop {
        self.partial = Some(partial);
        Stop
    }

    pub(super) fn nowhere(&mut self, message: String) -> Stop {
        self.issues.push(Issue { offset: None, message });
        Stop
    }

    /// Reports an error at a node and gives a stand-in for it.
    pub(crate) fn report(&mut self, span: Option<Span>, message: impl Into<String>) -> Expr {
        let id = self.ids.next(span);
        self.issues.push(Issue { offset: span.map(|span| span.start), message: message.into() });
        Expr { id, kind: Kind::Unspecified }
    }

    fn enter(&mut self, rule: Rule) -> Result<()> {
        let depth = &mut self.depths[rule as usize];
        *depth += 1;
        if *depth > MAX_DEPTH {
            return Err(self.nowhere(format!("expression recursion limit exceeded: {MAX_DEPTH}")));
        }
        if self.ids.len() > MAX_NODES {
            return Err(self.nowhere("expression expands to too many nodes".to_owned()));
        }
        Ok(())
    }

    fn leave(&mut self, rule: Rule) {
        self.depths[rule as usize] -= 1;
    }

    /// Notes that a node reaches from `start` to the last token read.
    pub(super) fn extent(&mut self, expr: &Expr, start: u32) {
        let end = self.at.checked_sub(1).and_then(|at| self.lexemes.get(at)).map_or(start, |lexeme| lexeme.span.end);
        self.ids.set_extent(expr.id, Span { start, end });
    }

    pub(crate) fn node(&mut self, span: Span, kind: Kind) -> Expr {
        Expr { id: self.ids.next(Some(span)), kind }
    }

    pub(super) fn call(&mut self, id: Id, function: &str, args: Vec<Expr>) -> Expr {
        macros::call(self, id, function, None, args)
    }
}
