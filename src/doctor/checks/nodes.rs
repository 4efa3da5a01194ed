//! The API server and the nodes: versions, readiness, and who owns a node's devices.

use std::collections::BTreeSet;

use crate::cluster::steps::Say;
use crate::doctor::facts::{Facts, called, is_true, items, name, text, version};
use crate::doctor::{Check, Finding, Group, Looked, Severity};

/// The oldest minor that serves `resource.k8s.io/v1`.
const OLDEST: u32 = 34;
/// Minors that a kubelet may be behind the API server (Kubernetes' version skew policy).
const BEHIND: u32 = 3;

/// An API server too old for DRA, or one that does not serve it.
pub(super) const SERVER: Check =
    Check { id: "DL-DOC-401", slug: "server", group: Group::Cluster, least: Severity::Blocker, most: Severity::Blocker, look: server };

/// Nodes that are not Ready.
pub(super) const NOT_READY: Check = Check {
    id: "DL-DOC-404",
    slug: "node-not-ready",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Blocker,
    look: not_ready,
};

/// Kubelets with faults that are known.
pub(super) const FAULTY_KUBELET: Check = Check {
    id: "DL-DOC-405",
    slug: "faulty-kubelet",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: faulty_kubelet,
};

/// Kubelets newer than the API server, too far behind it, or without DRA.
pub(super) const SKEW: Check =
    Check { id: "DL-DOC-406", slug: "kubelet-skew", group: Group::Cluster, least: Severity::Warning, most: Severity::Warning, look: skew };

/// Nodes on which a device plugin and a DRA driver of one vendor both offer devices.
pub(super) const TWO_OWNERS: Check = Check {
    id: "DL-DOC-407",
    slug: "two-owners",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: two_owners,
};

fn server(facts: &Facts) -> Looked {
    let cluster = facts.cluster()?;
    let what = match version(&cluster.version) {
        Some((1, minor, _)) if minor < OLDEST => "doctor.server.old",
        _ if !cluster.dra_versions.iter().any(|v| v == "v1") => "doctor.server.no-dra",
        _ => return Ok(Vec::new()),
    };
    let advice = Say::new(if what == "doctor.server.old" { "doctor.server.old-advice" } else { "doctor.server.no-dra-advice" });
    let served = if cluster.dra_versions.is_empty() { "not served".to_owned() } else { cluster.dra_versions.join(", ") };
    let finding = Finding::new(Severity::Blocker, Say::new(what).with("version", &cluster.version), advice)
        .seen(cluster.server.as_str(), cluster.version.as_str())
        .seen("resource.k8s.io", served);
    Ok(vec![finding])
}

fn not_ready(facts: &Facts) -> Looked {
    let nodes = facts.list("nodes")?;
    let ready = |n: &&serde_json::Value| is_true(n, "Ready");
    let taken = |n: &&serde_json::Value| items(&n["spec"]["taints"]).any(|t| text(&t["key"]) == "node-role.kubernetes.io/control-plane");
    let any = nodes.iter().filter(|n| !taken(n)).any(|n| ready(&n)) || (nodes.iter().all(|n| taken(&n)) && nodes.iter().any(|n| ready(&n)));
    let severity = if any { Severity::Warning } else { Severity::Blocker };
    let mut finding = Finding::new(severity, Say::new("doctor.node-not-ready.found"), Say::new("doctor.node-not-ready.advice"));
    for node in nodes.iter().filter(|n| !ready(n)) {
        let condition = items(&node["status"]["conditions"]).find(|c| text(&c["type"]) == "Ready");
        let seen = condition.map_or("no condition Ready".to_owned(), |c| format!("Ready {}: {}", text(&c["status"]), text(&c["message"])));
        finding.add(called("node", node), seen);
    }
    Ok(finding.if_any().into_iter().collect())
}

fn faulty_kubelet(facts: &Facts) -> Looked {
    let mut finding = Finding::new(Severity::Warning, Say::new("doctor.faulty-kubelet.found"), Say::new("doctor.faulty-kubelet.advice"));
    for node in facts.list("nodes")? {
        let kubelet = text(&node["status"]["nodeInfo"]["kubeletVersion"]);
        // kubernetes/kubernetes#133920: a lock is held for ever once a driver's connection has been idle for 30 minutes; mended in 1.34.2.
        if matches!(version(kubelet), Some((1, 34, 0 | 1))) {
            finding.add(called("node", node), format!("kubelet {kubelet}"));
        }
    }
    Ok(finding.if_any().into_iter().collect())
}

fn skew(facts: &Facts) -> Looked {
    let cluster = facts.cluster()?;
    let Some((_, server, _)) = version(&cluster.version) else {
        return Err(crate::doctor::Blind::because(format!("version {}", cluster.version)));
    };
    let advice = || Say::new("doctor.kubelet-skew.advice");
    let mut newer = Finding::new(Severity::Warning, Say::new("doctor.kubelet-skew.newer").with("server", &cluster.version), advice());
    let mut older = Finding::new(Severity::Warning, Say::new("doctor.kubelet-skew.older").with("server", &cluster.version), advice());
    let mut without = Finding::new(Severity::Warning, Say::new("doctor.kubelet-skew.no-dra"), advice());
    for node in facts.list("nodes")? {
        let kubelet = text(&node["status"]["nodeInfo"]["kubeletVersion"]);
        let Some((_, minor, _)) = version(kubelet) else { continue };
        let seen = format!("kubelet {kubelet}, API server {}", cluster.version);
        if minor > server {
            newer.add(called("node", node), seen);
        } else if minor + BEHIND < server {
            older.add(called("node", node), seen);
        } else if minor < OLDEST {
            without.add(called("node", node), seen);
        }
    }
    Ok([newer, older, without].into_iter().filter_map(Finding::if_any).collect())
}

/// Whether an extended resource and a driver are of one vendor: `nvidia.com/gpu` and `gpu.nvidia.com`.
fn of_one_vendor(resource: &str, driver: &str) -> bool {
    let Some((vendor, _)) = resource.split_once('/') else { return false };
    let inside = |name: &str, domain: &str| name == domain || name.strip_suffix(domain).is_some_and(|head| head.ends_with('.'));
    !vendor.ends_with("kubernetes.io") && (inside(driver, vendor) || inside(vendor, driver))
}

fn two_owners(facts: &Facts) -> Looked {
    let slices = facts.list("resourceslices")?;
    let mut finding = Finding::new(Severity::Warning, Say::new("doctor.two-owners.found"), Say::new("doctor.two-owners.advice"));
    for node in facts.list("nodes")? {
        let own = slices.iter().filter(|s| text(&s["spec"]["nodeName"]) == name(node));
        let drivers: BTreeSet<&str> = own.map(|s| text(&s["spec"]["driver"])).collect();
        for (resource, amount) in node["status"]["allocatable"].as_object().into_iter().flatten() {
            for driver in drivers.iter().filter(|d| of_one_vendor(resource, d) && text(amount) != "0") {
                finding
                    .add(called("node", node), format!("allocatable {resource}: {}, and resourceslices of driver {driver}", text(amount)));
            }
        }
    }
    Ok(finding.if_any().into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::of_one_vendor;

    #[test]
    fn vendors_are_told_by_whole_labels() {
        for (resource, driver, same) in [
            ("nvidia.com/gpu", "gpu.nvidia.com", true),
            ("gpu.example.com/x", "example.com", true),
            ("example.com/gpu", "example.com", true),
            ("notnvidia.com/gpu", "gpu.nvidia.com", false),
            ("amd.com/gpu", "gpu.nvidia.com", false),
            ("cpu", "gpu.nvidia.com", false),
            ("deviceclass.resource.kubernetes.io/gpu", "resource.kubernetes.io", false),
        ] {
            assert_eq!(of_one_vendor(resource, driver), same, "{resource} {driver}");
        }
    }
}
