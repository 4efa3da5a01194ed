//! The order of a pod's end: its reservations are given back before its object goes.
//!
//! A kubelet deletes the object of a pod that has ended about half a second after it has reported the end, and by then the
//! claim controller has taken the pod out of `reservedFor` (recordings 01, 06, 08). Here that order is kept by waiting for
//! it instead of for a while.

use std::time::Duration;

use serde_json::Value;

use crate::base::clock::SharedClock;
use crate::embedded::api::Api;
use crate::embedded::api::resource::RESOURCECLAIMS;

/// The usual bound: where no claim controller runs the object goes after this all the same.
pub const RELEASE_BOUND: Duration = Duration::from_millis(500);

/// Waits until no claim of the namespace is reserved for the pod, or `bound` has passed.
pub(super) async fn given_back(api: &Api, clock: &SharedClock, bound: Duration, namespace: &str, uid: &str) {
    let Ok(list) = api.list(&RESOURCECLAIMS, namespace) else { return };
    let mut waiting: Vec<String> = list.items.iter().filter(|claim| is_reserved(claim, uid)).map(|claim| name(claim)).collect();
    if waiting.is_empty() {
        return;
    }
    let Ok(mut changes) = api.watch(&RESOURCECLAIMS, namespace, list.revision) else { return };
    let released = async {
        while !waiting.is_empty() {
            let Some(Ok(change)) = changes.next().await else { return };
            let gone = change.kind == crate::embedded::api::ChangeKind::Deleted;
            if gone || !is_reserved(&change.object, uid) {
                waiting.retain(|claim| *claim != name(&change.object));
            }
        }
    };
    tokio::select! {
        () = released => {}
        () = clock.sleep(bound) => {}
    }
}

fn is_reserved(claim: &Value, uid: &str) -> bool {
    claim["status"]["reservedFor"].as_array().is_some_and(|entries| entries.iter().any(|entry| entry["uid"] == uid))
}

fn name(claim: &Value) -> String {
    claim["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
