//! What a claim asks for: requests, selectors, constraints and configuration
//! (`validateDeviceClaim` in `pkg/apis/resource/validation`, and the declarative rules of the same fields).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::field::{Bad, Faults, Path, duplicate, forbidden, invalid, not_supported, required, too_long, too_many, too_many_characters};
use super::json::{field, flag, int, is_set, list, optional, text};
use super::{go, names};
use crate::cel::{Environment, Program, Purpose};
use crate::model::features::{Feature, Features};

/// Requests, constraints and configs of a claim, selectors of a request, requests that a constraint names.
const ENTRIES: usize = 32;
/// Alternatives of a request.
const ALTERNATIVES: usize = 8;
/// Bytes of a CEL expression.
const EXPRESSION: usize = 10 * 1024;
/// Estimated cost of a CEL expression, and of all derived attributes of a claim together.
const COST: u64 = 1_000_000;
/// Bytes of opaque parameters.
pub(crate) const PARAMETERS: usize = 10 * 1024;

const REFERENCE: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
const TOO_COMPLEX: &str = "too complex, exceeds cost limit";

/// The names of a claim's requests and, per request, of its alternatives.
pub(crate) struct RequestNames(BTreeMap<String, BTreeSet<String>>);

impl RequestNames {
    /// The names in `spec.devices`.
    pub(crate) fn of(devices: &Value) -> Self {
        let names = list(devices, "requests").iter().map(|request| {
            let alternatives = list(request, "firstAvailable").iter().map(|sub| text(sub, "name").to_owned()).collect();
            (text(request, "name").to_owned(), alternatives)
        });
        RequestNames(names.collect())
    }

    fn has(&self, reference: &str) -> bool {
        match reference.split_once('/') {
            None => self.0.contains_key(reference),
            Some((request, sub)) => self.0.get(request).is_some_and(|subs| subs.contains(sub)),
        }
    }

    /// Checks a reference to a request.
    pub(crate) fn check(&self, reference: &str, path: &Path, faults: &mut Faults) {
        let segments: Vec<&str> = reference.split('/').collect();
        if segments.len() <= 2 {
            for segment in &segments {
                faults.each(path, segment, names::label(segment));
            }
        }
        if segments.len() > 2 || !self.has(reference) {
            faults.push(invalid(path, reference, REFERENCE));
        }
    }

    /// Checks a list of references: its length, each entry, duplicates.
    pub(crate) fn check_list(&self, object: &Value, path: &Path, faults: &mut Faults) {
        let references = list(object, "requests");
        if references.len() > ENTRIES {
            faults.declare(too_many(path, references.len(), ENTRIES));
            return;
        }
        let mut seen = BTreeSet::new();
        for (number, reference) in references.iter().enumerate() {
            let reference = reference.as_str().unwrap_or_default();
            self.check(reference, &path.index(number), faults);
            if !seen.insert(reference) {
                faults.declare(duplicate(&path.index(number), reference));
            }
        }
    }
}

/// Validates `spec.devices` of a claim or template at `path`.
pub(crate) fn validate(devices: &Value, path: &Path, features: Features, faults: &mut Faults) {
    let names = RequestNames::of(devices);
    let mut check = Requests { features, constrained: constrained(devices), derived_cost: 0, faults };
    check.requests(list(devices, "requests"), &path.child("requests"));
    let derived_cost = check.derived_cost;
    constraints(devices, &names, path, features, faults);
    let configs = list(devices, "config");
    if configs.len() > ENTRIES {
        faults.declare(too_many(&path.child("config"), configs.len(), ENTRIES));
    } else {
        for (number, config) in configs.iter().enumerate() {
            let at = path.child("config").index(number);
            names.check_list(config, &at.child("requests"), faults);
            configuration(config, &at, false, faults);
        }
    }
    if derived_cost > COST {
        faults.push(forbidden(path, "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"));
    }
}

/// Attributes that constraints refer to, by the request they are for; `""` is all requests.
fn constrained(devices: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut by_request: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for constraint in list(devices, "constraints") {
        let Some(attribute) = optional(constraint, "matchAttribute").or_else(|| optional(constraint, "distinctAttribute")) else {
            continue;
        };
        let requests = list(constraint, "requests");
        if requests.is_empty() {
            by_request.entry(String::new()).or_default().insert(attribute.to_owned());
        }
        for request in requests.iter().filter_map(Value::as_str) {
            by_request.entry(request.to_owned()).or_default().insert(attribute.to_owned());
        }
    }
    by_request
}

struct Requests<'a> {
    features: Features,
    constrained: BTreeMap<String, BTreeSet<String>>,
    derived_cost: u64,
    faults: &'a mut Faults,
}

impl Requests<'_> {
    fn requests(&mut self, requests: &[Value], path: &Path) {
        if requests.len() > ENTRIES {
            self.faults.declare(too_many(path, requests.len(), ENTRIES));
            return;
        }
        self.unique(requests, "DeviceRequest", path);
        for (number, request) in requests.iter().enumerate() {
            self.request(request, &path.index(number));
        }
    }

    /// The declarative rule of lists that are keyed by name: the whole repeated entry is shown.
    fn unique(&mut self, items: &[Value], kind: &str, path: &Path) {
        let mut seen = BTreeSet::new();
        for (number, item) in items.iter().enumerate() {
            if !seen.insert(text(item, "name")) {
                self.faults.declare(duplicate(&path.index(number), Bad::raw(go::print(kind, item, go::Form::Versioned))));
            }
        }
    }

    fn request(&mut self, request: &Value, path: &Path) {
        let name = text(request, "name");
        self.faults.each(&path.child("name"), name, names::label(name));
        let alternatives = list(request, "firstAvailable");
        match (is_set(request, "exactly"), alternatives.is_empty()) {
            (false, true) => self.faults.push(required(path, "exactly one of `exactly` or `firstAvailable` is required")),
            (true, false) => self.faults.push(invalid(
                path,
                Bad::nil(),
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
            )),
            (true, true) => {
                let (exactly, at) = (field(request, "exactly"), path.child("exactly"));
                let class = text(exactly, "deviceClassName");
                if class.is_empty() {
                    self.faults.push(required(&at.child("deviceClassName"), ""));
                } else {
                    self.faults.each(&at.child("deviceClassName"), class, names::subdomain(class));
                }
                self.common(exactly, name, &at);
            }
            (false, false) => {
                let at = path.child("firstAvailable");
                if alternatives.len() > ALTERNATIVES {
                    self.faults.declare(too_many(&at, alternatives.len(), ALTERNATIVES));
                    return;
                }
                self.unique(alternatives, "DeviceSubRequest", &at);
                for (number, sub) in alternatives.iter().enumerate() {
                    let at = at.index(number);
                    let sub_name = text(sub, "name");
                    self.faults.each(&at.child("name"), sub_name, names::label(sub_name));
                    let class = text(sub, "deviceClassName");
                    if class.is_empty() {
                        self.faults.declare(required(&at.child("deviceClassName"), ""));
                    } else {
                        self.faults.declare_each(&at.child("deviceClassName"), class, names::long_name(class));
                    }
                    self.common(sub, &format!("{name}/{sub_name}"), &at);
                }
            }
        }
    }

    /// What requests and alternatives share.
    fn common(&mut self, request: &Value, name: &str, path: &Path) {
        selectors(list(request, "selectors"), &path.child("selectors"), false, self.features, self.faults);
        self.derived(request, name, path);
        let (count, mode) = (int(request, "count"), text(request, "allocationMode"));
        match mode {
            "All" if count != 0 => {
                self.faults.push(invalid(&path.child("count"), count, "must not be specified when allocationMode is 'All'"));
            }
            "ExactCount" if count <= 0 => self.faults.push(invalid(&path.child("count"), count, "must be greater than zero")),
            "All" | "ExactCount" => {}
            other => self.faults.declare(not_supported(&path.child("allocationMode"), other, &["All", "ExactCount"])),
        }
        for (number, toleration) in list(request, "tolerations").iter().enumerate() {
            self::toleration(toleration, &path.child("tolerations").index(number), self.faults);
        }
    }

    fn derived(&mut self, request: &Value, name: &str, path: &Path) {
        let (attributes, path) = (list(request, "derivedAttributes"), path.child("derivedAttributes"));
        if attributes.len() > ENTRIES {
            self.faults.declare(too_many(&path, attributes.len(), ENTRIES));
        }
        let mut seen = BTreeSet::new();
        for (number, attribute) in attributes.iter().enumerate() {
            let at = path.index(number);
            let (attribute_name, expression) = (text(attribute, "name"), text(attribute, "expression"));
            if attribute_name.is_empty() {
                self.faults.declare(required(&at.child("name"), ""));
            } else {
                let parent = name.split_once('/').map_or(name, |(parent, _)| parent);
                let used = ["", name, parent]
                    .iter()
                    .any(|request| self.constrained.get(*request).is_some_and(|attributes| attributes.contains(attribute_name)));
                if !used {
                    let detail = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request";
                    self.faults.push(invalid(&at.child("name"), attribute_name, detail));
                }
                fully_qualified(attribute_name, &at.child("name"), self.faults);
            }
            if expression.is_empty() {
                self.faults.declare(required(&at.child("expression"), ""));
            } else {
                let cost = cel(expression, true, &at.child("expression"), self.features, self.faults);
                self.derived_cost = self.derived_cost.saturating_add(cost);
            }
            if !seen.insert(attribute_name) {
                self.faults.push(duplicate(&at, attribute_name));
            }
        }
    }
}

/// Selectors of a request or class. `stored` ones were valid when they were stored and are not compiled again.
pub(crate) fn selectors(selectors: &[Value], path: &Path, stored: bool, features: Features, faults: &mut Faults) {
    if selectors.len() > ENTRIES {
        faults.declare(too_many(path, selectors.len(), ENTRIES));
        return;
    }
    for (number, selector) in selectors.iter().enumerate() {
        let at = path.index(number).child("cel");
        if !is_set(selector, "cel") {
            faults.push(required(&at, ""));
        } else if !stored {
            cel(text(field(selector, "cel"), "expression"), false, &at.child("expression"), features, faults);
        }
    }
}

/// Compiles a new expression; its estimated cost.
fn cel(expression: &str, derived: bool, path: &Path, features: Features, faults: &mut Faults) -> u64 {
    if expression.len() > EXPRESSION {
        faults.push(too_long(path, EXPRESSION));
        return 0;
    }
    let environment = Environment {
        purpose: Purpose::New,
        consumable_capacity: features.has(Feature::ConsumableCapacity),
        list_type_attributes: features.has(Feature::ListTypeAttributes),
    };
    let compiled =
        if derived { Program::compile_derived(expression, environment) } else { Program::compile_selector(expression, environment) };
    match compiled {
        Ok(program) => {
            let cost = program.estimated_cost();
            if cost > COST {
                faults.push(forbidden(path, TOO_COMPLEX));
            }
            cost
        }
        Err(error) => {
            faults.push(invalid(path, expression, error.message));
            0
        }
    }
}

fn constraints(devices: &Value, names: &RequestNames, path: &Path, features: Features, faults: &mut Faults) {
    let (constraints, path) = (list(devices, "constraints"), path.child("constraints"));
    if constraints.len() > ENTRIES {
        faults.declare(too_many(&path, constraints.len(), ENTRIES));
        return;
    }
    for (number, constraint) in constraints.iter().enumerate() {
        let at = path.index(number);
        names.check_list(constraint, &at.child("requests"), faults);
        for attribute in ["matchAttribute", "distinctAttribute"] {
            if let Some(name) = optional(constraint, attribute) {
                fully_qualified(name, &at.child(attribute), faults);
            }
        }
        if !is_set(constraint, "matchAttribute") && !is_set(constraint, "distinctAttribute") {
            faults.push(if features.has(Feature::ConsumableCapacity) {
                required(&at, "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set")
            } else {
                required(&at.child("matchAttribute"), "")
            });
        }
    }
}

/// A domain and an id, by a declarative rule.
fn fully_qualified(name: &str, path: &Path, faults: &mut Faults) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [id] => {
            declare_identifier(id, path, faults);
            faults.declare(invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"));
        }
        [domain, id] => {
            if domain.is_empty() {
                faults.declare(invalid(path, "", "prefix must not be empty"));
            } else {
                if domain.len() > 63 {
                    faults.declare(too_long(path, 63));
                }
                let messages = names::long_name(domain).into_iter().map(|message| format!("prefix: {message}")).collect();
                faults.declare_each(path, domain, messages);
            }
            if id.is_empty() {
                faults.declare(invalid(path, "", "name must not be empty"));
            } else {
                declare_identifier(id, path, faults);
            }
        }
        _ => {}
    }
}

fn declare_identifier(id: &str, path: &Path, faults: &mut Faults) {
    if id.len() > 32 {
        faults.declare(too_long(path, 32));
    }
    faults.declare_each(path, id, names::c_identifier(id));
}

/// `opaque` of a claim's, class's or allocation's configuration.
pub(crate) fn configuration(config: &Value, path: &Path, stored: bool, faults: &mut Faults) {
    let path = path.child("opaque");
    if !is_set(config, "opaque") {
        faults.push(required(&path, ""));
        return;
    }
    let opaque = field(config, "opaque");
    declare_driver(text(opaque, "driver"), &path.child("driver"), faults);
    raw(opaque, "parameters", PARAMETERS, stored, &path.child("parameters"), faults);
}

/// A driver name, by a declarative rule.
pub(crate) fn declare_driver(driver: &str, path: &Path, faults: &mut Faults) {
    if driver.is_empty() {
        faults.declare(required(path, ""));
        return;
    }
    faults.declare_each(path, driver, names::long_name_caseless(driver));
    if driver.chars().count() > 63 {
        faults.declare(too_many_characters(path, 63));
    }
}

/// A field with any JSON object in it.
pub(crate) fn raw(object: &Value, name: &str, max: usize, stored: bool, path: &Path, faults: &mut Faults) {
    match field(object, name) {
        Value::Null => faults.push(required(path, "")),
        value if !stored && value.to_string().len() > max => faults.push(too_long(path, max)),
        Value::Object(_) => {}
        _ => faults.push(invalid(path, "<value omitted>", "must be a valid JSON object")),
    }
}

/// A toleration of device taints.
pub(crate) fn toleration(toleration: &Value, path: &Path, faults: &mut Faults) {
    let (key, value, effect) = (text(toleration, "key"), text(toleration, "value"), text(toleration, "effect"));
    if !key.is_empty() {
        faults.declare_each(&path.child("key"), key, names::qualified(key));
    }
    match text(toleration, "operator") {
        "Exists" if !value.is_empty() => {
            faults.push(invalid(&path.child("value"), value, "must be empty for operator `Exists`"));
        }
        "Exists" => {}
        "Equal" => faults.each(&path.child("value"), value, names::label_value(value)),
        "" => faults.declare(required(&path.child("operator"), "")),
        other => faults.declare(not_supported(&path.child("operator"), other, &["Equal", "Exists"])),
    }
    if !matches!(effect, "" | "NoSchedule" | "NoExecute" | "None") {
        faults.declare(not_supported(&path.child("effect"), effect, &["NoExecute", "NoSchedule", "None"]));
    }
}

/// The first request that asks for admin access, if any does. The path that the API server reports leaves out `exactly`.
pub(crate) fn admin_request(devices: &Value) -> Option<Path> {
    let number = list(devices, "requests").iter().position(|request| flag(field(request, "exactly"), "adminAccess") == Some(true))?;
    Some(Path::new("spec").child("devices").child("requests").index(number).child("adminAccess"))
}

/// Defaults of `spec.devices`: `allocationMode: ExactCount`, `count: 1`, `operator: Equal` of tolerations.
pub(crate) fn defaults(devices: &mut Value) {
    for request in super::json::list_mut(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").filter(|exactly| exactly.is_object()) {
            request_defaults(exactly);
        }
        for sub in super::json::list_mut(request, "firstAvailable") {
            request_defaults(sub);
        }
    }
}

fn request_defaults(request: &mut Value) {
    super::json::default_text(request, "allocationMode", "ExactCount");
    let exact = text(request, "allocationMode") == "ExactCount";
    if int(request, "count") == 0 {
        super::json::remove(request, "count");
        if exact {
            super::json::default(request, "count", || 1.into());
        }
    }
    for toleration in super::json::list_mut(request, "tolerations") {
        super::json::default_text(toleration, "operator", "Equal");
    }
}
