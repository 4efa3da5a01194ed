//! Events live for an hour, as with kube-apiserver's `--event-ttl`, which leases them to its store.

use std::collections::HashMap;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::informer::{Event, Informer};
use super::queue::Queue;
use crate::base::clock::SharedClock;
use crate::embedded::api::resource::EVENTS;
use crate::embedded::api::{Api, DeleteOptions, Status, meta};

/// How long an event lives after it was last written.
const LIFE: Duration = Duration::from_secs(3600);

/// Runs the controller until shutdown or until the store closes. An event found at the start lives on for an hour.
///
/// # Errors
/// The API cannot list or watch.
pub(super) async fn run(api: Api, clock: SharedClock, shutdown: CancellationToken) -> Result<(), Status> {
    let caller = super::caller();
    let mut events = Informer::new(api.clone(), &EVENTS)?;
    let mut ends: HashMap<(String, String), jiff::Timestamp> = HashMap::new();
    let mut queue: Queue<(String, String)> = Queue::new(clock.clone());
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            event = events.next() => match event {
                Some(Event::Changed(event, _)) => {
                    let key = (meta::namespace(&event).to_owned(), meta::name(&event).to_owned());
                    let end = clock.now().checked_add(LIFE).unwrap_or(jiff::Timestamp::MAX);
                    // One wait per event; it is prolonged when it is over.
                    if ends.insert(key.clone(), end).is_none() {
                        queue.add_after(key, LIFE);
                    }
                }
                Some(Event::Gone(event)) => {
                    ends.remove(&(meta::namespace(&event).to_owned(), meta::name(&event).to_owned()));
                }
                None => return Ok(()),
            },
            key = queue.next() => {
                let Some(end) = ends.get(&key) else { continue };
                let left = Duration::try_from(end.duration_since(clock.now())).unwrap_or_default();
                if left.is_zero() {
                    let gone = api.delete(&caller, &EVENTS, &key.0, &key.1, &DeleteOptions::default());
                    ends.remove(&key);
                    queue.done(key, gone.map(|_| ()).or_else(|status| if status.is_not_found() { Ok(()) } else { Err(status) }));
                } else {
                    queue.add_after(key, left);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::super::testing::Lab;
    use crate::embedded::api::Subresource;
    use crate::embedded::api::resource::EVENTS;

    #[tokio::test]
    async fn an_event_goes_an_hour_after_its_last_change() {
        let lab = Lab::start().await;
        let involved = json!({"kind": "Pod", "name": "p", "namespace": "s"});
        lab.create(&EVENTS, json!({"metadata": {"name": "e"}, "involvedObject": involved, "count": 1}));
        lab.settle().await;
        lab.advance(Duration::from_secs(1800)).await;
        lab.patch(&EVENTS, Subresource::Main, "e", json!({"count": 2}));
        lab.settle().await;
        lab.advance(Duration::from_secs(1800)).await;
        assert!(lab.get(&EVENTS, "e").is_some());
        lab.advance(Duration::from_secs(1800)).await;
        assert!(lab.get(&EVENTS, "e").is_none());
        lab.end().await;
    }
}
