//! `pods/NAME/log`: plain text, from what the simulated containers printed.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::respond::{self, Answer};
use super::route::Address;
use super::service::Call;
use super::stream::body;
use crate::embedded::api::resource::PODS;
use crate::embedded::api::{Status, meta};
use crate::embedded::logs::{ContainerLog, Line};

/// Answers a GET of a container's log.
pub(super) fn answer(call: &Call, address: &Address) -> Result<Answer, Status> {
    let pod = call.api.get(&PODS, &address.namespace, &address.name)?;
    let container = container(&pod, &address.name, call.query.text("container"))?;
    if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
        return Ok(respond::nothing());
    }
    let options = Options::read(call)?;
    let (pod_name, uid) = (&address.name, meta::uid(&pod));
    if options.previous {
        return Err(Status::bad_request(format!("previous terminated container \"{container}\" in pod \"{pod_name}\" not found")));
    }
    let Some(log) = call.api.logs().follow(uid, &container) else {
        let why = waiting(&pod, &container);
        return Err(Status::bad_request(format!("container \"{container}\" in pod \"{pod_name}\" is waiting to start: {why}")));
    };
    Ok(respond::answer(200, "text/plain", body(lines(log, options, call.closing.clone()))))
}

/// The container that is meant: the one named, the annotated default, or the only one.
pub(super) fn container(pod: &Value, pod_name: &str, asked: &str) -> Result<String, Status> {
    let names = |field: &str| -> Vec<String> {
        let list = pod["spec"][field].as_array().map_or(&[][..], Vec::as_slice);
        list.iter().filter_map(|container| container["name"].as_str()).map(str::to_owned).collect()
    };
    let main = names("containers");
    if asked.is_empty() {
        if let [only] = main.as_slice() {
            return Ok(only.clone());
        }
        let shown = |names: &[String]| names.join(" ");
        let init = names("initContainers");
        let mut message = format!("a container name must be specified for pod {pod_name}, choose one of: [{}]", shown(&main));
        if !init.is_empty() {
            message.push_str(&format!(" or one of the init containers: [{}]", shown(&init)));
        }
        return Err(Status::bad_request(message));
    }
    let known = main.iter().chain(&names("initContainers")).chain(&names("ephemeralContainers")).any(|name| name == asked);
    if known { Ok(asked.to_owned()) } else { Err(Status::bad_request(format!("container {asked} is not valid for pod {pod_name}"))) }
}

fn waiting<'a>(pod: &'a Value, container: &str) -> &'a str {
    let statuses = pod["status"]["containerStatuses"].as_array().map_or(&[][..], Vec::as_slice);
    let own = statuses.iter().find(|status| status["name"] == container);
    own.and_then(|status| status["state"]["waiting"]["reason"].as_str()).unwrap_or("ContainerCreating")
}

/// `v1.PodLogOptions`.
struct Options {
    follow: bool,
    previous: bool,
    timestamps: bool,
    tail: Option<usize>,
    since: Option<Timestamp>,
    limit: Option<usize>,
}

impl Options {
    fn read(call: &Call) -> Result<Self, Status> {
        let query = &call.query;
        let since = match query.seconds("sinceSeconds")? {
            Some(seconds) => call.api.now().checked_sub(seconds).ok(),
            None => query.text("sinceTime").parse().ok(),
        };
        Ok(Options {
            follow: query.flag("follow").unwrap_or(false),
            previous: query.flag("previous").unwrap_or(false),
            timestamps: query.flag("timestamps").unwrap_or(false),
            tail: query.number("tailLines")?.and_then(|lines| usize::try_from(lines).ok()),
            since,
            limit: query.seconds("limitBytes")?.map(|bytes| usize::try_from(bytes.as_secs()).unwrap_or(usize::MAX)),
        })
    }

    fn text(&self, line: &Line) -> String {
        if self.timestamps { format!("{:.9} {}\n", line.at, line.text) } else { format!("{}\n", line.text) }
    }
}

struct Reader {
    log: watch::Receiver<Arc<ContainerLog>>,
    options: Options,
    closing: CancellationToken,
    next: usize,
    left: usize,
    ready: VecDeque<Bytes>,
    ended: bool,
}

fn lines(
    log: watch::Receiver<Arc<ContainerLog>>,
    options: Options,
    closing: CancellationToken,
) -> impl futures::Stream<Item = Bytes> + Send {
    let left = options.limit.unwrap_or(usize::MAX);
    let mut reader = Reader { log, options, closing, next: 0, left, ready: VecDeque::new(), ended: false };
    reader.skip();
    reader.take();
    stream::unfold(reader, |mut reader| async move { reader.piece().await.map(|bytes| (bytes, reader)) })
}

impl Reader {
    /// Leaves out what `tailLines` and `since` do not want.
    fn skip(&mut self) {
        let log = self.log.borrow().clone();
        let tail = self.options.tail.map_or(0, |tail| log.lines.len().saturating_sub(tail));
        let since = self.options.since.map_or(0, |since| log.lines.partition_point(|line| line.at < since));
        self.next = log.dropped + tail.max(since);
    }

    /// Takes over the lines that are there.
    fn take(&mut self) {
        let log = self.log.borrow_and_update().clone();
        let mut text = String::new();
        for line in log.lines.iter().skip(self.next.saturating_sub(log.dropped)) {
            text.push_str(&self.options.text(line));
        }
        self.next = self.next.max(log.dropped + log.lines.len());
        let mut bytes = Bytes::from(text);
        bytes.truncate(self.left);
        self.left -= bytes.len();
        if !bytes.is_empty() {
            self.ready.push_back(bytes);
        }
        self.ended = log.ended || !self.options.follow || self.left == 0;
    }

    async fn piece(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            if self.ended {
                return None;
            }
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                changed = self.log.changed() => match changed {
                    Ok(()) => self.take(),
                    // The pod is gone and its log with it.
                    Err(_) => return None,
                },
            }
        }
    }
}
