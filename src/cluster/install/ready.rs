//! Waits until the driver runs everywhere and every worker's pool is complete: one watch of all that tells of it, bounded, and in words when
//! it cannot come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use kube::Client;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::Value;

use crate::client::apply::api_of;
use crate::client::{ClientError, Kinds, raw};
use crate::cluster::install::{DAEMON_SET, NAMESPACE, failed};
use crate::cluster::steps::Say;
use crate::cluster::{ClusterError, install::Parameters};

/// How often a driver may end before that is taken for its end.
const CRASHES: u64 = 3;
/// Taints that pods of a DaemonSet tolerate without being told (`AddOrUpdateDaemonPodTolerations`).
const TOLERATED: &[&str] = &[
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
];

/// The drivers are ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Nodes whose pool is complete, sorted.
    pub workers: Vec<String>,
    /// Devices in these pools.
    pub devices: usize,
    /// Slices of these pools.
    pub slices: usize,
}

/// Waits until the DaemonSet is rolled out and every worker has a complete pool of the driver. `workers` are those that have to come; `None`:
/// every node that takes pods and matches the parameters' selector, and at least one.
///
/// # Errors
/// When it does not come within `bound`, or cannot come any more: with what was seen last.
pub async fn wait_ready(
    client: &Client,
    parameters: &Parameters,
    workers: Option<&[String]>,
    bound: Duration,
) -> Result<Ready, ClusterError> {
    let doing = "watch the drivers come up";
    let kinds = Kinds::discover(client).await.map_err(|error| failed(doing, error))?;
    let mut events = watches(client, &kinds, &parameters.driver_name).map_err(|error| failed(doing, error))?;
    let mut world = World::default();
    let mut last = "nothing yet".to_owned();
    let mut trouble = None;
    let work = async {
        while let Some((which, event)) = events.next().await {
            match event {
                Ok(event) => world.take(which, event),
                Err(
                    watcher::Error::InitialListFailed(kube::Error::Api(status))
                    | watcher::Error::WatchStartFailed(kube::Error::Api(status)),
                ) if matches!(status.code, 401 | 403 | 404) => return Err(failed(doing, ClientError::from(kube::Error::Api(status)))),
                Err(error) => {
                    trouble = Some(error.to_string());
                    // The watcher itself begins again; a short pause keeps a dead server from being hammered.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            }
            trouble = None;
            if !world.is_known() {
                continue;
            }
            match judge(&world, parameters, workers) {
                Outlook::Ready(ready) => return Ok(ready),
                Outlook::Waiting(seen) => last = seen,
                Outlook::Stuck { seen, advice } => return Err(stuck(&seen, advice)),
            }
        }
        Err(failed(doing, ClientError::Answer { what: "the watches".to_owned(), reason: "they ended".to_owned() }))
    };
    let ended = tokio::time::timeout(bound, work).await;
    drop(events);
    match ended {
        Ok(result) => result,
        Err(_) => {
            let mut seen = trouble.unwrap_or(last);
            if let Some(line) = last_line(client, &world).await {
                seen = format!("{seen}; it wrote last: {line}");
            }
            Err(ClusterError::NotReady { seconds: bound.as_secs(), last: seen })
        }
    }
}

fn stuck(seen: &str, advice: Say) -> ClusterError {
    ClusterError::Advised {
        message: format!("the driver does not come up: {seen}"),
        id: "DL-INST-04",
        kind: crate::base::failure::Kind::Failed,
        causes: Vec::new(),
        advice: vec![advice],
    }
}

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Which {
    Nodes,
    DaemonSet,
    Pods,
    Slices,
    Refusals,
}

const ALL: [Which; 5] = [Which::Nodes, Which::DaemonSet, Which::Pods, Which::Slices, Which::Refusals];

type Events = BoxStream<'static, (Which, Result<Event<DynamicObject>, watcher::Error>)>;

fn watches(client: &Client, kinds: &Kinds, driver: &str) -> Result<Events, ClientError> {
    let all = watcher::Config::default;
    let mut streams = Vec::new();
    for which in ALL {
        let (kind, namespace, config) = match which {
            Which::Nodes => ("nodes", "", all()),
            Which::DaemonSet => ("daemonsets.apps", NAMESPACE, all().fields(&format!("metadata.name={DAEMON_SET}"))),
            Which::Pods => ("pods", NAMESPACE, all().labels(&format!("app.kubernetes.io/name={DAEMON_SET}"))),
            Which::Slices => ("resourceslices", "", all().fields(&format!("spec.driver={driver}"))),
            Which::Refusals => ("events", NAMESPACE, all().fields("involvedObject.kind=DaemonSet,reason=FailedCreate")),
        };
        // Events have two homes; the field names above are those of the core group.
        let kind = if which == Which::Refusals { kinds.by_type("v1", "Event") } else { None }.map_or_else(|| kinds.find(kind), Ok)?;
        streams.push(watcher(api_of(client, kind, namespace), config).map(move |event| (which, event)).boxed());
    }
    Ok(stream::select_all(streams).boxed())
}

/// What the watches have shown.
#[derive(Debug, Default)]
struct World {
    objects: BTreeMap<Which, BTreeMap<String, Value>>,
    fresh: BTreeMap<Which, BTreeMap<String, Value>>,
    listed: BTreeSet<Which>,
}

impl World {
    fn take(&mut self, which: Which, event: Event<DynamicObject>) {
        let named =
            |object: DynamicObject| (object.metadata.name.clone().unwrap_or_default(), serde_json::to_value(object).unwrap_or_default());
        match event {
            Event::Init => self.fresh.entry(which).or_default().clear(),
            Event::InitApply(object) => {
                let (name, value) = named(object);
                self.fresh.entry(which).or_default().insert(name, value);
            }
            Event::InitDone => {
                let fresh = self.fresh.remove(&which).unwrap_or_default();
                self.objects.insert(which, fresh);
                self.listed.insert(which);
            }
            Event::Apply(object) => {
                let (name, value) = named(object);
                self.objects.entry(which).or_default().insert(name, value);
            }
            Event::Delete(object) => {
                let (name, _) = named(object);
                self.objects.entry(which).or_default().remove(&name);
            }
        }
    }

    fn is_known(&self) -> bool {
        self.listed.len() == ALL.len()
    }

    fn all(&self, which: Which) -> impl Iterator<Item = &Value> {
        self.objects.get(&which).into_iter().flat_map(BTreeMap::values)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outlook {
    Ready(Ready),
    Waiting(String),
    Stuck { seen: String, advice: Say },
}

/// What can be said of the drivers by what is seen.
fn judge(world: &World, parameters: &Parameters, expected: Option<&[String]>) -> Outlook {
    if let Some(stuck) = world.all(Which::Pods).find_map(hopeless) {
        return stuck;
    }
    let Some(set) = world.all(Which::DaemonSet).next() else {
        return Outlook::Waiting(format!("no DaemonSet {NAMESPACE}/{DAEMON_SET}"));
    };
    let workers = match expected {
        Some(workers) => workers.to_vec(),
        None => workers(world, &parameters.node_selector),
    };
    if workers.is_empty() {
        let nodes = world.all(Which::Nodes).count();
        return Outlook::Waiting(format!("none of {nodes} nodes takes pods{}", selected(&parameters.node_selector)));
    }
    let refusal = || world.all(Which::Refusals).filter_map(|event| event["message"].as_str()).last().map(str::to_owned);
    if let Some(seen) = not_rolled_out(set) {
        let why = refusal().or_else(|| world.all(Which::Pods).find_map(waiting_pod));
        return Outlook::Waiting(why.map_or_else(|| seen.clone(), |why| format!("{seen}; {why}")));
    }
    let (mut devices, mut slices) = (0, 0);
    let mut missing = Vec::new();
    for worker in &workers {
        match pool(world, worker) {
            Some(pool) => {
                slices += pool.len();
                devices += pool.iter().map(|slice| slice["spec"]["devices"].as_array().map_or(0, Vec::len)).sum::<usize>();
            }
            None => missing.push(worker.as_str()),
        }
    }
    if missing.is_empty() {
        return Outlook::Ready(Ready { workers, devices, slices });
    }
    let shown = missing.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    let more = if missing.len() > 3 { ", ..." } else { "" };
    Outlook::Waiting(format!("{} of {} workers without a complete pool: {shown}{more}", missing.len(), workers.len()))
}

/// Nodes that a pod of the DaemonSet can be on.
fn workers(world: &World, selector: &BTreeMap<String, String>) -> Vec<String> {
    let nodes = world.all(Which::Nodes).filter(|node| takes_drivers(node, selector));
    nodes.filter_map(|node| node["metadata"]["name"].as_str()).map(str::to_owned).collect()
}

/// Whether a pod of the DaemonSet can be on a node: it has the labels, and no taint that keeps other pods away.
#[must_use]
pub fn takes_drivers(node: &Value, selector: &BTreeMap<String, String>) -> bool {
    let labels = &node["metadata"]["labels"];
    let keeps_away = |taint: &Value| taint["effect"] == "NoSchedule" && !taint["key"].as_str().is_some_and(|key| TOLERATED.contains(&key));
    let tainted = node["spec"]["taints"].as_array().into_iter().flatten().any(keeps_away);
    let cordoned = node["spec"]["unschedulable"] == true;
    !tainted && !cordoned && selector.iter().all(|(name, value)| labels[name] == value.as_str())
}

fn selected(selector: &BTreeMap<String, String>) -> String {
    if selector.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> = selector.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!(" and has the labels {}", pairs.join(","))
}

/// What the DaemonSet lacks; `None` when every node that is to have a pod has an up-to-date one that is ready.
fn not_rolled_out(set: &Value) -> Option<String> {
    let number = |field: &str| set["status"][field].as_u64().unwrap_or(0);
    let wanted = number("desiredNumberScheduled");
    if set["status"]["observedGeneration"].as_u64() < set["metadata"]["generation"].as_u64() {
        return Some("the DaemonSet controller has not seen the DaemonSet yet".to_owned());
    }
    if number("updatedNumberScheduled") < wanted {
        return Some(format!("{} of {wanted} driver pods are up to date", number("updatedNumberScheduled")));
    }
    (number("numberReady") < wanted).then(|| format!("{} of {wanted} driver pods are ready", number("numberReady")))
}

/// The current slices of a node's pool, when they are all there.
fn pool<'w>(world: &'w World, node: &str) -> Option<Vec<&'w Value>> {
    let own: Vec<&Value> = world.all(Which::Slices).filter(|slice| slice["spec"]["nodeName"] == node).collect();
    let generation = |slice: &Value| slice["spec"]["pool"]["generation"].as_i64();
    let newest = own.iter().filter_map(|slice| generation(slice)).max();
    let current: Vec<&Value> = own.into_iter().filter(|slice| generation(slice) == newest).collect();
    let wanted = current.first()?["spec"]["pool"]["resourceSliceCount"].as_u64()?;
    (wanted == current.len() as u64).then_some(current)
}

/// A driver pod that will not come up without somebody doing something.
fn hopeless(pod: &Value) -> Option<Outlook> {
    let status = pod["status"]["containerStatuses"].get(0)?;
    let waiting = &status["state"]["waiting"];
    let reason = waiting["reason"].as_str()?;
    let node = pod["spec"]["nodeName"].as_str().unwrap_or("no node");
    let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
    let message = waiting["message"].as_str().unwrap_or_default();
    match reason {
        "ErrImageNeverPull" | "InvalidImageName" => Some(Outlook::Stuck {
            seen: format!("{reason} on {node}: {message}"),
            advice: Say::new("install.image-missing").with("image", image),
        }),
        "CrashLoopBackOff" if status["restartCount"].as_u64() >= Some(CRASHES) => Some(Outlook::Stuck {
            seen: format!("{reason} on {node}: {}", last_words(status)),
            advice: Say::new("install.crash").with("node", node),
        }),
        _ => None,
    }
}

/// Why a driver pod is not ready.
fn waiting_pod(pod: &Value) -> Option<String> {
    let node = pod["spec"]["nodeName"].as_str();
    let conditions = pod["status"]["conditions"].as_array();
    let scheduled = conditions.into_iter().flatten().find(|c| c["type"] == "PodScheduled" && c["status"] == "False");
    if let (None, Some(condition)) = (node, scheduled) {
        return Some(condition["message"].as_str().unwrap_or("it is not scheduled").to_owned());
    }
    let status = pod["status"]["containerStatuses"].get(0)?;
    if status["ready"] == true {
        return None;
    }
    let node = node.unwrap_or("no node");
    let waiting = &status["state"]["waiting"];
    match waiting["reason"].as_str() {
        Some("CrashLoopBackOff") => Some(format!("CrashLoopBackOff on {node}: {}", last_words(status))),
        Some(reason) => Some(format!("{reason} on {node}{}", waiting["message"].as_str().map(|m| format!(": {m}")).unwrap_or_default())),
        None => Some(format!("the driver on {node} runs and is not ready")),
    }
}

/// The last line that a container wrote before it ended, where the kubelet kept it.
fn last_words(status: &Value) -> String {
    let ended = &status["lastState"]["terminated"];
    let line = ended["message"].as_str().unwrap_or_default().lines().rfind(|line| !line.trim().is_empty());
    match line {
        Some(line) => line.trim().to_owned(),
        None => format!("exit code {}", ended["exitCode"]),
    }
}

/// The last line of a driver that runs and is not ready.
async fn last_line(client: &Client, world: &World) -> Option<String> {
    let pod = world.all(Which::Pods).find(|pod| {
        let status = &pod["status"]["containerStatuses"][0];
        status["ready"] == false && status["state"]["running"].is_object()
    })?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{}/log?tailLines=1", pod["metadata"]["name"].as_str()?);
    let asked = tokio::time::timeout(Duration::from_secs(5), raw::get_text(client, &path)).await;
    asked.ok()?.ok().map(|text| text.trim().to_owned()).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{ALL, Outlook, Parameters, Which, World, judge};
    use serde_json::{Value, json};

    fn world(objects: &[(Which, Value)]) -> World {
        let mut world = World { listed: ALL.into(), ..World::default() };
        for (which, object) in objects {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            world.objects.entry(*which).or_default().insert(name, object.clone());
        }
        world
    }

    fn node(name: &str, taint: Option<&str>) -> (Which, Value) {
        let taints: Vec<Value> = taint.into_iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
        (Which::Nodes, json!({"metadata": {"name": name, "labels": {"gpu": name}}, "spec": {"taints": taints}}))
    }

    fn set(wanted: u64, updated: u64, ready: u64) -> (Which, Value) {
        (
            Which::DaemonSet,
            json!({"metadata": {"name": "dralab-driver", "generation": 2}, "status": {"observedGeneration": 2, "desiredNumberScheduled": wanted, "updatedNumberScheduled": updated, "numberReady": ready}}),
        )
    }

    fn slice(name: &str, node: &str, generation: u64, count: u64) -> (Which, Value) {
        (
            Which::Slices,
            json!({"metadata": {"name": name}, "spec": {"nodeName": node, "pool": {"generation": generation, "resourceSliceCount": count}, "devices": [{}, {}]}}),
        )
    }

    fn pod(state: &Value, restarts: u64, words: &str) -> (Which, Value) {
        (
            Which::Pods,
            json!({"metadata": {"name": "p"}, "spec": {"nodeName": "a", "containers": [{"image": "i"}]}, "status": {"containerStatuses": [
            {"ready": false, "restartCount": restarts, "state": state, "lastState": {"terminated": {"exitCode": 1, "message": words}}}]}}),
        )
    }

    fn seen(objects: &[(Which, Value)], workers: Option<&[&str]>) -> String {
        let workers: Option<Vec<String>> = workers.map(|w| w.iter().map(|w| (*w).to_owned()).collect());
        match judge(&world(objects), &Parameters::new("x", "i"), workers.as_deref()) {
            Outlook::Ready(ready) => format!("ready: {} with {} in {}", ready.workers.join(" "), ready.devices, ready.slices),
            Outlook::Waiting(seen) => seen,
            Outlook::Stuck { seen, advice } => format!("stuck: {seen} ({})", advice.id),
        }
    }

    #[test]
    fn ready_is_when_every_worker_has_a_whole_pool() {
        let control = || node("c", Some("node-role.kubernetes.io/control-plane"));
        assert_eq!(seen(&[control()], None), "no DaemonSet dralab-system/dralab-driver");
        assert_eq!(seen(&[control(), set(0, 0, 0)], None), "none of 1 nodes takes pods");
        let nodes = || vec![control(), node("a", None), node("b", Some("node.kubernetes.io/memory-pressure"))];
        let with = |more: &[(Which, Value)]| [nodes(), more.to_vec()].concat();
        assert_eq!(seen(&with(&[set(2, 1, 1)]), None), "1 of 2 driver pods are up to date");
        assert_eq!(seen(&with(&[set(2, 2, 1)]), None), "1 of 2 driver pods are ready");
        assert_eq!(seen(&with(&[set(2, 2, 2), slice("1", "a", 1, 1)]), None), "1 of 2 workers without a complete pool: b");
        let all = with(&[set(2, 2, 2), slice("1", "a", 1, 1), slice("2", "b", 3, 2), slice("3", "b", 3, 2), slice("0", "b", 2, 1)]);
        assert_eq!(seen(&all, None), "ready: a b with 6 in 3");
        assert_eq!(seen(&all, Some(&["a"])), "ready: a with 2 in 1");
        assert_eq!(seen(&all, Some(&["a", "late"])), "1 of 2 workers without a complete pool: late");
    }

    #[test]
    fn what_is_in_the_way_is_told() {
        let with = |more: (Which, Value)| [node("a", None), set(1, 1, 0), more];
        let waiting = |reason: &str| json!({"waiting": {"reason": reason, "message": "words"}});
        for (more, expected) in [
            (pod(&waiting("ImagePullBackOff"), 0, ""), "0 of 1 driver pods are ready; ImagePullBackOff on a: words"),
            (pod(&waiting("ErrImageNeverPull"), 0, ""), "stuck: ErrImageNeverPull on a: words (install.image-missing)"),
            (pod(&waiting("CrashLoopBackOff"), 1, "first\nlast\n"), "0 of 1 driver pods are ready; CrashLoopBackOff on a: last"),
            (pod(&waiting("CrashLoopBackOff"), 3, ""), "stuck: CrashLoopBackOff on a: exit code 1 (install.crash)"),
            (pod(&json!({"running": {}}), 0, ""), "0 of 1 driver pods are ready; the driver on a runs and is not ready"),
            (
                (Which::Refusals, json!({"metadata": {"name": "e"}, "message": "pods is forbidden: violates PodSecurity"})),
                "0 of 1 driver pods are ready; pods is forbidden: violates PodSecurity",
            ),
        ] {
            assert_eq!(seen(&with(more), None), expected);
        }
    }
}
