//! Watch as the wire knows it: selectors, initial events, bookmarks, time limits.

use std::collections::VecDeque;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::super::selectors::Selector;
use super::super::status::Cause;
use super::super::{Api, Change, ChangeKind, Object, Resource, Status, Watch, meta};

/// A bookmark comes about once a minute, and shortly before the time is up (`cacher/cache_watcher.go`).
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How long a watch lasts that asks for no limit: the API server draws from 30 to 60 minutes.
const NO_LIMIT: Duration = Duration::from_secs(45 * 60);

/// `metav1.ListOptions` of a watch; empty strings are absent parameters.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// What is selected.
    pub selector: Selector,
    /// `resourceVersion`.
    pub resource_version: String,
    /// `resourceVersionMatch`.
    pub version_match: String,
    /// `sendInitialEvents`.
    pub send_initial_events: Option<bool>,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
    /// `timeoutSeconds`.
    pub timeout: Option<Duration>,
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// An object came into what is selected, changed in it, or left it.
    Change(ChangeKind, Object),
    /// Everything up to the object's resourceVersion has been sent.
    Bookmark(Object),
    /// The watch cannot go on.
    Error(Status),
}

/// A watch with its selection.
pub struct Selected {
    api: Api,
    resource: &'static Resource,
    selector: Selector,
    initial: VecDeque<WatchEvent>,
    changes: Watch,
    pending: Option<Change>,
    bookmark: Option<BoxFuture<'static, ()>>,
    last_bookmark: Option<BoxFuture<'static, ()>>,
    end: BoxFuture<'static, ()>,
    ended: bool,
}

impl Api {
    /// A watch with selectors, initial events, bookmarks and a time limit.
    ///
    /// # Errors
    /// 422 for options that make no sense, 500 for a version that is no number, 410 for one that is too old.
    pub fn watch_selected(&self, resource: &'static Resource, namespace: &str, options: WatchOptions) -> Result<Selected, Status> {
        check(&options)?;
        let from = match options.resource_version.as_str() {
            "" => None,
            version => Some(version.parse::<u64>().map_err(|_| super::list::not_a_number(version))?).filter(|from| *from > 0),
        };
        let with_initial = options.send_initial_events.unwrap_or(from.is_none());
        let mut initial = VecDeque::new();
        let changes = if with_initial || from.is_none() {
            let list = self.list(resource, namespace)?;
            if with_initial {
                let selected = list.items.iter().filter(|object| options.selector.matches(object));
                initial.extend(selected.map(|object| WatchEvent::Change(ChangeKind::Added, object.clone())));
                if options.send_initial_events == Some(true) && options.bookmarks {
                    let mut mark = bookmark(resource, list.revision);
                    mark["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
                    initial.push_back(WatchEvent::Bookmark(mark.into()));
                }
            }
            self.watch(resource, namespace, list.revision)?
        } else {
            self.watch(resource, namespace, from.unwrap_or_default())?
        };
        let limit = options.timeout.filter(|limit| !limit.is_zero()).unwrap_or(NO_LIMIT);
        let clock = self.clock();
        let last = limit.checked_sub(BOOKMARK_BEFORE_END).filter(|_| options.bookmarks).map(|delay| clock.sleep(delay));
        Ok(Selected {
            api: self.clone(),
            resource,
            selector: options.selector,
            initial,
            changes,
            pending: None,
            bookmark: options.bookmarks.then(|| clock.sleep(BOOKMARK_EVERY)),
            last_bookmark: last,
            end: clock.sleep(limit),
            ended: false,
        })
    }
}

impl Selected {
    /// The next event; `None` when the time is up or the store has closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        loop {
            if let Some(event) = self.initial.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            if let Some(change) = self.pending.take() {
                match selected(&self.selector, &change) {
                    Some((kind, object)) => return Some(WatchEvent::Change(kind, object)),
                    None => continue,
                }
            }
            tokio::select! {
                biased;
                change = self.changes.next() => match change {
                    Some(Ok(change)) => self.pending = Some(change),
                    Some(Err(status)) => {
                        self.ended = true;
                        return Some(WatchEvent::Error(status));
                    }
                    None => self.ended = true,
                },
                () = due(&mut self.last_bookmark) => {
                    self.last_bookmark = None;
                    self.mark();
                }
                () = due(&mut self.bookmark) => {
                    self.bookmark = Some(self.api.clock().sleep(BOOKMARK_EVERY));
                    self.mark();
                }
                () = &mut self.end => self.ended = true,
            }
        }
    }

    /// The next event if there is one already.
    pub fn try_next(&mut self) -> Option<WatchEvent> {
        if let Some(event) = self.initial.pop_front() {
            return Some(event);
        }
        while let Some(change) = self.pending.take().or_else(|| self.changes.try_next()) {
            if let Some((kind, object)) = selected(&self.selector, &change) {
                return Some(WatchEvent::Change(kind, object));
            }
        }
        None
    }

    /// Queues what has come so far, then the bookmark: all changes up to the revision that is read first are in
    /// the queue by then.
    fn mark(&mut self) {
        let revision = self.api.revision();
        while let Some(event) = self.try_next() {
            self.initial.push_back(event);
        }
        self.initial.push_back(WatchEvent::Bookmark(bookmark(self.resource, revision).into()));
    }
}

async fn due(timer: &mut Option<BoxFuture<'static, ()>>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

/// What a change is to a reader who sees only what is selected.
fn selected(selector: &Selector, change: &Change) -> Option<(ChangeKind, Object)> {
    let was = change.previous.as_ref().filter(|previous| selector.matches(previous));
    let is = change.kind != ChangeKind::Deleted && selector.matches(&change.object);
    match (was, is) {
        (None, false) => None,
        (None, true) => Some((ChangeKind::Added, change.object.clone())),
        (Some(_), true) => Some((ChangeKind::Modified, change.object.clone())),
        (Some(_), false) if change.kind == ChangeKind::Deleted => Some((ChangeKind::Deleted, change.object.clone())),
        (Some(previous), false) => {
            // It left the selection: its last state there, under the revision of the change.
            let mut object = (**previous).clone();
            meta::set(&mut object, "resourceVersion", json!(change.revision.to_string()));
            Some((ChangeKind::Deleted, object.into()))
        }
    }
}

fn bookmark(resource: &Resource, revision: u64) -> Value {
    json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": {"resourceVersion": revision.to_string()}})
}

/// `ValidateListOptions` for watches.
fn check(options: &WatchOptions) -> Result<(), Status> {
    let refused = |why: &str| {
        let cause = Cause::new("FieldValueForbidden", "resourceVersionMatch", format!("Forbidden: {why}"));
        Err(Status::invalid_kind("ListOptions.meta.k8s.io", "", &[cause]))
    };
    if options.send_initial_events.is_some() {
        if options.version_match != "NotOlderThan" {
            return refused("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
    } else if !options.version_match.is_empty() {
        return refused("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    }
    Ok(())
}
