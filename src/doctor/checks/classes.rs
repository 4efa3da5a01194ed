//! DeviceClasses: what their selectors come to on the devices that are there, and classes that are not there.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::{DeviceAttribute, DeviceCapacity};
use serde_json::Value;

use crate::cel::{DeviceInput, Environment, Program, Purpose};
use crate::cluster::steps::Say;
use crate::doctor::facts::{Facts, called, items, name, names, requests, text};
use crate::doctor::{Check, Finding, Group, Looked, Severity};

/// Selectors of classes that fail, or that no device matches.
pub(super) const SELECTORS: Check = Check {
    id: "DL-DOC-431",
    slug: "class-selectors",
    group: Group::Cluster,
    least: Severity::Note,
    most: Severity::Warning,
    look: selectors,
};

/// Classes that are asked for and do not exist.
pub(super) const UNKNOWN: Check = Check {
    id: "DL-DOC-432",
    slug: "class-missing",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: unknown,
};

/// Expressions that are stored already are judged with everything on, as the scheduler does.
const STORED: Environment = Environment { purpose: Purpose::Stored, consumable_capacity: true, list_type_attributes: true };

/// More devices than this are not tried on each class, so that a large cluster takes no longer.
const ENOUGH: usize = 20_000;

struct Device<'a> {
    id: String,
    driver: &'a str,
    input: DeviceInput,
}

fn devices(slices: &[Value]) -> Vec<Device<'_>> {
    let mut all = Vec::new();
    for slice in slices {
        let driver = text(&slice["spec"]["driver"]);
        for device in items(&slice["spec"]["devices"]).take(ENOUGH.saturating_sub(all.len())) {
            let attributes: BTreeMap<String, DeviceAttribute> = serde_json::from_value(device["attributes"].clone()).unwrap_or_default();
            let capacity: BTreeMap<String, DeviceCapacity> = serde_json::from_value(device["capacity"].clone()).unwrap_or_default();
            let shared = device["allowMultipleAllocations"].as_bool().unwrap_or_default();
            all.push(Device {
                id: format!("{driver}/{}/{}", text(&slice["spec"]["pool"]["name"]), text(&device["name"])),
                driver,
                input: DeviceInput::new(driver, &attributes, &capacity, shared),
            });
        }
    }
    all
}

fn selectors(facts: &Facts) -> Looked {
    let devices = devices(facts.list("resourceslices")?);
    let used = asked_for(facts);
    let mut findings = Vec::new();
    for class in facts.list("deviceclasses")? {
        let class_name = name(class);
        let expressions: Vec<&str> = items(&class["spec"]["selectors"]).map(|s| text(&s["cel"]["expression"])).collect();
        let mut programs = Vec::new();
        let mut broken = None;
        for (index, expression) in expressions.iter().enumerate() {
            match Program::compile_selector(expression, STORED) {
                Ok(program) => programs.push(program),
                Err(error) => broken = broken.or(Some((index, error.to_string()))),
            }
        }
        if let Some((index, error)) = broken {
            let what = Say::new("doctor.class-selectors.broken").with("class", class_name);
            findings.push(
                Finding::new(Severity::Warning, what, Say::new("doctor.class-selectors.broken-advice"))
                    .seen(format!("{} selector #{index}", called("deviceclass", class)), format!("{}: {error}", expressions[index])),
            );
            continue;
        }
        let tried = try_all(&programs, &devices);
        if let Some((device, index, error)) = tried.failed.first() {
            let what = Say::new("doctor.class-selectors.fails").with("class", class_name).with("count", &tried.failed.len());
            let mut finding = Finding::new(Severity::Warning, what, Say::new("doctor.class-selectors.fails-advice"))
                .seen(format!("{} selector #{index}", called("deviceclass", class)), expressions[*index])
                .seen(format!("device {}", device.id), error.clone());
            finding.add("devices", format!("{} matched, {} failed, of {}", tried.matched, tried.failed.len(), devices.len()));
            findings.push(finding);
        } else if tried.matched == 0 && !devices.is_empty() {
            let drivers: BTreeSet<&str> = devices.iter().map(|d| d.driver).collect();
            let severity = if used.contains(class_name) { Severity::Warning } else { Severity::Note };
            let what = Say::new("doctor.class-selectors.none").with("class", class_name);
            let mut finding = Finding::new(severity, what, Say::new("doctor.class-selectors.none-advice"));
            for (index, expression) in expressions.iter().enumerate() {
                finding.add(format!("{} selector #{index}", called("deviceclass", class)), *expression);
            }
            let drivers: Vec<&str> = drivers.into_iter().collect();
            finding.add("devices", format!("{}, of drivers {}", devices.len(), drivers.join(", ")));
            findings.push(finding);
        }
    }
    Ok(findings)
}

struct Tried<'d> {
    matched: usize,
    failed: Vec<(&'d Device<'d>, usize, String)>,
}

/// Tries a class on the devices as the scheduler would: selectors in order, the first that is not true ends it.
fn try_all<'d>(programs: &[Program], devices: &'d [Device<'d>]) -> Tried<'d> {
    let mut tried = Tried { matched: 0, failed: Vec::new() };
    'devices: for device in devices {
        for (index, program) in programs.iter().enumerate() {
            match program.matches(&device.input).0 {
                Ok(true) => {}
                Ok(false) => continue 'devices,
                Err(error) => {
                    tried.failed.push((device, index, error.to_string()));
                    continue 'devices;
                }
            }
        }
        tried.matched += 1;
    }
    tried
}

/// The classes that claims and templates ask for.
fn asked_for(facts: &Facts) -> BTreeSet<&str> {
    let claims = facts.list("resourceclaims").unwrap_or_default().iter().map(|c| &c["spec"]);
    let templates = facts.list("resourceclaimtemplates").unwrap_or_default().iter().map(|t| &t["spec"]["spec"]);
    claims.chain(templates).flat_map(requests).map(|(_, asks)| text(&asks["deviceClassName"])).collect()
}

fn unknown(facts: &Facts) -> Looked {
    let classes = names(facts.list("deviceclasses")?);
    let waiting = facts.list("resourceclaims")?.iter().filter(|c| c["status"]["allocation"].is_null());
    let templates = facts.cluster()?.list_or_none("resourceclaimtemplates").iter();
    let all = waiting.map(|c| ("resourceclaim", c, &c["spec"])).chain(templates.map(|t| ("resourceclaimtemplate", t, &t["spec"]["spec"])));
    let mut missing: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    for (kind, object, spec) in all {
        for (request, asks) in requests(spec) {
            let class = text(&asks["deviceClassName"]);
            if !class.is_empty() && !classes.contains(class) {
                missing.entry(class).or_default().push((called(kind, object), format!("request {request}: deviceClassName {class}")));
            }
        }
    }
    let listed = if classes.is_empty() { "none".to_owned() } else { classes.iter().copied().collect::<Vec<_>>().join(", ") };
    let finding = |(class, seen): (&str, Vec<(String, String)>)| {
        let what = Say::new("doctor.class-missing.found").with("class", class);
        let mut finding = Finding::new(Severity::Warning, what, Say::new("doctor.class-missing.advice").with("class", class));
        for (of, seen) in seen {
            finding.add(of, seen);
        }
        finding.add("deviceclasses", listed.clone());
        finding
    };
    Ok(missing.into_iter().map(finding).collect())
}
