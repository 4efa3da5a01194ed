//! Removes what was installed, and nothing else, in an order that leaves nothing stuck: pods that hold claims cannot end without their driver
//! (kubernetes/kubernetes#129402), so lessons go first, then the driver, then the slices that it left (a kubelet would wipe them 30 s later),
//! then what let it work.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::try_join_all;
use kube::Client;
use kube::api::{DeleteParams, ListParams, Preconditions, PropagationPolicy};
use kube::runtime::watcher;
use serde_json::Value;

use crate::client::apply::{self, api_of};
use crate::client::{ClientError, Kinds, wait};
use crate::cluster::ClusterError;
use crate::cluster::install::apply::ObjectRef;
use crate::cluster::install::sharing::{self, Left, Participant};
use crate::cluster::install::{LAB_LABEL, LEARNER_LABEL, LESSON_LABEL, failed, refused};
use crate::cluster::steps::Say;

/// How long pods and namespaces may take to go: a container may have 30 s to end, and its claims are unprepared after that.
const GOING: Duration = Duration::from_secs(120);
/// How many pods are named when there are many.
const NAMED: usize = 5;

/// What is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The lab.
    pub lab: String,
    /// Whose devices the slices are.
    pub driver_name: String,
    /// Who leaves; others that use the installation keep it.
    pub participant: Participant,
    /// What was installed, in the order in which it was applied.
    pub objects: Vec<ObjectRef>,
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Namespaces of lessons.
    pub lessons: Vec<String>,
    /// Objects of the installation.
    pub objects: Vec<ObjectRef>,
    /// ResourceSlices that the drivers left.
    pub slices: usize,
    /// What was left because it is not what was installed, and why.
    pub left: Vec<(ObjectRef, String)>,
    /// Others that use the installation: it stays for them.
    pub others: Vec<String>,
}

/// Removes a participant's part: namespaces of lessons, and after the last participant all that was installed.
///
/// # Errors
/// When pods of somebody else still hold devices of the driver (nothing is removed then), or the server refuses.
pub async fn uninstall(client: &Client, removal: &Removal) -> Result<Removed, ClusterError> {
    let kinds = Kinds::discover(client).await.map_err(|error| failed("learn what the API server serves", error))?;
    let learner = removal.participant.learner.as_deref();
    let shared = sharing::look(client, &kinds).await?;
    if shared.is_some_and(|shared| shared.others(&removal.participant).is_empty()) {
        let own = lesson_namespaces(client, &kinds, &removal.lab, learner).await?;
        refuse_while_in_use(client, &kinds, &removal.driver_name, &own).await?;
    }
    let lessons = lessons(client, &kinds, &removal.lab, learner).await?;
    match sharing::leave(client, &kinds, &removal.participant).await? {
        Left::Others(others) => Ok(Removed { lessons, others, ..Removed::default() }),
        Left::Last | Left::Gone => {
            let removed = objects(client, &kinds, &removal.lab, &removal.driver_name, &removal.objects).await?;
            Ok(Removed { lessons, ..removed })
        }
    }
}

/// The namespaces of a learner's lessons.
///
/// # Errors
/// When the server refuses.
pub async fn lesson_namespaces(client: &Client, kinds: &Kinds, lab: &str, learner: Option<&str>) -> Result<Vec<String>, ClusterError> {
    let whose = learner.map_or_else(|| format!("!{LEARNER_LABEL}"), |learner| format!("{LEARNER_LABEL}={learner}"));
    let selector = ListParams::default().labels(&format!("{LESSON_LABEL},{LAB_LABEL}={lab},{whose}"));
    let list = async {
        let namespaces = api_of(client, kinds.find("namespaces")?, "").list(&selector).await?;
        Ok::<_, ClientError>(namespaces.items.into_iter().filter_map(|namespace| namespace.metadata.name).collect())
    };
    list.await.map_err(|error| failed("list the namespaces of lessons", error))
}

/// Removes the namespaces of a learner's lessons, their pods first.
async fn lessons(client: &Client, kinds: &Kinds, lab: &str, learner: Option<&str>) -> Result<Vec<String>, ClusterError> {
    let namespaces = lesson_namespaces(client, kinds, lab, learner).await?;
    let gone = |name: String| async move {
        let remove = async {
            let pods = kinds.find("pods")?;
            for pod in wait::list(&api_of(client, pods, &name)).await? {
                apply::delete(client, pods, &name, pod["metadata"]["name"].as_str().unwrap_or_default()).await?;
            }
            let none = |objects: &BTreeMap<String, Value>| objects.is_empty().then_some(());
            let config = watcher::Config::default();
            wait::until(api_of(client, pods, &name), config, GOING, "pods to end", none, ending).await?;
            let kind = kinds.find("namespaces")?;
            apply::delete(client, kind, "", &name).await?;
            wait::gone(api_of(client, kind, ""), &name, GOING).await
        };
        remove.await.map_err(|error| failed(&format!("remove namespace {name}"), error))
    };
    try_join_all(namespaces.iter().cloned().map(gone)).await?;
    Ok(namespaces)
}

fn ending(pods: &BTreeMap<String, Value>) -> String {
    let names: Vec<&str> = pods.keys().map(String::as_str).take(NAMED).collect();
    format!("pods that do not end: {}; without their driver they cannot", names.join(", "))
}

/// Refuses to take the driver away from pods of somebody else, which could not end then.
async fn refuse_while_in_use(client: &Client, kinds: &Kinds, driver: &str, own: &[String]) -> Result<(), ClusterError> {
    let list = async {
        let kind = kinds.find("resourceclaims")?;
        wait::list(&kube::Api::all_with(client.clone(), &kind.api_resource())).await
    };
    let claims = list.await.map_err(|error| failed("list the claims", error))?;
    let holders = holders(&claims, driver, own);
    if holders.is_empty() {
        return Ok(());
    }
    let shown = holders.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = if holders.len() > NAMED { ", ..." } else { "" };
    let message = format!("pods hold devices of {driver}, and could not end without their driver: {shown}{more}");
    Err(refused("DL-INST-05", message, vec![Say::new("install.in-use")]))
}

/// `NAMESPACE/POD` of the pods that devices of a driver are reserved for, without those in some namespaces.
fn holders(claims: &[Value], driver: &str, without: &[String]) -> Vec<String> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut pods = Vec::new();
    for claim in claims {
        let namespace = claim["metadata"]["namespace"].as_str().unwrap_or_default();
        let gives = items(&claim["status"]["allocation"]["devices"]["results"]).iter().any(|result| result["driver"] == driver);
        if !gives || without.iter().any(|own| own == namespace) {
            continue;
        }
        let reserved = items(&claim["status"]["reservedFor"]);
        pods.extend(reserved.iter().map(|r| format!("{namespace}/{}", r["name"].as_str().unwrap_or_default())));
    }
    pods.sort();
    pods.dedup();
    pods
}

/// Removes objects that were installed, the driver first, and the slices that it left.
///
/// # Errors
/// When the server refuses, or something does not go.
pub async fn objects(client: &Client, kinds: &Kinds, lab: &str, driver_name: &str, objects: &[ObjectRef]) -> Result<Removed, ClusterError> {
    let mut removed = Removed::default();
    let (drivers, rest): (Vec<&ObjectRef>, Vec<&ObjectRef>) = objects.iter().rev().partition(|object| object.kind == "DaemonSet");
    for driver in drivers {
        match remove(client, kinds, lab, driver).await? {
            Did::Removed => removed.objects.push(driver.clone()),
            Did::WasGone => {}
            Did::Left(why) => {
                removed.left.push((driver.clone(), why));
                continue;
            }
        }
        removed.slices += slices(client, kinds, driver_name).await?;
    }
    for object in rest {
        match remove(client, kinds, lab, object).await? {
            Did::Removed => removed.objects.push(object.clone()),
            Did::WasGone => {}
            Did::Left(why) => removed.left.push((object.clone(), why)),
        }
    }
    Ok(removed)
}

enum Did {
    Removed,
    WasGone,
    Left(String),
}

/// Removes one object, if it is the one that was installed, and waits until it is gone.
async fn remove(client: &Client, kinds: &Kinds, lab: &str, object: &ObjectRef) -> Result<Did, ClusterError> {
    let work = async {
        let Some(kind) = kinds.by_type(&object.api_version, &object.kind) else { return Ok(Did::WasGone) };
        let api = api_of(client, kind, &object.namespace);
        let Some(there) = api.get_opt(&object.name).await? else { return Ok(Did::WasGone) };
        let uid = there.metadata.uid.clone().unwrap_or_default();
        match there.metadata.labels.as_ref().and_then(|labels| labels.get(LAB_LABEL)) {
            Some(label) if label == lab => {}
            Some(other) => return Ok(Did::Left(format!("it has label {LAB_LABEL}={other}"))),
            None => return Ok(Did::Left(format!("it has no label {LAB_LABEL}"))),
        }
        if !object.uid.is_empty() && object.uid != uid {
            return Ok(Did::Left(format!("it is another one now, uid {uid}")));
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
            propagation_policy: (object.kind == "DaemonSet").then_some(PropagationPolicy::Foreground),
            ..DeleteParams::default()
        };
        match api.delete(&object.name, &params).await.map_err(ClientError::from) {
            Ok(_) => {}
            Err(error) if error.is_not_found() => return Ok(Did::WasGone),
            Err(error) if error.is_conflict() && object.kind != "Namespace" => return Ok(Did::Left("it is another one now".to_owned())),
            // A namespace that is going already answers so.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
        wait::gone(api, &object.name, GOING).await?;
        Ok(Did::Removed)
    };
    work.await.map_err(|error| failed(&format!("remove {object}"), error))
}

/// Removes the slices of nodes that a driver which has ended left.
async fn slices(client: &Client, kinds: &Kinds, driver: &str) -> Result<usize, ClusterError> {
    let work = async {
        let kind = kinds.find("resourceslices")?;
        let selector = ListParams::default().fields(&format!("spec.driver={driver}"));
        let mut count = 0;
        for slice in api_of(client, kind, "").list(&selector).await?.items {
            if slice.data["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
                continue;
            }
            count += usize::from(apply::delete(client, kind, "", slice.metadata.name.as_deref().unwrap_or_default()).await?);
        }
        Ok::<_, ClientError>(count)
    };
    work.await.map_err(|error| failed("remove the drivers' slices", error))
}

#[cfg(test)]
mod tests {
    use super::{Participant, Removal, holders, uninstall};
    use crate::base::failure::{Failure, Kind};
    use crate::client::Kinds;
    use crate::cluster::install::testing::Fake;
    use crate::cluster::install::{Parameters, install, sharing};
    use serde_json::{Value, json};

    fn claim(namespace: &str, driver: &str, pods: &[&str]) -> Value {
        let reserved: Vec<Value> = pods.iter().map(|name| json!({"resource": "pods", "name": name})).collect();
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"namespace": namespace, "name": "c"},
            "status": {"allocation": {"devices": {"results": [{"driver": driver}]}}, "reservedFor": reserved}})
    }

    #[test]
    fn who_holds_devices() {
        let claims = [claim("a", "d", &["p", "q"]), claim("b", "d", &["p"]), claim("c", "other", &["p"]), claim("e", "d", &[])];
        assert_eq!(holders(&claims, "d", &["b".to_owned()]), ["a/p", "a/q"]);
    }

    async fn lab(fake: &Fake, learners: &[Option<&str>]) -> Vec<Removal> {
        let client = fake.client();
        let done = install(&client, Some(&Parameters::new("x", "i"))).await.expect("installed");
        let kinds = Kinds::discover(&client).await.expect("kinds");
        let mut removals = Vec::new();
        for learner in learners {
            let learner = learner.map(str::to_owned);
            let participant = Participant { id: format!("id-{learner:?}"), learner };
            sharing::join(&client, &kinds, &participant).await.expect("joined");
            let objects = done.iter().map(|i| i.object.clone()).collect();
            removals.push(Removal { lab: "x".to_owned(), driver_name: "gpu.example.com".to_owned(), participant, objects });
        }
        let slice = |name: &str, spec: Value| json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec});
        fake.add(slice("s1", json!({"driver": "gpu.example.com", "nodeName": "a"})));
        fake.add(slice("net", json!({"driver": "gpu.example.com", "allNodes": true})));
        fake.add(slice("other", json!({"driver": "nic.example.com", "nodeName": "a"})));
        removals
    }

    fn namespace(name: &str, labels: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    }

    #[tokio::test]
    async fn lessons_then_the_driver_then_its_slices_then_the_rest() {
        let fake = Fake::new();
        let [removal] = lab(&fake, &[None]).await.try_into().expect("one");
        fake.add(namespace("dra-tutorial", &json!({"dralab.dev/lesson": "some-gpu", "dralab.dev/lab": "x"})));
        fake.add(namespace("of-another-lab", &json!({"dralab.dev/lesson": "some-gpu", "dralab.dev/lab": "y"})));
        fake.add(namespace("theirs", &json!({})));
        fake.add(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "dra-tutorial", "name": "pod0"}}));
        fake.add(claim("dra-tutorial", "gpu.example.com", &["pod0"]));
        let removed = uninstall(&fake.client(), &removal).await.expect("removed");
        assert_eq!(
            fake.deleted(),
            [
                "pod dra-tutorial/pod0",
                "namespace dra-tutorial",
                "daemonset dralab-system/dralab-driver",
                "resourceslice s1",
                "deviceclass gpu.example.com",
                "validatingadmissionpolicybinding dralab-driver-own-slices",
                "validatingadmissionpolicy dralab-driver-own-slices",
                "clusterrolebinding dralab-driver",
                "clusterrole dralab-driver",
                "serviceaccount dralab-system/dralab-driver",
                "namespace dralab-system",
            ]
        );
        assert_eq!((removed.lessons, removed.slices, removed.left), (vec!["dra-tutorial".to_owned()], 1, Vec::new()));
        // Like `rm -f`: what is gone is gone.
        assert_eq!(uninstall(&fake.client(), &removal).await.expect("removed").objects, []);
    }

    #[tokio::test]
    async fn a_learner_takes_their_own_part_and_the_last_one_the_rest() {
        let fake = Fake::new();
        let [ann, bob] = lab(&fake, &[Some("ann"), Some("bob")]).await.try_into().expect("two");
        for learner in ["ann", "bob"] {
            let labels = json!({"dralab.dev/lesson": "some-gpu", "dralab.dev/lab": "x", "dralab.dev/learner": learner});
            fake.add(namespace(&format!("dra-tutorial-{learner}"), &labels));
        }
        let removed = uninstall(&fake.client(), &ann).await.expect("removed");
        assert_eq!(fake.deleted(), ["namespace dra-tutorial-ann"]);
        assert_eq!(removed.others, ["bob"]);
        let removed = uninstall(&fake.client(), &bob).await.expect("removed");
        assert_eq!((removed.objects.len(), removed.others.len()), (8, 0));
        assert_eq!(fake.names(), ["resourceslice net", "resourceslice other"]);
    }

    #[tokio::test]
    async fn what_was_not_installed_stays() {
        let fake = Fake::new();
        let [removal] = lab(&fake, &[None]).await.try_into().expect("one");
        // Somebody deleted the class and made one of their own; somebody took the label off the role.
        fake.remove("deviceclass gpu.example.com");
        fake.add(json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.example.com", "labels": {"dralab.dev/lab": "x"}}}));
        fake.remove("clusterrole dralab-driver");
        fake.add(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "dralab-driver"}}));
        let removed = uninstall(&fake.client(), &removal).await.expect("removed");
        let left: Vec<String> = removed.left.iter().map(|(object, _)| object.to_string()).collect();
        assert_eq!(left, ["deviceclass gpu.example.com", "clusterrole dralab-driver"]);
        assert!(fake.names().contains(&"deviceclass gpu.example.com".to_owned()));
    }

    #[tokio::test]
    async fn a_driver_is_not_taken_from_somebody_elses_pods() {
        let fake = Fake::new();
        let [removal] = lab(&fake, &[None]).await.try_into().expect("one");
        fake.add(claim("default", "gpu.example.com", &["mine"]));
        let failure = Failure::from(uninstall(&fake.client(), &removal).await.expect_err("refused"));
        assert_eq!(failure.kind, Kind::Refused);
        assert!(failure.message.ends_with("default/mine"), "{}", failure.message);
        assert_eq!(fake.deleted(), Vec::<String>::new());
    }
}
