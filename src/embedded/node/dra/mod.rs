//! Preparing and unpreparing the claims of pods with the drivers of a node (the kubelet's DRA manager).

pub mod checkpoint;
pub mod claim;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::plugins::{NotRegistered, Plugins};
use crate::driver::grpc::proto::dra_v1::Claim;
use crate::embedded::api::resource::RESOURCECLAIMS;
use crate::embedded::api::{Api, Status};

use checkpoint::Checkpoint;
pub use checkpoint::CheckpointError;
use claim::{ClaimInfo, NameError, PreparedDevice};

/// Why the claims of a pod are not (un)prepared. The texts are the kubelet's, as its events show them.
#[derive(Debug, thiserror::Error)]
pub enum DraError {
    /// A claim cannot be named.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A claim is not there.
    #[error("fetch ResourceClaim {name}: {status}")]
    Fetch {
        /// Its name.
        name: String,
        /// What the API says.
        status: Box<Status>,
    },
    /// A claim of that name belongs to somebody else.
    #[error("ResourceClaim {namespace}/{claim} was not created for Pod {namespace}/{pod} (Pod is not owner)")]
    NotOwner {
        /// Namespace of both.
        namespace: String,
        /// The claim.
        claim: String,
        /// The pod.
        pod: String,
    },
    /// The scheduler has not given it to the pod.
    #[error("pod {pod} ({pod_uid}) is not allowed to use ResourceClaim {claim} ({claim_uid})")]
    NotReserved {
        /// The pod.
        pod: String,
        /// Its uid.
        pod_uid: String,
        /// The claim.
        claim: String,
        /// Its uid.
        claim_uid: String,
    },
    /// It is not allocated.
    #[error("ResourceClaim {0}: not allocated")]
    NotAllocated(String),
    /// The driver is not there.
    #[error(transparent)]
    NotRegistered(#[from] NotRegistered),
    /// A claim of the same name is still in use.
    #[error("old ResourceClaim with same name {name} and different UID {uid} still exists (previous pod force-deleted?!)")]
    OldClaim {
        /// The name of both.
        name: String,
        /// The uid of the old one.
        uid: String,
    },
    /// The last pod with it is on its way out.
    #[error("ResourceClaim {0} is being unprepared")]
    Unpreparing(String),
    /// The driver did not answer properly.
    #[error("{call}: {reason}")]
    Call {
        /// `NodePrepareResources` or `NodeUnprepareResources`.
        call: &'static str,
        /// How it failed.
        reason: String,
    },
    /// The driver answered about a claim that it was not asked about.
    #[error("{call} returned result for unknown claim UID {uid}")]
    Unknown {
        /// As above.
        call: &'static str,
        /// The uid.
        uid: String,
    },
    /// The driver refused a claim.
    #[error("{call} failed for ResourceClaim {claim}: {reason}")]
    Refused {
        /// As above.
        call: &'static str,
        /// The claim's name.
        claim: String,
        /// What the driver says.
        reason: String,
    },
    /// The driver left claims out.
    #[error("{call} skipped {count} ResourceClaims")]
    Skipped {
        /// As above.
        call: &'static str,
        /// How many.
        count: usize,
    },
    /// It could not be kept.
    #[error("checkpoint ResourceClaim state: {0}")]
    Checkpoint(#[from] CheckpointError),
}

const PREPARE: &str = "NodePrepareResources";
const UNPREPARE: &str = "NodeUnprepareResources";

/// The claims that are in use on one node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Claims {
    api: Api,
    plugins: Plugins,
    checkpoint: Checkpoint,
    /// By namespace and name.
    cache: Arc<Mutex<Cache>>,
}

type Cache = BTreeMap<(String, String), ClaimInfo>;

impl Claims {
    /// Reads the checkpoint in `folder`.
    ///
    /// # Errors
    /// The checkpoint cannot be used.
    pub fn open(api: Api, plugins: Plugins, folder: &Path) -> Result<Self, CheckpointError> {
        let checkpoint = Checkpoint::new(folder);
        let claims = checkpoint.load()?;
        let cache = claims.into_iter().map(|info| ((info.namespace.clone(), info.name.clone()), info)).collect();
        Ok(Claims { api, plugins, checkpoint, cache: Arc::new(Mutex::new(cache)) })
    }

    /// The pods (uid and namespace) that claims of this node are in use for.
    #[must_use]
    pub fn pods(&self) -> BTreeSet<(String, String)> {
        self.lock().values().flat_map(|info| info.pods.iter().map(|uid| (uid.clone(), info.namespace.clone()))).collect()
    }

    /// Prepares all claims of a pod. Claims that are prepared already are only noted to have one more user.
    ///
    /// # Errors
    /// Anything that keeps the pod from starting; it may be tried again.
    pub async fn prepare(&self, pod: &Value) -> Result<(), DraError> {
        let checked = self.check(pod)?;
        let pod_uid = text(&pod["metadata"]["uid"]);
        let mut batches: BTreeMap<String, Vec<Claim>> = BTreeMap::new();
        let mut fresh = Vec::new();
        {
            let mut cache = self.lock();
            for info in checked {
                let key = (info.namespace.clone(), info.name.clone());
                if let Some(known) = cache.get(&key) {
                    if known.uid != info.uid {
                        return Err(DraError::OldClaim { name: info.name, uid: known.uid.clone() });
                    }
                    if known.unpreparing {
                        return Err(DraError::Unpreparing(info.name));
                    }
                }
                let known = cache.entry(key.clone()).or_insert(info);
                let added = known.pods.insert(pod_uid.clone());
                if !known.prepared {
                    let claim = Claim { namespace: known.namespace.clone(), uid: known.uid.clone(), name: known.name.clone() };
                    for (driver, _) in known.drivers.iter().filter(|(_, info)| !info.skips_prepare) {
                        batches.entry(driver.clone()).or_default().push(claim.clone());
                    }
                    fresh.push(key);
                }
                if added {
                    // Before any driver is called: what may have been prepared must not be forgotten.
                    self.save(&cache)?;
                }
            }
        }
        for (driver, claims) in batches {
            let service = self.plugins.service(&driver)?;
            let asked = claims.clone();
            let answer = service.prepare(claims).await.map_err(|reason| DraError::Call { call: PREPARE, reason })?;
            let answered = answer.claims.len();
            for (uid, result) in answer.claims {
                let Some(claim) = asked.iter().find(|c| c.uid == uid) else { return Err(DraError::Unknown { call: PREPARE, uid }) };
                if !result.error.is_empty() {
                    return Err(DraError::Refused { call: PREPARE, claim: claim.name.clone(), reason: result.error });
                }
                let devices = result.devices.into_iter().map(|d| PreparedDevice {
                    pool: d.pool_name,
                    device: d.device_name,
                    share: d.share_id,
                    requests: d.request_names,
                    cdi: d.cdi_device_ids,
                });
                let mut cache = self.lock();
                if let Some(info) = cache.get_mut(&(claim.namespace.clone(), claim.name.clone())) {
                    info.drivers.entry(driver.clone()).or_default().devices = devices.collect();
                }
            }
            if answered < asked.len() {
                return Err(DraError::Skipped { call: PREPARE, count: asked.len() - answered });
            }
        }
        if !fresh.is_empty() {
            let mut cache = self.lock();
            for key in fresh {
                if let Some(info) = cache.get_mut(&key) {
                    info.prepared = true;
                }
            }
            self.save(&cache)?;
        }
        Ok(())
    }

    /// Looks at all claims of a pod before anything is changed, so that a pod that fails here can go without a driver.
    fn check(&self, pod: &Value) -> Result<Vec<ClaimInfo>, DraError> {
        let meta = &pod["metadata"];
        let (namespace, pod_name, pod_uid) = (text(&meta["namespace"]), text(&meta["name"]), text(&meta["uid"]));
        let mut infos = Vec::new();
        for entry in claim::names(pod)? {
            let name = entry.claim;
            let object = self
                .api
                .get(&RESOURCECLAIMS, &namespace, &name)
                .map_err(|status| DraError::Fetch { name: name.clone(), status: Box::new(status) })?;
            if entry.owned && !claim::is_owned_by(&object, &pod_uid) {
                return Err(DraError::NotOwner { namespace, claim: name, pod: pod_name });
            }
            if !claim::is_reserved_for(&object, &pod_uid) {
                let claim_uid = text(&object["metadata"]["uid"]);
                return Err(DraError::NotReserved { pod: pod_name, pod_uid, claim: name, claim_uid });
            }
            let info = ClaimInfo::new(&object).ok_or(DraError::NotAllocated(name))?;
            for (driver, _) in info.drivers.iter().filter(|(_, info)| !info.skips_prepare) {
                self.plugins.service(driver)?;
            }
            infos.push(info);
        }
        Ok(infos)
    }

    /// Gives up the claims of a pod: those that no other pod of the node uses are unprepared.
    ///
    /// # Errors
    /// A driver is away or refuses; the pod stays until it has succeeded.
    pub async fn unprepare(&self, pod_uid: &str, namespace: &str) -> Result<(), DraError> {
        let mut batches: BTreeMap<String, Vec<Claim>> = BTreeMap::new();
        let mut last = Vec::new();
        let mut shared = false;
        {
            let mut cache = self.lock();
            for (key, info) in cache.iter_mut().filter(|((ns, _), info)| ns == namespace && info.pods.contains(pod_uid)) {
                if info.pods.len() > 1 {
                    info.pods.remove(pod_uid);
                    shared = true;
                    continue;
                }
                info.unpreparing = true;
                let claim = Claim { namespace: info.namespace.clone(), uid: info.uid.clone(), name: info.name.clone() };
                for (driver, _) in info.drivers.iter().filter(|(_, info)| !info.skips_unprepare) {
                    batches.entry(driver.clone()).or_default().push(claim.clone());
                }
                last.push(key.clone());
            }
        }
        for (driver, claims) in batches {
            let service = self.plugins.service(&driver)?;
            let asked = claims.clone();
            let answer = service.unprepare(claims).await.map_err(|reason| DraError::Call { call: UNPREPARE, reason })?;
            let answered = answer.claims.len();
            for (uid, result) in answer.claims {
                let Some(claim) = asked.iter().find(|c| c.uid == uid) else { return Err(DraError::Unknown { call: UNPREPARE, uid }) };
                if !result.error.is_empty() {
                    return Err(DraError::Refused { call: UNPREPARE, claim: claim.name.clone(), reason: result.error });
                }
            }
            if answered < asked.len() {
                return Err(DraError::Skipped { call: UNPREPARE, count: asked.len() - answered });
            }
        }
        if !last.is_empty() || shared {
            let mut cache = self.lock();
            for key in &last {
                cache.remove(key);
            }
            self.save(&cache)?;
        }
        Ok(())
    }

    /// The CDI names that a container gets.
    #[must_use]
    pub fn cdi_devices(&self, pod: &Value, container: &Value) -> Vec<String> {
        let namespace = text(&pod["metadata"]["namespace"]);
        let cache = self.lock();
        let requests = claim::container_requests(pod, container).into_iter();
        requests
            .flat_map(|(claim, request)| cache.get(&(namespace.clone(), claim)).map(|i| i.cdi_devices(&request)).unwrap_or_default())
            .collect()
    }

    /// What `allocatedResourcesStatus` of a container says: per used claim the ids of its devices.
    #[must_use]
    pub fn resource_status(&self, pod: &Value, container: &Value) -> Vec<(String, Vec<String>)> {
        let namespace = text(&pod["metadata"]["namespace"]);
        let cache = self.lock();
        let mut found = Vec::new();
        for used in container["resources"]["claims"].as_array().into_iter().flatten() {
            let entry = pod["spec"]["resourceClaims"].as_array().into_iter().flatten().find(|entry| entry["name"] == used["name"]);
            let Some(Ok(Some(claim))) = entry.map(|entry| claim::name(pod, entry)) else { continue };
            let Some(info) = cache.get(&(namespace.clone(), claim.claim)) else { continue };
            let request = used["request"].as_str().unwrap_or_default();
            let ids = info.resource_ids(request);
            if !ids.is_empty() {
                let name = if request.is_empty() { format!("claim:{}", claim.entry) } else { format!("claim:{}/{request}", claim.entry) };
                found.push((name, ids));
            }
        }
        found
    }

    fn save(&self, cache: &Cache) -> Result<(), CheckpointError> {
        self.checkpoint.save(cache.values().cloned().collect())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
