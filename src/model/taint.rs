//! Device taints and the tolerations of requests.

use k8s_openapi::api::resource::v1::{DeviceTaint, DeviceToleration};

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

#[cfg(test)]
mod tests {
    use super::*;

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
