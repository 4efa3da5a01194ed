use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::resource::{CONFIGMAPS, NAMESPACES, PODS, RESOURCECLAIMS};
use super::{Api, Caller, ChangeKind, DeleteOptions, Deleted, Patch, Status, Subresource, WriteOptions, ids::Ids, meta};
use crate::base::clock::ManualClock;
use crate::embedded::store::Store;

/// Ids that count, and a suffix that repeats once.
#[derive(Debug, Default)]
struct Counting(AtomicU64, AtomicU64);

impl Ids for Counting {
    fn uid(&self) -> String {
        format!("uid-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn suffix(&self) -> String {
        format!("{:05}", self.1.fetch_add(1, Ordering::Relaxed) / 2)
    }
}

struct Lab {
    api: Api,
    clock: ManualClock,
    caller: Caller,
}

const WRITE: WriteOptions = WriteOptions { dry_run: false, field_validation: super::FieldValidation::Warn };

impl Lab {
    fn new() -> Self {
        let clock = ManualClock::new("2026-12-01T02:00:00.7Z".parse().unwrap());
        let api = Api::with_ids(Store::in_memory(), Arc::new(clock.clone()), Arc::new(Counting::default()));
        let lab = Lab { api, clock, caller: Caller::component("test") };
        for name in ["n", "default"] {
            lab.create(&NAMESPACES, "", json!({"metadata": {"name": name}, "spec": {"finalizers": ["kubernetes"]}})).unwrap();
        }
        lab
    }

    fn create(&self, resource: &'static super::Resource, namespace: &str, object: Value) -> Result<super::Object, Status> {
        self.api.create(&self.caller, resource, namespace, object, &WRITE)
    }

    fn update(&self, resource: &'static super::Resource, namespace: &str, name: &str, object: Value) -> Result<super::Object, Status> {
        self.api.update(&self.caller, resource, Subresource::Main, namespace, name, object, &WRITE)
    }

    fn delete(&self, resource: &'static super::Resource, namespace: &str, name: &str) -> Result<Deleted, Status> {
        self.api.delete(&self.caller, resource, namespace, name, &DeleteOptions::default())
    }

    fn configmap(&self, name: &str) -> Value {
        (*self.create(&CONFIGMAPS, "n", json!({"metadata": {"name": name}, "data": {"a": "b"}})).unwrap()).clone()
    }

    fn pod(&self, name: &str) -> super::Object {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        self.create(&PODS, "n", pod).unwrap()
    }
}

#[test]
fn a_created_object_has_its_metadata() {
    let lab = Lab::new();
    let object = lab.configmap("a");
    assert_eq!(object["apiVersion"], "v1");
    assert_eq!(object["kind"], "ConfigMap");
    assert_eq!(object["metadata"]["creationTimestamp"], "2026-12-01T02:00:00Z");
    assert_eq!(object["metadata"]["namespace"], "n");
    assert!(meta::uid(&object).starts_with("uid-"));
    assert_eq!(object["metadata"]["resourceVersion"], lab.api.revision().to_string());
    assert_eq!(*lab.api.get(&CONFIGMAPS, "n", "a").unwrap(), object);
}

#[test]
fn creations_are_refused_in_the_servers_words() {
    let lab = Lab::new();
    lab.configmap("a");
    let table = [
        ("n", json!({"metadata": {"name": "a"}}), 409, "configmaps \"a\" already exists"),
        ("x", json!({"metadata": {"name": "a"}}), 404, "namespaces \"x\" not found"),
        ("n", json!({}), 422, "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"),
        (
            "n",
            json!({"metadata": {"name": "a", "namespace": "m"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "n",
            json!({"metadata": {"name": "b", "resourceVersion": "5"}}),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
    ];
    for (namespace, object, code, message) in table {
        let status = lab.create(&CONFIGMAPS, namespace, object).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (code, message));
    }
    let status = lab.create(&CONFIGMAPS, "n", json!({"metadata": {"name": "A_"}})).unwrap_err();
    assert!(status.message.starts_with("ConfigMap \"A_\" is invalid: metadata.name: Invalid value: \"A_\": a lowercase RFC 1123"));
    assert_eq!(
        lab.api.get(&RESOURCECLAIMS, "n", "x").unwrap_err().body()["details"],
        json!({"name": "x", "group": "resource.k8s.io", "kind": "resourceclaims"})
    );
}

#[test]
fn a_generated_name_that_is_taken_is_drawn_again() {
    let lab = Lab::new();
    let names: Vec<String> = (0..3)
        .map(|_| lab.create(&CONFIGMAPS, "n", json!({"metadata": {"generateName": "a-"}})).unwrap())
        .map(|object| meta::name(&object).to_owned())
        .collect();
    assert_eq!(names, ["a-00000", "a-00001", "a-00002"]);
}

#[test]
fn an_update_needs_the_latest_version_or_none() {
    let lab = Lab::new();
    let first = lab.configmap("a");
    let mut new = first.clone();
    new["data"]["a"] = json!("c");
    let second = lab.update(&CONFIGMAPS, "n", "a", new.clone()).unwrap();
    assert_ne!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let status = lab.update(&CONFIGMAPS, "n", "a", new.clone()).unwrap_err();
    assert!(status.is_conflict());
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    meta::set(&mut new, "resourceVersion", Value::Null);
    let before = lab.api.revision();
    assert_eq!(lab.update(&CONFIGMAPS, "n", "a", new.clone()).unwrap(), second);
    assert_eq!(lab.api.revision(), before, "a change of nothing is no change");
    new["metadata"]["uid"] = json!("other");
    assert!(lab.update(&CONFIGMAPS, "n", "a", new).unwrap_err().message.contains("UID in precondition: other, UID in object meta: "));
    assert_eq!(
        lab.update(&CONFIGMAPS, "n", "a", json!({"metadata": {"name": "b"}})).unwrap_err().message,
        "the name of the object (b) does not match the name on the URL (a)"
    );
    assert!(lab.update(&CONFIGMAPS, "n", "z", json!({})).unwrap_err().is_not_found());
}

#[test]
fn a_patch_starts_again_and_dry_run_stores_nothing() {
    let lab = Lab::new();
    lab.configmap("a");
    let patch = |options: &WriteOptions| {
        lab.api.patch(&lab.caller, &CONFIGMAPS, Subresource::Main, "n", "a", Patch::Merge(json!({"data": {"x": "y"}})), options)
    };
    let before = lab.api.revision();
    let dry = WriteOptions { dry_run: true, ..WRITE };
    assert_eq!(patch(&dry).unwrap()["data"]["x"], "y");
    assert_eq!(lab.api.revision(), before);
    assert_eq!(patch(&WRITE).unwrap()["data"], json!({"a": "b", "x": "y"}));
    let create = json!({"metadata": {"name": "b"}});
    let made = lab.api.create(&lab.caller, &CONFIGMAPS, "n", create, &dry).unwrap();
    assert!(made["metadata"]["resourceVersion"].is_null());
    assert!(lab.api.get(&CONFIGMAPS, "n", "b").is_err());
    let options = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    assert!(matches!(lab.api.delete(&lab.caller, &CONFIGMAPS, "n", "a", &options), Ok(Deleted::Gone(_))));
    assert!(lab.api.get(&CONFIGMAPS, "n", "a").is_ok());
}

#[test]
fn finalizers_keep_an_object_until_the_last_is_gone() {
    let lab = Lab::new();
    let object = json!({"metadata": {"name": "a", "finalizers": ["x/y"]}, "spec": {}});
    lab.create(&RESOURCECLAIMS, "n", object).unwrap();
    let Deleted::Marked(marked) = lab.delete(&RESOURCECLAIMS, "n", "a").unwrap() else { panic!("kept") };
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-12-01T02:00:00Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    let mut new = (*marked).clone();
    new["metadata"]["finalizers"] = json!(["x/y", "z/z"]);
    let status = lab.update(&RESOURCECLAIMS, "n", "a", new.clone()).unwrap_err();
    assert_eq!(
        status.message,
        "ResourceClaim.resource.k8s.io \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"z/z\"}"
    );
    new["metadata"]["finalizers"] = json!([]);
    lab.update(&RESOURCECLAIMS, "n", "a", new).unwrap();
    assert!(lab.api.get(&RESOURCECLAIMS, "n", "a").is_err());
}

#[test]
fn a_propagation_policy_becomes_a_finalizer() {
    let lab = Lab::new();
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        lab.configmap("a");
        let options = DeleteOptions { propagation: Some(policy.to_owned()), ..DeleteOptions::default() };
        let Deleted::Marked(object) = lab.api.delete(&lab.caller, &CONFIGMAPS, "n", "a", &options).unwrap() else { panic!("kept") };
        assert_eq!(meta::finalizers(&object), [finalizer]);
        let background = DeleteOptions { propagation: Some("Background".to_owned()), ..DeleteOptions::default() };
        assert!(matches!(lab.api.delete(&lab.caller, &CONFIGMAPS, "n", "a", &background), Ok(Deleted::Gone(_))));
    }
    let options = DeleteOptions { propagation: Some("No".to_owned()), ..DeleteOptions::default() };
    assert_eq!(lab.api.delete(&lab.caller, &CONFIGMAPS, "n", "a", &options).unwrap_err().code, 422);
}

#[test]
fn preconditions_of_a_deletion() {
    let lab = Lab::new();
    let object = lab.configmap("a");
    let options = DeleteOptions { uid: Some("x".to_owned()), ..DeleteOptions::default() };
    let status = lab.api.delete(&lab.caller, &CONFIGMAPS, "n", "a", &options).unwrap_err();
    assert!(status.is_conflict());
    assert!(status.message.starts_with("Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match"));
    let options =
        DeleteOptions { resource_version: Some("1".to_owned()), uid: Some(meta::uid(&object).to_owned()), ..DeleteOptions::default() };
    assert!(
        lab.api
            .delete(&lab.caller, &CONFIGMAPS, "n", "a", &options)
            .unwrap_err()
            .message
            .contains("the ResourceVersion in the precondition (1)")
    );
}

#[test]
fn a_pod_that_runs_gets_its_grace_and_less_may_be_asked_for() {
    let lab = Lab::new();
    lab.pod("p");
    lab.api.bind(&lab.caller, "n", "p", None, "node").unwrap();
    lab.clock.advance(Duration::from_secs(10));
    let Deleted::Marked(marked) = lab.delete(&PODS, "n", "p").unwrap() else { panic!("kept") };
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-12-01T02:00:40Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    let revision = lab.api.revision();
    assert!(matches!(lab.delete(&PODS, "n", "p"), Ok(Deleted::Marked(_))), "already being deleted");
    assert_eq!(lab.api.revision(), revision);
    let shorter = DeleteOptions { grace_period_seconds: Some(5), ..DeleteOptions::default() };
    let Deleted::Marked(marked) = lab.api.delete(&lab.caller, &PODS, "n", "p", &shorter).unwrap() else { panic!("kept") };
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-12-01T02:00:15Z");
    let none = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    let revision = lab.api.revision();
    let Deleted::Gone(gone) = lab.api.delete(&lab.caller, &PODS, "n", "p", &none).unwrap() else { panic!("gone") };
    assert_eq!(gone["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(lab.api.revision(), revision + 2, "a pod is marked before it goes, as recorded in scenario 01");
}

#[test]
fn a_pod_without_a_node_goes_at_once() {
    let lab = Lab::new();
    lab.pod("p");
    assert!(matches!(lab.delete(&PODS, "n", "p"), Ok(Deleted::Gone(_))));
    assert!(lab.api.get(&PODS, "n", "p").is_err());
}

#[test]
fn a_binding_is_made_once() {
    let lab = Lab::new();
    let pod = lab.pod("p");
    let bind = |uid: Option<&str>, node: &str| lab.api.bind(&lab.caller, "n", "p", uid, node);
    assert!(bind(Some("other"), "node").unwrap_err().is_conflict());
    assert_eq!(bind(None, "").unwrap_err().message, "target.name: Required value");
    bind(Some(meta::uid(&pod)), "node").unwrap();
    let bound = lab.api.get(&PODS, "n", "p").unwrap();
    assert_eq!(bound["spec"]["nodeName"], "node");
    assert_eq!(
        bound["status"]["conditions"],
        json!([{"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-12-01T02:00:00Z"}])
    );
    assert_eq!(
        bind(None, "other").unwrap_err().message,
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"node\""
    );
}

#[test]
fn a_namespace_terminates_and_then_goes() {
    let lab = Lab::new();
    lab.configmap("a");
    assert_eq!(
        lab.delete(&NAMESPACES, "", "default").unwrap_err().message,
        "namespaces \"default\" is forbidden: this namespace may not be deleted"
    );
    let Deleted::Marked(namespace) = lab.delete(&NAMESPACES, "", "n").unwrap() else { panic!("kept") };
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let status = lab.create(&CONFIGMAPS, "n", json!({"metadata": {"name": "b"}})).unwrap_err();
    assert_eq!(status.message, "configmaps \"b\" is forbidden: unable to create new content in namespace n because it is being terminated");
    assert_eq!(status.details["causes"][0]["reason"], "NamespaceTerminating");
    let mut emptied = (*namespace).clone();
    emptied["spec"]["finalizers"] = json!([]);
    lab.api.update(&lab.caller, &NAMESPACES, Subresource::Finalize, "", "n", emptied, &WRITE).unwrap();
    assert!(lab.api.get(&NAMESPACES, "", "n").is_err());
}

#[tokio::test]
async fn a_watch_sees_what_a_list_did_not() {
    let lab = Lab::new();
    lab.configmap("a");
    let list = lab.api.list(&CONFIGMAPS, "n").unwrap();
    assert_eq!(list.items.len(), 1);
    let mut watch = lab.api.watch(&CONFIGMAPS, "n", list.revision).unwrap();
    lab.configmap("b");
    lab.delete(&CONFIGMAPS, "n", "a").unwrap();
    let added = watch.next().await.unwrap().unwrap();
    assert_eq!((added.kind, meta::name(&added.object)), (ChangeKind::Added, "b"));
    let gone = watch.next().await.unwrap().unwrap();
    assert_eq!((gone.kind, meta::name(&gone.object), gone.revision), (ChangeKind::Deleted, "a", lab.api.revision()));
    lab.api.store().close();
    assert!(watch.next().await.is_none());
}
