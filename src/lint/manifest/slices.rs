//! Slices: names, versions, pools.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::finding::{ManifestFinding, Rule};
use super::subject::{Subject, World, list_at, text_at};
use crate::lint::selector::nearest_version;
use crate::model::semver::Semver;

pub(super) fn check(subject: &Subject, _world: &World<'_>, found: &mut Vec<ManifestFinding>) {
    if !subject.is_dra() || subject.kind() != "ResourceSlice" {
        return;
    }
    let driver = text_at(&subject.object, "/spec/driver");
    for (number, device) in list_at(&subject.object, "/spec/devices").iter().enumerate() {
        let at = format!("spec.devices[{number}]");
        let name = text_at(device, "/name");
        if name.chars().any(|c| c.is_ascii_uppercase()) {
            found.push(subject.finding(Rule::DeviceName, &format!("{at}.name"), |finding| {
                finding.with("name", name).with("instead", name.to_ascii_lowercase());
            }));
        }
        for space in ["attributes", "capacity"] {
            for (key, value) in device.get(space).and_then(Value::as_object).into_iter().flatten() {
                named(subject, &format!("{at}.{space}[{key}]"), key, found);
                versions(subject, &format!("{at}.{space}[{key}]"), value, found);
                let qualified = format!("{driver}/{key}");
                if !key.contains('/') && device.get(space).and_then(|all| all.get(&qualified)).is_some() {
                    found.push(subject.finding(Rule::Twice, &format!("{at}.{space}[{key}]"), |finding| {
                        finding.with("name", key).with("qualified", &qualified);
                    }));
                }
            }
        }
    }
}

fn named(subject: &Subject, at: &str, key: &str, found: &mut Vec<ManifestFinding>) {
    let id = key.rsplit('/').next().unwrap_or(key);
    let instead: String = id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let starts_well = id.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !id.is_empty() && (instead != id || !starts_well) {
        let instead = if starts_well { instead } else { format!("_{instead}") };
        found.push(subject.finding(Rule::Identifier, at, |finding| {
            finding.with("name", id).with("instead", instead);
        }));
    }
}

fn versions(subject: &Subject, at: &str, value: &Value, found: &mut Vec<ManifestFinding>) {
    let one = value.get("version").and_then(Value::as_str);
    let several = value.get("versions").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for version in one.into_iter().chain(several) {
        if let Err(error) = Semver::parse(version) {
            let near = nearest_version(version).unwrap_or_else(|| "-".to_owned());
            let field = if one.is_some() { "version" } else { "versions" };
            found.push(subject.finding(Rule::Version, &format!("{at}.{field}"), |finding| {
                finding.with("text", version).with("why", error).with("near", near);
            }));
        }
    }
}

/// Driver and pool, and the slices of it.
type Pools<'s> = BTreeMap<(&'s str, &'s str), Vec<&'s Subject>>;

/// Pools over all files: complete, no device twice, one node each.
pub(super) fn check_pools(subjects: &[Subject], found: &mut Vec<ManifestFinding>) {
    let mut pools: Pools<'_> = BTreeMap::new();
    for subject in subjects.iter().filter(|subject| subject.is_dra() && subject.kind() == "ResourceSlice") {
        pools.entry((text_at(&subject.object, "/spec/driver"), text_at(&subject.object, "/spec/pool/name"))).or_default().push(subject);
    }
    let number = |subject: &Subject, pointer: &str| subject.object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    for ((driver, pool), mut slices) in pools {
        let newest = slices.iter().map(|slice| number(slice, "/spec/pool/generation")).max().unwrap_or(0);
        slices.retain(|slice| number(slice, "/spec/pool/generation") == newest);
        let Some(first) = slices.first() else { continue };
        let expected = number(first, "/spec/pool/resourceSliceCount");
        if slices.len() as i64 != expected {
            found.push(first.finding(Rule::PartialPool, "spec.pool.resourceSliceCount", |finding| {
                finding.with("pool", format!("{driver}/{pool}")).with("found", slices.len()).with("expected", expected);
            }));
        }
        let nodes: BTreeSet<&str> =
            slices.iter().map(|slice| text_at(&slice.object, "/spec/nodeName")).filter(|node| !node.is_empty()).collect();
        if nodes.len() > 1 {
            found.push(first.finding(Rule::SharedPool, "spec.pool.name", |finding| {
                finding.with("pool", format!("{driver}/{pool}")).with("nodes", nodes.iter().copied().collect::<Vec<_>>().join(", "));
            }));
        }
        let mut seen = BTreeSet::new();
        for slice in &slices {
            for (number, device) in list_at(&slice.object, "/spec/devices").iter().enumerate() {
                if !seen.insert(text_at(device, "/name")) {
                    found.push(slice.finding(Rule::SameDevice, &format!("spec.devices[{number}].name"), |finding| {
                        finding.with("pool", format!("{driver}/{pool}")).with("name", text_at(device, "/name"));
                    }));
                }
            }
        }
    }
}
