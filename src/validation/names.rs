//! The syntax of names, with the API server's wording (apimachinery `util/validation` and `api/validate/content`).
//! Each function returns one message per broken rule.

/// How the two validation packages of apimachinery word a length.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// `util/validation`.
    Characters,
    /// `api/validate/content`.
    Bytes,
}

impl Unit {
    fn longest(self, max: usize) -> String {
        match self {
            Unit::Characters => format!("must be no more than {max} characters"),
            Unit::Bytes => format!("must be no more than {max} bytes"),
        }
    }
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_WORDS: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn shape(words: &str, examples: &[&str], pattern: &str) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn is_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(inner) && bytes.last().copied().is_some_and(inner) && bytes.iter().all(|&c| inner(c) || c == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|&c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

/// A DNS label: names of requests, devices, containers, namespaces.
pub(crate) fn label(text: &str) -> Vec<String> {
    label_in(text, Unit::Characters)
}

/// As [`label`], in the wording of declarative validation.
pub(crate) fn short_name(text: &str) -> Vec<String> {
    label_in(text, Unit::Bytes)
}

fn label_in(text: &str, unit: Unit) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 63 {
        messages.push(unit.longest(63));
    }
    if !is_label(text) {
        messages.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            shape(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                &["my-name", "123-abc"],
                LABEL,
            )
        });
    }
    messages
}

/// A DNS subdomain: names of most objects, classes, drivers.
pub(crate) fn subdomain(text: &str) -> Vec<String> {
    subdomain_in(text, Unit::Characters)
}

/// As [`subdomain`], in the wording of declarative validation.
pub(crate) fn long_name(text: &str) -> Vec<String> {
    subdomain_in(text, Unit::Bytes)
}

fn subdomain_in(text: &str, unit: Unit) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 253 {
        messages.push(unit.longest(253));
    }
    if !is_subdomain(text) {
        messages.push(shape(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            &["example.com"],
            SUBDOMAIN,
        ));
    }
    messages
}

/// As [`long_name`] without regard to case (driver names in declarative validation).
pub(crate) fn long_name_caseless(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 253 {
        messages.push(Unit::Bytes.longest(253));
    }
    if !is_subdomain(&text.to_ascii_lowercase()) {
        messages.push(shape(
            "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            &["Example.com"],
            SUBDOMAIN,
        ));
    }
    messages
}

/// A label key: an optional DNS prefix and a name.
pub(crate) fn qualified(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                messages.push("prefix part must be non-empty".to_owned());
            } else {
                messages.extend(long_name(prefix).into_iter().map(|message| format!("prefix part {message}")));
            }
            *name
        }
        _ => {
            let words = shape(QUALIFIED_WORDS, &["MyName", "my.name", "123-abc"], QUALIFIED);
            return vec![format!("a valid label key {words} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")];
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        messages.push(format!("name part {}", Unit::Bytes.longest(63)));
    }
    if !is_qualified_part(name) {
        messages.push(format!("name part {}", shape(QUALIFIED_WORDS, &["MyName", "my.name", "123-abc"], QUALIFIED)));
    }
    messages
}

/// A label value.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 63 {
        messages.push(Unit::Bytes.longest(63));
    }
    if !text.is_empty() && !is_qualified_part(text) {
        messages.push(shape(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &["MyValue", "my_value", "12345"],
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
        ));
    }
    messages
}

/// A C identifier: ids of attributes and capacities.
pub(crate) fn c_identifier(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let good = bytes.first().is_some_and(|&c| c.is_ascii_alphabetic() || c == b'_')
        && bytes.iter().all(|&c| c.is_ascii_alphanumeric() || c == b'_');
    if good {
        return Vec::new();
    }
    vec![shape(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        &["my_name", "MY_NAME", "MyName"],
        "[A-Za-z_][A-Za-z0-9_]*",
    )]
}

/// A data key of ConfigMaps and Secrets.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 253 {
        messages.push(Unit::Characters.longest(253));
    }
    if text.is_empty() || !text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.')) {
        messages.push(shape(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            &["key.name", "KEY_NAME", "key-name"],
            "[-._a-zA-Z0-9]+",
        ));
    }
    match text {
        "." => messages.push("must not be '.'".to_owned()),
        ".." => messages.push("must not be '..'".to_owned()),
        text if text.starts_with("..") => messages.push("must not start with '..'".to_owned()),
        _ => {}
    }
    messages
}

/// A name that can be a part of a URL path.
pub(crate) fn path_segment(text: &str, prefix: bool) -> Vec<String> {
    let mut messages = Vec::new();
    if !prefix && matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    for c in ['/', '%'] {
        if text.contains(c) {
            messages.push(format!("may not contain '{c}'"));
        }
    }
    messages
}

/// What a prefix for generated names is checked as: a trailing dash is fine, since more follows.
pub(crate) fn without_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-').and_then(|rest| rest.get(..rest.len().checked_sub(1)?)) {
        Some(rest) => format!("{rest}a"),
        None => prefix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{c_identifier, config_key, label, label_value, qualified, subdomain, without_trailing_dash};

    #[test]
    fn good_names_pass() {
        for name in ["a", "gpu-0", "0"] {
            assert!(label(name).is_empty(), "{name}");
        }
        for name in ["gpu.example.com", "a.b-c.d"] {
            assert!(subdomain(name).is_empty(), "{name}");
        }
        for name in ["example.com/Gpu_1", "x.y", "A"] {
            assert!(qualified(name).is_empty(), "{name}");
        }
        assert!(label_value("").is_empty() && c_identifier("_a1").is_empty() && config_key("ca.crt").is_empty());
        assert_eq!((without_trailing_dash("gpu-"), without_trailing_dash("-")), ("gpa".to_owned(), "-".to_owned()));
    }

    #[test]
    fn a_dot_in_a_label_is_named() {
        assert_eq!(label("a.b"), ["must not contain dots"]);
        assert_eq!(label(&"a".repeat(64)), ["must be no more than 63 characters"]);
    }

    #[test]
    fn an_empty_label_key_breaks_two_rules() {
        let messages = qualified("");
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0], "name part must be non-empty");
        assert!(qualified("a/b/c")[0].starts_with("a valid label key must consist"), "{:?}", qualified("a/b/c"));
        assert!(qualified("/x")[0] == "prefix part must be non-empty");
    }
}
