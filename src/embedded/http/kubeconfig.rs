//! The lab's own kubeconfig.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// The text of a kubeconfig with one cluster, user and context, all called `name`; `namespace` is the context's
/// (empty: none). `authority_pem` is the certificate authority's certificate.
///
/// Scalars are written as JSON strings, which YAML reads as they are.
#[must_use]
pub fn kubeconfig(name: &str, server: &str, authority_pem: &str, token: &str, namespace: &str) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let (name, server, token) = (quoted(name), quoted(server), quoted(token));
    let authority = BASE64_STANDARD.encode(authority_pem);
    let namespace = if namespace.is_empty() { String::new() } else { format!("    namespace: {}\n", quoted(namespace)) };
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: {name}\n  cluster:\n    server: {server}\n    \
         certificate-authority-data: {authority}\nusers:\n- name: {name}\n  user:\n    token: {token}\ncontexts:\n- name: {name}\n  \
         context:\n    cluster: {name}\n    user: {name}\n{namespace}current-context: {name}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::kubeconfig;

    #[test]
    fn kube_reads_it() {
        let text = kubeconfig("dra-lab", "https://127.0.0.1:6443", "-----BEGIN CERTIFICATE-----\n", "t:o#k", "dra-tutorial");
        let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        assert_eq!(config.current_context.as_deref(), Some("dra-lab"));
        assert_eq!(config.clusters[0].cluster.as_ref().unwrap().server.as_deref(), Some("https://127.0.0.1:6443"));
        assert_eq!(config.contexts[0].context.as_ref().unwrap().namespace.as_deref(), Some("dra-tutorial"));
        assert!(kubeconfig("a", "b", "c", "d", "").ends_with("    user: \"a\"\ncurrent-context: \"a\"\n"));
    }
}
