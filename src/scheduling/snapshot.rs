//! All objects that decisions look at, what is charged to each node, and allocations that are not written yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{AllocationResult, DeviceClass, ResourceClaim, ResourceSlice};

use super::change::Change;
use super::hints::Event;
use super::resources::Resources;
use super::view::{HostPort, Key, NodeView, PodView, Uid, allocation};
use crate::allocator::{AllocatedState, Allocator, Features, Inventory};
use crate::model::ids::DeviceId;

/// What pods take from one node.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// The sum of their requests.
    pub requests: Resources,
    /// The sum of what scoring counts for them.
    pub scored: Resources,
    /// How many they are.
    pub pods: i64,
    /// Host ports that they bind.
    pub ports: Vec<HostPort>,
}

impl Usage {
    fn add(&mut self, pod: &PodView) {
        self.requests.add(&pod.requests);
        self.scored.add(&pod.scored);
        self.pods += 1;
        self.ports.extend(pod.ports.iter().cloned());
    }

    fn subtract(&mut self, pod: &PodView) {
        self.requests.subtract(&pod.requests);
        self.scored.subtract(&pod.scored);
        self.pods -= 1;
        for port in &pod.ports {
            if let Some(at) = self.ports.iter().position(|bound| bound == port) {
                self.ports.swap_remove(at);
            }
        }
    }
}

/// The cluster as far as the scheduler has seen it. A clone is cheap in memory (objects are shared) and independent.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    features: Features,
    nodes: BTreeMap<String, Arc<NodeView>>,
    pods: HashMap<Key, Arc<PodView>>,
    claims: BTreeMap<Key, Arc<ResourceClaim>>,
    classes: BTreeMap<String, Arc<DeviceClass>>,
    slices: BTreeMap<String, Arc<ResourceSlice>>,
    usage: HashMap<String, Usage>,
    charged: HashMap<Uid, (String, Arc<PodView>)>,
    assumed: HashMap<Uid, String>,
    in_flight: BTreeMap<Uid, Arc<ResourceClaim>>,
    /// Prepared slices; `None` after slices have changed.
    inventory: Option<Arc<Inventory>>,
    /// Made of the inventory, the classes and what allocations hold; lives through many pods.
    allocator: Option<Arc<Allocator>>,
    /// Two allocations hold one device (somebody wrote a status by hand): giving one back does not free it.
    held_twice: bool,
}

/// How many steps the search for one node may take before it gives up; far more than any sensible claim needs, few
/// enough that the scheduler answers within seconds (upstream gives up after 10 s).
const STEP_BUDGET: u64 = 2_000_000;

impl Snapshot {
    /// An empty cluster with these feature gates.
    #[must_use]
    pub fn new(features: Features) -> Self {
        Snapshot { features, ..Snapshot::default() }
    }

    /// Takes a change in. An object that is older than the one held (by resourceVersion) is passed over: what the
    /// scheduler wrote itself it knows before the watch tells. The answer is what the change means for waiting pods.
    pub fn apply(&mut self, change: &Change) -> Option<Event> {
        match change {
            Change::Pod(pod) => self.pod(pod),
            Change::PodGone(key, uid) => {
                if self.pods.get(key).is_some_and(|held| held.uid() == uid) {
                    self.pods.remove(key);
                }
                self.assumed.remove(uid);
                self.release(uid)
            }
            Change::Node(node) => {
                let old = self.nodes.insert(node.name.clone(), node.clone());
                Some(match old {
                    None => Event::NodeAdded(node.clone()),
                    Some(old) => Event::NodeChanged { old, new: node.clone() },
                })
            }
            Change::NodeGone(name) => {
                self.nodes.remove(name);
                None
            }
            Change::Claim(claim) => self.claim(claim),
            Change::ClaimGone(key, uid) => {
                let held = self.claims.get(key).filter(|held| held.metadata.uid.as_deref() == Some(uid.as_str()))?.clone();
                self.claims.remove(key);
                self.holds_changed(allocation(&held), None);
                allocation(&held).map(|_| Event::DevicesFreed)
            }
            Change::Class(class) => {
                self.classes.insert(class.metadata.name.clone().unwrap_or_default(), class.clone());
                self.allocator = None;
                Some(Event::ClassChanged)
            }
            Change::ClassGone(name) => {
                self.classes.remove(name);
                self.allocator = None;
                None
            }
            Change::Slice(slice) => {
                self.slices.insert(slice.metadata.name.clone().unwrap_or_default(), slice.clone());
                (self.inventory, self.allocator) = (None, None);
                Some(Event::SliceChanged)
            }
            Change::SliceGone(name) => {
                self.slices.remove(name);
                (self.inventory, self.allocator) = (None, None);
                None
            }
        }
    }

    fn pod(&mut self, pod: &Arc<PodView>) -> Option<Event> {
        let uid = pod.uid().clone();
        let mut event = None;
        if let Some(held) = self.pods.get(pod.key()).cloned() {
            if held.uid() == &uid {
                if older(&pod.reference.revision, &held.reference.revision) {
                    return None;
                }
            } else {
                // The deletion of the earlier pod of this name went unseen.
                self.assumed.remove(held.uid());
                event = self.release(&held.uid().clone());
            }
        }
        self.pods.insert(pod.key().clone(), pod.clone());
        if pod.node.is_some() {
            self.assumed.remove(&uid);
        }
        let target = if pod.finished { None } else { pod.node.clone().or_else(|| self.assumed.get(&uid).cloned()) };
        match target {
            Some(node) => {
                self.charge(&node, pod);
                event
            }
            None => self.release(&uid).or(event),
        }
    }

    fn claim(&mut self, claim: &Arc<ResourceClaim>) -> Option<Event> {
        let key = key_of_claim(claim);
        let old = self.claims.get(&key).cloned();
        if let Some(old) = &old
            && old.metadata.uid == claim.metadata.uid
            && !older(revision(old), revision(claim))
        {
            return None;
        }
        self.holds_changed(old.as_deref().and_then(allocation), allocation(claim));
        self.claims.insert(key, claim.clone());
        Some(Event::ClaimChanged { old, new: claim.clone() })
    }

    fn charge(&mut self, node: &str, pod: &Arc<PodView>) {
        self.uncharge(pod.uid());
        self.usage.entry(node.to_owned()).or_default().add(pod);
        self.charged.insert(pod.uid().clone(), (node.to_owned(), pod.clone()));
    }

    fn uncharge(&mut self, uid: &Uid) -> Option<(String, Arc<PodView>)> {
        let (node, pod) = self.charged.remove(uid)?;
        if let Some(usage) = self.usage.get_mut(&node) {
            usage.subtract(&pod);
            if usage.pods == 0 {
                self.usage.remove(&node);
            }
        }
        Some((node, pod))
    }

    fn release(&mut self, uid: &Uid) -> Option<Event> {
        self.uncharge(uid).map(|(node, pod)| Event::PodReleased { node, pod })
    }

    /// Counts a pod on a node before its binding is written.
    pub fn assume(&mut self, pod: &Arc<PodView>, node: &str) {
        self.assumed.insert(pod.uid().clone(), node.to_owned());
        self.charge(node, pod);
    }

    /// Takes [`Snapshot::assume`] back: the pod was not bound.
    pub fn forget(&mut self, pod: &Uid) -> Option<Event> {
        self.assumed.remove(pod)?;
        self.release(pod)
    }

    /// True if the pod is counted on a node though its binding has not been seen.
    #[must_use]
    pub fn is_assumed(&self, pod: &Uid) -> bool {
        self.assumed.contains_key(pod)
    }

    /// Marks a claim as about to get this allocation; other pods wait for it and its devices are taken.
    pub fn begin_allocation(&mut self, claim: &Arc<ResourceClaim>, result: AllocationResult) {
        let mut coming = ResourceClaim::clone(claim);
        self.holds_changed(None, Some(&result));
        coming.status.get_or_insert_default().allocation = Some(result);
        self.in_flight.insert(uid_of_claim(claim), Arc::new(coming));
    }

    /// The allocation of a claim was written (then the claim is here with it already) or given up; then devices are free.
    pub fn end_allocation(&mut self, claim: &str) -> Option<Event> {
        let coming = self.in_flight.remove(claim)?;
        let written = self.claims.get(&key_of_claim(&coming)).and_then(|held| allocation(held));
        if written.map(|written| &written.devices) == allocation(&coming).map(|coming| &coming.devices) {
            return None;
        }
        self.holds_changed(allocation(&coming), None);
        Some(Event::DevicesFreed)
    }

    /// Tells the allocator; where it cannot follow it is made anew for the next pod.
    fn holds_changed(&mut self, old: Option<&AllocationResult>, new: Option<&AllocationResult>) {
        if old.map(|old| &old.devices) == new.map(|new| &new.devices) {
            return;
        }
        let Some(allocator) = self.allocator.as_mut().and_then(Arc::get_mut).filter(|_| old.is_none() || !self.held_twice) else {
            self.allocator = None;
            return;
        };
        if let Some(old) = old {
            allocator.release(old);
        }
        if let Some(new) = new {
            self.held_twice |= exclusive_devices(new).any(|id| allocator.state().devices.contains(&id));
            allocator.hold(new);
        }
    }

    /// True while the allocation of the claim with this uid is being written.
    #[must_use]
    pub fn is_in_flight(&self, claim: &str) -> bool {
        self.in_flight.contains_key(claim)
    }

    /// The allocator for the devices as they are now; prepared again only after something about devices has changed.
    pub fn allocator(&mut self) -> Arc<Allocator> {
        if let Some(allocator) = &self.allocator {
            return allocator.clone();
        }
        let features = self.features;
        let (claims, in_flight, slices) = (&self.claims, &self.in_flight, &self.slices);
        let all = || claims.values().chain(in_flight.values()).map(|claim| &**claim);
        let state = AllocatedState::from_claims(all(), &features);
        self.held_twice = all().filter_map(allocation).flat_map(exclusive_devices).count() != state.devices.len();
        let inventory =
            self.inventory.get_or_insert_with(|| Arc::new(Inventory::new(features, &slices.values().cloned().collect::<Vec<_>>())));
        let allocator = Allocator::with_inventory(inventory.clone(), &self.classes, state).with_step_budget(STEP_BUDGET);
        let allocator = Arc::new(allocator);
        self.allocator = Some(allocator.clone());
        allocator
    }

    /// The nodes, by name.
    #[must_use]
    pub fn nodes(&self) -> &BTreeMap<String, Arc<NodeView>> {
        &self.nodes
    }

    /// What pods take from a node.
    #[must_use]
    pub fn usage(&self, node: &str) -> Option<&Usage> {
        self.usage.get(node)
    }

    /// True if this claim, in this revision or a later one, is known already. Other kinds are written by others.
    #[must_use]
    pub fn knows(&self, object: &serde_json::Value) -> bool {
        let text = |pointer: &str| object.pointer(pointer).and_then(serde_json::Value::as_str);
        text("/kind") == Some("ResourceClaim")
            && self.claims.get(&super::change::key_of(object)).is_some_and(|held| {
                held.metadata.uid.as_deref() == text("/metadata/uid")
                    && text("/metadata/resourceVersion").is_some_and(|new| !older(revision(held), new))
            })
    }

    /// A pod.
    #[must_use]
    pub fn pod_by_key(&self, key: &Key) -> Option<&Arc<PodView>> {
        self.pods.get(key)
    }

    /// A claim.
    #[must_use]
    pub fn claim_by_key(&self, key: &Key) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(key)
    }

    /// True if the class exists.
    #[must_use]
    pub fn has_class(&self, name: &str) -> bool {
        self.classes.contains_key(name)
    }

    /// All claims, those in flight as they are written now.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        self.claims.values()
    }
}

/// The devices that an allocation holds for itself (without admin access and shares).
fn exclusive_devices(allocation: &AllocationResult) -> impl Iterator<Item = DeviceId> {
    let results = allocation.devices.as_ref().and_then(|devices| devices.results.as_deref()).unwrap_or_default();
    let exclusive = results.iter().filter(|result| result.admin_access != Some(true) && result.share_id.is_none());
    exclusive.map(|result| DeviceId::new(&result.driver, &result.pool, &result.device))
}

/// Namespace and name of a claim.
#[must_use]
pub fn key_of_claim(claim: &ResourceClaim) -> Key {
    Key::new(claim.metadata.namespace.as_deref().unwrap_or_default(), claim.metadata.name.as_deref().unwrap_or_default())
}

/// Uid of a claim.
#[must_use]
pub fn uid_of_claim(claim: &ResourceClaim) -> Uid {
    Uid::from(claim.metadata.uid.as_deref().unwrap_or_default())
}

fn revision(claim: &ResourceClaim) -> &str {
    claim.metadata.resource_version.as_deref().unwrap_or_default()
}

/// True if revision `a` comes before `b`. Revisions that are no numbers are taken as they come.
fn older(a: &str, b: &str) -> bool {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a < b,
        _ => a != b,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::super::change::Change;
    use super::super::hints::Event;
    use super::super::view::{Key, Uid};
    use super::Snapshot;

    fn change(object: &Value) -> Change {
        Change::read(object, false).expect("readable").expect("a kind that counts")
    }

    fn pod(revision: &str, node: Option<&str>, phase: &str) -> Value {
        json!({"kind": "Pod", "metadata": {"namespace": "n", "name": "p", "uid": "u", "resourceVersion": revision},
               "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}, "status": {"phase": phase}})
    }

    #[test]
    fn a_pod_is_charged_from_the_assumption_to_its_end() {
        let mut snapshot = Snapshot::default();
        let Change::Pod(view) = change(&pod("1", None, "Pending")) else { panic!("a pod") };
        snapshot.apply(&Change::Pod(view.clone()));
        snapshot.assume(&view, "w");
        let cpu = |snapshot: &Snapshot| snapshot.usage("w").map(|usage| usage.requests.milli_cpu);
        assert_eq!(cpu(&snapshot), Some(1000));
        snapshot.apply(&change(&pod("2", Some("w"), "Pending")));
        snapshot.apply(&change(&pod("3", Some("w"), "Running")));
        assert_eq!(cpu(&snapshot), Some(1000));
        assert!(snapshot.forget(&Uid::from("u")).is_none(), "a bound pod is not forgotten");
        assert!(matches!(snapshot.apply(&change(&pod("4", Some("w"), "Succeeded"))), Some(Event::PodReleased { .. })));
        assert_eq!(cpu(&snapshot), None);
        assert!(snapshot.apply(&Change::PodGone(Key::new("n", "p"), Uid::from("u"))).is_none());
    }

    #[test]
    fn a_new_pod_of_the_same_name_releases_the_old_one() {
        let mut snapshot = Snapshot::default();
        snapshot.apply(&change(&pod("1", Some("w"), "Running")));
        let mut other = pod("5", None, "Pending");
        other["metadata"]["uid"] = json!("v");
        assert!(matches!(snapshot.apply(&change(&other)), Some(Event::PodReleased { .. })));
        // The late deletion of the old one does not touch the new one.
        snapshot.apply(&Change::PodGone(Key::new("n", "p"), Uid::from("u")));
        assert_eq!(snapshot.pod_by_key(&Key::new("n", "p")).map(|pod| pod.uid().as_str().to_owned()).as_deref(), Some("v"));
    }

    #[test]
    fn an_older_claim_does_not_replace_a_newer_one() {
        let claim = |revision: &str| json!({"kind": "ResourceClaim", "metadata": {"namespace": "n", "name": "c", "uid": "u", "resourceVersion": revision}});
        let mut snapshot = Snapshot::default();
        assert!(snapshot.apply(&change(&claim("9"))).is_some());
        assert!(snapshot.apply(&change(&claim("8"))).is_none());
        assert!(snapshot.apply(&change(&claim("9"))).is_none());
        assert!(snapshot.apply(&change(&claim("10"))).is_some());
        assert_eq!(snapshot.claims().filter_map(|claim| claim.metadata.resource_version.clone()).collect::<Vec<_>>(), ["10"]);
        let held = snapshot.claim_by_key(&Key::new("n", "c")).cloned().expect("the claim");
        snapshot.begin_allocation(&held, Default::default());
        assert!(snapshot.is_in_flight("u"));
        snapshot.end_allocation("u");
        assert!(!snapshot.is_in_flight("u") && Arc::strong_count(&held) >= 1);
    }
}
