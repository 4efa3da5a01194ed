//! What names must look like (`k8s.io/apimachinery/pkg/util/validation`), in the API server's words.

use super::status::Cause;
use super::{Resource, resource};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with \
an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// What is wrong with a DNS label (63 bytes at most).
#[must_use]
pub fn label_faults(text: &str) -> Vec<String> {
    faults(text, 63, is_label(text), LABEL)
}

/// What is wrong with a DNS subdomain (253 bytes at most).
#[must_use]
pub fn subdomain_faults(text: &str) -> Vec<String> {
    faults(text, 253, text.split('.').all(is_label), SUBDOMAIN)
}

fn faults(text: &str, most: usize, well_formed: bool, rule: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > most {
        faults.push(format!("must be no more than {most} characters"));
    }
    if !well_formed {
        faults.push(rule.to_owned());
    }
    faults
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => inner(*first) && inner(*last) && bytes.iter().all(|byte| inner(*byte) || *byte == b'-'),
        _ => false,
    }
}

/// What is wrong with the name of an object; `metadata.name` must not be empty here.
#[must_use]
pub fn object_name_causes(resource: &Resource, name: &str) -> Vec<Cause> {
    let faults = if resource == &resource::NAMESPACES { label_faults(name) } else { subdomain_faults(name) };
    let quoted = serde_json::Value::from(name);
    faults.into_iter().map(|fault| Cause::new("FieldValueInvalid", "metadata.name", format!("Invalid value: {quoted}: {fault}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::{label_faults, subdomain_faults};

    #[test]
    fn names() {
        for good in ["a", "a-b", "0", "a.b-c.d"] {
            assert!(subdomain_faults(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "ä"] {
            assert_eq!(subdomain_faults(bad).len(), 1, "{bad}");
        }
        assert_eq!(subdomain_faults(&"a".repeat(254)), ["must be no more than 253 characters"]);
        assert_eq!(label_faults("a.b").len(), 1);
        assert_eq!(label_faults(&"A".repeat(64)).len(), 2);
    }
}
