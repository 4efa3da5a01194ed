//! Watches as a stream of JSON lines.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::negotiate::{Format, Shape};
use super::respond::{self, Answer, Body};
use super::service::Call;
use crate::embedded::api::{Api, ChangeKind, Resource, Selected, Status, WatchEvent};

/// Events that are there already go out together, up to about this many bytes.
const BATCH: usize = 64 * 1024;

/// A body that goes on until the stream ends.
pub(super) fn body(frames: impl futures::Stream<Item = Bytes> + Send + 'static) -> Body {
    use futures::StreamExt;
    StreamBody::new(frames.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)))).boxed_unsync()
}

/// The answer to a watch.
pub(super) fn watch(call: &Call, resource: &'static Resource, format: Format, watch: Selected) -> Answer {
    let state =
        Lines { api: call.api.clone(), closing: call.closing.clone(), resource, shape: format.shape, watch, columns: true, ended: false };
    let frames = stream::unfold(state, |mut state| async move { state.batch().await.map(|bytes| (bytes, state)) });
    respond::answer(200, "application/json", body(frames))
}

/// A watch that is over before it began: one ERROR event.
pub(super) fn refused(status: &Status) -> Answer {
    let mut line = Vec::new();
    write(&mut line, "ERROR", &status.body());
    respond::answer(200, "application/json", respond::full(line))
}

struct Lines {
    api: Api,
    closing: CancellationToken,
    resource: &'static Resource,
    shape: Shape,
    watch: Selected,
    /// A Table's columns are in its first event only.
    columns: bool,
    ended: bool,
}

impl Lines {
    /// The lines of the next events; `None` at the end.
    async fn batch(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let first = tokio::select! {
            biased;
            () = self.closing.cancelled() => None,
            event = self.watch.next() => event,
        }?;
        let mut lines = Vec::new();
        self.line(&mut lines, first);
        while lines.len() < BATCH && !self.ended {
            let Some(event) = self.watch.try_next() else { break };
            self.line(&mut lines, event);
        }
        Some(lines.into())
    }

    fn line(&mut self, lines: &mut Vec<u8>, event: WatchEvent) {
        let (kind, object) = match event {
            WatchEvent::Change(ChangeKind::Added, object) => ("ADDED", object),
            WatchEvent::Change(ChangeKind::Modified, object) => ("MODIFIED", object),
            WatchEvent::Change(ChangeKind::Deleted, object) => ("DELETED", object),
            WatchEvent::Bookmark(object) => ("BOOKMARK", object),
            WatchEvent::Error(status) => {
                self.ended = true;
                return write(lines, "ERROR", &status.body());
            }
        };
        if self.shape == Shape::Object {
            return write(lines, kind, &object);
        }
        let shaped = respond::shaped(&self.shape, self.resource, &object, self.columns, self.api.now());
        self.columns = false;
        write(lines, kind, &shaped);
    }
}

fn write(lines: &mut Vec<u8>, kind: &str, object: &Value) {
    #[derive(Serialize)]
    struct Line<'a> {
        r#type: &'a str,
        object: &'a Value,
    }
    // Writing JSON values into memory cannot fail.
    if serde_json::to_writer(&mut *lines, &Line { r#type: kind, object }).is_ok() {
        lines.push(b'\n');
    }
}
