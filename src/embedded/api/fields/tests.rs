use serde_json::json;

use super::super::resource::{CONFIGMAPS, PODS, RESOURCECLAIMS, RESOURCES};
use super::*;

fn at(time: &str) -> Timestamp {
    time.parse().expect("a time")
}

fn without_managed(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"].as_object_mut().expect("metadata").remove("managedFields");
    object
}

/// The entry that is new or different in `new`, if there is exactly one with a time.
fn actor(old: Option<&Value>, new: &Value) -> Option<Value> {
    let list = |object: &Value| object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let before = old.map(list).unwrap_or_default();
    let mut changed = list(new).into_iter().filter(|entry| !before.contains(entry) && entry["time"].is_string());
    let first = changed.next()?;
    changed.next().is_none().then_some(first)
}

/// Histories of real objects: each change, made again by the manager that made it, gives the recorded managedFields.
#[test]
fn updates_own_what_they_change_as_recorded() {
    let mut compared = 0;
    for line in include_str!("../../../../tests/cases/fields/histories.jsonl").lines() {
        let history: Value = serde_json::from_str(line).expect("JSON");
        let states = history["states"].as_array().expect("states");
        let created = history["created"] == true;
        let mut old: Option<&Value> = None;
        for new in states {
            let previous = old.replace(new);
            if previous.is_none() && !created {
                continue;
            }
            let Some(entry) = actor(previous, new).filter(|entry| entry["operation"] == "Update") else { continue };
            // The scheduler's events are written in another API group, with other field names.
            let resource = RESOURCES.iter().find(|r| new["kind"] == r.kind).expect("a served kind");
            if entry["apiVersion"] != resource.api_version() {
                continue;
            }
            let manager = entry["manager"].as_str().expect("a manager");
            let now = at(entry["time"].as_str().expect("a time"));
            let mut got = without_managed(new);
            match previous {
                // What the creator sent is what kubectl says that it applied last.
                None => {
                    let annotation = &new["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
                    let sent = annotation.as_str().map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"));
                    create_managed(resource, manager, &sent, &mut got, now);
                }
                Some(old) => {
                    let subresource = if entry["subresource"] == "status" { Subresource::Status } else { Subresource::Main };
                    update_managed(resource, subresource, manager, Some(old), &mut got, now);
                }
            }
            let show = |object: &Value| serde_json::to_string_pretty(&object["metadata"]["managedFields"]).expect("JSON");
            assert_eq!(show(&got), show(new), "{} {}", new["kind"], new["metadata"]["name"]);
            compared += 1;
        }
    }
    assert!(compared >= 30, "{compared} compared");
}

fn scenario() -> (Vec<Value>, Value) {
    let recorded: Value = serde_json::from_str(include_str!("../../../../tests/cases/fields/scenario-30.json")).expect("JSON");
    (recorded["states"].as_array().expect("states").clone(), recorded["manifests"].clone())
}

/// The metadata that the server sets, for comparing whole objects.
fn filled(mut object: Value, state: &Value) -> Value {
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        object["metadata"][field] = state["metadata"][field].clone();
    }
    object
}

fn apply(live: Option<&Value>, manager: &str, config: &Value, force: bool, now: &str) -> Result<Value, Status> {
    server_side_apply(&CONFIGMAPS, Subresource::Main, manager, live, config, force, at(now))
}

/// Scenario 30 of the recordings, step by step.
#[test]
fn server_side_apply_as_recorded() {
    let (states, manifests) = scenario();
    let [created, shared, forced, dropped, client_side, upgraded, last_applied, ..] = states.as_slice() else { panic!("states") };

    let object = apply(None, "alice", &manifests["01"], false, "2026-12-01T02:07:27.3Z").expect("01");
    assert_eq!(&filled(object, created), created);

    let object = apply(Some(created), "bob", &manifests["02"], false, "2026-12-01T02:07:27.6Z").expect("02");
    assert_eq!(&filled(object, shared), shared, "the same value: shared, no time");

    let conflict = apply(Some(shared), "bob", &manifests["03"], false, "2026-12-01T02:07:28Z").expect_err("03");
    assert_eq!((conflict.code, conflict.reason), (409, "Conflict"));
    assert_eq!(conflict.message, "Apply failed with 1 conflict: conflict with \"alice\": .data.a");
    let both =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "s30"}, "data": {"a": "9", "b": "8"}});
    let conflict = apply(Some(shared), "bob", &both, false, "2026-12-01T02:07:28Z").expect_err("raw");
    assert_eq!(conflict.message, "Apply failed with 2 conflicts: conflicts with \"alice\":\n- .data.a\n- .data.b");
    assert_eq!(
        conflict.details["causes"][1],
        json!({"reason": "FieldManagerConflict", "message": "conflict with \"alice\"", "field": ".data.b"})
    );

    let object = apply(Some(shared), "bob", &manifests["04"], true, "2026-12-01T02:07:28.7Z").expect("04");
    assert_eq!(&filled(object, forced), forced, "forced: taken from alice");

    let object = apply(Some(forced), "alice", &manifests["05"], false, "2026-12-01T02:07:29.1Z").expect("05");
    assert_eq!(&filled(object, dropped), dropped, "given up by its only owner: gone");

    let mut object = without_managed(client_side);
    update_managed(&CONFIGMAPS, Subresource::Main, "kubectl-client-side-apply", Some(dropped), &mut object, at("2026-12-01T02:07:29.6Z"));
    assert_eq!(&object, client_side, "an update takes from appliers");

    let object = apply(Some(client_side), "kubectl", &manifests["07"], false, "2026-12-01T02:07:30Z").expect("07");
    assert_eq!(&filled(object, upgraded), upgraded, "kubectl may take over what it applied from the client's side");

    let annotation = json!({"kubectl.kubernetes.io/last-applied-configuration":
        upgraded["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]});
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "s30", "annotations": annotation}});
    let object = apply(Some(upgraded), "kubectl-last-applied", &config, false, "2026-12-01T02:07:30Z").expect("last applied");
    assert_eq!(&filled(object, last_applied), last_applied);
}

#[test]
fn lists_of_pods_by_their_keys() {
    let config =
        |containers: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}});
    let apply = |live: Option<&Value>, manager: &str, config: &Value, force: bool| {
        server_side_apply(&PODS, Subresource::Main, manager, live, config, force, at("2026-01-01T00:00:00Z"))
    };
    let first = config(
        json!([{"name": "a", "image": "1", "ports": [{"containerPort": 80}], "env": [{"name": "E", "value": "x"}]}, {"name": "b", "image": "1"}]),
    );
    let live = apply(None, "one", &first, false).expect("created");
    let fields = &live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"];
    assert_eq!(
        fields["k:{\"name\":\"a\"}"]["f:ports"],
        json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}})
    );
    let conflict = apply(Some(&live), "two", &config(json!([{"name": "a", "image": "2"}])), false).expect_err("image");
    assert_eq!(conflict.message, "Apply failed with 1 conflict: conflict with \"one\": .spec.containers[name=\"a\"].image");

    // Another manager's container comes in its place, the first manager's stay.
    let live = apply(Some(&live), "two", &config(json!([{"name": "c", "image": "1"}, {"name": "a"}])), false).expect("merged");
    let names: Vec<&Value> = live["spec"]["containers"].as_array().expect("a list").iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["c", "a", "b"]);

    // Given up: the env variable goes, and the container that nobody else owns; the one that is shared stays.
    let live = apply(Some(&live), "one", &config(json!([{"name": "a", "image": "1"}])), false).expect("shrunk");
    assert_eq!(live["spec"]["containers"], json!([{"name": "c", "image": "1"}, {"name": "a", "image": "1"}]));
    let live = apply(Some(&live), "one", &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}), false).expect("left");
    assert_eq!(live["spec"]["containers"], json!([{"name": "c", "image": "1"}, {"name": "a"}]));
}

#[test]
fn what_nobody_changed_stays_as_it_was() {
    let (states, _) = scenario();
    let mut same = states[0].clone();
    update_managed(&CONFIGMAPS, Subresource::Main, "carol", Some(&states[0]), &mut same, at("2027-01-01T00:00:00Z"));
    assert_eq!(same, states[0]);
    // A caller that sends no managedFields keeps them, one that sends `[{}]` clears them.
    let mut dropped = without_managed(&states[0]);
    update_managed(&CONFIGMAPS, Subresource::Main, "carol", Some(&states[0]), &mut dropped, at("2027-01-01T00:00:00Z"));
    assert_eq!(dropped, states[0]);
    let mut cleared = states[0].clone();
    cleared["metadata"]["managedFields"] = json!([{}]);
    update_managed(&CONFIGMAPS, Subresource::Main, "carol", Some(&states[0]), &mut cleared, at("2027-01-01T00:00:00Z"));
    assert_eq!(cleared["metadata"].get("managedFields"), None);
}

#[test]
fn many_updaters_are_merged() {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k0": "v"}});
    create_managed(&CONFIGMAPS, "m0", &Value::Null, &mut object, at("2026-01-01T00:00:00Z"));
    for n in 1..14 {
        let old = object.clone();
        object["data"][format!("k{n}")] = json!("v");
        update_managed(&CONFIGMAPS, Subresource::Main, &format!("m{n}"), Some(&old), &mut object, at(&format!("2026-01-01T00:00:{n:02}Z")));
    }
    let list = object["metadata"]["managedFields"].as_array().expect("a list");
    assert_eq!(list.len(), 10);
    assert_eq!(list[0]["manager"], "ancient-changes");
    assert_eq!(list[0]["fieldsV1"]["f:data"].as_object().map(Map::len), Some(6));
}

#[test]
fn refusals() {
    let apply = |config: Value| apply(None, "m", &config, false, "2026-01-01T00:00:00Z").expect_err("refused");
    let status = apply(json!({"metadata": {"managedFields": [{"manager": "x"}]}}));
    assert_eq!((status.code, status.message.as_str()), (400, "metadata.managedFields must be nil"));

    let kinds = [("v2", "ConfigMap", "/v2, Kind=ConfigMap"), ("", "", "/, Kind="), ("a/v1", "Secret", "a/v1, Kind=Secret")];
    for (version, kind, shown) in kinds {
        let status = check_applied(&CONFIGMAPS, &json!({"apiVersion": version, "kind": kind})).expect_err("another kind");
        assert_eq!((status.code, status.message), (400, format!("invalid object type: {shown}")));
    }
    let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": 7}});
    assert_eq!(
        check_applied(&CONFIGMAPS, &wrong).expect_err("a number").message,
        "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .data.a: expected string, got &value.valueUnstructured{Value:7}"
    );

    let faulty = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": {"x": 1, "priority": "high", "containers": [{"name": "a", "y": 1}]}});
    let status = check_applied(&PODS, &faulty).expect_err("faults");
    assert_eq!(
        status.message,
        "failed to create typed patch object (n/p; /v1, Kind=Pod): errors:\n  .spec.containers[name=\"a\"].y: field not declared in schema\n  .spec.priority: expected numeric (int or float), got string\n  .spec.x: field not declared in schema"
    );
    assert_eq!((status.code, status.reason), (500, ""));
}

/// A claim of nothing has nothing to own (scenario 29 of the recordings, "claim: spec empty").
#[test]
fn an_empty_claim_has_no_owner() {
    let mut claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": null}}});
    let sent = claim.clone();
    create_managed(&RESOURCECLAIMS, "m", &sent, &mut claim, at("2026-01-01T00:00:00Z"));
    assert_eq!(claim, sent);
}

#[test]
fn untracked_objects_are_tracked_from_the_first_apply() {
    let old = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "1"}});
    let mut new = old.clone();
    new["data"]["b"] = json!("2");
    update_managed(&CONFIGMAPS, Subresource::Main, "m", Some(&old), &mut new, at("2026-01-01T00:00:00Z"));
    assert_eq!(new["metadata"].get("managedFields"), None);
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "9"}});
    let conflict = apply(Some(&new), "m", &config, false, "2026-01-01T00:00:00Z").expect_err("owned");
    assert_eq!(conflict.message, "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a");
    let object = apply(Some(&new), "m", &config, true, "2026-01-01T00:00:00Z").expect("forced");
    let list = object["metadata"]["managedFields"].as_array().expect("a list");
    assert_eq!(list[1]["fieldsV1"], json!({"f:data": {".": {}, "f:b": {}}}));
}
