//! Takes out what opens doors: by the names of fields, by what texts look like, and by what is not needed at all.

use std::path::Path;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

const GONE: &str = "REDACTED";

/// Names of fields, flags and variables whose values are secret.
const SECRET: &str = r"(?i)(token|passw(or)?d|passphrase|secret|credential|api[-_]?key|private[-_]?key|client-key|certificate|ca-?bundle|authorization|cookie)";

/// Takes secrets out of values and texts.
#[derive(Debug)]
pub(super) struct Redactor {
    home: Option<String>,
    secret_name: Option<Regex>,
    patterns: Vec<Regex>,
}

impl Redactor {
    pub(super) fn new(home: Option<&Path>) -> Self {
        let assigned = format!(r#"{SECRET}([\w.-]*["']?\s*[=:]\s*["']?)([^\s"',;}}]+)"#);
        let patterns = [
            r"(?s)-----BEGIN [A-Z ]+-----.*?(-----END [A-Z ]+-----|\z)",
            r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
            r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]+",
            r"://[^/\s@]+@",
            r"\bAKIA[A-Z0-9]{16}\b",
            &assigned,
        ];
        Redactor {
            home: home.map(|h| h.display().to_string()).filter(|h| h.len() > 1),
            secret_name: Regex::new(SECRET).ok(),
            patterns: patterns.iter().filter_map(|p| Regex::new(p).ok()).collect(),
        }
    }

    fn is_secret(&self, name: &str) -> bool {
        self.secret_name.as_ref().is_none_or(|pattern| pattern.is_match(name))
    }

    /// A text without secrets, and without the home folder.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for pattern in &self.patterns {
            let replaced = pattern.replace_all(&text, |found: &Captures<'_>| {
                let whole = found.get(0).map_or("", |m| m.as_str());
                if whole.starts_with("://") {
                    format!("://{GONE}@")
                } else if let (Some(name), Some(between), Some(_)) = (found.get(1), found.get(3), found.get(4)) {
                    format!("{}{}{GONE}", name.as_str(), between.as_str())
                } else {
                    GONE.to_owned()
                }
            });
            text = replaced.into_owned();
        }
        match &self.home {
            Some(home) => text.replace(home.as_str(), "~"),
            None => text,
        }
    }

    /// A value without secrets.
    pub(super) fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(list) => Value::Array(self.words(list)),
            Value::Object(map) => Value::Object(self.map(map)),
            other => other,
        }
    }

    /// A list; a word after a flag such as `--password` is its value.
    fn words(&self, list: Vec<Value>) -> Vec<Value> {
        let mut after_flag = false;
        let mut kept = Vec::with_capacity(list.len());
        for value in list {
            let is_flag = value.as_str().is_some_and(|t| t.starts_with('-') && !t.contains('=') && self.is_secret(t));
            kept.push(if after_flag && value.is_string() { Value::from(GONE) } else { self.value(value) });
            after_flag = is_flag;
        }
        kept
    }

    fn map(&self, map: Map<String, Value>) -> Map<String, Value> {
        let is_variable = map.contains_key("name") && map.contains_key("value") && map.len() == 2;
        let own =
            map.get("name").and_then(Value::as_str).is_some_and(|n| ["DRA_", "DRALAB_", "GPU_DEVICE_"].iter().any(|p| n.starts_with(p)));
        map.into_iter()
            .map(|(key, value)| {
                let value = match (key.as_str(), value) {
                    ("annotations", Value::Object(annotations)) => {
                        let known = |name: &str| ["resource.kubernetes.io/", "dralab.dev/"].iter().any(|p| name.starts_with(p));
                        Value::Object(self.map(annotations.into_iter().filter(|(name, _)| known(name)).collect()))
                    }
                    ("value", Value::String(_)) if is_variable && !own => Value::from(GONE),
                    (name, Value::String(_)) if self.is_secret(name) => Value::from(GONE),
                    ("data" | "stringData", Value::Object(_)) => Value::from(GONE),
                    (_, value) => self.value(value),
                };
                (key, value)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::Redactor;

    #[test]
    fn texts_lose_secrets_and_keep_the_rest() {
        let redactor = Redactor::new(Some(Path::new("/home/grace")));
        for (text, expected) in [
            ("token=abc next", "token=REDACTED next"),
            ("Password: x", "Password: REDACTED"),
            ("cannot open /home/grace/.kube/config", "cannot open ~/.kube/config"),
            ("https://u:p@host:1/x", "https://REDACTED@host:1/x"),
            ("DRA driver gpu.example.com is not registered", "DRA driver gpu.example.com is not registered"),
            ("x -----BEGIN CERTIFICATE-----\nabc", "x REDACTED"),
        ] {
            assert_eq!(redactor.text(text), expected);
        }
    }

    #[test]
    fn values_of_variables_and_secret_fields_go() {
        let redactor = Redactor::new(None);
        let value = json!({"env": [{"name": "A", "value": "b"}, {"name": "DRA_X", "value": "c"}], "clientCertificateData": "x", "args": ["--token", "y", "z"]});
        let expected = json!({"env": [{"name": "A", "value": "REDACTED"}, {"name": "DRA_X", "value": "c"}], "clientCertificateData": "REDACTED", "args": ["--token", "REDACTED", "z"]});
        assert_eq!(redactor.value(value), expected);
    }
}
