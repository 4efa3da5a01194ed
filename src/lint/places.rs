//! Where the selectors of an object are.

use serde_json::Value;

/// A selector of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorPlace {
    /// `spec.devices.requests[0].exactly.selectors[0].cel.expression`
    pub path: String,
    /// The expression.
    pub expression: String,
    /// The class of the request, where it is one.
    pub class: Option<String>,
}

/// The selectors of a claim, template or class in the shape of `resource.k8s.io/v1`.
#[must_use]
pub fn selectors(object: &Value) -> Vec<SelectorPlace> {
    let mut places = Vec::new();
    match object.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "DeviceClass" => of_list(object.pointer("/spec/selectors"), "spec.selectors", None, &mut places),
        "ResourceClaim" => of_devices(object.pointer("/spec/devices"), "spec.devices", &mut places),
        "ResourceClaimTemplate" => of_devices(object.pointer("/spec/spec/devices"), "spec.spec.devices", &mut places),
        _ => {}
    }
    places
}

/// The requests of a claim's `devices` with their paths: those under `exactly` and the alternatives.
#[must_use]
pub fn requests<'o>(devices: &'o Value, path: &str) -> Vec<(String, &'o Value)> {
    let mut found = Vec::new();
    for (number, request) in devices.get("requests").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let at = format!("{path}.requests[{number}]");
        if let Some(exactly) = request.get("exactly").filter(|exactly| exactly.is_object()) {
            found.push((format!("{at}.exactly"), exactly));
        }
        for (number, alternative) in request.get("firstAvailable").and_then(Value::as_array).into_iter().flatten().enumerate() {
            found.push((format!("{at}.firstAvailable[{number}]"), alternative));
        }
    }
    found
}

fn of_devices(devices: Option<&Value>, path: &str, places: &mut Vec<SelectorPlace>) {
    let Some(devices) = devices else { return };
    for (path, request) in requests(devices, path) {
        let class = request.get("deviceClassName").and_then(Value::as_str).map(str::to_owned);
        of_list(request.get("selectors"), &format!("{path}.selectors"), class.as_ref(), places);
    }
}

fn of_list(list: Option<&Value>, path: &str, class: Option<&String>, places: &mut Vec<SelectorPlace>) {
    for (number, selector) in list.and_then(Value::as_array).into_iter().flatten().enumerate() {
        if let Some(expression) = selector.pointer("/cel/expression").and_then(Value::as_str) {
            places.push(SelectorPlace {
                path: format!("{path}[{number}].cel.expression"),
                expression: expression.to_owned(),
                class: class.cloned(),
            });
        }
    }
}
