//! The container engine and the tools: each asked once, bounded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures::future::join_all;

use crate::base::failure::Chain;
use crate::cluster::engine::{Endpoint, Engine, EngineEnvironment, EngineError, EngineInfo, ImageStore, NodeContainer, choose};
use crate::cluster::kind::tool::{self, Kind, ToolError};
use crate::doctor::facts::{EngineFacts, Net, Node, Part, Tool, Tools};
use crate::doctor::gather::host::{HostEnvironment, program};
use crate::doctor::{Absent, Blind};

/// How long the engine may take for one answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a tool may take to say its version.
const VERSION: Duration = Duration::from_secs(5);
/// How long a look into a node container may take.
const GLANCE: Duration = Duration::from_secs(3);

/// Connects to the engine.
///
/// # Errors
/// [`Absent::NoEngine`] when none is to be found, the reason when one does not answer.
pub async fn connect(environment: &EngineEnvironment) -> Part<Engine> {
    let address = choose(environment).map_err(|error| match error {
        EngineError::NoEngine { .. } => Blind::NotHere(Absent::NoEngine),
        other => Blind::because(Chain(&other)),
    })?;
    Engine::connect(&address).await.map_err(|error| Blind::because(Chain(&error)))
}

/// What the engine says. `kernel` is this machine's, `known` the labs that have a record.
///
/// # Errors
/// When it does not say how it is.
pub(super) async fn engine(engine: &Engine, kernel: Option<&str>, known: &[String]) -> Part<EngineFacts> {
    let (info, networks, clusters) = futures::join!(bounded(engine.info()), bounded(engine.networks()), clusters(engine));
    let info: EngineInfo = info?;
    let with_driver = match &clusters {
        Ok(clusters) => with_driver(engine, clusters.iter().filter(|(name, _)| !known.contains(name))).await,
        Err(_) => Vec::new(),
    };
    let nets = |blocks: Vec<String>| blocks.iter().filter_map(|b| Net::parse(b)).collect();
    Ok(EngineFacts {
        address: engine.address().docker_host(),
        local: matches!(engine.address().endpoint, Endpoint::Unix(_)) && kernel == Some(info.kernel.as_str()),
        name: info.name,
        version: info.version,
        cgroup: info.cgroup_version,
        rootless: info.rootless,
        storage: info.storage_driver,
        containerd_store: info.image_store == ImageStore::Containerd,
        machine: info.operating_system,
        memory: info.memory,
        folder: info.root_folder,
        warnings: info.warnings,
        proxy: info.proxies[1].clone().or_else(|| info.proxies[0].clone()).map(|p| super::host::without_credentials(&p)),
        networks: networks.map(|n| n.into_iter().map(|(name, blocks)| (name, nets(blocks))).collect()),
        clusters,
        with_driver,
    })
}

async fn bounded<T>(answer: impl Future<Output = Result<T, EngineError>>) -> Part<T> {
    match tokio::time::timeout(ANSWER, answer).await {
        Ok(answer) => answer.map_err(|error| Blind::because(Chain(&error))),
        Err(_) => Err(Blind::because(format!("the container engine did not answer within {} s", ANSWER.as_secs()))),
    }
}

async fn clusters(engine: &Engine) -> Part<BTreeMap<String, Vec<Node>>> {
    let names = bounded(engine.clusters()).await?;
    let mut clusters = BTreeMap::new();
    for (name, nodes) in join_all(names.iter().map(|name| async move { (name.clone(), bounded(engine.nodes(name)).await) })).await {
        clusters.insert(name, nodes?.into_iter().filter(NodeContainer::is_node).map(node).collect());
    }
    Ok(clusters)
}

fn node(container: NodeContainer) -> Node {
    let addresses = container.addresses.into_values().filter(|a| !a.is_empty()).collect();
    Node { name: container.name, running: container.running, image: container.image, addresses }
}

/// The clusters whose nodes have the folder of dralab's driver.
async fn with_driver<'c>(engine: &Engine, clusters: impl Iterator<Item = (&'c String, &'c Vec<Node>)>) -> Vec<String> {
    let folder = format!("/var/lib/kubelet/plugins/{}", crate::driver::DEFAULT_DRIVER_NAME);
    let look = |name: String, node: String| {
        let folder = folder.clone();
        async move {
            let found = engine.exec(&node, &["test", "-d", &folder], None, GLANCE).await;
            found.is_ok_and(|end| end.succeeded()).then_some(name)
        }
    };
    let running = clusters.filter_map(|(name, nodes)| nodes.iter().rfind(|n| n.running).map(|n| look(name.clone(), n.name.clone())));
    join_all(running).await.into_iter().flatten().collect()
}

/// The tools.
pub(super) async fn tools(environment: &HostEnvironment) -> Tools {
    let (kind, kubectl) = futures::join!(kind(environment), kubectl(environment));
    Tools { kind, kubectl }
}

async fn kind(environment: &HostEnvironment) -> Part<Tool> {
    let program = tool::locate(environment.kind.as_deref(), &environment.path).ok_or(Blind::NotHere(Absent::NoTool))?;
    let asked = tokio::time::timeout(VERSION, Kind::ask(program)).await;
    match asked {
        Ok(Ok(kind)) => Ok(Tool { program: kind.program.display().to_string(), version: format!("v{}", kind.version) }),
        Ok(Err(ToolError::NotFound)) => Err(Blind::NotHere(Absent::NoTool)),
        Ok(Err(error)) => Err(Blind::because(Chain(&error))),
        Err(_) => Err(Blind::because(format!("`kind version` did not end within {} s", VERSION.as_secs()))),
    }
}

async fn kubectl(environment: &HostEnvironment) -> Part<Tool> {
    let named = environment.kubectl.clone();
    let file: PathBuf = named.or_else(|| program("kubectl", &environment.path)).ok_or(Blind::NotHere(Absent::NoTool))?;
    let shown = file.display().to_string();
    let asked =
        tokio::process::Command::new(&file).args(["version", "--client", "-o", "json"]).stdin(Stdio::null()).kill_on_drop(true).output();
    let answer = match tokio::time::timeout(VERSION, asked).await {
        Ok(answer) => answer.map_err(|error| Blind::because(format!("{shown}: {error}")))?,
        Err(_) => return Err(Blind::because(format!("`{shown} version` did not end within {} s", VERSION.as_secs()))),
    };
    let json: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
    match json["clientVersion"]["gitVersion"].as_str() {
        Some(version) => Ok(Tool { program: shown, version: version.to_owned() }),
        None => Err(Blind::because(format!("`{shown} version --client -o json` does not say its version"))),
    }
}
