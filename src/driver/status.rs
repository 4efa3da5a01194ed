//! What a running driver can be asked about itself.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// The state of a driver, as of now. Held in a watch channel ([`super::DriverConfig::status`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverStatus {
    /// Whether the DRA socket answers. Registration comes after that.
    pub serving: bool,
    /// What the kubelet said.
    pub registered: Registered,
    /// Pool generation that is published, once all slices are as they should be.
    pub published: Option<i64>,
    /// The last thing that went wrong in each part and is being tried again; gone once it went well.
    pub trouble: BTreeMap<Part, String>,
}

/// The parts of a driver that go on trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Writing ResourceSlices.
    Publishing,
    /// Keeping CDI specs in place.
    Preparing,
    /// Being found by the kubelet.
    Registration,
    /// Telling the health of devices.
    Health,
    /// Writing conditions into the status of claims.
    ClaimStatus,
}

impl DriverStatus {
    /// All trouble in one line.
    #[must_use]
    pub fn troubles(&self) -> Option<String> {
        let all: Vec<&str> = self.trouble.values().map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// Notes trouble of a part, logging it when it is news.
pub(super) fn trouble(status: &watch::Sender<DriverStatus>, part: Part, text: String) {
    status.send_if_modified(|status| {
        let news = status.trouble.get(&part) != Some(&text);
        if news {
            tracing::warn!(?part, "{text}");
            status.trouble.insert(part, text);
        }
        news
    });
}

/// The part is well again.
pub(super) fn well(status: &watch::Sender<DriverStatus>, part: Part) {
    status.send_if_modified(|status| status.trouble.remove(&part).is_some());
}

/// Whether the kubelet took the driver on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Registered {
    /// The kubelet has not said anything.
    #[default]
    NotYet,
    /// The kubelet has asked who the driver is.
    Asked,
    /// It did.
    Yes,
    /// It did not, for this reason. It will try again.
    Refused(String),
}
