//! Calls to a driver's DRA service, in the version that it registered with.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::connection::{Channel, service_origin};
use super::{Link, Version, rpc_error};
use crate::base::clock::SharedClock;
use crate::driver::grpc::proto::dra_v1::dra_plugin_client::DraPluginClient;
use crate::driver::grpc::proto::dra_v1::{
    Claim, Device, NodePrepareResourceResponse, NodePrepareResourcesRequest, NodePrepareResourcesResponse, NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest, NodeUnprepareResourcesResponse,
};
use crate::driver::grpc::proto::dra_v1beta1 as beta;

/// How long a call may take (`defaultClientCallTimeout`).
const CALL_TIMEOUT: Duration = Duration::from_secs(45);

/// One driver's service.
#[derive(Clone, Debug)]
pub(in crate::embedded::node) struct DraService {
    driver: String,
    endpoint: String,
    version: Version,
    link: watch::Receiver<Link>,
    clock: SharedClock,
}

impl DraService {
    pub(super) fn new(driver: &str, endpoint: &str, version: Version, link: watch::Receiver<Link>, clock: SharedClock) -> Self {
        DraService { driver: driver.to_owned(), endpoint: endpoint.to_owned(), version, link, clock }
    }

    /// Prepares claims; the error is that of the call as a whole, as grpc-go prints it.
    pub(in crate::embedded::node) async fn prepare(&self, claims: Vec<Claim>) -> Result<NodePrepareResourcesResponse, String> {
        tracing::debug!(driver = self.driver, endpoint = self.endpoint, claims = claims.len(), "NodePrepareResources");
        self.bounded(async {
            let channel = self.channel().await?;
            match self.version {
                Version::V1 => {
                    let mut client = DraPluginClient::with_origin(channel, service_origin());
                    let answer = client.node_prepare_resources(NodePrepareResourcesRequest { claims }).await;
                    answer.map(tonic::Response::into_inner).map_err(|status| rpc_error(&status))
                }
                Version::V1Beta1 => {
                    let mut client = beta::dra_plugin_client::DraPluginClient::with_origin(channel, service_origin());
                    let request = beta::NodePrepareResourcesRequest { claims: claims.into_iter().map(to_beta).collect() };
                    let answer = client.node_prepare_resources(request).await.map_err(|status| rpc_error(&status))?;
                    Ok(from_beta(answer.into_inner()))
                }
            }
        })
        .await
    }

    /// Unprepares claims.
    pub(in crate::embedded::node) async fn unprepare(&self, claims: Vec<Claim>) -> Result<NodeUnprepareResourcesResponse, String> {
        tracing::debug!(driver = self.driver, endpoint = self.endpoint, claims = claims.len(), "NodeUnprepareResources");
        self.bounded(async {
            let channel = self.channel().await?;
            match self.version {
                Version::V1 => {
                    let mut client = DraPluginClient::with_origin(channel, service_origin());
                    let answer = client.node_unprepare_resources(NodeUnprepareResourcesRequest { claims }).await;
                    answer.map(tonic::Response::into_inner).map_err(|status| rpc_error(&status))
                }
                Version::V1Beta1 => {
                    let mut client = beta::dra_plugin_client::DraPluginClient::with_origin(channel, service_origin());
                    let request = beta::NodeUnprepareResourcesRequest { claims: claims.into_iter().map(to_beta).collect() };
                    let answer = client.node_unprepare_resources(request).await.map_err(|status| rpc_error(&status))?;
                    let claims = answer.into_inner().claims;
                    let claims = claims.into_iter().map(|(uid, claim)| (uid, NodeUnprepareResourceResponse { error: claim.error }));
                    Ok(NodeUnprepareResourcesResponse { claims: claims.collect() })
                }
            }
        })
        .await
    }

    async fn bounded<T>(&self, call: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let clock = Arc::clone(&self.clock);
        tokio::select! {
            answer = call => answer,
            () = clock.sleep(CALL_TIMEOUT) => Err("rpc error: code = DeadlineExceeded desc = context deadline exceeded".to_owned()),
        }
    }

    /// The connection: waits while an attempt is on its way, fails where the last one did.
    async fn channel(&self) -> Result<Channel, String> {
        let mut link = self.link.clone();
        let state = link.wait_for(|link| !matches!(link, Link::Connecting)).await;
        match state.as_deref() {
            Ok(Link::Ready(channel)) => Ok(channel.clone()),
            Ok(Link::Failed(reason)) => Err(format!("rpc error: code = Unavailable desc = {reason}")),
            Ok(Link::Connecting) | Err(_) => Err("rpc error: code = Canceled desc = grpc: the client connection is closing".to_owned()),
        }
    }
}

fn to_beta(claim: Claim) -> beta::Claim {
    beta::Claim { namespace: claim.namespace, uid: claim.uid, name: claim.name }
}

fn from_beta(response: beta::NodePrepareResourcesResponse) -> NodePrepareResourcesResponse {
    let device = |d: beta::Device| Device {
        request_names: d.request_names,
        pool_name: d.pool_name,
        device_name: d.device_name,
        cdi_device_ids: d.cdi_device_ids,
        share_id: None,
    };
    let claims = response.claims.into_iter().map(|(uid, claim)| {
        (uid, NodePrepareResourceResponse { devices: claim.devices.into_iter().map(device).collect(), error: claim.error })
    });
    NodePrepareResourcesResponse { claims: claims.collect() }
}
