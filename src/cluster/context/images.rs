//! Images on nodes that are containers of this machine's engine, as those of a kind cluster are. Nodes of any other cluster pull their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::base::failure::Kind;
use crate::cluster::ClusterError;
use crate::cluster::context::survey::Node;
use crate::cluster::engine::{self, Engine, EngineEnvironment};
use crate::cluster::image::{self, DriverWanted, LESSON_IMAGE, NodeImages};
use crate::cluster::steps::{Reporter, Say};

pub use crate::cluster::image::DRIVER_IMAGE;

/// Names of images by node.
pub type ByNode = BTreeMap<String, BTreeSet<String>>;

/// What is wanted of images, and what was put where.
#[derive(Debug, Default)]
pub struct Images {
    /// How the container engine is found.
    pub engine: EngineEnvironment,
    /// Which dralab the driver's image is made of.
    pub driver: DriverWanted,
    /// An image for the lessons' pods, in the place of the usual one.
    pub workload: Option<String>,
    /// A folder for archives on their way.
    pub scratch: PathBuf,
    put: Mutex<ByNode>,
}

/// Nodes that are containers of this machine.
#[derive(Clone, Debug)]
pub struct Local {
    engine: Engine,
    /// The nodes that get images, which are those that get a driver.
    pub nodes: Vec<String>,
}

impl Images {
    /// Wishes; nothing is put yet.
    #[must_use]
    pub fn new(engine: EngineEnvironment, driver: DriverWanted, workload: Option<String>, scratch: PathBuf) -> Self {
        Images { engine, driver, workload, scratch, put: Mutex::default() }
    }

    /// The nodes that get a driver, when all of them are containers of this machine's engine: known by the name that kind gives them and by their
    /// address, since a cluster of the same name may be on another machine.
    pub async fn locate(&self, nodes: &[Node]) -> Option<Local> {
        let wanted: Vec<&Node> = nodes.iter().filter(|node| node.takes_drivers).collect();
        let cluster = wanted.first().and_then(|node| node.kind_cluster.clone())?;
        let address = engine::choose(&self.engine).ok()?;
        let engine = Engine::connect(&address).await.ok()?;
        let containers = engine.nodes(&cluster).await.ok()?;
        let is_here = |node: &&Node| {
            let here = containers.iter().find(|container| container.name == node.name && container.is_node() && container.running);
            here.is_some_and(|container| container.addresses.values().any(|address| node.addresses.contains(address)))
        };
        let all = wanted.iter().all(is_here);
        all.then(|| Local { engine, nodes: wanted.iter().map(|node| node.name.clone()).collect() })
    }

    /// The driver's image by a name that the nodes know: one that is put there, else one that they can pull.
    ///
    /// # Errors
    /// When the nodes are elsewhere and no image was named.
    pub fn driver_reference(&self, asked: Option<String>, local: Option<&Local>) -> Result<String, ClusterError> {
        if local.is_some() {
            return Ok(asked.filter(|image| image.starts_with(DRIVER_IMAGE)).unwrap_or_else(|| format!("{DRIVER_IMAGE}:made-by-up")));
        }
        asked.filter(|image| !image.starts_with(DRIVER_IMAGE)).ok_or_else(|| ClusterError::Advised {
            message: "the nodes of this cluster are not containers of this machine, so that the driver's image cannot be put onto them"
                .to_owned(),
            id: "DL-CTX-05",
            kind: Kind::Usage,
            causes: Vec::new(),
            advice: vec![Say::new("context.driver-image")],
        })
    }

    /// What would be put onto the nodes, a line each.
    #[must_use]
    pub fn lines(&self, local: Option<&Local>, driver: &str) -> Vec<Say> {
        let Some(local) = local else { return vec![Say::new("context.plan-pull").with("image", driver)] };
        let lesson = self.workload.as_deref().unwrap_or(LESSON_IMAGE);
        let on = |id| Say::new(id).with("nodes", &local.nodes.join(", "));
        vec![on("context.plan-driver-image"), on("context.plan-lesson-image").with("image", lesson).with("name", LESSON_IMAGE)]
    }

    /// Puts the driver's image and the lessons' onto the nodes, as far as they lack them. Returns the driver's name, and what was done.
    ///
    /// # Errors
    /// When an image cannot be had, or a node refuses it.
    pub async fn put(&self, local: &Local, report: Reporter<'_>) -> Result<(String, Say), ClusterError> {
        let (engine, nodes) = (&local.engine, &local.nodes);
        let before = names(local).await?;
        let work = async {
            let architecture = image::architecture_of(engine, nodes).await?;
            let driver = image::driver::prepare(engine, &self.driver, &architecture, &self.scratch, report).await?;
            report(crate::cluster::steps::StepEvent::Note(driver.made_from.clone()));
            image::driver::load(engine, nodes, &driver, report).await?;
            image::lesson::ensure(engine, nodes, LESSON_IMAGE, self.workload.as_deref(), &self.scratch, report).await?;
            Ok::<_, image::ImageError>(driver.name)
        };
        let result = work.await;
        // Also what a failure left half-way is to be removed.
        let after = names(local).await?;
        let mut put = ByNode::new();
        for (node, names) in after {
            let there = before.get(&node).cloned().unwrap_or_default();
            let images = NodeImages::new(engine, &node);
            for name in names.difference(&there) {
                let own = put.entry(node.clone()).or_default();
                own.insert(name.clone());
                // The node's runtime names it by its id too, a moment later.
                own.extend(images.id(name).await?.filter(|id| !there.contains(id)));
            }
        }
        *self.put.lock().unwrap_or_else(PoisonError::into_inner) = put;
        let name = result?;
        let said = Say::new("context.images-put").with("image", &name).with("nodes", &nodes.len());
        Ok((name, said))
    }

    /// What was put by this run.
    #[must_use]
    pub fn loaded(&self) -> ByNode {
        self.put.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes images off the nodes.
    ///
    /// # Errors
    /// When a node refuses.
    pub async fn remove(&self, local: &Local, put: &ByNode) -> Result<(), ClusterError> {
        for (node, names) in put.iter().filter(|(node, _)| local.nodes.contains(node)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            NodeImages::new(&local.engine, node).remove(&names).await?;
        }
        Ok(())
    }
}

/// How long a node may take to remove a few files.
const CLEAN: Duration = Duration::from_secs(30);

impl Local {
    /// Removes the files that drivers of this name kept on the nodes: checkpoints, and the CDI spec that all devices share. On nodes that are not
    /// here they stay (about a kilobyte each).
    ///
    /// # Errors
    /// When a node cannot be reached.
    pub async fn remove_files(&self, driver: &str) -> Result<(), ClusterError> {
        const SCRIPT: &str = r#"rm -rf "/var/lib/kubelet/plugins/$1" "/var/run/cdi/k8s.$1-"*.json"#;
        for node in &self.nodes {
            self.engine.exec(node, &["sh", "-c", SCRIPT, "sh", driver], None, CLEAN).await?;
        }
        Ok(())
    }
}

async fn names(local: &Local) -> Result<ByNode, ClusterError> {
    let mut all = ByNode::new();
    for node in &local.nodes {
        all.insert(node.clone(), NodeImages::new(&local.engine, node).names().await?);
    }
    Ok(all)
}
