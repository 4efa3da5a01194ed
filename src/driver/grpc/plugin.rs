//! The DRA plugin service in its two versions, over one [`Preparer`].

use std::collections::BTreeMap;
use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::proto::{dra_v1 as v1, dra_v1beta1 as v1beta1};
use crate::driver::prepare::{ClaimRef, PrepareError, PreparedDevice, Preparer};

/// Serves NodePrepareResources and NodeUnprepareResources. What concerns one claim is in that claim's entry of
/// the answer; a call fails as a whole only when it is malformed.
#[derive(Clone, Debug)]
pub(crate) struct PluginService {
    preparer: Arc<Preparer>,
}

impl PluginService {
    pub(crate) fn new(preparer: Arc<Preparer>) -> Self {
        PluginService { preparer }
    }

    async fn prepare(&self, claims: Vec<ClaimRef>) -> BTreeMap<String, v1::NodePrepareResourceResponse> {
        tracing::debug!(?claims, "the kubelet asks to prepare");
        let outcomes = self.preparer.prepare(claims).await;
        let answer = |outcome: Result<Vec<PreparedDevice>, PrepareError>| match outcome {
            Ok(devices) => v1::NodePrepareResourceResponse {
                devices: devices.iter().map(|device| self.device(device)).collect(),
                error: String::new(),
            },
            Err(error) => {
                tracing::warn!(%error, "a claim was not prepared");
                v1::NodePrepareResourceResponse { devices: Vec::new(), error: error.to_string() }
            }
        };
        let answers = outcomes.into_iter().map(|(uid, outcome)| (uid, answer(outcome))).collect();
        tracing::debug!(?answers, "answered");
        answers
    }

    fn device(&self, device: &PreparedDevice) -> v1::Device {
        v1::Device {
            request_names: vec![device.request.clone()],
            pool_name: device.pool.clone(),
            device_name: device.device.clone(),
            cdi_device_ids: self.preparer.cdi_ids(device),
            share_id: device.share_id.clone(),
        }
    }

    async fn unprepare(&self, claims: Vec<ClaimRef>) -> BTreeMap<String, v1::NodeUnprepareResourceResponse> {
        tracing::debug!(?claims, "the kubelet asks to unprepare");
        let outcomes = self.preparer.unprepare(claims).await;
        let answer = |outcome: Result<(), PrepareError>| match outcome {
            Ok(()) => v1::NodeUnprepareResourceResponse { error: String::new() },
            Err(error) => {
                tracing::warn!(%error, "a claim was not unprepared");
                v1::NodeUnprepareResourceResponse { error: error.to_string() }
            }
        };
        let answers = outcomes.into_iter().map(|(uid, outcome)| (uid, answer(outcome))).collect();
        tracing::debug!(?answers, "answered");
        answers
    }
}

fn without_share(device: v1::Device) -> v1beta1::Device {
    v1beta1::Device {
        request_names: device.request_names,
        pool_name: device.pool_name,
        device_name: device.device_name,
        cdi_device_ids: device.cdi_device_ids,
    }
}

#[tonic::async_trait]
impl v1::dra_plugin_server::DraPlugin for PluginService {
    async fn node_prepare_resources(
        &self,
        request: Request<v1::NodePrepareResourcesRequest>,
    ) -> Result<Response<v1::NodePrepareResourcesResponse>, Status> {
        let claims =
            request.into_inner().claims.into_iter().map(|claim| ClaimRef { namespace: claim.namespace, name: claim.name, uid: claim.uid });
        Ok(Response::new(v1::NodePrepareResourcesResponse { claims: self.prepare(claims.collect()).await }))
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<v1::NodeUnprepareResourcesRequest>,
    ) -> Result<Response<v1::NodeUnprepareResourcesResponse>, Status> {
        let claims =
            request.into_inner().claims.into_iter().map(|claim| ClaimRef { namespace: claim.namespace, name: claim.name, uid: claim.uid });
        Ok(Response::new(v1::NodeUnprepareResourcesResponse { claims: self.unprepare(claims.collect()).await }))
    }
}

#[tonic::async_trait]
impl v1beta1::dra_plugin_server::DraPlugin for PluginService {
    async fn node_prepare_resources(
        &self,
        request: Request<v1beta1::NodePrepareResourcesRequest>,
    ) -> Result<Response<v1beta1::NodePrepareResourcesResponse>, Status> {
        let claims =
            request.into_inner().claims.into_iter().map(|claim| ClaimRef { namespace: claim.namespace, name: claim.name, uid: claim.uid });
        let answers = self.prepare(claims.collect()).await.into_iter().map(|(uid, answer)| {
            let devices = answer.devices.into_iter().map(without_share).collect();
            (uid, v1beta1::NodePrepareResourceResponse { devices, error: answer.error })
        });
        Ok(Response::new(v1beta1::NodePrepareResourcesResponse { claims: answers.collect() }))
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<v1beta1::NodeUnprepareResourcesRequest>,
    ) -> Result<Response<v1beta1::NodeUnprepareResourcesResponse>, Status> {
        let claims =
            request.into_inner().claims.into_iter().map(|claim| ClaimRef { namespace: claim.namespace, name: claim.name, uid: claim.uid });
        let answers = self
            .unprepare(claims.collect())
            .await
            .into_iter()
            .map(|(uid, answer)| (uid, v1beta1::NodeUnprepareResourceResponse { error: answer.error }));
        Ok(Response::new(v1beta1::NodeUnprepareResourcesResponse { claims: answers.collect() }))
    }
}
