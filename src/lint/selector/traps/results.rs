//! Failures of the evaluation that are no missing names, and devices that are published badly.

use std::collections::BTreeSet;

use super::super::Case;
use super::super::finding::{Finding, Severity, Trap};
use super::super::lookups::Lookups;
use super::super::rewrite::fix;
use super::listed;
use super::literals::nearest_version;
use crate::lint::fleet::Space;
use crate::model::semver::Semver;

pub(super) fn find(case: &Case<'_>, found: &mut Vec<Finding>) {
    let mut results = BTreeSet::new();
    for (device, answer) in case.fleet.devices.iter().zip(&case.answers.answers) {
        let Some(error) = answer.error() else { continue };
        if !device.input.is_usable() {
            found.push(bad_device(&device.id.to_string(), device, error));
        } else if error.contains("could not be converted to bool") {
            if let Some(Ok(value)) = answer.trace().map(|trace| &trace.result) {
                results.insert((value.type_name, value.text.clone()));
            }
        } else if error.contains("cost limit exceeded") {
            found.push(Finding::new(Trap::CostReached, Severity::Error, None).with("device", &device.id));
        }
    }
    if let Some((type_name, value)) = results.first() {
        let fix = fix(case, format!("{} == {value}", case.expression.trim_end()));
        let values = listed(results.iter().map(|(_, value)| value));
        found.push(Finding::new(Trap::NotBool, Severity::Error, None).with("type", type_name).with("values", values).fixed(fix));
    }
    if let Some(outline) = case.outline {
        twice(case, &Lookups::of(outline), found);
    }
}

fn bad_device(name: &str, device: &crate::lint::fleet::FleetDevice, error: &str) -> Finding {
    let versions = device.attributes.iter().filter_map(|(name, attribute)| Some((name, attribute.version.as_ref()?)));
    let bad = versions.into_iter().find(|(_, version)| Semver::parse(version).is_err());
    let near = bad.and_then(|(_, version)| nearest_version(version));
    Finding::new(Trap::BadDevice, Severity::Error, None)
        .with("device", name)
        .with("error", error)
        .with("near", near.unwrap_or_else(|| "-".to_owned()))
}

/// Attributes that are published with and without the domain, with different values (Kubernetes takes either, at random).
fn twice(case: &Case<'_>, lookups: &Lookups, found: &mut Vec<Finding>) {
    for lookup in lookups.lookups.iter().filter(|lookup| lookup.domain.space == Space::Attributes) {
        let device = case.fleet.devices.iter().find(|device| device.twice(&lookup.domain.name, &lookup.id).is_some_and(|(a, b)| a != b));
        if let Some(device) = device {
            found.push(
                Finding::new(Trap::Twice, Severity::Error, lookup.span)
                    .with("name", &lookup.id)
                    .with("domain", &lookup.domain.name)
                    .with("device", &device.id),
            );
        }
    }
}
