//! The stable reasons. An id never changes its meaning; each has a page (`assets/reasons/{en,zh}/ID.md`).

use serde::Serialize;

/// Why something is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each has its id in TABLE and a page of its own")]
pub enum Reason {
    Allocated,
    WouldFit,
    NothingFits,
    NoDevices,
    ClassSelector,
    RequestSelector,
    SelectorError,
    SelectorCompile,
    UnknownDomain,
    UnknownName,
    RareName,
    PublishedTwice,
    DevicesInUse,
    DeviceTaint,
    TolerationMisplaced,
    CountersShort,
    CompatibilityGroups,
    CapacityShort,
    CapacityError,
    ConstraintUnmet,
    ConstraintUnknown,
    TooFewDevices,
    TooManyDevices,
    PoolIncomplete,
    PoolInvalid,
    PoolSuperseded,
    GateOff,
    ClassMissing,
    ClassIsDriver,
    RequestMalformed,
    DerivedAttribute,
    NodeOperations,
    SliceNodes,
    SliceSelector,
    GaveUp,
    OrderLuck,
    NodeUnschedulable,
    NodeTaint,
    NodeAffinity,
    NodeResources,
    NodeElsewhere,
    NoNodes,
    NoPodYet,
    PodFinished,
    PodDeleting,
    PodMissing,
    ClaimMissing,
    ClaimOtherNamespace,
    ClaimEarlierPod,
    ClaimNotOwned,
    ClaimNotCreated,
    ClaimDeleting,
    TemplateMissing,
    TemplateLater,
    SourceInvalid,
    FieldDropped,
    ReservedFull,
    ReservedLeftover,
    SharedByPods,
    NodeNameByHand,
    SchedulingGated,
    OtherScheduler,
    DriverNotRegistered,
    SliceByHand,
    PrepareFailed,
    UnprepareFailed,
    BindingWaiting,
    BindingFailed,
    KubeletFault,
    AdminLabel,
    Running,
    Starting,
}

/// The words of the ids, in the order of [`Reason`].
const TABLE: &[(Reason, &str)] = &[
    (Reason::Allocated, "DL-EXP-allocated"),
    (Reason::WouldFit, "DL-EXP-would-fit"),
    (Reason::NothingFits, "DL-EXP-nothing-fits"),
    (Reason::NoDevices, "DL-EXP-no-devices"),
    (Reason::ClassSelector, "DL-EXP-class-selector"),
    (Reason::RequestSelector, "DL-EXP-request-selector"),
    (Reason::SelectorError, "DL-EXP-selector-error"),
    (Reason::SelectorCompile, "DL-EXP-selector-compile"),
    (Reason::UnknownDomain, "DL-EXP-unknown-domain"),
    (Reason::UnknownName, "DL-EXP-unknown-name"),
    (Reason::RareName, "DL-EXP-rare-name"),
    (Reason::PublishedTwice, "DL-EXP-published-twice"),
    (Reason::DevicesInUse, "DL-EXP-devices-in-use"),
    (Reason::DeviceTaint, "DL-EXP-device-taint"),
    (Reason::TolerationMisplaced, "DL-EXP-toleration-misplaced"),
    (Reason::CountersShort, "DL-EXP-counters-short"),
    (Reason::CompatibilityGroups, "DL-EXP-compatibility-groups"),
    (Reason::CapacityShort, "DL-EXP-capacity-short"),
    (Reason::CapacityError, "DL-EXP-capacity-error"),
    (Reason::ConstraintUnmet, "DL-EXP-constraint-unmet"),
    (Reason::ConstraintUnknown, "DL-EXP-constraint-unknown"),
    (Reason::TooFewDevices, "DL-EXP-too-few-devices"),
    (Reason::TooManyDevices, "DL-EXP-too-many-devices"),
    (Reason::PoolIncomplete, "DL-EXP-pool-incomplete"),
    (Reason::PoolInvalid, "DL-EXP-pool-invalid"),
    (Reason::PoolSuperseded, "DL-EXP-pool-superseded"),
    (Reason::GateOff, "DL-EXP-gate-off"),
    (Reason::ClassMissing, "DL-EXP-class-missing"),
    (Reason::ClassIsDriver, "DL-EXP-class-is-driver"),
    (Reason::RequestMalformed, "DL-EXP-request-malformed"),
    (Reason::DerivedAttribute, "DL-EXP-derived-attribute"),
    (Reason::NodeOperations, "DL-EXP-node-operations"),
    (Reason::SliceNodes, "DL-EXP-slice-nodes"),
    (Reason::SliceSelector, "DL-EXP-slice-selector"),
    (Reason::GaveUp, "DL-EXP-gave-up"),
    (Reason::OrderLuck, "DL-EXP-order-luck"),
    (Reason::NodeUnschedulable, "DL-EXP-node-unschedulable"),
    (Reason::NodeTaint, "DL-EXP-node-taint"),
    (Reason::NodeAffinity, "DL-EXP-node-affinity"),
    (Reason::NodeResources, "DL-EXP-node-resources"),
    (Reason::NodeElsewhere, "DL-EXP-node-elsewhere"),
    (Reason::NoNodes, "DL-EXP-no-nodes"),
    (Reason::NoPodYet, "DL-EXP-no-pod-yet"),
    (Reason::PodFinished, "DL-EXP-pod-finished"),
    (Reason::PodDeleting, "DL-EXP-pod-deleting"),
    (Reason::PodMissing, "DL-EXP-pod-missing"),
    (Reason::ClaimMissing, "DL-EXP-claim-missing"),
    (Reason::ClaimOtherNamespace, "DL-EXP-claim-other-namespace"),
    (Reason::ClaimEarlierPod, "DL-EXP-claim-earlier-pod"),
    (Reason::ClaimNotOwned, "DL-EXP-claim-not-owned"),
    (Reason::ClaimNotCreated, "DL-EXP-claim-not-created"),
    (Reason::ClaimDeleting, "DL-EXP-claim-deleting"),
    (Reason::TemplateMissing, "DL-EXP-template-missing"),
    (Reason::TemplateLater, "DL-EXP-template-later"),
    (Reason::SourceInvalid, "DL-EXP-source-invalid"),
    (Reason::FieldDropped, "DL-EXP-field-dropped"),
    (Reason::ReservedFull, "DL-EXP-reserved-full"),
    (Reason::ReservedLeftover, "DL-EXP-reserved-leftover"),
    (Reason::SharedByPods, "DL-EXP-shared-by-pods"),
    (Reason::NodeNameByHand, "DL-EXP-node-name-by-hand"),
    (Reason::SchedulingGated, "DL-EXP-scheduling-gated"),
    (Reason::OtherScheduler, "DL-EXP-other-scheduler"),
    (Reason::DriverNotRegistered, "DL-EXP-driver-not-registered"),
    (Reason::SliceByHand, "DL-EXP-slice-by-hand"),
    (Reason::PrepareFailed, "DL-EXP-prepare-failed"),
    (Reason::UnprepareFailed, "DL-EXP-unprepare-failed"),
    (Reason::BindingWaiting, "DL-EXP-binding-waiting"),
    (Reason::BindingFailed, "DL-EXP-binding-failed"),
    (Reason::KubeletFault, "DL-EXP-kubelet-fault"),
    (Reason::AdminLabel, "DL-EXP-admin-label"),
    (Reason::Running, "DL-EXP-running"),
    (Reason::Starting, "DL-EXP-starting"),
];

impl Reason {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// The stable id: `DL-EXP-devices-in-use`.
    #[must_use]
    pub fn id(self) -> &'static str {
        TABLE.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// The id without its prefix: `devices-in-use`.
    #[must_use]
    pub fn slug(self) -> &'static str {
        self.id().trim_start_matches("DL-EXP-")
    }

    /// The reason of an id or slug, in any case.
    #[must_use]
    pub fn by_id(text: &str) -> Option<Self> {
        Self::all().find(|reason| reason.id().eq_ignore_ascii_case(text) || reason.slug().eq_ignore_ascii_case(text))
    }
}

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::{Reason, TABLE};

    #[test]
    fn every_reason_has_one_row_in_order() {
        for (number, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, number, "{}", row.1);
            assert_eq!(Reason::by_id(row.1), Some(row.0));
            assert_eq!(Reason::by_id(row.0.slug()), Some(row.0));
        }
        assert_eq!(Reason::Starting as usize + 1, TABLE.len(), "the last one");
        assert_eq!(Reason::by_id("none"), None);
    }
}
