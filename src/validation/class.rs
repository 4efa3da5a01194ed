//! DeviceClass: preparation and validation.

use serde_json::{Value, json};

use super::device_claim::{configuration, selectors};
use super::field::{Faults, Path, invalid, too_many};
use super::json::{field, list, optional, same, set_meta};
use super::meta::{self, Naming};
use super::names;
use crate::model::features::Features;

/// Configs of a class.
const CONFIGS: usize = 32;

fn complete(class: &mut Value) {
    if !class["spec"].is_object() {
        class["spec"] = json!({});
    }
}

/// A new class has generation 1.
pub(crate) fn prepare_create(class: &mut Value) {
    complete(class);
    set_meta(class, "generation", json!(1));
}

/// A change of the spec raises the generation.
pub(crate) fn prepare_update(old: &Value, new: &mut Value) {
    complete(new);
    super::json::raise_if_changed(old, new);
}

/// Validates a new class, or with `old` a changed one. Selectors and configs that did not change are not judged again.
pub(crate) fn validate(old: Option<&Value>, class: &Value, features: Features, faults: &mut Faults) {
    meta::validate(class, false, Naming::Declared, true, faults);
    if let Some(old) = old {
        meta::validate_update(old, class, faults);
    }
    let (spec, path) = (field(class, "spec"), Path::new("spec"));
    let stored = |name: &str| old.is_some_and(|old| same(field(field(old, "spec"), name), field(spec, name)));
    selectors(list(spec, "selectors"), &path.child("selectors"), stored("selectors"), features, faults);
    let (configs, at) = (list(spec, "config"), path.child("config"));
    if configs.len() > CONFIGS {
        faults.declare(too_many(&at, configs.len(), CONFIGS));
    } else {
        for (number, config) in configs.iter().enumerate() {
            configuration(config, &at.index(number), stored("config"), faults);
        }
    }
    if let Some(name) = optional(spec, "extendedResourceName") {
        extended_resource(name, &path.child("extendedResourceName"), faults);
    }
}

/// The declarative rule for names of extended resources.
fn extended_resource(name: &str, path: &Path, faults: &mut Faults) {
    if !name.contains('/') {
        faults.declare(invalid(path, name, "a name must be a domain-prefixed path, such as 'example.com/my-prop'"));
    } else if name.contains("kubernetes.io/") {
        faults.declare(invalid(path, name, "must not have \"kubernetes.io/\" domain"));
    }
    if name.starts_with("requests.") {
        faults.declare(invalid(path, name, "must not have \"requests.\" prefix"));
    }
    faults.declare_each(path, name, names::qualified(&format!("requests.{name}")));
}
