//! Checks before the search, and what they find out about claims and requests (section 2).

use std::sync::Arc;

use k8s_openapi::api::resource::v1::{
    DeviceClass, DeviceDerivedAttribute, DeviceRequest, DeviceSelector, DeviceSubRequest, DeviceToleration, ExactDeviceRequest,
    ResourceClaim,
};

use super::capacity::Wanted;
use super::constraints::Constraint;
use super::pools::CandidateIx;
use super::selectors::Selector;
use super::{Allocator, RESULTS_PER_CLAIM};
use crate::model::features::Feature;
use crate::model::quantity::Quantity;

/// A claim, ready for the search.
#[derive(Debug)]
pub(super) struct ClaimPlan<'a> {
    pub(super) claim: &'a ResourceClaim,
    pub(super) requests: Vec<RequestPlan>,
    pub(super) constraints: Vec<Constraint<'a>>,
}

/// A request: which entries of the list of [`Choice`]s serve it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestPlan {
    pub(super) first: usize,
    pub(super) count: usize,
    /// The entries are alternatives (`firstAvailable`), else there is exactly one.
    pub(super) alternatives: bool,
}

/// A request that is `exactly` something, or one alternative of a request.
#[derive(Debug)]
pub(super) struct Choice<'a> {
    pub(super) claim: usize,
    /// The request's name.
    pub(super) request: &'a str,
    /// The alternative's name, for `firstAvailable`.
    pub(super) alternative: Option<&'a str>,
    pub(super) class: &'a DeviceClass,
    pub(super) class_selectors: Vec<Arc<Selector>>,
    pub(super) selectors: Vec<Arc<Selector>>,
    pub(super) tolerations: &'a [DeviceToleration],
    pub(super) wanted: Wanted<'a>,
    pub(super) derived: &'a [DeviceDerivedAttribute],
    pub(super) admin: bool,
    /// How many devices are wanted.
    pub(super) devices: i64,
    /// `allocationMode: All`: which ones.
    pub(super) all: Option<Vec<CandidateIx>>,
}

impl Choice<'_> {
    /// The name in messages: of the alternative, where there is one.
    pub(super) fn name(&self) -> &str {
        self.alternative.unwrap_or(self.request)
    }

    /// The name in results: `request` or `request/alternative`.
    pub(super) fn full_name(&self) -> String {
        self.alternative.map_or_else(|| self.request.to_owned(), |alternative| format!("{}/{alternative}", self.request))
    }
}

/// What requests and alternatives have in common.
struct Asked<'a> {
    name: &'a str,
    class: &'a str,
    mode: &'a str,
    count: i64,
    selectors: &'a [DeviceSelector],
    admin: Option<bool>,
    derived: &'a [DeviceDerivedAttribute],
    tolerations: &'a [DeviceToleration],
    capacity: Option<&'a std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
}

impl<'a> Asked<'a> {
    fn exactly(name: &'a str, exactly: &'a ExactDeviceRequest) -> Self {
        Self {
            name,
            class: &exactly.device_class_name,
            mode: exactly.allocation_mode.as_deref().unwrap_or_default(),
            count: exactly.count.unwrap_or_default(),
            selectors: exactly.selectors.as_deref().unwrap_or_default(),
            admin: exactly.admin_access,
            derived: exactly.derived_attributes.as_deref().unwrap_or_default(),
            tolerations: exactly.tolerations.as_deref().unwrap_or_default(),
            capacity: exactly.capacity.as_ref().and_then(|capacity| capacity.requests.as_ref()),
        }
    }

    fn alternative(sub: &'a DeviceSubRequest) -> Self {
        Self {
            name: &sub.name,
            class: &sub.device_class_name,
            mode: sub.allocation_mode.as_deref().unwrap_or_default(),
            count: sub.count.unwrap_or_default(),
            selectors: sub.selectors.as_deref().unwrap_or_default(),
            admin: None,
            derived: sub.derived_attributes.as_deref().unwrap_or_default(),
            tolerations: sub.tolerations.as_deref().unwrap_or_default(),
            capacity: sub.capacity.as_ref().and_then(|capacity| capacity.requests.as_ref()),
        }
    }
}

/// A claim's name in messages: `namespace/name`, or the name alone.
pub(super) fn claim_name(claim: &ResourceClaim) -> String {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    match claim.metadata.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    }
}

/// Collects the choices of all claims, in order.
pub(super) struct Planner<'a> {
    pub(super) allocator: &'a Allocator,
    pub(super) choices: Vec<Choice<'a>>,
}

impl<'a> Planner<'a> {
    /// The requests of a claim and its constraints. `all` finds the devices of a choice with allocation mode All.
    /// Errors are fatal, and complete.
    pub(super) fn plan(
        &mut self,
        index: usize,
        claim: &'a ResourceClaim,
        mut all: impl FnMut(&Choice<'a>) -> Result<Vec<CandidateIx>, String>,
    ) -> Result<ClaimPlan<'a>, String> {
        let features = self.allocator.features();
        let devices = claim.spec.as_ref().and_then(|spec| spec.devices.as_ref());
        let mut requests = Vec::new();
        let mut minimum = 0;
        for request in devices.and_then(|devices| devices.requests.as_deref()).unwrap_or_default() {
            self.check_gates(claim, request)?;
            let alternatives = request.first_available.as_deref().unwrap_or_default();
            let plan = RequestPlan { first: self.choices.len(), count: alternatives.len().max(1), alternatives: !alternatives.is_empty() };
            let mut fewest = i64::MAX;
            let asked: Vec<Asked<'a>> = if plan.alternatives {
                alternatives.iter().map(Asked::alternative).collect()
            } else {
                let exactly = request.exactly.as_ref().ok_or_else(|| {
                    format!("claim {}, request {}: missing device class name (unsupported request type?)", claim_name(claim), request.name)
                })?;
                vec![Asked::exactly(&request.name, exactly)]
            };
            for asked in asked {
                let mut choice = self.choice(index, claim, request, &asked, plan.alternatives)?;
                if asked.mode == "All" {
                    let found = all(&choice)?;
                    choice.devices = found.len() as i64;
                    choice.all = Some(found);
                }
                fewest = fewest.min(choice.devices);
                self.choices.push(choice);
            }
            if fewest > RESULTS_PER_CLAIM - minimum {
                return Err(format!(
                    "claim {}, request {}: adding {fewest} devices exceeds the claim limit of {RESULTS_PER_CLAIM}, with {minimum} already \
                     accounted for",
                    claim_name(claim),
                    request.name
                ));
            }
            minimum += fewest;
            requests.push(plan);
        }
        let mut constraints = Vec::new();
        for (number, constraint) in devices.and_then(|devices| devices.constraints.as_deref()).unwrap_or_default().iter().enumerate() {
            let constraint = Constraint::new(constraint, features.has(Feature::ListTypeAttributes)).ok_or_else(|| {
                format!("claim {}, constraint #{number}: empty constraint (unsupported constraint type?)", claim_name(claim))
            })?;
            constraints.push(constraint);
        }
        Ok(ClaimPlan { claim, requests, constraints })
    }

    /// As [`Self::plan`], without looking for the devices of requests for all: their choices have none.
    pub(super) fn plan_without_all(&mut self, index: usize, claim: &'a ResourceClaim) -> Result<ClaimPlan<'a>, String> {
        self.plan(index, claim, |_| Ok(Vec::new()))
    }

    fn check_gates(&self, claim: &ResourceClaim, request: &DeviceRequest) -> Result<(), String> {
        let features = self.allocator.features();
        let alternatives = request.first_available.as_deref().unwrap_or_default();
        if !alternatives.is_empty() && !features.has(Feature::PrioritizedList) {
            return Err(format!(
                "claim {}, request {}: has subrequests, but the DRAPrioritizedList feature is disabled",
                claim_name(claim),
                request.name
            ));
        }
        if !features.has(Feature::ConsumableCapacity) {
            let limited = "has capacity requests, but the DRAConsumableCapacity feature is disabled";
            if request.exactly.as_ref().is_some_and(|exactly| exactly.capacity.is_some()) {
                return Err(format!("claim {}, request {}: {limited}", claim_name(claim), request.name));
            }
            if let Some(alternative) = alternatives.iter().find(|alternative| alternative.capacity.is_some()) {
                return Err(format!("claim {}, subrequest {}: {limited}", claim_name(claim), alternative.name));
            }
        }
        Ok(())
    }

    fn choice(
        &self,
        index: usize,
        claim: &ResourceClaim,
        request: &'a DeviceRequest,
        asked: &Asked<'a>,
        alternative: bool,
    ) -> Result<Choice<'a>, String> {
        let allocator = self.allocator;
        let fault = |text: String| format!("claim {}, request {}{text}", claim_name(claim), asked.name);
        if !asked.derived.is_empty() && !allocator.features().has(Feature::DerivedAttributes) {
            return Err(fault(": cannot handle request with derived attributes, the feature is disabled".to_owned()));
        }
        let compiled = |selectors: &[DeviceSelector]| {
            let compile = |(number, selector): (usize, &DeviceSelector)| {
                let cel = selector.cel.as_ref().ok_or(number)?;
                Ok(allocator.inventory.selectors.selector(&cel.expression))
            };
            selectors.iter().enumerate().map(compile).collect::<Result<Vec<_>, usize>>()
        };
        let selectors = compiled(asked.selectors)
            .map_err(|number| fault(format!(", selector #{number}: CEL expression empty (unsupported selector type?)")))?;
        if asked.admin.is_some() && !allocator.features().has(Feature::AdminAccess) {
            return Err(fault(": admin access is requested, but the feature is disabled".to_owned()));
        }
        if asked.class.is_empty() {
            return Err(fault(": missing device class name (unsupported request type?)".to_owned()));
        }
        let class = allocator.classes.get(asked.class).ok_or_else(|| {
            fault(format!(": could not retrieve device class {0}: deviceclass.resource.k8s.io \"{0}\" not found", asked.class))
        })?;
        let class_selectors = compiled(class.spec.as_ref().and_then(|spec| spec.selectors.as_deref()).unwrap_or_default())
            .map_err(|number| format!("class {}: selector #{number}: CEL expression empty (unsupported selector type?)", asked.class))?;
        if !matches!(asked.mode, "ExactCount" | "All") {
            return Err(fault(format!(": unsupported count mode {}", asked.mode)));
        }
        let mut wanted = Wanted::new();
        for (name, amount) in asked.capacity.into_iter().flatten() {
            let amount = Quantity::parse(&amount.0).map_err(|error| fault(format!(": capacity {name:?}: {error}")))?;
            wanted.insert(name, amount);
        }
        Ok(Choice {
            claim: index,
            request: &request.name,
            alternative: alternative.then_some(asked.name),
            class,
            class_selectors,
            selectors,
            tolerations: asked.tolerations,
            wanted,
            derived: asked.derived,
            admin: asked.admin.unwrap_or_default(),
            devices: asked.count,
            all: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::allocator::testing::{allocator, claim, devices, node, slice, summary, whole_claim};
    use crate::model::features::{Feature, Features};

    fn answer(features: Features, requests: &Value) -> String {
        let slices = [slice("s", "p", 1, 1, &devices(&["a", "b"]))];
        summary(&allocator(features, &slices).allocate(&node(), &[claim(requests)]).0)
    }

    fn exactly(rest: &Value) -> Value {
        let mut exactly = json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1});
        for (field, value) in rest.as_object().unwrap() {
            exactly[field] = value.clone();
        }
        json!([{"name": "r", "exactly": exactly}])
    }

    #[test]
    fn what_is_refused_before_the_search() {
        for (rest, expected) in [
            (json!({"allocationMode": "Some"}), "unsupported count mode Some"),
            (json!({"deviceClassName": ""}), "missing device class name (unsupported request type?)"),
            (json!({"deviceClassName": "none"}), "could not retrieve device class none: deviceclass.resource.k8s.io \"none\" not found"),
            (json!({"adminAccess": false}), "admin access is requested, but the feature is disabled"),
            (json!({"derivedAttributes": [{}]}), "cannot handle request with derived attributes, the feature is disabled"),
            (json!({"count": 33}), "adding 33 devices exceeds the claim limit of 32, with 0 already accounted for"),
            (json!({"count": i64::MAX}), "adding 9223372036854775807 devices exceeds the claim limit of 32, with 0 already accounted for"),
            (json!({"capacity": {}}), "has capacity requests, but the DRAConsumableCapacity feature is disabled"),
        ] {
            assert_eq!(answer(Features::none(), &exactly(&rest)), format!("claim ns/c, request r: {expected}"));
        }
        let selector = answer(Features::none(), &exactly(&json!({"selectors": [{}]})));
        assert_eq!(selector, "claim ns/c, request r, selector #0: CEL expression empty (unsupported selector type?)");
        let alternatives = json!([{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "any", "capacity": {}}]}]);
        let off = "feature is disabled";
        assert_eq!(
            answer(Features::none(), &alternatives),
            format!("claim ns/c, request r: has subrequests, but the DRAPrioritizedList {off}")
        );
        let list = Features::none().with(Feature::PrioritizedList);
        let capacity = format!("claim ns/c, subrequest s: has capacity requests, but the DRAConsumableCapacity {off}");
        assert_eq!(answer(list, &alternatives), capacity);
    }

    #[test]
    fn constraints_of_unknown_kind_are_refused() {
        let claim = whole_claim(&json!({"requests": exactly(&json!({})), "constraints": [{"matchAttribute": "d/a"}, {}]}));
        let outcome = allocator(Features::latest(), &[]).allocate(&node(), &[claim]).0;
        assert_eq!(summary(&outcome), "claim ns/c, constraint #1: empty constraint (unsupported constraint type?)");
    }

    #[test]
    fn how_many_devices() {
        for (rest, expected) in [
            (json!({"count": 2}), "r=p/a r=p/b"),
            (json!({"count": 3}), "does not fit"),
            (json!({"count": 0}), ""),
            (json!({"allocationMode": "All"}), "r=p/a r=p/b"),
        ] {
            assert_eq!(answer(Features::none(), &exactly(&rest)), expected, "{rest}");
        }
    }
}
