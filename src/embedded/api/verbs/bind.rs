//! The pod binding (`pkg/registry/core/pod/storage`, BindingREST).

use serde_json::{Value, json};

use super::super::{Api, Caller, Resource, Status, meta, resource};
use super::{ROUNDS, storage_failure};
use crate::embedded::store::{Expect, StoreError};

/// Messages of a refused binding name the subresource.
static PODS_BINDING: Resource = Resource {
    group: "",
    version: "v1",
    plural: "pods/binding",
    singular: "binding",
    kind: "Binding",
    namespaced: true,
    short_names: &[],
    categories: &[],
    has_status: false,
    collection: "/pods",
};

impl Api {
    pub(crate) fn bind_pod(&self, _caller: &Caller, namespace: &str, pod: &str, uid: Option<&str>, node: &str) -> Result<(), Status> {
        if node.is_empty() {
            return Err(Status::new(500, "", "target.name: Required value"));
        }
        for _ in 0..ROUNDS {
            let current = self.entry(&resource::PODS, namespace, pod)?;
            let old = &*current.object;
            if let Some(uid) = uid.filter(|uid| *uid != meta::uid(old)) {
                let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", meta::uid(old));
                return Err(Status::conflict(&resource::PODS, pod, why));
            }
            let refused = |why: String| Err(Status::conflict(&PODS_BINDING, pod, why));
            if meta::is_deleting(old) {
                return refused(format!("pod {pod} is being deleted, cannot be assigned to a host"));
            }
            if let Some(node) = old["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
                return refused(format!("pod {pod} is already assigned to node \"{node}\""));
            }
            if old["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
                return refused(format!("pod {pod} has non-empty .spec.schedulingGates"));
            }
            let mut new = old.clone();
            new["spec"]["nodeName"] = json!(node);
            self.set_scheduled(&mut new);
            match self.store().put(resource::PODS.collection, &resource::PODS.key(namespace, pod), Expect::Revision(current.revision), new)
            {
                Ok(_) => return Ok(()),
                Err(StoreError::Expectation { .. }) => {}
                Err(error) => return Err(storage_failure(&error)),
            }
        }
        Err(Status::modified(&resource::PODS, pod))
    }

    /// Condition PodScheduled=True; the nomination is over.
    fn set_scheduled(&self, pod: &mut Value) {
        if pod["status"].is_null() {
            pod["status"] = json!({});
        }
        if let Some(status) = pod["status"].as_object_mut() {
            status.remove("nominatedNodeName");
            let now = meta::seconds(self.now());
            let conditions = status.entry("conditions").or_insert_with(|| json!([]));
            if let Some(conditions) = conditions.as_array_mut() {
                let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
                match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
                    Some(condition) if condition["status"] == "True" => {}
                    Some(condition) => *condition = scheduled,
                    None => conditions.push(scheduled),
                }
            }
        }
    }
}
