//! Cases of the cluster's checks.

use serde_json::{Value, json};

use super::{Case, Expected, ago, asks, claim, class, driver_pod, now, pending, pod, slice, with};
use crate::doctor::Severity::{Blocker, Note, Warning};
use crate::doctor::facts::{Cluster, Dropped, Facts};
use crate::doctor::{Absent, Blind};
use Expected::{Fine, Found};

fn objects(plural: &'static str, change: impl FnOnce(&mut Vec<Value>)) -> Facts {
    with(|facts| change(list(facts, plural)))
}

fn list<'f>(facts: &'f mut Facts, plural: &'static str) -> &'f mut Vec<Value> {
    let entry = facts.cluster.as_mut().expect("a cluster").objects.entry(plural).or_insert_with(|| Ok(Vec::new()));
    entry.as_mut().expect("a list")
}

fn cluster(change: impl FnOnce(&mut Cluster)) -> Facts {
    with(|facts| change(facts.cluster.as_mut().expect("a cluster")))
}

fn edited(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    object.pointer_mut(parent).expect(pointer)[key] = value;
    object
}

fn event(reason: &str, pod: &str, message: &str) -> Value {
    json!({"reason": reason, "message": message, "involvedObject": {"kind": "Pod", "namespace": "default", "name": pod, "uid": format!("uid-{pod}")}})
}

/// All of them.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |check, name, facts, expected| cases.push(Case { check, name, facts, expected });
    case("DL-DOC-401", "old", cluster(|c| c.version = "v1.33.4".to_owned()), Found(Blocker, "v1.33.4"));
    case("DL-DOC-401", "only beta served", cluster(|c| c.dra_versions = vec!["v1beta1".to_owned()]), Found(Blocker, "v1beta1"));
    case("DL-DOC-401", "oldest that will do", cluster(|c| c.version = "v1.34.2-gke.1".to_owned()), Fine);
    case("DL-DOC-401", "no cluster", with(|f| f.cluster = Err(Blind::NotHere(Absent::NoCluster))), Expected::Blind);
    let dropped = |gate: &'static str| {
        move |c: &mut Cluster| {
            c.probe.as_mut().expect("a probe").dropped.push(Dropped { field: "Pod spec.x".to_owned(), gate: gate.to_owned() });
        }
    };
    case("DL-DOC-402", "core", cluster(dropped("DynamicResourceAllocation")), Found(Blocker, "DynamicResourceAllocation"));
    case("DL-DOC-402", "on by default", cluster(dropped("DRADeviceTaints")), Found(Warning, "on by default in 1.37"));
    case(
        "DL-DOC-402",
        "off by default in this version",
        cluster(|c| {
            dropped("DRADeviceTaints")(c);
            c.version = "v1.34.3".to_owned();
        }),
        Fine,
    );
    case("DL-DOC-402", "refused", cluster(|c| c.probe = Err(Blind::because("forbidden"))), Expected::Blind);
    let late = |seconds: i64| {
        move |c: &mut Cluster| c.probe.as_mut().expect("a probe").server_time = Some(now() + jiff::SignedDuration::from_secs(seconds))
    };
    case("DL-DOC-403", "minutes ahead", cluster(late(300)), Found(Warning, "2026-12-01T12:05:00Z"));
    case("DL-DOC-403", "behind", cluster(late(-12)), Found(Note, "2026-12-01T11:59:48Z"));
    case("DL-DOC-403", "within the resolution", cluster(late(-2)), Fine);
    let unready = |index: usize| {
        move |nodes: &mut Vec<Value>| {
            nodes[index]["status"]["conditions"] =
                json!([{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}]);
        }
    };
    case("DL-DOC-404", "the only worker", objects("nodes", unready(1)), Found(Blocker, "node/lab-worker: Ready Unknown"));
    case("DL-DOC-404", "the control plane", objects("nodes", unready(0)), Found(Warning, "node/lab-control-plane"));
    let kubelet = |version: &'static str| move |nodes: &mut Vec<Value>| nodes[1]["status"]["nodeInfo"]["kubeletVersion"] = json!(version);
    case("DL-DOC-405", "1.34.1", objects("nodes", kubelet("v1.34.1")), Found(Warning, "kubelet v1.34.1"));
    case("DL-DOC-405", "1.34.2", objects("nodes", kubelet("v1.34.2+k3s1")), Fine);
    case("DL-DOC-406", "newer", objects("nodes", kubelet("v1.38.0")), Found(Warning, "kubelet v1.38.0"));
    case("DL-DOC-406", "too old", objects("nodes", kubelet("v1.33.9")), Found(Warning, "kubelet v1.33.9"));
    case("DL-DOC-406", "three behind", objects("nodes", kubelet("v1.34.9")), Fine);
    let plugin = |resource: &'static str, amount: &'static str| {
        move |nodes: &mut Vec<Value>| nodes[1]["status"]["allocatable"][resource] = json!(amount)
    };
    case("DL-DOC-407", "both", objects("nodes", plugin("example.com/gpu", "8")), Found(Warning, "allocatable example.com/gpu: 8"));
    case("DL-DOC-407", "plugin gone", objects("nodes", plugin("example.com/gpu", "0")), Fine);
    case("DL-DOC-407", "another vendor", objects("nodes", plugin("other.org/nic", "2")), Fine);

    let pool = |s: Value, count: u32| edited(s, "/spec/pool/resourceSliceCount", json!(count));
    case(
        "DL-DOC-411",
        "one of two",
        objects("resourceslices", |l| l[0] = pool(l[0].clone(), 2)),
        Found(Warning, "resourceSliceCount 2, slices 1"),
    );
    case(
        "DL-DOC-411",
        "being written",
        objects("resourceslices", |l| {
            l[0] = edited(pool(l[0].clone(), 2), "/metadata/creationTimestamp", ago(2));
        }),
        Found(Note, "slices 1"),
    );
    case(
        "DL-DOC-411",
        "newer generation lacks one",
        objects("resourceslices", |l| {
            l.push(edited(pool(slice("s2", "lab-worker", &["gpu-9"]), 2), "/spec/pool/generation", json!(2)));
        }),
        Found(Warning, "of older generations 1"),
    );
    case(
        "DL-DOC-411",
        "older generation left",
        objects("resourceslices", |l| l.push(edited(slice("s0", "lab-worker", &["gpu-0"]), "/spec/pool/generation", json!(0)))),
        Fine,
    );
    case(
        "DL-DOC-411",
        "counts disagree",
        objects("resourceslices", |l| l.push(pool(slice("s2", "lab-worker", &["gpu-9"]), 2))),
        Found(Warning, "1 and 2"),
    );
    case(
        "DL-DOC-411",
        "a pool over two nodes",
        objects("resourceslices", |l| {
            l[0] = pool(l[0].clone(), 2);
            l.push(edited(pool(slice("s2", "lab-control-plane", &["gpu-9"]), 2), "/spec/pool/name", json!("lab-worker")));
        }),
        Fine,
    );
    case(
        "DL-DOC-412",
        "twice",
        objects("resourceslices", |l| {
            l[0] = pool(l[0].clone(), 2);
            l.push(pool(slice("s2", "lab-worker", &["gpu-1"]), 2));
        }),
        Found(Warning, "lab-worker/gpu-1: in resourceslice s1, s2"),
    );
    case(
        "DL-DOC-412",
        "in another driver's pool",
        objects("resourceslices", |l| l.push(edited(slice("s2", "lab-worker", &["gpu-1"]), "/spec/driver", json!("b.example.com")))),
        Fine,
    );
    case(
        "DL-DOC-413",
        "same pool on two nodes",
        objects("resourceslices", |l| l.push(edited(slice("s2", "lab-control-plane", &["gpu-0"]), "/spec/pool/name", json!("lab-worker")))),
        Found(Warning, "on nodes lab-control-plane, lab-worker"),
    );
    case("DL-DOC-413", "same device, own pools", objects("resourceslices", |l| l.push(slice("s2", "lab-control-plane", &["gpu-0"]))), Fine);
    let twice = |key: &'static str| move |l: &mut Vec<Value>| l[0]["spec"]["devices"][0]["attributes"][key] = json!({"string": "b"});
    case(
        "DL-DOC-414",
        "with and without domain",
        objects("resourceslices", twice("gpu.example.com/model")),
        Found(Warning, "model and gpu.example.com/model: different values"),
    );
    case("DL-DOC-414", "another domain", objects("resourceslices", twice("other.example.com/model")), Fine);
    case(
        "DL-DOC-415",
        "node gone",
        objects("resourceslices", |l| l.push(slice("s2", "gone", &["gpu-0"]))),
        Found(Warning, "nodeName gone"),
    );
    case(
        "DL-DOC-415",
        "of no single node",
        objects("resourceslices", |l| {
            l[0]["spec"].as_object_mut().expect("a spec").remove("nodeName");
        }),
        Fine,
    );

    let unregistered = |pod: Value| {
        with(|f| {
            list(f, "pods").push(pod);
            list(f, "events").push(event(
                "FailedPrepareDynamicResources",
                "p",
                "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.exmaple.com is not registered",
            ));
        })
    };
    let bound = |pod: Value| edited(pod, "/spec/nodeName", json!("lab-worker"));
    case("DL-DOC-421", "another name", unregistered(bound(pending("p", "gpu"))), Found(Warning, "slices of drivers: gpu.example.com"));
    case("DL-DOC-421", "the pod runs by now", unregistered(pod("p", "gpu")), Fine);
    case("DL-DOC-422", "not ready", objects("pods", |l| l[1] = driver_pod("lab-worker", false)), Found(Warning, "Ready false"));
    case(
        "DL-DOC-422",
        "no pod at all",
        objects("pods", |l| {
            l.remove(1);
        }),
        Found(Note, "driver gpu.example.com, slices: 1"),
    );
    case("DL-DOC-422", "one that names no driver", objects("pods", |l| l[1]["spec"]["containers"][0]["args"] = json!([])), Fine);
    case("DL-DOC-422", "embedded", cluster(|c| c.embedded = true), Expected::Blind);
    let restarts = |count: u32| {
        move |l: &mut Vec<Value>| {
            l[1]["status"]["containerStatuses"][0] =
                json!({"name": "driver", "restartCount": count, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}});
        }
    };
    case("DL-DOC-423", "many", objects("pods", restarts(7)), Found(Warning, "7 restarts, last exit code 137 OOMKilled"));
    case("DL-DOC-423", "once", objects("pods", restarts(1)), Fine);

    let classes = |expression: &'static str| objects("deviceclasses", |l| l[0] = class("gpu.example.com", expression));
    case("DL-DOC-431", "other driver", classes("device.driver == 'gpu.nvidia.com'"), Found(Warning, "2, of drivers gpu.example.com"));
    case(
        "DL-DOC-431",
        "nobody uses it",
        objects("deviceclasses", |l| l.push(class("x", "device.driver == 'x'"))),
        Found(Note, "deviceclass/x selector #0"),
    );
    case("DL-DOC-431", "fails", classes("device.attributes['gpu.example.com'].type == 'gpu'"), Found(Warning, "no such key: type"));
    case("DL-DOC-431", "does not compile", classes("device.attributes.model == 'x'"), Found(Warning, "found no matching overload"));
    case("DL-DOC-431", "guarded", classes("device.attributes['gpu.example.com'].?type.orValue('gpu') == 'gpu'"), Fine);
    case(
        "DL-DOC-432",
        "claim",
        objects("resourceclaims", |l| l.push(edited(claim("c", None), "/spec", asks("gpu.exmaple.com")))),
        Found(Warning, "deviceClassName gpu.exmaple.com"),
    );
    case(
        "DL-DOC-432",
        "template",
        objects("resourceclaimtemplates", |l| l[0]["spec"]["spec"] = asks("none")),
        Found(Warning, "resourceclaimtemplate/default/t"),
    );
    case("DL-DOC-432", "allocated long ago", objects("resourceclaims", |l| l[0]["spec"] = asks("gone")), Fine);

    let reserved =
        |consumer: Value| objects("resourceclaims", |l| l[0]["status"]["reservedFor"].as_array_mut().expect("a list").push(consumer));
    case(
        "DL-DOC-441",
        "dead uid",
        reserved(json!({"resource": "pods", "name": "gone", "uid": "dead"})),
        Found(Warning, "reservedFor pods gone, uid dead"),
    );
    case(
        "DL-DOC-441",
        "no pod",
        reserved(json!({"resource": "jobs", "apiGroup": "batch", "name": "j", "uid": "u"})),
        Found(Note, "reservedFor jobs j"),
    );
    case(
        "DL-DOC-441",
        "pod group",
        reserved(json!({"resource": "podgroups", "apiGroup": "scheduling.k8s.io", "name": "g", "uid": "u"})),
        Fine,
    );
    case(
        "DL-DOC-441",
        "near the limit",
        objects("resourceclaims", |l| {
            l[0]["status"]["reservedFor"] = (0..240).map(|_| json!({"resource": "pods", "name": "pod0", "uid": "uid-pod0"})).collect();
        }),
        Found(Warning, "240 in status.reservedFor"),
    );
    case(
        "DL-DOC-441",
        "ended pod",
        objects("pods", |l| {
            l[0]["status"] = json!({"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"finishedAt": ago(300)}}}]});
        }),
        Found(Warning, "phase Succeeded"),
    );
    case(
        "DL-DOC-441",
        "just ended pod",
        objects("pods", |l| {
            l[0]["status"] = json!({"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"finishedAt": ago(1)}}}]});
        }),
        Fine,
    );
    let going = |seconds: i64, finalizer: &'static str| {
        move |l: &mut Vec<Value>| {
            l[0]["metadata"]["deletionTimestamp"] = ago(seconds);
            l[0]["metadata"]["finalizers"] = json!([finalizer]);
        }
    };
    case(
        "DL-DOC-442",
        "a pod uses it",
        objects("resourceclaims", going(300, "resource.kubernetes.io/delete-protection")),
        Found(Warning, "pods pod0: phase Running"),
    );
    case(
        "DL-DOC-442",
        "nobody uses it",
        objects("resourceclaims", |l| {
            going(300, "resource.kubernetes.io/delete-protection")(l);
            l[0]["status"] = json!({});
        }),
        Found(Warning, "finalizers resource.kubernetes.io/delete-protection"),
    );
    case(
        "DL-DOC-442",
        "somebody else's finalizer",
        objects("resourceclaims", going(300, "x.example.com/f")),
        Found(Warning, "x.example.com/f"),
    );
    case("DL-DOC-442", "just now", objects("resourceclaims", going(5, "resource.kubernetes.io/delete-protection")), Fine);
    case(
        "DL-DOC-443",
        "holds a device",
        objects("resourceclaims", |l| l[0]["status"]["reservedFor"] = json!([])),
        Found(Note, "holds gpu.example.com/lab-worker/gpu-0; reservedFor is empty, a pod names it"),
    );
    case(
        "DL-DOC-443",
        "in the making",
        objects("resourceclaims", |l| {
            l[0]["status"]["reservedFor"] = json!([]);
            l[0]["status"]["allocation"]["allocationTimestamp"] = ago(3);
        }),
        Fine,
    );
    case(
        "DL-DOC-444",
        "device gone",
        objects("resourceslices", |l| l[0] = slice("s1", "lab-worker", &["gpu-1"])),
        Found(Warning, "allocated gpu.example.com/lab-worker/gpu-0"),
    );

    let owned = |uid: &'static str| {
        move |mut c: Value| {
            c["metadata"]["ownerReferences"] = json!([{"kind": "Pod", "name": "pod0", "uid": uid}]);
            c
        }
    };
    case(
        "DL-DOC-451",
        "pod made anew",
        objects("resourceclaims", |l| l[0] = owned("old")(l[0].clone())),
        Found(Warning, "a pod of that name has uid uid-pod0"),
    );
    case("DL-DOC-451", "its own", objects("resourceclaims", |l| l[0] = owned("uid-pod0")(l[0].clone())), Fine);
    case("DL-DOC-452", "no claim", objects("pods", |l| l.push(pending("p", "none"))), Found(Warning, "resourceClaimName none"));
    case(
        "DL-DOC-452",
        "claim elsewhere",
        with(|f| {
            list(f, "pods").push(pending("p", "far"));
            list(f, "resourceclaims").push(edited(claim("far", None), "/metadata/namespace", json!("admins")));
        }),
        Found(Warning, "resourceclaim/admins/far: has this name in another namespace"),
    );
    case(
        "DL-DOC-452",
        "no template",
        objects("pods", |l| {
            l.push(edited(pending("p", "x"), "/spec/resourceClaims", json!([{"name": "gpu", "resourceClaimTemplateName": "none"}])));
        }),
        Found(Warning, "resourceClaimTemplateName none"),
    );
    case(
        "DL-DOC-452",
        "claim is going",
        with(|f| {
            list(f, "pods").push(pending("p", "gpu"));
            list(f, "resourceclaims")[0]["metadata"]["deletionTimestamp"] = ago(5);
        }),
        Found(Warning, "is being deleted"),
    );
    case(
        "DL-DOC-452",
        "an earlier pod's claim",
        with(|f| {
            let mut pod = edited(pending("p", "x"), "/spec/resourceClaims", json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]));
            pod["status"]["resourceClaimStatuses"] = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
            list(f, "pods").push(pod);
            list(f, "resourceclaims")[0] = owned("uid-pod0")(claim("gpu", Some("gpu-0")));
        }),
        Found(Warning, "belongs to another pod"),
    );
    case(
        "DL-DOC-452",
        "unprepared",
        with(|f| {
            list(f, "pods").push(bound(pending("p", "gpu")));
            list(f, "events").push(event("FailedPrepareDynamicResources", "p", "Failed to prepare dynamic resources: no such device"));
        }),
        Found(Warning, "no such device"),
    );
    case(
        "DL-DOC-452",
        "unscheduled",
        objects("pods", |l| {
            l.push(edited(
                pending("p", "gpu"),
                "/status/conditions",
                json!([{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available: 2 cannot allocate all claims."}]),
            ));
        }),
        Found(Warning, "cannot allocate all claims"),
    );
    case("DL-DOC-452", "just made", objects("pods", |l| l.push(edited(pending("p", "none"), "/metadata/creationTimestamp", ago(3)))), Fine);
    case(
        "DL-DOC-453",
        "by hand",
        with(|f| {
            list(f, "pods").push(bound(pending("p", "c")));
            list(f, "resourceclaims").push(claim("c", None));
        }),
        Found(Warning, "nodeName lab-worker, claims not allocated: c"),
    );
    case("DL-DOC-453", "bound by the scheduler", objects("pods", |l| l.push(bound(pending("p", "gpu")))), Fine);

    let label = |key: &'static str, value: &'static str| objects("namespaces", |l| l[0]["metadata"]["labels"] = json!({key: value}));
    case("DL-DOC-461", "old spelling", label("resource.k8s.io/admin-access", "true"), Found(Warning, "resource.k8s.io/admin-access=true"));
    case(
        "DL-DOC-461",
        "wrong case",
        label("resource.kubernetes.io/admin-access", "True"),
        Found(Warning, "resource.kubernetes.io/admin-access=True"),
    );
    case("DL-DOC-461", "right", label("resource.kubernetes.io/admin-access", "true"), Fine);
    let own = |rules: Value| {
        with(|f| {
            list(f, "pods").push(edited(pending("p", "gpu"), "/spec/schedulerName", json!("mine")));
            let mut scheduler = pod("mine-7d9f", "gpu");
            scheduler["spec"] = json!({"serviceAccountName": "mine", "containers": []});
            list(f, "pods").push(scheduler);
            list(f, "clusterroles").push(json!({"metadata": {"name": "mine"}, "rules": rules}));
            list(f, "clusterrolebindings").push(
                json!({"subjects": [{"kind": "ServiceAccount", "name": "mine", "namespace": "default"}], "roleRef": {"name": "mine"}}),
            );
        })
    };
    case(
        "DL-DOC-462",
        "no rights",
        own(json!([{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}])),
        Found(Warning, "resourceclaims, resourceslices, deviceclasses"),
    );
    case(
        "DL-DOC-462",
        "all rights",
        own(json!([{"apiGroups": ["resource.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]}])),
        Fine,
    );
    case(
        "DL-DOC-462",
        "nowhere to be seen",
        objects("pods", |l| l.push(edited(pending("p", "gpu"), "/spec/schedulerName", json!("mine")))),
        Found(Note, "schedulerName mine"),
    );
    let quota = |used: &'static str| {
        objects("resourcequotas", |l| {
            l.push(json!({"metadata": {"name": "q", "namespace": "default"}, "status": {
        "hard": {"gpu.example.com.deviceclass.resource.k8s.io/devices": "4"}, "used": {"gpu.example.com.deviceclass.resource.k8s.io/devices": used}}}));
        })
    };
    case("DL-DOC-463", "used up", quota("4"), Found(Warning, "used 4, hard 4"));
    case("DL-DOC-463", "room left", quota("3"), Fine);
    case(
        "DL-DOC-463",
        "refused",
        with(|f| {
            list(f, "pods").push(pending("p", "gpu"));
            list(f, "events").push(event(
                "FailedResourceClaimCreation",
                "p",
                "PodResourceClaim gpu: resourceclaims is forbidden: exceeded quota: q",
            ));
        }),
        Found(Warning, "exceeded quota: q"),
    );
    case(
        "DL-DOC-463",
        "policy",
        with(|f| {
            list(f, "validatingadmissionpolicies").push(json!({"metadata": {"name": "v"}, "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"]}]}}}));
            list(f, "validatingadmissionpolicybindings")
                .push(json!({"metadata": {"name": "b"}, "spec": {"policyName": "v", "validationActions": ["Deny"]}}));
        }),
        Found(Note, "binding b denies"),
    );
    let rule = |selector: Value| {
        objects("devicetaintrules", |l| {
            l.push(json!({"metadata": {"name": "r"}, "spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": "NoExecute"}}}));
        })
    };
    case("DL-DOC-464", "everything", rule(json!({})), Found(Warning, "deviceSelector is empty"));
    case("DL-DOC-464", "of a driver", rule(json!({"driver": "gpu.example.com"})), Fine);
    cases
}
