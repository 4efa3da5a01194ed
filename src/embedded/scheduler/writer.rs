//! Carries out the writes of a plan, as kube-scheduler.

use serde_json::json;

use super::super::api::resource::{NODES, PODS, RESOURCECLAIMS};
use super::super::api::{Api, Caller, Object, Resource, Status, Subresource, WriteOptions};
use super::super::events::{EventType, Recorder};
use super::SCHEDULER_NAME;
use crate::base::clock::SharedClock;
use crate::scheduling::plan::Note;
use crate::scheduling::{Key, Machine, Plan, Write};

/// How often a write is tried that meets another one (upstream: `retry.DefaultRetry`).
const TRIES: usize = 5;
/// The label of the node that the scheduler is said to run on.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// Writes as kube-scheduler.
#[derive(Debug)]
pub(super) struct Writer {
    api: Api,
    clock: SharedClock,
    caller: Caller,
    recorder: Option<Recorder>,
}

impl Writer {
    pub(super) fn new(api: Api, clock: SharedClock) -> Self {
        Writer { api, clock, caller: Caller::component("kube-scheduler"), recorder: None }
    }

    /// Makes the writes in order and tells the machine what claims have become. Stops at the first vital write that
    /// fails; the answer is then the message of the attempt.
    pub(super) fn carry_out(&mut self, machine: &mut Machine, plan: &Plan) -> Option<String> {
        for write in &plan.writes {
            if let Err(message) = self.write(machine, write) {
                if write.is_vital() {
                    return Some(message);
                }
                tracing::debug!(%message, "a write of the scheduler failed");
            }
        }
        None
    }

    fn write(&mut self, machine: &mut Machine, write: &Write) -> Result<(), String> {
        let (resource, subresource, key): (&'static Resource, _, _) = match write {
            Write::Event(note) => {
                self.event(note);
                return Ok(());
            }
            Write::Bind { pod, node } => {
                let Key { namespace, name } = &pod.key;
                let bound = self.api.bind(&self.caller, namespace, name, Some(pod.uid.as_str()), node);
                return bound.map_err(|status| write.refused(&status.to_string()));
            }
            Write::Nominate { pod, .. } | Write::Condition { pod, .. } => (&PODS, Subresource::Status, &pod.key),
            Write::AddFinalizer { claim } => (&RESOURCECLAIMS, Subresource::Main, &claim.key),
            Write::Reserve { claim, .. } | Write::Unreserve { claim, .. } | Write::Deallocate { claim, .. } => {
                (&RESOURCECLAIMS, Subresource::Status, &claim.key)
            }
        };
        let written = self.update(write, resource, subresource, key)?;
        if let Some(written) = written.filter(|_| resource == &RESOURCECLAIMS) {
            super::take_in(machine, &self.clock, &written, false);
        }
        Ok(())
    }

    /// Reads, changes and updates an object; again if somebody else wrote meanwhile.
    fn update(&self, write: &Write, resource: &'static Resource, subresource: Subresource, key: &Key) -> Result<Option<Object>, String> {
        let mut last = Status::new(409, "Conflict", "not tried");
        for _ in 0..TRIES {
            let current = self.api.get(resource, &key.namespace, &key.name).map_err(|status| write.refused(&status.to_string()))?;
            let Some(new) = write.apply(&current, self.clock.now()).map_err(|error| write.outdated(&error))? else {
                return Ok(None);
            };
            let options = WriteOptions::default();
            match self.api.update(&self.caller, resource, subresource, &key.namespace, &key.name, new, &options) {
                Ok(object) => return Ok(Some(object)),
                Err(status) if status.is_conflict() => last = status,
                Err(status) => return Err(write.refused(&status.to_string())),
            }
        }
        Err(write.refused(&last.to_string()))
    }

    fn event(&mut self, note: &Note) {
        let regarding = json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"namespace": note.pod.key.namespace, "name": note.pod.key.name, "uid": note.pod.uid.as_str(),
                         "resourceVersion": note.pod.revision},
        });
        let kind = if note.warning { EventType::Warning } else { EventType::Normal };
        self.recorder().event_with_action(&regarding, kind, note.reason, note.action, &note.message);
    }

    /// Made at the first event: the nodes may come after the scheduler.
    fn recorder(&mut self) -> &Recorder {
        let (api, clock, caller) = (&self.api, &self.clock, &self.caller);
        self.recorder.get_or_insert_with(|| {
            let nodes = api.list(&NODES, "").map(|list| list.items).unwrap_or_default();
            let host = nodes.iter().find(|node| node["metadata"]["labels"].get(CONTROL_PLANE).is_some());
            let host = host.and_then(|node| node["metadata"]["name"].as_str()).unwrap_or_default();
            Recorder::new(api.clone(), clock.clone(), caller.clone(), SCHEDULER_NAME, host)
        })
    }
}
