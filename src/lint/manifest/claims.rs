//! Claims, templates and classes: selectors, classes, constraints, counts, admin access, taint rules.

use std::collections::BTreeSet;

use serde_json::Value;

use super::finding::{ManifestFinding, Rule};
use super::subject::{Subject, World, list_at, text_at};
use crate::base::nearest::nearest;
use crate::cel::{Environment, Program, Purpose};
use crate::lint::fleet::Space;
use crate::lint::places::{requests, selectors};
use crate::lint::selector::{ClassSelectors, Severity, examine};

/// Devices that a claim can have.
const MOST_DEVICES: i64 = 32;
/// The label that admin access needs, and how it was spelt before 1.34.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";
const OLD_ADMIN_LABEL: &str = "resource.k8s.io/admin-access";

pub(super) fn check(subject: &Subject, world: &World<'_>, found: &mut Vec<ManifestFinding>) {
    if !subject.is_dra() {
        return;
    }
    selector_traps(subject, world, found);
    match subject.kind() {
        "ResourceClaim" => devices(subject, world, "spec.devices", found),
        "ResourceClaimTemplate" => devices(subject, world, "spec.spec.devices", found),
        "DeviceClass" if list_at(&subject.object, "/spec/selectors").is_empty() => {
            found.push(subject.finding(Rule::OpenClass, "spec", |_| {}));
        }
        "DeviceTaintRule" => taint_rule(subject, found),
        _ => {}
    }
}

/// The traps of every selector, with the devices that its class selects.
fn selector_traps(subject: &Subject, world: &World<'_>, found: &mut Vec<ManifestFinding>) {
    let classes = world.classes();
    for place in selectors(&subject.object) {
        let class = place.class.as_ref().and_then(|name| class_selectors(&classes, name));
        let report = examine(&place.expression, world.environment(), world.fleet, class.as_ref());
        let mut told = false;
        for trap in report.findings {
            told |= trap.severity < Severity::Note;
            let mut finding = subject.finding(Rule::Selector, &place.path, |_| {});
            finding.severity = trap.severity;
            finding.values.clone_from(&trap.values);
            finding.selector = Some(Box::new(trap));
            found.push(finding);
        }
        if !told && report.verdict.is_accepted() && report.devices.asked() > 0 && report.devices.matches == 0 {
            found.push(subject.finding(Rule::NoDevice, &place.path, |finding| {
                finding.with("devices", report.devices.asked());
            }));
        }
    }
}

fn class_selectors(classes: &[&Value], name: &str) -> Option<ClassSelectors> {
    let class = classes.iter().find(|class| text_at(class, "/metadata/name") == name)?;
    let stored = Environment { purpose: Purpose::Stored, consumable_capacity: true, list_type_attributes: true };
    let programs = selectors(class).iter().map(|place| Program::compile_selector(&place.expression, stored)).collect::<Result<_, _>>();
    Some(ClassSelectors { name: name.to_owned(), selectors: programs.ok()? })
}

fn devices(subject: &Subject, world: &World<'_>, path: &str, found: &mut Vec<ManifestFinding>) {
    let Some(devices) = subject.object.pointer(&format!("/{}", path.replace('.', "/"))) else { return };
    let classes = world.classes();
    let mut count = 0_i64;
    let mut admin = None;
    for (at, request) in requests(devices, path) {
        class(subject, world, &classes, &at, request, found);
        if !at.contains("firstAvailable") && request.get("allocationMode").and_then(Value::as_str) != Some("All") {
            count = count.saturating_add(request.get("count").and_then(Value::as_i64).unwrap_or(1));
        }
        if request.get("adminAccess") == Some(&Value::Bool(true)) {
            admin.get_or_insert(format!("{at}.adminAccess"));
        }
    }
    let alternatives = devices.get("requests").and_then(Value::as_array).into_iter().flatten();
    for alternatives in alternatives.filter_map(|request| request.get("firstAvailable")?.as_array()) {
        // The largest alternative is what the claim may come to.
        let counts = alternatives.iter().map(|one| one.get("count").and_then(Value::as_i64).unwrap_or(1));
        count = count.saturating_add(counts.max().unwrap_or(0));
    }
    if count > MOST_DEVICES {
        found.push(subject.finding(Rule::TooManyDevices, &format!("{path}.requests"), |finding| {
            finding.with("count", count).with("limit", MOST_DEVICES);
        }));
    }
    if let Some(at) = admin {
        admin_access(subject, world, &at, found);
    }
    if !world.fleet.devices.is_empty() {
        constraints(subject, world, devices, path, found);
    }
}

fn class(subject: &Subject, world: &World<'_>, classes: &[&Value], at: &str, request: &Value, found: &mut Vec<ManifestFinding>) {
    let Some(name) = request.get("deviceClassName").and_then(Value::as_str) else { return };
    let known: BTreeSet<&str> = classes.iter().map(|class| text_at(class, "/metadata/name")).collect();
    // Without any class nothing is known of classes.
    if known.is_empty() || known.contains(name) {
        return;
    }
    let drivers = world.fleet.drivers();
    let rule = if drivers.contains(name) { Rule::ClassIsDriver } else { Rule::UnknownClass };
    let near = nearest(name, known.iter().copied());
    found.push(subject.finding(rule, &format!("{at}.deviceClassName"), |finding| {
        finding.with("class", name).with("classes", known.iter().copied().collect::<Vec<_>>().join(", ")).with("near", near.unwrap_or("-"));
    }));
}

fn admin_access(subject: &Subject, world: &World<'_>, at: &str, found: &mut Vec<ManifestFinding>) {
    let name = subject.namespace();
    // A namespace that is neither in the files nor in a cluster is not known.
    let Some(namespace) = world.namespace(name) else { return };
    let labels = namespace.pointer("/metadata/labels");
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    if label(ADMIN_LABEL) == Some("true") {
        return;
    }
    let seen = match (label(ADMIN_LABEL), label(OLD_ADMIN_LABEL)) {
        (Some(value), _) => format!("{ADMIN_LABEL}: {value:?}"),
        (None, Some(value)) => format!("{OLD_ADMIN_LABEL}: {value:?}"),
        (None, None) => "-".to_owned(),
    };
    found.push(subject.finding(Rule::AdminAccess, at, |finding| {
        finding.with("namespace", name).with("label", ADMIN_LABEL).with("seen", seen);
    }));
}

fn constraints(subject: &Subject, world: &World<'_>, devices: &Value, path: &str, found: &mut Vec<ManifestFinding>) {
    for (number, constraint) in devices.get("constraints").and_then(Value::as_array).into_iter().flatten().enumerate() {
        for field in ["matchAttribute", "distinctAttribute"] {
            let Some(name) = constraint.get(field).and_then(Value::as_str) else { continue };
            let Some((domain, id)) = name.split_once('/') else { continue };
            let derived = requests(devices, path).iter().any(|(_, request)| request.get("derivedAttributes").is_some());
            if derived || world.fleet.with(Space::Attributes, domain, id).next().is_some() {
                continue;
            }
            let known: BTreeSet<String> = world
                .fleet
                .domains(Space::Attributes)
                .into_iter()
                .flat_map(|domain| world.fleet.names(Space::Attributes, domain).into_iter().map(move |id| format!("{domain}/{id}")))
                .collect();
            let same_id = known.iter().find(|known| known.ends_with(&format!("/{id}"))).map(String::as_str);
            let near = same_id.or_else(|| nearest(name, known.iter().map(String::as_str)));
            found.push(subject.finding(Rule::Constraint, &format!("{path}.constraints[{number}].{field}"), |finding| {
                finding.with("name", name).with("devices", world.fleet.devices.len()).with("near", near.unwrap_or("-"));
            }));
        }
    }
}

fn taint_rule(subject: &Subject, found: &mut Vec<ManifestFinding>) {
    let selector = subject.object.pointer("/spec/deviceSelector");
    let narrows = selector.and_then(Value::as_object).is_some_and(|selector| selector.values().any(|value| !value.is_null()));
    if !narrows {
        let effect = text_at(&subject.object, "/spec/taint/effect").to_owned();
        let path = if selector.is_some() { "spec.deviceSelector" } else { "spec" };
        found.push(subject.finding(Rule::OpenTaintRule, path, |finding| {
            finding.with("effect", if effect.is_empty() { "-" } else { &effect });
        }));
    }
}
