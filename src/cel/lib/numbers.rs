//! Operators and conversions of the standard library (common/types of cel-go, with its messages).

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Native, time};
use crate::cel::value::{Fault, Timestamp, Value, compare, equal};

type Answer = Result<Value, Fault>;

/// Operators and functions that have one implementation for all overloads. They look at the types themselves.
pub(crate) fn operator(function: &str) -> Option<Native> {
    Some(match function {
        "_+_" => add,
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => divide,
        "_%_" => modulo,
        "-_" => negate,
        "!_" => |args| match args {
            [Value::Bool(value)] => Ok(Value::Bool(!value)),
            _ => Err(Fault::no_such_overload()),
        },
        "@not_strictly_false" => |args| Ok(args.first().cloned().unwrap_or(Value::Bool(true))),
        "_<_" => |args| relation("_<_", args, Ordering::is_lt),
        "_<=_" => |args| relation("_<=_", args, Ordering::is_le),
        "_>_" => |args| relation("_>_", args, Ordering::is_gt),
        "_>=_" => |args| relation("_>=_", args, Ordering::is_ge),
        "@in" => contains,
        "size" => |args| match args {
            [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
                Ok(Value::Int(value.size().unwrap_or(0) as i64))
            }
            _ => Err(unsupported("size", args)),
        },
        "type" => |args| Ok(Value::Type(args.first().map_or("dyn", Value::type_name).into())),
        "dyn" => |args| args.first().cloned().ok_or_else(Fault::no_such_overload),
        "matches" => super::regex::matches,
        "sort" => super::lists::sort,
        "@sortByAssociatedKeys" => super::lists::sort_by_keys,
        _ => return None,
    })
}

/// The error of an operator whose left side has no such operation.
pub(super) fn unsupported(function: &str, args: &[Value]) -> Fault {
    match args.first() {
        Some(Value::String(_) | Value::Timestamp(_) | Value::Duration(_)) => Fault::no_such_overload(),
        _ => Fault::error(format!("no such overload: {function}")),
    }
}

fn int_overflow() -> Fault {
    Fault::error("integer overflow")
}

fn uint_overflow() -> Fault {
    Fault::error("unsigned integer overflow")
}

fn int(value: Option<i64>) -> Answer {
    value.map(Value::Int).ok_or_else(int_overflow)
}

fn uint(value: Option<u64>) -> Answer {
    value.map(Value::Uint).ok_or_else(uint_overflow)
}

pub(super) fn add(args: &[Value]) -> Answer {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_add(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_add(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::String(a), Value::String(b)] => Ok(Value::String(format!("{a}{b}").into())),
        [Value::Bytes(a), Value::Bytes(b)] => Ok(Value::Bytes([&**a, &**b].concat().into())),
        [Value::List(a), Value::List(b)] => {
            let mut sum = Vec::with_capacity(a.len() + b.len());
            sum.extend_from_slice(a);
            sum.extend_from_slice(b);
            Ok(Value::list(sum))
        }
        [Value::Duration(a), Value::Duration(b)] => a.checked_add(*b).map(Value::Duration).ok_or_else(int_overflow),
        [Value::Duration(duration), Value::Timestamp(at)] | [Value::Timestamp(at), Value::Duration(duration)] => later(*at, *duration),
        [Value::Null | Value::Bool(_) | Value::Map(_) | Value::Optional(_) | Value::Type(_), _] => Err(unsupported("_+_", args)),
        [left, _] if kubernetes(left) => Err(unsupported("_+_", args)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn kubernetes(value: &Value) -> bool {
    matches!(value, Value::Quantity { .. } | Value::Semver(_) | Value::Url(_) | Value::Ip(_) | Value::Cidr(..) | Value::Format(_))
}

fn later(at: Timestamp, nanos: i64) -> Answer {
    let total = i128::from(at.seconds) * 1_000_000_000 + i128::from(at.nanos) + i128::from(nanos);
    let seconds = total.div_euclid(1_000_000_000) as i64;
    if !time::RANGE.contains(&seconds) {
        return Err(Fault::error("timestamp overflow"));
    }
    Ok(Value::Timestamp(Timestamp { seconds, nanos: total.rem_euclid(1_000_000_000) as u32, offset: at.offset }))
}

fn subtract(args: &[Value]) -> Answer {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_sub(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_sub(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => a.checked_sub(*b).map(Value::Duration).ok_or_else(int_overflow),
        [Value::Timestamp(at), Value::Duration(b)] => later(*at, b.checked_neg().ok_or_else(int_overflow)?),
        [Value::Timestamp(a), Value::Timestamp(b)] => {
            let seconds = (i128::from(a.seconds) - i128::from(b.seconds)) * 1_000_000_000;
            let nanos = seconds + i128::from(a.nanos) - i128::from(b.nanos);
            i64::try_from(nanos).map(Value::Duration).map_err(|_| int_overflow())
        }
        [Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_) | Value::Timestamp(_), _] => Err(Fault::no_such_overload()),
        _ => Err(unsupported("_-_", args)),
    }
}

fn multiply(args: &[Value]) -> Answer {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_mul(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_mul(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => Err(Fault::no_such_overload()),
        _ => Err(unsupported("_*_", args)),
    }
}

fn divide(args: &[Value]) -> Answer {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Fault::error("division by zero")),
        [Value::Int(a), Value::Int(b)] => int(a.checked_div(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_div(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => Err(Fault::no_such_overload()),
        _ => Err(unsupported("_/_", args)),
    }
}

fn modulo(args: &[Value]) -> Answer {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Fault::error("modulus by zero")),
        [Value::Int(a), Value::Int(b)] => int(a.checked_rem(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_rem(*b)),
        [Value::Int(_) | Value::Uint(_), _] => Err(Fault::no_such_overload()),
        _ => Err(unsupported("_%_", args)),
    }
}

fn negate(args: &[Value]) -> Answer {
    match args {
        [Value::Int(value)] => int(value.checked_neg()),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        [Value::Duration(value)] => value.checked_neg().map(Value::Duration).ok_or_else(int_overflow),
        [Value::Bool(_)] => Err(Fault::no_such_overload()),
        _ => Err(unsupported("-_", args)),
    }
}

fn relation(function: &str, args: &[Value], holds: fn(Ordering) -> bool) -> Answer {
    match args {
        [left, right] if crate::cel::value::is_ordered(left) => compare(left, right).map(|order| Value::Bool(holds(order))),
        _ => Err(unsupported(function, args)),
    }
}

fn contains(args: &[Value]) -> Answer {
    match args {
        [element, Value::List(values)] => Ok(Value::Bool(values.iter().any(|value| equal(element, value) == Ok(true)))),
        [key, Value::Map(map)] => Ok(Value::Bool(map.get(key).is_some())),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(super) fn native(overload: &str) -> Option<Native> {
    Some(match overload {
        "bool_to_bool"
        | "bytes_to_bytes"
        | "double_to_double"
        | "duration_to_duration"
        | "int64_to_int64"
        | "string_to_string"
        | "timestamp_to_timestamp"
        | "uint64_to_uint64" => |args| args.first().cloned().ok_or_else(Fault::no_such_overload),
        "string_to_bool" => |args| {
            parsed(args, "bool", |text| match text {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(Value::Bool(true)),
                "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(Value::Bool(false)),
                _ => None,
            })
        },
        "string_to_bytes" => |args| parsed(args, "bytes", |text| Some(Value::Bytes(text.as_bytes().into()))),
        "string_to_double" => |args| parsed(args, "double", |text| parse_double(text).map(Value::Double)),
        "string_to_int64" => |args| parsed(args, "int", |text| text.parse().ok().map(Value::Int)),
        "string_to_uint64" => |args| parsed(args, "uint", |text| text.parse().ok().filter(|_| !text.starts_with('+')).map(Value::Uint)),
        "string_to_duration" => |args| parsed(args, "google.protobuf.Duration", |text| time::parse_duration(text).map(Value::Duration)),
        "string_to_timestamp" => {
            |args| match parsed(args, "google.protobuf.Timestamp", |text| time::parse_rfc3339(text).map(Value::Timestamp))? {
                Value::Timestamp(at) if !time::RANGE.contains(&at.seconds) => Err(Fault::error("timestamp overflow")),
                other => Ok(other),
            }
        }
        "int64_to_timestamp" => |args| match args {
            [Value::Int(seconds)] if time::RANGE.contains(seconds) => {
                Ok(Value::Timestamp(Timestamp { seconds: *seconds, nanos: 0, offset: 0 }))
            }
            _ => Err(Fault::error("timestamp overflow")),
        },
        "int64_to_double" | "uint64_to_double" => |args| match args {
            [Value::Int(value)] => Ok(Value::Double(*value as f64)),
            [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
            _ => Err(Fault::no_such_overload()),
        },
        "double_to_int64" => |args| match args {
            [Value::Double(value)] => int((*value > i64::MIN as f64 && *value < i64::MAX as f64).then_some(*value as i64)),
            _ => Err(Fault::no_such_overload()),
        },
        "double_to_uint64" => |args| match args {
            [Value::Double(value)] => uint((*value >= 0.0 && *value < 18_446_744_073_709_551_616.0).then_some(*value as u64)),
            _ => Err(Fault::no_such_overload()),
        },
        "duration_to_int64" | "timestamp_to_int64" | "uint64_to_int64" => |args| match args {
            [Value::Duration(nanos)] => Ok(Value::Int(*nanos)),
            [Value::Timestamp(at)] => Ok(Value::Int(at.seconds)),
            [Value::Uint(value)] => int(i64::try_from(*value).ok()),
            _ => Err(Fault::no_such_overload()),
        },
        "int64_to_uint64" => |args| match args {
            [Value::Int(value)] => uint(u64::try_from(*value).ok()),
            _ => Err(Fault::no_such_overload()),
        },
        "bytes_to_string" => |args| match args {
            [Value::Bytes(bytes)] => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Value::string(text)),
                Err(_) => Err(Fault::error("invalid UTF-8 in bytes, cannot convert to string")),
            },
            _ => Err(Fault::no_such_overload()),
        },
        "bool_to_string"
        | "double_to_string"
        | "int64_to_string"
        | "timestamp_to_string"
        | "uint64_to_string"
        | "ip_to_string"
        | "cidr_to_string" => |args| args.first().map(|value| Value::String(value.to_string().into())).ok_or_else(Fault::no_such_overload),
        "duration_to_string" => |args| match args {
            [Value::Duration(nanos)] => Ok(Value::String(format!("{}s", seconds_text(*nanos)).into())),
            _ => Err(Fault::no_such_overload()),
        },
        "optional_of" => |args| args.first().cloned().map(Value::some).ok_or_else(Fault::no_such_overload),
        "optional_ofNonZeroValue" => |args| Ok(Value::Optional(args.first().filter(|value| !is_zero(value)).cloned().map(Arc::new))),
        "optional_none" => |_| Ok(Value::Optional(None)),
        "optional_value" => |args| match args {
            [Value::Optional(Some(value))] => Ok((**value).clone()),
            _ => Err(Fault::error("optional.none() dereference")),
        },
        "optional_hasValue" => |args| Ok(Value::Bool(matches!(args, [Value::Optional(Some(_))]))),
        _ => return None,
    })
}

fn parsed(args: &[Value], to: &str, parse: impl Fn(&str) -> Option<Value>) -> Answer {
    match args {
        [Value::String(text)] => parse(text).ok_or_else(|| Fault::error(format!("type conversion error from 'string' to '{to}'"))),
        _ => Err(Fault::no_such_overload()),
    }
}

fn parse_double(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let overflow = value.is_infinite() && text.contains(|c: char| c.is_ascii_digit());
    (!overflow).then_some(value)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Duration(0) => true,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(values) => values.is_empty(),
        Value::Map(map) => map.len() == 0,
        Value::Timestamp(at) => at.seconds == *time::RANGE.start() && at.nanos == 0,
        _ => false,
    }
}

/// Nanoseconds as seconds, in the shortest decimal form.
pub(crate) fn seconds_text(nanos: i64) -> String {
    let seconds = (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9;
    format!("{seconds}")
}

/// A double as Go's `%g` has it.
pub(crate) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}
