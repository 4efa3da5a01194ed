//! Pods on nodes that do not exist (`pkg/controller/podgc`): failed and removed once the node has been missing for 40 s.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::informer::{Event, Informer};
use super::queue::Queue;
use crate::base::clock::SharedClock;
use crate::embedded::api::resource::{NODES, PODS};
use crate::embedded::api::{Api, Caller, DeleteOptions, Patch, Status, Subresource, WriteOptions, meta};
use crate::embedded::events::seconds;

/// How long a node must be missing (podgc: `quarantineTime`).
const QUARANTINE: Duration = Duration::from_secs(40);

type Name = (String, String);

struct Orphans {
    api: Api,
    clock: SharedClock,
    caller: Caller,
    /// Pods by the node they are bound to.
    by_node: HashMap<String, BTreeSet<Name>>,
    /// Nodes that were found missing; each is looked at once its quarantine is over.
    missing: BTreeSet<String>,
    queue: Queue<String>,
}

/// Runs the controller until shutdown or until the store closes.
///
/// # Errors
/// The API cannot list or watch.
pub(super) async fn run(api: Api, clock: SharedClock, shutdown: CancellationToken) -> Result<(), Status> {
    let mut nodes = Informer::new(api.clone(), &NODES)?;
    let mut pods = Informer::new(api.clone(), &PODS)?;
    let mut controller = Orphans {
        api,
        clock: clock.clone(),
        caller: super::caller(),
        by_node: HashMap::new(),
        missing: BTreeSet::new(),
        queue: Queue::new(clock),
    };
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            event = nodes.next() => match event {
                Some(Event::Gone(node)) => controller.suspect(meta::name(&node)),
                Some(Event::Changed(..)) => {}
                None => return Ok(()),
            },
            event = pods.next() => match event {
                Some(event) => controller.pod_event(&event),
                None => return Ok(()),
            },
            node = controller.queue.next() => {
                let result = controller.sync(&node);
                controller.queue.done(node, result);
            }
        }
    }
}

fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())
}

impl Orphans {
    fn pod_event(&mut self, event: &Event) {
        let (Event::Changed(pod, _) | Event::Gone(pod)) = event;
        let Some(node) = node_of(pod) else { return };
        let name = (meta::namespace(pod).to_owned(), meta::name(pod).to_owned());
        if matches!(event, Event::Gone(_)) {
            if let Some(pods) = self.by_node.get_mut(node) {
                pods.remove(&name);
                if pods.is_empty() {
                    self.by_node.remove(node);
                }
            }
        } else {
            self.by_node.entry(node.to_owned()).or_default().insert(name);
            self.suspect(node);
        }
    }

    /// Puts a node that has pods but does not exist into quarantine.
    fn suspect(&mut self, node: &str) {
        if self.by_node.contains_key(node) && !self.exists(node) && self.missing.insert(node.to_owned()) {
            self.queue.add_after(node.to_owned(), QUARANTINE);
        }
    }

    fn exists(&self, node: &str) -> bool {
        !self.api.get(&NODES, "", node).is_err_and(|status| status.is_not_found())
    }

    fn sync(&mut self, node: &str) -> Result<(), Status> {
        if !self.exists(node) {
            for (namespace, name) in self.by_node.get(node).cloned().unwrap_or_default() {
                self.remove(&namespace, &name)?;
            }
        }
        self.missing.remove(node);
        Ok(())
    }

    fn remove(&self, namespace: &str, name: &str) -> Result<(), Status> {
        let Ok(pod) = self.api.get(&PODS, namespace, name) else { return Ok(()) };
        if !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
                "lastProbeTime": null, "lastTransitionTime": seconds(self.clock.now()),
            });
            let status = json!({"phase": "Failed", "conditions": [condition]});
            let patch = Patch::Strategic(json!({"metadata": {"uid": meta::uid(&pod)}, "status": status}));
            self.api.patch(&self.caller, &PODS, Subresource::Status, namespace, name, patch, &WriteOptions::default())?;
        }
        let options = DeleteOptions { grace_period_seconds: Some(0), uid: Some(meta::uid(&pod).to_owned()), ..DeleteOptions::default() };
        match self.api.delete(&self.caller, &PODS, namespace, name, &options) {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::super::testing::Lab;
    use crate::embedded::api::DeleteOptions;
    use crate::embedded::api::resource::{NODES, PODS};

    #[tokio::test]
    async fn pods_of_a_missing_node_go_after_its_quarantine_and_others_stay() {
        let lab = Lab::start().await;
        let pod = |name: &str, node: &str| {
            let spec = json!({"nodeName": node, "containers": [{"name": "ctr0", "image": "x:1"}]});
            lab.create(&PODS, json!({"metadata": {"name": name}, "spec": spec}));
        };
        pod("lost", "nosuch");
        pod("here", "n");
        lab.settle().await;
        lab.advance(Duration::from_secs(39)).await;
        assert!(lab.get(&PODS, "lost").is_some());
        let mut watch = lab.api.watch(&PODS, "", lab.api.revision()).expect("a watch");
        lab.advance(Duration::from_secs(1)).await;
        assert!(lab.get(&PODS, "lost").is_none() && lab.get(&PODS, "here").is_some());
        let failed = watch.try_next().expect("a change").object;
        assert_eq!(failed["status"]["phase"], "Failed");
        assert_eq!(failed["status"]["conditions"][0]["reason"], "DeletionByPodGC");
        lab.delete(&NODES, "n", &DeleteOptions::default());
        lab.settle().await;
        lab.advance(Duration::from_secs(40)).await;
        assert!(lab.get(&PODS, "here").is_none());
        lab.end().await;
    }
}
