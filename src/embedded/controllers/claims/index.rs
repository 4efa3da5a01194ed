//! Which pods use a claim or template, and which claims were generated for a pod.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::{POD_CLAIM, pods};
use crate::embedded::api::meta;

type Name = (String, String);

/// Kept up by the watches of pods and claims.
#[derive(Debug, Default)]
pub(super) struct Index {
    by_claim: HashMap<Name, BTreeSet<Name>>,
    by_template: HashMap<Name, BTreeSet<Name>>,
    /// What a pod was indexed under.
    pods: HashMap<Name, (Vec<Name>, Vec<Name>)>,
    /// Claims by the uid of the pod that owns them: entry of the pod, name of the claim.
    generated: HashMap<String, BTreeSet<(String, String)>>,
}

fn name(object: &Value) -> Name {
    (meta::namespace(object).to_owned(), meta::name(object).to_owned())
}

impl Index {
    /// Takes note of a pod as it is now.
    pub(super) fn set_pod(&mut self, pod: &Value) {
        self.forget_pod(pod);
        let (key, namespace) = (name(pod), meta::namespace(pod).to_owned());
        let claims: Vec<Name> = pods::claim_names(pod).into_iter().map(|claim| (namespace.clone(), claim)).collect();
        let templates: Vec<Name> = pods::entries(pod)
            .iter()
            .filter_map(|entry| entry["resourceClaimTemplateName"].as_str())
            .map(|template| (namespace.clone(), template.to_owned()))
            .collect();
        if claims.is_empty() && templates.is_empty() {
            return;
        }
        for claim in &claims {
            self.by_claim.entry(claim.clone()).or_default().insert(key.clone());
        }
        for template in &templates {
            self.by_template.entry(template.clone()).or_default().insert(key.clone());
        }
        self.pods.insert(key, (claims, templates));
    }

    /// Forgets a pod.
    pub(super) fn forget_pod(&mut self, pod: &Value) {
        let key = name(pod);
        let Some((claims, templates)) = self.pods.remove(&key) else { return };
        for (map, entries) in [(&mut self.by_claim, claims), (&mut self.by_template, templates)] {
            for entry in entries {
                if let Some(users) = map.get_mut(&entry) {
                    users.remove(&key);
                    if users.is_empty() {
                        map.remove(&entry);
                    }
                }
            }
        }
    }

    /// Takes note of a claim; called for watched ones and at once for those that this controller makes, so that a retry
    /// finds them.
    pub(super) fn set_claim(&mut self, claim: &Value) {
        if let (Some((_, uid)), Some(entry)) = (pods::owner(claim), claim["metadata"]["annotations"][POD_CLAIM].as_str()) {
            self.generated.entry(uid.to_owned()).or_default().insert((entry.to_owned(), meta::name(claim).to_owned()));
        }
    }

    /// Forgets a claim.
    pub(super) fn forget_claim(&mut self, claim: &Value) {
        let (Some((_, uid)), Some(entry)) = (pods::owner(claim), claim["metadata"]["annotations"][POD_CLAIM].as_str()) else {
            return;
        };
        if let Some(claims) = self.generated.get_mut(uid) {
            claims.remove(&(entry.to_owned(), meta::name(claim).to_owned()));
            if claims.is_empty() {
                self.generated.remove(uid);
            }
        }
    }

    /// Pods that use a claim.
    pub(super) fn pods_of_claim(&self, namespace: &str, claim: &str) -> Vec<Name> {
        Self::users(&self.by_claim, namespace, claim)
    }

    /// Pods that use a template.
    pub(super) fn pods_of_template(&self, namespace: &str, template: &str) -> Vec<Name> {
        Self::users(&self.by_template, namespace, template)
    }

    fn users(map: &HashMap<Name, BTreeSet<Name>>, namespace: &str, name: &str) -> Vec<Name> {
        map.get(&(namespace.to_owned(), name.to_owned())).into_iter().flatten().cloned().collect()
    }

    /// Claims that were generated for an entry of a pod.
    pub(super) fn generated(&self, pod_uid: &str, entry: &str) -> Vec<String> {
        let claims = self.generated.get(pod_uid).into_iter().flatten();
        claims.filter(|(of, _)| of == entry).map(|(_, claim)| claim.clone()).collect()
    }
}
