//! Namespaces, nodes, config maps, secrets, service accounts and events: preparation and validation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::field::{Bad, Faults, Path, duplicate, forbidden, invalid, not_supported, required, too_long};
use super::json::{default, default_text, entries, field, flag, is_set, list, remove, same, text};
use super::meta::{self, Naming};
use super::{go, names};
use crate::embedded::api::Subresource;

/// Bytes of data in a config map or secret.
const DATA: usize = 1024 * 1024;

/// The finalizer of namespaces and the label with their name.
const KUBERNETES: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

fn label_namespace(namespace: &mut Value) {
    let name = crate::embedded::api::meta::name(namespace).to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(meta) = namespace.get_mut("metadata") {
        default(meta, "labels", || json!({}));
        meta["labels"][NAME_LABEL] = json!(name);
    }
    if !namespace["spec"].is_object() {
        namespace["spec"] = json!({});
    }
}

/// A new namespace is active and has the finalizer that its emptying removes.
pub(super) fn prepare_namespace(namespace: &mut Value) {
    label_namespace(namespace);
    default(&mut namespace["spec"], "finalizers", || json!([]));
    if let Some(finalizers) = namespace["spec"]["finalizers"].as_array_mut()
        && !finalizers.iter().any(|name| name == KUBERNETES)
    {
        finalizers.push(json!(KUBERNETES));
    }
    namespace["status"] = json!({"phase": "Active"});
}

/// A change of a namespace through each of its endpoints.
pub(super) fn prepare_namespace_update(subresource: Subresource, old: &Value, new: &mut Value) {
    label_namespace(new);
    let keep = |new: &mut Value, name: &str| match old.get(name) {
        Some(value) => new[name] = value.clone(),
        None => remove(new, name),
    };
    match subresource {
        Subresource::Main => {
            let finalizers = field(field(old, "spec"), "finalizers").clone();
            if finalizers.is_null() {
                remove(&mut new["spec"], "finalizers");
            } else {
                new["spec"]["finalizers"] = finalizers;
            }
            keep(new, "status");
        }
        Subresource::Status => keep(new, "spec"),
        Subresource::Finalize => keep(new, "status"),
    }
}

/// Validates a new namespace.
pub(super) fn validate_namespace(namespace: &Value, faults: &mut Faults) {
    meta::validate(namespace, false, Naming::Label, true, faults);
    let path = Path::new("spec").child("finalizers");
    for name in list(field(namespace, "spec"), "finalizers").iter().filter_map(Value::as_str) {
        faults.each(&path, name, names::qualified(name));
        meta::kube_finalizer(name, &path, faults);
    }
}

/// Validates a changed namespace.
pub(super) fn validate_namespace_update(subresource: Subresource, old: &Value, new: &Value, faults: &mut Faults) {
    meta::validate_update(old, new, faults);
    match subresource {
        Subresource::Main => {}
        Subresource::Status => {
            let phase = text(field(new, "status"), "phase");
            let path = Path::new("status").child("Phase");
            let deleting = is_set(field(new, "metadata"), "deletionTimestamp");
            if !deleting && phase != "Active" {
                faults.push(invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty"));
            }
            if deleting && phase != "Terminating" {
                faults.push(invalid(&path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"));
            }
        }
        Subresource::Finalize => {
            let path = Path::new("spec").child("finalizers");
            for (number, name) in list(field(new, "spec"), "finalizers").iter().filter_map(Value::as_str).enumerate() {
                let at = path.index(number);
                faults.each(&at, name, names::qualified(name));
                meta::kube_finalizer(name, &at, faults);
            }
        }
    }
}

/// Nodes may come with a status; what can be allocated defaults to all there is.
pub(super) fn node_defaults(node: &mut Value) {
    if !node["spec"].is_object() {
        node["spec"] = json!({});
    }
    if !node["status"].is_object() {
        node["status"] = json!({});
    }
    let capacity = field(field(node, "status"), "capacity").clone();
    if !capacity.is_null() {
        default(&mut node["status"], "allocatable", || capacity);
    }
}

/// A change of a node through each of its endpoints.
pub(super) fn prepare_node_update(subresource: Subresource, old: &Value, new: &mut Value) {
    match subresource {
        Subresource::Status => new["spec"] = old.get("spec").cloned().unwrap_or_else(|| json!({})),
        _ => new["status"] = old.get("status").cloned().unwrap_or_else(|| json!({})),
    }
    node_defaults(new);
}

/// Validates a new node, or with `old` a changed one.
pub(super) fn validate_node(old: Option<&Value>, node: &Value, faults: &mut Faults) {
    match old {
        None => meta::validate(node, false, Naming::Subdomain, true, faults),
        Some(old) => meta::validate_update(old, node, faults),
    }
    let spec = field(node, "spec");
    // The path leaves out `spec`, as upstream's does.
    let path = Path::new("metadata").child("taints");
    let mut seen = BTreeSet::new();
    for (number, taint) in list(spec, "taints").iter().enumerate() {
        let at = path.index(number);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        faults.each(&at.child("key"), key, names::qualified(key));
        let messages = names::label_value(value);
        if !messages.is_empty() {
            faults.push(invalid(&at.child("value"), value, messages.join(";")));
        }
        match effect {
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            "" => faults.push(required(&at.child("effect"), "")),
            other => faults.push(not_supported(&at.child("effect"), other, &["NoSchedule", "PreferNoSchedule", "NoExecute"])),
        }
        if !seen.insert((key, effect)) {
            let mut error = duplicate(&at, Bad::raw(go::print("Taint", taint, go::Form::Internal)));
            error.detail = "taints must be unique by key and effect pair".to_owned();
            faults.push(error);
        }
    }
    let Some(old) = old.map(|old| field(old, "spec")) else { return };
    let (was, is) = (text(old, "providerID"), text(spec, "providerID"));
    let path = Path::new("spec").child("providerID");
    if !was.is_empty() && was != is {
        let why = if is.is_empty() { "field cannot be cleared once set" } else { "field cannot be modified once set" };
        faults.declare(invalid(&path, Bad::nil(), why));
    }
    if !list(old, "podCIDRs").is_empty() && !same(field(old, "podCIDRs"), field(spec, "podCIDRs")) {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        faults.push(forbidden(&Path::new("spec").child("podCIDRs"), why));
    }
}

fn immutable_data(old: &Value, new: &Value, names: &[&str], faults: &mut Faults) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if flag(old, "immutable") != Some(true) {
        return;
    }
    if flag(new, "immutable") != Some(true) {
        faults.push(forbidden(&Path::new("immutable"), WHY));
    }
    for name in names {
        if !same(field(old, name), field(new, name)) {
            faults.push(forbidden(&Path::new(name), WHY));
        }
    }
}

/// Validates a config map, or with `old` a changed one.
pub(super) fn validate_config_map(old: Option<&Value>, map: &Value, faults: &mut Faults) {
    if let Some(old) = old {
        meta::validate_update(old, map, faults);
        immutable_data(old, map, &["data", "binaryData"], faults);
    }
    meta::validate(map, true, Naming::Subdomain, true, faults);
    let mut bytes = 0;
    for (key, value) in entries(map, "data") {
        let at = Path::new("data").key(key);
        faults.each(&at, key, names::config_key(key));
        if is_set(field(map, "binaryData"), key) {
            faults.push(invalid(&at, key, "duplicate of key present in binaryData"));
        }
        bytes += value.as_str().map_or(0, str::len);
    }
    for (key, value) in entries(map, "binaryData") {
        faults.each(&Path::new("binaryData").key(key), key, names::config_key(key));
        bytes += value.as_str().map_or(0, |text| text.len() / 4 * 3);
    }
    if bytes > DATA {
        faults.push(too_long(&Path::new(""), DATA));
    }
}

/// `stringData` becomes `data`; the type defaults to Opaque.
pub(super) fn prepare_secret(secret: &mut Value) {
    default_text(secret, "type", "Opaque");
    let plain: Vec<(String, String)> =
        entries(secret, "stringData").map(|(key, value)| (key.to_owned(), base64(value.as_str().unwrap_or_default().as_bytes()))).collect();
    remove(secret, "stringData");
    if !plain.is_empty() {
        default(secret, "data", || json!({}));
        for (key, value) in plain {
            secret["data"][key.as_str()] = json!(value);
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().enumerate().fold(0_u32, |group, (at, byte)| group | (u32::from(*byte) << (16 - 8 * at)));
        for letter in 0..4 {
            if letter > chunk.len() {
                out.push('=');
            } else {
                let at = (group >> (18 - 6 * letter)) & 63;
                out.push(char::from(LETTERS[usize::try_from(at).unwrap_or_default()]));
            }
        }
    }
    out
}

/// Validates a secret, or with `old` a changed one.
pub(super) fn validate_secret(old: Option<&Value>, secret: &Value, faults: &mut Faults) {
    if let Some(old) = old {
        meta::validate_update(old, secret, faults);
        if text(old, "type") != text(secret, "type") {
            faults.push(invalid(&Path::new("type"), text(secret, "type"), "field is immutable"));
        }
        immutable_data(old, secret, &["data"], faults);
    }
    meta::validate(secret, true, Naming::Subdomain, true, faults);
    let data = Path::new("data");
    let mut bytes = 0;
    for (key, value) in entries(secret, "data") {
        faults.each(&data.key(key), key, names::config_key(key));
        bytes += value.as_str().map_or(0, |text| text.len() / 4 * 3);
    }
    if bytes > DATA {
        faults.push(too_long(&data, DATA));
    }
    let has = |key: &str| is_set(field(secret, "data"), key);
    let needed: &[&str] = match text(secret, "type") {
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => &["username", "password"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => &[],
    };
    for key in needed.iter().filter(|key| !has(key)) {
        faults.push(required(&data.key(key), ""));
    }
    let account = "kubernetes.io/service-account.name";
    if text(secret, "type") == "kubernetes.io/service-account-token"
        && text(field(field(secret, "metadata"), "annotations"), account).is_empty()
    {
        faults.push(required(&Path::new("metadata").child("annotations").key(account), ""));
    }
}

/// Validates a service account, or with `old` a changed one.
pub(super) fn validate_service_account(old: Option<&Value>, account: &Value, faults: &mut Faults) {
    if let Some(old) = old {
        meta::validate_update(old, account, faults);
    }
    meta::validate(account, true, Naming::Subdomain, true, faults);
}

/// Fields that Go's Event always has.
pub(super) fn event_defaults(event: &mut Value) {
    for name in ["involvedObject", "source"] {
        if !event[name].is_object() {
            event[name] = json!({});
        }
    }
    for name in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        if event.get(name).is_none() {
            event[name] = Value::Null;
        }
    }
    for name in ["reportingComponent", "reportingInstance"] {
        default(event, name, || json!(""));
    }
}

/// Validates an event by core/v1's rules.
pub(super) fn validate_event(event: &Value, faults: &mut Faults) {
    let involved = text(field(event, "involvedObject"), "namespace");
    let namespace = text(field(event, "metadata"), "namespace");
    let path = Path::new("involvedObject").child("namespace");
    let mut mismatch = || faults.push(invalid(&path, involved, "does not match event.namespace"));
    if !is_set(event, "eventTime") {
        let agrees = if involved.is_empty() { matches!(namespace, "" | "default") } else { involved == namespace };
        if !agrees {
            mismatch();
        }
        return;
    }
    if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
        mismatch();
    }
    let controller = text(event, "reportingComponent");
    if controller.is_empty() {
        faults.push(required(&Path::new("reportingComponent"), ""));
    }
    faults.each(&Path::new("reportingComponent"), controller, names::qualified(controller));
    for (name, most) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let value = text(event, name);
        if value.is_empty() {
            faults.push(required(&Path::new(name), ""));
        }
        if value.len() > most {
            faults.push(invalid(&Path::new(name), "", format!("can have at most {most} characters")));
        }
    }
    if text(event, "message").len() > 1024 {
        faults.push(invalid(&Path::new("message"), "", "can have at most 1024 characters"));
    }
}

#[cfg(test)]
mod tests {
    use super::{base64, prepare_secret};
    use serde_json::json;

    #[test]
    fn string_data_becomes_data() {
        for (plain, encoded) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("abcd", "YWJjZA==")] {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        let mut secret = json!({"data": {"a": "eA=="}, "stringData": {"a": "y", "b": "z"}});
        prepare_secret(&mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "eQ==", "b": "eg=="}}));
    }
}
