//! What the API server adds to a pod: defaults (`pkg/apis/core/v1/defaults.go`), the admission plugins ServiceAccount,
//! DefaultTolerationSeconds and Priority, and what its strategy sets (`pkg/registry/core/pod/strategy.go`).

use serde_json::{Value, json};

use super::json::{default, default_text, field, flag, int, is_set, list, list_mut, remove, same, set_meta, text};
use super::pod_spec::spec_defaults;
use super::{Context, raise_if_changed};
use crate::embedded::api::resource::{PODS, SERVICEACCOUNTS};
use crate::embedded::api::{Status, meta};
use crate::model::quantity::Quantity;

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_VOLUME: &str = "kube-api-access-";
/// Mode of files in projected and config volumes: 0644.
const MODE: i64 = 0o644;
/// How long a pod tolerates a node that is not ready or unreachable, in seconds.
const NODE_TOLERATION: i64 = 300;

/// Prepares a new pod: defaults, admission, status `Pending`.
pub(super) fn prepare_create(pod: &mut Value, context: &Context<'_>) -> Result<(), Status> {
    spec_defaults(pod);
    service_account(pod, context)?;
    priority(pod)?;
    node_tolerations(pod);
    set_meta(pod, "generation", json!(1));
    let mut status = json!({"phase": "Pending", "qosClass": qos(&pod["spec"])});
    if !list(&pod["spec"], "schedulingGates").is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null,
            "lastTransitionTime": null, "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod["status"] = status;
    Ok(())
}

/// Prepares a changed pod: its status stays, a change of the spec raises its generation.
pub(super) fn prepare_update(old: &Value, new: &mut Value) {
    spec_defaults(new);
    new["status"] = old.get("status").cloned().unwrap_or_else(|| json!({}));
    raise_if_changed(old, new);
}

/// Prepares a changed status: spec, owners and quality of service stay, and so do claim statuses that the caller left out.
pub(super) fn prepare_status(old: &Value, new: &mut Value) {
    new["spec"] = old.get("spec").cloned().unwrap_or_else(|| json!({}));
    match old["metadata"].get("ownerReferences") {
        Some(owners) => set_meta(new, "ownerReferences", owners.clone()),
        None => remove(&mut new["metadata"], "ownerReferences"),
    }
    if !new["status"].is_object() {
        new["status"] = json!({});
    }
    let (was, is) = (field(old, "status"), &mut new["status"]);
    let kept =
        ["qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses", "observedGeneration"];
    for name in kept {
        if is_set(was, name) {
            default(is, name, || field(was, name).clone());
        }
    }
    if let Some(ip) = is.get("podIP").and_then(Value::as_str).map(str::to_owned)
        && text(list(is, "podIPs").first().unwrap_or(&Value::Null), "ip") != ip
    {
        is["podIPs"] = json!([{"ip": ip}]);
    }
    let mut generations: Vec<(String, i64)> = list(was, "conditions")
        .iter()
        .map(|condition| (text(condition, "type").to_owned(), int(condition, "observedGeneration")))
        .collect();
    for condition in list_mut(is, "conditions") {
        let kind = text(condition, "type").to_owned();
        let Some(at) = generations.iter().position(|(known, _)| *known == kind) else { continue };
        let (_, generation) = generations.remove(at);
        if int(condition, "observedGeneration") == 0 && generation > 0 {
            condition["observedGeneration"] = json!(generation);
        }
    }
    times(is);
}

/// Times without `omitempty`: an API server writes them as null where they are not set.
fn times(status: &mut Value) {
    for condition in list_mut(status, "conditions") {
        for name in ["lastProbeTime", "lastTransitionTime"] {
            default(condition, name, || Value::Null);
        }
    }
    for statuses in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in list_mut(status, statuses) {
            for state in ["state", "lastState"] {
                let Some(terminated) = container.get_mut(state).and_then(|state| state.get_mut("terminated")) else { continue };
                for name in ["startedAt", "finishedAt"] {
                    default(terminated, name, || Value::Null);
                }
            }
        }
    }
}

/// The plugin ServiceAccount: every pod has one, and its token and the cluster's certificate are mounted.
fn service_account(pod: &mut Value, context: &Context<'_>) -> Result<(), Status> {
    if text(&pod["spec"], "serviceAccountName").is_empty() {
        pod["spec"]["serviceAccountName"] = json!("default");
        pod["spec"]["serviceAccount"] = json!("default");
    }
    let (namespace, pod_name) = (meta::namespace(pod).to_owned(), meta::name(pod).to_owned());
    let name = text(&pod["spec"], "serviceAccountName").to_owned();
    let account = context.objects.read(&SERVICEACCOUNTS, &namespace, &name);
    if account.is_none() && name != "default" {
        // The real server waits for a default account that its controller is about to make; here it counts as made.
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found");
        return Err(Status::forbidden(&PODS, &pod_name, why));
    }
    let account = account.as_deref().unwrap_or(&Value::Null);
    let automount = flag(&pod["spec"], "automountServiceAccountToken").or_else(|| flag(account, "automountServiceAccountToken"));
    if automount != Some(false) {
        mount_token(pod);
    }
    if list(&pod["spec"], "imagePullSecrets").is_empty() && !list(account, "imagePullSecrets").is_empty() {
        pod["spec"]["imagePullSecrets"] = field(account, "imagePullSecrets").clone();
    }
    Ok(())
}

fn mount_token(pod: &mut Value) {
    let existing = list(&pod["spec"], "volumes").iter().map(|volume| text(volume, "name")).find(|name| name.starts_with(TOKEN_VOLUME));
    let there = existing.is_some();
    let volume = existing.map_or_else(|| format!("{TOKEN_VOLUME}{}", suffix(meta::uid(pod))), str::to_owned);
    let mut needed = false;
    for name in ["initContainers", "containers"] {
        for container in list_mut(&mut pod["spec"], name) {
            if list(container, "volumeMounts").iter().any(|mount| text(mount, "mountPath") == TOKEN_PATH) || !container.is_object() {
                continue;
            }
            default(container, "volumeMounts", || json!([]));
            if let Some(mounts) = container["volumeMounts"].as_array_mut() {
                mounts.push(json!({"name": volume, "readOnly": true, "mountPath": TOKEN_PATH}));
                needed = true;
            }
        }
    }
    if there || !needed {
        return;
    }
    default(&mut pod["spec"], "volumes", || json!([]));
    if let Some(volumes) = pod["spec"]["volumes"].as_array_mut() {
        volumes.push(json!({"name": volume, "projected": {"defaultMode": MODE, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]}}));
    }
}

/// Five letters of generated names, from a pod's uid: admission has no randomness of its own.
fn suffix(uid: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut out = String::new();
    for _ in 0..5 {
        let at = usize::try_from(hash % LETTERS.len() as u64).unwrap_or_default();
        out.extend(LETTERS.get(at).map(|letter| char::from(*letter)));
        hash /= LETTERS.len() as u64;
    }
    out
}

/// The plugin Priority, over the two classes that every cluster has.
fn priority(pod: &mut Value) -> Result<(), Status> {
    let class = text(&pod["spec"], "priorityClassName").to_owned();
    let computed = match class.as_str() {
        "" => 0,
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        other => {
            return Err(Status::forbidden(&PODS, meta::name(pod), format!("no PriorityClass with name {other} was found")));
        }
    };
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != computed) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
        );
        return Err(Status::forbidden(&PODS, meta::name(pod), why));
    }
    pod["spec"]["priority"] = json!(computed);
    default_text(&mut pod["spec"], "preemptionPolicy", "PreemptLowerPriority");
    Ok(())
}

/// The plugin DefaultTolerationSeconds.
fn node_tolerations(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list(&pod["spec"], "tolerations").iter().any(|toleration| {
            (text(toleration, "key") == key || text(toleration, "key").is_empty()) && matches!(text(toleration, "effect"), "NoExecute" | "")
        });
        if tolerated {
            continue;
        }
        default(&mut pod["spec"], "tolerations", || json!([]));
        if let Some(tolerations) = pod["spec"]["tolerations"].as_array_mut() {
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NODE_TOLERATION}));
        }
    }
}

/// The pod's quality of service class, from requests and limits of cpu and memory.
fn qos(spec: &Value) -> &'static str {
    if is_set(spec, "resources") && !same(field(spec, "resources"), &Value::Null) {
        return resources_qos(field(spec, "resources"));
    }
    let mut of_pod = None;
    for container in list(spec, "initContainers").iter().chain(list(spec, "containers")) {
        let class = resources_qos(field(container, "resources"));
        if class == "Burstable" || of_pod.is_some_and(|known| known != class) {
            return "Burstable";
        }
        of_pod = Some(class);
    }
    of_pod.unwrap_or("BestEffort")
}

fn resources_qos(resources: &Value) -> &'static str {
    let mut of_all = None;
    for name in ["cpu", "memory"] {
        let amount = |kind: &str| {
            let value = field(field(resources, kind), name);
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Quantity::parse(&text).ok().filter(|amount| !amount.is_zero())
        };
        let class = match (amount("requests"), amount("limits")) {
            (None, None) => "BestEffort",
            (Some(request), Some(limit)) if request == limit => "Guaranteed",
            _ => "Burstable",
        };
        if class == "Burstable" || of_all.is_some_and(|known| known != class) {
            return "Burstable";
        }
        of_all = Some(class);
    }
    of_all.unwrap_or("BestEffort")
}

#[cfg(test)]
mod tests {
    use super::{qos, suffix};
    use serde_json::json;

    #[test]
    fn quality_of_service_by_requests_and_limits() {
        let spec = |resources: serde_json::Value| json!({"containers": [{"resources": resources}]});
        assert_eq!(qos(&spec(json!({}))), "BestEffort");
        assert_eq!(qos(&spec(json!({"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}))), "BestEffort");
        assert_eq!(qos(&spec(json!({"requests": {"cpu": "1"}}))), "Burstable");
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(qos(&spec(json!({"requests": both, "limits": both}))), "Guaranteed");
        assert_eq!(qos(&spec(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1000m"}}))), "Burstable");
    }

    #[test]
    fn a_suffix_has_five_letters() {
        assert_eq!(suffix("a").len(), 5);
        assert_ne!(suffix("a"), suffix("b"));
    }
}
