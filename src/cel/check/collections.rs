//! Literal lists, maps and messages, and loops.

use super::Checker;
use super::unify::most_general;
use crate::cel::ast::{Comprehension, Element, Entry, Id, Struct};
use crate::cel::declare;
use crate::cel::types::Type;

impl Checker<'_> {
    /// The type of the value in an optional element; reports if it is none.
    fn unwrapped(&mut self, id: Id, type_: Type, optional: bool) -> Type {
        if !optional {
            return type_;
        }
        match type_.unwrapped() {
            Some(inner) => inner.clone(),
            None => {
                if !type_.is_dyn() {
                    self.mismatch(id, &Type::optional(type_.clone()), &type_);
                }
                type_
            }
        }
    }

    /// The common type of two elements of a literal.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Option<Type> {
        Some(match previous {
            None => current,
            Some(previous) if self.bindings.assignable(&previous, &current) => most_general(&previous, &current),
            Some(_) => Type::Dyn,
        })
    }

    pub(super) fn list(&mut self, id: Id, elements: &mut [Element]) {
        let mut common = None;
        for element in elements {
            self.check(&mut element.value);
            let type_ = self.get(element.value.id);
            let type_ = self.unwrapped(element.value.id, type_, element.optional);
            common = self.join(common, type_);
        }
        let common = common.unwrap_or_else(|| self.bindings.fresh());
        self.set(id, Type::list(common));
    }

    pub(super) fn map(&mut self, id: Id, entries: &mut [Entry]) {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let key = self.get(entry.key.id);
            keys = self.join(keys, key);
            self.check(&mut entry.value);
            let value = self.get(entry.value.id);
            let value = self.unwrapped(entry.value.id, value, entry.optional);
            values = self.join(values, value);
        }
        let keys = keys.unwrap_or_else(|| self.bindings.fresh());
        let values = values.unwrap_or_else(|| self.bindings.fresh());
        self.set(id, Type::map(keys, values));
    }

    pub(super) fn object(&mut self, id: Id, object: &mut Struct) {
        let name = object.name.strip_prefix('.').unwrap_or(&object.name).to_owned();
        let known = self.other_type(&name).or_else(|| declare::type_value(&name));
        match known {
            Some(type_ @ Type::Object(_)) => self.set(id, type_),
            Some(type_) => {
                let message = format!("'{type_}' is not a message type");
                self.report(id, message);
                self.set(id, Type::Error);
            }
            None => {
                let name = object.name.clone();
                self.undeclared(id, &name);
                self.set(id, Type::Error);
                return;
            }
        }
        for field in &mut object.fields {
            self.check(&mut field.value);
            let expected = match self.scope.device_fields.iter().find(|(known, _)| *known == &*field.name) {
                Some((_, type_)) => type_.clone(),
                None => {
                    self.report(field.id, format!("undefined field '{}'", field.name));
                    Type::Error
                }
            };
            let value = self.get(field.value.id);
            let value = self.unwrapped(field.value.id, value, field.optional);
            if !self.bindings.assignable(&expected, &value) {
                let (name, expected, value) = (&field.name, expected.in_messages(), value.in_messages());
                let message = format!("expected type of field '{name}' is '{expected}' but provided type is '{value}'");
                self.report(field.id, message);
            }
        }
    }

    pub(super) fn comprehension(&mut self, id: Id, comprehension: &mut Comprehension) {
        let Comprehension { range, iter_var, iter_var2, accu_var, accu_init, condition, step, result } = comprehension;
        self.check(range);
        self.check(accu_init);
        let range_type = self.bindings.substitute(&self.get(range.id), false);
        let accu_type = self.get(accu_init.id);
        let outer = self.locals.len();
        self.locals.push((accu_var.clone(), accu_type.clone()));
        let two = iter_var2.is_some();
        let (first, second) = match &range_type {
            Type::List(element) if two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.bindings.assignable(&Type::Dyn, &range_type);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.in_messages()
                );
                self.report(range.id, message);
                (Type::Error, Type::Error)
            }
        };
        let inner = self.locals.len();
        self.locals.push((iter_var.clone(), first));
        if let Some(name) = iter_var2 {
            self.locals.push((name.clone(), second));
        }
        self.check(condition);
        self.assert(condition.id, &Type::Bool);
        self.check(step);
        self.assert(step.id, &accu_type);
        self.locals.truncate(inner);
        self.check(result);
        self.locals.truncate(outer);
        let type_ = self.bindings.substitute(&self.get(result.id), false);
        self.set(id, type_);
    }
}
