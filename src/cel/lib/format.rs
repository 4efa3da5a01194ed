//! Named formats: which strings are DNS labels, label values, dates (apiserver/pkg/cel/library/format.go).

use super::{Native, Url, time};
use crate::cel::value::{Fault, Value};

/// A format by name. `validate` gives what is wrong, one text per fault.
#[derive(Debug)]
pub(crate) struct Format {
    key: &'static str,
    name: &'static str,
    /// Length of the pattern that costs are computed with.
    pub(crate) pattern_size: u64,
    validate: fn(&str) -> Vec<String>,
}

impl Format {
    /// Kubernetes' name of it.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const QUALIFIED: &str = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";

static FORMATS: &[Format] = &[
    Format { key: "dns1123Label", name: "DNS1123Label", pattern_size: 30, validate: |text| label(text) },
    Format { key: "dns1123Subdomain", name: "DNS1123Subdomain", pattern_size: 60, validate: |text| subdomain(text) },
    Format { key: "dns1035Label", name: "DNS1035Label", pattern_size: 30, validate: |text| label_1035(text) },
    Format { key: "qualifiedName", name: "QualifiedName", pattern_size: 60, validate: qualified_name },
    Format { key: "dns1123LabelPrefix", name: "DNS1123LabelPrefix", pattern_size: 30, validate: |text| label(&masked_dash(text)) },
    Format {
        key: "dns1123SubdomainPrefix",
        name: "DNS1123SubdomainPrefix",
        pattern_size: 60,
        validate: |text| subdomain(&masked_dash(text)),
    },
    Format { key: "dns1035LabelPrefix", name: "DNS1035LabelPrefix", pattern_size: 30, validate: |text| label_1035(&masked_dash(text)) },
    Format { key: "labelValue", name: "LabelValue", pattern_size: 40, validate: label_value },
    Format { key: "uri", name: "URI", pattern_size: 1103, validate: |text| Url::parse(text).err().into_iter().collect() },
    Format { key: "uuid", name: "uuid", pattern_size: 70, validate: |text| fault(is_uuid(text), "does not match the UUID format") },
    Format { key: "byte", name: "byte", pattern_size: 84, validate: |text| fault(is_base64(text), "invalid base64") },
    Format { key: "date", name: "date", pattern_size: 71, validate: |text| fault(is_date(text), "invalid date") },
    Format { key: "datetime", name: "datetime", pattern_size: 71, validate: |text| fault(is_datetime(text), "invalid datetime") },
];

/// The format of this key.
pub(crate) fn named(key: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.key == key)
}

fn fault(good: bool, message: &str) -> Vec<String> {
    if good { Vec::new() } else { vec![message.to_owned()] }
}

fn too_long(text: &str, max: usize) -> Vec<String> {
    fault(text.len() <= max, &format!("must be no more than {max} bytes"))
}

/// A trailing dash is fine in a prefix, because more follows.
fn masked_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(stem) if text.len() > 1 => format!("{stem}a"),
        _ => text.to_owned(),
    }
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.iter().all(|b| inner(*b) || *b == b'-') && bytes.first().is_some_and(|b| inner(*b)) && bytes.last().is_some_and(|b| inner(*b))
}

fn label(text: &str) -> Vec<String> {
    let mut faults = too_long(text, 63);
    if !is_label(text) {
        let subdomain = text.split('.').all(is_label);
        faults.push(if subdomain { "must not contain dots".to_owned() } else { LABEL.to_owned() });
    }
    faults
}

fn subdomain(text: &str) -> Vec<String> {
    let mut faults = too_long(text, 253);
    faults.extend(fault(text.split('.').all(is_label), SUBDOMAIN));
    faults
}

fn label_1035(text: &str) -> Vec<String> {
    let mut faults = too_long(text, 63);
    faults.extend(fault(is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()), LABEL_1035));
    faults
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

fn label_value(text: &str) -> Vec<String> {
    let mut faults = too_long(text, 63);
    faults.extend(fault(text.is_empty() || is_name(text), LABEL_VALUE));
    faults
}

fn qualified_name(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(subdomain(prefix).into_iter().map(|message| format!("prefix part {message}")));
            }
            *name
        }
        _ => return vec![QUALIFIED.to_owned()],
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        faults.push("name part must be no more than 63 bytes".to_owned());
    }
    faults.extend(fault(is_name(name), NAME_PART));
    faults
}

/// 32 hexadecimal digits, with or without each of the four dashes.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (group, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        let Some((digits, behind)) = rest.split_at_checked(length) else { return false };
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        rest = if group < 4 { behind.strip_prefix('-').unwrap_or(behind) } else { behind };
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && time::parse_rfc3339(&format!("{text}T00:00:00Z")).is_some()
}

/// A date, `T`, a time with any separator before a fraction, and a zone; zones are not checked for their range.
fn is_datetime(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else { return false };
    let two = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    let (Some(hms), Some(rest)) = (clock.get(..8), clock.get(8..)) else { return false };
    let fields: Vec<&str> = hms.split(':').collect();
    let [hours, minutes, seconds] = fields.as_slice() else { return false };
    let in_range = two(hours) && two(minutes) && two(seconds) && *hours <= "23" && *minutes <= "59" && *seconds <= "59";
    let zone = |text: &str| {
        text == "z"
            || text
                .strip_prefix(['+', '-'])
                .and_then(|text| text.split_once(':'))
                .is_some_and(|(hours, minutes)| two(hours) && two(minutes))
    };
    let fraction = |text: &str| {
        let mut characters = text.chars();
        characters.next().is_some_and(|c| c != '\n') && {
            let digits = characters.as_str();
            let behind = digits.trim_start_matches(|c: char| c.is_ascii_digit());
            behind.len() < digits.len() && zone(behind)
        }
    };
    is_date(date) && in_range && (zone(rest) || fraction(rest))
}

pub(super) fn native(overload: &str) -> Option<Native> {
    macro_rules! constants {
        ($($key:literal),*) => {
            match overload {
                $(concat!("format.", $key) => return Some(|_| named($key).map(Value::Format).ok_or_else(Fault::no_such_overload)),)*
                _ => {}
            }
        };
    }
    constants!(
        "dns1123Label",
        "dns1123Subdomain",
        "dns1035Label",
        "qualifiedName",
        "dns1123LabelPrefix",
        "dns1123SubdomainPrefix",
        "dns1035LabelPrefix",
        "labelValue",
        "uri",
        "uuid",
        "byte",
        "date",
        "datetime"
    );
    Some(match overload {
        "format-named" => |args| match args {
            [Value::String(key)] => Ok(named(key).map_or(Value::Optional(None), |format| Value::some(Value::Format(format)))),
            _ => Err(Fault::no_such_overload()),
        },
        "format-validate" => |args| match args {
            [Value::Format(format), Value::String(text)] => {
                let faults = (format.validate)(text);
                Ok(if faults.is_empty() { Value::Optional(None) } else { Value::some(Value::strings(faults)) })
            }
            _ => Err(Fault::no_such_overload()),
        },
        _ => return None,
    })
}
