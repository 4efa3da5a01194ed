//! One watch of all pods, shared by the agents of a lab: each gets the pods of its own node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::embedded::api::resource::PODS;
use crate::embedded::api::{Api, ChangeKind, Object, Status};

/// What happened to a pod that is bound to the node.
#[derive(Clone, Debug)]
pub enum PodEvent {
    /// It is there, as it now is.
    Present(Object),
    /// Its object is gone; its last state.
    Gone(Object),
}

/// The watch of pods and who listens to it.
#[derive(Clone, Debug, Default)]
pub struct PodFeed {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Bound pods by uid.
    pods: HashMap<String, Object>,
    agents: HashMap<String, UnboundedSender<PodEvent>>,
}

impl PodFeed {
    /// Starts the watch; the handle ends after `shutdown`. The pods that are there are known when this returns.
    #[must_use]
    pub fn start(api: Api, shutdown: CancellationToken) -> (PodFeed, JoinHandle<()>) {
        let feed = PodFeed::default();
        match api.list(&PODS, "") {
            Ok(list) => feed.replace(&list.items),
            Err(status) => tracing::debug!(%status, "pods not listed"),
        }
        let task = tokio::spawn(feed.clone().run(api, shutdown));
        (feed, task)
    }

    /// The pods of a node: first those that are there, then what happens to them. A second subscription for the same
    /// node replaces the first.
    #[must_use]
    pub fn subscribe(&self, node: &str) -> UnboundedReceiver<PodEvent> {
        let (sender, receiver) = unbounded_channel();
        let mut state = self.lock();
        for pod in state.pods.values().filter(|pod| node_of(pod) == Some(node)) {
            // The receiver is in this function: it cannot have gone.
            let _ = sender.send(PodEvent::Present(pod.clone()));
        }
        state.agents.insert(node.to_owned(), sender);
        receiver
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self, api: Api, shutdown: CancellationToken) {
        while !shutdown.is_cancelled() {
            match self.follow(&api, &shutdown).await {
                Ok(()) => return,
                // The history no longer reaches back: list again.
                Err(status) => tracing::debug!(%status, "pods are listed again"),
            }
        }
    }

    async fn follow(&self, api: &Api, shutdown: &CancellationToken) -> Result<(), Status> {
        let list = api.list(&PODS, "")?;
        self.replace(&list.items);
        let mut watch = api.watch(&PODS, "", list.revision)?;
        loop {
            let change = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                change = watch.next() => change,
            };
            match change {
                None => return Ok(()),
                Some(change) => {
                    let change = change?;
                    let mut state = self.lock();
                    match change.kind {
                        ChangeKind::Added | ChangeKind::Modified => state.present(change.object),
                        ChangeKind::Deleted => state.gone(change.object),
                    }
                }
            }
        }
    }

    fn replace(&self, pods: &[Object]) {
        let mut state = self.lock();
        let there: HashMap<&str, &Object> = pods.iter().filter_map(|pod| Some((uid_of(pod)?, pod))).collect();
        let gone: Vec<Object> =
            state.pods.iter().filter(|(uid, _)| !there.contains_key(uid.as_str())).map(|(_, pod)| pod.clone()).collect();
        for pod in gone {
            state.gone(pod);
        }
        for pod in pods {
            let known = uid_of(pod).and_then(|uid| state.pods.get(uid)).is_some_and(|known| known == pod);
            if !known {
                state.present(pod.clone());
            }
        }
    }
}

impl State {
    fn present(&mut self, pod: Object) {
        let (Some(node), Some(uid)) = (node_of(&pod).map(str::to_owned), uid_of(&pod).map(str::to_owned)) else { return };
        self.pods.insert(uid, pod.clone());
        self.tell(&node, PodEvent::Present(pod));
    }

    fn gone(&mut self, pod: Object) {
        let (Some(node), Some(uid)) = (node_of(&pod).map(str::to_owned), uid_of(&pod).map(str::to_owned)) else { return };
        self.pods.remove(&uid);
        self.tell(&node, PodEvent::Gone(pod));
    }

    fn tell(&mut self, node: &str, event: PodEvent) {
        if self.agents.get(node).is_some_and(|agent| agent.send(event).is_err()) {
            self.agents.remove(node);
        }
    }
}

fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())
}

fn uid_of(pod: &Value) -> Option<&str> {
    pod["metadata"]["uid"].as_str()
}
