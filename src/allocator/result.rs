//! From placed devices to allocation results (section 11).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceAllocationConfiguration, DeviceAllocationResult, DeviceRequestAllocationResult,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use uuid::Uuid;

use super::search::{Placed, Search};
use crate::model::features::Feature;
use crate::model::node_selector::requirements;

impl Search<'_, '_> {
    /// The results of all claims after a search that succeeded. An error is fatal, and complete.
    pub(super) fn results(&self) -> Result<Vec<AllocationResult>, String> {
        (0..self.claims.len()).map(|claim| self.result(claim)).collect()
    }

    fn result(&self, claim: usize) -> Result<AllocationResult, String> {
        let placed: Vec<&Placed> = self.placed.iter().filter(|placed| self.choices[placed.choice].claim == claim).collect();
        let node_selector = self.node_selector(&placed).map_err(|error| {
            let name = self.claims[claim].claim.metadata.name.as_deref().unwrap_or_default();
            format!("create NodeSelector for claim {name}: {error}")
        })?;
        let results = placed.iter().enumerate().map(|(number, placed)| self.device(claim, number, placed)).collect();
        Ok(AllocationResult {
            allocation_timestamp: None,
            devices: Some(DeviceAllocationResult { config: Some(self.config(claim)).filter(|c| !c.is_empty()), results: Some(results) }),
            node_selector,
        })
    }

    fn device(&self, claim: usize, number: usize, placed: &Placed) -> DeviceRequestAllocationResult {
        let choice = &self.choices[placed.choice];
        let ix = self.view.candidates[placed.candidate].device;
        let device = self.inventory.device(ix);
        let spec = self.inventory.slice_of(ix).spec();
        let conditions = self.inventory.features.binding_conditions();
        let optional = self.inventory.features.has(Feature::OptionalNodeOperations);
        let consumed = placed.share.as_ref().filter(|consumed| !consumed.is_empty());
        DeviceRequestAllocationResult {
            admin_access: choice.admin.then_some(true),
            binding_conditions: device.binding_conditions.clone().filter(|list| conditions && !list.is_empty()),
            binding_failure_conditions: device.binding_failure_conditions.clone().filter(|list| conditions && !list.is_empty()),
            consumed_capacity: consumed
                .map(|consumed| consumed.iter().map(|(name, amount)| (name.clone(), ApiQuantity(amount.to_string()))).collect()),
            device: device.name.clone(),
            driver: spec.driver.clone(),
            pool: spec.pool.name.clone(),
            request: choice.full_name(),
            share_id: placed.share.as_ref().map(|_| self.share_id(claim, number, &self.inventory.full_name(ix))),
            skip_node_operations: spec.skip_node_operations.clone().filter(|list| optional && !list.is_empty()),
            tolerations: Some(choice.tolerations.to_vec()).filter(|tolerations| !tolerations.is_empty()),
        }
    }

    /// A share's ID. Upstream draws it at random; here it follows from what it is for, so that the same input gives the
    /// same answer: the claim in its present version, the place in its result and the device.
    fn share_id(&self, claim: usize, number: usize, device: &str) -> String {
        let metadata = &self.claims[claim].claim.metadata;
        let parts = [
            metadata.uid.as_deref().unwrap_or_default(),
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
            metadata.resource_version.as_deref().unwrap_or_default(),
            &number.to_string(),
            device,
        ];
        Uuid::new_v5(&Uuid::NAMESPACE_OID, parts.join("/").as_bytes()).to_string()
    }

    /// Configuration of the classes, once per class, then of the claim, for the requests that it is about.
    fn config(&self, claim: usize) -> Vec<DeviceAllocationConfiguration> {
        let plan = &self.claims[claim];
        let chosen: Vec<usize> =
            plan.requests.iter().zip(&self.chosen[claim]).map(|(request, alternative)| request.first + alternative).collect();
        let mut configs = Vec::new();
        let mut classes = BTreeSet::new();
        for &choice in &chosen {
            let class = self.choices[choice].class;
            let name = class.metadata.name.as_deref().unwrap_or_default();
            if !classes.insert(name) {
                continue;
            }
            let requests: Vec<String> = chosen
                .iter()
                .map(|&other| &self.choices[other])
                .filter(|other| other.class.metadata.name.as_deref().unwrap_or_default() == name)
                .map(super::requests::Choice::full_name)
                .collect();
            for config in class.spec.as_ref().and_then(|spec| spec.config.as_deref()).unwrap_or_default() {
                configs.push(DeviceAllocationConfiguration {
                    opaque: config.opaque.clone(),
                    requests: Some(requests.clone()),
                    source: "FromClass".to_owned(),
                });
            }
        }
        let devices = plan.claim.spec.as_ref().and_then(|spec| spec.devices.as_ref());
        for config in devices.and_then(|devices| devices.config.as_deref()).unwrap_or_default() {
            let wanted = config.requests.as_deref().unwrap_or_default();
            let concerns = |choice: &usize| {
                let choice = &self.choices[*choice];
                wanted.iter().any(|name| name == choice.request || (choice.alternative.is_some() && *name == choice.full_name()))
            };
            if wanted.is_empty() || chosen.iter().any(concerns) {
                configs.push(DeviceAllocationConfiguration {
                    opaque: config.opaque.clone(),
                    requests: config.requests.clone().filter(|requests| !requests.is_empty()),
                    source: "FromClaim".to_owned(),
                });
            }
        }
        let covers_all = |requests: &[String]| {
            chosen.iter().all(|&choice| {
                let choice = &self.choices[choice];
                requests.iter().any(|name| name == choice.request || *name == choice.full_name())
            })
        };
        for config in &mut configs {
            if config.requests.as_deref().is_some_and(covers_all) {
                config.requests = None;
            }
        }
        configs
    }

    /// The nodes where the claim can be used: this one if a device is tied to it, else what the slices select.
    fn node_selector(&self, placed: &[&Placed]) -> Result<Option<NodeSelector>, String> {
        let mut term = NodeSelectorTerm { match_expressions: Some(Vec::new()), match_fields: Some(Vec::new()) };
        for placed in placed {
            let ix = self.view.candidates[placed.candidate].device;
            let (device, slice) = (self.inventory.device(ix), self.inventory.slice_of(ix));
            let (node_name, selector) = if slice.per_device {
                (device.node_name.as_ref(), device.node_selector.as_ref())
            } else {
                (slice.spec().node_name.as_ref(), slice.spec().node_selector.as_ref())
            };
            if node_name.is_some_and(|name| !name.is_empty()) || device.binds_to_node == Some(true) {
                let name = self.node.metadata.name.clone().unwrap_or_default();
                let here = NodeSelectorRequirement { key: "metadata.name".to_owned(), operator: "In".to_owned(), values: Some(vec![name]) };
                return Ok(Some(NodeSelector {
                    node_selector_terms: vec![NodeSelectorTerm { match_expressions: None, match_fields: Some(vec![here]) }],
                }));
            }
            match selector.map(|selector| selector.node_selector_terms.as_slice()) {
                None | Some([]) => {}
                Some([only]) => {
                    let (expressions, fields) = requirements(only);
                    add_new(&mut term.match_fields, fields);
                    add_new(&mut term.match_expressions, expressions);
                }
                Some(terms) => return Err(format!("unsupported ResourceSlice.NodeSelector with {} terms", terms.len())),
            }
        }
        term.match_expressions = term.match_expressions.filter(|list| !list.is_empty());
        term.match_fields = term.match_fields.filter(|list| !list.is_empty());
        let empty = term.match_expressions.is_none() && term.match_fields.is_none();
        Ok((!empty).then(|| NodeSelector { node_selector_terms: vec![term] }))
    }
}

/// Adds the requirements that are not there yet; values are compared as sets.
fn add_new(to: &mut Option<Vec<NodeSelectorRequirement>>, from: &[NodeSelectorRequirement]) {
    let values = |requirement: &NodeSelectorRequirement| -> BTreeSet<String> {
        requirement.values.as_deref().unwrap_or_default().iter().cloned().collect()
    };
    let to = to.get_or_insert_default();
    for requirement in from {
        let same = |other: &NodeSelectorRequirement| {
            other.key == requirement.key && other.operator == requirement.operator && values(other) == values(requirement)
        };
        if !to.iter().any(same) {
            to.push(requirement.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::resource::v1::AllocationResult;
    use serde_json::{Value, json};

    use crate::allocator::Outcome;
    use crate::allocator::testing::{allocator, node, slice, whole_claim};
    use crate::model::features::Features;

    fn allocate(devices: &Value, slice_rest: &Value) -> Result<Value, String> {
        let slices = [slice("s", "p", 1, 1, slice_rest)];
        match allocator(Features::all(), &slices).allocate(&node(), &[whole_claim(devices)]).0 {
            Outcome::Fits(results) => Ok(serde_json::to_value(results.first().cloned().unwrap_or_else(AllocationResult::default)).unwrap()),
            other => Err(format!("{other:?}")),
        }
    }

    fn one(class: &str, name: &str) -> Value {
        json!({"name": name, "exactly": {"deviceClassName": class, "allocationMode": "ExactCount", "count": 1}})
    }

    #[test]
    fn configs_name_their_requests_unless_these_are_all() {
        let devices = json!({"devices": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
        let config = |requests: &[&str]| json!({"requests": requests, "opaque": {"driver": "d", "parameters": {"from": "claim"}}});
        let claim = json!({
            "requests": [one("any", "r1"), one("other", "r2"), one("any", "r3")],
            "config": [config(&[]), config(&["r2"]), config(&["r3", "r1", "r2"]), config(&["none"])],
        });
        let result = allocate(&claim, &devices).unwrap();
        let list = result["devices"]["config"].as_array().unwrap();
        let seen: Vec<_> = list.iter().map(|c| (&c["opaque"]["parameters"]["from"], &c["source"], &c["requests"])).collect();
        let (any, other, claim, null) = (json!("any"), json!("other"), json!("claim"), Value::Null);
        let (from_class, from_claim) = (json!("FromClass"), json!("FromClaim"));
        assert_eq!(
            seen,
            [
                (&any, &from_class, &json!(["r1", "r3"])),
                (&other, &from_class, &json!(["r2"])),
                (&claim, &from_claim, &null),
                (&claim, &from_claim, &json!(["r2"])),
                (&claim, &from_claim, &null),
            ]
        );
        let single = allocate(&json!({"requests": [one("any", "r")]}), &devices).unwrap();
        assert_eq!(single["devices"]["config"][0]["requests"], null);
    }

    #[test]
    fn node_selectors() {
        let here = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]});
        let zone = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
        let selector = json!({"nodeSelectorTerms": [zone]});
        for (rest, expected) in [
            (json!({"devices": [{"name": "x"}]}), here.clone()),
            (json!({"allNodes": true, "devices": [{"name": "x"}]}), Value::Null),
            (json!({"allNodes": true, "devices": [{"name": "x", "bindsToNode": true}]}), here.clone()),
            (json!({"nodeSelector": selector, "devices": [{"name": "x"}]}), selector.clone()),
            (json!({"perDeviceNodeSelection": true, "devices": [{"name": "x", "nodeName": "n1"}]}), here.clone()),
            (json!({"perDeviceNodeSelection": true, "devices": [{"name": "x", "nodeSelector": selector}]}), selector.clone()),
        ] {
            assert_eq!(allocate(&json!({"requests": [one("any", "r")]}), &rest).unwrap()["nodeSelector"], expected, "{rest}");
        }
        let two = json!({"nodeSelector": {"nodeSelectorTerms": [zone, zone]}, "devices": [{"name": "x"}]});
        let error = allocate(&json!({"requests": [one("any", "r")]}), &two).unwrap_err();
        assert!(error.contains("create NodeSelector for claim c: unsupported ResourceSlice.NodeSelector with 2 terms"), "{error}");
    }

    #[test]
    fn what_a_result_says_of_a_device() {
        let rest = json!({
            "skipNodeOperations": ["Prepare"],
            "devices": [{
                "name": "x", "allowMultipleAllocations": true, "capacity": {"memory": {"value": "80Gi"}},
                "bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"],
            }],
        });
        let toleration = json!([{"key": "k", "operator": "Exists"}]);
        let request = json!({"name": "r", "firstAvailable": [{
            "name": "s", "deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "tolerations": toleration,
            "capacity": {"requests": {"memory": "10Gi"}},
        }]});
        let mut able = node();
        able.status = Some(serde_json::from_value(json!({"declaredFeatures": ["DRAOptionalNodeOperations"]})).unwrap());
        let allocator = allocator(Features::all(), &[slice("s", "p", 1, 1, &rest)]);
        let claims = [whole_claim(&json!({"requests": [request]}))];
        let allocated = |node| match allocator.allocate(node, &claims).0 {
            Outcome::Fits(results) => serde_json::to_value(&results[0].devices.as_ref().unwrap().results.as_ref().unwrap()[0]).unwrap(),
            other => json!(format!("{other:?}")),
        };
        let mut result = allocated(&able);
        let share = result["shareID"].take();
        assert_eq!(share.as_str().map(str::len), Some(36), "a UUID: {share}");
        assert_eq!(
            result,
            json!({
                "request": "r/s", "driver": "d", "pool": "p", "device": "x", "tolerations": toleration, "shareID": null,
                "consumedCapacity": {"memory": "10Gi"}, "skipNodeOperations": ["Prepare"],
                "bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"],
            })
        );
        assert_eq!(allocated(&able)["shareID"], share, "the same input, the same answer");
        assert_eq!(allocated(&node()), json!("DoesNotFit"), "this node cannot go without the driver");
    }
}
