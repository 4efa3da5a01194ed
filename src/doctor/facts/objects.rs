//! How checks read Kubernetes objects.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

/// An object's name.
#[must_use]
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// An object's namespace; empty for cluster-scoped ones.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

/// An object's uid.
#[must_use]
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// `kind/name`, or `kind/namespace/name`: how evidence names an object.
#[must_use]
pub fn called(kind: &str, object: &Value) -> String {
    match namespace(object) {
        "" => format!("{kind}/{}", name(object)),
        namespace => format!("{kind}/{namespace}/{}", name(object)),
    }
}

/// The elements of a list field; none where it is missing.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A text field; empty where it is missing.
#[must_use]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A time field.
#[must_use]
pub fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Whether an object is being deleted.
#[must_use]
pub fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// A pod that needs nothing any more.
#[must_use]
pub fn is_done(pod: &Value) -> bool {
    matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed")
}

/// Whether a condition of an object is True.
#[must_use]
pub fn is_true(object: &Value, condition: &str) -> bool {
    items(&object["status"]["conditions"]).any(|c| text(&c["type"]) == condition && text(&c["status"]) == "True")
}

/// Objects by uid.
#[must_use]
pub fn by_uid(objects: &[Value]) -> BTreeMap<&str, &Value> {
    objects.iter().map(|object| (uid(object), object)).collect()
}

/// The names of objects.
#[must_use]
pub fn names(objects: &[Value]) -> BTreeSet<&str> {
    objects.iter().map(name).collect()
}

/// Major, minor and patch of a version such as `v1.34.1` or `1.36.0-beta.2+x`; a missing part is 0.
#[must_use]
pub fn version(text: &str) -> Option<(u32, u32, u32)> {
    let text = text.trim().trim_start_matches('v');
    let mut parts = text.split(['.', '-', '+', ' ']);
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next().unwrap_or("0").parse().ok()?;
    let patch = parts.next().unwrap_or("0").parse().unwrap_or(0);
    Some((major, minor, patch))
}

/// The claims of a pod: the name of the entry and the name of the ResourceClaim, where there is one yet.
pub fn claims_of(pod: &Value) -> impl Iterator<Item = (&str, Option<&str>)> {
    items(&pod["spec"]["resourceClaims"]).map(|entry| {
        let made = items(&pod["status"]["resourceClaimStatuses"]).find(|s| s["name"] == entry["name"]);
        let claim = entry["resourceClaimName"].as_str().or_else(|| made.and_then(|m| m["resourceClaimName"].as_str()));
        (text(&entry["name"]), claim)
    })
}

/// The requests of a claim's or template's spec, alternatives included: the name of the request and what it asks.
pub fn requests(spec: &Value) -> impl Iterator<Item = (&str, &Value)> {
    items(&spec["devices"]["requests"]).flat_map(|request| {
        let exactly = request.get("exactly").into_iter();
        exactly.chain(items(&request["firstAvailable"])).map(|asks| (text(&request["name"]), asks))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{claims_of, version};

    #[test]
    fn versions_are_read_as_they_are_written() {
        for (text, parts) in [
            ("v1.37.2", Some((1, 37, 2))),
            ("1.34.1+k3s1", Some((1, 34, 1))),
            ("v0.33.0-alpha", Some((0, 33, 0))),
            ("1.36", Some((1, 36, 0))),
            ("x", None),
        ] {
            assert_eq!(version(text), parts, "{text}");
        }
    }

    #[test]
    fn a_claim_of_a_template_is_named_in_the_status() {
        let pod = json!({"spec": {"resourceClaims": [{"name": "a", "resourceClaimName": "x"}, {"name": "b", "resourceClaimTemplateName": "t"}, {"name": "c"}]},
            "status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-1"}]}});
        assert_eq!(claims_of(&pod).collect::<Vec<_>>(), [("a", Some("x")), ("b", Some("p-b-1")), ("c", None)]);
    }
}
