//! What operators work on: names, calls, selections, indices, literals, lists, maps and messages.

use std::sync::Arc;

use super::{Arguments, Deep, Parser, RESERVED, Result, Rule, Stop};
use crate::cel::ast::{Call, Element, Entry, Expr, Field, Id, Kind, Select, Struct};
use crate::cel::lexer::{Lexeme, Token};
use crate::cel::source::Span;
use crate::cel::value::Value;
use crate::cel::{literal, macros};

impl Parser<'_> {
    pub(super) fn member(&mut self) -> Result<Deep> {
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
