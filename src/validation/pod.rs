//! Validation of new and changed pods (`ValidatePodCreate`, `ValidatePodUpdate` in `pkg/apis/core/validation`): metadata,
//! claims, containers, volumes, scheduling fields. Fields that nothing in the lab reads are taken as they are.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field::{Bad, Faults, Path, duplicate, forbidden, invalid, not_found, not_supported, required};
use super::json::{entries, field, int, is_set, list, optional, text};
use super::meta::{self, Naming};
use super::{go, names, node_selector, pod_resources};

/// Validates a new pod.
pub(crate) fn validate_create(pod: &Value, faults: &mut Faults) {
    validate_spec(pod, faults);
    let (spec, path) = (field(pod, "spec"), Path::new("spec"));
    if !list(spec, "ephemeralContainers").is_empty() {
        faults.push(forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        faults.push(forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared"));
    }
}

/// What creation and update check alike.
pub(crate) fn validate_spec(pod: &Value, faults: &mut Faults) {
    meta::validate(pod, true, Naming::Subdomain, true, faults);
    let (spec, path) = (field(pod, "spec"), Path::new("spec"));
    let volumes = volumes(list(spec, "volumes"), &path.child("volumes"), faults);
    let claims = claims(list(spec, "resourceClaims"), &path.child("resourceClaims"), faults);
    let parts = Parts { volumes: &volumes, claims: &claims };
    containers(spec, &parts, &path, faults);
    let policy = text(spec, "restartPolicy");
    if !matches!(policy, "Always" | "OnFailure" | "Never") {
        faults.push(not_supported(&path.child("restartPolicy"), policy, &["Always", "OnFailure", "Never"]));
    }
    let dns = text(spec, "dnsPolicy");
    let known = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    if !known.contains(&dns) {
        faults.push(not_supported(&path.child("dnsPolicy"), dns, &known));
    }
    let at = path.child("nodeSelector");
    for (key, value) in entries(spec, "nodeSelector") {
        let value = value.as_str().unwrap_or_default();
        faults.each(&at, key, names::qualified(key));
        faults.each(&at, value, names::label_value(value));
    }
    affinity(field(spec, "affinity"), &path.child("affinity"), faults);
    gates(list(spec, "schedulingGates"), &path.child("schedulingGates"), faults);
    let account = text(spec, "serviceAccountName");
    if !account.is_empty() {
        faults.each(&path.child("serviceAccountName"), account, names::subdomain(account));
    }
    let node = text(spec, "nodeName");
    if !node.is_empty() {
        faults.each(&path.child("nodeName"), node, names::subdomain(node));
    }
    if let Some(seconds) = field(spec, "activeDeadlineSeconds").as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = format!("must be between 1 and {}, inclusive", i32::MAX);
        faults.push(invalid(&path.child("activeDeadlineSeconds"), seconds, why));
    }
    for name in ["hostname", "subdomain"] {
        let value = text(spec, name);
        if !value.is_empty() {
            faults.each(&path.child(name), value, names::label(value));
        }
    }
    tolerations(list(spec, "tolerations"), &path.child("tolerations"), faults);
    let preemption = text(spec, "preemptionPolicy");
    if !matches!(preemption, "" | "PreemptLowerPriority" | "Never") {
        faults.push(not_supported(&path.child("preemptionPolicy"), preemption, &["PreemptLowerPriority", "Never"]));
    }
    if int(spec, "terminationGracePeriodSeconds") < 0 {
        let seconds = int(spec, "terminationGracePeriodSeconds");
        faults.push(invalid(&path.child("terminationGracePeriodSeconds"), seconds, "must be greater than or equal to 0"));
    }
}

/// Names that containers may refer to.
struct Parts<'a> {
    volumes: &'a BTreeSet<&'a str>,
    claims: &'a BTreeSet<&'a str>,
}

fn claims<'a>(claims: &'a [Value], path: &Path, faults: &mut Faults) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (number, claim) in claims.iter().enumerate() {
        let at = path.index(number);
        let name = text(claim, "name");
        if name.is_empty() {
            faults.push(required(&at.child("name"), ""));
        } else if seen.contains(name) {
            faults.push(duplicate(&at.child("name"), name));
        } else {
            faults.each(&at.child("name"), name, names::label(name));
            seen.insert(name);
        }
        let shown = || Bad::raw(go::print("PodResourceClaim", claim, go::Form::Internal));
        match (is_set(claim, "resourceClaimName"), is_set(claim, "resourceClaimTemplateName")) {
            (true, true) => {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                faults.push(invalid(&at, shown(), why));
            }
            (false, false) => {
                let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                faults.push(invalid(&at, shown(), why));
            }
            _ => {}
        }
        for name in ["resourceClaimName", "resourceClaimTemplateName"] {
            if let Some(value) = optional(claim, name) {
                faults.each(&at.child(name), value, names::subdomain(value));
            }
        }
    }
    seen
}

fn volumes<'a>(volumes: &'a [Value], path: &Path, faults: &mut Faults) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (number, volume) in volumes.iter().enumerate() {
        let at = path.index(number);
        let mut sources = volume.as_object().into_iter().flatten().filter(|(name, value)| *name != "name" && !value.is_null());
        if sources.next().is_none() {
            faults.push(required(&at, "must specify a volume type"));
        }
        for (name, _) in sources {
            faults.push(forbidden(&at.child(name), "may not specify more than 1 volume type"));
        }
        for (source, name) in
            [("configMap", "name"), ("secret", "secretName"), ("persistentVolumeClaim", "claimName"), ("hostPath", "path")]
        {
            if is_set(volume, source) && text(field(volume, source), name).is_empty() {
                faults.push(required(&at.child(source).child(name), ""));
            }
        }
        let name = text(volume, "name");
        if name.is_empty() {
            faults.push(required(&at.child("name"), ""));
        } else {
            faults.each(&at.child("name"), name, names::label(name));
        }
        if !seen.insert(name) {
            faults.push(duplicate(&at.child("name"), name));
        }
    }
    seen
}

fn containers(spec: &Value, parts: &Parts<'_>, path: &Path, faults: &mut Faults) {
    let at = path.child("containers");
    let (containers, init) = (list(spec, "containers"), list(spec, "initContainers"));
    let mut seen = BTreeSet::new();
    if containers.is_empty() {
        faults.push(required(&at, ""));
    }
    for (number, entry) in containers.iter().enumerate() {
        let at = at.index(number);
        container(entry, parts, &at, faults);
        if !seen.insert(text(entry, "name")) {
            faults.push(duplicate(&at.child("name"), text(entry, "name")));
        }
    }
    let at = path.child("initContainers");
    for (number, entry) in init.iter().enumerate() {
        let at = at.index(number);
        container(entry, parts, &at, faults);
        if !text(entry, "name").is_empty() && !seen.insert(text(entry, "name")) {
            faults.push(duplicate(&at.child("name"), text(entry, "name")));
        }
        let policy = text(entry, "restartPolicy");
        if !matches!(policy, "" | "Always" | "OnFailure" | "Never") {
            faults.push(not_supported(&at.child("restartPolicy"), policy, &["Always", "OnFailure", "Never"]));
        }
        let restartable = policy == "Always";
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if is_set(entry, name) && !restartable {
                faults.push(forbidden(&at.child(name), "may not be set for init containers without restartPolicy=Always"));
            }
        }
    }
}

fn container(container: &Value, parts: &Parts<'_>, path: &Path, faults: &mut Faults) {
    let name = text(container, "name");
    if name.is_empty() {
        faults.push(required(&path.child("name"), ""));
    } else {
        faults.each(&path.child("name"), name, names::label(name));
    }
    if text(container, "image").is_empty() {
        faults.push(required(&path.child("image"), ""));
    }
    let policy = text(container, "terminationMessagePolicy");
    if !matches!(policy, "File" | "FallbackToLogsOnError") {
        faults.push(not_supported(&path.child("terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]));
    }
    ports(list(container, "ports"), &path.child("ports"), faults);
    environment(list(container, "env"), &path.child("env"), faults);
    mounts(list(container, "volumeMounts"), parts, &path.child("volumeMounts"), faults);
    let policy = text(container, "imagePullPolicy");
    if !matches!(policy, "Always" | "IfNotPresent" | "Never") {
        faults.push(not_supported(&path.child("imagePullPolicy"), policy, &["Always", "IfNotPresent", "Never"]));
    }
    pod_resources::validate(field(container, "resources"), parts.claims, &path.child("resources"), faults);
}

fn ports(ports: &[Value], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (number, port) in ports.iter().enumerate() {
        let at = path.index(number);
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = port_name(name);
            if messages.is_empty() && !seen.insert(name) {
                faults.push(duplicate(&at.child("name"), name));
            }
            faults.each(&at.child("name"), name, messages);
        }
        if int(port, "containerPort") == 0 {
            faults.push(required(&at.child("containerPort"), ""));
        }
        for name in ["containerPort", "hostPort"] {
            let value = int(port, name);
            if value != 0 && !(1..=65535).contains(&value) {
                faults.push(invalid(&at.child(name), value, "must be between 1 and 65535, inclusive"));
            }
        }
        let protocol = text(port, "protocol");
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            faults.push(not_supported(&at.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]));
        }
    }
}

fn port_name(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > 15 {
        messages.push("must be no more than 15 characters".to_owned());
    }
    if !name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-') {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|c| c.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

fn environment(variables: &[Value], path: &Path, faults: &mut Faults) {
    for (number, variable) in variables.iter().enumerate() {
        let at = path.index(number);
        let name = text(variable, "name");
        if name.is_empty() {
            faults.push(required(&at.child("name"), ""));
        } else if !name.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
            let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            faults.push(invalid(&at.child("name"), name, why));
        }
        if is_set(variable, "valueFrom") {
            let sources = field(variable, "valueFrom").as_object().map_or(0, |fields| fields.values().filter(|v| !v.is_null()).count());
            let at = at.child("valueFrom");
            if sources == 0 {
                let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
                faults.push(invalid(&at, "", why));
            } else if !text(variable, "value").is_empty() {
                faults.push(invalid(&at, "", "may not be specified when `value` is not empty"));
            } else if sources > 1 {
                faults.push(invalid(&at, "", "may not have more than one field specified at a time"));
            }
        }
    }
}

fn mounts(mounts: &[Value], parts: &Parts<'_>, path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (number, mount) in mounts.iter().enumerate() {
        let at = path.index(number);
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            faults.push(required(&at.child("name"), ""));
        }
        if !parts.volumes.contains(name) {
            faults.push(not_found(&at.child("name"), name, ""));
        }
        if place.is_empty() {
            faults.push(required(&at.child("mountPath"), ""));
        }
        if !seen.insert(place) {
            faults.push(invalid(&at.child("mountPath"), place, "must be unique"));
        }
    }
}

fn affinity(affinity: &Value, path: &Path, faults: &mut Faults) {
    let (node, at) = (field(affinity, "nodeAffinity"), path.child("nodeAffinity"));
    let name = "requiredDuringSchedulingIgnoredDuringExecution";
    if is_set(node, name) {
        node_selector::validate(field(node, name), &at.child(name), faults);
    }
    let name = "preferredDuringSchedulingIgnoredDuringExecution";
    for (number, term) in list(node, name).iter().enumerate() {
        let at = at.child(name).index(number);
        let weight = int(term, "weight");
        if !(1..=100).contains(&weight) {
            faults.push(invalid(&at.child("weight"), weight, "must be in the range 1-100"));
        }
        node_selector::term_at(field(term, "preference"), false, &at.child("preference"), faults);
    }
}

fn gates(gates: &[Value], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (number, gate) in gates.iter().enumerate() {
        let at = path.index(number);
        let name = text(gate, "name");
        faults.each(&at, name, names::qualified(name));
        if !seen.insert(name) {
            faults.push(duplicate(&at, name));
        }
    }
}

/// Tolerations of node taints.
pub(crate) fn tolerations(tolerations: &[Value], path: &Path, faults: &mut Faults) {
    for (number, toleration) in tolerations.iter().enumerate() {
        let at = path.index(number);
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let (value, effect) = (text(toleration, "value"), text(toleration, "effect"));
        if !key.is_empty() {
            faults.each(&at.child("key"), key, names::qualified(key));
        } else if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            faults.push(invalid(&at.child("operator"), operator, why));
        }
        if is_set(toleration, "tolerationSeconds") && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            faults.push(invalid(&at.child("effect"), effect, why));
        }
        match operator {
            "Equal" | "" => {
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    faults.push(invalid(&at.child("operator"), value, messages.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                faults.push(invalid(&at.child("operator"), value, "value must be empty when `operator` is 'Exists'"));
            }
            "Exists" => {}
            other => faults.push(not_supported(&at.child("operator"), other, &["Equal", "Exists"])),
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            faults.push(not_supported(&at.child("effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]));
        }
    }
}
