//! The slices of one driver on one node: what the API server has, as far as is known, and the calls that change it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions, WatchParams};
use kube::core::WatchEvent;
use kube::{Api, Client, ResourceExt as _};

use super::pool::PoolIdentity;
use crate::base::clock::SharedClock;
use crate::driver::error::kube_text;

/// The field manager of what the driver writes.
const MANAGER: &str = "dralab-driver";
/// How long a call may take before it counts as failed.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The known state of the slices, kept up by a list, the events of a watch and the answers to own writes.
#[derive(Debug)]
pub(super) struct Slices {
    api: Api<ResourceSlice>,
    nodes: Api<Node>,
    clock: SharedClock,
    driver: String,
    node: String,
    selector: String,
    all: BTreeMap<String, ResourceSlice>,
    /// From where the next watch goes on.
    version: String,
}

impl Slices {
    pub(super) fn new(identity: &PoolIdentity, client: Client, clock: SharedClock) -> Self {
        Slices {
            api: Api::all(client.clone()),
            nodes: Api::all(client),
            clock,
            driver: identity.driver.clone(),
            node: identity.node.clone(),
            selector: format!("spec.driver={},spec.nodeName={}", identity.driver, identity.node),
            all: BTreeMap::new(),
            version: String::new(),
        }
    }

    /// All known slices of this driver on this node, by name; also those of other pools.
    pub(super) fn all(&self) -> &BTreeMap<String, ResourceSlice> {
        &self.all
    }

    /// Reads all of them anew.
    pub(super) async fn list(&mut self) -> Result<(), ApiError> {
        let list = self.call(self.api.list(&ListParams::default().fields(&self.selector))).await?;
        self.version = list.metadata.resource_version.unwrap_or_default();
        self.all = list.items.into_iter().filter(|slice| self.is_ours(slice)).map(|slice| (slice.name_any(), slice)).collect();
        Ok(())
    }

    /// Opens a watch that goes on where the last one or the list ended.
    pub(super) async fn watch(&self) -> Result<BoxStream<'static, Result<WatchEvent<ResourceSlice>, ApiError>>, ApiError> {
        let params = WatchParams::default().fields(&self.selector);
        let events = self.call(self.api.watch(&params, &self.version)).await?;
        Ok(events.map_err(ApiError::from).boxed())
    }

    /// A slice is there, as an event says. Whether that was news.
    pub(super) fn stored(&mut self, slice: ResourceSlice) -> bool {
        self.seen(&slice.resource_version().unwrap_or_default());
        self.is_ours(&slice) && self.keep(slice)
    }

    /// A slice is gone, as an event says. Whether that was news.
    pub(super) fn deleted(&mut self, slice: &ResourceSlice) -> bool {
        self.seen(&slice.resource_version().unwrap_or_default());
        let name = slice.name_any();
        self.all.get(&name).is_some_and(|known| known.uid() == slice.uid()) && self.all.remove(&name).is_some()
    }

    /// The watch has come as far as `version`.
    pub(super) fn seen(&mut self, version: &str) {
        if !version.is_empty() {
            version.clone_into(&mut self.version);
        }
    }

    /// The reference that makes a slice go away with its node.
    pub(super) async fn owner(&self, node: &str) -> Result<OwnerReference, ApiError> {
        let found = self.call(self.nodes.get(node)).await.map_err(|error| error.during(&format!("node {node}")))?;
        Ok(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: node.to_owned(),
            uid: found.metadata.uid.unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        })
    }

    /// Creates a slice; gives it as the server stored it.
    pub(super) async fn create(&mut self, slice: ResourceSlice) -> Result<ResourceSlice, ApiError> {
        let stored = self.call(self.api.create(&parameters(), &slice)).await.map_err(|error| error.during("create resourceslice"))?;
        self.keep(stored.clone());
        Ok(stored)
    }

    /// Updates a slice, provided that it is still as known; gives it as the server stored it.
    pub(super) async fn update(&mut self, slice: ResourceSlice) -> Result<ResourceSlice, ApiError> {
        let name = slice.name_any();
        match self.call(self.api.replace(&name, &parameters(), &slice)).await {
            Ok(stored) => {
                self.keep(stored.clone());
                Ok(stored)
            }
            Err(error) => {
                if error.is_not_found() {
                    self.all.remove(&name);
                }
                Err(error.during(&format!("update resourceslice {name}")))
            }
        }
    }

    /// Deletes a slice, provided that it is still as known. One that is gone is deleted.
    pub(super) async fn delete(&mut self, slice: &ResourceSlice) -> Result<(), ApiError> {
        let name = slice.name_any();
        let preconditions = Some(Preconditions { uid: slice.uid(), resource_version: slice.resource_version() });
        let deleted = self.call(self.api.delete(&name, &DeleteParams { preconditions, ..Default::default() })).await;
        match deleted {
            Err(error) if !error.is_not_found() => Err(error.during(&format!("delete resourceslice {name}"))),
            _ => {
                self.all.remove(&name);
                Ok(())
            }
        }
    }

    fn is_ours(&self, slice: &ResourceSlice) -> bool {
        slice.spec.driver == self.driver && slice.spec.node_name.as_deref() == Some(&self.node)
    }

    /// Takes a state in unless a newer one is known: the answer to a write can come before the events that led up
    /// to it.
    fn keep(&mut self, slice: ResourceSlice) -> bool {
        let number = |slice: &ResourceSlice| slice.resource_version().and_then(|version| version.parse::<u64>().ok());
        let name = slice.name_any();
        let known = self.all.get(&name);
        if known.is_some_and(|known| known.uid() == slice.uid() && number(known) >= number(&slice) && number(&slice).is_some()) {
            return false;
        }
        self.all.insert(name, slice);
        true
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ApiError> {
        tokio::select! {
            answer = call => answer.map_err(ApiError::from),
            () = self.clock.sleep(CALL_TIMEOUT) => Err(ApiError { code: 0, text: format!("no answer within {} s", CALL_TIMEOUT.as_secs()) }),
        }
    }
}

fn parameters() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..Default::default() }
}

/// A call to the API server that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(super) struct ApiError {
    /// HTTP status, 0 when there was no answer.
    code: u16,
    text: String,
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        let code = if let kube::Error::Api(status) = &error { status.code } else { 0 };
        ApiError { code, text: kube_text(&error) }
    }
}

impl ApiError {
    /// The history that was asked for is not kept any more.
    pub(super) fn is_gone(&self) -> bool {
        self.code == 410
    }

    fn is_not_found(&self) -> bool {
        self.code == 404
    }

    fn during(self, what: &str) -> Self {
        ApiError { code: self.code, text: format!("{what}: {}", self.text) }
    }
}
