//! Reads the CDI specs that drivers wrote and gives containers what they say (CNCF Container Device Interface).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// One CDI spec file. Fields that are not simulated are kept as plain JSON.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    /// `vendor/class`.
    kind: String,
    #[serde(default)]
    devices: Vec<Device>,
    #[serde(default)]
    container_edits: Edits,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    #[serde(default)]
    container_edits: Edits,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Edits {
    env: Vec<String>,
    device_nodes: Vec<PathOf>,
    mounts: Vec<MountOf>,
}

#[derive(Clone, Debug, Deserialize)]
struct PathOf {
    path: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MountOf {
    container_path: String,
}

/// What a container gets from its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Environment variables, in the order of the edits.
    pub env: Vec<(String, String)>,
    /// Device nodes and mounts, which a simulated container does not have.
    pub not_simulated: Vec<String>,
}

/// Why devices cannot be given to a container.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdiError {
    /// No spec has them. The words are those of the CDI library inside container runtimes.
    #[error("CDI device injection failed: unresolvable CDI devices {}", .0.join(", "))]
    Unresolvable(Vec<String>),
}

/// Resolves fully qualified device names (`vendor/class=name`) in the spec files of a folder. The edits of a spec
/// come once, before those of its devices. Files that are no specs are left out with a debug log, as runtimes do.
///
/// # Errors
/// A device is in no spec.
pub fn resolve(folder: &Path, devices: &[String]) -> Result<Injected, CdiError> {
    if devices.is_empty() {
        return Ok(Injected::default());
    }
    let specs = read(folder);
    let mut injected = Injected::default();
    let mut unresolvable = Vec::new();
    let mut seen_specs = BTreeSet::new();
    let mut seen_devices = BTreeSet::new();
    for name in devices {
        if !seen_devices.insert(name) {
            continue;
        }
        let found = name.split_once('=').and_then(|(kind, device)| {
            // The last file in order of name wins, as files of one folder have the same priority upstream only
            // when they do not conflict.
            specs
                .iter()
                .rev()
                .filter(|(_, spec)| spec.kind == kind)
                .find_map(|(file, spec)| spec.devices.iter().find(|d| d.name == device).map(|device| (file, spec, device)))
        });
        match found {
            Some((file, spec, device)) => {
                if seen_specs.insert(file) {
                    injected.apply(&spec.container_edits);
                }
                injected.apply(&device.container_edits);
            }
            None => unresolvable.push(name.clone()),
        }
    }
    if unresolvable.is_empty() { Ok(injected) } else { Err(CdiError::Unresolvable(unresolvable)) }
}

impl Injected {
    fn apply(&mut self, edits: &Edits) {
        for line in &edits.env {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            match self.env.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => value.clone_into(known),
                None => self.env.push((name.to_owned(), value.to_owned())),
            }
        }
        self.not_simulated.extend(edits.device_nodes.iter().map(|d| d.path.clone()));
        self.not_simulated.extend(edits.mounts.iter().map(|m| m.container_path.clone()));
    }
}

fn read(folder: &Path) -> BTreeMap<PathBuf, Spec> {
    let mut specs = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return specs };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_owned();
        if !matches!(extension.as_str(), "json" | "yaml" | "yml") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let spec: Result<Spec, String> = if extension == "json" {
            serde_json::from_str(&text).map_err(|e| e.to_string())
        } else {
            serde_saphyr::from_str(&text).map_err(|e| e.to_string())
        };
        match spec {
            Ok(spec) => {
                specs.insert(path, spec);
            }
            Err(error) => tracing::debug!(file = %path.display(), error, "not a CDI spec"),
        }
    }
    specs
}

#[cfg(test)]
mod tests {
    use super::{CdiError, resolve};

    #[test]
    fn edits_of_spec_and_device_are_given() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write(
            "a.json",
            r#"{"cdiVersion": "0.6.0", "kind": "k8s.gpu.example.com/gpu", "containerEdits": {"env": ["A=spec", "B=spec"]},
                "devices": [{"name": "common", "containerEdits": {"env": ["DRIVER=gpu.example.com"]}},
                            {"name": "c-1", "containerEdits": {"env": ["A=device", "EMPTY="], "deviceNodes": [{"path": "/dev/gpu0"}],
                             "mounts": [{"hostPath": "/x", "containerPath": "/y"}], "hooks": []}}]}"#,
        );
        write("b.yaml", "cdiVersion: 0.6.0\nkind: vendor.com/net\ndevices:\n- name: eth0\n  containerEdits:\n    env: [NET=eth0]\n");
        write("broken.json", "{");
        let names: Vec<String> =
            ["k8s.gpu.example.com/gpu=common", "k8s.gpu.example.com/gpu=c-1", "vendor.com/net=eth0", "vendor.com/net=eth0"]
                .map(str::to_owned)
                .into();
        let injected = resolve(folder.path(), &names).expect("resolved");
        let env: Vec<String> = injected.env.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(env, ["A=device", "B=spec", "DRIVER=gpu.example.com", "EMPTY=", "NET=eth0"]);
        assert_eq!(injected.not_simulated, ["/dev/gpu0", "/y"]);
        let missing = vec!["vendor.com/net=eth1".to_owned(), "vendor.com/other=x".to_owned()];
        assert_eq!(resolve(folder.path(), &missing), Err(CdiError::Unresolvable(missing.clone())));
    }
}
