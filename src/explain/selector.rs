//! The part of a selector that was false, with the values that were seen.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, ResourceSlice};

use crate::cel::{DeviceInput, Environment, Program, Purpose, Span, Trace};
use crate::model::features::{Feature, Features};

/// A part of an expression that was false, on how many devices, with which values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FalsePart {
    /// The part as it is written.
    pub text: String,
    /// Where it is.
    pub span: (u32, u32),
    /// What it looked at, each value with how often it was seen, the most frequent first.
    pub seen: Vec<Seen>,
    /// On how many devices it was false.
    pub devices: usize,
}

/// A value that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What was looked at: `device.attributes["d"].model`.
    pub what: String,
    /// The value as an expression would have it.
    pub value: String,
    /// On how many devices.
    pub devices: usize,
}

/// A part's text, how often each value was seen by what was looked at, and on how many devices it was false.
type Counted = (String, BTreeMap<(String, String), usize>, usize);

/// A device as expressions see it.
#[must_use]
pub fn input(slice: &ResourceSlice, device: &Device) -> DeviceInput {
    DeviceInput::new(
        &slice.spec.driver,
        device.attributes.as_ref().unwrap_or(&BTreeMap::new()),
        device.capacity.as_ref().unwrap_or(&BTreeMap::new()),
        device.allow_multiple_allocations.unwrap_or_default(),
    )
}

/// Compiles a selector as the scheduler does.
#[must_use]
pub fn program(expression: &str, features: Features) -> Option<Program> {
    let environment = Environment {
        purpose: Purpose::Stored,
        consumable_capacity: features.has(Feature::ConsumableCapacity),
        list_type_attributes: features.has(Feature::ListTypeAttributes),
    };
    Program::compile_selector(expression, environment).ok()
}

/// The parts of an expression that made it false on these devices, the most frequent first.
#[must_use]
pub fn false_parts<'a>(
    expression: &str,
    features: Features,
    devices: impl Iterator<Item = (&'a ResourceSlice, &'a Device)>,
) -> Vec<FalsePart> {
    let Some(program) = program(expression, features) else { return Vec::new() };
    let mut parts: BTreeMap<(u32, u32), Counted> = BTreeMap::new();
    for (slice, device) in devices {
        let trace = program.trace(&input(slice, device));
        if trace.result.as_ref().is_ok_and(|value| value.text != "false") {
            continue;
        }
        for step in smallest_false(&trace) {
            let span = trace.steps[step].span;
            let part = parts.entry((span.start, span.end)).or_insert_with(|| (trace.steps[step].text.clone(), BTreeMap::new(), 0));
            part.2 += 1;
            for (what, value) in looked_at(&trace, span) {
                *part.1.entry((what, value)).or_default() += 1;
            }
        }
    }
    let mut parts: Vec<FalsePart> = parts
        .into_iter()
        .map(|(span, (text, seen, devices))| {
            let mut seen: Vec<Seen> = seen.into_iter().map(|((what, value), devices)| Seen { what, value, devices }).collect();
            seen.sort_by(|a, b| b.devices.cmp(&a.devices).then_with(|| (&a.what, &a.value).cmp(&(&b.what, &b.value))));
            FalsePart { text, span, seen, devices }
        })
        .collect();
    parts.sort_by(|a, b| b.devices.cmp(&a.devices).then_with(|| a.span.cmp(&b.span)));
    parts
}

/// The false parts without a false part inside.
fn smallest_false(trace: &Trace) -> Vec<usize> {
    let is_false =
        |index: &usize| trace.steps[*index].result.as_ref().is_ok_and(|value| value.type_name == "bool" && value.text == "false");
    let candidates: Vec<usize> = (0..trace.steps.len()).filter(is_false).collect();
    let inside = |inner: Span, outer: Span| inner != outer && outer.start <= inner.start && inner.end <= outer.end;
    let mut smallest: Vec<usize> = Vec::new();
    for &index in &candidates {
        let span = trace.steps[index].span;
        // A literal or a plain boolean attribute that is compared is not what is false.
        let holds = candidates.iter().any(|&other| {
            let other_step = &trace.steps[other];
            inside(other_step.span, span) && !is_plain(&other_step.text)
        });
        let operand = is_plain(&trace.steps[index].text)
            && candidates.iter().any(|&other| inside(span, trace.steps[other].span) && compares(&trace.steps[other].text));
        if !holds && !operand && !smallest.iter().any(|&known| trace.steps[known].span == span) {
            smallest.push(index);
        }
    }
    smallest
}

/// A literal or a chain of fields: no operator, no call.
fn is_plain(text: &str) -> bool {
    let bare = text.split('"').step_by(2).collect::<String>();
    let bare = bare.split('\'').step_by(2).collect::<String>();
    !bare.contains([' ', '(', '=', '<', '>', '&', '|', '!', '+'])
}

fn compares(text: &str) -> bool {
    ["==", "!=", "<", ">", " in "].iter().any(|operator| text.contains(operator)) && !text.contains("&&") && !text.contains("||")
}

/// The values of the device that a part looked at: the longest chains of fields, no maps.
fn looked_at(trace: &Trace, span: Span) -> Vec<(String, String)> {
    let inside = |inner: Span| span.start <= inner.start && inner.end <= span.end;
    let chains: Vec<_> = trace
        .steps
        .iter()
        .filter(|step| inside(step.span) && step.text.starts_with("device.") && is_plain(&step.text))
        .filter_map(|step| step.result.as_ref().ok().map(|value| (step, value)))
        .filter(|(_, value)| !value.text.starts_with('{') && !value.type_name.starts_with("map"))
        .collect();
    let mut found = Vec::new();
    for (step, value) in &chains {
        let longer = chains.iter().any(|(other, _)| other.span.start == step.span.start && other.span.end > step.span.end);
        let pair = (step.text.clone(), value.text.clone());
        if !longer && !found.contains(&pair) {
            found.push(pair);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parts(expression: &str) -> Vec<String> {
        let slice: ResourceSlice = serde_json::from_value(json!({"spec": {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": [
            {"name": "a", "attributes": {"model": {"string": "L"}, "index": {"int": 0}, "healthy": {"bool": false}}, "capacity": {"memory": {"value": "80Gi"}}},
            {"name": "b", "attributes": {"model": {"string": "M"}, "index": {"int": 1}, "healthy": {"bool": true}}, "capacity": {"memory": {"value": "80Gi"}}},
        ]}})).expect("a slice");
        let devices = slice.spec.devices.clone().unwrap_or_default();
        false_parts(expression, Features::latest(), devices.iter().map(|device| (&slice, device)))
            .iter()
            .map(|part| {
                let seen: Vec<String> = part.seen.iter().map(|seen| format!("{}={}*{}", seen.what, seen.value, seen.devices)).collect();
                format!("{} *{}: {}", part.text, part.devices, seen.join(", "))
            })
            .collect()
    }

    #[test]
    fn the_smallest_false_part_with_the_values_seen() {
        let memory = r#"device.capacity["d"].memory.compareTo(quantity("100Gi")) >= 0"#;
        assert_eq!(parts(memory), [format!(r#"{memory} *2: device.capacity["d"].memory=quantity("80Gi")*2"#)]);
        assert_eq!(
            parts(r#"device.driver == "d" && device.attributes["d"].model == "M""#),
            [r#"device.attributes["d"].model == "M" *1: device.attributes["d"].model="L"*1"#]
        );
        assert_eq!(
            parts(r#"device.attributes["d"].model == "X" || device.attributes["d"].index > 0"#)[0],
            r#"device.attributes["d"].model == "X" *1: device.attributes["d"].model="L"*1"#,
        );
        assert_eq!(
            parts(r#"device.attributes["d"].healthy"#),
            [r#"device.attributes["d"].healthy *1: device.attributes["d"].healthy=false*1"#]
        );
        assert_eq!(parts(r#"!(device.attributes["d"].model in ["L", "M"])"#).len(), 1, "a negation is what is false");
    }
}
