use serde_json::{Value, json};

use super::super::testing::Lab;
use crate::embedded::api::resource::{CONFIGMAPS, NODES, RESOURCESLICES};
use crate::embedded::api::{DeleteOptions, Object};

fn owner(kind: &str, object: &Object) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": object["metadata"]["name"], "uid": object["metadata"]["uid"]})
}

fn map(lab: &Lab, name: &str, owners: &[Value]) -> Object {
    lab.create(&CONFIGMAPS, json!({"metadata": {"name": name, "ownerReferences": owners}}))
}

fn delete(lab: &Lab, name: &str, propagation: &str) {
    lab.delete(&CONFIGMAPS, name, &DeleteOptions { propagation: Some(propagation.to_owned()), ..DeleteOptions::default() });
}

fn there(lab: &Lab, names: &[&str]) -> Vec<bool> {
    names.iter().map(|name| lab.get(&CONFIGMAPS, name).is_some()).collect()
}

#[tokio::test]
async fn dependents_follow_their_owner_down_the_chain() {
    let lab = Lab::start().await;
    let a = map(&lab, "a", &[]);
    let b = map(&lab, "b", &[owner("ConfigMap", &a)]);
    map(&lab, "c", &[owner("ConfigMap", &b)]);
    lab.settle().await;
    assert_eq!(there(&lab, &["a", "b", "c"]), [true, true, true]);
    delete(&lab, "a", "Background");
    lab.settle().await;
    assert_eq!(there(&lab, &["a", "b", "c"]), [false, false, false]);
    lab.end().await;
}

#[tokio::test]
async fn an_object_with_two_owners_loses_the_reference_only() {
    let lab = Lab::start().await;
    let (a, b) = (map(&lab, "a", &[]), map(&lab, "b", &[]));
    map(&lab, "c", &[owner("ConfigMap", &a), owner("ConfigMap", &b)]);
    delete(&lab, "a", "Background");
    lab.settle().await;
    let c = lab.get(&CONFIGMAPS, "c").expect("still owned");
    assert_eq!(c["metadata"]["ownerReferences"], json!([owner("ConfigMap", &b)]));
    lab.end().await;
}

#[tokio::test]
async fn owners_that_never_were_or_were_replaced_do_not_count_but_unknown_kinds_do() {
    let lab = Lab::start().await;
    let a = map(&lab, "a", &[]);
    let mut other = owner("ConfigMap", &a);
    other["uid"] = json!("00000000-0000-4000-8000-000000000000");
    map(&lab, "other-uid", &[other]);
    map(&lab, "never", &[json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "never-was", "uid": "u"})]);
    map(&lab, "unknown", &[json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"})]);
    map(&lab, "right", &[owner("ConfigMap", &a)]);
    lab.settle().await;
    assert_eq!(there(&lab, &["other-uid", "never", "unknown", "right"]), [false, false, true, true]);
    lab.end().await;
}

#[tokio::test]
async fn foreground_deletion_waits_for_dependents_that_block() {
    let lab = Lab::start().await;
    let a = map(&lab, "a", &[]);
    let mut blocking = owner("ConfigMap", &a);
    blocking["blockOwnerDeletion"] = json!(true);
    lab.create(&CONFIGMAPS, json!({"metadata": {"name": "b", "ownerReferences": [blocking], "finalizers": ["example.com/wait"]}}));
    map(&lab, "c", &[owner("ConfigMap", &a)]);
    lab.settle().await;
    delete(&lab, "a", "Foreground");
    lab.settle().await;
    assert_eq!(there(&lab, &["a", "b", "c"]), [true, true, false]);
    assert!(lab.get(&CONFIGMAPS, "b").expect("it waits")["metadata"]["deletionTimestamp"].is_string());
    lab.patch(&CONFIGMAPS, crate::embedded::api::Subresource::Main, "b", json!({"metadata": {"finalizers": null}}));
    lab.settle().await;
    assert_eq!(there(&lab, &["a", "b"]), [false, false]);
    lab.end().await;
}

#[tokio::test]
async fn orphaned_dependents_stay_without_an_owner() {
    let lab = Lab::start().await;
    let a = map(&lab, "a", &[]);
    map(&lab, "b", &[owner("ConfigMap", &a)]);
    lab.settle().await;
    delete(&lab, "a", "Orphan");
    lab.settle().await;
    assert_eq!(there(&lab, &["a", "b"]), [false, true]);
    assert!(lab.get(&CONFIGMAPS, "b").expect("the orphan")["metadata"].get("ownerReferences").is_none());
    lab.end().await;
}

#[tokio::test]
async fn slices_go_with_their_node() {
    let lab = Lab::start().await;
    let node = lab.get(&NODES, "n").expect("the node");
    let pool = json!({"name": "n", "generation": 1, "resourceSliceCount": 1});
    let spec = json!({"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": [{"name": "gpu-0"}]});
    lab.create(&RESOURCESLICES, json!({"metadata": {"name": "x", "ownerReferences": [owner("Node", &node)]}, "spec": spec}));
    lab.settle().await;
    assert!(lab.get(&RESOURCESLICES, "x").is_some());
    lab.delete(&NODES, "n", &DeleteOptions::default());
    lab.settle().await;
    assert!(lab.get(&RESOURCESLICES, "x").is_none());
    lab.end().await;
}
