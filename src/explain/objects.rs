//! The objects of a cluster by kind, as the API gives them or as files have them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::lint::convert::to_v1;
use crate::model::features::{Feature, Features};
use crate::model::ids::DeviceId;
use crate::model::taint::with_rules;
use crate::scheduling::change::{Change, key_of};
use crate::scheduling::snapshot::{Snapshot, key_of_claim};
use crate::scheduling::view::{Key, PodView, allocation};

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A ResourceClaim.
    Claim(Key),
    /// A pod.
    Pod(Key),
}

impl Target {
    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Target::Claim(key) | Target::Pod(key) => key,
        }
    }
}

/// An object that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {key} cannot be read: {reason}")]
pub struct ObjectError {
    kind: String,
    key: Key,
    reason: String,
}

/// The objects of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The gates that the scheduler goes by.
    pub features: Features,
    /// What the scheduler sees.
    pub snapshot: Snapshot,
    /// Slices, with the taints of rules, by name.
    pub slices: Vec<Arc<ResourceSlice>>,
    /// Device classes by name.
    pub classes: BTreeMap<String, Arc<DeviceClass>>,
    /// The pods.
    pub pods: BTreeMap<Key, Arc<PodView>>,
    raw: HashMap<(String, Key), Value>,
    events: Vec<Value>,
    holders: HashMap<DeviceId, Vec<Key>>,
    /// Nodes were not given and are those that slices name.
    pub nodes_from_slices: bool,
}

impl Objects {
    /// Sorts objects of any kind; kinds that play no part are passed over. What files leave out is filled in as the API
    /// server would: defaults, namespace `default`, names that are to be generated.
    ///
    /// # Errors
    /// A field of an object has another type than its kind says.
    pub fn read(objects: Vec<Value>, features: Features) -> Result<Self, ObjectError> {
        let mut all = Objects { features, snapshot: Snapshot::new(features), ..Objects::default() };
        let mut slices: BTreeMap<String, Arc<ResourceSlice>> = BTreeMap::new();
        let mut rules = Vec::new();
        let mut objects = objects;
        for (number, object) in objects.iter_mut().enumerate() {
            complete(object, number);
        }
        claims_of_templates(&mut objects);
        for object in objects {
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            let fault = |reason: String, object: &Value| ObjectError { kind: kind.clone(), key: key_of(object), reason };
            match kind.as_str() {
                "Event" => {
                    all.events.push(object);
                    continue;
                }
                "DeviceTaintRule" => {
                    let rule = DeviceTaintRule::deserialize(&object).map_err(|error| fault(error.to_string(), &object))?;
                    rules.push(Arc::new(rule));
                }
                _ => match Change::read(&object, false).map_err(|error| fault(error.to_string(), &object))? {
                    Some(Change::Slice(slice)) => {
                        slices.insert(slice.metadata.name.clone().unwrap_or_default(), slice);
                        continue;
                    }
                    Some(change) => {
                        match &change {
                            Change::Class(class) => {
                                all.classes.insert(class.metadata.name.clone().unwrap_or_default(), class.clone());
                            }
                            Change::Pod(pod) => {
                                all.pods.insert(pod.key().clone(), pod.clone());
                            }
                            _ => {}
                        }
                        all.snapshot.apply(&change);
                    }
                    None => {}
                },
            }
            all.raw.insert((kind, key_of(&object)), object);
        }
        let rules = if features.has(Feature::DeviceTaints) && features.has(Feature::DeviceTaintRules) { rules } else { Vec::new() };
        for slice in slices.into_values() {
            let slice = with_rules(&slice, &rules);
            all.snapshot.apply(&Change::Slice(slice.clone()));
            all.slices.push(slice);
        }
        all.nodes_of_slices();
        all.find_holders();
        Ok(all)
    }

    /// Without any node object the nodes are those that slices name.
    fn nodes_of_slices(&mut self) {
        if !self.snapshot.nodes().is_empty() {
            return;
        }
        let names: std::collections::BTreeSet<&str> = self.slices.iter().filter_map(|slice| slice.spec.node_name.as_deref()).collect();
        for name in names {
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
            if let Ok(Some(change)) = Change::read(&roomy(node), false) {
                self.snapshot.apply(&change);
                self.nodes_from_slices = true;
            }
        }
    }

    fn find_holders(&mut self) {
        for claim in self.snapshot.claims() {
            let results = allocation(claim).and_then(|a| a.devices.as_ref()).and_then(|d| d.results.as_deref()).unwrap_or_default();
            for result in results.iter().filter(|result| result.admin_access != Some(true)) {
                let id = DeviceId::new(&result.driver, &result.pool, &result.device);
                let holders = self.holders.entry(id).or_default();
                let key = key_of_claim(claim);
                if !holders.contains(&key) {
                    holders.push(key);
                }
            }
        }
    }

    /// An object as it came.
    #[must_use]
    pub fn raw(&self, kind: &str, key: &Key) -> Option<&Value> {
        self.raw.get(&(kind.to_owned(), key.clone()))
    }

    /// All objects of a kind, by key.
    #[must_use]
    pub fn of_kind(&self, kind: &str) -> BTreeMap<&Key, &Value> {
        self.raw.iter().filter(|((of, _), _)| of == kind).map(|((_, key), object)| (key, object)).collect()
    }

    /// The events about an object, oldest first.
    #[must_use]
    pub fn events_about(&self, kind: &str, key: &Key, uid: &str) -> Vec<&Value> {
        let about = |event: &&Value| {
            let object = &event["involvedObject"];
            let object = if object.is_object() { object } else { &event["regarding"] };
            object["kind"] == kind
                && object["name"] == key.name.as_str()
                && object["namespace"].as_str().unwrap_or_default() == key.namespace
                && object["uid"].as_str().is_none_or(|of| of.is_empty() || uid.is_empty() || uid.starts_with("file:") || of == uid)
        };
        let mut events: Vec<&Value> = self.events.iter().filter(about).collect();
        events.sort_by(|a, b| event_time(a).cmp(event_time(b)));
        events
    }

    /// A claim.
    #[must_use]
    pub fn claim(&self, key: &Key) -> Option<&Arc<ResourceClaim>> {
        self.snapshot.claim_by_key(key)
    }

    /// The claims that hold a device.
    #[must_use]
    pub fn holders(&self, device: &DeviceId) -> &[Key] {
        self.holders.get(device).map(Vec::as_slice).unwrap_or_default()
    }

    /// The pods that refer to a claim by name, or whose generated claim it is.
    pub fn consumers(&self, claim: &Key) -> impl Iterator<Item = &Arc<PodView>> {
        self.pods.values().filter(move |pod| {
            pod.key().namespace == claim.namespace
                && pod.claims.iter().any(|entry| crate::scheduling::claims::key_of_entry(pod, entry).ok().flatten().as_ref() == Some(claim))
        })
    }
}

/// When an event was seen last.
pub(super) fn event_time(event: &Value) -> &str {
    [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["deprecatedLastTimestamp"],
        &event["metadata"]["creationTimestamp"],
    ]
    .into_iter()
    .find_map(Value::as_str)
    .unwrap_or_default()
}

/// What the resourceclaim controller would make for pods of files: a claim for each entry that names a template which is
/// there. Pods of a cluster have uids, and their claims are there or are not.
fn claims_of_templates(objects: &mut Vec<Value>) {
    let is = |object: &Value, kind: &str| object["kind"] == kind;
    let of_file = |object: &Value| object["metadata"]["uid"].as_str().is_some_and(|uid| uid.starts_with("file:"));
    let templates: HashMap<Key, Value> =
        objects.iter().filter(|o| is(o, "ResourceClaimTemplate")).map(|o| (key_of(o), o["spec"]["spec"].clone())).collect();
    let mut made = Vec::new();
    for pod in objects.iter_mut().filter(|object| is(object, "Pod") && of_file(object) && object["status"].is_null()) {
        let (key, uid) = (key_of(pod), pod["metadata"]["uid"].clone());
        let mut statuses = Vec::new();
        for entry in pod["spec"]["resourceClaims"].as_array().into_iter().flatten() {
            let (Some(name), Some(template)) = (entry["name"].as_str(), entry["resourceClaimTemplateName"].as_str()) else { continue };
            let Some(spec) = templates.get(&Key::new(&key.namespace, template)) else { continue };
            let claim = format!("{}-{name}", key.name);
            statuses.push(json!({"name": name, "resourceClaimName": claim}));
            made.push(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec, "metadata": {
                "name": claim, "namespace": key.namespace, "uid": format!("file:{}/{claim}", key.namespace),
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": uid, "controller": true}]}}));
        }
        if !statuses.is_empty()
            && let Some(fields) = pod.as_object_mut()
        {
            fields.insert("status".to_owned(), json!({"resourceClaimStatuses": statuses}));
        }
    }
    objects.extend(made);
}

/// A node of a file that says nothing of its room has enough of it.
fn roomy(mut node: Value) -> Value {
    let room = json!({"cpu": "1k", "memory": "1Pi", "ephemeral-storage": "1Pi", "pods": "1k"});
    let status = node.as_object_mut().map(|fields| fields.entry("status").or_insert_with(|| json!({})));
    if let Some(status) = status.and_then(Value::as_object_mut) {
        status.entry("allocatable").or_insert(room);
    }
    node
}

/// Fills in what the API server would: only what is not there. Anything of an unexpected shape is left for decoding to
/// complain about.
fn complete(object: &mut Value, number: usize) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let Some(fields) = object.as_object_mut() else { return };
    let Some(metadata) = fields.entry("metadata").or_insert_with(|| json!({})).as_object_mut() else { return };
    let blank = |metadata: &serde_json::Map<String, Value>, field: &str| {
        metadata.get(field).is_none_or(|value| value.is_null() || value.as_str() == Some(""))
    };
    if blank(metadata, "name") {
        let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or("unnamed-").to_owned();
        metadata.insert("name".to_owned(), json!(format!("{prefix}{number:05}")));
    }
    let namespaced = matches!(kind.as_str(), "Pod" | "ResourceClaim" | "ResourceClaimTemplate" | "Event");
    if namespaced && blank(metadata, "namespace") {
        metadata.insert("namespace".to_owned(), json!("default"));
    }
    if blank(metadata, "uid") {
        let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let uid = format!("file:{kind}:{}/{}", text("namespace"), text("name"));
        metadata.insert("uid".to_owned(), json!(uid));
    }
    match object["apiVersion"].as_str() {
        Some("resource.k8s.io/v1alpha3" | "resource.k8s.io/v1beta1") => {
            if let Some(converted) = to_v1(object) {
                *object = converted;
            }
        }
        // The shape is that of v1; what is not in it would be dropped, and is told.
        Some("resource.k8s.io/v1beta2") => object["apiVersion"] = json!("resource.k8s.io/v1"),
        _ => {}
    }
    match kind.as_str() {
        "Node" => *object = roomy(object.take()),
        "ResourceClaim" => complete_requests(object.pointer_mut("/spec/devices/requests")),
        "ResourceClaimTemplate" => complete_requests(object.pointer_mut("/spec/spec/devices/requests")),
        "ResourceSlice" => {
            if let Some(pool) = object.pointer_mut("/spec/pool").and_then(Value::as_object_mut) {
                for field in ["resourceSliceCount", "generation"] {
                    pool.entry(field).or_insert(json!(1));
                }
            }
        }
        _ => {}
    }
}

fn objects_of(list: Option<&mut Value>) -> impl Iterator<Item = &mut serde_json::Map<String, Value>> {
    list.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn complete_requests(requests: Option<&mut Value>) {
    for request in objects_of(requests) {
        if let Some(exactly) = request.get_mut("exactly").and_then(Value::as_object_mut) {
            complete_request(exactly);
        }
        for alternative in objects_of(request.get_mut("firstAvailable")) {
            complete_request(alternative);
        }
    }
}

fn complete_request(request: &mut serde_json::Map<String, Value>) {
    let text = |field: &str| request.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    if text("allocationMode").is_empty() {
        request.insert("allocationMode".to_owned(), json!("ExactCount"));
    }
    let counts = request.get("allocationMode").is_some_and(|mode| mode == "ExactCount");
    if counts && request.get("count").is_none_or(|count| count.is_null() || count == 0) {
        request.insert("count".to_owned(), json!(1));
    }
}
