//! What must hold for any input: an outsider accepts each result, finds none where there is said to be none, and a search
//! that fails leaves nothing behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{AllocationResult, DeviceClass, ResourceClaim, ResourceSlice};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::pools::NodeView;
use super::requests::Planner;
use super::search::Search;
use super::{AllocatedState, Allocator, Features, Outcome};
use crate::model::ids::DeviceId;

/// A device, in one of two pools.
#[derive(Clone, Debug)]
struct Device {
    pool: usize,
    numa: Option<i64>,
    shared: bool,
    memory: u32,
    counters: u32,
    group: Option<bool>,
    tainted: bool,
    taken: bool,
}

#[derive(Clone, Debug)]
struct Request {
    count: usize,
    memory: Option<u32>,
    tolerates: bool,
    /// If this does not work out, one device that tolerates everything.
    or_one: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    None,
    Same,
    Different,
}

#[derive(Clone, Debug)]
struct Claim {
    requests: Vec<Request>,
    rule: Rule,
}

#[derive(Clone, Debug)]
struct Scenario {
    devices: Vec<Device>,
    claims: Vec<Claim>,
    counters: u32,
}

/// The devices of each request's chosen alternative: claim, request, alternative, device.
type Placement = Vec<(usize, usize, usize, usize)>;

fn scenarios() -> impl Strategy<Value = Scenario> {
    let device = (0..2usize, prop::option::weighted(0.8, 0..2i64), any::<bool>(), 1..8u32, 0..4u32).prop_flat_map(
        |(pool, numa, shared, memory, counters)| {
            (prop::option::of(any::<bool>()), prop::bool::weighted(0.2), prop::bool::weighted(0.2))
                .prop_map(move |(group, tainted, taken)| Device { pool, numa, shared, memory, counters, group, tainted, taken })
        },
    );
    let request = (1..3usize, prop::option::weighted(0.6, 1..6u32), prop::bool::weighted(0.3), prop::bool::weighted(0.3))
        .prop_map(|(count, memory, tolerates, or_one)| Request { count, memory, tolerates, or_one });
    let rule = prop_oneof![2 => Just(Rule::None), 1 => Just(Rule::Same), 1 => Just(Rule::Different)];
    let claim = (prop::collection::vec(request, 1..3), rule).prop_map(|(requests, rule)| Claim { requests, rule });
    (prop::collection::vec(device, 1..6), prop::collection::vec(claim, 1..3), 0..6u32)
        .prop_map(|(devices, claims, counters)| Scenario { devices, claims, counters }.without_contradictions())
}

impl Scenario {
    /// Devices of a pool that are taken already have the same group: with anything else the order in which they are
    /// looked at decides what goes with them.
    fn without_contradictions(mut self) -> Self {
        for pool in 0..2 {
            let mut taken = self.devices.iter_mut().filter(|device| device.taken && device.pool == pool && device.counters > 0);
            if let Some(group) = taken.next().map(|first| first.group) {
                taken.for_each(|device| device.group = group);
            }
        }
        self
    }

    fn slices(&self) -> Vec<Arc<ResourceSlice>> {
        let mut slices = Vec::new();
        for pool in 0..2 {
            let devices: Vec<Value> = self.devices.iter().enumerate().filter(|(_, d)| d.pool == pool).map(|(n, d)| d.json(n)).collect();
            let spec = |rest: &Value| {
                let mut spec =
                    json!({"driver": "d", "nodeName": "n", "pool": {"name": format!("p{pool}"), "generation": 1, "resourceSliceCount": 2}});
                for (key, value) in rest.as_object().unwrap() {
                    spec[key] = value.clone();
                }
                spec
            };
            let sets = json!([{"name": "set", "counters": {"c": {"value": self.counters.to_string()}}}]);
            for (name, rest) in [("a", json!({"sharedCounters": sets})), ("b", json!({"devices": devices}))] {
                let spec = spec(&rest);
                slices.push(Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()));
            }
        }
        slices
    }

    fn claims(&self) -> Vec<Arc<ResourceClaim>> {
        let claim = |(number, claim): (usize, &Claim)| {
            let constraints = match claim.rule {
                Rule::None => json!([]),
                Rule::Same => json!([{"matchAttribute": "d/numa"}]),
                Rule::Different => json!([{"distinctAttribute": "d/numa"}]),
            };
            let requests: Vec<Value> = claim.requests.iter().enumerate().map(|(number, request)| request.json(number)).collect();
            let object = json!({
                "metadata": {"name": format!("c{number}"), "uid": number.to_string()},
                "spec": {"devices": {"requests": requests, "constraints": constraints}},
            });
            Arc::new(serde_json::from_value(object).unwrap())
        };
        self.claims.iter().enumerate().map(claim).collect()
    }

    fn allocator(&self) -> Allocator {
        let class: DeviceClass = serde_json::from_value(json!({"metadata": {"name": "any"}, "spec": {}})).unwrap();
        let mut state = AllocatedState::default();
        for (number, device) in self.devices.iter().enumerate().filter(|(_, device)| device.taken) {
            state.devices.insert(DeviceId::new("d", &format!("p{}", device.pool), &format!("x{number}")));
        }
        Allocator::new(Features::all(), &self.slices(), &BTreeMap::from([("any".to_owned(), Arc::new(class))]), state)
    }

    fn allocate(&self) -> Option<Vec<AllocationResult>> {
        match self.allocator().allocate(&node(), &self.claims()).0 {
            Outcome::Fits(results) => Some(results),
            Outcome::DoesNotFit => None,
            other => panic!("unexpected outcome {other:?}"),
        }
    }

    /// Count, memory and toleration of an alternative of a request.
    fn wanted(&self, claim: usize, request: usize, alternative: usize) -> (usize, Option<u32>, bool) {
        let request = &self.claims[claim].requests[request];
        if alternative == 0 { (request.count, request.memory, request.tolerates) } else { (1, None, true) }
    }

    /// The outsider: whether all these devices can be had at once. Knows nothing of the order of a search.
    fn accepts(&self, placement: &Placement) -> bool {
        let mut counters = [0, 0];
        let mut groups: [Vec<Option<bool>>; 2] = [Vec::new(), Vec::new()];
        for (number, device) in self.devices.iter().enumerate() {
            let users: Vec<_> = placement.iter().filter(|(.., d)| *d == number).collect();
            if device.taken || !users.is_empty() {
                counters[device.pool] += device.counters;
                if device.counters > 0 {
                    groups[device.pool].push(device.group);
                }
            }
            if device.taken && !users.is_empty() || users.len() > 1 && !device.shared {
                return false;
            }
            let mut memory = 0;
            for (position, (claim, request, alternative, _)) in users.iter().enumerate() {
                let (_, wanted, tolerates) = self.wanted(*claim, *request, *alternative);
                let amount = wanted.unwrap_or(device.memory);
                memory += amount;
                let again = users[..position].iter().any(|(c, r, ..)| (c, r) == (claim, request));
                if again || amount > device.memory || device.tainted && !tolerates {
                    return false;
                }
            }
            if device.shared && memory > device.memory {
                return false;
            }
        }
        // More may be taken already than there is; that counts only for devices that come on top.
        for pool in 0..2 {
            let consumes = placement.iter().any(|(.., d)| self.devices[*d].pool == pool && self.devices[*d].counters > 0);
            if consumes && (counters[pool] > self.counters || groups[pool].windows(2).any(|pair| pair[0] != pair[1])) {
                return false;
            }
        }
        self.claims.iter().enumerate().all(|(claim, spec)| {
            let values: Vec<_> = placement.iter().filter(|(c, ..)| *c == claim).map(|(.., d)| self.devices[*d].numa).collect();
            let pairs = || values.iter().enumerate().flat_map(|(n, value)| values[..n].iter().map(move |other| value == other));
            match spec.rule {
                Rule::None => true,
                Rule::Same => values.iter().all(Option::is_some) && pairs().all(|equal| equal),
                Rule::Different => values.iter().all(Option::is_some) && !pairs().any(|equal| equal),
            }
        })
    }

    /// Tries every placement.
    fn is_feasible(&self) -> bool {
        let requests: Vec<(usize, usize)> = self
            .claims
            .iter()
            .enumerate()
            .flat_map(|(claim, spec)| (0..spec.requests.len()).map(move |request| (claim, request)))
            .collect();
        self.any_placement(&requests, &mut Vec::new())
    }

    fn any_placement(&self, requests: &[(usize, usize)], placement: &mut Placement) -> bool {
        if !self.accepts_so_far(placement) {
            return false;
        }
        let Some((&(claim, request), rest)) = requests.split_first() else { return self.accepts(placement) };
        let alternatives = if self.claims[claim].requests[request].or_one { 2 } else { 1 };
        (0..alternatives).any(|alternative| {
            let (count, ..) = self.wanted(claim, request, alternative);
            subsets(self.devices.len(), count).into_iter().any(|devices| {
                let before = placement.len();
                placement.extend(devices.into_iter().map(|device| (claim, request, alternative, device)));
                let found = self.any_placement(rest, placement);
                placement.truncate(before);
                found
            })
        })
    }

    /// A cheap check that more devices cannot mend.
    fn accepts_so_far(&self, placement: &Placement) -> bool {
        placement.iter().all(|(.., device)| !self.devices[*device].taken)
    }
}

fn subsets(of: usize, count: usize) -> Vec<Vec<usize>> {
    match count {
        0 => vec![Vec::new()],
        1 => (0..of).map(|a| vec![a]).collect(),
        _ => (0..of).flat_map(|a| (a + 1..of).map(move |b| vec![a, b])).collect(),
    }
}

impl Device {
    fn json(&self, number: usize) -> Value {
        let mut device = json!({
            "name": format!("x{number}"),
            "allowMultipleAllocations": self.shared,
            "capacity": {"memory": {"value": self.memory.to_string()}},
        });
        if let Some(numa) = self.numa {
            device["attributes"] = json!({"numa": {"int": numa}});
        }
        if self.counters > 0 {
            let groups: Vec<&str> = self.group.iter().map(|first| if *first { "g1" } else { "g2" }).collect();
            device["consumesCounters"] =
                json!([{"counterSet": "set", "counters": {"c": {"value": self.counters.to_string()}}, "compatibilityGroups": groups}]);
        }
        if self.tainted {
            device["taints"] = json!([{"key": "broken", "effect": "NoSchedule"}]);
        }
        device
    }
}

impl Request {
    fn json(&self, number: usize) -> Value {
        let tolerations = |tolerates| if tolerates { json!([{"key": "broken", "operator": "Exists"}]) } else { json!([]) };
        let mut first = json!({
            "deviceClassName": "any", "allocationMode": "ExactCount", "count": self.count, "tolerations": tolerations(self.tolerates),
        });
        if let Some(memory) = self.memory {
            first["capacity"] = json!({"requests": {"memory": memory.to_string()}});
        }
        if !self.or_one {
            return json!({"name": format!("r{number}"), "exactly": first});
        }
        first["name"] = json!("s0");
        let second = json!({
            "name": "s1", "deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "tolerations": tolerations(true),
        });
        json!({"name": format!("r{number}"), "firstAvailable": [first, second]})
    }
}

fn node() -> Node {
    serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap()
}

fn placement(results: &[AllocationResult]) -> Placement {
    let mut placement = Placement::new();
    for (claim, result) in results.iter().enumerate() {
        for device in result.devices.as_ref().and_then(|devices| devices.results.as_deref()).unwrap() {
            let (request, alternative) = device.request.split_once('/').unwrap_or((&device.request, "s0"));
            let number = |text: &str| text[1..].parse().unwrap();
            placement.push((claim, number(request), number(alternative), number(&device.device)));
        }
    }
    placement
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_outsider_accepts_results_and_finds_none_where_there_are_none(scenario in scenarios()) {
        match scenario.allocate() {
            None => prop_assert!(!scenario.is_feasible(), "a placement exists"),
            Some(results) => {
                let placement = placement(&results);
                prop_assert!(scenario.accepts(&placement), "refused: {placement:?}");
                for (claim, spec) in scenario.claims.iter().enumerate() {
                    for request in 0..spec.requests.len() {
                        let of = placement.iter().filter(|(c, r, ..)| (*c, *r) == (claim, request));
                        let alternatives: std::collections::BTreeSet<usize> = of.clone().map(|(_, _, alternative, _)| *alternative).collect();
                        prop_assert_eq!(alternatives.len(), 1);
                        let alternative = alternatives.into_iter().next().unwrap_or_default();
                        prop_assert_eq!(of.count(), scenario.wanted(claim, request, alternative).0);
                    }
                }
            }
        }
    }

    #[test]
    fn whether_claims_fit_does_not_depend_on_orders(scenario in scenarios()) {
        let fits = scenario.allocate().is_some();
        let mut turned = scenario.clone();
        turned.claims.reverse();
        for claim in &mut turned.claims {
            claim.requests.reverse();
        }
        prop_assert_eq!(turned.allocate().is_some(), fits, "claims and requests turned round");
        let mut turned = scenario.clone();
        turned.devices.reverse();
        prop_assert_eq!(turned.allocate().is_some(), fits, "devices turned round");
    }

    #[test]
    fn a_search_that_fails_restores_everything(scenario in scenarios()) {
        let allocator = scenario.allocator();
        let (node, claims) = (node(), scenario.claims());
        let view = NodeView::gather(&allocator.inventory, &node).unwrap();
        let mut planner = Planner { allocator: &allocator, choices: Vec::new() };
        let plans: Vec<_> =
            claims.iter().enumerate().map(|(number, claim)| planner.plan(number, claim, |_| Ok(Vec::new())).unwrap()).collect();
        let mut search = Search::new(&allocator, &node, &view, plans, planner.choices, None);
        if !search.run().unwrap() {
            prop_assert!(search.is_as_before(), "{:?}", search.placed);
        }
    }
}
