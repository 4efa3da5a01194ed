//! The environment of a container, as a kubelet puts it together (`makeEnvironmentVariables`).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::embedded::api::resource::{CONFIGMAPS, SECRETS};
use crate::embedded::api::{Api, Resource};

/// The address of the API server inside the cluster, as kubeadm's default service range has it.
const SERVICE_HOST: &str = "10.96.0.1";
/// What images usually set.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a container's environment cannot be put together; shown in the event `Failed` and in the waiting state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// A config map or secret is not there.
    #[error("{kind} \"{name}\" not found")]
    Missing {
        /// `configmap` or `secret`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// It lacks a key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    Key {
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// Where it is.
        namespace: String,
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// A field that the downward API does not have.
    #[error("unsupported fieldPath: {0}")]
    Field(String),
}

/// Addresses that the downward API shows.
#[derive(Clone, Debug)]
pub struct Addresses<'a> {
    /// Of the node.
    pub host: &'a str,
    /// Of the pod.
    pub pod: &'a str,
}

/// All variables of a container, in order: what the image and the runtime set, what the spec says, services, what the
/// devices (CDI) say. Later ones replace earlier ones of the same name.
///
/// # Errors
/// Something that the spec refers to is not there.
pub fn build(
    api: &Api,
    pod: &Value,
    container: &Value,
    addresses: &Addresses<'_>,
    devices: &[(String, String)],
) -> Result<Vec<(String, String)>, EnvironmentError> {
    let mut all = Variables::default();
    all.set("PATH", PATH);
    all.set("HOSTNAME", hostname(pod));
    let services = services();
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    for source in container["envFrom"].as_array().into_iter().flatten() {
        let prefix = source["prefix"].as_str().unwrap_or_default();
        for (kind, resource, reference) in [("configmap", &CONFIGMAPS, &source["configMapRef"]), ("secret", &SECRETS, &source["secretRef"])]
        {
            let Some(name) = reference["name"].as_str() else { continue };
            match data(api, resource, namespace, name) {
                Some(data) => data.into_iter().for_each(|(key, value)| all.set(&format!("{prefix}{key}"), &value)),
                None if reference["optional"] == true => {}
                None => return Err(EnvironmentError::Missing { kind, name: name.to_owned() }),
            }
        }
    }
    for variable in container["env"].as_array().into_iter().flatten() {
        let Some(name) = variable["name"].as_str() else { continue };
        let value = if variable["valueFrom"].is_null() {
            let known = |name: &str| all.get(name).or_else(|| services.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()));
            Some(expand(variable["value"].as_str().unwrap_or_default(), known))
        } else {
            value_from(api, pod, container, &variable["valueFrom"], addresses)?
        };
        if let Some(value) = value {
            all.set(name, &value);
        }
    }
    for (name, value) in services {
        if all.get(&name).is_none() {
            all.set(&name, &value);
        }
    }
    for (name, value) in devices {
        all.set(name, value);
    }
    if all.get("HOME").is_none() {
        all.set("HOME", "/root");
    }
    Ok(all.list)
}

/// The host name of a pod.
#[must_use]
pub fn hostname(pod: &Value) -> &str {
    let name = pod["spec"]["hostname"].as_str().or_else(|| pod["metadata"]["name"].as_str()).unwrap_or_default();
    // Cut at 63 characters, as the kubelet does.
    name.get(..63).unwrap_or(name).trim_end_matches(['-', '.'])
}

/// Replaces `$(NAME)` by the variable's value; unknown ones stay, `$$` is one `$` (`third_party/forked/golang/expansion`).
#[must_use]
pub fn expand(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match value(name) {
                Some(value) => out.push_str(&value),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[derive(Default)]
struct Variables {
    list: Vec<(String, String)>,
}

impl Variables {
    fn get(&self, name: &str) -> Option<String> {
        self.list.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    }

    fn set(&mut self, name: &str, value: &str) {
        match self.list.iter_mut().find(|(n, _)| n == name) {
            Some((_, known)) => value.clone_into(known),
            None => self.list.push((name.to_owned(), value.to_owned())),
        }
    }
}

fn services() -> Vec<(String, String)> {
    let url = format!("tcp://{SERVICE_HOST}:443");
    [
        ("KUBERNETES_PORT", url.as_str()),
        ("KUBERNETES_PORT_443_TCP", &url),
        ("KUBERNETES_PORT_443_TCP_PROTO", "tcp"),
        ("KUBERNETES_PORT_443_TCP_PORT", "443"),
        ("KUBERNETES_PORT_443_TCP_ADDR", SERVICE_HOST),
        ("KUBERNETES_SERVICE_HOST", SERVICE_HOST),
        ("KUBERNETES_SERVICE_PORT", "443"),
        ("KUBERNETES_SERVICE_PORT_HTTPS", "443"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// The data of a config map or secret as text; `None` when it is not there.
fn data(api: &Api, resource: &'static Resource, namespace: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let object = api.get(resource, namespace, name).ok()?;
    let entries = object["data"].as_object().into_iter().flatten();
    Some(
        entries
            .filter_map(|(key, value)| {
                let value = value.as_str()?;
                let value = if resource == &SECRETS { decode(value) } else { value.to_owned() };
                Some((key.clone(), value))
            })
            .collect(),
    )
}

fn value_from(
    api: &Api,
    pod: &Value,
    container: &Value,
    from: &Value,
    addresses: &Addresses<'_>,
) -> Result<Option<String>, EnvironmentError> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    for (kind, shown, resource, reference) in
        [("configmap", "ConfigMap", &CONFIGMAPS, &from["configMapKeyRef"]), ("secret", "Secret", &SECRETS, &from["secretKeyRef"])]
    {
        let (Some(name), Some(key)) = (reference["name"].as_str(), reference["key"].as_str()) else { continue };
        let optional = reference["optional"] == true;
        return match data(api, resource, namespace, name) {
            None if optional => Ok(None),
            None => Err(EnvironmentError::Missing { kind, name: name.to_owned() }),
            Some(mut data) => match data.remove(key) {
                Some(value) => Ok(Some(value)),
                None if optional => Ok(None),
                None => {
                    let (namespace, name, key) = (namespace.to_owned(), name.to_owned(), key.to_owned());
                    Err(EnvironmentError::Key { kind: shown, namespace, name, key })
                }
            },
        };
    }
    if let Some(resource) = from["resourceFieldRef"]["resource"].as_str() {
        return Ok(Some(resource_field(container, resource)));
    }
    match from["fieldRef"]["fieldPath"].as_str() {
        Some(path) => field(pod, path, addresses).map(Some),
        None => Ok(None),
    }
}

/// `limits.cpu` and the like, in whole units; where none is set, what the node has.
fn resource_field(container: &Value, resource: &str) -> String {
    use crate::model::quantity::Quantity;
    let (kind, name) = resource.split_once('.').unwrap_or(("limits", resource));
    let set = container["resources"][kind][name].as_str().or_else(|| container["resources"]["limits"][name].as_str());
    match set.and_then(|text| Quantity::parse(text).ok()) {
        Some(quantity) => quantity.value().to_string(),
        None if name == "cpu" => "16".to_owned(),
        None => (64_u64 << 30).to_string(),
    }
}

/// A field of the downward API.
fn field(pod: &Value, path: &str, addresses: &Addresses<'_>) -> Result<String, EnvironmentError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for (map, prefix) in [("labels", "metadata.labels['"), ("annotations", "metadata.annotations['")] {
        if let Some(key) = path.strip_prefix(prefix).and_then(|rest| rest.strip_suffix("']")) {
            return Ok(text(&pod["metadata"][map][key]));
        }
    }
    Ok(match path {
        "metadata.name" => text(&pod["metadata"]["name"]),
        "metadata.namespace" => text(&pod["metadata"]["namespace"]),
        "metadata.uid" => text(&pod["metadata"]["uid"]),
        "spec.nodeName" => text(&pod["spec"]["nodeName"]),
        "spec.serviceAccountName" => text(&pod["spec"]["serviceAccountName"]),
        "status.hostIP" | "status.hostIPs" => addresses.host.to_owned(),
        "status.podIP" | "status.podIPs" => addresses.pod.to_owned(),
        other => return Err(EnvironmentError::Field(other.to_owned())),
    })
}

/// Base64 to text; what is not text is shown as far as it can be.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut bits = 0u32;
    let mut count = 0u32;
    for c in text.bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = (bits << 6 | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap_or_default());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{decode, expand};

    #[test]
    fn references_are_expanded() {
        let value = |name: &str| (name == "A").then(|| "1".to_owned());
        for (text, expanded) in [("x$(A)y", "x1y"), ("$$(A) $(B) $A $", "$(A) $(B) $A $"), ("$(A", "$(A"), ("", "")] {
            assert_eq!(expand(text, value), expanded, "{text}");
        }
    }

    #[test]
    fn secrets_are_decoded() {
        assert_eq!(decode("c2VjcmV0"), "secret");
        assert_eq!(decode("YQ=="), "a");
        assert_eq!(decode("YWI="), "ab");
    }
}
