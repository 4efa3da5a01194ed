//! What a running driver can be asked about itself.

/// The state of a driver, as of now. Held in a watch channel ([`super::DriverConfig::status`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverStatus {
    /// Whether the DRA socket answers. Registration comes after that.
    pub serving: bool,
    /// What the kubelet said.
    pub registered: Registered,
    /// Pool generation that is published, once all slices are as they should be.
    pub published: Option<i64>,
    /// The last thing that went wrong and is being tried again; gone once it went well.
    pub trouble: Option<String>,
}

/// Whether the kubelet took the driver on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Registered {
    /// The kubelet has not said anything.
    #[default]
    NotYet,
    /// It did.
    Yes,
    /// It did not, for this reason. It will try again.
    Refused(String),
}
