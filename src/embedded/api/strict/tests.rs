use serde_json::json;

use super::super::resource::{CONFIGMAPS, DEVICECLASSES, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES, RESOURCESLICES, SECRETS};
use super::*;

fn refusal(resource: &'static Resource, body: &str) -> String {
    let status = decode(resource, body.as_bytes(), false, FieldValidation::Strict).expect_err(body);
    assert_eq!((status.code, status.reason), (400, "BadRequest"));
    status.message
}

/// Bodies and messages of scenario 29 of the recordings (a real 1.37.2 server).
#[test]
fn refuses_as_recorded() {
    let cases: &[(&'static Resource, &str, &str)] = &[
        (
            &RESOURCECLAIMS,
            r#"{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"c","count":"two"}}]}}}"#,
            "ResourceClaim in version \"v1\" cannot be handled as a ResourceClaim: json: cannot unmarshal string into Go struct field ExactDeviceRequest.spec.devices.requests.exactly.count of type int64",
        ),
        (
            &RESOURCECLAIMS,
            r#"{"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"c","capacity":{"requests":{"memory":"10GiB"}}}}]}}}"#,
            "ResourceClaim in version \"v1\" cannot be handled as a ResourceClaim: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            &RESOURCECLAIMS,
            r#"{"spec":{"devices":{"requests":[{"name":"gpu","deviceClassName":"gpu.example.com"}]}}}"#,
            "ResourceClaim in version \"v1\" cannot be handled as a ResourceClaim: strict decoding error: unknown field \"spec.devices.requests[0].deviceClassName\"",
        ),
        (
            &RESOURCECLAIMS,
            r#"{"spec":{"devices":{"requests":[{"name":"gpu","name":"gpu2","exactly":{"deviceClassName":"c"}}]}}}"#,
            "ResourceClaim in version \"v1\" cannot be handled as a ResourceClaim: strict decoding error: duplicate field \"spec.devices.requests[0].name\"",
        ),
        (
            &RESOURCECLAIMS,
            r#"{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass"}"#,
            "DeviceClass in version \"v1\" cannot be handled as a ResourceClaim: converting (v1.DeviceClass) to (resource.ResourceClaim): unknown conversion",
        ),
        (
            &RESOURCECLAIMS,
            r#"{"apiVersion":"resource.k8s.io/v1beta1","kind":"ResourceClaim"}"#,
            "the API version in the data (resource.k8s.io/v1beta1) does not match the expected API version (resource.k8s.io/v1)",
        ),
        (
            &RESOURCECLAIMS,
            "{",
            "the object provided is unrecognized (must be of type ResourceClaim): couldn't get version/kind; json parse error: unexpected end of JSON input ({)",
        ),
        (
            &RESOURCECLAIMS,
            "",
            "the object provided is unrecognized (must be of type ResourceClaim): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)",
        ),
        (
            &RESOURCECLAIMTEMPLATES,
            r#"{"spec":{"devices":{"requests":[]}}}"#,
            "ResourceClaimTemplate in version \"v1\" cannot be handled as a ResourceClaimTemplate: strict decoding error: unknown field \"spec.devices\"",
        ),
        (
            &DEVICECLASSES,
            r#"{"spec":{"config":[{"requests":["a"],"opaque":{"driver":"d","parameters":{}}}]}}"#,
            "DeviceClass in version \"v1\" cannot be handled as a DeviceClass: strict decoding error: unknown field \"spec.config[0].requests\"",
        ),
        (
            &RESOURCESLICES,
            r#"{"spec":{"devices":[{"name":"d0","capacity":{"memory":{"value":"80GiB"}}}]}}"#,
            "ResourceSlice in version \"v1\" cannot be handled as a ResourceSlice: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            &PODS,
            r#"{"spec":{"containers":[{"name":"ctr0","resources":{"claims":"gpu"}}]}}"#,
            "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field ResourceRequirements.spec.containers.resources.claims of type []v1.ResourceClaim",
        ),
        (
            &PODS,
            r#"{"spec":{"resourceClaims":[{"name":"gpu","source":{"resourceClaimName":"good"}}]}}"#,
            "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.resourceClaims[0].source\"",
        ),
        (
            &SECRETS,
            r#"{"data":{"a":"no base64!"}}"#,
            "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte 2",
        ),
    ];
    for (resource, body, message) in cases {
        assert_eq!(refusal(resource, body), *message);
    }
}

#[test]
fn warn_drops_and_says_so_ignore_is_silent() {
    let body = br#"{"spec":{"devices":{"requests":[{"name":"gpu","deviceClassName":"c","x":{"y":1}}]},"extra":1},"top":[]}"#;
    let (object, warnings) = decode(&RESOURCECLAIMS, body, false, FieldValidation::Warn).expect("warned");
    assert_eq!(
        warnings,
        [
            "unknown field \"spec.devices.requests[0].deviceClassName\"",
            "unknown field \"spec.devices.requests[0].x\"",
            "unknown field \"spec.extra\"",
            "unknown field \"top\""
        ]
    );
    let kept = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {"devices": {"requests": [{"name": "gpu"}]}}});
    assert_eq!(object, kept);
    let (object, warnings) = decode(&RESOURCECLAIMS, body, false, FieldValidation::Ignore).expect("ignored");
    assert_eq!((object, warnings), (kept, Vec::<String>::new()));
}

#[test]
fn values_read_as_go_reads_them() {
    let cases: &[(&'static Resource, serde_json::Value, serde_json::Value)] = &[
        (
            &PODS,
            json!({"metadata": {"labels": {}, "creationTimestamp": null, "name": "p"}, "spec": {"containers": [
                {"name": "c", "args": [], "resources": {"limits": {"cpu": 1}}}], "volumes": [{"name": "v", "emptyDir": {}}]}}),
            json!({"metadata": {"name": "p"}, "spec": {"containers": [
                {"name": "c", "resources": {"limits": {"cpu": "1"}}}], "volumes": [{"name": "v", "emptyDir": {}}]}}),
        ),
        (
            &DEVICECLASSES,
            json!({"spec": {"config": [{"opaque": {"driver": "d", "parameters": {"a": [], "b": null, "c": {"d": {}}}}}]}}),
            json!({"spec": {"config": [{"opaque": {"driver": "d", "parameters": {"a": [], "b": null, "c": {"d": {}}}}}]}}),
        ),
        (&CONFIGMAPS, json!({"data": {"a": null}}), json!({"data": {"a": ""}})),
    ];
    for (resource, given, kept) in cases {
        let mut object = given.clone();
        assert_eq!(check(resource, &mut object, FieldValidation::Strict).expect("fine"), Vec::<String>::new());
        assert_eq!(object, *kept);
    }
    let mut object = json!({"data": {"a": 1}});
    let status = check(&CONFIGMAPS, &mut object, FieldValidation::Ignore).expect_err("a number");
    assert!(status.message.ends_with("json: cannot unmarshal number into Go struct field ConfigMap.data of type string"), "{status}");
}

#[test]
fn quantities_are_written_canonically() {
    for (given, kept) in [("1000m", "1"), ("0.5Gi", "512Mi"), ("80Gi", "80Gi"), ("1e3", "1e3"), ("100", "100")] {
        let mut object = json!({"spec": {"devices": [{"name": "d", "capacity": {"memory": {"value": given}}}]}});
        check(&RESOURCESLICES, &mut object, FieldValidation::Strict).expect(given);
        assert_eq!(object["spec"]["devices"][0]["capacity"]["memory"]["value"], kept, "{given}");
    }
}

#[test]
fn patches_are_refused_by_what_they_made() {
    let made = || json!({"data": {"a": "b"}, "x": 1});
    let patch = json!({"x": 1, "y": [{"z": null}]});
    let refusal = |patch: Patch| check_patched(&CONFIGMAPS, &mut made(), &patch, FieldValidation::Strict).expect_err("an unknown field");
    let status = refusal(Patch::Strategic(patch.clone()));
    let why = "strict decoding error: unknown field \"x\"";
    assert_eq!(status.message, format!(" \"\" is invalid: patch: Invalid value: \"map[x:1 y:[map[z:<nil>]]]\": {why}"));
    assert_eq!((status.code, status.details["causes"][0]["field"].as_str()), (422, Some("patch")));
    let status = refusal(Patch::Merge(patch.clone()));
    let shown = "\"{\\\"data\\\":{\\\"a\\\":\\\"b\\\"},\\\"x\\\":1}\"";
    assert_eq!(status.message, format!(" \"\" is invalid: patch: Invalid value: {shown}: {why}"));
    let mut object = made();
    let warnings = check_patched(&CONFIGMAPS, &mut object, &Patch::Merge(patch), FieldValidation::Warn).expect("warned");
    assert_eq!((warnings, object), (vec!["unknown field \"x\"".to_owned()], json!({"data": {"a": "b"}})));
}

/// Go's decoder goes on after a value of a wrong type, and stops at a text that cannot be read.
#[test]
fn an_unreadable_text_wins_over_a_wrong_type() {
    let body = r#"{"spec":{"activeDeadlineSeconds":"x","containers":[{"name":"c","resources":{"limits":{"cpu":true}}}]}}"#;
    let message = refusal(&PODS, body);
    assert!(message.ends_with("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"), "{message}");
    let body = r#"{"spec":{"activeDeadlineSeconds":"x","priority":"y"}}"#;
    assert!(refusal(&PODS, body).ends_with("field PodSpec.spec.activeDeadlineSeconds of type int64"));
}

#[test]
fn strategic_patches_convert() {
    let patch = json!({"data": {"a": 5}});
    let status = check_patched(&CONFIGMAPS, &mut patch.clone(), &Patch::Strategic(patch), FieldValidation::Ignore).expect_err("a number");
    assert_eq!(status.message, " \"\" is invalid: patch: Invalid value: \"map[data:map[a:5]]\": cannot convert int64 to string");
}
