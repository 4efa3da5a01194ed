//! What Kubernetes checks in addition to types: literals of durations, times, patterns and templates, and that the
//! elements of a literal list or map have one type (cel/validator.go, ext/formatting.go).

use super::Checked;
use crate::cel::ast::{Call, Element, Entry, Expr, Id, Ids, Kind};
use crate::cel::lib;
use crate::cel::source::Issue;
use crate::cel::types::Type;
use crate::cel::value::Value;

/// All complaints about a well-typed expression.
pub(crate) fn validate(expr: &Expr, ids: &Ids, checked: &Checked) -> Vec<Issue> {
    let mut validator = Validator { ids, checked, issues: Vec::new() };
    validator.visit(expr, false);
    validator.issues
}

struct Validator<'v> {
    ids: &'v Ids,
    checked: &'v Checked,
    issues: Vec<Issue>,
}

impl Validator<'_> {
    fn report(&mut self, id: Id, message: String) {
        self.issues.push(Issue { offset: self.ids.span(id).map(|span| span.start), message });
    }

    /// `in_format`: somewhere below a call of `format`, the arguments of which may be mixed.
    fn visit(&mut self, expr: &Expr, in_format: bool) {
        match &expr.kind {
            Kind::Call(call) => self.call(expr.id, call),
            Kind::List(elements) if !in_format => self.list(elements),
            Kind::Map(entries) if !in_format => self.map(entries),
            _ => {}
        }
        let in_format = in_format || matches!(&expr.kind, Kind::Call(call) if &*call.function == "format");
        expr.for_children(&mut |child| self.visit(child, in_format));
    }

    fn call(&mut self, id: Id, call: &Call) {
        let literal = call.args.first().and_then(|arg| arg.literal().map(|value| (arg.id, value)));
        if let Some((arg, value)) = literal {
            let bad = match (&*call.function, value) {
                ("duration", Value::String(_)) => fails("string_to_duration", value),
                ("timestamp", Value::String(_)) => fails("string_to_timestamp", value),
                ("timestamp", Value::Int(_)) => fails("int64_to_timestamp", value),
                // For the function `matches(text, pattern)` this is the text; upstream looks at the first argument too.
                ("matches", Value::String(pattern)) => lib::Pattern::new(pattern).is_err(),
                _ => false,
            };
            if bad {
                self.report(arg, format!("invalid {} argument", call.function));
            }
        }
        if let ("format", Some(Value::String(template)), [args]) =
            (&*call.function, call.target.as_ref().and_then(Expr::literal), call.args.as_slice())
            && let Kind::List(elements) = &args.kind
        {
            self.template(id, template, elements);
        }
    }

    fn template(&mut self, id: Id, template: &str, elements: &[Element]) {
        let args: Vec<&Expr> = elements.iter().map(|element| &element.value).collect();
        match lib::check_template(template, &args, self.checked) {
            Err((at, message)) => self.report(at.unwrap_or(id), message),
            Ok(used) if args.len() > used => {
                let message = format!("too many arguments supplied to string.format (expected {used}, got {})", args.len());
                self.report(id, message);
            }
            Ok(_) => {}
        }
    }

    fn type_of(&self, id: Id, optional: bool) -> Type {
        let type_ = self.checked.type_of(id);
        let inner = if optional { type_.unwrapped() } else { None };
        inner.unwrap_or(type_).clone()
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{}' but found '{}'", expected.in_messages(), found.in_messages()));
    }

    fn list(&mut self, elements: &[Element]) {
        let mut common: Option<Type> = None;
        for element in elements {
            let found = self.type_of(element.value.id, element.optional);
            match &common {
                None => common = Some(found),
                Some(expected) if *expected != found => {
                    self.mismatch(element.value.id, &expected.clone(), &found);
                    break;
                }
                Some(_) => {}
            }
        }
    }

    fn map(&mut self, entries: &[Entry]) {
        let mut common: Option<(Type, Type)> = None;
        for entry in entries {
            let key = self.type_of(entry.key.id, false);
            let value = self.type_of(entry.value.id, entry.optional);
            let Some((expected_key, expected_value)) = &common else {
                common = Some((key, value));
                continue;
            };
            let (expected_key, expected_value) = (expected_key.clone(), expected_value.clone());
            if expected_key != key {
                self.mismatch(entry.key.id, &expected_key, &key);
            }
            if expected_value != value {
                self.mismatch(entry.value.id, &expected_value, &value);
            }
        }
    }
}

fn fails(overload: &str, value: &Value) -> bool {
    lib::native(overload).is_some_and(|native| native(std::slice::from_ref(value)).is_err())
}
