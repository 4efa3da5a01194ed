//! Bounded waits on a watch. Nothing polls; a wait that gives up says what it saw last.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, pin_mut};
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::Value;

use crate::client::ClientError;

/// Watches the objects of one kind until `enough` says so of what is there; `enough` gets all objects by namespace/name.
///
/// # Errors
/// [`ClientError::TimedOut`] after `bound`, with the words of `last`; other errors when the server refuses.
pub async fn until<T>(
    api: Api<DynamicObject>,
    config: watcher::Config,
    bound: Duration,
    what: &str,
    mut enough: impl FnMut(&BTreeMap<String, Value>) -> Option<T>,
    last: impl Fn(&BTreeMap<String, Value>) -> String,
) -> Result<T, ClientError> {
    let mut objects: BTreeMap<String, Value> = BTreeMap::new();
    let mut fresh: BTreeMap<String, Value> = BTreeMap::new();
    let stream = watcher(api, config);
    pin_mut!(stream);
    let mut trouble: Option<String> = None;
    let work = async {
        loop {
            match stream.next().await {
                None => return Err(ClientError::Answer { what: what.to_owned(), reason: "the watch ended".to_owned() }),
                Some(Err(
                    watcher::Error::InitialListFailed(kube::Error::Api(status))
                    | watcher::Error::WatchStartFailed(kube::Error::Api(status)),
                )) if status.code == 403 || status.code == 404 || status.code == 401 => {
                    return Err(ClientError::from(kube::Error::Api(status)));
                }
                Some(Err(error)) => {
                    trouble = Some(error.to_string());
                    // The watcher itself begins again; a short pause keeps a dead server from being hammered.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Some(Ok(event)) => {
                    trouble = None;
                    match event {
                        Event::Init => fresh.clear(),
                        Event::InitApply(object) => {
                            let (key, value) = keyed(object);
                            fresh.insert(key, value);
                        }
                        Event::InitDone => {
                            objects = std::mem::take(&mut fresh);
                            if let Some(found) = enough(&objects) {
                                return Ok(found);
                            }
                        }
                        Event::Apply(object) => {
                            let (key, value) = keyed(object);
                            objects.insert(key, value);
                            if let Some(found) = enough(&objects) {
                                return Ok(found);
                            }
                        }
                        Event::Delete(object) => {
                            objects.remove(&keyed(object).0);
                            if let Some(found) = enough(&objects) {
                                return Ok(found);
                            }
                        }
                    }
                }
            }
        }
    };
    match tokio::time::timeout(bound, work).await {
        Ok(result) => result,
        Err(_) => {
            let seen = trouble.unwrap_or_else(|| last(&objects));
            Err(ClientError::TimedOut { seconds: bound.as_secs(), what: what.to_owned(), last: seen })
        }
    }
}

fn keyed(object: DynamicObject) -> (String, Value) {
    let key =
        format!("{}/{}", object.metadata.namespace.as_deref().unwrap_or_default(), object.metadata.name.as_deref().unwrap_or_default());
    (key, serde_json::to_value(object).unwrap_or_default())
}

/// Waits until an object is gone.
///
/// # Errors
/// As [`until`].
pub async fn gone(api: Api<DynamicObject>, name: &str, bound: Duration) -> Result<(), ClientError> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    until(
        api,
        config,
        bound,
        &format!("{name} to be gone"),
        |objects| objects.is_empty().then_some(()),
        |objects| {
            let finalizers: Vec<String> = objects
                .values()
                .flat_map(|o| o["metadata"]["finalizers"].as_array().into_iter().flatten())
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            if finalizers.is_empty() { "still there".to_owned() } else { format!("still there, kept by {}", finalizers.join(", ")) }
        },
    )
    .await
}

/// All objects of a kind as JSON.
///
/// # Errors
/// When the server refuses or cannot be reached.
pub async fn list(api: &Api<DynamicObject>) -> Result<Vec<Value>, ClientError> {
    let list = api.list(&kube::api::ListParams::default()).await?;
    futures::stream::iter(list.items.into_iter().map(Ok)).map_ok(|o| serde_json::to_value(o).unwrap_or_default()).try_collect().await
}
