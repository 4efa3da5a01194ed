//! A recursive-descent parser for the grammar of cel-go (CEL.g4), with its limits and its places of errors.
//!
//! Ids are given out in the order in which cel-go visits its parse tree. Two limits of cel-go bound the recursion: no
//! grammar rule may be active more than 250 times, and no chain of operators, selections and calls may be deeper
//! than 250. A syntax error ends parsing; cel-go would go on and find more, but the first one is the same.

use std::sync::Arc;

use super::ast::{Call, Element, Entry, Expr, Field, Id, Ids, Kind, Select, Struct};
use super::lexer::{Lexeme, Token, tokens};
use super::literal;
use super::macros;
use super::source::{Issue, Source, Span};
use super::value::Value;

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

    fn peek(&self, ahead: usize) -> Lexeme {
        let last = self.lexemes.len() - 1;
        self.lexemes[(self.at + ahead).min(last)]
    }

    fn token(&self) -> Token {
        self.peek(0).token
    }

    fn advance(&mut self) -> Lexeme {
        let lexeme = self.peek(0);
        self.at += 1;
        lexeme
    }

    fn accept(&mut self, token: Token) -> Option<Lexeme> {
        (self.token() == token).then(|| self.advance())
    }

    /// Takes a token that has to come. As in cel-go one surplus token before it is skipped and a missing closing bracket
    /// is added, so that what follows is still looked at; the error is reported either way.
    fn expect(&mut self, token: Token) -> Result<Lexeme> {
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

    fn text(&self, lexeme: Lexeme) -> String {
        self.source.text(lexeme.span)
    }

    fn unexpected(&mut self) -> Stop {
        let lexeme = self.peek(0);
        let found = if lexeme.token == Token::End { "<EOF>".to_owned() } else { self.text(lexeme) };
        self.issues.push(Issue { offset: Some(lexeme.span.start), message: format!("Syntax error: mismatched input '{found}'") });
        Stop
    }

    /// Keeps what was read before the syntax went wrong.
    fn stopped(&mut self, partial: Expr) -> Stop {
        self.partial = Some(partial);
        Stop
    }

    fn nowhere(&mut self, message: String) -> Stop {
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
    fn extent(&mut self, expr: &Expr, start: u32) {
        let end = self.at.checked_sub(1).and_then(|at| self.lexemes.get(at)).map_or(start, |lexeme| lexeme.span.end);
        self.ids.set_extent(expr.id, Span { start, end });
    }

    pub(crate) fn node(&mut self, span: Span, kind: Kind) -> Expr {
        Expr { id: self.ids.next(Some(span)), kind }
    }

    fn call(&mut self, id: Id, function: &str, args: Vec<Expr>) -> Expr {
        macros::call(self, id, function, None, args)
    }

    fn expr(&mut self) -> Result<Deep> {
        self.enter(Rule::Expr)?;
        let start = self.peek(0).span.start;
        let (condition, depth) = self.logic(Token::Or, "_||_")?;
        let Some(question) = self.accept(Token::Question) else {
            self.leave(Rule::Expr);
            return Ok((condition, depth));
        };
        let id = self.ids.next(Some(question.span));
        let (if_true, true_depth) = self.logic(Token::Or, "_||_")?;
        self.expect(Token::Colon)?;
        let (if_false, false_depth) = self.expr()?;
        self.leave(Rule::Expr);
        let expr = self.call(id, "_?_:_", vec![condition, if_true, if_false]);
        self.extent(&expr, start);
        Ok((expr, depth.max(true_depth).max(false_depth) + 1))
    }

    /// `a || b || …`, the terms of which are `a && b && …`; both become balanced trees.
    fn logic(&mut self, operator: Token, function: &str) -> Result<Deep> {
        let start = self.peek(0).span.start;
        let (first, mut depth) = self.logic_term(operator)?;
        if self.token() != operator {
            return Ok((first, depth));
        }
        let mut terms = vec![first];
        let mut operators = Vec::new();
        while let Some(lexeme) = self.accept(operator) {
            let (term, term_depth) = self.logic_term(operator)?;
            depth = depth.max(term_depth);
            terms.push(term);
            operators.push(self.ids.next(Some(lexeme.span)));
        }
        let mut terms: Vec<Option<Expr>> = terms.into_iter().map(Some).collect();
        let tree = balanced(function, &mut terms, &operators, 0, operators.len() - 1);
        self.extent(&tree, start);
        Ok((tree, depth))
    }

    fn logic_term(&mut self, operator: Token) -> Result<Deep> {
        if operator == Token::Or { self.logic(Token::And, "_&&_") } else { self.binary(0) }
    }

    /// Relations (level 0), sums (1) and products (2), all left-associative.
    fn binary(&mut self, level: u8) -> Result<Deep> {
        let rule = if level == 0 { Rule::Relation } else { Rule::Calc };
        self.enter(rule)?;
        if level == 0 {
            self.enter(Rule::Calc)?;
        }
        let start = self.peek(0).span.start;
        let (mut left, mut depth) = self.unary()?;
        if level == 0 {
            // The rule for sums ends before the first relation.
            (left, depth) = self.calc_rest(left, depth, 1, start)?;
            self.leave(Rule::Calc);
            while let Some(function) = relation(self.token()) {
                let operator = self.advance();
                let id = self.ids.next(Some(operator.span));
                let Ok((right, right_depth)) = self.relation_operand() else {
                    return Err(self.stopped(Expr { id, kind: Kind::Unspecified }));
                };
                left = self.call(id, function, vec![left, right]);
                self.extent(&left, start);
                depth = depth.max(right_depth) + 1;
            }
        } else {
            (left, depth) = self.calc_rest(left, depth, level, start)?;
        }
        self.leave(rule);
        Ok((left, depth))
    }

    fn relation_operand(&mut self) -> Result<Deep> {
        self.enter(Rule::Relation)?;
        let operand = self.binary(1)?;
        self.leave(Rule::Relation);
        Ok(operand)
    }

    fn calc_rest(&mut self, mut left: Expr, mut depth: u32, level: u8, start: u32) -> Result<Deep> {
        while let Some((function, precedence)) = calc(self.token()).filter(|(_, precedence)| *precedence >= level) {
            let operator = self.advance();
            let id = self.ids.next(Some(operator.span));
            let Ok((right, right_depth)) = self.binary(precedence + 1) else {
                return Err(self.stopped(Expr { id, kind: Kind::Unspecified }));
            };
            left = self.call(id, function, vec![left, right]);
            self.extent(&left, start);
            depth = depth.max(right_depth) + 1;
        }
        Ok((left, depth))
    }

    fn unary(&mut self) -> Result<Deep> {
        let operator = self.token();
        if !matches!(operator, Token::Not | Token::Minus) {
            return self.member();
        }
        let first = self.peek(0);
        if self.at_negative_number() {
            return self.member();
        }
        let mut count = 0;
        // Of several signs before a number none belongs to the number.
        while self.token() == operator {
            self.at += 1;
            count += 1;
        }
        if count % 2 == 0 {
            return self.member();
        }
        let id = self.ids.next(Some(first.span));
        let (operand, depth) = self.member()?;
        let function = if operator == Token::Not { "!_" } else { "-_" };
        let expr = self.call(id, function, vec![operand]);
        self.extent(&expr, first.span.start);
        Ok((expr, depth))
    }

    fn at_negative_number(&self) -> bool {
        self.token() == Token::Minus && matches!(self.peek(1).token, Token::Int | Token::Float)
    }

    fn member(&mut self) -> Result<Deep> {
        self.enter(Rule::Member)?;
        let start = self.peek(0).span.start;
        let (mut expr, mut depth) = self.primary()?;
        self.extent(&expr, start);
        loop {
            let operator = self.peek(0);
            match operator.token {
                Token::Dot if matches!(self.peek(1).token, Token::Ident | Token::EscapedIdent | Token::Question) => {
                    self.at += 1;
                    (expr, depth) = self.selection(expr, depth, operator)?;
                }
                Token::Dot => {
                    self.at += 1;
                    self.unexpected();
                    return Err(self.stopped(expr));
                }
                Token::LeftBracket => {
                    self.at += 1;
                    let optional = self.accept(Token::Question).is_some();
                    let id = self.ids.next(Some(operator.span));
                    let index = self.expr().and_then(|index| self.expect(Token::RightBracket).map(|_| index));
                    let Ok((index, index_depth)) = index else {
                        return Err(self.stopped(Expr { id, kind: Kind::Unspecified }));
                    };
                    expr = self.call(id, if optional { "_[?_]" } else { "_[_]" }, vec![expr, index]);
                    depth = depth.max(index_depth);
                }
                _ => break,
            }
            self.extent(&expr, start);
            depth += 1;
        }
        self.leave(Rule::Member);
        Ok((expr, depth))
    }

    fn selection(&mut self, operand: Expr, depth: u32, dot: Lexeme) -> Result<Deep> {
        let optional = self.accept(Token::Question).is_some();
        let name = match self.token() {
            Token::Ident | Token::EscapedIdent => self.advance(),
            _ => {
                self.unexpected();
                let node = self.node(dot.span, Kind::Unspecified);
                return Err(self.stopped(node));
            }
        };
        let mut field = self.text(name);
        if name.token == Token::Ident && !optional && self.token() == Token::LeftParen {
            let open = self.advance();
            let id = self.ids.next(Some(open.span));
            let Arguments { args, depth: args_depth, complete } = self.arguments();
            let expr = macros::call(self, id, &field, Some(operand), args);
            return if complete { Ok((expr, depth.max(args_depth))) } else { Err(self.stopped(expr)) };
        }
        if name.token == Token::EscapedIdent {
            field = field.trim_matches('`').to_owned();
        }
        if optional {
            // cel-go makes the field before the call: the call's id comes second in its argument list.
            let literal = self.node(name.span, Kind::Literal(Value::string(&field)));
            let call = Call { function: "_?._".into(), target: None, args: vec![operand, literal] };
            return Ok((self.node(dot.span, Kind::Call(Box::new(call))), depth));
        }
        Ok((self.node(dot.span, Kind::Select(Box::new(Select { operand, field: field.into(), test_only: false }))), depth))
    }

    /// The arguments of a call, as far as they can be read. cel-go goes on behind a syntax error and still looks at
    /// what macros do with the arguments before it.
    fn arguments(&mut self) -> Arguments {
        let mut found = Arguments { args: Vec::new(), depth: 0, complete: true };
        if self.accept(Token::RightParen).is_some() {
            return found;
        }
        loop {
            self.partial = None;
            match self.expr() {
                Ok((arg, depth)) => {
                    found.args.push(arg);
                    found.depth = found.depth.max(depth);
                }
                Err(Stop) => {
                    let after_comma = !found.args.is_empty();
                    let missing = after_comma.then_some(Expr { id: 0, kind: Kind::Unspecified });
                    found.args.extend(self.partial.take().or(missing));
                    found.complete = false;
                    return found;
                }
            }
            if self.accept(Token::Comma).is_none() {
                break;
            }
        }
        found.complete = self.expect(Token::RightParen).is_ok();
        found
    }

    fn primary(&mut self) -> Result<Deep> {
        let first = self.peek(0);
        match first.token {
            Token::LeftParen => {
                self.at += 1;
                let inner = self.expr()?;
                self.expect(Token::RightParen)?;
                Ok(inner)
            }
            Token::LeftBracket => {
                let id = self.ids.next(Some(first.span));
                self.list(id).map_err(|_| self.stopped(Expr { id, kind: Kind::Unspecified }))
            }
            Token::LeftBrace => {
                let id = self.ids.next(Some(first.span));
                self.map(id).map_err(|_| self.stopped(Expr { id, kind: Kind::Unspecified }))
            }
            Token::Ident => self.named(None),
            Token::Dot if self.peek(1).token == Token::Ident => {
                let dot = self.advance();
                self.named(Some(dot))
            }
            Token::Dot => {
                self.at += 1;
                Err(self.unexpected())
            }
            _ => Ok((self.constant()?, 0)),
        }
    }

    /// An identifier, a call of a global function or a message.
    fn named(&mut self, dot: Option<Lexeme>) -> Result<Deep> {
        let mut last = 0;
        while self.peek(last + 1).token == Token::Dot && self.peek(last + 2).token == Token::Ident {
            last += 2;
        }
        if self.peek(last + 1).token == Token::LeftBrace {
            return self.message(dot, last);
        }
        let name = self.advance();
        let text = self.text(name);
        let start = dot.map_or(name.span.start, |dot| dot.span.start);
        let qualified = if dot.is_some() { format!(".{text}") } else { text.clone() };
        let reserved = RESERVED.contains(&text.as_str());
        if self.token() != Token::LeftParen {
            if reserved {
                let span = Span { start, end: name.span.end };
                return Ok((self.report(Some(span), format!("reserved identifier: {text}")), 0));
            }
            return Ok((self.node(name.span, Kind::Ident(qualified.into())), 0));
        }
        let open = self.advance();
        if reserved {
            let span = Span { start, end: open.span.end };
            let error = self.report(Some(span), format!("reserved identifier: {text}"));
            return if self.arguments().complete { Ok((error, 0)) } else { Err(Stop) };
        }
        let id = self.ids.next(Some(open.span));
        let Arguments { args, depth, complete } = self.arguments();
        let expr = self.call(id, &qualified, args);
        if complete { Ok((expr, depth)) } else { Err(self.stopped(expr)) }
    }

    fn message(&mut self, dot: Option<Lexeme>, last: usize) -> Result<Deep> {
        let mut name = if dot.is_some() { ".".to_owned() } else { String::new() };
        for _ in 0..=last {
            let lexeme = self.advance();
            name.push_str(&self.text(lexeme));
        }
        let open = self.advance();
        let id = self.ids.next(Some(open.span));
        let mut fields = Vec::new();
        let mut depth = 0;
        while !matches!(self.token(), Token::RightBrace | Token::End) {
            if self.token() == Token::Comma && self.peek(1).token == Token::RightBrace {
                self.at += 1;
                break;
            }
            let field_id = self.ids.next(None);
            let optional = self.accept(Token::Question).is_some();
            let field = match self.token() {
                Token::Ident | Token::EscapedIdent => self.advance(),
                _ => return Err(self.unexpected()),
            };
            let colon = self.expect(Token::Colon)?;
            self.ids.place(field_id, colon.span);
            let (value, value_depth) = self.expr()?;
            depth = depth.max(value_depth);
            let name: Arc<str> = self.text(field).trim_matches('`').into();
            fields.push(Field { id: field_id, name, value, optional });
            if self.accept(Token::Comma).is_none() {
                break;
            }
        }
        self.expect(Token::RightBrace)?;
        Ok((Expr { id, kind: Kind::Struct(Box::new(Struct { name: name.into(), fields })) }, depth))
    }

    fn list(&mut self, id: Id) -> Result<Deep> {
        self.at += 1;
        let mut elements = Vec::new();
        let mut depth = 0;
        while self.token() != Token::RightBracket {
            if self.token() == Token::Comma && elements.is_empty() {
                self.at += 1;
                break;
            }
            let optional = self.accept(Token::Question).is_some();
            let (value, value_depth) = self.expr()?;
            depth = depth.max(value_depth);
            elements.push(Element { value, optional });
            if self.accept(Token::Comma).is_none() {
                break;
            }
        }
        self.expect(Token::RightBracket)?;
        Ok((Expr { id, kind: Kind::List(elements) }, depth))
    }

    fn map(&mut self, id: Id) -> Result<Deep> {
        self.at += 1;
        let mut entries = Vec::new();
        let mut depth = 0;
        while self.token() != Token::RightBrace {
            if self.token() == Token::Comma && entries.is_empty() {
                self.at += 1;
                break;
            }
            let entry_id = self.ids.next(None);
            let optional = self.accept(Token::Question).is_some();
            let (key, key_depth) = self.expr()?;
            let colon = self.expect(Token::Colon)?;
            self.ids.place(entry_id, colon.span);
            let (value, value_depth) = self.expr()?;
            depth = depth.max(key_depth).max(value_depth);
            entries.push(Entry { key, value, optional });
            if self.accept(Token::Comma).is_none() {
                break;
            }
        }
        self.expect(Token::RightBrace)?;
        Ok((Expr { id, kind: Kind::Map(entries) }, depth))
    }

    fn constant(&mut self) -> Result<Expr> {
        let negative = self.at_negative_number();
        let sign = self.peek(0);
        if negative {
            self.at += 1;
        }
        let lexeme = self.peek(0);
        let span = Span { start: if negative { sign.span.start } else { lexeme.span.start }, end: lexeme.span.end };
        let text = self.text(lexeme);
        let value = match lexeme.token {
            Token::Int => literal::int(&text, negative).map(Value::Int).ok_or("invalid int literal"),
            Token::Uint => literal::uint(&text).map(Value::Uint).ok_or("invalid uint literal"),
            Token::Float => literal::double(&text).map(|v| Value::Double(if negative { -v } else { v })).ok_or("invalid double literal"),
            Token::String => literal::string(&text).map(|text| Value::string(&text)),
            Token::Bytes => literal::bytes(&text).map(|bytes| Value::Bytes(bytes.into())),
            Token::True => Ok(Value::Bool(true)),
            Token::False => Ok(Value::Bool(false)),
            Token::Null => Ok(Value::Null),
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(match value {
            Ok(value) => self.node(span, Kind::Literal(value)),
            Err(message) => self.report(Some(span), message),
        })
    }
}

fn relation(token: Token) -> Option<&'static str> {
    Some(match token {
        Token::Less => "_<_",
        Token::LessEquals => "_<=_",
        Token::GreaterEquals => "_>=_",
        Token::Greater => "_>_",
        Token::Equals => "_==_",
        Token::NotEquals => "_!=_",
        Token::In => "@in",
        _ => return None,
    })
}

fn calc(token: Token) -> Option<(&'static str, u8)> {
    Some(match token {
        Token::Plus => ("_+_", 1),
        Token::Minus => ("_-_", 1),
        Token::Star => ("_*_", 2),
        Token::Slash => ("_/_", 2),
        Token::Percent => ("_%_", 2),
        _ => return None,
    })
}

fn balanced(function: &str, terms: &mut [Option<Expr>], operators: &[Id], low: usize, high: usize) -> Expr {
    let middle = (low + high).div_ceil(2);
    let mut side = |whole: bool, term: usize, low: usize, high: usize| {
        if whole {
            let missing = Expr { id: 0, kind: Kind::Unspecified };
            terms.get_mut(term).and_then(Option::take).unwrap_or(missing)
        } else {
            balanced(function, terms, operators, low, high)
        }
    };
    let left = side(middle == low, middle, low, middle.saturating_sub(1));
    let right = side(middle == high, middle + 1, middle + 1, high);
    let call = Call { function: function.into(), target: None, args: vec![left, right] };
    Expr { id: operators[middle], kind: Kind::Call(Box::new(call)) }
}
