//! Quantities and semantic versions (apiserver/pkg/cel/library/quantity.go, semverlib.go).

use std::cmp::Ordering;
use std::sync::Arc;

use super::Native;
use crate::cel::value::{Fault, Value};
use crate::model::quantity::{Format, Quantity};
use crate::model::semver::Semver;

pub(super) fn native(overload: &str) -> Option<Native> {
    Some(match overload {
        "string_to_quantity" => |args| match args {
            [Value::String(text)] => Quantity::parse(text).map(Value::quantity).map_err(|error| Fault::error(error.to_string())),
            _ => Err(Fault::no_such_overload()),
        },
        "is_quantity_string" => |args| match args {
            [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
            _ => Err(Fault::no_such_overload()),
        },
        "quantity_sign" => |args| quantity(args, |amount| Ok(Value::Int(amount.sign()))),
        "quantity_get_float" => |args| quantity(args, |amount| Ok(Value::Double(amount.approximate_f64()))),
        "quantity_get_int" => {
            |args| quantity(args, |amount| amount.as_i64().map(Value::Int).ok_or_else(|| Fault::error("cannot convert value to integer")))
        }
        "quantity_is_integer" => |args| quantity(args, |amount| Ok(Value::Bool(amount.as_i64().is_some()))),
        "quantity_is_greater_than" | "semver_is_greater_than" => |args| ordered(args, |order| Value::Bool(order.is_gt())),
        "quantity_is_less_than" | "semver_is_less_than" => |args| ordered(args, |order| Value::Bool(order.is_lt())),
        "quantity_compare_to" | "semver_compare_to" => |args| ordered(args, |order| Value::Int(order as i64)),
        "quantity_add" | "quantity_add_int" => |args| combined(args, Quantity::add),
        "quantity_sub" | "quantity_sub_int" => |args| combined(args, Quantity::sub),
        "string_to_semver" | "string_bool_to_semver" => |args| match parse_semver(args) {
            Some(Ok(version)) => Ok(Value::Semver(Arc::new(version))),
            Some(Err(message)) => Err(Fault::error(message)),
            None => Err(Fault::no_such_overload()),
        },
        "is_semver_string" | "is_semver_string_bool" => {
            |args| parse_semver(args).map(|parsed| Value::Bool(parsed.is_ok())).ok_or_else(Fault::no_such_overload)
        }
        // The parts are unsigned in the library and wrap here, as upstream.
        "semver_major" => |args| semver(args, |version| version.major),
        "semver_minor" => |args| semver(args, |version| version.minor),
        "semver_patch" => |args| semver(args, |version| version.patch),
        _ => return None,
    })
}

fn quantity(args: &[Value], get: impl Fn(&Quantity) -> Result<Value, Fault>) -> Result<Value, Fault> {
    match args {
        [Value::Quantity { amount, .. }] => get(amount),
        _ => Err(Fault::no_such_overload()),
    }
}

fn semver(args: &[Value], get: impl Fn(&Semver) -> u64) -> Result<Value, Fault> {
    match args {
        [Value::Semver(version)] => Ok(Value::Int(get(version) as i64)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn ordered(args: &[Value], get: impl Fn(Ordering) -> Value) -> Result<Value, Fault> {
    match args {
        [Value::Quantity { amount: a, .. }, Value::Quantity { amount: b, .. }] => Ok(get(a.cmp(b))),
        [Value::Semver(a), Value::Semver(b)] => Ok(get(a.cmp(b))),
        _ => Err(Fault::no_such_overload()),
    }
}

fn combined(args: &[Value], combine: fn(&Quantity, &Quantity) -> Quantity) -> Result<Value, Fault> {
    let sum = match args {
        [Value::Quantity { amount: a, .. }, Value::Quantity { amount: b, .. }] => combine(a, b),
        [Value::Quantity { amount, .. }, Value::Int(number)] => combine(amount, &Quantity::from_i64(*number, Format::DecimalExponent)),
        _ => return Err(Fault::no_such_overload()),
    };
    Ok(Value::Quantity { amount: Arc::new(sum), derived: true })
}

fn parse_semver(args: &[Value]) -> Option<Result<Semver, String>> {
    let parsed = match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Semver::parse(text),
        [Value::String(text), Value::Bool(true)] => Semver::parse_normalized(text),
        _ => return None,
    };
    Some(parsed.map_err(|error| error.to_string()))
}
