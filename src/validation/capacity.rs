//! How a shared device's capacity may be asked for: the request policy of consumable capacity.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field::{Faults, Path, duplicate, forbidden, invalid, required, too_many};
use super::json::{field, is_set, list};
use crate::model::quantity::Quantity;

/// Values that a policy may list.
const OPTIONS: usize = 10;
/// The largest bound that step arithmetic can be done with.
const LARGEST: i64 = i64::MAX;

/// A quantity of a decoded object; what is not one reads as zero, as decoding refuses it before.
fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// Validates a policy for a capacity of `value`.
pub(crate) fn policy(value: &Value, policy: &Value, path: &Path, faults: &mut Faults) {
    let (values, range) = (list(policy, "validValues"), is_set(policy, "validRange"));
    if !values.is_empty() && range {
        let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
        faults.push(forbidden(path, why));
        return;
    }
    let Some(most) = quantity(value) else { return };
    let default = quantity(field(policy, "default"));
    if !values.is_empty() {
        match default {
            None => faults.push(required(&path.child("default"), "required when validValues is defined")),
            Some(default) => self::values(&default, &most, values, &path.child("validValues"), faults),
        }
    } else if range {
        match default {
            None => faults.push(required(&path.child("default"), "required when validRange is defined")),
            Some(default) => self::range(&default, &most, field(policy, "validRange"), &path.child("validRange"), faults),
        }
    }
}

fn values(default: &Quantity, most: &Quantity, values: &[Value], path: &Path, faults: &mut Faults) {
    let values: Vec<Quantity> = values.iter().filter_map(quantity).collect();
    for (number, pair) in values.windows(2).enumerate() {
        if let [low, high] = pair
            && low > high
        {
            faults.push(invalid(&path.index(number + 1), &high.to_string(), "values must be sorted in ascending order"));
        }
    }
    if values.len() > OPTIONS {
        faults.push(too_many(path, values.len(), OPTIONS));
    } else {
        for (number, value) in values.iter().enumerate() {
            if value > most {
                faults.push(invalid(&path.index(number), &value.to_string(), format!("option is larger than capacity value: {most}")));
            }
        }
        let mut seen = BTreeSet::new();
        for (number, value) in values.iter().enumerate() {
            if !seen.insert(value.value()) {
                faults.push(duplicate(&path.index(number), &value.value().to_string()));
            }
        }
    }
    if values.len() > OPTIONS || !values.contains(default) {
        faults.push(invalid(path, &default.to_string(), "default value is not valid according to the requestPolicy"));
    }
}

fn range(default: &Quantity, most: &Quantity, range: &Value, path: &Path, faults: &mut Faults) {
    let Some(min) = quantity(field(range, "min")) else {
        faults.push(required(&path.child("min"), "required when validRange is defined"));
        return;
    };
    let (max, step) = (quantity(field(range, "max")), quantity(field(range, "step")));
    if min > *most {
        faults.push(invalid(&path.child("min"), &min.to_string(), format!("min is larger than capacity value: {most}")));
    }
    if *default < min {
        faults.push(invalid(&path.child("default"), &default.to_string(), format!("default is less than min: {min}")));
    }
    if let Some(max) = &max {
        if min > *max {
            faults.push(invalid(&path.child("max"), &min.to_string(), format!("min is larger than max: {max}")));
        }
        if max > most {
            faults.push(invalid(&path.child("max"), &max.to_string(), format!("max is larger than capacity value: {most}")));
        }
        if default > max {
            faults.push(invalid(&path.child("default"), &default.to_string(), format!("default is more than max: {max}")));
        }
    }
    let Some(step) = step else { return };
    if step.sign() <= 0 {
        faults.push(invalid(&path.child("step"), &step.to_string(), "must be greater than zero"));
        return;
    }
    let first = min.add(&step);
    if first > *most {
        let why = format!("one step {first} is larger than capacity value: {most}");
        faults.push(invalid(&path.child("step"), &step.to_string(), why));
    }
    let largest = Quantity::from_i64(LARGEST, step.format());
    let mut safe = true;
    for (name, value) in [("default", Some(default)), ("min", Some(&min)), ("max", max.as_ref()), ("step", Some(&step))] {
        let Some(value) = value else { continue };
        let why = if value.sign() < 0 {
            "must be greater than or equal to 0".to_owned()
        } else if *value > largest {
            format!("must not be larger than {LARGEST}")
        } else {
            continue;
        };
        safe = false;
        faults.push(invalid(&path.child(name), &value.to_string(), why));
    }
    if !safe {
        return;
    }
    for value in [Some(default), max.as_ref()].into_iter().flatten() {
        let apart = value.value().checked_sub(min.value()).and_then(|apart| apart.checked_rem(step.value()));
        if apart != Some(0) {
            let why = format!("value is not a multiple of a given step ({step}) from ({min})");
            faults.push(invalid(&path.child("step"), &value.to_string(), why));
        }
    }
}
