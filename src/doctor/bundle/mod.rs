//! The support archive: what was found, what was looked at, and what happened, without anything that opens doors.
//!
//! | file | what |
//! |---|---|
//! | `manifest.json` | versions, the files, and what was left out |
//! | `report.json` | the findings |
//! | `facts.json` | machine, engine, tools, lab |
//! | `objects/KIND.json` | objects of DRA, pods that have to do with it, nodes, events |
//! | `logs/NAME.log` | the ends of the lab's logs |

mod redact;

use std::collections::BTreeSet;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cluster::ClusterError;
use crate::cluster::record::write_private;
use crate::doctor::Facts;
use crate::doctor::facts::{claims_of, items, name, text, uid};
use redact::Redactor;

/// So much of the end of each log.
const LOG: u64 = 128 * 1024;

/// What is never in it; said in the manifest.
const LEFT_OUT: &[&str] = &[
    "Secrets and ConfigMaps (never read)",
    "kubeconfigs, certificates, keys and tokens",
    "values of environment variables of containers, except DRA's own (DRA_*, DRALAB_*, GPU_DEVICE_*)",
    "annotations other than those of resource.kubernetes.io and dralab.dev",
    "pods that have no claim and are no driver (only their names, phases and claims' reservations)",
    "RBAC, quotas and admission policies",
    "the path of the home folder (shown as ~)",
];

/// An archive cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The parts cannot be put together.
    #[error("the archive cannot be put together")]
    Archive(#[from] std::io::Error),
    /// The file is there already.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] ClusterError),
}

/// Writes the archive, for this user's eyes only. Returns the names of its files.
///
/// # Errors
/// When the file exists, or cannot be written.
pub fn write(path: &Path, facts: &Facts, report: &Value, logs: &Path, home: Option<&Path>) -> Result<Vec<String>, BundleError> {
    if path.exists() {
        return Err(BundleError::Exists(path.to_path_buf()));
    }
    let (bytes, names) = archive(facts, report, logs, home)?;
    write_private(path, &bytes)?;
    Ok(names)
}

/// The archive's bytes, and the names of its files.
fn archive(facts: &Facts, report: &Value, logs: &Path, home: Option<&Path>) -> std::io::Result<(Vec<u8>, Vec<String>)> {
    let redactor = Redactor::new(home);
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut put = |name: String, value: Value| files.push((name, serde_json::to_vec_pretty(&redactor.value(value)).unwrap_or_default()));
    put("report.json".to_owned(), report.clone());
    let mut told = serde_json::to_value(facts).unwrap_or_default();
    if let Some(told) = told.as_object_mut() {
        told.remove("cluster");
        if let Some(installed) = told.get_mut("lab").and_then(|lab| lab["installed"].get_mut("Ok")) {
            let objects = items(installed).map(|o| json!({"object": o["object"], "found": !o["found"].is_null()}));
            *installed = objects.collect();
        }
    }
    put("facts.json".to_owned(), told);
    if let Ok(cluster) = &facts.cluster {
        for (plural, objects) in &cluster.objects {
            if let (true, Ok(objects)) = (KEPT.contains(plural), objects) {
                put(format!("objects/{plural}.json"), kept(plural, objects, cluster.list_or_none("pods")));
            }
        }
    }
    for (name, tail) in tails(logs) {
        files.push((format!("logs/{name}"), redactor.text(&tail).into_bytes()));
    }
    let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    let server = facts.cluster.as_ref().map(|c| c.version.clone()).unwrap_or_default();
    let manifest = json!({"apiVersion": "dralab/v1", "kind": "DoctorBundle", "dralab": facts.lab.version, "kubernetes": server, "at": facts.now,
        "files": names, "leftOut": LEFT_OUT});
    files.insert(0, ("manifest.json".to_owned(), serde_json::to_vec_pretty(&manifest).unwrap_or_default()));
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in &files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o600);
        header.set_size(bytes.len() as u64);
        header.set_mtime(u64::try_from(facts.now.as_second()).unwrap_or_default());
        builder.append_data(&mut header, format!("dralab-doctor/{name}"), bytes.as_slice())?;
    }
    Ok((builder.into_inner()?, files.into_iter().map(|(name, _)| name).collect()))
}

/// The kinds that go into it.
const KEPT: &[&str] = &[
    "nodes",
    "namespaces",
    "pods",
    "events",
    "daemonsets",
    "resourceslices",
    "resourceclaims",
    "resourceclaimtemplates",
    "deviceclasses",
    "devicetaintrules",
];

/// The objects of a kind that matter, and of them what matters.
fn kept(plural: &str, objects: &[Value], pods: &[Value]) -> Value {
    let about_dra: BTreeSet<&str> = pods.iter().filter(|pod| has_to_do_with_dra(pod)).map(uid).collect();
    let one = |object: &Value| -> Option<Value> {
        Some(match plural {
            "pods" if !about_dra.contains(uid(object)) => {
                json!({"metadata": {"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"], "uid": object["metadata"]["uid"]},
                    "status": {"phase": object["status"]["phase"]}})
            }
            "namespaces" => json!({"metadata": {"name": object["metadata"]["name"], "labels": object["metadata"]["labels"]}}),
            "daemonsets" if !mounts_plugins(&object["spec"]["template"]) => return None,
            "events" => {
                let about = &object["involvedObject"];
                let matters = about_dra.contains(text(&about["uid"])) || matches!(text(&about["kind"]), "ResourceClaim" | "Node");
                return matters.then(|| object.clone());
            }
            "nodes" => {
                let mut node = object.clone();
                if let Some(status) = node["status"].as_object_mut() {
                    status.remove("images");
                }
                node
            }
            _ => object.clone(),
        })
    };
    objects.iter().filter_map(one).collect()
}

fn has_to_do_with_dra(pod: &Value) -> bool {
    claims_of(pod).next().is_some()
        || mounts_plugins(pod)
        || (name(pod).starts_with("kube-") && text(&pod["metadata"]["namespace"]) == "kube-system")
}

fn mounts_plugins(pod: &Value) -> bool {
    items(&pod["spec"]["volumes"]).any(|v| text(&v["hostPath"]["path"]).contains("/plugins"))
}

/// The ends of the logs in a folder.
fn tails(folder: &Path) -> Vec<(String, String)> {
    let mut logs: Vec<(String, String)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "log"))
        .filter_map(|entry| Some((entry.file_name().to_string_lossy().into_owned(), tail(&entry.path()).ok()?)))
        .collect();
    logs.sort();
    logs
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG)))?;
    let mut bytes = Vec::new();
    file.take(LOG).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line may have been cut, and with it the word that tells a secret.
    Ok(if length > LOG { text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default() } else { text })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::path::Path;

    use serde_json::json;

    use super::{BundleError, archive, write};
    use crate::doctor::testing::sound;

    const SECRETS: &[&str] = &[
        "hunter2-env",
        "hunter2-arg",
        "hunter2-flag",
        "hunter2-annotation",
        "hunter2-url",
        "hunter2-log",
        "hunter2-config",
        "hunter2-proxy",
        "hunter2-other-pod",
        "hunter2-bearer",
        "MIIEhunter2pem",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c2lnbmF0dXJl",
        "/home/grace",
    ];

    fn planted() -> crate::doctor::Facts {
        let mut facts = sound();
        facts.host.proxies.insert("HTTPS_PROXY".to_owned(), "http://u:hunter2-proxy@proxy:3128".to_owned());
        facts.lab.folder = "/home/grace/.local/state/dralab/labs/x".to_owned();
        let cluster = facts.cluster.as_mut().expect("a cluster");
        let pods = cluster.objects.get_mut("pods").expect("pods").as_mut().expect("a list");
        pods[0]["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{\"env\":\"hunter2-annotation\"}",
            "resource.kubernetes.io/pod-claim-name": "kept-annotation"});
        pods[0]["spec"]["containers"][0] = json!({"name": "ctr0", "command": ["app", "--password", "hunter2-arg"], "args": ["--token=hunter2-flag", "http://u:hunter2-url@host/x"],
            "env": [{"name": "DATABASE", "value": "hunter2-env"}, {"name": "DRA_DEBUG", "value": "kept-dra-value"}]});
        let mut other = pods[0].clone();
        other["metadata"] = json!({"name": "other", "namespace": "default", "uid": "other", "labels": {"x": "hunter2-other-pod"}});
        other["spec"]["resourceClaims"] = json!([]);
        pods.push(other);
        let claims = cluster.objects.get_mut("resourceclaims").expect("claims").as_mut().expect("a list");
        claims[0]["spec"]["devices"]["config"] =
            json!([{"opaque": {"driver": "gpu.example.com", "parameters": {"apiToken": "hunter2-config", "mode": "kept-mode"}}}]);
        let events = cluster.objects.get_mut("events").expect("events").as_mut().expect("a list");
        events.push(json!({"involvedObject": {"uid": "uid-pod0", "kind": "Pod"}, "message":
            "Authorization: Bearer hunter2-bearer failed, eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c2lnbmF0dXJl"}));
        facts
    }

    #[test]
    fn planted_secrets_are_not_in_it_and_what_helps_is() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("kubeconfig"), "token: hunter2-log").expect("written");
        let log = "started in /home/grace/x\npassword: hunter2-log\n-----BEGIN RSA PRIVATE KEY-----\nMIIEhunter2pem\n-----END RSA PRIVATE KEY-----\nkept-line\n";
        std::fs::write(folder.path().join("lab.log"), log).expect("written");
        let report = json!({"checks": [], "seen": "/home/grace/.kube/config"});
        let (bytes, names) = archive(&planted(), &report, folder.path(), Some(Path::new("/home/grace"))).expect("an archive");
        let all = String::from_utf8_lossy(&bytes);
        for secret in SECRETS {
            assert!(!all.contains(secret), "{secret} is in the archive");
        }
        for word in ["kept-annotation", "kept-dra-value", "kept-mode", "kept-line", "LATEST-GPU-MODEL", "~/.kube/config", "proxy:3128"] {
            assert!(all.contains(word), "{word} is missing");
        }
        assert!(names.contains(&"objects/resourceclaims.json".to_owned()) && !names.iter().any(|n| n.contains("kubeconfig")));
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut first = archive.entries().expect("entries").next().expect("one").expect("an entry");
        let mut manifest = String::new();
        first.read_to_string(&mut manifest).expect("text");
        let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
        assert_eq!(manifest["kubernetes"], "v1.37.2");
        assert!(manifest["leftOut"].as_array().is_some_and(|l| l.len() > 5));
    }

    #[test]
    fn it_is_private_and_overwrites_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("b.tar");
        write(&path, &sound(), &json!({}), folder.path(), None).expect("written");
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        assert!(matches!(write(&path, &sound(), &json!({}), folder.path(), None), Err(BundleError::Exists(_))));
    }
}
