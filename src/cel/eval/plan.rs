//! What a checked expression does at run time: chains of selections joined into one lookup, constants folded, patterns
//! compiled, loops with slots for their variables (interpreter/planner.go and decorators.go of cel-go).

use std::sync::Arc;

use super::calls::{CallStep, go_type, resolve};
use crate::cel::ast::{ACCUMULATOR, Call, Comprehension, Expr, Id, Kind};
use crate::cel::check::{Checked, Scope};
use crate::cel::declare;
use crate::cel::value::{Map, Value};

/// One step of the evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) id: Id,
    /// Whether a cost needs its value.
    pub(crate) tracked: bool,
    pub(crate) op: Op,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Const(Value),
    Attribute(Box<Attribute>),
    /// `has(...)`: whether the last qualifier is there.
    Test(Box<Attribute>),
    And(Box<[Step; 2]>),
    Or(Box<[Step; 2]>),
    /// `==`, or `!=` if negated.
    Equal(Box<[Step; 2]>, bool),
    Call(Box<CallStep>),
    /// `a.or(b)`, or `a.orValue(b)` if it unwraps.
    OptionalOr(Box<[Step; 2]>, bool),
    /// `in` with a literal list of simple values.
    Member(Box<Step>, Arc<Map>),
    List(Vec<(Step, bool)>),
    Map(Vec<(Step, Step, bool)>),
    /// An object of a type without values; it only fails.
    Object(Vec<Step>),
    Fold(Box<Fold>),
}

/// A variable or value and the selections and indices applied to it.
#[derive(Clone, Debug)]
pub(crate) struct Attribute {
    id: Id,
    pub(crate) base: Base,
    pub(crate) qualifiers: Vec<Qualifier>,
}

#[derive(Clone, Debug)]
pub(crate) enum Base {
    Variable(usize),
    Local {
        slot: usize,
        /// The accumulator of a list or map under construction, used for the last time: its value is moved.
        take: bool,
    },
    Relative(Step),
    Conditional(Box<(Step, Attribute, Attribute)>),
}

#[derive(Clone, Debug)]
pub(crate) struct Qualifier {
    pub(crate) id: Id,
    pub(crate) optional: bool,
    pub(crate) key: Key,
}

#[derive(Clone, Debug)]
pub(crate) enum Key {
    Const(Value),
    /// Like `Const`, but only whether it is there.
    Test(Value),
    Attribute(Box<Attribute>),
    Computed(Box<Step>),
}

#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) range: Step,
    pub(crate) iter: usize,
    pub(crate) iter2: Option<usize>,
    pub(crate) accu: usize,
    pub(crate) condition: Step,
    pub(crate) step: Step,
    pub(crate) result: Step,
}

/// A whole plan.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) root: Step,
    /// For each slot of a loop variable: what an accumulator starts with.
    pub(crate) inits: Vec<Option<Step>>,
}

/// Makes a plan; the error is the message of cel-go's program construction.
pub(crate) fn plan(expr: &Expr, checked: &Checked, scope: &Scope) -> Result<Plan, String> {
    let mut planner = Planner { checked, scope, locals: Vec::new(), inits: Vec::new(), taking: None };
    let root = planner.plan(expr)?;
    Ok(Plan { root, inits: planner.inits })
}

impl Attribute {
    /// The id of the last qualifier, or its own.
    pub(crate) fn id(&self) -> Id {
        match &self.base {
            Base::Conditional(parts) => {
                let (then, otherwise) = (parts.1.id(), parts.2.id());
                if then == otherwise { then } else { self.id }
            }
            _ => self.qualifiers.last().map_or(self.id, |qualifier| qualifier.id),
        }
    }

    fn qualify(&mut self, qualifier: Qualifier) {
        match &mut self.base {
            Base::Conditional(parts) => {
                parts.1.qualify(qualifier.clone());
                parts.2.qualify(qualifier);
            }
            _ => self.qualifiers.push(qualifier),
        }
    }
}

impl Step {
    fn tracked(mut self) -> Self {
        self.tracked = true;
        self
    }

    pub(super) fn constant(&self) -> Option<&Value> {
        match &self.op {
            Op::Const(value) => Some(value),
            _ => None,
        }
    }
}

struct Planner<'p> {
    checked: &'p Checked,
    scope: &'p Scope,
    locals: Vec<(Arc<str>, usize)>,
    inits: Vec<Option<Step>>,
    /// The slot of the accumulator that the step being planned may take apart.
    taking: Option<usize>,
}

type Planned = Result<Step, String>;

impl Planner<'_> {
    fn plan(&mut self, expr: &Expr) -> Planned {
        let id = expr.id;
        let op = match &expr.kind {
            Kind::Unspecified => return Err("unsupported expr".to_owned()),
            Kind::Literal(value) => Op::Const(value.clone()),
            Kind::Ident(name) => self.ident(id, name)?,
            Kind::Select(select) => {
                let operand = self.plan(&select.operand)?;
                let mut attribute = into_attribute(operand);
                let key = Value::String(select.field.clone());
                let key = if select.test_only { Key::Test(key) } else { Key::Const(key) };
                attribute.qualify(Qualifier { id, optional: false, key });
                if select.test_only { Op::Test(Box::new(attribute)) } else { Op::Attribute(Box::new(attribute)) }
            }
            Kind::Call(call) => self.call(id, call)?,
            Kind::List(elements) => {
                let mut steps = Vec::with_capacity(elements.len());
                for element in elements {
                    steps.push((self.plan(&element.value)?.tracked(), element.optional));
                }
                constant_list(steps)
            }
            Kind::Map(entries) => {
                let mut steps = Vec::with_capacity(entries.len());
                for entry in entries {
                    steps.push((self.plan(&entry.key)?.tracked(), self.plan(&entry.value)?.tracked(), entry.optional));
                }
                constant_map(steps)
            }
            Kind::Struct(object) => {
                let steps: Result<Vec<Step>, String> = object.fields.iter().map(|f| Ok(self.plan(&f.value)?.tracked())).collect();
                Op::Object(steps?)
            }
            Kind::Comprehension(comprehension) => Op::Fold(Box::new(self.fold(comprehension)?)),
        };
        // A lookup forgets what it left behind the last time, so its value always counts.
        let tracked = match &op {
            Op::Attribute(attribute) => !matches!(attribute.base, Base::Conditional(_)),
            Op::Test(_) => true,
            _ => false,
        };
        Ok(Step { id, tracked, op })
    }

    fn ident(&mut self, id: Id, name: &str) -> Result<Op, String> {
        let local = self.locals.iter().rev().find(|(local, _)| &**local == name);
        let base = if let Some((_, slot)) = local {
            Base::Local { slot: *slot, take: self.taking == Some(*slot) }
        } else {
            let name = name.strip_prefix('.').unwrap_or(name);
            match self.scope.variables.iter().position(|(variable, _)| &**variable == name) {
                Some(index) => Base::Variable(index),
                None => match declare::type_value(name) {
                    Some(type_) => return Ok(Op::Const(Value::Type(type_.name().into()))),
                    None => return Err(format!("reference to undefined type: {name}")),
                },
            }
        };
        Ok(Op::Attribute(Box::new(Attribute { id, base, qualifiers: Vec::new() })))
    }

    fn call(&mut self, id: Id, call: &Call) -> Result<Op, String> {
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for arg in call.target.iter().chain(&call.args) {
            args.push(self.plan(arg)?.tracked());
        }
        let function = &*call.function;
        match (function, args.len()) {
            ("_?_:_", 3) => {
                let mut rest = args.split_off(1);
                let otherwise = rest.pop().map(into_attribute);
                let then = rest.pop().map(into_attribute);
                if let (Some(condition), Some(then), Some(otherwise)) = (args.pop(), then, otherwise) {
                    let base = Base::Conditional(Box::new((condition, then, otherwise)));
                    return Ok(Op::Attribute(Box::new(Attribute { id, base, qualifiers: Vec::new() })));
                }
                return Err("no such overload".to_owned());
            }
            ("_[_]", 2) => return index(id, args, false),
            ("_[?_]" | "_?._", 2) => return index(id, args, true),
            _ => {}
        }
        let overloads = self.checked.overloads(id);
        let only = if let [overload] = overloads { Some(*overload) } else { None };
        let args = match pair(args) {
            Ok(pair) => match function {
                "_&&_" => return Ok(Op::And(pair)),
                "_||_" => return Ok(Op::Or(pair)),
                "_==_" => return Ok(Op::Equal(pair, false)),
                "_!=_" => return Ok(Op::Equal(pair, true)),
                "or" if only.is_none_or(|o| o.id == "optional_or_optional") => return Ok(Op::OptionalOr(pair, false)),
                "orValue" if only.is_none_or(|o| o.id == "optional_orValue_value") => return Ok(Op::OptionalOr(pair, true)),
                "@in" if only.is_some_and(|o| o.id == "in_list") => match membership(*pair) {
                    Ok(op) => return Ok(op),
                    Err(args) => args,
                },
                _ => Vec::from(*pair),
            },
            Err(args) => args,
        };
        resolve(function, only, args)
    }

    fn fold(&mut self, comprehension: &Comprehension) -> Result<Fold, String> {
        let Comprehension { range, iter_var, iter_var2, accu_var, accu_init, condition, step, result } = comprehension;
        let accu = self.slot();
        let iter = self.slot();
        let iter2 = iter_var2.as_ref().map(|_| self.slot());
        let outer_taking = self.taking.take();
        self.inits[accu] = Some(self.plan(accu_init)?);
        let range = self.plan(range)?.tracked();
        let outer = self.locals.len();
        self.locals.push((accu_var.clone(), accu));
        // The accumulator hides a loop variable of the same name while looping.
        self.locals.push((iter_var.clone(), iter));
        if let (Some(name), Some(slot)) = (iter_var2, iter2) {
            self.locals.push((name.clone(), slot));
        }
        let condition = self.plan(condition)?;
        let builds = &**accu_var == ACCUMULATOR && matches!(accu_init.kind, Kind::List(_) | Kind::Map(_));
        self.taking = builds.then_some(accu);
        let step = self.plan(step)?;
        self.taking = None;
        self.locals.truncate(outer + 1);
        let result = self.plan(result)?;
        self.locals.truncate(outer);
        self.taking = outer_taking;
        Ok(Fold { range, iter, iter2, accu, condition, step, result })
    }

    fn slot(&mut self) -> usize {
        self.inits.push(None);
        self.inits.len() - 1
    }
}

fn into_attribute(step: Step) -> Attribute {
    match step.op {
        Op::Attribute(attribute) | Op::Test(attribute) => *attribute,
        _ => Attribute { id: step.id, base: Base::Relative(step.tracked()), qualifiers: Vec::new() },
    }
}

fn index(id: Id, mut args: Vec<Step>, optional: bool) -> Result<Op, String> {
    let (Some(index), Some(operand)) = (args.pop(), args.pop()) else { return Err("no such overload".to_owned()) };
    let key = match index.op {
        Op::Const(value @ (Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_))) => Key::Const(value),
        Op::Const(value) => return Err(format!("invalid qualifier type: {}", go_type(&value))),
        Op::Attribute(attribute) => Key::Attribute(attribute),
        Op::Test(attribute) => Key::Attribute(attribute),
        _ => Key::Computed(Box::new(index)),
    };
    let mut attribute = into_attribute(operand);
    attribute.qualify(Qualifier { id, optional, key });
    Ok(Op::Attribute(Box::new(attribute)))
}

fn pair(args: Vec<Step>) -> Result<Box<[Step; 2]>, Vec<Step>> {
    <[Step; 2]>::try_from(args).map(Box::new)
}

/// `x in [literals]` as a lookup in a set; gives the arguments back if the list has other elements.
fn membership([element, list]: [Step; 2]) -> Result<Op, Vec<Step>> {
    let Some(Value::List(values)) = list.constant() else { return Err(vec![element, list]) };
    if values.is_empty() {
        return Ok(Op::Const(Value::Bool(false)));
    }
    let simple = |value: &Value| matches!(value, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_));
    if !values.iter().all(simple) {
        return Err(vec![element, list]);
    }
    let set = Map::new(values.iter().map(|value| (value.clone(), Value::Bool(true))).collect());
    Ok(Op::Member(Box::new(element), Arc::new(set)))
}

fn constant_list(steps: Vec<(Step, bool)>) -> Op {
    if steps.iter().all(|(step, optional)| step.constant().is_some() && !optional) {
        return Op::Const(Value::list(steps.iter().filter_map(|(step, _)| step.constant().cloned()).collect()));
    }
    Op::List(steps)
}

fn constant_map(steps: Vec<(Step, Step, bool)>) -> Op {
    let constant = |step: &Step| step.constant().is_some_and(Value::is_hashable);
    if steps.iter().all(|(key, value, optional)| constant(key) && value.constant().is_some() && !optional) {
        let entries = steps.iter().filter_map(|(key, value, _)| Some((key.constant()?.clone(), value.constant()?.clone())));
        return Op::Const(Value::Map(Arc::new(Map::new(entries.collect()))));
    }
    Op::Map(steps)
}
