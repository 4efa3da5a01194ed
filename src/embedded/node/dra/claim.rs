//! What the agent knows of a claim that is prepared here, and how a pod's claims are found (pure).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A device that a driver has prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedDevice {
    /// Pool.
    pub pool: String,
    /// Name in the pool.
    pub device: String,
    /// Which share of it, where several claims may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// The requests that got it; empty means all.
    #[serde(default)]
    pub requests: Vec<String>,
    /// CDI names.
    #[serde(default)]
    pub cdi: Vec<String>,
}

/// A claim that pods of this node use (the kubelet's `ClaimInfo`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimInfo {
    /// The claim's uid.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The uids of the pods that use it.
    pub pods: BTreeSet<String>,
    /// The drivers of its devices, with what each has prepared.
    pub drivers: BTreeMap<String, DriverInfo>,
    /// All drivers have prepared it in this life of the agent.
    #[serde(skip)]
    pub prepared: bool,
    /// It is being unprepared: no further pod may use it.
    #[serde(skip)]
    pub unpreparing: bool,
}

/// One driver's part of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverInfo {
    /// What it has prepared.
    #[serde(default)]
    pub devices: Vec<PreparedDevice>,
    /// All its devices say that preparing is not needed (`skipNodeOperations`).
    #[serde(default)]
    pub skips_prepare: bool,
    /// The same for unpreparing.
    #[serde(default)]
    pub skips_unprepare: bool,
}

impl ClaimInfo {
    /// From an allocated claim; `None` when it is not allocated.
    #[must_use]
    pub fn new(claim: &Value) -> Option<ClaimInfo> {
        let results = claim["status"]["allocation"]["devices"]["results"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !claim["status"]["allocation"].is_object() {
            return None;
        }
        let mut drivers: BTreeMap<String, DriverInfo> = BTreeMap::new();
        for result in results {
            let driver = result["driver"].as_str().unwrap_or_default();
            let skips = |operation: &str| result["skipNodeOperations"].as_array().into_iter().flatten().any(|o| o == operation || o == "*");
            let (prepare, unprepare) = (skips("NodePrepareResources"), skips("NodeUnprepareResources"));
            drivers
                .entry(driver.to_owned())
                .and_modify(|info| {
                    info.skips_prepare &= prepare;
                    info.skips_unprepare &= unprepare;
                })
                .or_insert(DriverInfo { devices: Vec::new(), skips_prepare: prepare, skips_unprepare: unprepare });
        }
        let meta = |field: &str| claim["metadata"][field].as_str().unwrap_or_default().to_owned();
        Some(ClaimInfo {
            uid: meta("uid"),
            name: meta("name"),
            namespace: meta("namespace"),
            pods: BTreeSet::new(),
            drivers,
            prepared: false,
            unpreparing: false,
        })
    }

    /// The CDI names for one request of a container; an empty request means all.
    #[must_use]
    pub fn cdi_devices(&self, request: &str) -> Vec<String> {
        self.devices(request).flat_map(|(_, device)| device.cdi.iter().cloned()).collect()
    }

    /// The ids by which a container's status names its devices: the first CDI name, else driver, pool and device.
    #[must_use]
    pub fn resource_ids(&self, request: &str) -> Vec<String> {
        let mut ids = Vec::new();
        // A request with alternatives is known by the name before the slash.
        for (driver, device) in self.devices(request.split('/').next().unwrap_or_default()) {
            let id = device.cdi.first().cloned().unwrap_or_else(|| format!("{driver}/{}/{}", device.pool, device.device));
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    fn devices<'a>(&'a self, request: &'a str) -> impl Iterator<Item = (&'a str, &'a PreparedDevice)> {
        let all = self.drivers.iter().flat_map(|(driver, info)| info.devices.iter().map(move |device| (driver.as_str(), device)));
        all.filter(move |(_, d)| request.is_empty() || d.requests.is_empty() || d.requests.iter().any(|r| r == request))
    }
}

/// The claim behind one entry of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// The entry's name in the pod; empty for the claim of extended resources.
    pub entry: String,
    /// The claim's name.
    pub claim: String,
    /// It was made from a template, so that the pod must be its owner.
    pub owned: bool,
}

/// Why a pod's claims cannot be named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Made from a template, which has not happened yet.
    #[error("pod \"{namespace}/{pod}\": ResourceClaim not created yet")]
    NotCreated {
        /// The pod's namespace.
        namespace: String,
        /// Its name.
        pod: String,
    },
    /// Neither a claim nor a template is named.
    #[error("pod \"{namespace}/{pod}\", spec.resourceClaim \"{entry}\": none of the supported fields are set")]
    Unsupported {
        /// The pod's namespace.
        namespace: String,
        /// Its name.
        pod: String,
        /// The entry.
        entry: String,
    },
}

/// The name of the claim behind an entry of `spec.resourceClaims`; `Ok(None)` when none is needed.
///
/// # Errors
/// The claim has not been made yet, or the entry names nothing.
pub fn name(pod: &Value, entry: &Value) -> Result<Option<PodClaim>, NameError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, pod_name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
    let entry_name = text(&entry["name"]);
    if let Some(claim) = entry["resourceClaimName"].as_str() {
        return Ok(Some(PodClaim { entry: entry_name, claim: claim.to_owned(), owned: false }));
    }
    if entry["resourceClaimTemplateName"].is_null() {
        return Err(NameError::Unsupported { namespace, pod: pod_name, entry: entry_name });
    }
    let statuses = pod["status"]["resourceClaimStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    match statuses.iter().find(|status| status["name"] == entry["name"]) {
        None => Err(NameError::NotCreated { namespace, pod: pod_name }),
        Some(status) => {
            Ok(status["resourceClaimName"].as_str().map(|claim| PodClaim { entry: entry_name, claim: claim.to_owned(), owned: true }))
        }
    }
}

/// All claims of a pod, that of its extended resources last.
///
/// # Errors
/// As [`name`].
pub fn names(pod: &Value) -> Result<Vec<PodClaim>, NameError> {
    let mut claims = Vec::new();
    for entry in pod["spec"]["resourceClaims"].as_array().into_iter().flatten() {
        claims.extend(name(pod, entry)?);
    }
    if let Some(claim) = pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"].as_str() {
        claims.push(PodClaim { entry: String::new(), claim: claim.to_owned(), owned: false });
    }
    Ok(claims)
}

/// Which requests of which claims a container uses: claim name and request, empty for all of them.
#[must_use]
pub fn container_requests(pod: &Value, container: &Value) -> Vec<(String, String)> {
    let mut requests = Vec::new();
    for entry in pod["spec"]["resourceClaims"].as_array().into_iter().flatten() {
        let Ok(Some(claim)) = name(pod, entry) else { continue };
        for used in container["resources"]["claims"].as_array().into_iter().flatten() {
            if used["name"] == entry["name"] {
                requests.push((claim.claim.clone(), used["request"].as_str().unwrap_or_default().to_owned()));
            }
        }
    }
    let extended = &pod["status"]["extendedResourceClaimStatus"];
    if let Some(claim) = extended["resourceClaimName"].as_str() {
        for mapping in extended["requestMappings"].as_array().into_iter().flatten() {
            let asked = mapping["resourceName"].as_str().is_some_and(|name| !container["resources"]["requests"][name].is_null());
            if mapping["containerName"] == container["name"] && asked {
                requests.push((claim.to_owned(), mapping["requestName"].as_str().unwrap_or_default().to_owned()));
            }
        }
    }
    requests
}

/// True when the claim is reserved for the pod.
#[must_use]
pub fn is_reserved_for(claim: &Value, pod_uid: &str) -> bool {
    let entries = claim["status"]["reservedFor"].as_array();
    entries
        .into_iter()
        .flatten()
        .any(|r| r["resource"] == "pods" && r["apiGroup"].as_str().unwrap_or_default().is_empty() && r["uid"] == pod_uid)
}

/// True when the pod is the controller of the claim.
#[must_use]
pub fn is_owned_by(claim: &Value, pod_uid: &str) -> bool {
    let owners = claim["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|o| o["controller"] == true && o["uid"] == pod_uid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ClaimInfo, container_requests, names};

    #[test]
    fn claims_of_a_pod_are_named() {
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "s"},
            "spec": {"resourceClaims": [{"name": "a", "resourceClaimName": "some-gpu"}, {"name": "b", "resourceClaimTemplateName": "t"}]},
        });
        assert_eq!(names(&pod).map_err(|e| e.to_string()), Err("pod \"s/p\": ResourceClaim not created yet".to_owned()));
        pod["status"] = json!({"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-xyz"}]});
        let found: Vec<_> = names(&pod).expect("named").into_iter().map(|c| (c.claim, c.owned)).collect();
        assert_eq!(found, [("some-gpu".to_owned(), false), ("p-b-xyz".to_owned(), true)]);
        pod["status"]["resourceClaimStatuses"][0] = json!({"name": "b"});
        assert_eq!(names(&pod).expect("named").len(), 1, "nothing was generated for it");
        let container = json!({"name": "c", "resources": {"claims": [{"name": "a", "request": "r1"}, {"name": "a", "request": "r2"}]}});
        let used = container_requests(&pod, &container);
        assert_eq!(used, [("some-gpu".to_owned(), "r1".to_owned()), ("some-gpu".to_owned(), "r2".to_owned())]);
    }

    #[test]
    fn devices_go_to_their_requests() {
        let claim = json!({
            "metadata": {"name": "two", "namespace": "s", "uid": "u"},
            "status": {"allocation": {"devices": {"results": [
                {"request": "a", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"},
                {"request": "b", "driver": "net.example.com", "pool": "n", "device": "nic-0", "skipNodeOperations": ["*"]},
            ]}}},
        });
        let mut info = ClaimInfo::new(&claim).expect("allocated");
        assert_eq!(
            info.drivers.iter().map(|(d, i)| (d.as_str(), i.skips_prepare)).collect::<Vec<_>>(),
            [("gpu.example.com", false), ("net.example.com", true)]
        );
        info.drivers.get_mut("gpu.example.com").expect("known").devices = vec![super::PreparedDevice {
            pool: "n".into(),
            device: "gpu-0".into(),
            share: None,
            requests: vec!["a".into()],
            cdi: vec!["k8s.gpu.example.com/gpu=common".into(), "k8s.gpu.example.com/gpu=u-gpu-0".into()],
        }];
        assert_eq!(info.cdi_devices("").len(), 2);
        assert_eq!(info.cdi_devices("b").len(), 0);
        assert_eq!(info.resource_ids("a"), ["k8s.gpu.example.com/gpu=common"]);
        assert!(ClaimInfo::new(&json!({"status": {}})).is_none());
    }
}
