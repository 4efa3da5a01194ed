//! The manifests of this build with a lab's parameters filled in.

use std::collections::BTreeMap;
use std::path::Path;

use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::client::manifests;
use crate::cluster::ClusterError;
use crate::cluster::install::address::ApiServer;
use crate::cluster::install::{DAEMON_SET, LAB_LABEL, NAMESPACE};
use crate::driver::Profile;

static MANIFESTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/manifests");

/// The list of the files, in the order in which they are applied.
const LIST: &str = "kustomization.yaml";
/// The only file of an embedded lab: everything else there is the lab's process.
const DEVICE_CLASS: &str = "deviceclass.yaml";
/// The driver's name as the manifests have it.
const DRIVER_NAME: &str = "gpu.example.com";
/// Images of this registry are put onto nodes by dralab, and can be pulled from nowhere.
const LOCAL: &str = "dralab.local/";
/// Where the profile is in the driver's container.
const PROFILE_FOLDER: &str = "/etc/dralab";

/// On the driver's namespace: what it was installed with, as JSON.
pub const PARAMETERS_ANNOTATION: &str = "dralab.dev/parameters";
/// On the driver's namespace: the dralab that installed it.
pub const VERSION_ANNOTATION: &str = "dralab.dev/version";
/// On the driver's pods: the profile that they have, so that another one rolls out.
const PROFILE_ANNOTATION: &str = "dralab.dev/profile";

/// What is installed on a cluster of several machines, kind's or any other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parameters {
    /// The lab, for the label on everything.
    pub lab: String,
    /// The driver's name.
    pub driver_name: String,
    /// The driver's image.
    pub image: String,
    /// The devices that each node has.
    pub profile: ProfileSource,
    /// GPUs per node; `None` is the profile's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Labels of the nodes that get a driver, beside those that every node for pods has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Where the driver reaches the API server; `None` is the service `kubernetes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<ApiServer>,
}

impl Parameters {
    /// Driver `gpu.example.com` with the default profile, on all nodes.
    #[must_use]
    pub fn new(lab: &str, image: &str) -> Self {
        Parameters {
            lab: lab.to_owned(),
            driver_name: DRIVER_NAME.to_owned(),
            image: image.to_owned(),
            profile: ProfileSource::Named("default".to_owned()),
            gpus: None,
            node_selector: BTreeMap::new(),
            api_server: None,
        }
    }
}

/// Where the driver has its profile from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProfileSource {
    /// It is part of the program.
    Named(String),
    /// The text of a file, which goes to the nodes in a ConfigMap.
    Text(String),
}

impl ProfileSource {
    /// A built-in profile by its name, or the text of a file when the name has a `/` or ends in `.yaml` or `.yml`.
    ///
    /// # Errors
    /// When there is no such profile, or the file is not one.
    pub fn of(name_or_path: &str) -> Result<Self, ClusterError> {
        let wrong = |message: String| ClusterError::Start {
            message,
            id: "DL-PROF-01",
            hints: vec![format!("profiles of this build: {}", Profile::names().collect::<Vec<_>>().join(", "))],
        };
        Profile::load(name_or_path).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
        if name_or_path.contains('/') || name_or_path.ends_with(".yaml") || name_or_path.ends_with(".yml") {
            let text = std::fs::read_to_string(Path::new(name_or_path)).map_err(ClusterError::file("read", name_or_path))?;
            return Ok(ProfileSource::Text(text));
        }
        Ok(ProfileSource::Named(name_or_path.to_owned()))
    }

    /// In a few letters: the name, or a digest of the text.
    #[must_use]
    pub fn short(&self) -> String {
        match self {
            ProfileSource::Named(name) => name.clone(),
            ProfileSource::Text(text) => {
                let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
                digest.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
            }
        }
    }
}

/// The objects in the order in which they are applied: those of a cluster with several machines, or, without parameters, of an embedded one.
/// There the class is all that is needed, and nothing needs a label.
///
/// # Errors
/// When a manifest of this build is broken.
pub fn objects(parameters: Option<&Parameters>) -> Result<Vec<Value>, ClusterError> {
    let Some(parameters) = parameters else { return read(DEVICE_CLASS) };
    let mut objects = Vec::new();
    for file in list()? {
        objects.extend(read(&file)?);
    }
    if let ProfileSource::Text(text) = &parameters.profile {
        let before = objects.iter().position(|o| o["kind"] == "DaemonSet").unwrap_or(objects.len());
        objects.insert(before, profile_map(text));
    }
    for object in &mut objects {
        rename(object, &parameters.driver_name);
        match object["kind"].as_str() {
            Some("DaemonSet") => driver(object, parameters),
            Some("Namespace") => {
                let told = json!({"image": parameters.image, "profile": parameters.profile.short(), "gpus": parameters.gpus, "nodeSelector": parameters.node_selector});
                object["metadata"]["annotations"][PARAMETERS_ANNOTATION] = json!(told.to_string());
                object["metadata"]["annotations"][VERSION_ANNOTATION] = json!(env!("CARGO_PKG_VERSION"));
            }
            _ => {}
        }
        label(&mut object["metadata"], &parameters.lab);
    }
    Ok(objects)
}

fn label(metadata: &mut Value, lab: &str) {
    metadata["labels"]["app.kubernetes.io/managed-by"] = json!("dralab");
    metadata["labels"][LAB_LABEL] = json!(lab);
}

/// Fills in what the driver runs with.
fn driver(daemon_set: &mut Value, parameters: &Parameters) {
    let template = &mut daemon_set["spec"]["template"];
    label(&mut template["metadata"], &parameters.lab);
    template["metadata"]["annotations"][PROFILE_ANNOTATION] = json!(parameters.profile.short());
    for (name, value) in &parameters.node_selector {
        template["spec"]["nodeSelector"][name] = json!(value);
    }
    let container = &mut template["spec"]["containers"][0];
    container["image"] = json!(parameters.image);
    if parameters.image.starts_with(LOCAL) {
        container["imagePullPolicy"] = json!("Never");
    }
    let mut arguments = vec![format!("--driver-name={}", parameters.driver_name)];
    match &parameters.profile {
        ProfileSource::Named(name) => arguments.push(format!("--profile={name}")),
        ProfileSource::Text(_) => arguments.push(format!("--profile={PROFILE_FOLDER}/profile.yaml")),
    }
    arguments.extend(parameters.gpus.map(|gpus| format!("--gpus={gpus}")));
    if let Some(args) = container["args"].as_array_mut() {
        args.extend(arguments.into_iter().map(Value::from));
    }
    if let Some(ApiServer { host, port }) = &parameters.api_server {
        // What every client in a pod goes by; named here, it wins over what the kubelet gives.
        push(&mut container["env"], json!({"name": "KUBERNETES_SERVICE_HOST", "value": host}));
        push(&mut container["env"], json!({"name": "KUBERNETES_SERVICE_PORT", "value": port.to_string()}));
    }
    if matches!(parameters.profile, ProfileSource::Text(_)) {
        push(&mut container["volumeMounts"], json!({"name": "profile", "mountPath": PROFILE_FOLDER, "readOnly": true}));
        push(&mut template["spec"]["volumes"], json!({"name": "profile", "configMap": {"name": "dralab-profile"}}));
    }
}

fn push(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

fn profile_map(text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "dralab-profile", "namespace": NAMESPACE, "labels": {"app.kubernetes.io/part-of": "dralab"}},
        "data": {"profile.yaml": text},
    })
}

/// Puts a driver's name in the place of the usual one, in every text.
fn rename(value: &mut Value, driver_name: &str) {
    match value {
        Value::String(text) if text.contains(DRIVER_NAME) && driver_name != DRIVER_NAME => *text = text.replace(DRIVER_NAME, driver_name),
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, driver_name)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, driver_name)),
        _ => {}
    }
}

/// The names of the files in the order of the list.
fn list() -> Result<Vec<String>, ClusterError> {
    let documents = read(LIST)?;
    let files = documents.first().and_then(|list| list["resources"].as_array()).cloned().unwrap_or_default();
    Ok(files.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn read(name: &str) -> Result<Vec<Value>, ClusterError> {
    let broken = |reason: String| ClusterError::Manifest { name: name.to_owned(), reason };
    let file = MANIFESTS.get_file(name).ok_or_else(|| broken("there is no such file".to_owned()))?;
    let text = file.contents_utf8().ok_or_else(|| broken("it is not UTF-8".to_owned()))?;
    manifests::read(name, text).map_err(|error| broken(error.to_string()))
}

/// How an object is called where a line has to do: `daemonset dralab-system/dralab-driver`.
#[must_use]
pub fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]).to_lowercase();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{}", text(&object["metadata"]["name"])),
        None => format!("{kind} {}", text(&object["metadata"]["name"])),
    }
}

/// The driver's DaemonSet among objects.
#[must_use]
pub fn daemon_set(objects: &[Value]) -> Option<&Value> {
    objects.iter().find(|o| o["kind"] == "DaemonSet" && o["metadata"]["name"] == DAEMON_SET)
}

#[cfg(test)]
mod tests {
    use super::{ApiServer, Parameters, ProfileSource, daemon_set, objects, title};
    use crate::cluster::install::LAB_LABEL;
    use serde_json::json;

    #[test]
    fn an_embedded_lab_gets_the_class_and_nothing_else() {
        let objects = objects(None).expect("they read");
        assert_eq!(objects.iter().map(title).collect::<Vec<_>>(), ["deviceclass gpu.example.com"]);
        assert_eq!(objects[0]["metadata"], json!({"name": "gpu.example.com"}));
    }

    #[test]
    fn a_real_cluster_gets_them_all_in_order_and_labelled() {
        let objects = objects(Some(&Parameters::new("dra-lab", "dralab.local/driver:1"))).expect("they read");
        assert_eq!(
            objects.iter().map(title).collect::<Vec<_>>(),
            [
                "namespace dralab-system",
                "serviceaccount dralab-system/dralab-driver",
                "clusterrole dralab-driver",
                "clusterrolebinding dralab-driver",
                "validatingadmissionpolicy dralab-driver-own-slices",
                "validatingadmissionpolicybinding dralab-driver-own-slices",
                "deviceclass gpu.example.com",
                "daemonset dralab-system/dralab-driver",
            ]
        );
        assert!(objects.iter().all(|o| o["metadata"]["labels"][LAB_LABEL] == "dra-lab"));
        let set = daemon_set(&objects).expect("a DaemonSet");
        let pod = &set["spec"]["template"];
        assert_eq!(pod["metadata"]["labels"][LAB_LABEL], "dra-lab");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(
            (&container["image"], &container["imagePullPolicy"]),
            (&json!("dralab.local/driver:1"), &json!("Never")),
            "an image of no registry is never pulled"
        );
        assert_eq!(
            container["args"],
            json!(["driver", "run", "--health-address=0.0.0.0:8080", "--driver-name=gpu.example.com", "--profile=default"])
        );
    }

    #[test]
    fn parameters_reach_the_driver() {
        let parameters = Parameters {
            driver_name: "gpu.class.example".to_owned(),
            profile: ProfileSource::Text("name: x\n".to_owned()),
            gpus: Some(4),
            node_selector: [("pool".to_owned(), "gpu".to_owned())].into(),
            api_server: Some(ApiServer { host: "172.18.0.3".to_owned(), port: 6443 }),
            ..Parameters::new("x", "registry.example/dralab:1")
        };
        let objects = objects(Some(&parameters)).expect("they read");
        let text = serde_json::to_string(&objects).expect("JSON");
        assert!(!text.contains("gpu.example.com"), "the usual name is nowhere");
        let role = objects.iter().find(|o| o["kind"] == "ClusterRole").expect("a role");
        assert!(role["rules"].as_array().expect("rules").iter().any(|r| r["resourceNames"] == json!(["gpu.class.example"])));
        let titles: Vec<String> = objects.iter().map(title).collect();
        let map = titles.iter().position(|t| t == "configmap dralab-system/dralab-profile").expect("the profile");
        assert!(map < titles.iter().position(|t| t.starts_with("daemonset")).expect("a DaemonSet"), "before the pods that mount it");
        let spec = &daemon_set(&objects).expect("a DaemonSet")["spec"]["template"]["spec"];
        assert_eq!(spec["nodeSelector"], json!({"kubernetes.io/os": "linux", "pool": "gpu"}));
        let container = &spec["containers"][0];
        assert_eq!(container["imagePullPolicy"], "IfNotPresent");
        let args = container["args"].to_string();
        let env = container["env"].as_array().expect("variables");
        assert!(env.contains(&json!({"name": "KUBERNETES_SERVICE_HOST", "value": "172.18.0.3"})), "{env:?}");
        assert!(env.contains(&json!({"name": "KUBERNETES_SERVICE_PORT", "value": "6443"})), "{env:?}");
        assert!(args.contains("--gpus=4") && args.contains("--profile=/etc/dralab/profile.yaml"), "{args}");
        assert!(container["volumeMounts"].as_array().is_some_and(|m| m.iter().any(|m| m["name"] == "profile" && m["readOnly"] == true)));
    }

    #[test]
    fn the_driver_has_no_more_rights_than_it_needs() {
        let objects = objects(Some(&Parameters::new("x", "i"))).expect("they read");
        let role = objects.iter().find(|o| o["kind"] == "ClusterRole").expect("a role");
        for rule in role["rules"].as_array().expect("rules") {
            let text = rule.to_string();
            assert!(!text.contains("\"*\"") && !text.contains("deletecollection") && !text.contains("secrets"), "{text}");
        }
        let spec = &daemon_set(&objects).expect("a DaemonSet")["spec"]["template"]["spec"];
        for (pointer, expected) in [
            ("/containers/0/securityContext/privileged", json!(false)),
            ("/containers/0/securityContext/allowPrivilegeEscalation", json!(false)),
            ("/containers/0/securityContext/readOnlyRootFilesystem", json!(true)),
            ("/containers/0/securityContext/capabilities", json!({"drop": ["ALL"]})),
            ("/securityContext/seccompProfile/type", json!("RuntimeDefault")),
        ] {
            assert_eq!(spec.pointer(pointer), Some(&expected), "{pointer}");
        }
        let paths: Vec<&str> = spec["volumes"].as_array().expect("volumes").iter().filter_map(|v| v["hostPath"]["path"].as_str()).collect();
        assert_eq!(paths, ["/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins", "/var/run/cdi"]);
        for absent in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(spec[absent].is_null(), "{absent}");
        }
    }
}
