//! The ResourceClaim controller (`pkg/controller/resourceclaim`): makes claims from templates, releases claims of pods
//! that are done, deletes generated claims that nobody needs, reserves claims for pods that were placed by hand.

use tokio_util::sync::CancellationToken;

use super::informer::{Event, Informer};
use super::queue::Queue;
use crate::base::clock::SharedClock;
use crate::embedded::api::resource::{PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES};
use crate::embedded::api::{Api, Caller, Object, Status, meta};
use crate::embedded::events::Recorder;

mod create;
mod index;
mod pods;
mod release;
#[cfg(test)]
mod tests;

use index::Index;

/// Keeps the last user of a claim from losing it while it is allocated.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Names the entry of the pod that a generated claim is for.
const POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";

/// What there is to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// A pod, for claims that it needs.
    Pod(String, String),
    /// A claim, for consumers that it no longer has.
    Claim(String, String),
}

/// The controller; one task owns it.
struct Claims {
    api: Api,
    caller: Caller,
    /// Writes the pod's claim statuses; a field manager of its own.
    statuses: Caller,
    recorder: Recorder,
    index: Index,
    queue: Queue<Key>,
}

/// Runs the controller until shutdown or until the store closes.
///
/// # Errors
/// The API cannot list or watch.
pub(super) async fn run(api: Api, clock: SharedClock, shutdown: CancellationToken) -> Result<(), Status> {
    let caller = super::caller();
    let recorder = Recorder::new(api.clone(), clock.clone(), caller.clone(), "resource_claim", "");
    let mut pods = Informer::new(api.clone(), &PODS)?;
    let mut claims = Informer::new(api.clone(), &RESOURCECLAIMS)?;
    let mut templates = Informer::new(api.clone(), &RESOURCECLAIMTEMPLATES)?;
    let statuses = Caller { manager: "ResourceClaimController".to_owned(), user: caller.user.clone() };
    let mut controller = Claims { api, caller, statuses, recorder, index: Index::default(), queue: Queue::new(clock) };
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            event = pods.next() => match event {
                Some(event) => controller.pod_event(&event),
                None => return Ok(()),
            },
            event = claims.next() => match event {
                Some(event) => controller.claim_event(&event),
                None => return Ok(()),
            },
            event = templates.next() => match event {
                Some(event) => controller.template_event(&event),
                None => return Ok(()),
            },
            key = controller.queue.next() => controller.work(key),
        }
    }
}

impl Claims {
    fn work(&mut self, key: Key) {
        let result = match &key {
            Key::Pod(namespace, name) => self.sync_pod(namespace, name),
            Key::Claim(namespace, name) => self.sync_claim(namespace, name),
        };
        self.queue.done(key, result);
    }

    fn pod_event(&mut self, event: &Event) {
        match event {
            Event::Changed(pod, _) => {
                self.index.set_pod(pod);
                self.enqueue_pod(pod, false);
            }
            Event::Gone(pod) => {
                self.index.forget_pod(pod);
                self.enqueue_pod(pod, true);
            }
        }
    }

    /// Queues what a pod gives to do: its claims once it needs them no longer, itself while it lacks any.
    fn enqueue_pod(&mut self, pod: &Object, gone: bool) {
        if !pods::uses_claims(pod) {
            return;
        }
        let namespace = meta::namespace(pod).to_owned();
        if gone || pods::is_done(pod) {
            for claim in pods::claim_names(pod) {
                self.queue.add(Key::Claim(namespace.clone(), claim));
            }
        }
        if !gone && self.needs_work(pod) {
            self.queue.add(Key::Pod(namespace, meta::name(pod).to_owned()));
        }
    }

    fn claim_event(&mut self, event: &Event) {
        let (claim, gone) = match event {
            Event::Changed(claim, _) => (claim, false),
            Event::Gone(claim) => (claim, true),
        };
        let (namespace, name) = (meta::namespace(claim).to_owned(), meta::name(claim).to_owned());
        if gone {
            self.index.forget_claim(claim);
        } else {
            self.index.set_claim(claim);
            self.queue.add(Key::Claim(namespace.clone(), name.clone()));
        }
        self.enqueue_users(self.index.pods_of_claim(&namespace, &name));
    }

    fn template_event(&mut self, event: &Event) {
        if let Event::Changed(template, _) = event {
            self.enqueue_users(self.index.pods_of_template(meta::namespace(template), meta::name(template)));
        }
    }

    fn enqueue_users(&mut self, users: Vec<(String, String)>) {
        for (namespace, name) in users {
            if let Ok(pod) = self.api.get(&PODS, &namespace, &name) {
                self.enqueue_pod(&pod, false);
            }
        }
    }
}
