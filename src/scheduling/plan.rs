//! The writes of a decision, and how each changes its object: plain data over JSON objects.

use jiff::Timestamp;
use k8s_openapi::api::resource::v1::AllocationResult;
use serde::Serialize;
use serde_json::{Value, json};

use super::view::{Key, PodRef, RESERVED_FOR_MAX, Uid};

/// The finalizer that keeps an allocated claim until it is deallocated.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

const PRE_BIND: &str = "running PreBind plugin \"DynamicResources\"";

/// The writes that carry a decision out, in order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    /// In order. For a placement each needs the one before it; see [`Write::is_vital`].
    pub writes: Vec<Write>,
}

impl Plan {
    /// Whether it writes an allocation into a claim.
    #[must_use]
    pub fn allocates(&self) -> bool {
        self.writes.iter().any(|write| matches!(write, Write::Reserve { allocation: Some(_), .. }))
    }

    /// The nomination, which comes before the binding cycle, and all that comes after it.
    #[must_use]
    pub fn split_nomination(mut self) -> (Plan, Plan) {
        let first = self.writes.iter().take_while(|write| matches!(write, Write::Nominate { .. })).count();
        let rest = self.writes.split_off(first);
        (self, Plan { writes: rest })
    }
}

/// One write.
#[derive(Clone, Debug, Serialize)]
pub enum Write {
    /// Patch of a pod's status: `nominatedNodeName`.
    Nominate {
        /// The pod.
        pod: PodRef,
        /// The node.
        node: String,
    },
    /// Update of a claim: the finalizer.
    AddFinalizer {
        /// The claim.
        claim: ClaimRef,
    },
    /// Update of a claim's status: allocation (if it had none) and reservation, in one write.
    Reserve {
        /// The claim.
        claim: ClaimRef,
        /// The new allocation; `None` if the claim has one.
        allocation: Option<Box<AllocationResult>>,
        /// For whom.
        pod: PodRef,
    },
    /// The binding of a pod.
    Bind {
        /// The pod.
        pod: PodRef,
        /// The node.
        node: String,
    },
    /// An Event in the style of events.k8s.io.
    Event(Note),
    /// Patch of a pod's status: PodScheduled=False, and no nominated node.
    Condition {
        /// The pod.
        pod: PodRef,
        /// `observedGeneration`.
        generation: i64,
        /// Unschedulable or SchedulerError.
        reason: &'static str,
        /// The message.
        message: String,
    },
    /// Patch of a claim's status: the pod is not reserved for any more; the allocation stays.
    Unreserve {
        /// The claim.
        claim: ClaimRef,
        /// The pod.
        pod: Uid,
    },
    /// Update of a claim's status: allocation and reservations are removed.
    Deallocate {
        /// The claim.
        claim: ClaimRef,
        /// The pod that it is done for.
        pod: Uid,
    },
}

/// Which claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimRef {
    /// Namespace and name.
    pub key: Key,
    /// Uid.
    pub uid: Uid,
}

/// What an Event says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The pod that it is about, in the revision that was looked at.
    pub pod: PodRef,
    /// Type Warning instead of Normal.
    pub warning: bool,
    /// Reason, such as `FailedScheduling`.
    pub reason: &'static str,
    /// Action: `Binding` or `Scheduling`.
    pub action: &'static str,
    /// Message.
    pub message: String,
}

/// Why a write cannot be made on the object as it is now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The claim is another one by now, or being deleted.
    #[error("claim {0} got deleted in the meantime")]
    Deleted(Key),
    /// The claim has got an allocation from somebody else.
    #[error("claim {0} got allocated elsewhere in the meantime")]
    AllocatedElsewhere(Key),
    /// The claim has lost its allocation.
    #[error("claim {0} got deallocated elsewhere in the meantime")]
    DeallocatedElsewhere(Key),
    /// The claim is reserved for as many as can be.
    #[error("claim {0} is reserved for {RESERVED_FOR_MAX} consumers already")]
    Full(Key),
    /// The pod is another one by now.
    #[error("pod {0} got replaced in the meantime")]
    Replaced(Key),
    /// The allocation cannot be written as JSON.
    #[error("claim {0}: {1}")]
    Unwritable(Key, String),
}

impl Write {
    /// True if the writes after it must not be made when it fails. Events and conditions are told as well as can be;
    /// so is the nomination, as upstream.
    #[must_use]
    pub fn is_vital(&self) -> bool {
        matches!(self, Write::AddFinalizer { .. } | Write::Reserve { .. } | Write::Bind { .. })
    }

    /// The message of an attempt that failed because the object has changed ([`Write::apply`]), in upstream's words.
    #[must_use]
    pub fn outdated(&self, error: &WriteError) -> String {
        format!("{PRE_BIND}: {error}")
    }

    /// The message of an attempt that failed because the API refused this write, in upstream's words.
    #[must_use]
    pub fn refused(&self, error: &str) -> String {
        match self {
            Write::AddFinalizer { claim } => format!("{PRE_BIND}: add finalizer to claim {}: {error}", claim.key),
            Write::Reserve { claim, allocation: Some(_), .. } => {
                format!("{PRE_BIND}: add allocation and reservation to claim {}: {error}", claim.key)
            }
            Write::Reserve { claim, .. } => format!("{PRE_BIND}: add reservation to claim {}: {error}", claim.key),
            Write::Bind { .. } => format!("running Bind plugin \"DefaultBinder\": {error}"),
            _ => error.to_owned(),
        }
    }

    /// The object as this write makes it at `now`; `None` if it is so already. Bindings and Events are not changes of
    /// an object and give `None` too.
    ///
    /// # Errors
    /// The object has changed so that the write makes no sense any more.
    pub fn apply(&self, object: &Value, now: Timestamp) -> Result<Option<Value>, WriteError> {
        match self {
            Write::Bind { .. } | Write::Event(_) => Ok(None),
            Write::Nominate { pod, node } => {
                same_pod(object, pod)?;
                Ok(changed(object, |object| object["status"]["nominatedNodeName"] = json!(node)))
            }
            Write::Condition { pod, generation, reason, message } => {
                same_pod(object, pod)?;
                Ok(changed(object, |object| set_condition(object, *generation, reason, message, now)))
            }
            Write::AddFinalizer { claim } => {
                same_claim(object, claim)?;
                if object.pointer("/status/allocation").is_some_and(|allocation| !allocation.is_null()) {
                    return Err(WriteError::AllocatedElsewhere(claim.key.clone()));
                }
                Ok(changed(object, |object| add(&mut object["metadata"]["finalizers"], json!(FINALIZER))))
            }
            Write::Reserve { claim, allocation, pod } => reserve(object, claim, allocation.as_deref(), pod, now).map(Some),
            Write::Unreserve { claim, pod } => {
                if !has_uid(object, &claim.uid) {
                    return Ok(None);
                }
                Ok(changed(object, |object| {
                    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else {
                        return;
                    };
                    if let Some(Value::Array(consumers)) = status.get_mut("reservedFor") {
                        consumers.retain(|consumer| consumer["uid"] != pod.as_str());
                        if consumers.is_empty() {
                            status.remove("reservedFor");
                        }
                    }
                }))
            }
            Write::Deallocate { claim, pod } => {
                same_claim(object, claim)?;
                let consumers = object.pointer("/status/reservedFor").and_then(Value::as_array);
                if consumers.is_some_and(|consumers| consumers.iter().any(|consumer| consumer["uid"] != pod.as_str())) {
                    return Ok(None);
                }
                Ok(changed(object, |object| object["status"] = json!({})))
            }
        }
    }
}

fn changed(object: &Value, change: impl FnOnce(&mut Value)) -> Option<Value> {
    let mut new = object.clone();
    change(&mut new);
    (new != *object).then_some(new)
}

fn add(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) if items.contains(&item) => {}
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

fn has_uid(object: &Value, uid: &Uid) -> bool {
    object.pointer("/metadata/uid").and_then(Value::as_str) == Some(uid.as_str())
}

fn same_pod(object: &Value, pod: &PodRef) -> Result<(), WriteError> {
    if has_uid(object, &pod.uid) { Ok(()) } else { Err(WriteError::Replaced(pod.key.clone())) }
}

fn same_claim(object: &Value, claim: &ClaimRef) -> Result<(), WriteError> {
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null());
    if has_uid(object, &claim.uid) && !deleting { Ok(()) } else { Err(WriteError::Deleted(claim.key.clone())) }
}

fn reserve(
    object: &Value,
    claim: &ClaimRef,
    allocation: Option<&AllocationResult>,
    pod: &PodRef,
    now: Timestamp,
) -> Result<Value, WriteError> {
    same_claim(object, claim)?;
    let has_allocation = object.pointer("/status/allocation").is_some_and(|allocation| !allocation.is_null());
    let mut new = object.clone();
    match allocation {
        Some(_) if has_allocation => return Err(WriteError::AllocatedElsewhere(claim.key.clone())),
        None if !has_allocation => return Err(WriteError::DeallocatedElsewhere(claim.key.clone())),
        Some(allocation) => {
            let written = serde_json::to_value(allocation).map_err(|error| WriteError::Unwritable(claim.key.clone(), error.to_string()))?;
            new["status"]["allocation"] = written;
            new["status"]["allocation"]["allocationTimestamp"] = json!(seconds(now));
        }
        None => {}
    }
    let consumers = &mut new["status"]["reservedFor"];
    if consumers.as_array().is_some_and(|consumers| consumers.len() >= RESERVED_FOR_MAX) {
        return Err(WriteError::Full(claim.key.clone()));
    }
    add(consumers, json!({"resource": "pods", "name": pod.key.name, "uid": pod.uid.as_str()}));
    Ok(new)
}

/// Sets PodScheduled=False; the time of the last transition stays if it was False before (upstream: `UpdatePodCondition`).
fn set_condition(pod: &mut Value, generation: i64, reason: &str, message: &str, now: Timestamp) {
    if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("nominatedNodeName");
    }
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    let at = conditions.iter().position(|condition| condition["type"] == super::view::POD_SCHEDULED);
    let since = at.filter(|at| conditions[*at]["status"] == "False").map(|at| conditions[at]["lastTransitionTime"].clone());
    let condition = json!({
        "type": super::view::POD_SCHEDULED, "observedGeneration": generation, "status": "False", "lastProbeTime": null,
        "lastTransitionTime": since.unwrap_or_else(|| json!(seconds(now))), "reason": reason, "message": message,
    });
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// `metav1.Time`: whole seconds.
fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::super::view::{Key, PodRef, Uid};
    use super::{ClaimRef, FINALIZER, Write, WriteError};

    fn now() -> Timestamp {
        "2026-12-01T02:00:06.25Z".parse().expect("a time")
    }

    fn pod() -> PodRef {
        PodRef { key: Key::new("n", "p"), uid: Uid::from("pu"), revision: "1".to_owned() }
    }

    fn claim() -> ClaimRef {
        ClaimRef { key: Key::new("n", "c"), uid: Uid::from("cu") }
    }

    fn object(status: &Value) -> Value {
        json!({"metadata": {"namespace": "n", "name": "c", "uid": "cu"}, "status": status})
    }

    #[test]
    fn a_claim_goes_up_and_down() {
        let with_finalizer = Write::AddFinalizer { claim: claim() }.apply(&object(&json!({})), now()).expect("fine").expect("a change");
        assert_eq!(with_finalizer["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(Write::AddFinalizer { claim: claim() }.apply(&with_finalizer, now()), Ok(None));
        let reserve = |new: bool| Write::Reserve { claim: claim(), allocation: new.then(Box::default), pod: pod() };
        let allocated = reserve(true).apply(&with_finalizer, now()).expect("fine").expect("a change");
        assert_eq!(
            allocated["status"],
            json!({"allocation": {"allocationTimestamp": "2026-12-01T02:00:06Z"},
                   "reservedFor": [{"resource": "pods", "name": "p", "uid": "pu"}]})
        );
        assert_eq!(reserve(true).apply(&allocated, now()), Err(WriteError::AllocatedElsewhere(Key::new("n", "c"))));
        assert_eq!(reserve(false).apply(&with_finalizer, now()), Err(WriteError::DeallocatedElsewhere(Key::new("n", "c"))));
        let freed = Write::Unreserve { claim: claim(), pod: Uid::from("pu") }.apply(&allocated, now()).expect("fine").expect("a change");
        assert_eq!(freed["status"], json!({"allocation": {"allocationTimestamp": "2026-12-01T02:00:06Z"}}));
        let gone = Write::Deallocate { claim: claim(), pod: Uid::from("pu") };
        assert_eq!(gone.apply(&allocated, now()).expect("fine").expect("a change")["status"], json!({}));
        let mut others = allocated.clone();
        others["status"]["reservedFor"][0]["uid"] = json!("other");
        assert_eq!(gone.apply(&others, now()), Ok(None), "somebody else came to use it");
        let mut deleted = allocated;
        deleted["metadata"]["deletionTimestamp"] = json!("2026-12-01T02:00:00Z");
        assert_eq!(reserve(false).apply(&deleted, now()), Err(WriteError::Deleted(Key::new("n", "c"))));
    }

    #[test]
    fn the_257th_consumer_is_refused() {
        let consumers: Vec<Value> = (0..256).map(|number| json!({"uid": number.to_string()})).collect();
        let full = object(&json!({"allocation": {}, "reservedFor": consumers}));
        let write = Write::Reserve { claim: claim(), allocation: None, pod: pod() };
        assert_eq!(write.apply(&full, now()), Err(WriteError::Full(Key::new("n", "c"))));
    }

    #[test]
    fn a_condition_keeps_the_time_of_its_transition() {
        let condition = |reason| Write::Condition { pod: pod(), generation: 1, reason, message: "m".to_owned() };
        let fresh = json!({"metadata": {"uid": "pu"}, "status": {"phase": "Pending", "nominatedNodeName": "w"}});
        let first = condition("SchedulerError").apply(&fresh, now()).expect("fine").expect("a change");
        assert_eq!(
            first["status"],
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "observedGeneration": 1, "status": "False",
                "lastProbeTime": null, "lastTransitionTime": "2026-12-01T02:00:06Z", "reason": "SchedulerError", "message": "m"}]})
        );
        let later = now() + std::time::Duration::from_secs(60);
        assert_eq!(condition("SchedulerError").apply(&first, later), Ok(None), "nothing changed: nothing is written");
        let second = condition("Unschedulable").apply(&first, later).expect("fine").expect("a change");
        assert_eq!(second["status"]["conditions"][0]["lastTransitionTime"], "2026-12-01T02:00:06Z");
        assert_eq!(second["status"]["conditions"][0]["reason"], "Unschedulable");
    }
}
