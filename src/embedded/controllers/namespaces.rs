//! Deletion of namespaces (`pkg/controller/namespace/deletion`): first the pods, then everything else, then the finalizer.

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::informer::{Event, Informer};
use crate::base::clock::SharedClock;
use crate::embedded::api::resource::{NAMESPACES, PODS, RESOURCES};
use crate::embedded::api::{Api, Caller, ChangeKind, DeleteOptions, Object, Resource, Status, Subresource, Watch, WriteOptions, meta};
use crate::embedded::events::seconds;

/// Namespaces that every cluster has (`pkg/controlplane/controller/systemnamespaces`).
const SYSTEM: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// The finalizer of namespaces that this controller takes away.
const KUBERNETES: &str = "kubernetes";
/// How long an emptying that failed waits before it is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Conditions of a terminating namespace: type, and reason and message when all is well.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    ("NamespaceDeletionContentFailure", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    (REMAINING, "ContentRemoved", "All content successfully removed"),
    (FINALIZERS, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];
const REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";

type Emptying = Pin<Box<dyn Future<Output = String> + Send>>;

/// Runs the controller until shutdown or until the store closes.
///
/// # Errors
/// The API cannot list or watch.
pub(super) async fn run(api: Api, clock: SharedClock, shutdown: CancellationToken) -> Result<(), Status> {
    make_system_namespaces(&api)?;
    let mut namespaces = Informer::new(api.clone(), &NAMESPACES)?;
    let mut active: HashSet<String> = HashSet::new();
    let mut emptying: FuturesUnordered<Emptying> = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            event = namespaces.next() => match event {
                None => return Ok(()),
                Some(Event::Gone(_)) => {}
                Some(Event::Changed(namespace, _)) => {
                    let name = meta::name(&namespace).to_owned();
                    if meta::is_deleting(&namespace) && !is_finalized(&namespace) && active.insert(name.clone()) {
                        let emptier = Emptier { api: api.clone(), clock: clock.clone(), caller: super::caller(), name: name.clone() };
                        emptying.push(Box::pin(async move {
                            emptier.run().await;
                            name
                        }));
                    }
                }
            },
            Some(name) = emptying.next(), if !emptying.is_empty() => {
                active.remove(&name);
            }
        }
    }
}

/// The API server's own part: it runs here so that a fresh store has them before anything else comes.
fn make_system_namespaces(api: &Api) -> Result<(), Status> {
    for name in SYSTEM {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match api.create(&Caller::component("kube-apiserver"), &NAMESPACES, "", object, &WriteOptions::default()) {
            Err(status) if !status.already_exists() => return Err(status),
            _ => {}
        }
    }
    Ok(())
}

fn is_finalized(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}

/// Empties one namespace.
struct Emptier {
    api: Api,
    clock: SharedClock,
    caller: Caller,
    name: String,
}

/// What is left in a namespace.
#[derive(Default)]
struct Left {
    objects: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Emptier {
    async fn run(&self) {
        loop {
            // The watches begin before the look, so that no deletion is missed.
            let revision = self.api.revision();
            match self.pass() {
                Ok(true) => return,
                Ok(false) => self.wait_for_deletion(revision).await,
                Err(status) => {
                    tracing::debug!(%status, namespace = self.name, "namespace not emptied");
                    self.clock.sleep(RETRY).await;
                }
            }
        }
    }

    /// Deletes what is there; true when the namespace is done.
    fn pass(&self) -> Result<bool, Status> {
        let namespace = match self.api.get(&NAMESPACES, "", &self.name) {
            Err(status) if status.is_not_found() => return Ok(true),
            other => other?,
        };
        if !meta::is_deleting(&namespace) || is_finalized(&namespace) {
            return Ok(true);
        }
        let mut left = Left::default();
        self.delete_all(&PODS, &mut left);
        let pods_left = !left.objects.is_empty();
        if pods_left {
            // Nothing else goes before the pods, and they are not told of in the conditions.
            left.objects.clear();
            left.finalizers.clear();
        } else {
            for resource in RESOURCES.iter().filter(|resource| resource.namespaced && **resource != &PODS) {
                self.delete_all(resource, &mut left);
            }
        }
        let namespace = self.write_conditions(&namespace, &left)?;
        if pods_left || !left.objects.is_empty() {
            return Ok(false);
        }
        if let Some(failure) = left.failures.first() {
            return Err(Status::new(500, "InternalError", failure.clone()));
        }
        let mut finalized = (*namespace).clone();
        if let Some(finalizers) = finalized["spec"]["finalizers"].as_array_mut() {
            finalizers.retain(|finalizer| finalizer != KUBERNETES);
        }
        let options = WriteOptions::default();
        match self.api.update(&self.caller, &NAMESPACES, Subresource::Finalize, "", &self.name, finalized, &options) {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(true),
        }
    }

    fn delete_all(&self, resource: &'static Resource, left: &mut Left) {
        let options = DeleteOptions { propagation: Some("Background".to_owned()), ..DeleteOptions::default() };
        let list = |left: &mut Left| match self.api.list(resource, &self.name) {
            Ok(list) => list.items,
            Err(status) => {
                left.failures.push(status.to_string());
                Vec::new()
            }
        };
        for object in list(left) {
            if let Err(status) = self.api.delete(&self.caller, resource, &self.name, meta::name(&object), &options)
                && !status.is_not_found()
            {
                left.failures.push(status.to_string());
            }
        }
        let remaining = list(left);
        if !remaining.is_empty() {
            left.objects.insert(format!("{}.{}", resource.plural, resource.group), remaining.len());
        }
        for object in &remaining {
            for finalizer in meta::finalizers(object) {
                *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }

    fn write_conditions(&self, namespace: &Object, left: &Left) -> Result<Object, Status> {
        let now = seconds(self.clock.now());
        let mut changed = (**namespace).clone();
        let before = changed["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let conditions: Vec<Value> = CONDITIONS
            .iter()
            .map(|(kind, reason, message)| {
                let (status, reason, message) =
                    left.problem(kind).map_or(("False", *reason, (*message).to_owned()), |(reason, message)| ("True", reason, message));
                let since = before
                    .iter()
                    .find(|old| old["type"] == *kind && old["status"] == status)
                    .map_or_else(|| json!(now), |old| old["lastTransitionTime"].clone());
                json!({"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message})
            })
            .collect();
        if conditions == before {
            return Ok(namespace.clone());
        }
        changed["status"]["phase"] = json!("Terminating");
        changed["status"]["conditions"] = Value::Array(conditions);
        self.api.update(&self.caller, &NAMESPACES, Subresource::Status, "", &self.name, changed, &WriteOptions::default())
    }

    /// Waits until something in the namespace is gone or has lost its finalizers.
    async fn wait_for_deletion(&self, from: u64) {
        let watches: Result<Vec<Watch>, Status> =
            RESOURCES.iter().filter(|resource| resource.namespaced).map(|resource| self.api.watch(resource, &self.name, from)).collect();
        match watches {
            Ok(watches) => {
                let mut waits: FuturesUnordered<_> = watches.into_iter().map(deletion).collect();
                waits.next().await;
            }
            Err(status) => {
                tracing::debug!(%status, namespace = self.name, "cannot watch, trying later");
                self.clock.sleep(RETRY).await;
            }
        }
    }
}

/// Ends with the next deletion that a watch shows, or with the watch.
async fn deletion(mut watch: Watch) {
    while let Some(Ok(change)) = watch.next().await {
        if change.kind == ChangeKind::Deleted {
            return;
        }
    }
}

impl Left {
    fn problem(&self, condition: &str) -> Option<(&'static str, String)> {
        let listed = |counts: &BTreeMap<String, usize>, words: &str| {
            counts.iter().map(|(what, count)| format!("{what} {words} {count} resource instances")).collect::<Vec<_>>().join(", ")
        };
        match condition {
            REMAINING if !self.objects.is_empty() => {
                Some(("SomeResourcesRemain", format!("Some resources are remaining: {}", listed(&self.objects, "has"))))
            }
            FINALIZERS if !self.finalizers.is_empty() => Some((
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {}", listed(&self.finalizers, "in")),
            )),
            "NamespaceDeletionContentFailure" if !self.failures.is_empty() => Some((
                "ContentDeletionFailed",
                format!("Failed to delete all resource types, {} remaining: {}", self.failures.len(), self.failures.join(", ")),
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::Lab;
    use crate::embedded::api::resource::{CONFIGMAPS, NAMESPACES, PODS, RESOURCECLAIMS, SERVICEACCOUNTS};
    use crate::embedded::api::{DeleteOptions, Subresource};

    #[tokio::test]
    async fn a_deleted_namespace_takes_its_content_with_it() {
        let lab = Lab::start().await;
        lab.claim("c");
        lab.pod("p", ("resourceClaimName", "c"));
        lab.create(&CONFIGMAPS, json!({"metadata": {"name": "m"}, "data": {"a": "b"}}));
        lab.delete(&NAMESPACES, "s", &DeleteOptions::default());
        lab.settle().await;
        assert!(lab.get(&NAMESPACES, "s").is_none());
        for resource in [&PODS, &RESOURCECLAIMS, &CONFIGMAPS, &SERVICEACCOUNTS] {
            assert!(lab.api.list(resource, "s").expect("a list").items.is_empty(), "{}", resource.plural);
        }
        lab.end().await;
    }

    #[tokio::test]
    async fn a_fresh_cluster_has_its_own_namespaces() {
        let lab = Lab::start().await;
        let mut names: Vec<String> = lab.list(&NAMESPACES).iter().map(|n| n["metadata"]["name"].to_string()).collect();
        names.sort();
        assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system", "s"].map(|name| format!("\"{name}\"")));
        lab.end().await;
    }

    #[tokio::test]
    async fn a_namespace_waits_for_pods_and_then_for_finalizers_and_says_so() {
        let lab = Lab::start().await;
        lab.create(&CONFIGMAPS, json!({"metadata": {"name": "m", "finalizers": ["example.com/wait"]}}));
        let spec = json!({"nodeName": "n", "containers": [{"name": "ctr0", "image": "x:1"}]});
        lab.create(&PODS, json!({"metadata": {"name": "p"}, "spec": spec}));
        lab.delete(&NAMESPACES, "s", &DeleteOptions::default());
        lab.settle().await;
        assert!(lab.get(&PODS, "p").expect("the pod")["metadata"]["deletionTimestamp"].is_string());
        let map = lab.get(&CONFIGMAPS, "m").expect("the map");
        assert!(map["metadata"].get("deletionTimestamp").is_none(), "pods go first");
        // The node agent confirms the pod's end.
        lab.delete(&PODS, "p", &DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() });
        lab.settle().await;
        let namespace = lab.get(&NAMESPACES, "s").expect("still there");
        let conditions = namespace["status"]["conditions"].as_array().expect("conditions");
        assert_eq!(conditions.len(), 5);
        assert_eq!(conditions[3]["message"], "Some resources are remaining: configmaps. has 1 resource instances");
        assert_eq!(
            conditions[4]["message"],
            "Some content in the namespace has finalizers remaining: example.com/wait in 1 resource instances"
        );
        lab.patch(&CONFIGMAPS, Subresource::Main, "m", json!({"metadata": {"finalizers": null}}));
        lab.settle().await;
        assert!(lab.get(&NAMESPACES, "s").is_none());
        lab.end().await;
    }
}
