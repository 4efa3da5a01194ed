//! Defaults of a pod (`pkg/apis/core/v1/defaults.go`).

use serde_json::{Value, json};

use super::json::{default, default_text, entries, flag, int, list_mut, text};

/// Mode of files in projected and config volumes: 0644.
const MODE: i64 = 0o644;

/// Defaults of a pod's `spec`.
pub(crate) fn spec_defaults(pod: &mut Value) {
    if !pod["spec"].is_object() {
        pod["spec"] = json!({});
    }
    let spec = &mut pod["spec"];
    // Absent lists of containers are refused by validation, and print as null.
    if !spec["containers"].is_array() {
        spec["containers"] = Value::Null;
    }
    if text(spec, "serviceAccountName").is_empty() {
        let name = text(spec, "serviceAccount").to_owned();
        if !name.is_empty() {
            spec["serviceAccountName"] = json!(name);
        }
    }
    let account = text(spec, "serviceAccountName").to_owned();
    if !account.is_empty() {
        spec["serviceAccount"] = json!(account);
    }
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "restartPolicy", "Always");
    default_text(spec, "schedulerName", "default-scheduler");
    default(spec, "securityContext", || json!({}));
    default(spec, "terminationGracePeriodSeconds", || json!(30));
    if int(spec, "terminationGracePeriodSeconds") < 0 {
        spec["terminationGracePeriodSeconds"] = json!(1);
    }
    default(spec, "enableServiceLinks", || json!(true));
    let host_network = flag(spec, "hostNetwork") == Some(true);
    for name in ["containers", "initContainers"] {
        for container in list_mut(spec, name) {
            container_defaults(container, host_network);
        }
    }
    list_mut(spec, "ephemeralContainers").for_each(|container| container_defaults(container, false));
    list_mut(spec, "volumes").for_each(volume_defaults);
}

fn container_defaults(container: &mut Value, host_network: bool) {
    let latest = tag(text(container, "image")) == "latest";
    default_text(container, "imagePullPolicy", if latest { "Always" } else { "IfNotPresent" });
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    default(container, "resources", || json!({}));
    let limits: Vec<(String, Value)> =
        entries(&container["resources"], "limits").map(|(name, value)| (name.to_owned(), value.clone())).collect();
    if !limits.is_empty() {
        default(&mut container["resources"], "requests", || json!({}));
        for (name, value) in limits {
            default(&mut container["resources"]["requests"], &name, || value);
        }
    }
    for port in list_mut(container, "ports") {
        default_text(port, "protocol", "TCP");
        if host_network && int(port, "hostPort") == 0 {
            port["hostPort"] = json!(int(port, "containerPort"));
        }
    }
    for variable in list_mut(container, "env") {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
            default_text(reference, "apiVersion", "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(probe).filter(|probe| probe.is_object()) else { continue };
        for (name, value) in [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)] {
            if int(probe, name) == 0 {
                probe[name] = json!(value);
            }
        }
        http_defaults(probe);
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = container.pointer_mut(&format!("/lifecycle/{hook}")) {
            http_defaults(hook);
        }
    }
}

fn http_defaults(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet").filter(|get| get.is_object()) {
        default_text(get, "path", "/");
        default_text(get, "scheme", "HTTP");
    }
    if let Some(grpc) = handler.get_mut("grpc").filter(|grpc| grpc.is_object()) {
        default(grpc, "service", || json!(""));
    }
}

/// The tag of an image reference; `latest` when it has neither tag nor digest.
fn tag(image: &str) -> &str {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag,
        None if digest => "",
        None => "latest",
    }
}

fn volume_defaults(volume: &mut Value) {
    let sources = volume.as_object().map_or(0, |fields| fields.iter().filter(|(name, value)| *name != "name" && !value.is_null()).count());
    if sources == 0 {
        volume["emptyDir"] = json!({});
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).filter(|source| source.is_object()) {
            default(source, "defaultMode", || json!(MODE));
        }
    }
    if let Some(path) = volume.get_mut("hostPath").filter(|path| path.is_object()) {
        default(path, "type", || json!(""));
    }
    let downward = |item: &mut Value| {
        if let Some(reference) = item.get_mut("fieldRef").filter(|reference| reference.is_object()) {
            default_text(reference, "apiVersion", "v1");
        }
    };
    if let Some(source) = volume.get_mut("downwardAPI") {
        list_mut(source, "items").for_each(downward);
    }
    if let Some(projected) = volume.get_mut("projected") {
        for source in list_mut(projected, "sources") {
            if let Some(token) = source.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
                default(token, "expirationSeconds", || json!(3600));
            }
            if let Some(source) = source.get_mut("downwardAPI") {
                list_mut(source, "items").for_each(downward);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        for (image, expected) in [
            ("ubuntu", "latest"),
            ("ubuntu:24.04", "24.04"),
            ("localhost:5000/ubuntu", "latest"),
            ("registry/x:1@sha256:0", "1"),
            ("registry/x@sha256:0", ""),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }
}
