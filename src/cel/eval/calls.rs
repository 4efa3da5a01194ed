//! Calls of functions: which implementation they mean, and running it.

use super::plan::{Op, Step};
use crate::cel::declare::{self, Function, Overload};
use crate::cel::lib::{self, Native, Pattern};
use crate::cel::value::{Fault, Value};

#[derive(Clone, Debug)]
pub(crate) struct CallStep {
    pub(crate) function: &'static str,
    /// The overload, if only one is possible.
    pub(crate) overload: &'static str,
    pub(crate) args: Vec<Step>,
    pub(crate) callee: Callee,
    /// Stop at the first argument that fails; calls with two arguments evaluate both.
    pub(crate) stops: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// One implementation for all types.
    Operator(Native),
    /// One overload, behind a check of its arguments.
    Overload(Native, &'static Overload),
    /// The first overload that the arguments fit.
    Dispatch(&'static Function),
    Pattern(Pattern),
    /// The arguments are literals: the result, computed beforehand. It costs as if it were computed each time.
    Known(Result<Value, Fault>),
    Missing,
}

/// Plans a call: what implements it, or its value if that is known already.
pub(super) fn resolve(function: &str, only: Option<&'static Overload>, args: Vec<Step>) -> Result<Op, String> {
    let Some(declared) = declare::function(function) else { return Err(format!("no such overload: {function}")) };
    let name = declared.name;
    let single = if let [overload] = declared.overloads.as_slice() { Some(overload) } else { None };
    let callee = match lib::operator(name) {
        Some(native) => Callee::Operator(native),
        None => match only.or(single).map(|overload| (lib::native(overload.id), overload)) {
            Some((Some(native), overload)) => Callee::Overload(native, overload),
            Some((None, _)) => Callee::Missing,
            None => Callee::Dispatch(declared),
        },
    };
    if is_conversion(name)
        && let [arg] = args.as_slice()
        && let Some(value) = arg.constant()
    {
        return run(name, &callee, std::slice::from_ref(value)).map(Op::Const).map_err(|fault| fault.message().to_owned());
    }
    let callee = match known(name, &callee, &args) {
        Some(result) => Callee::Known(result),
        None => callee,
    };
    let pattern = match (name, args.get(1).and_then(Step::constant)) {
        ("matches" | "find" | "findAll", Some(Value::String(pattern))) => Some(Pattern::new(pattern)?),
        _ => None,
    };
    let stops =
        args.len() > 2 || pattern.is_some() || matches!(callee, Callee::Dispatch(_)) || only.is_some_and(|o| o.id == "string_format");
    let callee = pattern.map_or(callee, Callee::Pattern);
    Ok(Op::Call(Box::new(CallStep { function: name, overload: only.map_or("", |overload| overload.id), args, callee, stops })))
}

/// The result of reading a literal, such as `quantity("10Gi")`.
fn known(name: &str, callee: &Callee, args: &[Step]) -> Option<Result<Value, Fault>> {
    if !matches!(name, "quantity" | "isQuantity" | "semver" | "isSemver" | "ip" | "isIP" | "cidr" | "isCIDR" | "url" | "isURL") {
        return None;
    }
    let values: Option<Vec<Value>> = args.iter().map(|arg| arg.constant().cloned()).collect();
    values.map(|values| run(name, callee, &values))
}

/// Functions that are evaluated beforehand when their argument is a constant.
fn is_conversion(name: &str) -> bool {
    matches!(name, "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint")
}

/// Calls a function with values.
pub(crate) fn run(function: &str, callee: &Callee, args: &[Value]) -> Result<Value, Fault> {
    match callee {
        Callee::Operator(native) => native(args),
        Callee::Pattern(pattern) => pattern.run(function, args),
        Callee::Known(result) => result.clone(),
        // These say themselves what they do not take.
        Callee::Overload(native, overload) if matches!(overload.id, "contains_string" | "ends_with_string" | "starts_with_string") => {
            native(args)
        }
        Callee::Overload(_, overload) if overload.id == "list_flatten" && !matches!(args, [Value::List(_)]) => {
            Err(Fault::error(format!("no such overload: {}.flatten()", args.first().map_or("", Value::type_name))))
        }
        Callee::Overload(native, overload) => {
            if accepts(overload, args) {
                native(args)
            } else {
                Err(misfit(function, args))
            }
        }
        Callee::Dispatch(declared) => {
            let chosen = declared.overloads.iter().find_map(|o| if accepts(o, args) { lib::native(o.id) } else { None });
            chosen.map_or_else(|| Err(misfit(function, args)), |native| native(args))
        }
        // Only functions on types that have no values; nothing fits.
        Callee::Missing => Err(misfit(function, args)),
    }
}

fn accepts(overload: &Overload, args: &[Value]) -> bool {
    overload.args.len() == args.len() && overload.args.iter().zip(args).all(|(type_, value)| value.fits(type_))
}

fn misfit(function: &str, args: &[Value]) -> Fault {
    let types: Vec<&str> = args.iter().map(Value::type_name).collect();
    Fault::error(format!("no such overload: {function}({})", types.join(", ")))
}

/// The Go type that cel-go has a value in, for its messages.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        Value::List(_) => "*types.baseList",
        Value::Map(_) => "*types.baseMap",
        Value::Optional(_) => "*types.Optional",
        Value::Type(_) => "*types.Type",
        Value::Quantity { .. } => "cel.Quantity",
        Value::Semver(_) => "cel.Semver",
        Value::Url(_) => "cel.URL",
        Value::Ip(_) => "cel.IP",
        Value::Cidr(..) => "cel.CIDR",
        Value::Format(_) => "cel.Format",
    }
}
