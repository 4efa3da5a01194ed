//! The Node object that an agent keeps.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::embedded::api::resource::NODES;
use crate::embedded::api::{Api, Caller, Status, Subresource, WriteOptions};

/// The kubelet whose behaviour the agents show.
pub const KUBELET_VERSION: &str = "v1.37.2";

/// What the Node object of an agent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// Name, also the host name.
    pub name: String,
    /// Number of the node in its lab, from 0; addresses derive from it.
    pub index: u16,
    /// Has the role label and the taint of a control-plane node.
    pub control_plane: bool,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
}

impl NodeIdentity {
    /// The node's own address.
    #[must_use]
    pub fn address(&self) -> String {
        let number = u32::from(self.index) + 2;
        format!("172.18.{}.{}", number / 256 % 256, number % 256)
    }

    /// The address of the node's pod with this number (1 to 254).
    #[must_use]
    pub fn pod_address(&self, number: u8) -> String {
        format!("10.{}.{}.{number}", 244 + (self.index / 256).min(11), self.index % 256)
    }

    /// Who the agent is to the API.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller { manager: "kubelet".to_owned(), user: format!("system:node:{}", self.name) }
    }

    /// The Node object as it is first registered.
    #[must_use]
    pub fn object(&self, now: Timestamp) -> Value {
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let mut labels = json!({
            "beta.kubernetes.io/arch": arch, "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": arch, "kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux",
        });
        let cidr = self.pod_address(0) + "/24";
        let mut spec = json!({"podCIDR": cidr, "podCIDRs": [cidr], "providerID": format!("dralab://{}", self.name)});
        if self.control_plane {
            labels["node-role.kubernetes.io/control-plane"] = json!("");
            labels["node.kubernetes.io/exclude-from-external-load-balancers"] = json!("");
            spec["taints"] = json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
        }
        for (name, value) in &self.labels {
            labels[name] = json!(value);
        }
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": self.name, "labels": labels,
                "annotations": {"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            },
            "spec": spec,
            "status": self.status(now, arch),
        })
    }

    fn status(&self, now: Timestamp, arch: &str) -> Value {
        let resources = json!({
            "cpu": "16", "ephemeral-storage": "256Gi", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "memory": "64Gi", "pods": "110",
        });
        let at = crate::embedded::node::seconds(now);
        let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "lastHeartbeatTime": at, "lastTransitionTime": at, "reason": reason, "message": message});
        let id = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_DNS, self.name.as_bytes());
        json!({
            "capacity": resources, "allocatable": resources,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "addresses": [{"type": "InternalIP", "address": self.address()}, {"type": "Hostname", "address": self.name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": id.simple().to_string(), "systemUUID": id.simple().to_string(), "bootID": id.to_string(),
                "kernelVersion": "simulated", "osImage": "dralab (simulated)", "containerRuntimeVersion": "dralab://simulated",
                "kubeletVersion": KUBELET_VERSION, "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": arch,
                "runningInUserNamespace": false,
            },
            "runtimeHandlers": [{"name": "", "features": {"recursiveReadOnlyMounts": true, "userNamespaces": false}}],
            "features": {"supplementalGroupsPolicy": true},
        })
    }

    /// Registers the node: makes the object, or brings the status of the one that is there up to date. Labels,
    /// annotations and taints that others have set stay.
    ///
    /// # Errors
    /// The API refuses it.
    pub fn register(&self, api: &Api) -> Result<(), Status> {
        let object = self.object(api.now());
        let options = WriteOptions::default();
        match api.create(&self.caller(), &NODES, "", object.clone(), &options) {
            Ok(_) => Ok(()),
            Err(status) if status.already_exists() => {
                let mut current = (*api.get(&NODES, "", &self.name)?).clone();
                // What is the same keeps its times.
                let before = current["status"]["conditions"].clone();
                current["status"] = object["status"].clone();
                for condition in current["status"]["conditions"].as_array_mut().into_iter().flatten() {
                    let same = |c: &&Value| c["type"] == condition["type"] && c["status"] == condition["status"];
                    if let Some(old) = before.as_array().into_iter().flatten().find(same) {
                        condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
                    }
                }
                if let Some(meta) = current["metadata"].as_object_mut() {
                    meta.remove("resourceVersion");
                }
                api.update(&self.caller(), &NODES, Subresource::Status, "", &self.name, current, &options).map(|_| ())
            }
            Err(status) => Err(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NodeIdentity;

    #[test]
    fn addresses_are_distinct() {
        let node = |index| NodeIdentity { name: "n".to_owned(), index, control_plane: false, labels: Default::default() };
        assert_eq!(node(0).address(), "172.18.0.2");
        assert_eq!(node(300).address(), "172.18.1.46");
        assert_eq!(node(0).pod_address(3), "10.244.0.3");
        assert_eq!(node(300).pod_address(3), "10.245.44.3");
    }
}
