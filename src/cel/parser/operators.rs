//! Operators, from the weakest to the strongest: conditional, `||`, `&&`, relations, sums, products, signs.

use super::{Deep, Parser, Result, Rule};
use crate::cel::ast::{Call, Expr, Id, Kind};
use crate::cel::lexer::Token;

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Result<Deep> {
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

    pub(super) fn at_negative_number(&self) -> bool {
        self.token() == Token::Minus && matches!(self.peek(1).token, Token::Int | Token::Float)
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
