//! The gRPC side of the driver: two Unix sockets, one on which it registers with the kubelet and one on which it
//! serves the DRA plugin API.

mod health;
mod plugin;
pub mod proto;
mod registration;
mod socket;
#[cfg(test)]
mod tests;

pub(super) use health::HealthService;
pub(super) use plugin::PluginService;
pub(super) use registration::RegistrationService;
pub use socket::{MAX_SOCKET_PATH, SocketError};
pub(super) use socket::{Socket, check_length, remove_leftovers};

/// What the registration service says about the services behind the DRA socket. Of the versions of the DRA plugin
/// API a kubelet takes the first that it knows, so that the preferred one stands first; for the health service it
/// has an order of its own (1.37: `v1`, before that `v1alpha1` alone).
pub const SUPPORTED_VERSIONS: [&str; 4] = ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"];

/// The plugin type of DRA drivers.
pub const PLUGIN_TYPE: &str = "DRAPlugin";
