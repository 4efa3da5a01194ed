//! What a kind's empty object looks like, and which of its fields have no owner.

use serde_json::{Value, json};

use super::super::{Resource, Subresource};
use super::set::{FieldSet, Step, fields};

/// The object that a creation is compared with: Go's zero value of the kind, as it is written. A struct that is not a
/// pointer is there though nothing is in it, so its parts get an owner but not itself.
pub(super) fn blank(resource: &Resource) -> Value {
    match resource.kind {
        "Pod" => json!({"metadata": {}, "spec": {"containers": null}, "status": {}}),
        "Namespace" => json!({"metadata": {}, "spec": {}, "status": {}}),
        "DeviceClass" => json!({"metadata": {}, "spec": {}}),
        "Node" => json!({"metadata": {}, "spec": {}, "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {"architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
                "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""}}}),
        "Event" => json!({"metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": null, "reportingComponent": "", "reportingInstance": ""}),
        "ResourceClaim" => json!({"metadata": {}, "spec": {"devices": {"requests": null}}, "status": {}}),
        "ResourceClaimTemplate" => json!({"metadata": {}, "spec": {"metadata": {}, "spec": {"devices": {"requests": null}}}}),
        "ResourceSlice" => {
            json!({"metadata": {}, "spec": {"driver": "", "pool": {"generation": 0, "name": "", "resourceSliceCount": 0}}})
        }
        _ => json!({"metadata": {}}),
    }
}

/// Fields that never have an owner.
pub(super) fn unowned() -> FieldSet {
    let mut set = FieldSet::default();
    for path in [&["apiVersion"][..], &["kind"], &["metadata"]] {
        set.insert(&fields(path));
    }
    for name in
        ["clusterName", "creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion", "selfLink", "uid"]
    {
        set.insert(&fields(&["metadata", name]));
    }
    set
}

/// Fields that an endpoint does not change, so that nobody gets to own them through it.
pub(super) fn ignored(resource: &Resource, subresource: Subresource) -> FieldSet {
    let mut set = FieldSet::default();
    match subresource {
        Subresource::Main | Subresource::Finalize if resource.has_status => set.insert(&fields(&["status"])),
        Subresource::Main | Subresource::Finalize => {}
        Subresource::Status => {
            set.insert(&fields(&["spec"]));
            if resource.kind == "Pod" {
                set.insert(&fields(&["metadata", "deletionTimestamp"]));
                set.insert(&fields(&["metadata", "ownerReferences"]));
            }
        }
    }
    set
}

/// What admission adds to a new pod when the caller left it out; upstream does so after managedFields are made.
const ADMITTED: &[&str] = &["preemptionPolicy", "priority", "serviceAccount", "serviceAccountName", "tolerations"];

/// The parts of a new object that are not in `sent`, the object as its creator sent it, and that admission may add.
pub(super) fn admitted(resource: &Resource, sent: &Value, new: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match resource.kind {
        "Namespace" if sent["spec"]["finalizers"].is_null() => set.insert(&fields(&["spec", "finalizers"])),
        "Pod" => {
            let (sent, new) = (&sent["spec"], &new["spec"]);
            for name in ADMITTED.iter().filter(|name| sent[**name].is_null()) {
                set.insert(&fields(&["spec", name]));
            }
            added_items(&sent["volumes"], &new["volumes"], "name", &fields(&["spec", "volumes"]), &mut set);
            for list in ["containers", "initContainers"] {
                for container in new[list].as_array().into_iter().flatten() {
                    let name = &container["name"];
                    let before = sent[list].as_array().into_iter().flatten().find(|other| other["name"] == *name);
                    let mounts = before.map_or(&Value::Null, |container| &container["volumeMounts"]);
                    let mut path = fields(&["spec", list]);
                    path.push(Step::Key(json!({"name": name}).to_string()));
                    path.extend(fields(&["volumeMounts"]));
                    added_items(mounts, &container["volumeMounts"], "mountPath", &path, &mut set);
                }
            }
        }
        _ => {}
    }
    set
}

/// The items of a list that were not sent: the volume of the service account's token and its mounts.
fn added_items(sent: &Value, new: &Value, key: &str, path: &[Step], set: &mut FieldSet) {
    let sent = sent.as_array().map_or(&[][..], Vec::as_slice);
    if sent.is_empty() {
        return set.insert(path);
    }
    for item in new.as_array().into_iter().flatten() {
        if !sent.iter().any(|other| other[key] == item[key]) {
            let step = Step::Key(json!({key: item[key]}).to_string());
            set.insert(&[path, &[step]].concat());
        }
    }
}
