//! The registration call: who is behind a socket, and whether it can be used.

use std::path::Path;
use std::time::Duration;

use super::dial::Dialled;
use crate::base::clock::SharedClock;
use crate::driver::grpc::proto::pluginregistration_v1::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};

/// The plugin type of DRA drivers.
const DRA_PLUGIN: &str = "DRAPlugin";
/// How long a plugin may take to answer (`operation_generator.go`).
const GET_INFO_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may take to hear of its registration (`notifyTimeoutDuration`).
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// Versions of the DRA service that the agent speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1.DRAPlugin`.
    V1,
    /// `v1beta1.DRAPlugin`.
    V1Beta1,
}

/// What a plugin said about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Introduction {
    pub(super) driver: String,
    /// The socket of its DRA service.
    pub(super) endpoint: String,
    pub(super) version: Version,
}

/// Why a plugin is not registered. The texts are the kubelet's.
#[derive(Debug, thiserror::Error)]
pub(super) enum RegistrationError {
    #[error("RegisterPlugin error -- dial failed at socket {socket}, err: {source}")]
    Dial { socket: String, source: std::io::Error },
    #[error("RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {socket}, err: {reason}")]
    GetInfo { socket: String, reason: String },
    #[error("RegisterPlugin error -- no handler registered for plugin type: {kind} at socket {socket}")]
    Type { kind: String, socket: String },
    #[error("RegisterPlugin error -- plugin validation failed with err: {0}")]
    Invalid(String),
    #[error("RegisterPlugin error -- plugin registration failed with err: {0}")]
    Refused(String),
    #[error("RegisterPlugin error -- failed to send registration status at socket {socket}, err: {reason}")]
    Notify { socket: String, reason: String },
}

/// An open registration connection, closed when dropped.
pub(super) struct Conversation {
    dialled: Dialled,
    clock: SharedClock,
    socket: String,
}

impl Conversation {
    /// Dials a registration socket.
    pub(super) async fn dial(socket: &Path, clock: SharedClock) -> Result<Self, RegistrationError> {
        let name = socket.display().to_string();
        match Dialled::connect(socket).await {
            Ok(dialled) => Ok(Conversation { dialled, clock, socket: name }),
            Err(source) => Err(RegistrationError::Dial { socket: name, source }),
        }
    }

    /// Asks who is there and checks it. A plugin that is refused is told why.
    pub(super) async fn introduction(&mut self) -> Result<Introduction, RegistrationError> {
        let answer = tokio::select! {
            answer = self.dialled.call::<PluginInfo>("/pluginregistration.Registration/GetInfo", &InfoRequest {}) => answer,
            () = self.clock.sleep(GET_INFO_TIMEOUT) => Err("rpc error: code = DeadlineExceeded desc = context deadline exceeded".to_owned()),
        };
        let info = answer.map_err(|reason| RegistrationError::GetInfo { socket: self.socket.clone(), reason })?;
        if info.r#type != DRA_PLUGIN {
            let error = RegistrationError::Type { kind: info.r#type, socket: self.socket.clone() };
            self.notify(Some(error.to_string())).await?;
            return Err(error);
        }
        let endpoint = if info.endpoint.is_empty() { self.socket.clone() } else { info.endpoint };
        match choose(&info.supported_versions) {
            Ok(version) => Ok(Introduction { driver: info.name, endpoint, version }),
            Err(reason) => {
                let reason = format!("invalid supported gRPC versions of DRA driver plugin {} at endpoint {endpoint}: {reason}", info.name);
                let error = RegistrationError::Invalid(reason);
                self.notify(Some(error.to_string())).await?;
                Err(error)
            }
        }
    }

    /// Tells the plugin how it ended: registered, or why not.
    pub(super) async fn notify(&mut self, error: Option<String>) -> Result<(), RegistrationError> {
        let status = RegistrationStatus { plugin_registered: error.is_none(), error: error.unwrap_or_default() };
        let answer = tokio::select! {
            answer = self.dialled.call::<RegistrationStatusResponse>("/pluginregistration.Registration/NotifyRegistrationStatus", &status) => {
                answer.map(|_| ())
            }
            () = self.clock.sleep(NOTIFY_TIMEOUT) => Err("rpc error: code = DeadlineExceeded desc = context deadline exceeded".to_owned()),
        };
        answer.map_err(|reason| RegistrationError::Notify { socket: self.socket.clone(), reason })
    }
}

/// The first entry that the agent knows (`validateSupportedServices`).
fn choose(supported: &[String]) -> Result<Version, String> {
    if supported.is_empty() {
        return Err("empty list of supported gRPC services (aka supported versions)".to_owned());
    }
    let known = supported.iter().find_map(|service| match service.as_str() {
        "v1.DRAPlugin" => Some(Version::V1),
        "v1beta1.DRAPlugin" => Some(Version::V1Beta1),
        _ => None,
    });
    known.ok_or_else(|| {
        let list: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
        format!(
            "none of services supported by the plugin ([{}]) are supported by the kubelet ([\"v1.DRAPlugin\" \"v1beta1.DRAPlugin\"])",
            list.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{Version, choose};

    #[test]
    fn the_first_known_version_wins() {
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        for (names, version) in [
            (vec!["v1.DRAPlugin", "v1beta1.DRAPlugin"], Version::V1),
            (vec!["v1beta1.DRAPlugin", "v1.DRAPlugin"], Version::V1Beta1),
            (vec!["v1.DRAResourceHealth", "v2.DRAPlugin", "v1.DRAPlugin"], Version::V1),
        ] {
            assert_eq!(choose(&list(&names)), Ok(version), "{names:?}");
        }
        assert_eq!(choose(&[]), Err("empty list of supported gRPC services (aka supported versions)".to_owned()));
        assert_eq!(
            choose(&list(&["1.0.0", "v2.DRAPlugin"])),
            Err("none of services supported by the plugin ([\"1.0.0\" \"v2.DRAPlugin\"]) are supported by the kubelet ([\"v1.DRAPlugin\" \"v1beta1.DRAPlugin\"])".to_owned())
        );
    }
}
