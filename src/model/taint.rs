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
        // operator, key, value, effect of the toleration; whether it tolerates broken=yes:NoExecute.
        let rows: &[(Option<&str>, Option<&str>, Option<&str>, Option<&str>, bool)] = &[
            (Some("Exists"), None, None, None, true),
            (Some("Exists"), Some("broken"), None, Some("NoExecute"), true),
            (Some("Exists"), Some("broken"), None, Some("NoSchedule"), false),
            (Some("Exists"), Some("other"), None, None, false),
            (Some("Equal"), Some("broken"), Some("yes"), None, true),
            (Some("Equal"), Some("broken"), Some("no"), None, false),
            (None, Some("broken"), Some("yes"), Some(""), true),
            (None, Some("broken"), None, None, false),
            (Some("Future"), Some("broken"), Some("yes"), None, false),
        ];
        for (operator, key, value, effect, expected) in rows {
            let own = |text: &Option<&str>| text.map(str::to_owned);
            let toleration = DeviceToleration {
                operator: own(operator),
                key: own(key),
                value: own(value),
                effect: own(effect),
                toleration_seconds: None,
            };
            assert_eq!(tolerates(&toleration, &taint("broken", Some("yes"), "NoExecute")), *expected, "{toleration:?}");
        }
    }

    #[test]
    fn only_known_effects_block() {
        for (effect, blocks) in [("NoSchedule", true), ("NoExecute", true), ("None", false), ("Future", false)] {
            assert_eq!(blocks_allocation(&taint("k", None, effect)), blocks, "{effect}");
        }
    }
}
