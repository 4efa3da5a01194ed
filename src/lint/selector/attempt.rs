//! What a scheduling attempt would come to: the allocator takes the first device that fits, and a device that fails before it
//! ends the attempt. After the first match nothing is evaluated any more.

use serde::Serialize;

use super::answers::Answers;
use crate::lint::fleet::Fleet;

/// How it ends on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// A device is taken.
    Fits,
    /// A device is taken, and one that comes after it would have failed.
    FitsByOrder,
    /// No device matches.
    DoesNotFit,
    /// A device fails before any matches: the whole attempt fails, on all nodes.
    Fails,
}

/// A claim for one device on a node, all devices being free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// The node; `None` where no device names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How it ends.
    pub outcome: Outcome,
    /// The device that is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes: Option<String>,
    /// The first device that fails (after the one that is taken, where it fits).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails_at: Option<String>,
}

/// One attempt for each node that devices name, or one for all where none does.
pub(super) fn attempts(fleet: &Fleet, answers: &Answers) -> Vec<Attempt> {
    if answers.answers.is_empty() {
        return Vec::new();
    }
    let nodes = fleet.nodes();
    let places: Vec<Option<&str>> = if nodes.is_empty() { vec![None] } else { nodes.into_iter().map(Some).collect() };
    places.into_iter().map(|node| attempt(fleet, answers, node)).collect()
}

fn attempt(fleet: &Fleet, answers: &Answers, node: Option<&str>) -> Attempt {
    let mut attempt = Attempt { node: node.map(str::to_owned), outcome: Outcome::DoesNotFit, takes: None, fails_at: None };
    let reached = fleet.devices.iter().zip(&answers.answers).filter(|(device, _)| device.node.is_none() || device.node.as_deref() == node);
    for (device, answer) in reached {
        if answer.matches() && attempt.takes.is_none() {
            attempt.takes = Some(device.id.to_string());
            attempt.outcome = Outcome::Fits;
        }
        if answer.error().is_some() {
            attempt.fails_at = Some(device.id.to_string());
            attempt.outcome = if attempt.takes.is_some() { Outcome::FitsByOrder } else { Outcome::Fails };
            break;
        }
    }
    attempt
}
