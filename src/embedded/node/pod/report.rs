//! What a pod's worker writes to the API: statuses, the last deletion, events.

use std::sync::Arc;

use serde_json::Value;

use super::runtime::{Runtime, Which};
use super::status::{self, Stage, Surroundings};
use super::worker::Worker;
use crate::embedded::api::resource::PODS;
use crate::embedded::api::{DeleteOptions, Deleted, Subresource, WriteOptions};
use crate::embedded::events::EventType;

impl Worker {
    /// Writes the status if it is another one than the API has.
    pub(super) fn write(&mut self, stage: Stage) {
        let node = Arc::clone(&self.node);
        let now = node.clock.now();
        let generation = self.pod["metadata"]["generation"].as_i64();
        self.write_with(|pod, runtime| {
            let surroundings = Surroundings { host: &node.address, generation, now };
            status::generate(pod, runtime, stage, &surroundings, &|container| node.claims.resource_status(pod, container))
        });
    }

    pub(super) fn write_with(&mut self, make: impl Fn(&Value, &Runtime) -> Value) {
        if self.gone {
            return;
        }
        let (namespace, name) = (self.text("namespace"), self.text("name"));
        for _ in 0..5 {
            let Ok(current) = self.node.api.get(&PODS, &namespace, &name) else { return };
            if current["metadata"]["uid"] != self.pod["metadata"]["uid"] {
                return;
            }
            // The spec is the one that the worker has seen; the rest is brought up to date.
            let new = make(&current, &self.runtime);
            if new == current["status"] {
                return;
            }
            let mut object = (*current).clone();
            object["status"] = new;
            let options = WriteOptions::default();
            match self.node.api.update(&self.node.caller, &PODS, Subresource::Status, &namespace, &name, object, &options) {
                Ok(_) => return,
                Err(status) if status.is_conflict() => {}
                Err(status) => {
                    tracing::debug!(pod = name, %status, "pod status not written");
                    return;
                }
            }
        }
    }

    /// The last deletion; true when the object is gone.
    pub(super) fn remove(&self) -> bool {
        let options = DeleteOptions { grace_period_seconds: Some(0), uid: Some(self.uid().to_owned()), ..DeleteOptions::default() };
        match self.node.api.delete(&self.node.caller, &PODS, &self.text("namespace"), &self.text("name"), &options) {
            Ok(Deleted::Gone(_)) => true,
            // Finalizers keep it: it goes with them.
            Ok(Deleted::Marked(_)) => false,
            Err(status) => status.is_not_found() || status.is_conflict(),
        }
    }

    pub(super) fn event(&self, which: Which, kind: EventType, reason: &str, message: &str) {
        let name = self.runtime.get(which).map(|c| c.name.as_str()).unwrap_or_default();
        let path = match which {
            Which::Init(_) => format!("spec.initContainers{{{name}}}"),
            Which::Main(_) => format!("spec.containers{{{name}}}"),
        };
        self.node.recorder.event_in(&self.pod, Some(&path), kind, reason, message);
    }
}
