//! Runs a plan, counting its cost as cel-go does and stopping at the limit (interpreter/interpretable.go, attributes.go,
//! runtimecost.go).

mod calls;
mod lookup;
pub(crate) mod plan;
mod tracker;

use std::sync::Arc;

use self::calls::CallStep;
use self::plan::{Fold, Op, Plan, Step};
use self::tracker::Tracker;
use super::ast::Id;
use super::lib;
use super::value::{Fault, Map, Value, equal};

pub(super) type Answer = Result<Value, Fault>;

/// Receives the value of every node that is evaluated, in order.
pub(crate) type Observer<'o> = &'o mut (dyn FnMut(Id, &Answer) + Send);

/// Runs `plan` with the given variables: the result and the cost.
pub(crate) fn run(plan: &Plan, variables: &[Value], limit: u64, observer: Option<Observer<'_>>) -> (Answer, u64) {
    let mut machine = Machine { plan, variables, locals: Vec::new(), tracker: Tracker::new(limit), observer };
    machine.locals.resize_with(plan.inits.len(), || None);
    let result = machine.eval(&plan.root);
    (result, machine.tracker.cost)
}

struct Machine<'m, 'o> {
    plan: &'m Plan,
    variables: &'m [Value],
    /// Loop variables; an accumulator is empty until something reads it.
    locals: Vec<Option<Answer>>,
    tracker: Tracker,
    observer: Option<Observer<'o>>,
}

impl Machine<'_, '_> {
    /// Evaluates a step and accounts for it.
    fn eval(&mut self, step: &Step) -> Answer {
        let result = match &step.op {
            Op::Const(value) => Ok(value.clone()),
            Op::Attribute(attribute) => return self.attribute(step, attribute, false),
            Op::Test(attribute) => return self.attribute(step, attribute, true),
            Op::And(terms) => self.logic(terms, false),
            Op::Or(terms) => self.logic(terms, true),
            Op::Equal(sides, negated) => return self.equality(step, sides, *negated),
            Op::Call(call) => return self.call(step, call),
            Op::OptionalOr(sides, unwraps) => self.optional_or(sides, *unwraps),
            Op::Member(element, set) => self.member(element, set),
            Op::List(elements) => self.list(elements),
            Op::Map(entries) => self.map(entries),
            Op::Object(fields) => self.object(fields),
            Op::Fold(fold) => self.fold(fold),
        };
        if let Err(Fault::Abort(_)) = result {
            return result;
        }
        match &step.op {
            Op::And(terms) | Op::Or(terms) => terms.iter().for_each(|term| self.tracker.drop(term.id)),
            Op::Fold(fold) => self.tracker.drop(fold.range.id),
            Op::List(elements) => {
                self.tracker.take(elements.iter().map(|(element, _)| element.id));
                self.tracker.cost += 10;
            }
            Op::Map(entries) => {
                self.tracker.take(entries.iter().flat_map(|(key, value, _)| [key.id, value.id]));
                self.tracker.cost += 30;
            }
            Op::Object(fields) => {
                self.tracker.take(fields.iter().map(|field| field.id));
                self.tracker.cost += 40;
            }
            _ => {}
        }
        self.finish(step, result)
    }

    /// Leaves the value for the cost of the parent, tells the observer and looks at the limit.
    fn finish(&mut self, step: &Step, result: Answer) -> Answer {
        if step.tracked {
            self.tracker.push(step.id, result.as_ref().ok());
        }
        self.observe(step.id, &result);
        self.tracker.check()?;
        result
    }

    fn observe(&mut self, id: Id, result: &Answer) {
        if let Some(observer) = &mut self.observer {
            observer(id, result);
        }
    }

    /// `&&` and `||`: one decisive term (`decisive`) absorbs the errors of the others.
    fn logic(&mut self, terms: &[Step; 2], decisive: bool) -> Answer {
        let mut error = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    error.get_or_insert_with(Fault::no_such_overload);
                }
                Err(abort @ Fault::Abort(_)) => return Err(abort),
                Err(fault) => {
                    error.get_or_insert(fault);
                }
            }
        }
        error.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn equality(&mut self, step: &Step, sides: &[Step; 2], negated: bool) -> Answer {
        let left = self.eval(&sides[0]);
        if let Err(Fault::Abort(_)) = left {
            return left;
        }
        let result = match (left, self.eval(&sides[1])) {
            (_, Err(abort @ Fault::Abort(_))) => return Err(abort),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            (Ok(left), Ok(right)) => match equal(&left, &right) {
                // What cannot be compared is not equal.
                Err(_) if negated => Ok(Value::Bool(true)),
                compared => compared.map(|same| Value::Bool(same != negated)),
            },
        };
        self.tracker.equality([sides[0].id, sides[1].id], negated);
        self.finish(step, result)
    }

    fn call(&mut self, step: &Step, call: &CallStep) -> Answer {
        let mut values = Vec::with_capacity(call.args.len());
        let mut fault = None;
        for arg in &call.args {
            match self.eval(arg) {
                Ok(value) => values.push(value),
                Err(abort @ Fault::Abort(_)) => return Err(abort),
                Err(error) => {
                    fault.get_or_insert(error);
                    if call.stops {
                        break;
                    }
                }
            }
        }
        let result = match fault {
            // The condition of a loop goes on with errors.
            Some(_) if call.function == "@not_strictly_false" => Ok(Value::Bool(true)),
            Some(fault) => Err(fault),
            None if call.function == "@not_strictly_false" => match values.pop() {
                Some(value @ Value::Bool(_)) => Ok(value),
                _ => Ok(Value::Bool(true)),
            },
            None => invoke(call, values),
        };
        if let Err(Fault::Abort(_)) = result {
            return result;
        }
        self.tracker.call(call, &result)?;
        self.finish(step, result)
    }

    fn optional_or(&mut self, sides: &[Step; 2], unwraps: bool) -> Answer {
        match self.eval(&sides[0])? {
            Value::Optional(Some(value)) if unwraps => Ok((*value).clone()),
            value @ Value::Optional(Some(_)) => Ok(value),
            Value::Optional(None) => self.eval(&sides[1]),
            _ => Err(Fault::no_such_overload()),
        }
    }

    fn member(&mut self, element: &Step, set: &Map) -> Answer {
        let value = self.eval(element)?;
        if !value.is_hashable() {
            let message = format!("internal error: runtime error: hash of unhashable type {}", calls::go_type(&value));
            return Err(Fault::Abort(message.into()));
        }
        Ok(Value::Bool(set.get(&value).is_some()))
    }

    fn list(&mut self, elements: &[(Step, bool)]) -> Answer {
        let mut values = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            match (self.eval(element)?, optional) {
                (value, false) => values.push(value),
                (Value::Optional(value), true) => values.extend(value.map(|value| (*value).clone())),
                (other, true) => {
                    return Err(Fault::error(format!("cannot initialize optional list element from non-optional value {other}")));
                }
            }
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &[(Step, Step, bool)]) -> Answer {
        let mut map = Map::default();
        for (key, value, optional) in entries {
            let key = self.eval(key)?;
            let value = self.eval(value)?;
            let value = match (value, optional) {
                (value, false) => value,
                (Value::Optional(Some(value)), true) => (*value).clone(),
                (Value::Optional(None), true) => {
                    map.remove(&key);
                    continue;
                }
                (other, true) => {
                    return Err(Fault::error(format!("cannot initialize optional entry '{key}' from non-optional value {other}")));
                }
            };
            if !key.is_hashable() {
                let message = format!("internal error: runtime error: hash of unhashable type {}", calls::go_type(&key));
                return Err(Fault::Abort(message.into()));
            }
            map.insert(key, value);
        }
        Ok(Value::Map(Arc::new(map)))
    }

    /// The device type is known to the checker only.
    fn object(&mut self, fields: &[Step]) -> Answer {
        for field in fields {
            self.eval(field)?;
        }
        Err(Fault::error(format!("unknown type '{}'", super::types::DEVICE)))
    }

    fn fold(&mut self, fold: &Fold) -> Answer {
        if let Some(slot) = self.locals.get_mut(fold.accu) {
            *slot = None;
        }
        match (self.eval(&fold.range)?, fold.iter2) {
            (Value::List(values), None) => {
                for value in values.iter() {
                    if !self.iterate(fold, value.clone(), None)? {
                        break;
                    }
                }
            }
            (Value::List(values), Some(_)) => {
                for (index, value) in values.iter().enumerate() {
                    if !self.iterate(fold, Value::Int(index as i64), Some(value.clone()))? {
                        break;
                    }
                }
            }
            (Value::Map(map), second) => {
                for (key, value) in map.iter() {
                    if !self.iterate(fold, key.clone(), second.map(|_| value.clone()))? {
                        break;
                    }
                }
            }
            (other, None) => return Err(Fault::error(format!("got '{}', expected iterable type", calls::go_type(&other)))),
            (other, Some(_)) => return Err(Fault::error(format!("unsupported comprehension range type: {}", calls::go_type(&other)))),
        }
        self.eval(&fold.result)
    }

    /// One round of a loop; false at its end.
    fn iterate(&mut self, fold: &Fold, first: Value, second: Option<Value>) -> Result<bool, Fault> {
        self.locals[fold.iter] = Some(Ok(first));
        if let (Some(slot), Some(second)) = (fold.iter2, second) {
            self.locals[slot] = Some(Ok(second));
        }
        match self.eval(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(abort @ Fault::Abort(_)) => return Err(abort),
            _ => {}
        }
        let next = self.eval(&fold.step);
        if let Err(abort @ Fault::Abort(_)) = next {
            return Err(abort);
        }
        self.locals[fold.accu] = Some(next);
        Ok(true)
    }
}

/// Calls with values of its own, so that lists and maps under construction grow in place.
fn invoke(call: &CallStep, mut values: Vec<Value>) -> Answer {
    if call.function == "_+_"
        && let [Value::List(left), Value::List(right)] = values.as_mut_slice()
    {
        let mut left = std::mem::take(left);
        Arc::make_mut(&mut left).extend(right.iter().cloned());
        return Ok(Value::List(left));
    }
    if call.function == "cel.@mapInsert"
        && let [Value::Map(map), rest @ ..] = values.as_mut_slice()
    {
        let map = std::mem::take(map);
        return match rest {
            [key, value] => lib::insert_into(map, std::iter::once((&*key, &*value))),
            [Value::Map(more)] => lib::insert_into(map, more.iter().map(|(key, value)| (key, value))),
            _ => Err(Fault::error("no such overload: cel.@mapInsert")),
        };
    }
    calls::run(call.function, &call.callee, &values)
}
