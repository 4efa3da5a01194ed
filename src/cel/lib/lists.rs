//! Lists: Kubernetes' own functions, the sets extension and version 3 of the lists extension.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Native, numbers};
use crate::cel::value::{Fault, Value, compare, equal, is_ordered};

type Answer = Result<Value, Fault>;

const MAX_RANGE: i64 = 1_000_000;

pub(super) fn native(overload: &str) -> Option<Native> {
    if overload.ends_with("_is_sorted_bool") {
        return Some(is_sorted);
    }
    if overload.contains("_max_") {
        return Some(|args| extreme(args, "max", Ordering::Less));
    }
    if overload.contains("_min_") {
        return Some(|args| extreme(args, "min", Ordering::Greater));
    }
    Some(match overload {
        "list_int_sum_int" => |args| sum(args, Value::Int(0)),
        "list_uint_sum_uint" => |args| sum(args, Value::Uint(0)),
        "list_double_sum_double" => |args| sum(args, Value::Double(0.0)),
        "list_duration_sum_duration" => |args| sum(args, Value::Duration(0)),
        "list_a_index_of_int" => |args| position(args, |values, wanted| values.iter().position(wanted)),
        "list_a_last_index_of_int" => |args| position(args, |values, wanted| values.iter().rposition(wanted)),
        "list_includes_dyn_dyn" => |args| match args {
            [Value::List(values), wanted] => Ok(Value::Bool(values.iter().any(|value| equal(value, wanted) == Ok(true)))),
            [value, wanted] => Ok(Value::Bool(equal(value, wanted) == Ok(true))),
            _ => Err(Fault::no_such_overload()),
        },
        "list_sets_contains_list" => |args| sets(args, contains_all),
        "list_sets_equivalent_list" => |args| sets(args, |a, b| contains_all(a, b) && contains_all(b, a)),
        "list_sets_intersects_list" => |args| sets(args, |a, b| a.iter().any(|value| contains(b, value))),
        "list_slice" => slice,
        "list_flatten" => |args| match args {
            [Value::List(values)] => Ok(Value::list(flatten(values, 1))),
            _ => Err(Fault::no_such_overload()),
        },
        "list_flatten_int" => |args| match args {
            [Value::List(_), Value::Int(..0)] => Err(Fault::error("level must be non-negative")),
            [Value::List(values), Value::Int(depth)] => Ok(Value::list(flatten(values, *depth))),
            _ => Err(Fault::no_such_overload()),
        },
        "lists_range" => |args| match args {
            [Value::Int(size @ ..0)] => Err(Fault::error(format!("lists.range: size must be non-negative, got {size}"))),
            [Value::Int(size)] if *size > MAX_RANGE => {
                Err(Fault::error(format!("lists.range: size {size} exceeds maximum allowed ({MAX_RANGE})")))
            }
            [Value::Int(size)] => Ok(Value::list((0..*size).map(Value::Int).collect())),
            _ => Err(Fault::no_such_overload()),
        },
        "list_reverse" => |args| match args {
            [Value::List(values)] => Ok(Value::list(values.iter().rev().cloned().collect())),
            _ => Err(Fault::no_such_overload()),
        },
        "list_distinct" => distinct,
        "list_first" => |args| match args {
            [Value::List(values)] => Ok(Value::Optional(values.first().cloned().map(Arc::new))),
            _ => Err(Fault::no_such_overload()),
        },
        "list_last" => |args| match args {
            [Value::List(values)] => Ok(Value::Optional(values.last().cloned().map(Arc::new))),
            _ => Err(Fault::no_such_overload()),
        },
        "optional_unwrap" | "optional_unwrapOpt" => unwrap,
        "@mapInsert_map_key_value" => insert,
        "@mapInsert_map_map" => insert_all,
        _ => return None,
    })
}

fn values(args: &[Value]) -> Result<&Arc<Vec<Value>>, Fault> {
    match args.first() {
        Some(Value::List(values)) => Ok(values),
        _ => Err(Fault::no_such_overload()),
    }
}

fn is_sorted(args: &[Value]) -> Answer {
    let values = values(args)?;
    if !values.iter().all(is_ordered) {
        return Err(Fault::no_such_overload());
    }
    Ok(Value::Bool(values.windows(2).all(|pair| compare(&pair[0], &pair[1]) != Ok(Ordering::Greater))))
}

fn extreme(args: &[Value], name: &str, replaces: Ordering) -> Answer {
    let mut best: Option<&Value> = None;
    for value in values(args)?.iter() {
        if !is_ordered(value) {
            return Err(Fault::no_such_overload());
        }
        if best.is_none_or(|best| compare(best, value) == Ok(replaces)) {
            best = Some(value);
        }
    }
    best.cloned().ok_or_else(|| Fault::error(format!("{name} called on empty list")))
}

fn sum(args: &[Value], zero: Value) -> Answer {
    values(args)?.iter().try_fold(zero, |sum, value| numbers::add(&[sum, value.clone()]))
}

fn position(args: &[Value], find: impl Fn(&[Value], &dyn Fn(&Value) -> bool) -> Option<usize>) -> Answer {
    match args {
        [Value::List(values), wanted] => {
            let at = find(values, &|value| equal(value, wanted) == Ok(true));
            Ok(Value::Int(at.map_or(-1, |at| at as i64)))
        }
        _ => Err(Fault::no_such_overload()),
    }
}

fn contains(values: &[Value], wanted: &Value) -> bool {
    values.iter().any(|value| equal(wanted, value) == Ok(true))
}

fn contains_all(values: &[Value], wanted: &[Value]) -> bool {
    wanted.iter().all(|value| contains(values, value))
}

fn sets(args: &[Value], holds: impl Fn(&[Value], &[Value]) -> bool) -> Answer {
    match args {
        [Value::List(a), Value::List(b)] => Ok(Value::Bool(holds(a, b))),
        _ => Err(Fault::no_such_overload()),
    }
}

fn slice(args: &[Value]) -> Answer {
    let [Value::List(values), Value::Int(start), Value::Int(end)] = args else { return Err(Fault::no_such_overload()) };
    let refuse = |reason: String| Err(Fault::error(format!("cannot slice({start}, {end}), {reason}")));
    if *start < 0 || *end < 0 {
        return refuse("negative indexes not supported".to_owned());
    }
    if start > end {
        return refuse("start index must be less than or equal to end index".to_owned());
    }
    match values.get(*start as usize..*end as usize) {
        Some(part) => Ok(Value::list(part.to_vec())),
        None => refuse(format!("list is length {}", values.len())),
    }
}

fn flatten(values: &[Value], depth: i64) -> Vec<Value> {
    let mut flat = Vec::with_capacity(values.len());
    for value in values {
        match value {
            Value::List(inner) if depth > 0 => flat.extend(flatten(inner, depth - 1)),
            other => flat.push(other.clone()),
        }
    }
    flat
}

pub(super) fn sort(args: &[Value]) -> Answer {
    match args {
        [list @ Value::List(_)] => sort_by_keys(&[list.clone(), list.clone()]),
        _ => Err(numbers::unsupported("sort", args)),
    }
}

pub(super) fn sort_by_keys(args: &[Value]) -> Answer {
    let [Value::List(values), Value::List(keys)] = args else {
        return Err(numbers::unsupported("@sortByAssociatedKeys", args));
    };
    if values.len() != keys.len() {
        return Err(Fault::error(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            values.len(),
            keys.len()
        )));
    }
    let Some(first) = keys.first() else { return Ok(Value::List(values.clone())) };
    if !is_ordered(first) {
        return Err(Fault::error("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Fault::error("list elements must have the same type"));
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| compare(&keys[*a], &keys[*b]).unwrap_or(Ordering::Equal));
    Ok(Value::list(order.into_iter().map(|at| values[at].clone()).collect()))
}

fn distinct(args: &[Value]) -> Answer {
    let mut unique: Vec<Value> = Vec::new();
    for value in values(args)?.iter() {
        if !unique.iter().any(|other| equal(value, other) == Ok(true)) {
            unique.push(value.clone());
        }
    }
    Ok(Value::list(unique))
}

fn unwrap(args: &[Value]) -> Answer {
    let mut inner = Vec::new();
    for value in values(args)?.iter() {
        match value {
            Value::Optional(Some(value)) => inner.push((**value).clone()),
            Value::Optional(None) => {}
            other => return Err(Fault::error(format!("value {other} is not optional"))),
        }
    }
    Ok(Value::list(inner))
}

fn insert(args: &[Value]) -> Answer {
    let [Value::Map(map), key, value] = args else { return Err(Fault::no_such_overload()) };
    insert_into(Arc::clone(map), std::iter::once((key, value)))
}

fn insert_all(args: &[Value]) -> Answer {
    let [Value::Map(map), Value::Map(more)] = args else { return Err(Fault::no_such_overload()) };
    insert_into(Arc::clone(map), more.iter().map(|(key, value)| (key, value)))
}

/// Adds entries to a map, in place if nothing else has it.
pub(crate) fn insert_into<'v>(mut map: Arc<crate::cel::value::Map>, entries: impl Iterator<Item = (&'v Value, &'v Value)>) -> Answer {
    let target = Arc::make_mut(&mut map);
    for (key, value) in entries {
        if target.insert(key.clone(), value.clone()) {
            return Err(Fault::error(format!("insert failed: key {key} already exists")));
        }
    }
    Ok(Value::Map(map))
}
