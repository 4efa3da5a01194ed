//! Hundreds of agents in one process.

use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::lab::{Lab, NAMESPACE};
use crate::embedded::api::Caller;
use crate::embedded::api::resource::PODS;
use crate::embedded::node::{NodeAgent, NodeConfig, NodeServices};

const AGENTS: u16 = 100;

#[tokio::test]
async fn hundreds_of_agents_share_their_watches() {
    let mut lab = Lab::new();
    let stop = CancellationToken::new();
    let services = NodeServices::start(&lab.api, stop.clone()).expect("services");
    let agents: Vec<NodeAgent> = (1..=AGENTS)
        .map(|index| {
            let config = NodeConfig::new(&format!("node-{index}"), index, &lab.folder.path().join(index.to_string()));
            let clock = Arc::new(lab.clock.clone());
            NodeAgent::start_shared(config, lab.api.clone(), lab.logs.clone(), clock, &services, &stop).expect("an agent")
        })
        .collect();
    for index in 1..=AGENTS {
        let name = format!("p{index}");
        lab.pod_with(&name, &json!({"containers": [{"name": "c", "image": "busybox", "command": ["sleep", "9999"]}]}));
        lab.api.bind(&Caller::component("kube-scheduler"), NAMESPACE, &name, None, &format!("node-{index}")).expect("bound");
    }
    for index in 1..=AGENTS {
        lab.phase(&format!("p{index}"), "Running").await;
    }
    let addresses: std::collections::BTreeSet<String> =
        lab.api.list(&PODS, NAMESPACE).expect("pods").items.iter().map(|pod| pod["status"]["podIP"].to_string()).collect();
    assert_eq!(addresses.len(), usize::from(AGENTS), "each pod has an address of its own");
    stop.cancel();
    for agent in agents {
        agent.join().await;
    }
    services.join().await;
    lab.end().await;
}
