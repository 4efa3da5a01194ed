//! Claims that a pod lacks: created from templates, written into its status, and reserved where no scheduler does it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::pods::{self, Named};
use super::{Claims, POD_CLAIM};
use crate::embedded::api::resource::{PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES};
use crate::embedded::api::{Object, Patch, Status, Subresource, WriteOptions, meta};
use crate::embedded::events::EventType;

/// The longest base of a generated name: 63 characters less a hyphen and five random ones.
const BASE: usize = 57;

impl Claims {
    /// True when a pod needs a claim made or reserved.
    pub(super) fn needs_work(&self, pod: &Value) -> bool {
        // Upstream makes claims also for pods that have ended, only to delete them again.
        if meta::is_deleting(pod) || pods::is_done(pod) {
            return false;
        }
        let namespace = meta::namespace(pod);
        for entry in pods::entries(pod) {
            let (name, generated) = match pods::claim_of(pod, entry) {
                Named::NotCreated | Named::Unknown => return true,
                Named::NotNeeded => continue,
                Named::Claim(name, generated) => (name, generated),
            };
            match self.api.get(&RESOURCECLAIMS, namespace, name) {
                Err(_) if generated => return true,
                Err(_) => {}
                Ok(claim) => {
                    let foreign = generated && !is_for(&claim, pod);
                    if !foreign && pods::is_placed(pod) && must_reserve(&claim, pod) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Makes the claims that a pod lacks; reserves them for it if it was placed without the scheduler.
    pub(super) fn sync_pod(&mut self, namespace: &str, name: &str) -> Result<(), String> {
        let Ok(pod) = self.api.get(&PODS, namespace, name) else { return Ok(()) };
        if meta::is_deleting(&pod) || pods::is_done(&pod) {
            return Ok(());
        }
        let mut made = BTreeMap::new();
        for entry in pods::entries(&pod) {
            let entry_name = entry["name"].as_str().unwrap_or_default();
            match self.ensure_claim(&pod, entry) {
                Ok(Some(claim)) => {
                    made.insert(entry_name.to_owned(), claim);
                }
                Ok(None) => {}
                Err(why) => {
                    let message = format!("PodResourceClaim {entry_name}: {why}");
                    self.recorder.event(&pod, EventType::Warning, "FailedResourceClaimCreation", &message);
                    return Err(format!("pod {namespace}/{name}, {message}"));
                }
            }
        }
        if !made.is_empty() {
            self.write_statuses(&pod, made)?;
        }
        if pods::is_placed(&pod) { self.reserve(&pod) } else { Ok(()) }
    }

    /// The name of a claim that was made or found for an entry whose claim the pod's status does not name.
    fn ensure_claim(&mut self, pod: &Object, entry: &Value) -> Result<Option<String>, String> {
        let namespace = meta::namespace(pod);
        match pods::claim_of(pod, entry) {
            Named::NotNeeded => return Ok(None),
            Named::Unknown => return Err("checking for claim before creating it: unsupported API".to_owned()),
            Named::NotCreated => {}
            Named::Claim(_, false) => return Ok(None),
            Named::Claim(name, true) => {
                if self.api.get(&RESOURCECLAIMS, namespace, name).is_ok_and(|claim| is_for(&claim, pod)) {
                    return Ok(None);
                }
            }
        }
        let entry_name = entry["name"].as_str().unwrap_or_default();
        for claim in self.index.generated(meta::uid(pod), entry_name) {
            if self.api.get(&RESOURCECLAIMS, namespace, &claim).is_ok() {
                return Ok(Some(claim));
            }
        }
        let template = entry["resourceClaimTemplateName"].as_str().unwrap_or_default();
        let claim = self.create(pod, entry_name, template)?;
        self.index.set_claim(&claim);
        Ok(Some(meta::name(&claim).to_owned()))
    }

    fn create(&self, pod: &Object, entry: &str, template_name: &str) -> Result<Object, String> {
        let namespace = meta::namespace(pod);
        let template = self.api.get(&RESOURCECLAIMTEMPLATES, namespace, template_name).map_err(|_| {
            format!("resource claim template \"{template_name}\": resourceclaimtemplate.resource.k8s.io \"{template_name}\" not found")
        })?;
        let inner = &template["spec"]["metadata"];
        let mut annotations = inner.get("annotations").filter(|map| map.is_object()).cloned().unwrap_or_else(|| json!({}));
        annotations[POD_CLAIM] = json!(entry);
        let mut metadata = json!({
            "generateName": generate_name(meta::name(pod), entry),
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": meta::name(pod), "uid": meta::uid(pod), "controller": true,
            }],
            "annotations": annotations,
        });
        if let Some(labels) = inner.get("labels") {
            metadata["labels"] = labels.clone();
        }
        let claim = json!({
            "apiVersion": RESOURCECLAIMS.api_version(), "kind": RESOURCECLAIMS.kind,
            "metadata": metadata, "spec": template["spec"]["spec"],
        });
        let created = self.api.create(&self.caller, &RESOURCECLAIMS, namespace, claim, &WriteOptions::default());
        created.map_err(|status| format!("create ResourceClaim : {status}"))
    }

    /// Applies the names of generated claims to the pod's status.
    fn write_statuses(&self, pod: &Object, made: BTreeMap<String, String>) -> Result<(), String> {
        let mut statuses: BTreeMap<String, String> = BTreeMap::new();
        for status in pod["status"]["resourceClaimStatuses"].as_array().into_iter().flatten() {
            if let (Some(name), Some(claim)) = (status["name"].as_str(), status["resourceClaimName"].as_str()) {
                statuses.insert(name.to_owned(), claim.to_owned());
            }
        }
        statuses.extend(made);
        let statuses: Vec<Value> = statuses.into_iter().map(|(name, claim)| json!({"name": name, "resourceClaimName": claim})).collect();
        let (namespace, name) = (meta::namespace(pod), meta::name(pod));
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
            "status": {"resourceClaimStatuses": statuses},
        });
        let patch = Patch::Apply { object, force: true };
        self.api
            .patch(&self.statuses, &PODS, Subresource::Status, namespace, name, patch, &WriteOptions::default())
            .map(|_| ())
            .map_err(|status| format!("update pod {namespace}/{name} ResourceClaimStatuses: {status}"))
    }

    /// Reserves allocated claims for a pod that has a node but was not placed by the scheduler.
    fn reserve(&self, pod: &Object) -> Result<(), String> {
        let namespace = meta::namespace(pod);
        let pod = self.api.get(&PODS, namespace, meta::name(pod)).map_err(|status| status.to_string())?;
        for entry in pods::entries(&pod) {
            let Named::Claim(name, generated) = pods::claim_of(&pod, entry) else { continue };
            let Ok(claim) = self.api.get(&RESOURCECLAIMS, namespace, name) else { return Ok(()) };
            if generated && !is_for(&claim, &pod) {
                return Err(format!("ResourceClaim {namespace}/{name} was not created for Pod {namespace}/{}", meta::name(&pod)));
            }
            if must_reserve(&claim, &pod) {
                let mut changed = (*claim).clone();
                let consumer = json!({"resource": "pods", "name": meta::name(&pod), "uid": meta::uid(&pod)});
                match changed["status"]["reservedFor"].as_array_mut() {
                    Some(consumers) => consumers.push(consumer),
                    None => changed["status"]["reservedFor"] = json!([consumer]),
                }
                self.update_status(changed).map_err(|status| format!("reserve claim {namespace}/{name}: {status}"))?;
            }
        }
        Ok(())
    }

    /// Writes a claim's status; fails if the claim has changed since it was read.
    pub(super) fn update_status(&self, claim: Value) -> Result<Object, Status> {
        self.write(claim, Subresource::Status)
    }

    /// Writes a claim or its status.
    pub(super) fn write(&self, claim: Value, subresource: Subresource) -> Result<Object, Status> {
        let (namespace, name) = (meta::namespace(&claim).to_owned(), meta::name(&claim).to_owned());
        self.api.update(&self.caller, &RESOURCECLAIMS, subresource, &namespace, &name, claim, &WriteOptions::default())
    }
}

/// True when a generated claim was made for this very pod.
fn is_for(claim: &Value, pod: &Value) -> bool {
    pods::owner(claim).is_some_and(|(_, uid)| uid == meta::uid(pod))
}

fn must_reserve(claim: &Value, pod: &Value) -> bool {
    claim["status"]["allocation"].is_object() && !pods::is_reserved(claim, pod) && pods::has_room(claim)
}

/// `POD-ENTRY-`, with both parts cut in proportion where it is too long.
fn generate_name(pod: &str, entry: &str) -> String {
    let name = format!("{pod}-{entry}-");
    if name.len() <= BASE {
        return name;
    }
    let cut = |part: &str| part.chars().take(part.len() * BASE / name.len()).collect::<String>();
    format!("{}-{}", cut(pod), cut(entry))
}

#[cfg(test)]
mod name_tests {
    use super::generate_name;

    #[test]
    fn long_names_keep_something_of_both_parts() {
        assert_eq!(generate_name("pod0", "gpu"), "pod0-gpu-");
        let long = generate_name(&"p".repeat(100), &"e".repeat(50));
        assert!(long.len() <= 58, "{long}");
        assert!(long.starts_with("ppp") && long.ends_with("eee"), "{long}");
    }
}
