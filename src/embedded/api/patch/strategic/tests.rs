use serde_json::json;

use super::super::super::resource::{NODES, PODS, RESOURCECLAIMS, Resource};
use super::super::super::{Patch, schema};
use super::*;

fn patched(resource: &'static Resource, object: Value, patch: &Value) -> Result<Value, StrategicError> {
    let table = schema::table();
    let mut object = object;
    merge(table, &table.kind(resource), &mut object, patch)?;
    Ok(object)
}

struct Case {
    name: &'static str,
    resource: &'static Resource,
    object: Value,
    patch: Value,
    wanted: Value,
}

fn cases() -> Vec<Case> {
    let pod = || {
        json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["x/a", "x/b"]}, "spec": {
            "containers": [{"name": "a", "image": "one", "env": [{"name": "E", "value": "1"}]}, {"name": "b", "image": "two"}],
            "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "t"}]}})
    };
    let containers = |list: Value| {
        let mut pod = pod();
        pod["spec"]["containers"] = list;
        pod
    };
    vec![
        Case {
            name: "labels merge, null removes",
            resource: &PODS,
            object: pod(),
            patch: json!({"metadata": {"labels": {"a": null, "b": "2", "c": null}}}),
            wanted: {
                let mut pod = pod();
                pod["metadata"]["labels"] = json!({"b": "2"});
                pod
            },
        },
        Case {
            name: "containers merge by name and keep their other fields",
            resource: &PODS,
            object: pod(),
            patch: json!({"spec": {"containers": [{"name": "b", "image": "three"}]}}),
            wanted: containers(
                json!([{"name": "a", "image": "one", "env": [{"name": "E", "value": "1"}]}, {"name": "b", "image": "three"}]),
            ),
        },
        Case {
            name: "a new container, env below it merges by name; without order what is patched comes before what is not",
            resource: &PODS,
            object: pod(),
            patch: json!({"spec": {"containers": [{"name": "a", "env": [{"name": "F", "value": "2"}]}, {"name": "c"}]}}),
            wanted: containers(json!([
                {"name": "a", "image": "one", "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]},
                {"name": "c"}, {"name": "b", "image": "two"}])),
        },
        Case {
            name: "setElementOrder, as kubectl apply sends it",
            resource: &PODS,
            object: pod(),
            patch: json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                "containers": [{"name": "c", "image": "new"}, {"name": "b", "$patch": "delete"}]}}),
            wanted: containers(json!([{"name": "c", "image": "new"}, {"name": "a", "image": "one", "env": [{"name": "E", "value": "1"}]}])),
        },
        Case {
            name: "setElementOrder alone sorts, what it does not name keeps its place",
            resource: &PODS,
            object: json!({"spec": {"containers": [{"name": "x"}, {"name": "a"}, {"name": "b"}]}}),
            patch: json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}),
            wanted: json!({"spec": {"containers": [{"name": "x"}, {"name": "b"}, {"name": "a"}]}}),
        },
        Case {
            name: "replace of a list",
            resource: &PODS,
            object: pod(),
            patch: json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}),
            wanted: containers(json!([{"name": "z"}])),
        },
        Case {
            name: "replace and delete of a map",
            resource: &PODS,
            object: json!({"spec": {"securityContext": {"runAsUser": 1, "fsGroup": 2}, "nodeSelector": {"a": "b"}}}),
            patch: json!({"spec": {"securityContext": {"$patch": "replace", "runAsUser": 3}, "nodeSelector": {"$patch": "delete"}}}),
            wanted: json!({"spec": {"securityContext": {"runAsUser": 3}, "nodeSelector": {}}}),
        },
        Case {
            name: "retainKeys of a volume",
            resource: &PODS,
            object: pod(),
            patch: json!({"spec": {"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/x"}, "emptyDir": null}]}}),
            wanted: {
                let mut pod = pod();
                pod["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/x"}}]);
                pod
            },
        },
        Case {
            name: "primitive lists merge and lose",
            resource: &PODS,
            object: pod(),
            patch: json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"], "finalizers": ["x/c"]}}),
            wanted: {
                let mut pod = pod();
                pod["metadata"]["finalizers"] = json!(["x/c", "x/b"]);
                pod
            },
        },
        Case {
            name: "atomic lists are replaced",
            resource: &PODS,
            object: pod(),
            patch: json!({"spec": {"tolerations": [{"key": "u"}]}}),
            wanted: {
                let mut pod = pod();
                pod["spec"]["tolerations"] = json!([{"key": "u"}]);
                pod
            },
        },
        Case {
            name: "requests of a claim are replaced, reservedFor merges by uid",
            resource: &RESOURCECLAIMS,
            object: json!({"spec": {"devices": {"requests": [{"name": "a"}]}}, "status": {"reservedFor": [{"uid": "1", "name": "p"}]}}),
            patch: json!({"spec": {"devices": {"requests": [{"name": "b"}]}}, "status": {"reservedFor": [{"uid": "2", "name": "q"}]}}),
            wanted: json!({"spec": {"devices": {"requests": [{"name": "b"}]}},
                "status": {"reservedFor": [{"uid": "2", "name": "q"}, {"uid": "1", "name": "p"}]}}),
        },
        Case {
            name: "claims of a container have no merge key",
            resource: &PODS,
            object: json!({"spec": {"containers": [{"name": "a", "resources": {"claims": [{"name": "x"}]}}]}}),
            patch: json!({"spec": {"containers": [{"name": "a", "resources": {"claims": [{"name": "y"}]}}]}}),
            wanted: json!({"spec": {"containers": [{"name": "a", "resources": {"claims": [{"name": "y"}]}}]}}),
        },
        Case {
            name: "conditions of a node, as the kubelet sends them",
            resource: &NODES,
            object: json!({"status": {"conditions": [{"type": "A", "status": "True", "reason": "r"}, {"type": "B", "status": "True"}]}}),
            patch: json!({"status": {"$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}], "conditions": [{"type": "B", "status": "False"}]}}),
            wanted: json!({"status": {"conditions": [{"type": "A", "status": "True", "reason": "r"}, {"type": "B", "status": "False"}]}}),
        },
        Case {
            name: "what is new in the object loses directives and nulls",
            resource: &PODS,
            object: json!({}),
            patch: json!({"spec": {"$setElementOrder/volumes": [{"name": "v"}],
                "volumes": [{"name": "v", "$retainKeys": ["name"], "emptyDir": null}, {"name": "w", "$patch": "delete"}], "nodeName": null}}),
            wanted: json!({"spec": {"volumes": [{"name": "v"}]}}),
        },
    ]
}

#[test]
fn merges_as_upstream() {
    for case in cases() {
        let got = patched(case.resource, case.object, &case.patch);
        assert_eq!(got, Ok(case.wanted), "{}", case.name);
    }
}

#[test]
fn refuses_as_upstream() {
    let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "a"}], "volumes": [{"name": "v"}]}});
    let cases = [
        (json!({"spec": {"containers": [{"image": "x"}]}}), "map: map[image:x] does not contain declared merge key: name"),
        (json!({"spec": {"containers": [{"$patch": "delete"}]}}), "delete patch type with no merge key defined"),
        (json!({"spec": {"$patch": "add"}}), "unknown patch type: add in map: map[$patch:add]"),
        (json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name"], "emptyDir": {}}]}}), "invalid patch format of retainKeys"),
        (json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}}), "invalid patch format of primitive list"),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}}),
            "The order in patch list:\n[{\"name\":\"b\"}]\n doesn't match $setElementOrder list:\n[{\"name\":\"a\"}]\n",
        ),
    ];
    for (patch, message) in cases {
        assert_eq!(patched(&PODS, pod.clone(), &patch).expect_err(message).to_string(), message);
    }
}

#[test]
fn json_and_merge_patches() {
    let object = json!({"data": {"a": "1"}});
    let apply = |patch: Patch| super::super::apply(&super::super::super::resource::CONFIGMAPS, &object, &patch);
    assert_eq!(apply(Patch::Merge(json!({"data": {"a": null, "b": "2"}}))).expect("merged"), json!({"data": {"b": "2"}}));
    let patch = json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "2"}]);
    assert_eq!(apply(Patch::Json(patch)).expect("patched"), json!({"data": {"a": "2"}}));
    let status = apply(Patch::Json(json!([{"op": "remove", "path": "/data/x"}]))).expect_err("nothing there");
    assert_eq!((status.code, status.reason), (422, "Invalid"));
    assert_eq!(status.message, "the server rejected our request due to an error in our request");
    assert_eq!(apply(Patch::Json(json!([{"op": "replace", "path": "/data/x", "value": "1"}]))).expect("added")["data"]["x"], "1");
    assert_eq!(apply(Patch::Json(json!([{"op": "bogus", "path": "/x"}]))).expect_err("no operation").code, 422);
    assert_eq!(apply(Patch::Json(json!({}))).expect_err("no list").code, 400);
    assert_eq!(apply(Patch::Merge(json!([]))).expect_err("no object").code, 400);
}
