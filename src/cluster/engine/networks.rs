//! The engine's networks with their address blocks, for `doctor`.

use std::collections::BTreeMap;

use bollard::query_parameters::ListNetworksOptions;

use crate::cluster::engine::{Engine, EngineError};

impl Engine {
    /// All networks by name with their address blocks in CIDR notation.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn networks(&self) -> Result<BTreeMap<String, Vec<String>>, EngineError> {
        let found = self.quick("list its networks", self.docker.list_networks(None::<ListNetworksOptions>)).await?;
        let blocks = |network: &bollard::models::Network| {
            let configs = network.ipam.as_ref().and_then(|ipam| ipam.config.clone()).unwrap_or_default();
            configs.into_iter().filter_map(|config| config.subnet).collect()
        };
        Ok(found.iter().map(|network| (network.name.clone().unwrap_or_default(), blocks(network))).collect())
    }
}
