//! Device taints and the tolerations of requests.

use std::sync::Arc;

use k8s_openapi::api::resource::v1::{DeviceTaint, DeviceTaintRule, DeviceTaintSelector, DeviceToleration, ResourceSlice};

/// Whether the taint keeps a device from being allocated, if nothing tolerates it. `None` and effects of the future do not.
#[must_use]
pub fn blocks_allocation(taint: &DeviceTaint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

/// Whether the toleration matches the taint (upstream `resourceclaim.ToleratesTaint`): an empty effect or key matches
/// any; the operator is `Equal` unless given. `tolerationSeconds` plays no part in allocation.
#[must_use]
pub fn tolerates(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    let refuses = |wanted: &Option<String>, is: &str| wanted.as_deref().is_some_and(|text| !text.is_empty() && text != is);
    if refuses(&toleration.effect, &taint.effect) || refuses(&toleration.key, &taint.key) {
        return false;
    }
    match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default(),
        Some(_) => false,
    }
}

/// The slice with the taints of the rules appended to those of its devices, in the order of the rules; the very same
/// slice where no rule is about it (upstream's slice tracker). A rule without a selector is about no device, one with an
/// empty selector about all.
#[must_use]
pub fn with_rules(slice: &Arc<ResourceSlice>, rules: &[Arc<DeviceTaintRule>]) -> Arc<ResourceSlice> {
    let concerns = |selector: &DeviceTaintSelector| {
        let is = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        is(&selector.driver, &slice.spec.driver) && is(&selector.pool, &slice.spec.pool.name)
    };
    let rules: Vec<_> = rules
        .iter()
        .filter_map(|rule| rule.spec.device_selector.as_ref().filter(|s| concerns(s)).map(|selector| (selector, &rule.spec.taint)))
        .collect();
    if rules.is_empty() {
        return Arc::clone(slice);
    }
    let mut tainted = ResourceSlice::clone(slice);
    for device in tainted.spec.devices.iter_mut().flatten() {
        for (selector, taint) in &rules {
            if selector.device.as_deref().is_none_or(|wanted| wanted == device.name) {
                device.taints.get_or_insert_default().push((*taint).clone());
            }
        }
    }
    Arc::new(tainted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_add_their_taint_to_the_devices_that_they_select() {
        let slice: Arc<ResourceSlice> = serde_json::from_value(json!({"spec": {
            "driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "x", "taints": [{"key": "own", "effect": "None"}]}, {"name": "y"}],
        }}))
        .map(Arc::new)
        .unwrap();
        for (selector, expected) in [
            (json!({}), ["own rule", "rule"]),
            (json!({"driver": "d", "pool": "p", "device": "y"}), ["own", "rule"]),
            (json!({"driver": "other"}), ["own", ""]),
            (json!({"pool": "other"}), ["own", ""]),
            (json!(null), ["own", ""]),
        ] {
            let rule = json!({"spec": {"deviceSelector": selector, "taint": {"key": "rule", "effect": "NoSchedule"}}});
            let rules = [Arc::new(serde_json::from_value(rule).unwrap())];
            let tainted = with_rules(&slice, &rules);
            let keys = |device: usize| {
                let taints = tainted.spec.devices.as_ref().unwrap()[device].taints.clone().unwrap_or_default();
                taints.iter().map(|taint| taint.key.clone()).collect::<Vec<_>>().join(" ")
            };
            assert_eq!([keys(0), keys(1)], expected, "{selector}");
            assert_eq!(Arc::ptr_eq(&slice, &tainted), expected[1].is_empty());
        }
    }

    fn taint(key: &str, value: Option<&str>, effect: &str) -> DeviceTaint {
        DeviceTaint { key: key.to_owned(), value: value.map(str::to_owned), effect: effect.to_owned(), time_added: None }
    }

    #[test]
    fn table() {
        // Operator, key, value and effect of the toleration (- is absent); whether it tolerates broken=yes:NoExecute.
        for (toleration, expected) in [
            (["Exists", "-", "-", "-"], true),
            (["Exists", "broken", "-", "NoExecute"], true),
            (["Exists", "broken", "-", "NoSchedule"], false),
            (["Exists", "other", "-", "-"], false),
            (["Equal", "broken", "yes", "-"], true),
            (["Equal", "broken", "no", "-"], false),
            (["-", "broken", "yes", ""], true),
            (["-", "broken", "-", "-"], false),
            (["Future", "broken", "yes", "-"], false),
        ] {
            let [operator, key, value, effect] = toleration.map(|text| (text != "-").then(|| text.to_owned()));
            let toleration = DeviceToleration { operator, key, value, effect, toleration_seconds: None };
            assert_eq!(tolerates(&toleration, &taint("broken", Some("yes"), "NoExecute")), expected, "{toleration:?}");
        }
    }

    #[test]
    fn only_known_effects_block() {
        for (effect, blocks) in [("NoSchedule", true), ("NoExecute", true), ("None", false), ("Future", false)] {
            assert_eq!(blocks_allocation(&taint("k", None, effect)), blocks, "{effect}");
        }
    }
}
