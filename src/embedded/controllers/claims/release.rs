//! Claims that lost consumers: reservations go, then the allocation, then the finalizer, then a generated claim itself.

use serde_json::{Value, json};

use super::{Claims, FINALIZER, pods};
use crate::embedded::api::resource::{PODS, RESOURCECLAIMS};
use crate::embedded::api::{DeleteOptions, Object, Status, Subresource, meta};

impl Claims {
    /// Releases a claim from pods that will not run any more.
    pub(super) fn sync_claim(&mut self, namespace: &str, name: &str) -> Result<(), String> {
        let claim = match self.api.get(&RESOURCECLAIMS, namespace, name) {
            Ok(claim) => claim,
            Err(_) => return Ok(()),
        };
        let consumers = claim["status"]["reservedFor"].as_array().map(Vec::as_slice).unwrap_or_default();
        let remaining: Vec<Value> = consumers.iter().filter(|consumer| self.keeps(namespace, consumer)).cloned().collect();
        if remaining.len() < consumers.len() {
            self.remove_consumers(&claim, &remaining).map_err(|status| status.to_string())?;
        } else if remaining.is_empty() && meta::is_deleting(&claim) && is_protected(&claim) {
            let claim = if claim["status"]["allocation"].is_object() { self.deallocate(&claim, &[]) } else { Ok(claim.clone()) };
            claim.and_then(|claim| self.unprotect(&claim)).map_err(|status| status.to_string())?;
        }
        if remaining.is_empty() { self.delete_unused(namespace, name) } else { Ok(()) }
    }

    /// False for a pod that is gone, was replaced, or has ended. Consumers of other kinds are not ours to judge.
    fn keeps(&self, namespace: &str, consumer: &Value) -> bool {
        let is_pod = consumer["apiGroup"].as_str().unwrap_or_default().is_empty() && consumer["resource"] == "pods";
        if !is_pod {
            return true;
        }
        match self.api.get(&PODS, namespace, consumer["name"].as_str().unwrap_or_default()) {
            Ok(pod) => consumer["uid"].as_str() == Some(meta::uid(&pod)) && !pods::is_done(&pod),
            Err(status) => !status.is_not_found(),
        }
    }

    fn remove_consumers(&self, claim: &Object, remaining: &[Value]) -> Result<(), Status> {
        // The allocation goes with its last consumer, and only then: one that was never reserved stays.
        let claim = if remaining.is_empty() && is_protected(claim) {
            self.deallocate(claim, remaining)?
        } else {
            let mut changed = (**claim).clone();
            set_consumers(&mut changed, remaining);
            self.update_status(changed)?
        };
        if claim["status"]["allocation"].is_null() && is_protected(&claim) { self.unprotect(&claim).map(|_| ()) } else { Ok(()) }
    }

    fn deallocate(&self, claim: &Object, remaining: &[Value]) -> Result<Object, Status> {
        let mut changed = (**claim).clone();
        set_consumers(&mut changed, remaining);
        if let Some(status) = changed["status"].as_object_mut() {
            status.remove("allocation");
        }
        self.update_status(changed)
    }

    fn unprotect(&self, claim: &Object) -> Result<Object, Status> {
        let mut changed = (**claim).clone();
        if let Some(finalizers) = changed["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
            if finalizers.is_empty()
                && let Some(metadata) = changed["metadata"].as_object_mut()
            {
                metadata.remove("finalizers");
            }
        }
        self.write(changed, Subresource::Main)
    }

    /// Deletes a generated claim whose pod is done or was replaced. A pod that is gone is the garbage collector's case.
    fn delete_unused(&self, namespace: &str, name: &str) -> Result<(), String> {
        let Ok(claim) = self.api.get(&RESOURCECLAIMS, namespace, name) else { return Ok(()) };
        let Some((pod_name, uid)) = pods::owner(&claim) else { return Ok(()) };
        let Ok(pod) = self.api.get(&PODS, namespace, pod_name) else { return Ok(()) };
        if meta::is_deleting(&claim) || (meta::uid(&pod) == uid && !pods::is_done(&pod)) {
            return Ok(());
        }
        let options = DeleteOptions { uid: Some(meta::uid(&claim).to_owned()), ..DeleteOptions::default() };
        match self.api.delete(&self.caller, &RESOURCECLAIMS, namespace, name, &options) {
            Err(status) if !status.is_not_found() => Err(format!("delete unused generated claim {namespace}/{name}: {status}")),
            _ => Ok(()),
        }
    }
}

fn is_protected(claim: &Value) -> bool {
    meta::finalizers(claim).contains(&FINALIZER)
}

fn set_consumers(claim: &mut Value, consumers: &[Value]) {
    if let Some(status) = claim["status"].as_object_mut() {
        if consumers.is_empty() {
            status.remove("reservedFor");
        } else {
            status.insert("reservedFor".to_owned(), json!(consumers));
        }
    }
}
