//! What works only by the order of devices: a selector that fails on some device is an error only if the search gets there.

use super::edit::Edit;
use super::finding::Finding;
use super::problem::Problem;
use super::reason::Reason;
use crate::allocator::{Obstacle, Outcome};
use crate::model::ids::DeviceId;

/// Says so where the claims fit and would not if a device in use were free, or if the devices came in another order; both
/// are tried.
#[must_use]
pub fn find(problem: &Problem) -> Option<Finding> {
    if !matches!(problem.solve(), Outcome::Fits(_)) {
        return None;
    }
    let survey = problem.allocator().survey(&problem.node, &problem.claims).ok()?;
    let mut failing: Option<(&DeviceId, &str)> = None;
    for request in &survey.requests {
        for (id, obstacle) in survey.devices.iter().zip(&request.obstacles) {
            if let Some(Obstacle::SelectorFails { text, .. }) = obstacle {
                failing = failing.or(Some((id, text)));
            }
        }
    }
    let (device, text) = failing?;
    let finding = Finding::new(Reason::OrderLuck).with("device", device).with("error", text);
    if problem.state.is_allocated(device) {
        let free = problem.with(&[Edit::Free(vec![device.clone()])]);
        if matches!(free.solve(), Outcome::Invalid(_)) {
            return Some(finding.variant("in-use"));
        }
    }
    let mut turned = problem.clone();
    for slice in &mut turned.slices {
        let slice = std::sync::Arc::make_mut(slice);
        if let Some(devices) = &mut slice.spec.devices {
            devices.sort_by_key(|other| *other.name != *device.device);
        }
    }
    matches!(turned.solve(), Outcome::Invalid(_)).then(|| finding.with("pool", &device.pool))
}
