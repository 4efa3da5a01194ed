//! Compiles expressions and evaluates them.

use std::sync::Arc;

use k8s_openapi::api::resource::v1::DeviceAttribute;
use serde_json::Value as Json;

use super::ast::{Expr, Ids};
use super::check::{Scope, check, validate::validate};
use super::device::{DeviceInput, to_attribute};
use super::eval::{
    self, Observer,
    plan::{Plan, plan},
};
use super::outline::{Part, outline};
use super::source::Source;
use super::stack::{NO_ROOM, with_room};
use super::trace::{Trace, TraceStep, TraceValue};
use super::types::{DEVICE, Type};
use super::value::{Fault, Value};
use super::{CompileError, Environment, EvalError, Purpose, cost, parser};

/// The limit of estimated and actual cost of a device selector.
pub const MAX_COST: u64 = 1_000_000;
/// The greatest length of an expression, in bytes.
pub const MAX_LENGTH: usize = 10_240;
/// Conditions look at whole objects; they may cost more.
const MAX_CONDITION_COST: u64 = 2_000_000;

/// A compiled expression. Copies share everything.
#[derive(Clone, Debug)]
pub struct Program {
    compiled: Arc<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    source: Source,
    ids: Ids,
    plan: Plan,
    estimated_cost: u64,
    variables: Vec<Arc<str>>,
    /// Whether evaluating it needs a large stack.
    deep: bool,
}

/// What an expression has to give.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// bool, or what attributes are.
    Verdict,
    /// A value that an attribute can have; lists if `true`.
    Attribute(bool),
    /// bool or dyn.
    Condition,
}

impl Program {
    /// Compiles a device selector (must be bool, or any/dyn). Length and estimated cost are not judged here.
    pub fn compile_selector(expression: &str, environment: Environment) -> Result<Self, CompileError> {
        Self::compile(expression, device_scope(environment), Output::Verdict)
    }

    /// Compiles a derived attribute (string, int, bool, semver or dyn; lists of these in the stored environment or with
    /// list attributes).
    pub fn compile_derived(expression: &str, environment: Environment) -> Result<Self, CompileError> {
        let lists = environment.purpose == Purpose::Stored || environment.list_type_attributes;
        Self::compile(expression, device_scope(environment), Output::Attribute(lists))
    }

    /// Compiles a condition over JSON values bound to `variables` (all of type dyn), for lesson checks and waits.
    pub fn compile_condition(expression: &str, variables: &[&str]) -> Result<Self, CompileError> {
        let variables = variables.iter().map(|name| (Arc::from(*name), Type::Dyn)).collect();
        Self::compile(expression, Scope { variables, device_fields: Vec::new(), includes: true }, Output::Condition)
    }

    fn compile(expression: &str, scope: Scope, output: Output) -> Result<Self, CompileError> {
        with_room(may_be_deep(expression), || Self::compile_here(expression, scope, output))
            .unwrap_or_else(|| Err(CompileError { message: NO_ROOM.to_owned() }))
    }

    fn compile_here(expression: &str, scope: Scope, output: Output) -> Result<Self, CompileError> {
        let source = Source::new(expression);
        let parser::Parsed { mut expr, ids } = parser::parse(&source).map_err(|issues| source.failure(issues))?;
        let checked = check(&mut expr, &ids, &scope).map_err(|issues| source.failure(issues))?;
        let complaints = validate(&expr, &ids, &checked);
        if !complaints.is_empty() {
            return Err(source.failure(complaints));
        }
        judge_output(checked.type_of(expr.id), output, &scope)?;
        let plan =
            plan(&expr, &checked, &scope).map_err(|reason| CompileError { message: format!("program instantiation failed: {reason}") })?;
        let estimated_cost = cost::estimate(&expr, &checked, &scope);
        let variables = scope.variables.into_iter().map(|(name, _)| name).collect();
        Ok(Self { compiled: Arc::new(Compiled { source, ids, plan, estimated_cost, variables, deep: depth(&expr) > SHALLOW }) })
    }

    /// The parts of a device selector, also of one that does not compile as far as it is CEL at all; `None` if it is not, or is
    /// too deep or large to be walked.
    #[must_use]
    pub fn outline(expression: &str, environment: Environment) -> Option<Part> {
        with_room(may_be_deep(expression), || outline(&Source::new(expression), &device_scope(environment))).flatten()
    }

    /// The cost estimate of cel-go; `u64::MAX` when unbounded.
    #[must_use]
    pub fn estimated_cost(&self) -> u64 {
        self.compiled.estimated_cost
    }

    fn run(&self, variables: &[Value], limit: u64, observer: Option<Observer<'_>>) -> (Result<Value, Fault>, u64) {
        let plan = &self.compiled.plan;
        if !self.compiled.deep {
            return eval::run(plan, variables, limit, observer);
        }
        with_room(true, || eval::run(plan, variables, limit, observer)).unwrap_or_else(|| (Err(Fault::Abort(NO_ROOM.into())), 0))
    }

    fn run_on(&self, device: &DeviceInput) -> (Result<Value, EvalError>, u64) {
        match &device.value {
            Ok(variables) => {
                let (result, cost) = self.run(variables, MAX_COST, None);
                (result.map_err(|fault| EvalError::from(&fault)), cost)
            }
            Err(message) => (Err(EvalError { message: message.clone() }), 0),
        }
    }

    /// Evaluates a selector on a device: the verdict and the actual cost.
    pub fn matches(&self, device: &DeviceInput) -> (Result<bool, EvalError>, u64) {
        let (result, cost) = self.run_on(device);
        (result.and_then(|value| verdict(&value)), cost)
    }

    /// Evaluates a derived attribute on a device.
    pub fn derive(&self, device: &DeviceInput) -> (Result<DeviceAttribute, EvalError>, u64) {
        let (result, cost) = self.run_on(device);
        (result.and_then(|value| to_attribute(&value).map_err(|message| EvalError { message })), cost)
    }

    /// Evaluates on a device and keeps what every part of the expression came to.
    #[must_use]
    pub fn trace(&self, device: &DeviceInput) -> Trace {
        let Compiled { source, ids, .. } = &*self.compiled;
        let mut steps = Vec::new();
        let mut observe = |id, result: &Result<Value, Fault>| {
            if let Some(span) = ids.extent(id) {
                let result = result.as_ref().map(TraceValue::from).map_err(|fault| fault.message().to_owned());
                let step = TraceStep { span, text: source.text(span), result };
                // The last selection of a chain is seen twice, as a selection and as the value of the chain.
                if steps.last() != Some(&step) {
                    steps.push(step);
                }
            }
        };
        let (result, cost) = match &device.value {
            Ok(variables) => self.run(variables, MAX_COST, Some(&mut observe)),
            Err(message) => (Err(Fault::error(message.as_str())), 0),
        };
        let result = result.as_ref().map(TraceValue::from).map_err(|fault| fault.message().to_owned());
        Trace { steps, result, cost }
    }

    /// Evaluates a condition over JSON values. A result that is not bool is an error.
    pub fn holds(&self, bindings: &[(&str, &Json)]) -> Result<bool, EvalError> {
        let mut values = Vec::with_capacity(self.compiled.variables.len());
        for name in &self.compiled.variables {
            let bound = bindings.iter().find(|(bound, _)| *bound == &**name);
            values.push(bound.map_or(Value::Null, |(_, json)| Value::from(*json)));
        }
        let (result, _) = self.run(&values, MAX_CONDITION_COST, None);
        verdict(&result.map_err(|fault| EvalError::from(&fault))?)
    }
}

/// Levels that any stack has room for.
const SHALLOW: usize = 48;

/// Whether the syntax tree of a text could be deep: many brackets open at once, or simply many operators.
fn may_be_deep(expression: &str) -> bool {
    let (mut open, mut most, mut marks) = (0_usize, 0, 0);
    for byte in expression.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'.' | b'?' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' => marks += 1,
            _ => {}
        }
        most = most.max(open);
    }
    most + marks > SHALLOW
}

pub(super) fn depth(expr: &Expr) -> usize {
    let mut below = 0;
    expr.for_children(&mut |child| below = below.max(depth(child)));
    below + 1
}

const HINT: &str = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields";

impl From<&Fault> for EvalError {
    fn from(fault: &Fault) -> Self {
        let message = fault.message();
        let hint = if message.contains("no such key:") { HINT } else { "" };
        Self { message: format!("{message}{hint}") }
    }
}

fn verdict(value: &Value) -> Result<bool, EvalError> {
    let mut inner = value;
    while let Value::Optional(Some(value)) = inner {
        inner = value;
    }
    if let Value::Bool(verdict) = inner {
        return Ok(*verdict);
    }
    let reason = match inner {
        Value::Optional(_) => "optional.none() dereference".to_owned(),
        other => format!("unsupported native conversion from {} to 'bool'", other.type_name()),
    };
    Err(EvalError { message: format!("CEL result of type {} could not be converted to bool: {reason}", value.type_name()) })
}

/// The device variable and its type. Stored expressions see every field there ever was.
fn device_scope(environment: Environment) -> Scope {
    let stored = environment.purpose == Purpose::Stored;
    let lists = stored || environment.list_type_attributes;
    let attribute = if lists { Type::Dyn } else { Type::Any };
    let domains = |value: Type| Type::map(Type::String, Type::map(Type::String, value));
    let mut device_fields =
        vec![("driver", Type::String), ("attributes", domains(attribute)), ("capacity", domains(Type::Object("kubernetes.Quantity")))];
    if stored || environment.consumable_capacity {
        device_fields.push(("allowMultipleAllocations", Type::Bool));
    }
    Scope { variables: vec![("device".into(), Type::Object(DEVICE))], device_fields, includes: lists }
}

fn judge_output(found: &Type, output: Output, scope: &Scope) -> Result<(), CompileError> {
    let scalar =
        |type_: &Type| matches!(type_, Type::Bool | Type::Int | Type::String | Type::Any | Type::Dyn | Type::Object("kubernetes.Semver"));
    let (good, message) = match output {
        Output::Verdict => {
            let attribute = scope.device_fields.iter().find(|(name, _)| *name == "attributes");
            let unknown = match attribute {
                Some((_, Type::Map(_, ids))) => match &**ids {
                    Type::Map(_, value) => **value == *found,
                    _ => false,
                },
                _ => false,
            };
            (*found == Type::Bool || unknown, format!("must evaluate to bool or the unknown type, not {found}"))
        }
        Output::Condition => (matches!(found, Type::Bool | Type::Dyn), format!("must evaluate to bool, not {found}")),
        Output::Attribute(lists) => {
            let good = scalar(found) || (lists && matches!(found, Type::List(element) if scalar(element)));
            let or_list = if lists { " or a list of these scalars" } else { "" };
            (good, format!("must evaluate to a primitive scalar (string, integer, boolean, semver){or_list}, not {found}"))
        }
    };
    if good { Ok(()) } else { Err(CompileError { message }) }
}
