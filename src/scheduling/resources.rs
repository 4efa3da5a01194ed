//! Amounts of cpu, memory and other resources: what pods request and what nodes have.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;

use crate::model::quantity::Quantity as Exact;

/// What scoring assumes for a container that requests no cpu, in milli-cores (upstream: `DefaultMilliCPURequest`).
const DEFAULT_MILLI_CPU: i64 = 100;
/// What scoring assumes for a container that requests no memory, in bytes (upstream: `DefaultMemoryRequest`).
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

fn exact(amount: &Quantity) -> Option<Exact> {
    Exact::parse(&amount.0).ok()
}

/// Whole units, rounded up; nothing for text that is no quantity (the API refuses that).
#[must_use]
pub fn whole(amount: &Quantity) -> i64 {
    exact(amount).map_or(0, |amount| amount.value())
}

/// Names and amounts as they stand in a spec.
type Amounts = BTreeMap<String, Quantity>;

/// Amounts per resource: cpu in milli-cores, everything else in whole units (bytes, pieces), rounded up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resources {
    /// Milli-cores.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Everything else, such as `nvidia.com/gpu` or `hugepages-2Mi`.
    pub others: BTreeMap<String, i64>,
}

impl Resources {
    /// Reads a list of amounts. An amount that is not a quantity counts as nothing (the API refuses those).
    #[must_use]
    pub fn read(amounts: Option<&Amounts>) -> Self {
        let mut resources = Resources::default();
        for (name, amount) in amounts.into_iter().flatten() {
            match name.as_str() {
                "cpu" => resources.milli_cpu = exact(amount).map_or(0, |amount| amount.milli_value()),
                "memory" => resources.memory = whole(amount),
                "ephemeral-storage" => resources.ephemeral_storage = whole(amount),
                "pods" => {}
                _ => {
                    resources.others.insert(name.clone(), whole(amount));
                }
            }
        }
        resources
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Resources) {
        self.each(other, i64::saturating_add);
    }

    /// Takes `other` away.
    pub fn subtract(&mut self, other: &Resources) {
        self.each(other, i64::saturating_sub);
    }

    /// Raises every amount to that of `other` where that is larger.
    pub fn raise(&mut self, other: &Resources) {
        self.each(other, i64::max);
    }

    fn each(&mut self, other: &Resources, operation: fn(i64, i64) -> i64) {
        self.milli_cpu = operation(self.milli_cpu, other.milli_cpu);
        self.memory = operation(self.memory, other.memory);
        self.ephemeral_storage = operation(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.others {
            let mine = self.others.entry(name.clone()).or_default();
            *mine = operation(*mine, *amount);
        }
    }
}

/// What a pod requests: the sum of its containers, or what its init containers need at most, and the overhead
/// (upstream: `PodRequests` of component-helpers).
#[must_use]
pub fn of_pod(spec: &PodSpec) -> Resources {
    total(spec, Resources::read)
}

/// As [`of_pod`], with something assumed for containers that request no cpu or memory; scoring uses it so that pods
/// without requests spread too (upstream: `NonMissingContainerRequests`).
#[must_use]
pub fn of_pod_for_scoring(spec: &PodSpec) -> Resources {
    total(spec, |amounts| {
        let mut resources = Resources::read(amounts);
        if !amounts.is_some_and(|amounts| amounts.contains_key("cpu")) {
            resources.milli_cpu = DEFAULT_MILLI_CPU;
        }
        if !amounts.is_some_and(|amounts| amounts.contains_key("memory")) {
            resources.memory = DEFAULT_MEMORY;
        }
        resources
    })
}

fn total(spec: &PodSpec, read: impl Fn(Option<&Amounts>) -> Resources) -> Resources {
    let requests = |container: &Container| read(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
    let mut sum = Resources::default();
    for container in &spec.containers {
        sum.add(&requests(container));
    }
    // Init containers that keep running (sidecars) add up; the others run one after the other beside those before them.
    let mut sidecars = Resources::default();
    let mut peak = Resources::default();
    for container in spec.init_containers.iter().flatten() {
        let mut own = requests(container);
        if container.restart_policy.as_deref() == Some("Always") {
            sum.add(&own);
            sidecars.add(&own);
            own = sidecars.clone();
        } else {
            own.add(&sidecars);
        }
        peak.raise(&own);
    }
    sum.raise(&peak);
    if let Some(amounts) = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()) {
        // Requests of the pod as a whole stand in place of its containers' (KEP-2837); cpu, memory and huge pages.
        let pod = Resources::read(Some(amounts));
        if amounts.contains_key("cpu") {
            sum.milli_cpu = pod.milli_cpu;
        }
        if amounts.contains_key("memory") {
            sum.memory = pod.memory;
        }
        sum.others.extend(pod.others);
    }
    sum.add(&Resources::read(spec.overhead.as_ref()));
    sum
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use serde_json::{Value, json};

    use super::{Resources, of_pod, of_pod_for_scoring};

    fn spec(value: Value) -> PodSpec {
        serde_json::from_value(value).expect("a pod spec")
    }

    #[test]
    fn requests_of_a_pod() {
        let container = |cpu: &str, memory: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}});
        let table = [
            ("no requests", json!({"containers": [{"name": "c"}]}), (0, 0)),
            ("the sum of containers", json!({"containers": [container("100m", "1Ki"), container("0.5", "2Ki")]}), (600, 3072)),
            (
                "an init container that needs more",
                json!({"containers": [container("100m", "1Ki")], "initContainers": [container("1", "512")]}),
                (1000, 1024),
            ),
            (
                "a sidecar adds to containers and to later init containers",
                json!({"containers": [container("100m", "1Ki")],
                       "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}}, container("1", "0")]}),
                (1200, 1024),
            ),
            (
                "overhead, and fractions round up",
                json!({"containers": [container("0.1m", "1.5")], "overhead": {"cpu": "250m", "memory": "1"}}),
                (251, 3),
            ),
            (
                "the pod's own requests win",
                json!({"containers": [container("100m", "1Ki")], "resources": {"requests": {"cpu": "2"}}}),
                (2000, 1024),
            ),
        ];
        for (what, value, (cpu, memory)) in table {
            let requests = of_pod(&spec(value));
            assert_eq!((requests.milli_cpu, requests.memory), (cpu, memory), "{what}");
        }
    }

    #[test]
    fn scoring_assumes_something_for_containers_without_requests() {
        let requests = of_pod_for_scoring(&spec(json!({"containers": [{"name": "a"}, {"name": "b"}]})));
        assert_eq!((requests.milli_cpu, requests.memory), (200, 400 * 1024 * 1024));
    }

    #[test]
    fn extended_resources_are_kept_by_name() {
        let mut requests = of_pod(&spec(json!({"containers": [{"name": "a", "resources": {"requests": {"example.com/gpu": "2"}}}]})));
        assert_eq!(requests.others["example.com/gpu"], 2);
        requests.subtract(&requests.clone());
        assert_eq!(requests, Resources { others: [("example.com/gpu".to_owned(), 0)].into(), ..Resources::default() });
    }
}
