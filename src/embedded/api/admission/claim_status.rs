//! `status` of a ResourceClaim: allocation, reservedFor and the drivers' device status.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::claim::admin;
use super::device_claim::{RequestNames, configuration, declare_driver, raw, toleration};
use super::field::{Bad, Faults, Path, duplicate, forbidden, invalid, not_supported, required, too_long, too_many};
use super::json::{default_text, field, flag, is_set, list, list_mut, optional, remove, same, text};
use super::slice::{binding_conditions, driver_name, pool_name};
use super::{Context, meta, names, node_selector};

/// Consumers of a claim.
const CONSUMERS: usize = 256;
/// Devices of an allocation.
const RESULTS: usize = 32;
/// Configs of an allocation: those of class and claim.
const CONFIGS: usize = 64;
/// Conditions of a device.
const CONDITIONS: usize = 8;
/// Bytes of a driver's own data about a device.
const DATA: usize = 10 * 1024;

/// One device of one share: what device status refers to.
type Device<'a> = (&'a str, &'a str, &'a str, &'a str);

fn device<'a>(entry: &'a Value) -> Device<'a> {
    (text(entry, "driver"), text(entry, "pool"), text(entry, "device"), text(entry, "shareID"))
}

fn results(status: &Value) -> &[Value] {
    list(field(field(status, "allocation"), "devices"), "results")
}

/// A status update keeps metadata (but for managedFields) and spec; status of devices that are no longer allocated goes.
pub(super) fn prepare(old: &Value, new: &mut Value) {
    let status = new.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
    keep_metadata(old, new);
    new["spec"] = old.get("spec").cloned().unwrap_or_else(|| json!({}));
    new["status"] = status;
    if let Some(devices) = new.pointer_mut("/status/allocation/devices") {
        for result in list_mut(devices, "results") {
            list_mut(result, "tolerations").for_each(|toleration| default_text(toleration, "operator", "Equal"));
        }
    }
    let is = &new["status"];
    let mut gone: BTreeSet<Device<'_>> = results(field(old, "status")).iter().map(device).collect();
    for result in results(is) {
        gone.remove(&device(result));
    }
    let kept: Vec<Value> = list(is, "devices").iter().filter(|entry| !gone.contains(&device(entry))).cloned().collect();
    if kept.is_empty() {
        remove(&mut new["status"], "devices");
    } else {
        new["status"]["devices"] = Value::Array(kept);
    }
}

/// `ResetObjectMetaForStatus`: what a status update may not touch in the metadata.
pub(super) fn keep_metadata(old: &Value, new: &mut Value) {
    for name in ["deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "labels", "annotations", "ownerReferences", "selfLink"] {
        match old["metadata"].get(name) {
            Some(value) => super::json::set_meta(new, name, value.clone()),
            None => remove(&mut new["metadata"], name),
        }
    }
}

/// Validates a changed status.
pub(super) fn validate(old: &Value, new: &Value, context: &Context<'_>, faults: &mut Faults) {
    let (was, is) = (field(old, "status"), field(new, "status"));
    let path = Path::new("status");
    let at = path.child("allocation");
    let asks = |status| results(status).iter().position(|result| flag(result, "adminAccess") == Some(true));
    if asks(was).is_none() {
        let place = asks(is).map(|number| at.child("devices").child("results").index(number).child("adminAccess"));
        admin(new, place, context, faults);
    }
    meta::validate_update(old, new, faults);
    let [mut reserved, mut device, mut relation, mut allocated] = <[Faults; 4]>::default();
    consumers(is, &path.child("reservedFor"), &mut reserved);
    devices(is, &path.child("devices"), &mut device);
    if !list(is, "reservedFor").is_empty() {
        if !is_set(is, "allocation") {
            relation.push(forbidden(&path.child("reservedFor"), "may not be specified when `allocated` is not set"));
        } else if is_set(field(new, "metadata"), "deletionTimestamp") {
            let had = list(was, "reservedFor");
            if list(is, "reservedFor").iter().any(|consumer| !had.iter().any(|had| same(had, consumer))) {
                let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
                relation.push(forbidden(&path.child("reservedFor"), why));
            }
        }
    }
    if is_set(was, "allocation") && is_set(is, "allocation") {
        if !same(field(was, "allocation"), field(is, "allocation")) {
            allocated.declare(invalid(&at, Bad::nil(), "field cannot be modified once set"));
        }
    } else if is_set(is, "allocation") {
        let names = RequestNames::of(field(field(new, "spec"), "devices"));
        allocation(field(is, "allocation"), &names, &at, &mut allocated);
    }
    faults.take(vec![reserved, device, relation, allocated], &[0, 1, 2, 3], &[3, 0, 1, 2]);
}

fn consumers(is: &Value, path: &Path, faults: &mut Faults) {
    let consumers = list(is, "reservedFor");
    if consumers.len() > CONSUMERS {
        faults.declare(too_many(path, consumers.len(), CONSUMERS));
        return;
    }
    let mut seen = BTreeSet::new();
    for (number, consumer) in consumers.iter().enumerate() {
        let at = path.index(number);
        for name in ["resource", "name", "uid"] {
            if text(consumer, name).is_empty() {
                faults.push(required(&at.child(name), ""));
            }
        }
        if !seen.insert(text(consumer, "uid")) {
            let shown = super::go::print("ResourceClaimConsumerReference", consumer, super::go::Form::Versioned);
            faults.declare(duplicate(&at, Bad::raw(shown)));
        }
    }
}

fn allocation(allocation: &Value, names: &RequestNames, path: &Path, faults: &mut Faults) {
    let (devices, at) = (field(allocation, "devices"), path.child("devices"));
    let results = list(devices, "results");
    if results.len() > RESULTS {
        faults.declare(too_many(&at.child("results"), results.len(), RESULTS));
    } else {
        for (number, result) in results.iter().enumerate() {
            allocated(result, names, &at.child("results").index(number), faults);
        }
    }
    let configs = list(devices, "config");
    if configs.len() > CONFIGS {
        faults.declare(too_many(&at.child("config"), configs.len(), CONFIGS));
    } else {
        for (number, config) in configs.iter().enumerate() {
            let at = at.child("config").index(number);
            match text(config, "source") {
                "FromClass" | "FromClaim" => {}
                "" => faults.declare(required(&at.child("source"), "")),
                other => faults.declare(not_supported(&at.child("source"), other, &["FromClaim", "FromClass"])),
            }
            names.check_list(config, &at.child("requests"), faults);
            configuration(config, &at, false, faults);
        }
    }
    if is_set(allocation, "nodeSelector") {
        node_selector::validate(field(allocation, "nodeSelector"), &path.child("nodeSelector"), faults);
    }
}

fn allocated(result: &Value, names: &RequestNames, path: &Path, faults: &mut Faults) {
    names.check(text(result, "request"), &path.child("request"), faults);
    declare_driver(text(result, "driver"), &path.child("driver"), faults);
    declare_pool(text(result, "pool"), &path.child("pool"), faults);
    let device = text(result, "device");
    faults.each(&path.child("device"), device, names::label(device));
    binding_conditions(result, path, faults);
    for (number, entry) in list(result, "tolerations").iter().enumerate() {
        toleration(entry, &path.child("tolerations").index(number), faults);
    }
    share_id(result, path, faults);
}

/// A pool name, by a declarative rule.
fn declare_pool(pool: &str, path: &Path, faults: &mut Faults) {
    if pool.is_empty() {
        faults.declare(required(path, ""));
        return;
    }
    if pool.len() > 253 {
        faults.declare(too_long(path, 253));
    }
    for (number, part) in pool.split('/').enumerate() {
        if part.is_empty() {
            faults.declare(invalid(path, pool, format!("segment {number}: must not be empty")));
        } else {
            let messages = names::long_name(part).into_iter().map(|message| format!("segment {number}: {message}")).collect();
            faults.declare_each(path, part, messages);
        }
    }
}

fn share_id(entry: &Value, path: &Path, faults: &mut Faults) {
    if let Some(id) = optional(entry, "shareID")
        && !is_uuid(id)
    {
        faults.declare(invalid(&path.child("shareID"), id, "must be a lowercase UUID in 8-4-4-4-12 format"));
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == b'-',
            _ => c.is_ascii_digit() || (b'a'..=b'f').contains(&c),
        })
}

fn devices(status: &Value, path: &Path, faults: &mut Faults) {
    let allocated: BTreeSet<Device<'_>> = results(status).iter().map(device).collect();
    let mut seen = BTreeSet::new();
    for (number, entry) in list(status, "devices").iter().enumerate() {
        let at = path.index(number);
        driver_name(text(entry, "driver"), &at.child("driver"), faults);
        pool_name(text(entry, "pool"), &at.child("pool"), faults);
        let name = text(entry, "device");
        faults.each(&at.child("device"), name, names::label(name));
        share_id(entry, &at, faults);
        let id = device(entry);
        if !allocated.contains(&id) {
            let [driver, pool, device, share] = [id.0, id.1, id.2, id.3].map(|part| super::go::compact(&json!(part)));
            let shown = format!("{{\"Driver\":{driver},\"Pool\":{pool},\"Device\":{device},\"ShareID\":{share}}}");
            faults.push(invalid(&at, Bad::raw(shown), "must be an allocated device in the claim"));
        }
        if !seen.insert(id) {
            let shown = super::go::print("AllocatedDeviceStatus", entry, super::go::Form::Versioned);
            faults.declare(duplicate(&at, Bad::raw(shown)));
        }
        let conditions = list(entry, "conditions");
        if conditions.len() > CONDITIONS {
            faults.push(too_many(&at.child("conditions"), conditions.len(), CONDITIONS));
        }
        self::conditions(conditions, &at.child("conditions"), faults);
        if is_set(entry, "data") {
            raw(entry, "data", DATA, false, &at.child("data"), faults);
        }
        network(field(entry, "networkData"), &at.child("networkData"), faults);
    }
}

/// `metav1.Condition`s (`ValidateConditions`).
fn conditions(conditions: &[Value], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (number, condition) in conditions.iter().enumerate() {
        let at = path.index(number);
        let kind = text(condition, "type");
        if !seen.insert(kind) {
            faults.push(duplicate(&at, kind));
        }
        if kind.is_empty() {
            faults.push(required(&at.child("type"), "is required"));
        } else {
            faults.each(&at.child("type"), kind, names::qualified(kind));
        }
        match text(condition, "status") {
            "True" | "False" | "Unknown" => {}
            "" => faults.push(required(&at.child("status"), "")),
            other => faults.push(not_supported(&at.child("status"), other, &["False", "True", "Unknown"])),
        }
        if super::json::int(condition, "observedGeneration") < 0 {
            faults.push(invalid(
                &at.child("observedGeneration"),
                super::json::int(condition, "observedGeneration"),
                "must be greater than or equal to zero",
            ));
        }
        if !is_set(condition, "lastTransitionTime") {
            faults.push(required(&at.child("lastTransitionTime"), ""));
        }
        reason(text(condition, "reason"), &at.child("reason"), faults);
        if text(condition, "message").len() > 32 * 1024 {
            faults.push(too_long(&at.child("message"), 32 * 1024));
        }
    }
}

fn reason(reason: &str, path: &Path, faults: &mut Faults) {
    const WORDS: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
    if reason.is_empty() {
        faults.push(required(path, ""));
        return;
    }
    let bytes = reason.as_bytes();
    let good = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_')
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b',' | b':'));
    if !good {
        faults.push(invalid(path, reason, WORDS));
    }
    if reason.len() > 1024 {
        faults.push(too_long(path, 1024));
    }
}

fn network(data: &Value, path: &Path, faults: &mut Faults) {
    for (name, max) in [("interfaceName", 256), ("hardwareAddress", 128)] {
        if text(data, name).len() > max {
            faults.declare(too_long(&path.child(name), max));
        }
    }
    let (ips, path) = (list(data, "ips"), path.child("ips"));
    if ips.len() > 16 {
        faults.declare(too_many(&path, ips.len(), 16));
        return;
    }
    let mut seen = BTreeSet::new();
    for (number, ip) in ips.iter().enumerate() {
        let ip = ip.as_str().unwrap_or_default();
        let at = path.index(number);
        match canonical_interface(ip) {
            None => faults.push(invalid(&at, ip, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")),
            Some(canonical) if canonical != ip => {
                faults.push(invalid(&at, ip, format!("must be in canonical form ({})", super::go::quote(&canonical))));
            }
            Some(_) => {}
        }
        if !seen.insert(ip) {
            faults.declare(duplicate(&at, ip));
        }
    }
}

/// `ADDRESS/BITS` in its one canonical form; `None` when it is no such thing.
fn canonical_interface(text: &str) -> Option<String> {
    let (address, bits) = text.split_once('/')?;
    let address: std::net::IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let bits: u8 = bits.parse().ok()?;
    (bits <= longest).then(|| format!("{address}/{bits}"))
}
