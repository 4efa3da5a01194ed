//! Variables and the selections and indices applied to them.

use super::plan::{Attribute, Base, Key, Qualifier, Step};
use super::{Answer, Machine, calls};
use crate::cel::value::{Fault, Value};

/// A value and whether some qualifier on the way was optional.
type Found = (Value, bool);

impl Machine<'_, '_> {
    pub(super) fn attribute(&mut self, step: &Step, attribute: &Attribute, test: bool) -> Answer {
        let result = match self.resolve(attribute) {
            Err(abort @ Fault::Abort(_)) => return Err(abort),
            Ok(Value::Optional(value)) if test => Ok(Value::Bool(value.is_some())),
            result => result,
        };
        match &attribute.base {
            Base::Conditional(parts) => {
                for id in [parts.2.id(), parts.1.id(), parts.0.id] {
                    self.tracker.drop(id);
                }
            }
            _ => {
                self.tracker.drop(attribute.id());
                self.tracker.cost += 1;
            }
        }
        if test {
            self.tracker.cost = self.tracker.cost.wrapping_sub(1);
        }
        if matches!(attribute.base, Base::Local { take: true, .. }) {
            // A second owner would make the accumulator be copied.
            if step.tracked {
                self.tracker.push(step.id, None);
            }
            self.observe(step.id, &result);
            self.tracker.check()?;
            return result;
        }
        self.finish(step, result)
    }

    fn resolve(&mut self, attribute: &Attribute) -> Answer {
        let start = match &attribute.base {
            Base::Variable(index) => self.variables.get(*index).cloned().ok_or_else(|| Fault::error("no such attribute(s)"))?,
            Base::Local { slot, take } => self.local(*slot, *take && attribute.qualifiers.is_empty())?,
            Base::Relative(step) => self.eval(step)?,
            Base::Conditional(parts) => {
                return match self.eval(&parts.0)? {
                    Value::Bool(true) => self.resolve(&parts.1),
                    Value::Bool(false) => self.resolve(&parts.2),
                    _ => Err(Fault::no_such_overload()),
                };
            }
        };
        if attribute.qualifiers.is_empty() {
            return Ok(start);
        }
        let (value, optional) = self.qualify_all(start, &attribute.qualifiers)?;
        Ok(if optional { Value::some(value) } else { value })
    }

    fn local(&mut self, slot: usize, take: bool) -> Answer {
        if self.locals.get(slot).is_some_and(Option::is_none)
            && let Some(init) = self.plan.inits.get(slot).and_then(Option::as_ref)
        {
            // What `cel.bind` names is computed when it is read first.
            let value = self.eval(init);
            if let Err(abort @ Fault::Abort(_)) = value {
                return Err(abort);
            }
            self.locals[slot] = Some(value);
        }
        let missing = || Err(Fault::error("no such attribute(s)"));
        match self.locals.get_mut(slot) {
            Some(local) if take => local.take().unwrap_or_else(missing),
            Some(Some(value)) => value.clone(),
            _ => missing(),
        }
    }

    fn qualify_all(&mut self, start: Value, qualifiers: &[Qualifier]) -> Result<Found, Fault> {
        let (mut value, mut optional) = match start {
            Value::Optional(None) => return Ok((Value::Optional(None), false)),
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            other => (other, false),
        };
        for (index, qualifier) in qualifiers.iter().enumerate() {
            optional = optional || qualifier.optional;
            let last = index + 1 == qualifiers.len();
            match self.qualify(&value, qualifier, optional, last)? {
                Some(next) => value = next,
                None => return Ok((Value::Optional(None), false)),
            }
        }
        Ok((value, optional))
    }

    /// Applies one qualifier; `None` if it is optional and not there.
    fn qualify(&mut self, value: &Value, qualifier: &Qualifier, optional: bool, last: bool) -> Result<Option<Value>, Fault> {
        let computed;
        let (key, test) = match &qualifier.key {
            Key::Const(key) => (Ok(key), false),
            Key::Test(key) => (Ok(key), true),
            Key::Attribute(attribute) => {
                computed = self.resolve(attribute).and_then(usable);
                (computed.as_ref(), false)
            }
            Key::Computed(step) => {
                computed = self.eval(step).and_then(usable);
                (computed.as_ref(), false)
            }
        };
        let found = match key {
            Err(Fault::Abort(message)) => return Err(Fault::Abort(message.clone())),
            Err(fault) => Err(fault.clone()),
            Ok(key) if test => find(value, key).map(|found| {
                // Below an optional, `has` finds the value itself.
                if optional { found } else { Some(Value::Bool(found.is_some())) }
            }),
            Ok(key) => find(value, key).and_then(|found| match found {
                None if !optional => Err(missing(value, key)),
                found => Ok(found),
            }),
        };
        // What is optional and missing is not accounted for.
        if !optional || matches!(found, Ok(Some(_))) {
            if let Key::Computed(_) = qualifier.key {
                self.tracker.drop(qualifier.id);
            }
            self.tracker.cost += 1;
            if last {
                // Nothing asks for those before.
                self.tracker.push(qualifier.id, found.as_ref().ok().and_then(Option::as_ref));
            }
            if let Some(observer) = &mut self.observer {
                let answer = match &found {
                    Ok(found) => Ok(found.clone().unwrap_or(Value::Optional(None))),
                    Err(fault) => Err(fault.clone()),
                };
                observer(qualifier.id, &answer);
            }
            self.tracker.check()?;
        }
        found
    }
}

/// Only simple values can be keys.
fn usable(key: Value) -> Answer {
    match key {
        Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_) => Ok(key),
        other => Err(Fault::error(format!("invalid qualifier type: {}", calls::go_type(&other)))),
    }
}

/// What a key or index leads to.
fn find(value: &Value, key: &Value) -> Result<Option<Value>, Fault> {
    match value {
        Value::Map(map) => Ok(map.find(key)),
        Value::List(values) => {
            let index = match key {
                Value::Int(index) => Some(*index),
                Value::Uint(index) => i64::try_from(*index).ok(),
                Value::Double(index) if index.fract() == 0.0 && index.abs() < 9.2e18 => Some(*index as i64),
                Value::Double(_) => None,
                other => {
                    return Err(Fault::error(format!("unsupported index type '{}' in list", other.type_name())));
                }
            };
            let Some(index) = index else { return Err(Fault::error(format!("unsupported index value {key} in list"))) };
            Ok(usize::try_from(index).ok().and_then(|index| values.get(index)).cloned())
        }
        _ => Ok(None),
    }
}

fn missing(value: &Value, key: &Value) -> Fault {
    match value {
        Value::List(_) => Fault::error(format!("index out of bounds: {key}")),
        _ => Fault::no_such_key(key),
    }
}
