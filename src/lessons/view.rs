//! The objects that a lesson looks at, as they are now, by `kind/name`; and a stream of their changes from a resourceVersion on.

use std::collections::BTreeMap;

use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;

use crate::client::apply::api_of;
use crate::client::{ClientError, Kind, Kinds};

/// Kinds that every lesson is looked at with.
const ALWAYS: [&str; 4] = ["pods", "resourceclaims", "resourceclaimtemplates", "events"];

/// Objects by `kind/name`, such as `pod/pod0`.
pub type Objects = BTreeMap<String, Value>;

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `kind/name`.
    pub key: String,
    /// The object after the change; the last state for a deletion.
    pub object: Value,
    /// It is gone.
    pub deleted: bool,
    /// The revision of the change, where the server tells one that can be compared.
    pub revision: u64,
}

/// What is watched and what is there.
pub struct View {
    /// The objects as of [`View::listed`] and every live change since.
    pub objects: Objects,
    /// The highest revision of the lists.
    pub listed: u64,
    /// The revision of each kind's list, by singular: lists come one after the other, and what changes meanwhile counts.
    listed_by_kind: BTreeMap<String, u64>,
    /// Nothing since the step's begin was missed.
    pub complete: bool,
    changes: SelectAll<Changes>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("objects", &self.objects.len()).field("listed", &self.listed).finish_non_exhaustive()
    }
}

/// Lists the kinds of a lesson in its namespace.
///
/// # Errors
/// When the server cannot be reached or refuses.
pub async fn list(client: &Client, kinds: &Kinds, namespace: &str, extra: &[String]) -> Result<(Objects, u64), ClientError> {
    let (objects, revisions) = list_by_kind(client, kinds, namespace, extra).await?;
    Ok((objects, revisions.values().copied().max().unwrap_or(0)))
}

async fn list_by_kind(
    client: &Client,
    kinds: &Kinds,
    namespace: &str,
    extra: &[String],
) -> Result<(Objects, BTreeMap<String, u64>), ClientError> {
    let mut objects = Objects::new();
    let mut revisions = BTreeMap::new();
    for name in wanted(extra) {
        let kind = kinds.find(&name)?;
        let list = api_of(client, kind, namespace).list(&ListParams::default()).await?;
        revisions.insert(kind.singular.clone(), parse(list.metadata.resource_version.as_deref()));
        for item in list.items {
            let (key, value) = keyed(kind, item);
            objects.insert(key, value);
        }
    }
    Ok((objects, revisions))
}

/// Lists, and watches from `since` (empty: from now). What is too old for the server is left out, and `complete` is false then.
///
/// # Errors
/// As [`list`].
pub async fn open(client: &Client, kinds: &Kinds, namespace: &str, extra: &[String], since: &str) -> Result<View, ClientError> {
    let (objects, listed_by_kind) = list_by_kind(client, kinds, namespace, extra).await?;
    let listed = listed_by_kind.values().copied().max().unwrap_or(0);
    let names = wanted(extra);
    // Each kind may wait a little for its history: all of them at the same time.
    let opened = names.iter().map(|name| async {
        let kind = kinds.find(name)?;
        let now = listed_by_kind.get(&kind.singular).copied().unwrap_or(listed).to_string();
        changes_of(&api_of(client, kind, namespace), kind.clone(), since, &now).await
    });
    let opened = futures::future::try_join_all(opened).await?;
    let complete = !since.is_empty() && opened.iter().all(|(complete, _)| *complete);
    let changes = select_all(opened.into_iter().map(|(_, changes)| changes));
    Ok(View { objects, listed, listed_by_kind, complete, changes })
}

type Changes = BoxStream<'static, Result<Seen, ClientError>>;

/// The changes of one kind from `since` (empty, or too old for the server: from `now`); says whether it is from `since`.
async fn changes_of(api: &Api<DynamicObject>, kind: Kind, since: &str, now: &str) -> Result<(bool, Changes), ClientError> {
    let params = WatchParams::default().timeout(290);
    let mut complete = true;
    let mut stream = api.watch(&params, if since.is_empty() { now } else { since }).await?.boxed();
    // A revision that is too old shows in the first event; look at it only if it is there at once.
    let patience = std::time::Duration::from_millis(if since.is_empty() { 0 } else { 30 });
    let first = match tokio::time::timeout(patience, stream.next()).await.ok().flatten() {
        Some(Ok(WatchEvent::Error(status))) if status.code == 410 => {
            complete = false;
            stream = api.watch(&params, now).await?.boxed();
            None
        }
        other => other,
    };
    let all = futures::stream::iter(first).chain(stream).map_err(ClientError::from);
    Ok((complete, all.try_filter_map(move |event| futures::future::ready(Ok(seen(&kind, event)))).boxed()))
}

impl View {
    /// The next change; `None` when every watch has ended. Live changes are taken into [`View::objects`].
    pub async fn next(&mut self) -> Option<Result<Seen, ClientError>> {
        let change = self.changes.next().await?;
        if let Ok(seen) = &change
            && seen.revision > self.listed_of(&seen.key)
        {
            if seen.deleted {
                self.objects.remove(&seen.key);
            } else {
                self.objects.insert(seen.key.clone(), seen.object.clone());
            }
        }
        Some(change)
    }

    /// The revision of the list that an object was in or not in.
    fn listed_of(&self, key: &str) -> u64 {
        let kind = key.split('/').next().unwrap_or_default();
        self.listed_by_kind.get(kind).copied().unwrap_or(self.listed)
    }
}

fn wanted(extra: &[String]) -> Vec<String> {
    let mut names: Vec<String> = ALWAYS.iter().map(|n| (*n).to_owned()).collect();
    names.extend(extra.iter().filter(|e| !ALWAYS.contains(&e.as_str())).cloned());
    names
}

fn seen(kind: &Kind, event: WatchEvent<DynamicObject>) -> Option<Seen> {
    let (object, deleted) = match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
        WatchEvent::Deleted(object) => (object, true),
        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => return None,
    };
    let revision = parse(object.metadata.resource_version.as_deref());
    let (key, object) = keyed(kind, object);
    Some(Seen { key, object, deleted, revision })
}

/// The key of an object, and the object with the kind that items of a list do not have on the wire.
fn keyed(kind: &Kind, object: DynamicObject) -> (String, Value) {
    let key = format!("{}/{}", kind.singular, object.metadata.name.as_deref().unwrap_or_default());
    (key, kind.typed(object))
}

fn parse(revision: Option<&str>) -> u64 {
    revision.and_then(|r| r.parse().ok()).unwrap_or(0)
}
