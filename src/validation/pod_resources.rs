//! `resources` of a container: limits, requests and claims (`validateResourceRequirements`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::field::{Faults, Path, duplicate, invalid, not_found, required};
use super::json::{entries, field, list, text};
use super::names;
use crate::model::quantity::Quantity;

fn quantity(value: &Value) -> Option<Quantity> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Quantity::parse(&text).ok()
}

/// Kubernetes' own resources: names without a domain, or in the domain kubernetes.io.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Resources of which a container may be given less than its limit.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified(&format!("requests.{name}")).is_empty()
}

/// Validates the resources of a container in a pod whose claims are named `claims`.
pub(crate) fn validate(resources: &Value, claims: &BTreeSet<&str>, path: &Path, faults: &mut Faults) {
    let (limits_at, requests_at) = (path.child("limits"), path.child("requests"));
    for (name, value) in entries(resources, "limits") {
        amount(name, value, &limits_at.key(name), faults);
    }
    for (name, value) in entries(resources, "requests") {
        amount(name, value, &requests_at.key(name), faults);
        let Some(request) = quantity(value) else { continue };
        match quantity(field(field(resources, "limits"), name)) {
            Some(limit) if request != limit && !may_overcommit(name) => {
                faults.push(invalid(&requests_at, &request.to_string(), format!("must be equal to {name} limit of {limit}")));
            }
            Some(limit) if request > limit => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                faults.push(invalid(&requests_at, &request.to_string(), why));
            }
            None if !may_overcommit(name) => {
                faults.push(required(&limits_at, "Limit must be set for non overcommitable resources"));
            }
            _ => {}
        }
    }
    claim_names(list(resources, "claims"), claims, &path.child("claims"), faults);
}

fn amount(name: &str, value: &Value, path: &Path, faults: &mut Faults) {
    let messages = names::qualified(name);
    if !messages.is_empty() {
        faults.each(path, name, messages);
    } else if !name.contains('/') {
        let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        let known = standard || matches!(name, "storage" | "pods" | "services" | "secrets" | "configmaps");
        if !known {
            faults.push(invalid(path, name, "must be a standard resource type or fully qualified"));
        }
        if !standard {
            faults.push(invalid(path, name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        faults.push(invalid(path, name, "doesn't follow extended resource name standard"));
    }
    let Some(amount) = quantity(value) else { return };
    if amount.sign() < 0 {
        faults.push(invalid(path, &amount.to_string(), "must be greater than or equal to 0"));
    }
    if is_extended(name) && amount.milli_value() % 1000 != 0 {
        faults.push(invalid(path, &amount.to_string(), "must be an integer"));
    }
}

fn claim_names(claims: &[Value], known: &BTreeSet<&str>, path: &Path, faults: &mut Faults) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (number, claim) in claims.iter().enumerate() {
        let at = path.index(number);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            faults.push(required(&at, ""));
            continue;
        }
        if seen.contains(name) {
            faults.push(duplicate(&at, name));
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                faults.each(&at.child("request"), request, names::label(request));
                key = format!("{name}/{request}");
            }
            if seen.contains(&key) {
                faults.push(duplicate(&at, &key));
            } else if request.is_empty() {
                let parts = seen.iter().filter(|key| key.split_once('/').is_some_and(|(claim, _)| claim == name)).count();
                for _ in 0..parts {
                    faults.push(duplicate(&at, name));
                }
            }
            seen.insert(key);
        }
        if !known.contains(name) {
            let names: Vec<&str> = known.iter().copied().collect();
            let listed = if names.is_empty() { " which is empty".to_owned() } else { format!(": {}", names.join(", ")) };
            faults.push(not_found(&at, name, format!("must be one of the names in pod.spec.resourceClaims{listed}")));
        }
    }
}
