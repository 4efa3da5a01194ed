//! The registration service: the driver introduces itself and hears whether it was accepted.

use std::path::Path;

use tokio::sync::watch;
use tonic::{Request, Response, Status};

use super::proto::pluginregistration_v1::registration_server::Registration;
use super::proto::pluginregistration_v1::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};
use super::{PLUGIN_TYPE, SUPPORTED_VERSIONS};
use crate::driver::status::{DriverStatus, Registered};

/// Answers the kubelet's plugin watcher.
#[derive(Clone, Debug)]
pub(crate) struct RegistrationService {
    info: PluginInfo,
    status: watch::Sender<DriverStatus>,
}

impl RegistrationService {
    /// For a driver that serves the DRA plugin API at `endpoint`.
    pub(crate) fn new(driver: &str, endpoint: &Path, status: watch::Sender<DriverStatus>) -> Self {
        let info = PluginInfo {
            r#type: PLUGIN_TYPE.to_owned(),
            name: driver.to_owned(),
            endpoint: endpoint.display().to_string(),
            supported_versions: SUPPORTED_VERSIONS.map(str::to_owned).to_vec(),
        };
        RegistrationService { info, status }
    }
}

#[tonic::async_trait]
impl Registration for RegistrationService {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        self.status.send_if_modified(|status| {
            let first = status.registered == Registered::NotYet;
            if first {
                status.registered = Registered::Asked;
            }
            first
        });
        Ok(Response::new(self.info.clone()))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus { plugin_registered, error } = request.into_inner();
        if plugin_registered {
            tracing::info!(driver = self.info.name, "registered with the kubelet");
        } else {
            tracing::warn!(driver = self.info.name, error, "the kubelet refused the driver");
        }
        let registered = if plugin_registered { Registered::Yes } else { Registered::Refused(error) };
        self.status.send_modify(|status| status.registered = registered);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
