//! The gRPC side of the driver: two Unix sockets, one on which it registers with the kubelet and one on which it
//! serves the DRA plugin API.

mod plugin;
pub mod proto;
mod registration;
mod socket;
#[cfg(test)]
mod tests;

pub(super) use plugin::PluginService;
pub(super) use registration::RegistrationService;
pub use socket::{MAX_SOCKET_PATH, SocketError};
pub(super) use socket::{Socket, check_length};

/// What the registration service says about the versions of the DRA plugin API, the preferred one first: a
/// kubelet takes the first that it knows.
pub const SUPPORTED_VERSIONS: [&str; 2] = ["v1.DRAPlugin", "v1beta1.DRAPlugin"];

/// The plugin type of DRA drivers.
pub const PLUGIN_TYPE: &str = "DRAPlugin";
