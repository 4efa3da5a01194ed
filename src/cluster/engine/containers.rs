//! Containers of kind's clusters, and removing what a roll back must remove when kind itself cannot.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bollard::errors::Error;
use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{
    InspectNetworkOptions, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder, RemoveVolumeOptionsBuilder, StartContainerOptions,
};

use crate::cluster::engine::{Engine, EngineError, status_of};

/// The label with which kind marks the containers of a cluster; its value is the cluster's name.
pub const CLUSTER_LABEL: &str = "io.x-k8s.kind.cluster";
/// The label with which kind marks what a container is for: `control-plane`, `worker`, `external-load-balancer`.
pub const ROLE_LABEL: &str = "io.x-k8s.kind.role";

/// A container of a kind cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeContainer {
    /// Its name, which is also the name of the node.
    pub name: String,
    /// Its id.
    pub id: String,
    /// The cluster that it belongs to.
    pub cluster: String,
    /// `control-plane`, `worker` or `external-load-balancer`.
    pub role: String,
    /// It runs.
    pub running: bool,
    /// The image it was made from, as it was named then.
    pub image: String,
    /// Its IP addresses by network.
    pub addresses: BTreeMap<String, String>,
    /// The volumes that it has mounted, by name.
    pub volumes: Vec<String>,
}

impl NodeContainer {
    /// It is a Kubernetes node, and not a load balancer.
    #[must_use]
    pub fn is_node(&self) -> bool {
        matches!(self.role.as_str(), "control-plane" | "worker")
    }
}

impl Engine {
    /// The containers of this kind cluster, running or not, by name.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn nodes(&self, cluster: &str) -> Result<Vec<NodeContainer>, EngineError> {
        self.labelled(&format!("{CLUSTER_LABEL}={cluster}")).await
    }

    /// The names of all kind clusters of this engine.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn clusters(&self) -> Result<BTreeSet<String>, EngineError> {
        Ok(self.labelled(CLUSTER_LABEL).await?.into_iter().map(|node| node.cluster).collect())
    }

    async fn labelled(&self, label: &str) -> Result<Vec<NodeContainer>, EngineError> {
        let filters = HashMap::from([("label".to_owned(), vec![label.to_owned()])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let found = self.quick("list its containers", self.docker.list_containers(Some(options))).await?;
        let mut nodes: Vec<NodeContainer> = found.into_iter().map(read).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(nodes)
    }

    /// Removes a container by force, with its anonymous volumes; says whether it was there.
    ///
    /// # Errors
    /// When the engine refuses.
    pub async fn remove_container(&self, name: &str) -> Result<bool, EngineError> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        removed(self.docker.remove_container(name, Some(options)).await, || format!("remove the container {name}"))
    }

    /// Starts a container that is stopped; one that runs is left as it is.
    ///
    /// # Errors
    /// When it is not there, or does not start.
    pub async fn start_container(&self, name: &str) -> Result<(), EngineError> {
        let started = self.docker.start_container(name, None::<StartContainerOptions>);
        self.quick(&format!("start the container {name}"), started).await
    }

    /// Removes a volume; says whether it was there.
    ///
    /// # Errors
    /// When the engine refuses, as it does while a container uses it.
    pub async fn remove_volume(&self, name: &str) -> Result<bool, EngineError> {
        let options = RemoveVolumeOptionsBuilder::default().force(true).build();
        removed(self.docker.remove_volume(name, Some(options)).await, || format!("remove the volume {name}"))
    }

    /// How many containers are on this network; `None` when there is no such network. kind makes one called `kind` and leaves it.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn network(&self, name: &str) -> Result<Option<usize>, EngineError> {
        match self.docker.inspect_network(name, None::<InspectNetworkOptions>).await {
            Ok(network) => Ok(Some(network.containers.unwrap_or_default().len())),
            Err(error) if status_of(&error) == Some(404) => Ok(None),
            Err(error) => Err(EngineError::request(format!("look at the network {name}"))(error)),
        }
    }

    /// Removes a network; says whether it was there. An engine refuses to while containers are on it.
    ///
    /// # Errors
    /// When the engine refuses.
    pub async fn remove_network(&self, name: &str) -> Result<bool, EngineError> {
        removed(self.docker.remove_network(name).await, || format!("remove the network {name}"))
    }
}

/// Gone is gone.
fn removed(answer: Result<(), Error>, what: impl FnOnce() -> String) -> Result<bool, EngineError> {
    match answer {
        Ok(()) => Ok(true),
        Err(error) if status_of(&error) == Some(404) => Ok(false),
        Err(error) => Err(EngineError::request(what())(error)),
    }
}

fn read(container: ContainerSummary) -> NodeContainer {
    let labels = container.labels.unwrap_or_default();
    let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
    // An engine writes names with a slash before them.
    let name = container.names.unwrap_or_default().into_iter().next().unwrap_or_default();
    let networks = container.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
    let address = |settings: bollard::models::EndpointSettings| settings.ip_address.filter(|ip| !ip.is_empty());
    NodeContainer {
        name: name.trim_start_matches('/').to_owned(),
        id: container.id.unwrap_or_default(),
        cluster: label(CLUSTER_LABEL),
        role: label(ROLE_LABEL),
        running: container.state == Some(ContainerSummaryStateEnum::RUNNING),
        image: container.image.unwrap_or_default(),
        addresses: networks.into_iter().filter_map(|(network, settings)| Some((network, address(settings)?))).collect(),
        volumes: container.mounts.unwrap_or_default().into_iter().filter_map(|mount| mount.name).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::cluster::engine::Engine;
    use crate::cluster::engine::fake::{Answer, Fake};

    #[tokio::test]
    async fn a_clusters_containers_are_read_by_their_labels() {
        let container = |name: &str, role: &str, state: &str| {
            json!({
                "Id": format!("id-{name}"), "Names": [format!("/{name}")], "Image": "kindest/node:v1.37.1", "State": state,
                "Labels": {"io.x-k8s.kind.cluster": "lab", "io.x-k8s.kind.role": role},
                "NetworkSettings": {"Networks": {"kind": {"IPAddress": "172.18.0.2"}, "other": {"IPAddress": ""}}},
                "Mounts": [{"Type": "volume", "Name": "vol", "Destination": "/var"}, {"Type": "bind", "Source": "/lib/modules"}],
            })
        };
        let list = json!([container("lab-worker", "worker", "running"), container("lab-control-plane", "control-plane", "exited")]);
        let fake = Fake::start(vec![
            Fake::version(),
            ("GET", "/containers/json", Answer::Json(200, list)),
            ("DELETE", "/containers/gone", Answer::Json(404, json!({"message": "No such container: gone"}))),
            ("DELETE", "/volumes/busy", Answer::Json(409, json!({"message": "volume is in use"}))),
        ])
        .await;
        let engine = Engine::connect(&fake.address()).await.expect("an engine");
        let nodes = engine.nodes("lab").await.expect("listed");
        assert_eq!(
            nodes.iter().map(|n| (n.name.as_str(), n.running)).collect::<Vec<_>>(),
            [("lab-control-plane", false), ("lab-worker", true)]
        );
        assert_eq!(nodes[0].addresses.iter().collect::<Vec<_>>(), [(&"kind".to_owned(), &"172.18.0.2".to_owned())]);
        assert_eq!((nodes[0].volumes.as_slice(), nodes[0].is_node()), (["vol".to_owned()].as_slice(), true));
        let asked = fake.requests().pop().expect("a request");
        assert!(asked.contains("all=true") && asked.contains("io.x-k8s.kind.cluster%3Dlab"), "{asked}");
        assert_eq!(engine.clusters().await.expect("listed").into_iter().collect::<Vec<_>>(), ["lab"]);
        assert!(!engine.remove_container("gone").await.expect("gone is gone"));
        let error = engine.remove_volume("busy").await.expect_err("busy");
        assert!(crate::base::failure::Chain(&error).to_string().contains("volume is in use"), "{error}");
    }
}
