//! The configuration that kind gets, as text.

use std::fmt::Write as _;

use crate::cluster::install::LAB_LABEL;
use crate::cluster::kind::image::Kubernetes;
use crate::model::gates::Gates;

/// What the configuration is made from.
#[derive(Clone, Debug)]
pub struct Shape<'a> {
    /// The lab's name, and so the cluster's.
    pub lab: &'a str,
    /// Number of workers.
    pub workers: u32,
    /// The node image.
    pub image: &'a str,
    /// Its Kubernetes version.
    pub version: Kubernetes,
    /// The gates to set, and the APIs to serve.
    pub gates: &'a Gates,
    /// The API's port on this machine.
    pub port: Option<u16>,
    /// The engine's machine has cgroup v1.
    pub cgroup_v1: bool,
    /// kind skips a containerd patch of another configuration version (since 0.32). An older kind would merge it.
    pub skips_other_versions: bool,
}

/// The first minor version whose kubelet refuses a machine with cgroup v1 unless it is told otherwise (KEP-5573).
pub const REFUSES_CGROUP_V1: u32 = 35;

/// The last minor version whose node images may have a containerd that has CDI off (1.7); containerd 2.0 switched it on.
const CDI_OFF: u32 = 34;

/// containerd 1.x and 2.x name the plugin differently, in version 2 and 3 of the configuration.
const CDI: [&str; 2] = [
    "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  enable_cdi = true\n",
    "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\"]\n  enable_cdi = true\n",
];

/// The configuration's text. The same shape gives the same text.
#[must_use]
pub fn render(shape: &Shape<'_>) -> String {
    let mut text = format!(
        "# Made by `dralab up`, which writes it anew.\nkind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nname: {}\n",
        quoted(shape.lab)
    );
    if let Some(port) = shape.port {
        let _ = write!(text, "networking:\n  apiServerPort: {port}\n");
    }
    if !shape.gates.set.is_empty() {
        text.push_str("featureGates:\n");
        for (gate, on) in &shape.gates.set {
            let _ = writeln!(text, "  {gate}: {on}");
        }
    }
    if !shape.gates.served.is_empty() {
        text.push_str("runtimeConfig:\n");
        for api in &shape.gates.served {
            let _ = writeln!(text, "  {api}: \"true\"");
        }
    }
    if shape.cgroup_v1 && shape.version.minor >= REFUSES_CGROUP_V1 {
        text.push_str("kubeadmConfigPatches:\n");
        block(&mut text, "kind: KubeletConfiguration\nfailCgroupV1: false\n");
    }
    if shape.version.minor <= CDI_OFF {
        text.push_str("containerdConfigPatches:\n");
        block(&mut text, CDI[0]);
        if shape.skips_other_versions {
            block(&mut text, CDI[1]);
        }
    }
    text.push_str("nodes:\n");
    let roles = std::iter::once("control-plane").chain(std::iter::repeat_n("worker", shape.workers as usize));
    for role in roles {
        let _ = write!(text, "- role: {role}\n  image: {}\n  labels:\n    {LAB_LABEL}: {}\n", quoted(shape.image), quoted(shape.lab));
    }
    text
}

/// A list item that is a text of several lines.
fn block(text: &mut String, lines: &str) {
    text.push_str("- |\n");
    for line in lines.lines() {
        let _ = writeln!(text, "  {line}");
    }
}

/// A YAML string that cannot be taken for anything else (a lab may be called `1` or `true`). JSON's quoting is YAML's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Shape, render};
    use crate::cluster::kind::image::Kubernetes;
    use crate::model::gates::{Gates, Wanted};

    fn text(minor: u32, wanted: Wanted, change: impl FnOnce(&mut Shape<'_>)) -> String {
        let gates = Gates::choose(minor, wanted, [""; 0]).expect("known");
        let mut shape = Shape {
            lab: "dra-lab",
            workers: 1,
            image: "i:v1",
            version: Kubernetes { minor, patch: None },
            gates: &gates,
            port: None,
            cgroup_v1: false,
            skips_other_versions: true,
        };
        change(&mut shape);
        render(&shape)
    }

    const HEAD: &str =
        "# Made by `dralab up`, which writes it anew.\nkind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nname: \"dra-lab\"\n";
    const NODES: &str = r#"nodes:
- role: control-plane
  image: "i:v1"
  labels:
    dralab.dev/lab: "dra-lab"
- role: worker
  image: "i:v1"
  labels:
    dralab.dev/lab: "dra-lab"
"#;
    const CDI_2: &str = r#"containerdConfigPatches:
- |
  version = 2
  [plugins."io.containerd.grpc.v1.cri"]
    enable_cdi = true
"#;
    const CDI_3: &str = r#"- |
  version = 3
  [plugins."io.containerd.cri.v1.runtime"]
    enable_cdi = true
"#;
    const CGROUP: &str = "kubeadmConfigPatches:\n- |\n  kind: KubeletConfiguration\n  failCgroupV1: false\n";

    #[test]
    fn the_text_of_each_version() {
        assert_eq!(text(34, Wanted::Beta, |_| ()), format!("{HEAD}{CDI_2}{CDI_3}{NODES}"));
        assert_eq!(text(34, Wanted::Beta, |s| s.skips_other_versions = false), format!("{HEAD}{CDI_2}{NODES}"));
        assert_eq!(text(34, Wanted::Beta, |s| s.cgroup_v1 = true), format!("{HEAD}{CDI_2}{CDI_3}{NODES}"));
        assert_eq!(text(35, Wanted::Beta, |_| ()), format!("{HEAD}{NODES}"));
        assert_eq!(text(35, Wanted::Beta, |s| s.cgroup_v1 = true), format!("{HEAD}{CGROUP}{NODES}"));
        let gates = r#"featureGates:
  DRADeviceTaintRules: true
runtimeConfig:
  resource.k8s.io/v1beta2: "true"
"#;
        assert_eq!(text(36, Wanted::Beta, |_| ()), format!("{HEAD}{gates}{NODES}"));
        let gates = r#"featureGates:
  DRADerivedAttributes: true
  DRADeviceCompatibilityGroups: true
  DRAFractionalCapacityRange: true
  DRAListTypeAttributes: true
  DRANodeAllocatableResources: true
  DRAOptionalNodeOperations: true
  DRAPartitionableDevicesType: true
  DRAResourcePoolStatus: true
  DRAWorkloadResourceClaims: true
  GenericWorkload: true
runtimeConfig:
  resource.k8s.io/v1alpha3: "true"
  scheduling.k8s.io/v1beta1: "true"
"#;
        assert_eq!(text(37, Wanted::All, |s| s.cgroup_v1 = true), format!("{HEAD}{gates}{CGROUP}{NODES}"));
        assert_eq!(text(37, Wanted::Stable, |s| s.port = Some(6443)), format!("{HEAD}networking:\n  apiServerPort: 6443\n{NODES}"));
    }

    #[test]
    fn it_is_yaml_whatever_the_names_are() {
        for (lab, image) in [("1", "i:v1"), ("true", "r:5000/a/b:v1@sha256:0"), ("a", "x\"y: z\n#")] {
            let text = text(37, Wanted::All, |shape| {
                shape.lab = lab;
                shape.image = image;
                shape.workers = 2;
            });
            let read: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
            assert_eq!(read["name"], lab);
            assert_eq!(read["nodes"].as_array().map(Vec::len), Some(3));
            assert_eq!(read["nodes"][2]["image"], image);
        }
    }
}
