//! Writing Events, as client-go's two recorders do: `v1` Events with counts for controllers and node agents
//! (`tools/record`), `events.k8s.io` style Events with series for the scheduler (`tools/events`).
//!
//! Both kinds are stored as core/v1 Events, which is how an API server stores them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::api::resource::EVENTS;
use super::api::{Api, Caller, Patch, Subresource, WriteOptions};
use crate::base::clock::SharedClock;

/// How many keys each cache of a recorder keeps (client-go: `maxLruCacheEntries`).
const CACHE: usize = 4096;
/// From this many different messages of one reason on, they are combined into one Event (client-go: `defaultAggregateMaxEvents`).
const COMBINE_AT: usize = 10;
/// Events of one reason further apart than this start afresh, in seconds (client-go: `defaultAggregateIntervalInSeconds`).
const COMBINE_SECONDS: i64 = 600;
/// Events about one object that may come in a burst (client-go: `defaultSpamBurst`).
const SPAM_BURST: f64 = 25.0;
/// After the burst one more Event per this many seconds (client-go: `defaultSpamQPS` is 1/300).
const SPAM_SECONDS: f64 = 300.0;

/// `type` of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something that is meant to happen.
    Normal,
    /// Something to look at.
    Warning,
}

impl EventType {
    /// As it stands in the Event.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// Writes Events for one component. Never fails its caller: an Event that cannot be written is dropped (with a
/// debug log), as with client-go.
#[derive(Debug)]
pub struct Recorder {
    api: Api,
    clock: SharedClock,
    caller: Caller,
    component: String,
    host: String,
    state: Mutex<Correlator>,
}

impl Recorder {
    /// A recorder that writes as `caller`. `component` is the Event's source (`resource_claim`, `kubelet`,
    /// `default-scheduler`); `host` is the source's host, empty where upstream gives none (controllers). For Events
    /// in the scheduler's style the reporting instance is `COMPONENT-HOST`.
    #[must_use]
    pub fn new(api: Api, clock: SharedClock, caller: Caller, component: &str, host: &str) -> Self {
        Recorder { api, clock, caller, component: component.to_owned(), host: host.to_owned(), state: Mutex::new(Correlator::default()) }
    }

    /// Records an Event about an object (its full JSON or a reference with kind, apiVersion and metadata).
    pub fn event(&self, regarding: &Value, kind: EventType, reason: &str, message: &str) {
        self.event_in(regarding, None, kind, reason, message);
    }

    /// As [`Recorder::event`], about a part of the object such as `spec.containers{ctr0}`.
    pub fn event_in(&self, regarding: &Value, field_path: Option<&str>, kind: EventType, reason: &str, message: &str) {
        let now = self.clock.now();
        let mut object = reference(regarding);
        if let Some(path) = field_path {
            object["fieldPath"] = json!(path);
        }
        let mut source = json!({"component": self.component});
        if !self.host.is_empty() {
            source["host"] = json!(self.host);
        }
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": event_namespace(&object)},
            "involvedObject": object, "reason": reason, "message": message, "source": source,
            "firstTimestamp": seconds(now), "lastTimestamp": seconds(now), "count": 1, "type": kind.as_str(),
            "eventTime": null, "reportingComponent": self.component, "reportingInstance": self.host,
        });
        let write = self.lock().correlate(event, now);
        self.carry_out(write);
    }

    /// Records an Event in the style of `events.k8s.io/v1`: `action` is what was attempted (`Scheduling`, `Binding`).
    /// A repetition about the same revision of the object becomes a series, whose first repeat is written.
    pub fn event_with_action(&self, regarding: &Value, kind: EventType, reason: &str, action: &str, message: &str) {
        let now = self.clock.now();
        let object = reference(regarding);
        let instance = if self.host.is_empty() { self.component.clone() } else { format!("{}-{}", self.component, self.host) };
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": event_namespace(&object)},
            "involvedObject": object, "reason": reason, "message": message, "source": {},
            "firstTimestamp": null, "lastTimestamp": null, "type": kind.as_str(),
            "eventTime": micros(now), "action": action,
            "reportingComponent": self.component, "reportingInstance": instance,
        });
        let write = self.lock().series(event, now);
        self.carry_out(write);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Correlator> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&self, write: Write) {
        let options = WriteOptions::default();
        let (namespace, event) = match write {
            Write::Nothing => return,
            Write::Create(event) => (text(&event, "/metadata/namespace").to_owned(), event),
            Write::Patch { event, patch } => {
                let namespace = text(&event, "/metadata/namespace").to_owned();
                let name = text(&event, "/metadata/name").to_owned();
                match self.api.patch(&self.caller, &EVENTS, Subresource::Main, &namespace, &name, Patch::Merge(patch), &options) {
                    Ok(_) => return,
                    // The Event has expired or was deleted: it starts anew.
                    Err(status) if status.is_not_found() => (namespace, event),
                    Err(status) => {
                        tracing::debug!(%status, "event not written");
                        return;
                    }
                }
            }
        };
        if let Err(status) = self.api.create(&self.caller, &EVENTS, &namespace, event, &options) {
            tracing::debug!(%status, "event not written");
        }
    }
}

/// What is to be written for one observed Event.
#[derive(Clone, Debug, PartialEq)]
enum Write {
    /// It is filtered out, or counted without a write.
    Nothing,
    /// A new Event.
    Create(Value),
    /// A repetition: the Event as it is now, and the merge patch that makes it so.
    Patch { event: Value, patch: Value },
}

#[derive(Debug)]
struct Similar {
    messages: BTreeSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct Seen {
    name: String,
    count: i64,
    first: Value,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    last: Timestamp,
}

/// client-go's `EventCorrelator`: combines, counts and limits. Pure; time is passed in.
#[derive(Debug, Default)]
struct Correlator {
    similar: HashMap<String, Similar>,
    seen: HashMap<String, Seen>,
    buckets: HashMap<String, Bucket>,
    running: HashMap<String, Value>,
    last_name: i128,
}

impl Correlator {
    fn correlate(&mut self, mut event: Value, now: Timestamp) -> Write {
        let about = join(&event, &["/source/component", "/source/host"], &["kind", "namespace", "name", "uid", "apiVersion"]);
        let group = format!("{about}\n{}\n{}", text(&event, "/type"), text(&event, "/reason"));
        let message = text(&event, "/message").to_owned();
        let path = text(&event, "/involvedObject/fieldPath").to_owned();
        let mut key = format!("{group}\n{path}\n{message}");

        bound(&mut self.similar);
        let similar = self.similar.entry(group.clone()).or_insert_with(|| Similar { messages: BTreeSet::new(), last: now });
        if now.as_second() - similar.last.as_second() > COMBINE_SECONDS {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(message.clone());
        if similar.messages.len() >= COMBINE_AT {
            similar.messages.pop_first();
            event["message"] = json!(format!("(combined from similar events): {message}"));
            key = group;
        }

        event["metadata"]["name"] = json!(self.name(&event, now));
        bound(&mut self.seen);
        let write = match self.seen.get_mut(&key) {
            Some(seen) => {
                seen.count += 1;
                event["metadata"]["name"] = json!(seen.name);
                event["count"] = json!(seen.count);
                event["firstTimestamp"] = seen.first.clone();
                let patch = json!({"count": seen.count, "lastTimestamp": event["lastTimestamp"], "message": event["message"]});
                Write::Patch { event, patch }
            }
            None => {
                let name = text(&event, "/metadata/name").to_owned();
                self.seen.insert(key, Seen { name, count: 1, first: event["firstTimestamp"].clone() });
                Write::Create(event)
            }
        };
        if self.admit(about, now) { write } else { Write::Nothing }
    }

    /// Takes a token of the object's bucket, if there is one.
    fn admit(&mut self, about: String, now: Timestamp) -> bool {
        bound(&mut self.buckets);
        let bucket = self.buckets.entry(about).or_insert(Bucket { tokens: SPAM_BURST, last: now });
        let passed = now.duration_since(bucket.last).as_secs_f64().max(0.0);
        bucket.tokens = (bucket.tokens + passed / SPAM_SECONDS).min(SPAM_BURST);
        bucket.last = now;
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }

    fn series(&mut self, mut event: Value, now: Timestamp) -> Write {
        let mut key = join(
            &event,
            &["/type", "/action", "/reason", "/reportingComponent", "/reportingInstance"],
            &["kind", "namespace", "name", "uid", "apiVersion"],
        );
        key.push_str(text(&event, "/involvedObject/resourceVersion"));
        bound(&mut self.running);
        if let Some(first) = self.running.get_mut(&key) {
            let count = first.pointer("/series/count").and_then(Value::as_i64);
            first["series"] = json!({"count": count.unwrap_or(1) + 1, "lastObservedTime": micros(now)});
            if count.is_some() {
                return Write::Nothing;
            }
            return Write::Patch { event: first.clone(), patch: json!({"series": first["series"]}) };
        }
        event["metadata"]["name"] = json!(self.name(&event, now));
        self.running.insert(key, event.clone());
        Write::Create(event)
    }

    /// `OBJECT.<nanoseconds in hex>`; never the same twice, also while the clock stands still.
    fn name(&mut self, event: &Value, now: Timestamp) -> String {
        self.last_name = now.as_nanosecond().max(self.last_name + 1);
        format!("{}.{:016x}", text(event, "/involvedObject/name"), self.last_name)
    }
}

/// Keeps a cache within its size. All is forgotten at once: that only restarts counts, which client-go's LRU may do too.
fn bound<T>(cache: &mut HashMap<String, T>) {
    if cache.len() >= CACHE {
        cache.clear();
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn join(event: &Value, pointers: &[&str], involved: &[&str]) -> String {
    let mut key = String::new();
    for pointer in pointers {
        key.push_str(text(event, pointer));
        key.push('\n');
    }
    for field in involved {
        key.push_str(event["involvedObject"][field].as_str().unwrap_or_default());
        key.push('\n');
    }
    key
}

/// An `ObjectReference` to an object, or the reference itself if it is one already.
#[must_use]
pub fn reference(object: &Value) -> Value {
    let Some(metadata) = object.get("metadata") else {
        return object.clone();
    };
    let mut reference = serde_json::Map::new();
    for (from, field) in [
        (object, "kind"),
        (metadata, "namespace"),
        (metadata, "name"),
        (metadata, "uid"),
        (object, "apiVersion"),
        (metadata, "resourceVersion"),
    ] {
        if let Some(value) = from.get(field) {
            reference.insert(field.to_owned(), value.clone());
        }
    }
    Value::Object(reference)
}

/// Events about cluster-scoped objects go to the namespace `default`.
fn event_namespace(object: &Value) -> Value {
    match object.get("namespace").and_then(Value::as_str) {
        Some(namespace) if !namespace.is_empty() => json!(namespace),
        _ => json!("default"),
    }
}

/// `metav1.Time`: whole seconds.
#[must_use]
pub fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `metav1.MicroTime`: six digits.
#[must_use]
pub fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Correlator, Write, micros, reference, seconds};
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn start() -> Timestamp {
        "2026-12-01T02:13:58.25Z".parse().expect("a time")
    }

    fn event(message: &str, at: Timestamp) -> Value {
        json!({
            "metadata": {"namespace": "s38"}, "involvedObject": {"kind": "Pod", "namespace": "s38", "name": "p", "uid": "u"},
            "reason": "FailedResourceClaimCreation", "message": message, "source": {"component": "resource_claim"},
            "firstTimestamp": seconds(at), "lastTimestamp": seconds(at), "count": 1, "type": "Warning",
        })
    }

    #[test]
    fn a_repeated_event_is_counted_and_keeps_its_name() {
        let mut correlator = Correlator::default();
        let Write::Create(first) = correlator.correlate(event("no template", start()), start()) else { panic!("a new event") };
        let name = first["metadata"]["name"].as_str().expect("a name");
        assert_eq!(name, format!("p.{:x}", start().as_nanosecond()));
        let later = start() + Duration::from_secs(5);
        let Write::Patch { event: again, patch } = correlator.correlate(event("no template", later), later) else { panic!("a count") };
        assert_eq!(again["metadata"]["name"], first["metadata"]["name"]);
        assert_eq!((&patch["count"], &patch["lastTimestamp"]), (&json!(2), &json!("2026-12-01T02:14:03Z")));
        assert_eq!(again["firstTimestamp"], json!("2026-12-01T02:13:58Z"));
    }

    #[test]
    fn the_tenth_similar_event_is_combined_and_names_differ_while_the_clock_stands() {
        let mut correlator = Correlator::default();
        let mut names = std::collections::BTreeSet::new();
        for number in 1..10 {
            let Write::Create(event) = correlator.correlate(event(&format!("try {number}"), start()), start()) else { panic!("new") };
            assert_eq!(event["message"], json!(format!("try {number}")));
            assert!(names.insert(event["metadata"]["name"].to_string()));
        }
        let Write::Create(tenth) = correlator.correlate(event("try 10", start()), start()) else { panic!("new") };
        assert_eq!(tenth["message"], "(combined from similar events): try 10");
        let Write::Patch { patch, .. } = correlator.correlate(event("try 11", start()), start()) else { panic!("counted") };
        assert_eq!(patch["message"], "(combined from similar events): try 11");
        assert_eq!(patch["count"], 2);
    }

    #[test]
    fn a_flood_about_one_object_is_limited() {
        let mut correlator = Correlator::default();
        let written = |correlator: &mut Correlator, at| correlator.correlate(event("same", at), at) != Write::Nothing;
        assert_eq!((0..40).filter(|_| written(&mut correlator, start())).count(), 25);
        assert!(!written(&mut correlator, start() + Duration::from_secs(200)));
        assert!(written(&mut correlator, start() + Duration::from_secs(301)));
    }

    #[test]
    fn a_series_is_written_at_its_first_repeat_only() {
        let mut correlator = Correlator::default();
        let scheduling = json!({"metadata": {"namespace": "s"}, "type": "Warning", "action": "Scheduling", "reason": "FailedScheduling",
            "involvedObject": {"kind": "Pod", "name": "p", "uid": "u", "resourceVersion": "7"}});
        assert!(matches!(correlator.series(scheduling.clone(), start()), Write::Create(_)));
        let Write::Patch { patch, .. } = correlator.series(scheduling.clone(), start()) else { panic!("a series") };
        assert_eq!(patch, json!({"series": {"count": 2, "lastObservedTime": "2026-12-01T02:13:58.250000Z"}}));
        assert_eq!(correlator.series(scheduling.clone(), start()), Write::Nothing);
        let mut changed = scheduling;
        changed["involvedObject"]["resourceVersion"] = json!("8");
        assert!(matches!(correlator.series(changed, start()), Write::Create(_)));
    }

    #[test]
    fn a_reference_names_object_and_revision() {
        let pod =
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "5"}});
        assert_eq!(
            reference(&pod),
            json!({"kind": "Pod", "namespace": "n", "name": "p", "uid": "u", "apiVersion": "v1", "resourceVersion": "5"})
        );
        assert_eq!(micros(start()), "2026-12-01T02:13:58.250000Z");
    }
}
