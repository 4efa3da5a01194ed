//! The type checker: what each node is, which overloads each call can mean, and what is wrong (checker/checker.go).

mod collections;
mod unify;
pub(crate) mod validate;

use std::sync::Arc;

use self::unify::Bindings;
use super::ast::{Call, Expr, Id, Ids, Kind, Select};
use super::declare::{self, Function, Overload};
use super::source::Issue;
use super::types::{DEVICE, Type};
use super::value::Value;

/// What expressions can refer to.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Variables by name.
    pub(crate) variables: Vec<(Arc<str>, Type)>,
    /// Fields of the device type.
    pub(crate) device_fields: Vec<(&'static str, Type)>,
    /// Whether `includes` exists.
    pub(crate) includes: bool,
}

/// What the checker found out; tables are indexed by node id.
#[derive(Debug)]
pub(crate) struct Checked {
    types: Vec<Option<Type>>,
    overloads: Vec<Vec<&'static Overload>>,
}

impl Checked {
    /// The type of a node.
    pub(crate) fn type_of(&self, id: Id) -> &Type {
        self.types.get(id as usize).and_then(Option::as_ref).unwrap_or(&Type::Dyn)
    }

    /// The overloads a call may mean.
    pub(crate) fn overloads(&self, id: Id) -> &[&'static Overload] {
        self.overloads.get(id as usize).map_or(&[], Vec::as_slice)
    }
}

/// Checks `expr`, resolving names in it: calls of namespaced functions lose their target, qualified names of types
/// become identifiers.
pub(crate) fn check(expr: &mut Expr, ids: &Ids, scope: &Scope) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        scope,
        ids,
        locals: Vec::new(),
        bindings: Bindings::default(),
        types: vec![None; ids.len()],
        overloads: vec![Vec::new(); ids.len()],
        issues: Vec::new(),
    };
    checker.check(expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let types = checker.types.iter().map(|t| t.as_ref().map(|t| checker.bindings.substitute(t, true))).collect();
    Ok(Checked { types, overloads: checker.overloads })
}

struct Checker<'c> {
    scope: &'c Scope,
    ids: &'c Ids,
    locals: Vec<(Arc<str>, Type)>,
    bindings: Bindings,
    types: Vec<Option<Type>>,
    overloads: Vec<Vec<&'static Overload>>,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn report(&mut self, id: Id, message: String) {
        self.issues.push(Issue { offset: self.ids.span(id).map(|span| span.start), message });
    }

    fn undeclared(&mut self, id: Id, name: &str) {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{}' but found '{}'", expected.in_messages(), found.in_messages()));
    }

    fn set(&mut self, id: Id, type_: Type) {
        if let Some(slot) = self.types.get_mut(id as usize) {
            *slot = Some(type_);
        }
    }

    fn get(&self, id: Id) -> Type {
        self.types.get(id as usize).cloned().flatten().unwrap_or(Type::Error)
    }

    fn check(&mut self, expr: &mut Expr) {
        let id = expr.id;
        match &mut expr.kind {
            Kind::Unspecified => self.report(id, "unexpected unspecified type: exprValue".to_owned()),
            Kind::Literal(value) => {
                let type_ = value.static_type();
                self.set(id, type_);
            }
            Kind::Ident(name) => {
                let name = name.clone();
                match self.ident(&name) {
                    Some((type_, resolved)) => {
                        self.set(id, type_);
                        expr.kind = Kind::Ident(resolved);
                    }
                    None => {
                        self.set(id, Type::Error);
                        self.undeclared(id, &name);
                    }
                }
            }
            Kind::Select(_) => self.select(expr),
            Kind::Call(_) => self.call(expr),
            Kind::List(elements) => self.list(id, elements),
            Kind::Map(entries) => self.map(id, entries),
            Kind::Struct(object) => self.object(id, object),
            Kind::Comprehension(comprehension) => self.comprehension(id, comprehension),
        }
    }

    /// Type and resolved name of an identifier. A leading dot means the global one; it is kept only where needed.
    fn ident(&self, name: &str) -> Option<(Type, Arc<str>)> {
        let plain = name.strip_prefix('.').unwrap_or(name);
        let local = self.locals.iter().rev().find(|(local, _)| &**local == plain);
        if let (Some((_, type_)), false) = (local, name.starts_with('.')) {
            return Some((type_.clone(), name.into()));
        }
        let type_ = self.global(plain)?;
        Some((type_, if local.is_some() { name.into() } else { plain.into() }))
    }

    fn global(&self, name: &str) -> Option<Type> {
        let variable = self.scope.variables.iter().find(|(variable, _)| &**variable == name);
        variable.map(|(_, type_)| type_.clone()).or_else(|| declare::type_value(name).or_else(|| self.other_type(name)).map(Type::type_of))
    }

    fn other_type(&self, name: &str) -> Option<Type> {
        declare::type_without_value(name).filter(|_| !self.scope.device_fields.is_empty())
    }

    /// `a.b.c` as one name, if it is one.
    fn qualified(&self, expr: &Expr) -> Option<(Type, Arc<str>)> {
        let name = qualified_name(expr)?;
        let first = name.split('.').find(|part| !part.is_empty())?;
        let shadowed = self.locals.iter().any(|(local, _)| &**local == first);
        if shadowed && !name.starts_with('.') {
            return None;
        }
        let plain = name.strip_prefix('.').unwrap_or(&name);
        self.global(plain).map(|type_| (type_, plain.into()))
    }

    fn select(&mut self, expr: &mut Expr) {
        let id = expr.id;
        if let Some((type_, name)) = self.qualified(expr) {
            self.set(id, type_);
            expr.kind = Kind::Ident(name);
            return;
        }
        let Kind::Select(select) = &mut expr.kind else { return };
        let Select { operand, field, test_only } = &mut **select;
        let type_ = self.field(id, operand, field, false);
        let type_ = if *test_only { Type::Bool } else { type_ };
        let type_ = self.bindings.substitute(&type_, false);
        self.set(id, type_);
    }

    fn field(&mut self, id: Id, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand_type = self.bindings.substitute(&self.get(operand.id), false);
        let target = operand_type.unwrapped().cloned();
        let is_optional = target.is_some() || optional;
        let target = target.unwrap_or(operand_type);
        let result = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(DEVICE) => match self.scope.device_fields.iter().find(|(name, _)| *name == field) {
                Some((_, type_)) => type_.clone(),
                None => {
                    self.report(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Object(name) => {
                self.report(id, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            Type::Var(_) => {
                self.bindings.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            _ => {
                if !target.is_dyn_or_error() {
                    self.report(id, format!("type '{}' does not support field selection", target.in_messages()));
                }
                Type::Dyn
            }
        };
        if is_optional { Type::optional(result) } else { result }
    }

    fn function(&self, name: &str) -> Option<&'static Function> {
        let name = name.strip_prefix('.').unwrap_or(name);
        declare::function(name).filter(|_| name != "includes" || self.scope.includes)
    }

    fn call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Kind::Call(call) = &mut expr.kind else { return };
        if &*call.function == "_?._" {
            let Call { args, .. } = &mut **call;
            let [operand, field] = args.as_mut_slice() else { return };
            let name = match field.literal() {
                Some(Value::String(name)) => name.clone(),
                _ => return,
            };
            let type_ = self.field(id, operand, &name, true);
            let type_ = self.bindings.substitute(&type_, false);
            self.set(id, type_);
            self.overloads[id as usize] = declare::function("_?._").map(|f| f.overloads.iter().collect()).unwrap_or_default();
            return;
        }
        for arg in &mut call.args {
            self.check(arg);
        }
        if let Some(target) = &mut call.target {
            let namespaced = qualified_name(target).and_then(|prefix| self.function(&format!("{prefix}.{}", call.function)));
            if let Some(function) = namespaced {
                call.function = function.name.into();
                call.target = None;
                self.resolve(id, function, call);
                return;
            }
            self.check(target);
        }
        match self.function(&call.function) {
            Some(function) => {
                call.function = function.name.into();
                self.resolve(id, function, call);
            }
            None => {
                self.set(id, Type::Error);
                let name = call.function.clone();
                self.undeclared(id, &name);
            }
        }
    }

    fn resolve(&mut self, id: Id, function: &'static Function, call: &Call) {
        let member = call.target.is_some();
        let arg_types: Vec<Type> = call.target.iter().chain(&call.args).map(|arg| self.get(arg.id)).collect();
        if matches!(function.name, "_&&_" | "_||_") {
            self.logic(id, function, call, &arg_types);
            return;
        }
        let mut result: Option<Type> = None;
        for overload in function.overloads.iter().filter(|overload| overload.member == member) {
            let fresh: Vec<(char, Type)> = overload.parameters.iter().map(|name| (*name, self.bindings.fresh())).collect();
            let mut instance = |type_: &Type| {
                type_.rewritten(&mut |inner| match inner {
                    Type::Param(name) => fresh.iter().find(|(parameter, _)| parameter == name).map(|(_, variable)| variable.clone()),
                    _ => None,
                })
            };
            let candidates: Vec<Type> = overload.args.iter().map(&mut instance).collect();
            let returned = instance(&overload.result);
            if !self.bindings.all_assignable(&arg_types, &candidates) {
                continue;
            }
            self.overloads[id as usize].push(overload);
            let returned = self.bindings.substitute(&returned, false);
            result = Some(match result {
                None => returned,
                Some(previous) if !previous.is_dyn() && returned != previous => Type::Dyn,
                Some(previous) => previous,
            });
        }
        match result {
            Some(type_) => self.set(id, type_),
            None => {
                self.set(id, Type::Error);
                let mut shown = arg_types.iter().map(|t| self.bindings.substitute(t, true).in_messages());
                let target = if member { shown.next().map(|t| t + ".").unwrap_or_default() } else { String::new() };
                let args: Vec<String> = shown.collect();
                let signature = format!("{target}({})", args.join(", "));
                self.report(id, format!("found no matching overload for '{}' applied to '{signature}'", function.name));
            }
        }
    }

    fn logic(&mut self, id: Id, function: &'static Function, call: &Call, arg_types: &[Type]) {
        let mut good = true;
        for (arg, type_) in call.args.iter().zip(arg_types) {
            if !self.bindings.assignable(type_, &Type::Bool) {
                self.mismatch(arg.id, &Type::Bool, type_);
                good = false;
            }
        }
        self.set(id, if good { Type::Bool } else { Type::Error });
        self.overloads[id as usize] = function.overloads.iter().collect();
    }

    fn assert(&mut self, id: Id, expected: &Type) {
        let found = self.get(id);
        if !self.bindings.assignable(expected, &found) {
            self.mismatch(id, expected, &found);
        }
    }
}

/// `a.b.c` as text, if the expression is nothing else.
fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.to_string()),
        Kind::Select(select) if !select.test_only => Some(format!("{}.{}", qualified_name(&select.operand)?, select.field)),
        _ => None,
    }
}
