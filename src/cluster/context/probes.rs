//! Which of DRA's gates are on, as far as a client can tell: a field of a gated feature is written with `dryRun=All` and read back. An API server
//! whose gate is off drops the field without a word (kubernetes/kubernetes#130856), so the answer tells.

use std::fmt;

use futures::future::join_all;
use kube::Client;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::client::apply::api_of;
use crate::client::{ClientError, Kinds};

/// What was found out of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The field survives.
    On,
    /// The field is dropped, or the kind is not served.
    Off,
    /// The server refused to tell; its words.
    Unknown(String),
}

/// What was found out of all gates that tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates(pub Vec<(&'static str, Told)>);

impl Gates {
    /// The names of the gates that are on.
    pub fn on(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().filter(|(_, told)| *told == Told::On).map(|(name, _)| *name)
    }

    /// The names of the gates that are off.
    pub fn off(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().filter(|(_, told)| *told == Told::Off).map(|(name, _)| *name)
    }

    /// The gates that could not be told, with the server's words.
    pub fn unknown(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().filter_map(|(name, told)| match told {
            Told::Unknown(why) => Some((*name, why.as_str())),
            Told::On | Told::Off => None,
        })
    }
}

impl fmt::Display for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.on().collect::<Vec<_>>().join(", "))
    }
}

/// A gate and a field that only survives where it is on.
struct Probe {
    gate: &'static str,
    kind: &'static str,
    spec: Value,
    field: &'static str,
    /// Words of a refusal that only comes where the gate is on.
    refusal: Option<&'static str>,
}

fn probes() -> Vec<Probe> {
    // The node does not have to be there: a slice names it, and nothing else is asked.
    let slice = |more: Value| {
        let mut spec = json!({"driver": "probe.dralab.dev", "nodeName": "dralab-probe", "pool": {"name": "dralab-probe", "generation": 1, "resourceSliceCount": 1}});
        json_patch::merge(&mut spec, &more);
        spec
    };
    let device = |more: Value| {
        let mut device = json!({"name": "probe"});
        json_patch::merge(&mut device, &more);
        slice(json!({"devices": [device]}))
    };
    let claim = |more: Value| {
        let mut request = json!({"deviceClassName": "probe.dralab.dev"});
        json_patch::merge(&mut request, &more);
        json!({"devices": {"requests": [{"name": "probe", "exactly": request}]}})
    };
    let probe = |gate, kind, spec, field| Probe { gate, kind, spec, field, refusal: None };
    vec![
        Probe {
            refusal: Some("admin access to devices requires"),
            ..probe("DRAAdminAccess", "resourceclaims", claim(json!({"adminAccess": true})), "/spec/devices/requests/0/exactly/adminAccess")
        },
        probe(
            "DRAPrioritizedList",
            "resourceclaims",
            json!({"devices": {"requests": [{"name": "probe", "firstAvailable": [{"name": "a", "deviceClassName": "probe.dralab.dev"}]}]}}),
            "/spec/devices/requests/0/firstAvailable",
        ),
        probe(
            "DRAPartitionableDevices",
            "resourceslices",
            slice(json!({"sharedCounters": [{"name": "set", "counters": {"memory": {"value": "1Gi"}}}]})),
            "/spec/sharedCounters",
        ),
        probe(
            "DRAConsumableCapacity",
            "resourceslices",
            device(json!({"allowMultipleAllocations": true, "capacity": {"memory": {"value": "1Gi"}}})),
            "/spec/devices/0/allowMultipleAllocations",
        ),
        probe(
            "DRADeviceTaints",
            "resourceslices",
            device(json!({"taints": [{"key": "probe.dralab.dev/x", "effect": "NoSchedule"}]})),
            "/spec/devices/0/taints",
        ),
        probe(
            "DRADeviceBindingConditions",
            "resourceslices",
            device(json!({"bindingConditions": ["probe.dralab.dev/ready"], "bindingFailureConditions": ["probe.dralab.dev/failed"]})),
            "/spec/devices/0/bindingConditions",
        ),
        probe(
            "DRAExtendedResource",
            "deviceclasses",
            json!({"extendedResourceName": "probe.dralab.dev/gpu"}),
            "/spec/extendedResourceName",
        ),
        probe(
            "DRAListTypeAttributes",
            "resourceslices",
            device(json!({"attributes": {"numa": {"ints": [0, 1]}}})),
            "/spec/devices/0/attributes/numa/ints",
        ),
        probe(
            "DRAOptionalNodeOperations",
            "resourceslices",
            slice(json!({"devices": [{"name": "probe"}], "skipNodeOperations": ["Prepare", "Unprepare"]})),
            "/spec/skipNodeOperations",
        ),
        probe(
            "DRADerivedAttributes",
            "resourceclaims",
            claim(json!({"derivedAttributes": [{"name": "probe.dralab.dev/x", "expression": "device.driver"}]})),
            "/spec/devices/requests/0/exactly/derivedAttributes",
        ),
    ]
}

/// Gates of which the kind that they bring tells.
const KINDS: &[(&str, &str)] =
    &[("DRADeviceTaintRules", "devicetaintrules.resource.k8s.io"), ("DRAResourcePoolStatus", "resourcepoolstatusrequests.resource.k8s.io")];

/// Asks for all gates that tell.
pub async fn ask(client: &Client, kinds: &Kinds) -> Gates {
    let mut told = join_all(probes().into_iter().map(|probe| async move { (probe.gate, one(client, kinds, &probe).await) })).await;
    told.extend(KINDS.iter().map(|(gate, kind)| (*gate, if kinds.find(kind).is_ok() { Told::On } else { Told::Off })));
    Gates(told)
}

async fn one(client: &Client, kinds: &Kinds, probe: &Probe) -> Told {
    let written = async {
        let kind = kinds.find(&format!("{}.v1.resource.k8s.io", probe.kind))?;
        let object =
            json!({"apiVersion": "resource.k8s.io/v1", "kind": kind.kind, "metadata": {"name": "dralab-probe"}, "spec": probe.spec});
        let object: DynamicObject = serde_json::from_value(object)
            .map_err(|error| ClientError::Answer { what: probe.kind.to_owned(), reason: error.to_string() })?;
        let params = PostParams { dry_run: true, ..PostParams::default() };
        Ok(api_of(client, kind, "default").create(&params, &object).await?.data)
    };
    read(written.await, probe.field, probe.refusal)
}

/// What the answer to a write tells.
fn read(answer: Result<Value, ClientError>, field: &str, refusal: Option<&str>) -> Told {
    match answer {
        Ok(object) if object.pointer(field).is_some_and(|value| !value.is_null()) => Told::On,
        Ok(_) => Told::Off,
        Err(ClientError::Refused { message, .. }) if refusal.is_some_and(|words| message.contains(words)) => Told::On,
        Err(ClientError::UnknownKind { .. }) => Told::Off,
        // What is left without the dropped field is not always valid.
        Err(ClientError::Refused { code: 422, message, .. })
            if message.contains("Required value") || message.contains("must specify one of") =>
        {
            Told::Off
        }
        Err(error) => Told::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Told, probes, read};
    use crate::client::ClientError;
    use serde_json::json;

    #[test]
    fn the_answer_tells() {
        let refused = |code, message: &str| Err(ClientError::Refused { code, reason: String::new(), message: message.to_owned() });
        for (answer, expected) in [
            (Ok(json!({"spec": {"a": [1]}})), Told::On),
            (Ok(json!({"spec": {}})), Told::Off),
            (refused(403, "words of the gate, and more"), Told::On),
            (refused(422, "spec.devices.requests[0]: Required value"), Told::Off),
            (refused(422, "attributes[numa]: Invalid value: \"\": must specify one of: `int`, ..."), Told::Off),
            (refused(403, "forbidden"), Told::Unknown("forbidden".to_owned())),
        ] {
            assert_eq!(read(answer, "/spec/a", Some("words of the gate")), expected);
        }
    }

    #[test]
    fn each_probe_has_its_field() {
        for probe in probes() {
            let object = json!({"spec": probe.spec});
            assert!(object.pointer(probe.field).is_some(), "{}", probe.gate);
            let known = (crate::model::features::OLDEST..=crate::model::features::NEWEST)
                .any(|minor| crate::model::gates::setting(probe.gate, minor).is_some());
            assert!(known, "{} is a gate", probe.gate);
        }
    }
}
