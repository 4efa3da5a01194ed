//! The parts of an expression as data: what it looks up, calls and compares, where each part stands, what type the checker
//! gave it and what it may cost. For advice; evaluation has a plan of its own.

use std::collections::HashMap;
use std::sync::Arc;

use super::ast::{Call, Comprehension, Expr, Id, Ids, Kind};
use super::check::{Checked, Scope};
use super::source::{Source, Span};
use super::trace::TraceValue;
use super::value::Value;
use super::{cost, parser};

/// Deeper expressions have no outline: whoever walks it may do so by recursion.
const MAX_DEPTH: usize = 200;
/// Larger ones neither.
const MAX_PARTS: usize = 5_000;

/// One part of an expression.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where it stands, in characters; `None` for what a macro put in.
    pub span: Option<Span>,
    /// What it is.
    pub kind: PartKind,
    /// Its type as the checker's messages name it: `bool`, `any`, `kubernetes.Quantity`; empty where the checker found faults.
    pub type_name: String,
    /// The greatest cost of evaluating it once, as the API server estimates; `u64::MAX` if unbounded.
    pub cost: u64,
    /// It uses a variable of a loop or of `cel.bind`, so that it means nothing by itself.
    pub bound: bool,
}

/// What a part is.
#[derive(Clone, Debug)]
pub enum PartKind {
    /// A string literal: its value.
    Text(String),
    /// Another literal.
    Literal(TraceValue),
    /// A name: `device`, a loop variable, a type.
    Name(String),
    /// `of.name`, `of.?name`, `has(of.name)`.
    Field {
        /// What it is taken of.
        of: Box<Part>,
        /// The field or key.
        name: String,
        /// Written with `.?`.
        optional: bool,
        /// Inside `has()`.
        test: bool,
    },
    /// `of[key]`, `of[?key]`.
    Index {
        /// What it is taken of.
        of: Box<Part>,
        /// The key.
        key: Box<Part>,
        /// Written with `[?`.
        optional: bool,
    },
    /// A call or an operator (`_&&_`, `_==_`, `!_`, `_?_:_`, `@in`).
    Call {
        /// The function's name.
        function: String,
        /// What it is called on.
        target: Option<Box<Part>>,
        /// The arguments.
        args: Vec<Part>,
    },
    /// A list, map or struct with its entries.
    Group(Vec<Part>),
    /// `cel.bind(name, value, body)`.
    Bind {
        /// The name.
        name: String,
        /// What it stands for.
        value: Box<Part>,
        /// Where it is used.
        body: Box<Part>,
    },
    /// A macro that goes over a list or map (`exists`, `filter`, …).
    Loop {
        /// What it goes over.
        range: Box<Part>,
        /// What is evaluated for each entry and at the end.
        body: Vec<Part>,
    },
}

impl Part {
    /// Calls `visit` for this part and all below, in the order of the source.
    pub fn walk<'p>(&'p self, visit: &mut dyn FnMut(&'p Self)) {
        visit(self);
        self.for_children(&mut |child| child.walk(visit));
    }

    /// Calls `visit` for the parts directly below.
    pub fn for_children<'p>(&'p self, visit: &mut dyn FnMut(&'p Self)) {
        match &self.kind {
            PartKind::Text(_) | PartKind::Literal(_) | PartKind::Name(_) => {}
            PartKind::Field { of, .. } => visit(of),
            PartKind::Index { of, key, .. } => {
                visit(of);
                visit(key);
            }
            PartKind::Call { target, args, .. } => {
                if let Some(target) = target {
                    visit(target);
                }
                args.iter().for_each(visit);
            }
            PartKind::Group(parts) => parts.iter().for_each(visit),
            PartKind::Bind { value, body, .. } => {
                visit(value);
                visit(body);
            }
            PartKind::Loop { range, body } => {
                visit(range);
                body.iter().for_each(visit);
            }
        }
    }

    /// The arguments, if it is a call of `function` without a target.
    #[must_use]
    pub fn operands(&self, function: &str) -> Option<&[Self]> {
        match &self.kind {
            PartKind::Call { function: name, target: None, args } if name == function => Some(args),
            _ => None,
        }
    }
}

/// The outline of an expression; `None` if it is no CEL at all, or too deep or large to be walked. Where the checker finds
/// faults, types and costs are not known.
pub(super) fn outline(source: &Source, scope: &Scope) -> Option<Part> {
    let parser::Parsed { expr, ids } = parser::parse(source).ok()?;
    if ids.len() > MAX_PARTS || super::program::depth(&expr) > MAX_DEPTH {
        return None;
    }
    let mut typed = expr.clone();
    let checked = super::check::check(&mut typed, &ids, scope).ok();
    let costs = checked.as_ref().map(|checked| cost::of_parts(&typed, checked, scope)).unwrap_or_default();
    let expr = if checked.is_some() { typed } else { expr };
    Some(Drawer { ids: &ids, checked: checked.as_ref(), costs, locals: Vec::new() }.draw(&expr))
}

struct Drawer<'d> {
    ids: &'d Ids,
    checked: Option<&'d Checked>,
    costs: HashMap<Id, u64>,
    locals: Vec<Arc<str>>,
}

impl Drawer<'_> {
    fn draw(&mut self, expr: &Expr) -> Part {
        let kind = self.kind(expr);
        let mut bound = matches!(&kind, PartKind::Name(name) if self.locals.iter().any(|local| **local == **name));
        let part = Part {
            span: self.ids.extent(expr.id),
            kind,
            type_name: self.checked.map(|checked| checked.type_of(expr.id).in_messages()).unwrap_or_default(),
            cost: self.costs.get(&expr.id).copied().unwrap_or(0),
            bound: false,
        };
        // The outermost loop has all its variables in itself.
        let closed = matches!(part.kind, PartKind::Bind { .. } | PartKind::Loop { .. }) && self.locals.is_empty();
        part.for_children(&mut |child| bound = bound || child.bound && !closed);
        Part { bound, ..part }
    }

    fn boxed(&mut self, expr: &Expr) -> Box<Part> {
        Box::new(self.draw(expr))
    }

    fn kind(&mut self, expr: &Expr) -> PartKind {
        match &expr.kind {
            Kind::Unspecified => PartKind::Group(Vec::new()),
            Kind::Literal(Value::String(text)) => PartKind::Text(text.to_string()),
            Kind::Literal(value) => PartKind::Literal(TraceValue::from(value)),
            Kind::Ident(name) => PartKind::Name(name.to_string()),
            Kind::Select(select) => {
                PartKind::Field { of: self.boxed(&select.operand), name: select.field.to_string(), optional: false, test: select.test_only }
            }
            Kind::Call(call) => self.call(call),
            Kind::List(elements) => PartKind::Group(elements.iter().map(|element| self.draw(&element.value)).collect()),
            Kind::Map(entries) => {
                PartKind::Group(entries.iter().flat_map(|entry| [&entry.key, &entry.value]).map(|child| self.draw(child)).collect())
            }
            Kind::Struct(object) => PartKind::Group(object.fields.iter().map(|field| self.draw(&field.value)).collect()),
            Kind::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn call(&mut self, call: &Call) -> PartKind {
        match (&*call.function, call.args.as_slice()) {
            (name @ ("_[_]" | "_[?_]"), [of, key]) => {
                PartKind::Index { of: self.boxed(of), key: self.boxed(key), optional: name == "_[?_]" }
            }
            ("_?._", [of, field]) => {
                let name = match field.literal() {
                    Some(Value::String(name)) => name.to_string(),
                    _ => String::new(),
                };
                PartKind::Field { of: self.boxed(of), name, optional: true, test: false }
            }
            (name, args) => PartKind::Call {
                function: name.to_owned(),
                target: call.target.as_ref().map(|target| self.boxed(target)),
                args: args.iter().map(|arg| self.draw(arg)).collect(),
            },
        }
    }

    fn comprehension(&mut self, comprehension: &Comprehension) -> PartKind {
        let Comprehension { range, iter_var, iter_var2, accu_var, accu_init, condition, step, result } = comprehension;
        let before = self.locals.len();
        let kind = if cost::is_binding(comprehension) {
            let value = self.boxed(accu_init);
            self.locals.push(accu_var.clone());
            PartKind::Bind { name: accu_var.to_string(), value, body: self.boxed(result) }
        } else {
            let (range, init) = (self.boxed(range), self.draw(accu_init));
            self.locals.extend([iter_var, accu_var].into_iter().chain(iter_var2).cloned());
            let mut body = vec![init];
            body.extend([condition, step, result].map(|child| self.draw(child)));
            PartKind::Loop { range, body }
        };
        self.locals.truncate(before);
        kind
    }
}
