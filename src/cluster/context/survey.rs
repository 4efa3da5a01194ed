//! What is there before anything is made: versions, gates, nodes, rights, and what would be in the way. Nothing is written.

use std::collections::BTreeMap;

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::Value;

use crate::base::failure::Kind;
use crate::client::apply::{self, api_of, namespace_of};
use crate::client::{ClientError, Kinds};
use crate::cluster::ClusterError;
use crate::cluster::context::probes::{self, Gates};
use crate::cluster::install::sharing::{Participant, Shared};
use crate::cluster::install::{NAMESPACE, ObjectRef, apply as installing, failed, refused};
use crate::cluster::steps::Say;
use crate::model::features::OLDEST;

/// What is asked for on this cluster, as far as it decides whether it can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The lab.
    pub lab: String,
    /// Who joins.
    pub participant: Participant,
    /// The driver's name.
    pub driver_name: String,
    /// The uid of the cluster that the lab was on before.
    pub cluster: Option<String>,
    /// The GPUs per node that were asked for.
    pub gpus: Option<u32>,
    /// The profile that was asked for, in short.
    pub profile: Option<String>,
    /// The driver's image that was asked for.
    pub image: Option<String>,
    /// Labels of the nodes that are to have a driver.
    pub node_selector: BTreeMap<String, String>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The version of its kubelet, such as `v1.37.2`.
    pub kubelet: String,
    /// It is part of the control plane, by its label.
    pub control_plane: bool,
    /// It takes pods without special tolerations, and has the labels that were asked for.
    pub takes_drivers: bool,
    /// Its addresses inside the cluster's network.
    pub addresses: Vec<String>,
    /// The kind cluster that it is of, by the provider id that kind gives: `kind://docker/CLUSTER/NODE`.
    pub kind_cluster: Option<String>,
}

/// What a cluster was found to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Such as `v1.37.2`.
    pub version: String,
    /// Versions of `resource.k8s.io` that are served, preferred first.
    pub served: Vec<String>,
    /// The uid of namespace kube-system.
    pub cluster: String,
    /// Its nodes by name.
    pub nodes: Vec<Node>,
    /// Which gates are on, as far as can be told.
    pub gates: Gates,
    /// The installation, where there is one.
    pub shared: Option<Shared>,
    /// Objects of the names that would be made.
    pub there: Vec<Value>,
    /// Slices of a driver of the same name that is not dralab's: `NAME on NODE`.
    pub strangers: Vec<String>,
    /// What this user may not do: `create clusterroles`.
    pub forbidden: Vec<String>,
}

impl Survey {
    /// The minor version of the API server: 37 for `v1.37.2`.
    #[must_use]
    pub fn minor(&self) -> Option<u32> {
        minor(&self.version)
    }

    /// The nodes that are to have a driver.
    pub fn workers(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.takes_drivers)
    }

    /// Others use the installation: it is shared, and not changed.
    #[must_use]
    pub fn is_shared(&self, own: &Participant) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.others(own).is_empty())
    }

    /// The objects of the names that would be made, as they are.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectRef> {
        self.there.iter().map(ObjectRef::of).collect()
    }
}

fn minor(version: &str) -> Option<u32> {
    let (major, rest) = version.trim_start_matches('v').split_once('.')?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (major == "1").then(|| digits.parse().ok()).flatten()
}

/// Looks at a cluster. `objects` are those that would be applied.
///
/// # Errors
/// When it is too old, or cannot be reached or asked.
pub async fn survey(client: &Client, objects: &[Value], asked: &Asked) -> Result<Survey, ClusterError> {
    let doing = |error: ClientError| failed("look at the cluster", error);
    let version = client.apiserver_version().await.map_err(ClientError::from).map_err(doing)?.git_version;
    let kinds = Kinds::discover(client).await.map_err(doing)?;
    let served = kinds.versions("resource.k8s.io");
    refuse_old(&version, &served)?;
    let system = async { Ok::<_, ClientError>(api_of(client, kinds.find("namespaces")?, "").get("kube-system").await?) };
    let cluster = system.await.map_err(doing)?.metadata.uid.unwrap_or_default();
    let nodes = nodes(client, &kinds, &asked.node_selector).await?;
    let there = installing::find(client, &kinds, objects).await?;
    let shared = there.iter().find(|o| o["kind"] == "Namespace" && o["metadata"]["name"] == NAMESPACE).map(Shared::of);
    let own_driver = there.iter().any(|o| o["kind"] == "DaemonSet");
    let strangers = if own_driver { Vec::new() } else { strangers(client, &kinds, &asked.driver_name).await.map_err(doing)? };
    let (gates, forbidden) = futures::join!(probes::ask(client, &kinds), forbidden(client, &kinds, objects));
    Ok(Survey { version, served, cluster, nodes, gates, shared, there, strangers, forbidden: forbidden.map_err(doing)? })
}

fn read_node(node: &Value, selector: &BTreeMap<String, String>) -> Node {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = &node["metadata"]["labels"];
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    Node {
        name: text(&node["metadata"]["name"]),
        kubelet: text(&node["status"]["nodeInfo"]["kubeletVersion"]),
        control_plane: labels.get("node-role.kubernetes.io/control-plane").is_some(),
        takes_drivers: crate::cluster::install::ready::takes_drivers(node, selector),
        addresses: addresses.filter(|a| a["type"] == "InternalIP").map(|a| text(&a["address"])).collect(),
        kind_cluster: kind_cluster(node["spec"]["providerID"].as_str().unwrap_or_default()),
    }
}

fn kind_cluster(provider_id: &str) -> Option<String> {
    let (_, rest) = provider_id.strip_prefix("kind://")?.split_once('/')?;
    rest.split_once('/').map(|(cluster, _)| cluster.to_owned())
}

/// The nodes of a cluster by name; those with the labels, and without taints that keep pods away, take drivers.
///
/// # Errors
/// When the server refuses.
pub async fn nodes(client: &Client, kinds: &Kinds, selector: &BTreeMap<String, String>) -> Result<Vec<Node>, ClusterError> {
    let list = async { Ok::<_, ClientError>(api_of(client, kinds.find("nodes")?, "").list(&ListParams::default()).await?) };
    let found = list.await.map_err(|error| failed("list the nodes", error))?;
    let read = |node| read_node(&serde_json::to_value(node).unwrap_or_default(), selector);
    let mut nodes: Vec<Node> = found.items.into_iter().map(read).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(nodes)
}

async fn strangers(client: &Client, kinds: &Kinds, driver: &str) -> Result<Vec<String>, ClientError> {
    let selector = ListParams::default().fields(&format!("spec.driver={driver}"));
    let slices = api_of(client, kinds.find("resourceslices")?, "").list(&selector).await?;
    let named = slices.items.into_iter().map(|slice| {
        let node = slice.data["spec"]["nodeName"].as_str().unwrap_or("no node").to_owned();
        format!("{} on {node}", slice.metadata.name.unwrap_or_default())
    });
    Ok(named.collect())
}

/// What the user may not do of what is needed to install and remove the objects.
async fn forbidden(client: &Client, kinds: &Kinds, objects: &[Value]) -> Result<Vec<String>, ClientError> {
    let mut questions = Vec::new();
    for object in objects {
        let (kind, _) = apply::identify(kinds, object)?;
        for verb in ["create", "patch", "delete"] {
            let namespace = kind.namespaced.then(|| namespace_of(object, "default").to_owned());
            let question = (verb, kind.group.clone(), kind.plural.clone(), namespace);
            if !questions.contains(&question) {
                questions.push(question);
            }
        }
    }
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let ask = |(verb, group, resource, namespace): (&'static str, String, String, Option<String>)| {
        let reviews = reviews.clone();
        async move {
            let named = format!("{verb} {resource}");
            let attributes = ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group),
                resource: Some(resource),
                namespace,
                ..ResourceAttributes::default()
            };
            let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SelfSubjectAccessReviewSpec::default() };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            let answer = reviews.create(&PostParams::default(), &review).await?;
            Ok::<_, ClientError>((!answer.status.is_some_and(|status| status.allowed)).then_some(named))
        }
    };
    let answers: Result<Vec<_>, _> = join_all(questions.into_iter().map(ask)).await.into_iter().collect();
    Ok(answers?.into_iter().flatten().collect())
}

fn refuse_old(version: &str, served: &[String]) -> Result<(), ClusterError> {
    let is_old = minor(version).is_none_or(|minor| minor < OLDEST);
    if !is_old && served.iter().any(|version| version == "v1") {
        return Ok(());
    }
    let serves = if served.is_empty() { "none of it".to_owned() } else { served.join(", ") };
    let message = if is_old {
        format!(
            "the cluster runs Kubernetes {version}, and a lab needs 1.{OLDEST} or newer: driver and lessons use resource.k8s.io/v1, of which it serves {serves}"
        )
    } else {
        format!(
            "the cluster runs Kubernetes {version} and does not serve resource.k8s.io/v1 (it serves {serves}): DRA is switched off there"
        )
    };
    Err(refused("DL-CTX-04", message, vec![Say::new("context.too-old")]))
}

/// Says whether a lab can be made on a cluster that was looked at.
///
/// # Errors
/// Why not; nothing was changed.
pub fn judge(survey: &Survey, asked: &Asked) -> Result<(), ClusterError> {
    refuse_old(&survey.version, &survey.served)?;
    if let Some(before) = asked.cluster.as_ref().filter(|before| **before != survey.cluster) {
        return Err(another_cluster(before, &survey.cluster));
    }
    installing::refuse_foreign(&survey.there, &asked.lab)?;
    if let Some(shared) = &survey.shared {
        shared.admit(&asked.participant)?;
        if !shared.others(&asked.participant).is_empty() {
            refuse_other_wishes(shared, asked)?;
        }
    }
    if !survey.strangers.is_empty() {
        let shown = survey.strangers.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let message = format!(
            "another driver called {} publishes on this cluster ({} slices, such as {shown}); two of one name would take each other's devices",
            asked.driver_name,
            survey.strangers.len()
        );
        return Err(refused("DL-CTX-06", message, vec![Say::new("context.stranger").with("driver", &asked.driver_name)]));
    }
    if !survey.forbidden.is_empty() {
        return Err(ClusterError::Advised {
            message: format!("you may not do on this cluster what a lab needs: {}", survey.forbidden.join(", ")),
            id: "DL-INST-03",
            kind: Kind::Failed,
            causes: Vec::new(),
            advice: vec![Say::new("install.forbidden")],
        });
    }
    if survey.workers().next().is_none() {
        let selector: Vec<String> = asked.node_selector.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let which = if selector.is_empty() { String::new() } else { format!(" with {}", selector.join(",")) };
        let message = format!("none of the cluster's {} nodes{which} takes pods: the driver would run nowhere", survey.nodes.len());
        return Err(ClusterError::Advised { message, id: "DL-CTX-10", kind: Kind::Failed, causes: Vec::new(), advice: Vec::new() });
    }
    Ok(())
}

/// An installation that others use is shared as it is.
fn refuse_other_wishes(shared: &Shared, asked: &Asked) -> Result<(), ClusterError> {
    let own = env!("CARGO_PKG_VERSION");
    let mut differences = Vec::new();
    if shared.version != own {
        differences.push(format!("it is of dralab {}, and this is {own}", shared.version));
    }
    let mut compare = |name: &str, field: &str, wanted: Option<Value>| {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != shared.parameters[field]) {
            differences.push(format!("{name} is {}, not {wanted}", shared.parameters[field]));
        }
    };
    compare("GPUs per node", "gpus", asked.gpus.map(Value::from));
    compare("the profile", "profile", asked.profile.clone().map(Value::from));
    compare("the driver's image", "image", asked.image.clone().map(Value::from));
    if differences.is_empty() {
        return Ok(());
    }
    let others = shared.others(&asked.participant).join(", ");
    let message = format!("others use the installation on this cluster ({others}), and it stays as it is: {}", differences.join("; "));
    Err(refused("DL-CTX-08", message, vec![Say::new("context.shared-as-it-is")]))
}

/// That the context leads to another cluster than before.
#[must_use]
pub fn another_cluster(before: &str, now: &str) -> ClusterError {
    let message = format!(
        "the context leads to another cluster than the lab's (kube-system's uid was {before}, and is {now}): nothing there is touched"
    );
    refused("DL-CTX-11", message, vec![Say::new("context.another-cluster")])
}

/// What deserves a word although it is no reason to refuse.
#[must_use]
pub fn notes(survey: &Survey) -> Vec<Say> {
    let mut notes = Vec::new();
    let with = |faulty: &dyn Fn(&str) -> bool| {
        let nodes: Vec<&str> = survey.workers().filter(|node| faulty(&node.kubelet)).map(|node| node.name.as_str()).collect();
        (!nodes.is_empty()).then(|| nodes.join(", "))
    };
    // kubernetes/kubernetes#133920: its DRA plugin manager locks up after half an hour without requests; mended in 1.34.2.
    if let Some(nodes) = with(&|kubelet| matches!(kubelet.trim_start_matches('v'), "1.34.0" | "1.34.1")) {
        notes.push(Say::new("context.kubelet-deadlock").with("nodes", &nodes));
    }
    if let Some(nodes) = with(&|kubelet| minor(kubelet).is_some_and(|minor| minor < OLDEST)) {
        notes.push(Say::new("context.kubelet-old").with("nodes", &nodes).with("oldest", &OLDEST));
    }
    for (gate, why) in survey.gates.unknown() {
        notes.push(Say::new("context.gate-unknown").with("gate", gate).with("why", why));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::{Asked, Node, Survey, judge, minor, notes};
    use crate::base::failure::{Failure, Kind};
    use crate::cluster::install::sharing::{Participant, Shared};
    use serde_json::json;
    use std::collections::BTreeMap;

    fn asked() -> Asked {
        Asked {
            lab: "x".to_owned(),
            participant: Participant { learner: Some("ann".to_owned()), id: "1".to_owned() },
            driver_name: "gpu.example.com".to_owned(),
            cluster: None,
            gpus: None,
            profile: None,
            image: None,
            node_selector: BTreeMap::new(),
        }
    }

    fn survey() -> Survey {
        Survey {
            version: "v1.37.2".to_owned(),
            served: vec!["v1".to_owned()],
            cluster: "uid".to_owned(),
            nodes: vec![Node { name: "a".to_owned(), kubelet: "v1.37.2".to_owned(), takes_drivers: true, ..Node::default() }],
            ..Survey::default()
        }
    }

    #[test]
    fn minor_versions() {
        for (version, expected) in [("v1.37.2", Some(37)), ("v1.34.5-gke.100", Some(34)), ("1.33+", Some(33)), ("v2.0.0", None), ("", None)]
        {
            assert_eq!(minor(version), expected, "{version}");
        }
    }

    #[test]
    fn why_a_lab_is_refused() {
        let shared = |participants: &[(&str, &str)], version: &str| {
            Some(Shared {
                participants: participants.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
                version: version.to_owned(),
                parameters: json!({"gpus": null, "profile": "default", "image": "i"}),
                images: BTreeMap::new(),
                removing: false,
            })
        };
        let own = env!("CARGO_PKG_VERSION");
        let fine: &[(&str, Survey, Asked)] = &[
            ("a fresh cluster", survey(), asked()),
            ("the oldest", Survey { version: "v1.34.2".to_owned(), ..survey() }, asked()),
            ("its own", Survey { shared: shared(&[("ann", "1")], "0.0.1"), ..survey() }, Asked { gpus: Some(4), ..asked() }),
            (
                "sharing",
                Survey { shared: shared(&[("bob", "2")], own), ..survey() },
                Asked { profile: Some("default".to_owned()), ..asked() },
            ),
            ("the cluster of before", survey(), Asked { cluster: Some("uid".to_owned()), ..asked() }),
        ];
        for (what, survey, asked) in fine {
            assert!(judge(survey, asked).is_ok(), "{what}: {:?}", judge(survey, asked));
        }
        let foreign = json!({"kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}});
        let table: &[(Survey, Asked, Kind, &str, &str)] = &[
            (
                Survey { version: "v1.33.4".to_owned(), served: vec!["v1beta1".to_owned()], ..survey() },
                asked(),
                Kind::Refused,
                "DL-CTX-04",
                "needs 1.34 or newer",
            ),
            (Survey { served: vec![], ..survey() }, asked(), Kind::Refused, "DL-CTX-04", "DRA is switched off"),
            (survey(), Asked { cluster: Some("other".to_owned()), ..asked() }, Kind::Refused, "DL-CTX-11", "another cluster"),
            (
                Survey { there: vec![foreign], ..survey() },
                asked(),
                Kind::Refused,
                "DL-INST-02",
                "deviceclass gpu.example.com (not of dralab",
            ),
            (Survey { shared: shared(&[("ann", "2")], own), ..survey() }, asked(), Kind::Refused, "DL-CTX-07", "another lab of learner"),
            (Survey { shared: shared(&[("bob", "2")], "0.0.1"), ..survey() }, asked(), Kind::Refused, "DL-CTX-08", "it is of dralab 0.0.1"),
            (
                Survey { shared: shared(&[("bob", "2")], own), ..survey() },
                Asked { gpus: Some(4), ..asked() },
                Kind::Refused,
                "DL-CTX-08",
                "GPUs per node is null, not 4",
            ),
            (Survey { strangers: vec!["s on a".to_owned()], ..survey() }, asked(), Kind::Refused, "DL-CTX-06", "1 slices, such as s on a"),
            (
                Survey { forbidden: vec!["create clusterroles".to_owned()], ..survey() },
                asked(),
                Kind::Failed,
                "DL-INST-03",
                "create clusterroles",
            ),
            (Survey { nodes: vec![], ..survey() }, asked(), Kind::Failed, "DL-CTX-10", "none of the cluster's 0 nodes takes pods"),
        ];
        for (survey, asked, kind, id, words) in table {
            let failure = Failure::from(judge(survey, asked).expect_err(words));
            assert_eq!((failure.kind, failure.id), (*kind, *id), "{words}");
            assert!(failure.message.contains(words), "{}", failure.message);
        }
    }

    #[test]
    fn kubelets_with_known_faults_are_named() {
        let with = |kubelet: &str| {
            let mut survey = survey();
            survey.nodes[0].kubelet = kubelet.to_owned();
            notes(&survey).first().map(|say| say.id)
        };
        assert_eq!(with("v1.34.1"), Some("context.kubelet-deadlock"));
        assert_eq!(with("v1.33.0"), Some("context.kubelet-old"));
        assert_eq!(with("v1.34.2"), None);
    }
}
