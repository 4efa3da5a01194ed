//! Expands macros into loops and calls, as cel-go and its extensions do (parser/macro.go, ext/bindings.go,
//! ext/comprehensions.go, ext/lists.go, cel/library.go).

use std::sync::Arc;

use super::ast::{ACCUMULATOR, Call, Comprehension, Element, Entry, Expr, Field, Id, Kind, OLD_ACCUMULATOR, Select, Struct};
use super::parser::{MAX_NODES, Parser};
use super::source::Span;
use super::value::Value;

/// Name of loop variables that nothing uses.
const UNUSED: &str = "#unused";

/// A call, or what the macro of that name and shape makes of it.
pub(crate) fn call(parser: &mut Parser<'_>, id: Id, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
    let span = parser.ids.span(id);
    let mut maker = Maker { parser, span };
    match maker.expand(function, target, args) {
        Expansion::Done(expr) => {
            parser.ids.forget(id);
            expr
        }
        Expansion::Bad(at, message) => {
            let place = parser.ids.span(at).or(span);
            parser.ids.forget(id);
            parser.report(place, message)
        }
        Expansion::Plain(target, args) => Expr { id, kind: Kind::Call(Box::new(Call { function: function.into(), target, args })) },
    }
}

enum Expansion {
    Done(Expr),
    /// The macro fits but an argument does not: the node and the message.
    Bad(Id, String),
    Plain(Option<Expr>, Vec<Expr>),
}

use Expansion::{Bad, Done, Plain};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

/// Makes nodes at the place of the macro.
struct Maker<'m, 's> {
    parser: &'m mut Parser<'s>,
    span: Option<Span>,
}

impl Maker<'_, '_> {
    fn expand(&mut self, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
        let Some(target) = target else {
            return if function == "has" && args.len() == 1 { self.has(args) } else { Plain(None, args) };
        };
        match (function, args.len()) {
            ("all", 2 | 3) => self.quantifier(Quantifier::All, target, args),
            ("exists", 2 | 3) => self.quantifier(Quantifier::Exists, target, args),
            ("exists_one", 2 | 3) | ("existsOne", 3) => self.quantifier(Quantifier::ExistsOne, target, args),
            ("map", 2 | 3) => self.map(target, args),
            ("filter", 2) => self.filter(target, args),
            ("transformList", 3 | 4) => self.transform(target, args, Self::list_step, Kind::List(Vec::new())),
            ("transformMap", 3 | 4) => self.transform(target, args, Self::map_step, Kind::Map(Vec::new())),
            ("transformMapEntry", 3 | 4) => self.transform(target, args, Self::entry_step, Kind::Map(Vec::new())),
            ("bind", 3) if target.ident().is_some_and(|name| &**name == "cel") => self.bind(args),
            ("optMap", 2) => self.opt_map(target, args, true),
            ("optFlatMap", 2) => self.opt_map(target, args, false),
            ("sortBy", 2) => self.sort_by(target, args),
            _ => Plain(Some(target), args),
        }
    }

    fn node(&mut self, kind: Kind) -> Expr {
        // Nodes of macros have a place but no extent.
        let span = self.span.map(|span| Span { start: span.start, end: span.start });
        Expr { id: self.parser.ids.next(span), kind }
    }

    fn accumulator(&mut self) -> Expr {
        self.node(Kind::Ident(ACCUMULATOR.into()))
    }

    fn literal(&mut self, value: Value) -> Expr {
        self.node(Kind::Literal(value))
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.node(Kind::Call(Box::new(Call { function: function.into(), target: None, args })))
    }

    fn method(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.node(Kind::Call(Box::new(Call { function: function.into(), target: Some(target), args })))
    }

    fn list_of(&mut self, value: Expr) -> Expr {
        self.node(Kind::List(vec![Element { value, optional: false }]))
    }

    fn loop_(&mut self, comprehension: Comprehension) -> Expr {
        self.node(Kind::Comprehension(Box::new(comprehension)))
    }

    fn has(&mut self, mut args: Vec<Expr>) -> Expansion {
        let Some(arg) = args.pop() else { return Plain(None, args) };
        match arg.kind {
            Kind::Select(select) => Done(self.node(Kind::Select(Box::new(Select { test_only: true, ..*select })))),
            _ => Bad(arg.id, "invalid argument to has() macro".to_owned()),
        }
    }

    /// The loop variables: the first one or two arguments, which are taken out.
    fn variables(&self, args: &mut Vec<Expr>, two: bool, message: &str) -> Result<(Arc<str>, Option<Arc<str>>), Expansion> {
        let mut names = Vec::new();
        let taken: Vec<Expr> = args.drain(..if two { 2 } else { 1 }).collect();
        for arg in &taken {
            names.push(arg.ident().cloned().ok_or_else(|| Bad(arg.id, message.to_owned()))?);
        }
        if two && names.first() == names.get(1) {
            return Err(Bad(taken[1].id, format!("duplicate variable name: {}", names[0])));
        }
        for (name, arg) in names.iter().zip(&taken) {
            if matches!(&**name, ACCUMULATOR | OLD_ACCUMULATOR) {
                return Err(Bad(arg.id, "iteration variable overwrites accumulator variable".to_owned()));
            }
        }
        let mut names = names.into_iter();
        let first = names.next().unwrap_or_else(|| UNUSED.into());
        Ok((first, names.next()))
    }

    fn quantifier(&mut self, quantifier: Quantifier, range: Expr, mut args: Vec<Expr>) -> Expansion {
        let two = args.len() == 3;
        let (iter_var, iter_var2) = match self.variables(&mut args, two, "argument must be a simple name") {
            Ok(names) => names,
            Err(bad) => return bad,
        };
        let Some(predicate) = args.pop() else { return Plain(Some(range), args) };
        let (accu_init, condition, step, result);
        match quantifier {
            Quantifier::All => {
                accu_init = self.literal(Value::Bool(true));
                let accu = self.accumulator();
                condition = self.call("@not_strictly_false", vec![accu]);
                let accu = self.accumulator();
                step = self.call("_&&_", vec![accu, predicate]);
                result = self.accumulator();
            }
            Quantifier::Exists => {
                accu_init = self.literal(Value::Bool(false));
                let accu = self.accumulator();
                let not = self.call("!_", vec![accu]);
                condition = self.call("@not_strictly_false", vec![not]);
                let accu = self.accumulator();
                step = self.call("_||_", vec![accu, predicate]);
                result = self.accumulator();
            }
            Quantifier::ExistsOne => {
                accu_init = self.literal(Value::Int(0));
                condition = self.literal(Value::Bool(true));
                let (accu, one) = (self.accumulator(), self.literal(Value::Int(1)));
                let more = self.call("_+_", vec![accu, one]);
                let accu = self.accumulator();
                step = self.call("_?_:_", vec![predicate, more, accu]);
                let (accu, one) = (self.accumulator(), self.literal(Value::Int(1)));
                result = self.call("_==_", vec![accu, one]);
            }
        }
        Done(self.loop_(Comprehension { range, iter_var, iter_var2, accu_var: ACCUMULATOR.into(), accu_init, condition, step, result }))
    }

    fn filtered(&mut self, filter: Option<Expr>, step: Expr) -> Expr {
        match filter {
            Some(filter) => {
                let accu = self.accumulator();
                self.call("_?_:_", vec![filter, step, accu])
            }
            None => step,
        }
    }

    fn map(&mut self, range: Expr, mut args: Vec<Expr>) -> Expansion {
        let (iter_var, _) = match self.variables(&mut args, false, "argument is not an identifier") {
            Ok(names) => names,
            Err(bad) => return bad,
        };
        let Some(transform) = args.pop() else { return Plain(Some(range), args) };
        let accu_init = self.node(Kind::List(Vec::new()));
        let condition = self.literal(Value::Bool(true));
        let accu = self.accumulator();
        let list = self.list_of(transform);
        let step = self.call("_+_", vec![accu, list]);
        let step = self.filtered(args.pop(), step);
        let result = self.accumulator();
        Done(self.loop_(Comprehension {
            range,
            iter_var,
            iter_var2: None,
            accu_var: ACCUMULATOR.into(),
            accu_init,
            condition,
            step,
            result,
        }))
    }

    fn filter(&mut self, range: Expr, mut args: Vec<Expr>) -> Expansion {
        let element = args[0].clone();
        let (iter_var, _) = match self.variables(&mut args, false, "argument is not an identifier") {
            Ok(names) => names,
            Err(bad) => return bad,
        };
        let accu_init = self.node(Kind::List(Vec::new()));
        let condition = self.literal(Value::Bool(true));
        let accu = self.accumulator();
        let list = self.list_of(element);
        let step = self.call("_+_", vec![accu, list]);
        let step = self.filtered(args.pop(), step);
        let result = self.accumulator();
        Done(self.loop_(Comprehension {
            range,
            iter_var,
            iter_var2: None,
            accu_var: ACCUMULATOR.into(),
            accu_init,
            condition,
            step,
            result,
        }))
    }

    fn list_step(&mut self, _key: &Arc<str>, transform: Expr) -> Expr {
        let accu = self.accumulator();
        let list = self.list_of(transform);
        self.call("_+_", vec![accu, list])
    }

    fn map_step(&mut self, key: &Arc<str>, transform: Expr) -> Expr {
        let (accu, key) = (self.accumulator(), self.node(Kind::Ident(key.clone())));
        self.call("cel.@mapInsert", vec![accu, key, transform])
    }

    fn entry_step(&mut self, _key: &Arc<str>, transform: Expr) -> Expr {
        let accu = self.accumulator();
        self.call("cel.@mapInsert", vec![accu, transform])
    }

    fn transform(&mut self, range: Expr, mut args: Vec<Expr>, step: fn(&mut Self, &Arc<str>, Expr) -> Expr, init: Kind) -> Expansion {
        let (iter_var, iter_var2) = match self.variables(&mut args, true, "argument must be a simple name") {
            Ok(names) => names,
            Err(bad) => return bad,
        };
        let Some(transform) = args.pop() else { return Plain(Some(range), args) };
        let step = step(self, &iter_var, transform);
        let step = self.filtered(args.pop(), step);
        let accu_init = self.node(init);
        let condition = self.literal(Value::Bool(true));
        let result = self.accumulator();
        Done(self.loop_(Comprehension { range, iter_var, iter_var2, accu_var: ACCUMULATOR.into(), accu_init, condition, step, result }))
    }

    /// A loop over nothing, which only gives `init` a name in `result`.
    fn binding(&mut self, name: Arc<str>, init: impl FnOnce(&mut Self) -> Expr, result: Expr) -> Expr {
        let range = self.node(Kind::List(Vec::new()));
        let accu_init = init(self);
        let condition = self.literal(Value::Bool(false));
        let step = self.node(Kind::Ident(name.clone()));
        self.loop_(Comprehension { range, iter_var: UNUSED.into(), iter_var2: None, accu_var: name, accu_init, condition, step, result })
    }

    fn bind(&mut self, mut args: Vec<Expr>) -> Expansion {
        let (Some(result), Some(init), Some(variable)) = (args.pop(), args.pop(), args.pop()) else { return Plain(None, args) };
        match variable.ident() {
            Some(name) => Done(self.binding(name.clone(), |_| init, result)),
            None => Bad(variable.id, "cel.bind() variable names must be simple identifiers".to_owned()),
        }
    }

    fn opt_map(&mut self, target: Expr, mut args: Vec<Expr>, wrap: bool) -> Expansion {
        let (Some(result), Some(variable)) = (args.pop(), args.pop()) else { return Plain(Some(target), args) };
        let Some(name) = variable.ident().cloned() else {
            let macro_name = if wrap { "optMap" } else { "optFlatMap" };
            return Bad(variable.id, format!("{macro_name}() variable name must be a simple identifier"));
        };
        let copied = target.clone();
        let has_value = self.method("hasValue", target, Vec::new());
        let bound = self.binding(
            name,
            |maker| {
                let copy = maker.copy(&copied);
                maker.method("value", copy, Vec::new())
            },
            result,
        );
        let then = if wrap { self.call("optional.of", vec![bound]) } else { bound };
        let none = self.call("optional.none", Vec::new());
        Done(self.call("_?_:_", vec![has_value, then, none]))
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Expansion {
        if !matches!(target.kind, Kind::List(_) | Kind::Select(_) | Kind::Ident(_) | Kind::Comprehension(_) | Kind::Call(_)) {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Bad(target.id, message.to_owned());
        }
        let name: Arc<str> = "@__sortBy_input__".into();
        let variable = self.node(Kind::Ident(name.clone()));
        let copy = self.copy(&variable);
        let keys = match self.map(copy, args) {
            Done(keys) => keys,
            other => return other,
        };
        let copy = self.copy(&variable);
        let sorted = self.method("@sortByAssociatedKeys", copy, vec![keys]);
        let range = self.node(Kind::List(Vec::new()));
        let condition = self.literal(Value::Bool(false));
        Done(self.loop_(Comprehension {
            range,
            iter_var: UNUSED.into(),
            iter_var2: None,
            accu_var: name,
            accu_init: target,
            condition,
            step: variable,
            result: sorted,
        }))
    }

    /// A copy with ids of its own. Once there are too many nodes it gets shallow; the parser then gives up.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let span = self.parser.ids.span(expr.id);
        let id = self.parser.ids.next(span);
        if self.parser.ids.len() > MAX_NODES {
            return Expr { id, kind: Kind::Unspecified };
        }
        let kind = match &expr.kind {
            Kind::Unspecified => Kind::Unspecified,
            Kind::Literal(value) => Kind::Literal(value.clone()),
            Kind::Ident(name) => Kind::Ident(name.clone()),
            Kind::Select(select) => {
                let operand = self.copy(&select.operand);
                Kind::Select(Box::new(Select { operand, field: select.field.clone(), test_only: select.test_only }))
            }
            Kind::Call(call) => {
                let args = call.args.iter().map(|arg| self.copy(arg)).collect();
                let target = call.target.as_ref().map(|target| self.copy(target));
                Kind::Call(Box::new(Call { function: call.function.clone(), target, args }))
            }
            Kind::List(elements) => {
                Kind::List(elements.iter().map(|e| Element { value: self.copy(&e.value), optional: e.optional }).collect())
            }
            Kind::Map(entries) => Kind::Map(entries.iter().map(|e| self.copy_entry(e)).collect()),
            Kind::Struct(object) => {
                let fields = object.fields.iter().map(|f| self.copy_field(f)).collect();
                Kind::Struct(Box::new(Struct { name: object.name.clone(), fields }))
            }
            Kind::Comprehension(loop_) => Kind::Comprehension(Box::new(Comprehension {
                range: self.copy(&loop_.range),
                iter_var: loop_.iter_var.clone(),
                iter_var2: loop_.iter_var2.clone(),
                accu_var: loop_.accu_var.clone(),
                accu_init: self.copy(&loop_.accu_init),
                condition: self.copy(&loop_.condition),
                step: self.copy(&loop_.step),
                result: self.copy(&loop_.result),
            })),
        };
        Expr { id, kind }
    }

    fn copy_entry(&mut self, entry: &Entry) -> Entry {
        // Entries have ids too, though nothing asks for them.
        self.parser.ids.next(self.span);
        Entry { key: self.copy(&entry.key), value: self.copy(&entry.value), optional: entry.optional }
    }

    fn copy_field(&mut self, field: &Field) -> Field {
        let id = self.parser.ids.next(self.span);
        Field { id, name: field.name.clone(), value: self.copy(&field.value), optional: field.optional }
    }
}
