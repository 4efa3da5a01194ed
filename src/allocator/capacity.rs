//! Consumable capacity: what a request takes of a device, and whether it is left (section 7).

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{CapacityRequestPolicy, DeviceCapacity};

use super::state::ConsumedCapacity;
use crate::model::quantity::{Format, Quantity};

/// The amounts that a request names, by capacity name.
pub(super) type Wanted<'a> = BTreeMap<&'a str, Quantity>;

/// A device's capacities with their policies.
#[derive(Debug)]
pub(super) struct DeviceCapacities {
    entries: Vec<(String, Capacity)>,
    /// No policy and nothing negative: without a request and with nothing consumed any device fits.
    plain: bool,
}

/// What is short of a device's capacity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shortage {
    /// The capacity.
    pub name: String,
    /// What the request takes of it, rounded as the device's policy says.
    pub asked: String,
    /// What is left; `None` if the device has no capacity of that name.
    pub left: Option<String>,
    /// The device's policy forbids the amount, whatever is left.
    pub forbidden: bool,
}

#[derive(Debug)]
struct Capacity {
    value: Quantity,
    policy: Option<Policy>,
}

#[derive(Debug, Default)]
struct Policy {
    default: Option<Quantity>,
    range: Option<Range>,
    values: Option<Vec<Quantity>>,
}

#[derive(Debug)]
struct Range {
    min: Quantity,
    max: Option<Quantity>,
    step: Option<Quantity>,
}

impl DeviceCapacities {
    /// Reads the capacities of a device; the error names a quantity that does not parse.
    pub(super) fn read(capacity: &BTreeMap<String, DeviceCapacity>) -> Result<Self, String> {
        let mut entries = Vec::with_capacity(capacity.len());
        let mut plain = true;
        for (name, capacity) in capacity {
            let value = parse(name, &capacity.value.0)?;
            let policy = capacity.request_policy.as_ref().map(|policy| Policy::read(name, policy)).transpose()?;
            plain &= policy.is_none() && value.sign() >= 0;
            entries.push((name.clone(), Capacity { value, policy }));
        }
        Ok(Self { entries, plain })
    }

    /// Whether the device has any capacity.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the request takes of each capacity: `None` where the device lacks one that is asked for, or a policy forbids
    /// the amount. An error is fatal. Amounts are worked out for all capacities before any is refused.
    fn resolve(&self, wanted: &Wanted<'_>, fractions: bool) -> Result<Option<ConsumedCapacity>, String> {
        if wanted.keys().any(|name| !self.entries.iter().any(|(own, _)| own == name)) {
            return Ok(None);
        }
        let mut consumed = ConsumedCapacity::new();
        for (name, capacity) in &self.entries {
            let amount = capacity.amount(wanted.get(name.as_str()), fractions).map_err(|error| format!("capacity {name:?}: {error}"))?;
            if amount.sign() < 0 {
                return Err(format!("capacity {name:?}: capacity value is negative"));
            }
            consumed.insert(name.clone(), amount);
        }
        let forbidden = |(name, capacity): &(String, Capacity)| {
            consumed.get(name).zip(capacity.policy.as_ref()).is_some_and(|(amount, policy)| policy.forbids(amount, fractions))
        };
        if self.entries.iter().any(forbidden) {
            return Ok(None);
        }
        Ok(Some(consumed))
    }

    /// What a request takes, where that and what is consumed already fits the device; `Ok(None)` if not.
    pub(super) fn fit(
        &self,
        wanted: &Wanted<'_>,
        used: [Option<&ConsumedCapacity>; 2],
        fractions: bool,
    ) -> Result<Option<ConsumedCapacity>, String> {
        let Some(consumed) = self.resolve(wanted, fractions)? else { return Ok(None) };
        for (name, capacity) in &self.entries {
            let Some(amount) = consumed.get(name) else { continue };
            let mut total = amount.clone();
            for held in used.iter().flatten().filter_map(|used| used.get(name)) {
                total = total.add(held);
            }
            if total > capacity.value {
                return Ok(None);
            }
        }
        Ok(Some(consumed))
    }

    /// What is short for a request while `used` is consumed, for explanations; `None` if the request fits. Errors as in
    /// [`Self::fit`].
    pub(super) fn shortage(
        &self,
        wanted: &Wanted<'_>,
        used: Option<&ConsumedCapacity>,
        fractions: bool,
    ) -> Result<Option<Shortage>, String> {
        if let Some(name) = wanted.keys().find(|name| !self.entries.iter().any(|(own, _)| own == *name)) {
            return Ok(Some(Shortage { name: (*name).to_owned(), asked: wanted[name].to_string(), left: None, forbidden: false }));
        }
        for (name, capacity) in &self.entries {
            let amount = capacity.amount(wanted.get(name.as_str()), fractions).map_err(|error| format!("capacity {name:?}: {error}"))?;
            if amount.sign() < 0 {
                return Err(format!("capacity {name:?}: capacity value is negative"));
            }
            let left = used.and_then(|used| used.get(name)).map_or_else(|| capacity.value.clone(), |used| capacity.value.sub(used));
            let forbidden = capacity.policy.as_ref().is_some_and(|policy| policy.forbids(&amount, fractions));
            if forbidden || amount > left {
                return Ok(Some(Shortage { name: name.clone(), asked: amount.to_string(), left: Some(left.to_string()), forbidden }));
            }
        }
        Ok(None)
    }

    /// Whether any request without amounts fits while nothing is consumed.
    pub(super) fn is_plain(&self) -> bool {
        self.plain
    }
}

impl Capacity {
    fn amount(&self, wanted: Option<&Quantity>, fractions: bool) -> Result<Quantity, String> {
        let Some(wanted) = wanted else {
            return Ok(self.policy.as_ref().and_then(|policy| policy.default.clone()).unwrap_or_else(|| self.value.clone()));
        };
        match &self.policy {
            Some(Policy { range: Some(range), .. }) => range.round_up(wanted, fractions),
            Some(Policy { values: Some(values), .. }) => Ok(values.iter().find(|&value| wanted <= value).unwrap_or(wanted).clone()),
            _ => Ok(wanted.clone()),
        }
    }
}

impl Policy {
    fn read(name: &str, policy: &CapacityRequestPolicy) -> Result<Self, String> {
        let range = match &policy.valid_range {
            None => None,
            Some(range) => Some(Range {
                min: parse(name, &range.min.0)?,
                max: range.max.as_ref().map(|max| parse(name, &max.0)).transpose()?,
                step: range.step.as_ref().map(|step| parse(name, &step.0)).transpose()?,
            }),
        };
        let values = policy.valid_values.as_ref().map(|values| values.iter().map(|value| parse(name, &value.0)).collect()).transpose()?;
        Ok(Self { default: policy.default.as_ref().map(|default| parse(name, &default.0)).transpose()?, range, values })
    }

    fn forbids(&self, amount: &Quantity, fractions: bool) -> bool {
        // The default is always fine. Upstream compares the structs: 3 that was rounded up is not the 3 of a manifest.
        if self.default.as_ref().is_some_and(|default| default.is_kept_like(amount)) {
            return false;
        }
        if let Some(range) = &self.range {
            return range.forbids(amount, fractions);
        }
        self.values.as_ref().is_some_and(|values| !values.is_empty() && !values.contains(amount))
    }
}

/// Words of upstream for amounts that the arithmetic cannot hold.
const NOT_REPRESENTABLE: &str = "capacity request cannot be represented in the device's range arithmetic";

impl Range {
    /// The bounds and the step in thousandths, where all of them are exact in these and fractions are allowed.
    fn milli(&self, fractions: bool) -> Option<(i64, i64)> {
        let step = self.step.as_ref().filter(|_| fractions)?;
        let min = exact_milli(&self.min)?;
        if let Some(max) = &self.max {
            exact_milli(max)?;
        }
        exact_milli(step).filter(|step| *step >= 1).map(|step| (min, step))
    }

    fn round_up(&self, wanted: &Quantity, fractions: bool) -> Result<Quantity, String> {
        if *wanted < self.min {
            return Ok(self.min.clone());
        }
        let Some(step) = &self.step else { return Ok(wanted.clone()) };
        if let Some((min, milli_step)) = self.milli(fractions) {
            let amount =
                exact_milli(wanted).ok_or_else(|| format!("{NOT_REPRESENTABLE}: request {wanted} is not a representable milli value"))?;
            let rounded = next_step(amount, min, milli_step).ok_or_else(|| {
                format!("{NOT_REPRESENTABLE}: rounding request {wanted} up to the next step passes the milli-value range")
            })?;
            return Ok(from_milli(rounded, step.format()));
        }
        if *wanted > Quantity::from_i64(i64::MAX, Format::DecimalSi) {
            return Err(format!("{NOT_REPRESENTABLE}: request {wanted} exceeds MaxInt64"));
        }
        next_step(wanted.value(), self.min.value(), step.value())
            .map(|rounded| Quantity::from_i64(rounded, step.format()))
            .ok_or_else(|| format!("{NOT_REPRESENTABLE}: rounding request {wanted} up to the next step passes MaxInt64"))
    }

    fn forbids(&self, amount: &Quantity, fractions: bool) -> bool {
        if self.max.as_ref().is_some_and(|max| amount > max) {
            return true;
        }
        let Some(step) = &self.step else { return false };
        let (amount, min, step) = match self.milli(fractions) {
            Some((min, step)) => match exact_milli(amount) {
                Some(amount) => (amount, min, step),
                None => return true,
            },
            None => (amount.value(), self.min.value(), step.value()),
        };
        amount.wrapping_sub(min).checked_rem(step) != Some(0)
    }
}

/// The lowest `min + n * step` that is not below `amount`; `None` where that is beyond i64 or the step is 0.
fn next_step(amount: i64, min: i64, step: i64) -> Option<i64> {
    let above = i128::from(amount) - i128::from(min);
    let step = i128::from(step);
    if step == 0 {
        return None;
    }
    let steps = above / step + i128::from(above % step != 0);
    i64::try_from(i128::from(min) + step * steps).ok()
}

fn exact_milli(quantity: &Quantity) -> Option<i64> {
    let milli = quantity.milli_value();
    (from_milli(milli, quantity.format()) == *quantity).then_some(milli)
}

fn from_milli(milli: i64, format: Format) -> Quantity {
    if milli % 1000 == 0 {
        return Quantity::from_i64(milli / 1000, format);
    }
    Quantity::from_milli(milli, format)
}

fn parse(name: &str, text: &str) -> Result<Quantity, String> {
    Quantity::parse(text).map_err(|error| format!("capacity {name:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn device(capacity: &serde_json::Value) -> DeviceCapacities {
        DeviceCapacities::read(&serde_json::from_value(json!({"memory": capacity})).unwrap()).unwrap()
    }

    /// The amount that a request for `wanted` takes of a capacity, `-` if the device does not fit, or the error.
    fn take(capacity: &serde_json::Value, wanted: Option<&str>, used: &str, fractions: bool) -> String {
        let used = ConsumedCapacity::from([("memory".to_owned(), Quantity::parse(used).unwrap())]);
        let wanted: Wanted<'_> = wanted.map(|text| ("memory", Quantity::parse(text).unwrap())).into_iter().collect();
        match device(capacity).fit(&wanted, [Some(&used), None], fractions) {
            Ok(Some(consumed)) => consumed["memory"].to_string(),
            Ok(None) => "-".to_owned(),
            Err(error) => error,
        }
    }

    #[test]
    fn amounts() {
        let plain = json!({"value": "80Gi"});
        let stepped =
            json!({"value": "80Gi", "requestPolicy": {"default": "4Gi", "validRange": {"min": "2Gi", "max": "40Gi", "step": "2Gi"}}});
        let listed = json!({"value": "10", "requestPolicy": {"default": "7", "validValues": ["1", "4", "8"]}});
        let odd = json!({"value": "4", "requestPolicy": {"default": "3", "validRange": {"min": "1", "max": "2", "step": "2"}}});
        let open = json!({"value": "100", "requestPolicy": {"validRange": {"min": "5"}}});
        for (capacity, wanted, used, expected) in [
            (&plain, None, "0", "80Gi"),
            (&plain, None, "1", "-"),
            (&plain, Some("10Gi"), "70Gi", "10Gi"),
            (&plain, Some("10Gi"), "71Gi", "-"),
            (&stepped, None, "0", "4Gi"),
            (&stepped, Some("1Gi"), "0", "2Gi"),
            (&stepped, Some("3Gi"), "0", "4Gi"),
            (&stepped, Some("41Gi"), "0", "-"),
            (&listed, None, "0", "7"),
            (&listed, Some("2"), "0", "4"),
            (&listed, Some("9"), "0", "-"),
            (&odd, None, "0", "3"),
            (&odd, Some("3"), "0", "-"),
            (&open, Some("3"), "0", "5"),
            (&open, Some("7"), "93", "7"),
            (&open, Some("7"), "94", "-"),
        ] {
            assert_eq!(take(capacity, wanted, used, false), expected, "{capacity} {wanted:?} used {used}");
        }
    }

    #[test]
    fn step_arithmetic_with_fractions() {
        let tenths = json!({"value": "1", "requestPolicy": {"validRange": {"min": "100m", "step": "100m"}}});
        assert_eq!(take(&tenths, Some("250m"), "0", true), "300m");
        // Without fractions everything is rounded up to whole units: min, step and request are 1.
        assert_eq!(take(&tenths, Some("250m"), "0", false), "1");
    }

    #[test]
    fn what_cannot_be_represented_is_fatal() {
        let stepped = json!({"value": "1", "requestPolicy": {"validRange": {"min": "1", "step": "4"}}});
        for (wanted, fractions, expected) in [
            ("18446744073709551616", false, "request 18446744073709551616 exceeds MaxInt64"),
            ("9223372036854775807", false, "rounding request 9223372036854775807 up to the next step passes MaxInt64"),
            ("9223372036854775807", true, "request 9223372036854775807 is not a representable milli value"),
        ] {
            let text = take(&stepped, Some(wanted), "0", fractions);
            assert_eq!(text, format!("capacity \"memory\": {NOT_REPRESENTABLE}: {expected}"));
        }
        assert_eq!(take(&json!({"value": "-1"}), None, "0", false), "capacity \"memory\": capacity value is negative");
    }

    #[test]
    fn a_capacity_that_the_device_lacks_is_no_error() {
        let other: Wanted<'_> = [("cores", Quantity::parse("1").unwrap())].into();
        assert!(device(&json!({"value": "1"})).fit(&other, [None, None], false).unwrap().is_none());
    }
}
