//! Feature gates of Kubernetes that touch DRA, as a typed set.

use std::fmt;

use crate::model::gates::Setting;

/// One gate. The variants are named after the gates, without the prefix `DRA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each variant is the gate that its row in TABLE names")]
pub enum Feature {
    DynamicResourceAllocation,
    AdminAccess,
    PrioritizedList,
    ResourceClaimDeviceStatus,
    SchedulerFilterTimeout,
    PartitionableDevices,
    ConsumableCapacity,
    DeviceTaints,
    DeviceTaintRules,
    DeviceBindingConditions,
    ExtendedResource,
    ResourceHealthStatus,
    ResourceHealthStatusMessage,
    KubeletPodResourcesDynamicResources,
    KubeletPodResourcesGet,
    ResourceClaimGranularStatusAuthorization,
    ListTypeAttributes,
    NodeAllocatableResources,
    ResourcePoolStatus,
    WorkloadResourceClaims,
    FractionalCapacityRange,
    DerivedAttributes,
    DeviceCompatibilityGroups,
    OptionalNodeOperations,
    PartitionableDevicesType,
}

/// Gate, its name, and how a default cluster of 1.34, 1.35, 1.36 and 1.37 has it, in the notation of
/// [`Setting`](crate::model::gates::Setting): `a` alpha, `b` beta, `g` GA; `+` on, `-` off, `!` locked; `.` not there.
/// From the versioned table in `pkg/features/kube_features.go` of 1.37.2.
///
/// `DRAFractionalCapacityRange` is beta and on in 1.37 with minimum compatibility version 1.37, which a default
/// 1.37 cluster does not have: it is off there.
const TABLE: &[(Feature, &str, &str)] = &[
    (Feature::DynamicResourceAllocation, "DynamicResourceAllocation", "g+ g+! g+! g+!"),
    (Feature::AdminAccess, "DRAAdminAccess", "b+ b+ g+! g+!"),
    (Feature::PrioritizedList, "DRAPrioritizedList", "b+ b+ g+ g+!"),
    (Feature::ResourceClaimDeviceStatus, "DRAResourceClaimDeviceStatus", "b+ b+ b+ g+!"),
    (Feature::SchedulerFilterTimeout, "DRASchedulerFilterTimeout", "b+ b+ b+ b+"),
    (Feature::PartitionableDevices, "DRAPartitionableDevices", "a- a- b+ b+"),
    (Feature::ConsumableCapacity, "DRAConsumableCapacity", "a- a- b+ b+"),
    (Feature::DeviceTaints, "DRADeviceTaints", "a- a- b+ g+"),
    (Feature::DeviceTaintRules, "DRADeviceTaintRules", ". a- b- g+"),
    (Feature::DeviceBindingConditions, "DRADeviceBindingConditions", "a- a- b+ b+"),
    (Feature::ExtendedResource, "DRAExtendedResource", "a- a- b+ g+!"),
    (Feature::ResourceHealthStatus, "ResourceHealthStatus", "a- a- b+ b+"),
    (Feature::ResourceHealthStatusMessage, "ResourceHealthStatusMessage", ". . b+ b+"),
    (Feature::KubeletPodResourcesDynamicResources, "KubeletPodResourcesDynamicResources", "b+ b+ g+! g+!"),
    (Feature::KubeletPodResourcesGet, "KubeletPodResourcesGet", "b+ b+ g+! g+!"),
    (Feature::ResourceClaimGranularStatusAuthorization, "DRAResourceClaimGranularStatusAuthorization", ". . b+ b+"),
    (Feature::ListTypeAttributes, "DRAListTypeAttributes", ". . a- a-"),
    (Feature::NodeAllocatableResources, "DRANodeAllocatableResources", ". . a- a-"),
    (Feature::ResourcePoolStatus, "DRAResourcePoolStatus", ". . a- a-"),
    (Feature::WorkloadResourceClaims, "DRAWorkloadResourceClaims", ". . a- b-"),
    (Feature::FractionalCapacityRange, "DRAFractionalCapacityRange", ". . . b-"),
    (Feature::DerivedAttributes, "DRADerivedAttributes", ". . . a-"),
    (Feature::DeviceCompatibilityGroups, "DRADeviceCompatibilityGroups", ". . . a-"),
    (Feature::OptionalNodeOperations, "DRAOptionalNodeOperations", ". . . a-"),
    (Feature::PartitionableDevicesType, "DRAPartitionableDevicesType", ". . . a-"),
];

/// The oldest minor version that the table knows.
pub const OLDEST: u32 = 34;
/// The newest minor version that the table knows.
pub const NEWEST: u32 = 37;

/// The rows as (name, cells).
pub(super) fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.iter().map(|row| (row.1, row.2))
}

/// The column of a minor version.
pub(super) fn column(minor: u32) -> Result<usize, UnknownVersion> {
    minor.checked_sub(OLDEST).filter(|_| minor <= NEWEST).map(|column| column as usize).ok_or(UnknownVersion { minor })
}

impl Feature {
    /// All gates, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// The gate's name, as in `--feature-gates`.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// The gate of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no gate of Kubernetes 1.37.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown feature gate {name:?}")]
pub struct UnknownFeature {
    /// The name as given.
    pub name: String,
}

/// A Kubernetes minor version outside of 1.34 to 1.37.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the feature gates of Kubernetes 1.{minor} are not known, only those of 1.{OLDEST} to 1.{NEWEST}")]
pub struct UnknownVersion {
    /// The minor version as given.
    pub minor: u32,
}

/// The set of gates that are on.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Features(u64);

impl Features {
    /// No gate is on.
    #[must_use]
    pub const fn none() -> Self {
        Self(0)
    }

    /// Every gate is on.
    #[must_use]
    pub fn all() -> Self {
        Feature::all().collect()
    }

    /// The gates that a default cluster of Kubernetes 1.`minor` has on.
    ///
    /// # Errors
    /// The version is not one of 1.34 to 1.37.
    pub fn for_kubernetes(minor: u32) -> Result<Self, UnknownVersion> {
        let column = column(minor)?;
        Ok(TABLE.iter().filter(|row| Setting::in_column(row.2, column).is_some_and(|s| s.on)).map(|row| row.0).collect())
    }

    /// The gates that a default cluster of Kubernetes 1.37 has on.
    #[must_use]
    pub fn latest() -> Self {
        Self::for_kubernetes(NEWEST).unwrap_or_default()
    }

    /// The set of the named gates. A `+` joins names, as the case files do.
    ///
    /// # Errors
    /// A name is not a known gate.
    pub fn from_names<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Result<Self, UnknownFeature> {
        let mut set = Self::none();
        for entry in names {
            for name in entry.as_ref().split('+') {
                set = set.with(Feature::by_name(name).ok_or_else(|| UnknownFeature { name: name.to_owned() })?);
            }
        }
        Ok(set)
    }

    /// Whether the gate is on.
    #[must_use]
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & (1 << feature as u64) != 0
    }

    /// The same set with the gate on.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        Self(self.0 | (1 << feature as u64))
    }

    /// The same set with the gate off.
    #[must_use]
    pub const fn without(self, feature: Feature) -> Self {
        Self(self.0 & !(1 << feature as u64))
    }

    /// The gates that are on, in the order of the table.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::all().filter(move |feature| self.has(*feature))
    }

    /// Binding conditions work only together with the device status in the claim.
    #[must_use]
    pub const fn binding_conditions(self) -> bool {
        self.has(Feature::DeviceBindingConditions) && self.has(Feature::ResourceClaimDeviceStatus)
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(iter: I) -> Self {
        iter.into_iter().fold(Self::none(), Self::with)
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Feature::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gate_has_one_row_and_a_place_in_the_set() {
        for feature in Feature::all() {
            assert_eq!(Feature::by_name(feature.name()), Some(feature));
            assert!(Features::none().with(feature).has(feature));
            assert_eq!(Features::all().without(feature).iter().count(), TABLE.len() - 1);
        }
        assert!(TABLE.iter().all(|row| row.2.split(' ').count() == 4 && row.2.split(' ').all(Setting::is_cell)));
    }

    #[test]
    fn defaults_per_version() {
        let on = |minor, feature| Features::for_kubernetes(minor).unwrap().has(feature);
        for (feature, expected) in [
            (Feature::AdminAccess, [true, true, true, true]),
            (Feature::PartitionableDevices, [false, false, true, true]),
            (Feature::DeviceTaintRules, [false, false, false, true]),
            (Feature::FractionalCapacityRange, [false, false, false, false]),
            (Feature::DerivedAttributes, [false, false, false, false]),
        ] {
            assert_eq!([34, 35, 36, 37].map(|minor| on(minor, feature)), expected, "{feature}");
        }
        assert_eq!(Features::for_kubernetes(33), Err(UnknownVersion { minor: 33 }));
        assert_eq!(Features::for_kubernetes(38), Err(UnknownVersion { minor: 38 }));
    }

    #[test]
    fn names() {
        let set = Features::from_names(["DRADeviceBindingConditions+DRAResourceClaimDeviceStatus"]).unwrap();
        assert!(set.binding_conditions());
        assert!(!set.without(Feature::ResourceClaimDeviceStatus).binding_conditions());
        assert_eq!(Features::from_names(["DRAFuture"]).unwrap_err().to_string(), "unknown feature gate \"DRAFuture\"");
    }
}
