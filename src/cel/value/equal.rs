//! Equality and order of values, across number types.

use std::cmp::Ordering;

use super::{Fault, Value};

/// Whether two values are equal. Types of Kubernetes cannot be compared with others: that is an error.
pub(crate) fn equal(left: &Value, right: &Value) -> Result<bool, Fault> {
    match (left, right) {
        (Value::Null, Value::Null) => Ok(true),
        (Value::Null, _) | (_, Value::Null) => Ok(false),
        _ => equal_values(left, right),
    }
}

/// Equality without the special treatment of null on the right.
pub(crate) fn equal_values(left: &Value, right: &Value) -> Result<bool, Fault> {
    Ok(match (left, right) {
        (Value::Null, other) => matches!(other, Value::Null),
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => (a.seconds, a.nanos) == (b.seconds, b.nanos),
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
            numbers(left, right) == Some(Ordering::Equal)
        }
        (Value::List(a), Value::List(b)) => {
            // An error in an element does not count as a difference.
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b) != Ok(false))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.find(key).is_some_and(|other| equal(value, &other) != Ok(false)))
        }
        (Value::Optional(None), Value::Optional(other)) => other.is_none(),
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => return equal_values(a, b),
        (Value::Quantity { amount: a, .. }, Value::Quantity { amount: b, derived: false }) => a == b,
        (Value::Semver(a), Value::Semver(b)) => a == b,
        (Value::Url(a), Value::Url(b)) => a.to_string() == b.to_string(),
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a, m), Value::Cidr(b, n)) => a == b && m == n,
        (Value::Format(a), Value::Format(b)) => std::ptr::eq(*a, *b),
        (Value::Quantity { .. } | Value::Semver(_) | Value::Url(_) | Value::Ip(_) | Value::Cidr(..) | Value::Format(_), _) => {
            return Err(Fault::no_such_overload());
        }
        _ => false,
    })
}

/// The order of two numbers; `None` with NaN.
fn numbers(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), Value::Int(b)) => double_with(*a, i64::MIN as f64, i64::MAX as f64, *b as f64),
        (Value::Double(a), Value::Uint(b)) => double_with(*a, 0.0, u64::MAX as f64, *b as f64),
        (Value::Int(_) | Value::Uint(_), Value::Double(_)) => numbers(right, left).map(Ordering::reverse),
        _ => None,
    }
}

fn double_with(value: f64, min: f64, max: f64, other: f64) -> Option<Ordering> {
    if value < min {
        Some(Ordering::Less)
    } else if value > max {
        Some(Ordering::Greater)
    } else {
        value.partial_cmp(&other)
    }
}

/// The order of two values of comparable types.
pub(crate) fn compare(left: &Value, right: &Value) -> Result<Ordering, Fault> {
    match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Ok(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Ok((a.seconds, a.nanos).cmp(&(b.seconds, b.nanos))),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
            numbers(left, right).ok_or_else(|| Fault::error("NaN values cannot be ordered"))
        }
        (Value::Double(a), _) if a.is_nan() => Err(Fault::error("NaN values cannot be ordered")),
        _ => Err(Fault::no_such_overload()),
    }
}

/// Whether values of this kind have an order.
pub(crate) fn is_ordered(value: &Value) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
    )
}
