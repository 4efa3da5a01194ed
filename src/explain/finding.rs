//! Reasons with values, and the explanation that they make up. Serialised as it is (`dralab/v1`, kind `Explanation`).

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Serialize;

use super::reason::Reason;

/// A reason with what it is about. `message` is empty until somebody words it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Why.
    pub reason: Reason,
    /// The sentence, in the reader's language.
    pub message: String,
    /// Which of a reason's sentences; empty for the ordinary one.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub variant: &'static str,
    /// What the sentence names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<&'static str, String>,
    /// What stands behind it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Finding>,
}

impl Finding {
    /// A finding without values.
    #[must_use]
    pub fn new(reason: Reason) -> Self {
        Finding { reason, message: String::new(), variant: "", values: BTreeMap::new(), details: Vec::new() }
    }

    /// The same in other words.
    #[must_use]
    pub fn variant(mut self, variant: &'static str) -> Self {
        self.variant = variant;
        self
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.values.insert(name, value.to_string());
        self
    }

    /// Adds what stands behind it.
    #[must_use]
    pub fn because(mut self, details: impl IntoIterator<Item = Finding>) -> Self {
        self.details.extend(details);
        self
    }

    /// The id of its sentence: `explain.say.devices-in-use` or `explain.say.devices-in-use.all`.
    #[must_use]
    pub fn text_id(&self) -> String {
        let slug = self.reason.slug();
        if self.variant.is_empty() { format!("explain.say.{slug}") } else { format!("explain.say.{slug}.{}", self.variant) }
    }
}

/// A sentence of Kubernetes, unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Quote {
    /// The object that it is about: `pod/p`.
    pub object: String,
    /// The reason of the event or condition.
    pub reason: String,
    /// The sentence.
    pub message: String,
    /// Who said it, as the event or the condition tells.
    pub from: String,
}

/// A step of a funnel: so many devices were stopped here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// `class-selector`, `request-selector`, `in-use`, `taint`, …
    pub stage: &'static str,
    /// Which one, where there are several: the selector's number, the taint's key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub which: String,
    /// How many devices it stopped.
    pub stopped: usize,
    /// How many are left after it.
    pub left: usize,
}

/// The funnel of one request on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Funnel {
    /// The claim.
    pub claim: String,
    /// The request, or `request/alternative`.
    pub request: String,
    /// The device class.
    pub device_class: String,
    /// How many devices are wanted; absent for all that match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<i64>,
    /// How many devices of usable pools the node can reach.
    pub seen: usize,
    /// Where devices were stopped, in order.
    pub stages: Vec<Stage>,
    /// How many devices nothing stands in the way of, each on its own.
    pub left: usize,
}

/// Nodes that answered alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroup {
    /// The node that was looked at closely.
    pub node: String,
    /// How many nodes answered like it, itself included.
    pub count: usize,
    /// Their names, the first few.
    pub names: Vec<String>,
    /// `fits`, `refused` or `error`.
    pub answer: &'static str,
    /// What Kubernetes' own code says of the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// Why; empty where it fits.
    pub causes: Vec<Finding>,
    /// The funnel of each request.
    pub funnels: Vec<Funnel>,
    /// The nearest miss of all.
    pub nearest: bool,
}

/// A change after which it fits, tried with the allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cure {
    /// Which kind of change: `release-claim`, `lower-count`, …
    pub change: &'static str,
    /// The sentence, in the reader's language.
    pub message: String,
    /// What the sentence names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<&'static str, String>,
    /// Where the allocator found devices with it.
    pub node: String,
    /// Which ones: `request=driver/pool/device`.
    pub devices: Vec<String>,
    /// A command that does it, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A device that a claim has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// The request that it serves.
    pub request: String,
    /// `driver/pool/device`.
    pub device: String,
    /// What the claim consumes of it, where it is shared.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub consumed: BTreeMap<String, String>,
    /// Devices that come before it in order, and what stands in their way now: `gpu-0: in use by ns/claim`.
    pub passed_over: Vec<Stage>,
    /// The place in the order of devices, from 1; absent if the device is not published any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
}

/// Everything that `dralab explain` says.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `dralab/v1`.
    pub api_version: &'static str,
    /// `Explanation`.
    pub kind: &'static str,
    /// What was asked about: `resourceclaim/c` or `pod/p`.
    pub target: String,
    /// Its namespace.
    pub namespace: String,
    /// Its state as kubectl prints it; empty if it is not there.
    pub state: String,
    /// Whether it has what it needs, or would get it now.
    pub satisfied: bool,
    /// The verdict.
    pub verdict: Finding,
    /// Everything else that was found, the most important first.
    pub findings: Vec<Finding>,
    /// Kubernetes' own words.
    pub quotes: Vec<Quote>,
    /// What the claim has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Held>,
    /// What the nodes answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeGroup>,
    /// What would make it fit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cures: Vec<Cure>,
}
