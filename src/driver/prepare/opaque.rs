//! Opaque configuration: parameters in claims and classes that only the driver understands.
//!
//! The one kind is `GpuConfig` of `gpu.resource.example.com/v1alpha1`, as Kubernetes' example driver takes it.

use std::fmt;

use k8s_openapi::api::resource::v1::{AllocationResult, DeviceAllocationConfiguration, OpaqueDeviceConfiguration};
use serde::Deserialize;
use serde_json::Value;

const API_VERSION: &str = "gpu.resource.example.com/v1alpha1";
const KIND: &str = "GpuConfig";

/// How a device is shared by those who hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// By turns.
    TimeSlicing {
        /// How long a turn is.
        interval: Interval,
    },
    /// In parts.
    SpacePartitioning {
        /// How many, at least 1.
        partition_count: i64,
    },
}

impl Default for Sharing {
    fn default() -> Self {
        Sharing::TimeSlicing { interval: Interval::Default }
    }
}

/// The length of a time slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum Interval {
    #[default]
    Default,
    Short,
    Medium,
    Long,
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A configuration that could not be taken. The texts follow what Kubernetes' decoders say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("prepare failed: error getting opaque device configs: {0}")]
pub(super) struct ConfigError(String);

/// The configurations of a claim for one driver, decoded, the strongest last.
#[derive(Debug, Default)]
pub(super) struct Configs(Vec<Scoped>);

#[derive(Debug)]
struct Scoped {
    /// Request names, also `request/subrequest`; empty means all.
    requests: Vec<String>,
    sharing: Sharing,
}

impl Configs {
    /// Decodes what an allocation carries for `driver`. All of it is checked, also what no request uses.
    ///
    /// # Errors
    /// Another kind, unknown fields, or impossible values.
    pub(super) fn of(allocation: &AllocationResult, driver: &str) -> Result<Self, ConfigError> {
        let entries = allocation.devices.iter().flat_map(|devices| devices.config.iter().flatten());
        let of_driver: Vec<(&DeviceAllocationConfiguration, &OpaqueDeviceConfiguration)> =
            entries.filter_map(|entry| Some((entry, entry.opaque.as_ref().filter(|opaque| opaque.driver == driver)?))).collect();
        let mut configs = Vec::new();
        // What the claim says is stronger than what the class says; within one source the later entry is.
        for source in ["FromClass", "FromClaim"] {
            for (entry, opaque) in of_driver.iter().filter(|(entry, _)| entry.source == source) {
                let requests = entry.requests.clone().unwrap_or_default();
                configs.push(Scoped { requests, sharing: decode(&opaque.parameters.0)? });
            }
        }
        if let Some((entry, _)) = of_driver.iter().find(|(entry, _)| !matches!(entry.source.as_str(), "FromClass" | "FromClaim")) {
            return Err(ConfigError(format!("invalid config source: {}", entry.source)));
        }
        Ok(Configs(configs))
    }

    /// What holds for the request `name`, which may be `request/subrequest`.
    pub(super) fn sharing(&self, name: &str) -> Sharing {
        let applies = |scoped: &&Scoped| {
            scoped.requests.is_empty() || scoped.requests.iter().any(|request| request == name || request == base_request(name))
        };
        self.0.iter().rev().find(applies).map(|scoped| scoped.sharing.clone()).unwrap_or_default()
    }
}

/// The request's own name, without the subrequest.
pub(super) fn base_request(name: &str) -> &str {
    name.split_once('/').map_or(name, |(request, _)| request)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "apiVersion and kind are checked before; here they only have to be known fields")]
struct GpuConfig {
    api_version: String,
    kind: String,
    #[serde(default)]
    sharing: Option<GpuSharing>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GpuSharing {
    strategy: String,
    #[serde(default)]
    time_slicing_config: Option<TimeSlicingConfig>,
    #[serde(default)]
    space_partitioning_config: Option<SpacePartitioningConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TimeSlicingConfig {
    #[serde(default)]
    interval: Interval,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SpacePartitioningConfig {
    #[serde(default)]
    partition_count: Option<i64>,
}

fn decode(parameters: &Value) -> Result<Sharing, ConfigError> {
    let undecodable = |text: String| ConfigError(format!("error decoding config parameters: {text}"));
    let field = |name: &str| parameters.get(name).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (field("apiVersion"), field("kind"));
    if kind.is_empty() {
        return Err(undecodable(format!("Object 'Kind' is missing in '{parameters}'")));
    }
    if version != API_VERSION || kind != KIND {
        return Err(undecodable(format!("no kind {kind:?} is registered for version {version:?}")));
    }
    let config: GpuConfig =
        serde_json::from_value(parameters.clone()).map_err(|error| undecodable(format!("strict decoding error: {error}")))?;
    let Some(sharing) = config.sharing else { return Ok(Sharing::default()) };
    match (sharing.strategy.as_str(), sharing.time_slicing_config, sharing.space_partitioning_config) {
        ("TimeSlicing", time, None) => Ok(Sharing::TimeSlicing { interval: time.map(|time| time.interval).unwrap_or_default() }),
        ("SpacePartitioning", None, space) => match space.and_then(|space| space.partition_count).unwrap_or(1) {
            partition_count @ 1.. => Ok(Sharing::SpacePartitioning { partition_count }),
            other => Err(ConfigError(format!("invalid partition count: {other}"))),
        },
        ("TimeSlicing" | "SpacePartitioning", ..) => {
            Err(ConfigError(format!("the configuration given is not that of sharing strategy {:?}", sharing.strategy)))
        }
        (other, ..) => Err(ConfigError(format!("unknown GPU sharing strategy: {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Configs, Interval, Sharing, decode};
    use serde_json::json;

    #[test]
    fn parameters_are_decoded_strictly() {
        let with = |sharing: serde_json::Value| json!({"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig", "sharing": sharing});
        let good = [
            (json!({"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig"}), Sharing::default()),
            (with(json!({"strategy": "TimeSlicing"})), Sharing::default()),
            (
                with(json!({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}})),
                Sharing::TimeSlicing { interval: Interval::Long },
            ),
            (with(json!({"strategy": "SpacePartitioning"})), Sharing::SpacePartitioning { partition_count: 1 }),
            (
                with(json!({"strategy": "SpacePartitioning", "spacePartitioningConfig": {"partitionCount": 2}})),
                Sharing::SpacePartitioning { partition_count: 2 },
            ),
        ];
        for (parameters, sharing) in good {
            assert_eq!(decode(&parameters), Ok(sharing), "{parameters}");
        }
        let bad = [
            (json!({}), "Object 'Kind' is missing"),
            (json!("text"), "Object 'Kind' is missing"),
            (
                json!({"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "NoSuchConfig"}),
                "prepare failed: error getting opaque device configs: error decoding config parameters: no kind \"NoSuchConfig\" is registered for version \"gpu.resource.example.com/v1alpha1\"",
            ),
            (json!({"apiVersion": "v1", "kind": "GpuConfig"}), "registered for version \"v1\""),
            (with(json!({"strategy": "TimeSlicing", "extra": 1})), "unknown field `extra`"),
            (with(json!({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Longer"}})), "unknown variant `Longer`"),
            (with(json!({"strategy": "Magic"})), "unknown GPU sharing strategy: Magic"),
            (with(json!({"strategy": "TimeSlicing", "spacePartitioningConfig": {}})), "not that of sharing strategy"),
            (
                with(json!({"strategy": "SpacePartitioning", "spacePartitioningConfig": {"partitionCount": 0}})),
                "invalid partition count: 0",
            ),
        ];
        for (parameters, text) in bad {
            let error = decode(&parameters).expect_err("bad parameters").to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn the_claim_beats_the_class_and_the_later_entry_the_earlier_within_their_requests() {
        let entry = |source: &str, requests: &[&str], count: i64| {
            json!({"source": source, "requests": requests, "opaque": {"driver": "d", "parameters": {
                "apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig",
                "sharing": {"strategy": "SpacePartitioning", "spacePartitioningConfig": {"partitionCount": count}}}}})
        };
        let config = json!([
            entry("FromClaim", &["b"], 1),
            entry("FromClass", &[], 2),
            entry("FromClaim", &["c"], 3),
            entry("FromClaim", &["c/small"], 4),
            {"source": "FromClaim", "opaque": {"driver": "other", "parameters": {"kind": "Whatever"}}},
        ]);
        let allocation = serde_json::from_value(json!({"devices": {"config": config}})).unwrap();
        let configs = Configs::of(&allocation, "d").unwrap();
        for (request, partition_count) in [("a", 2), ("b", 1), ("c", 3), ("c/large", 3), ("c/small", 4)] {
            assert_eq!(configs.sharing(request), Sharing::SpacePartitioning { partition_count }, "{request}");
        }
        assert_eq!(Configs::default().sharing("a"), Sharing::default());
    }
}
