//! How Go prints refused values: quoted strings, JSON of structs in field order.
//!
//! `go_types.txt` has the API server's internal types, one a line: `TYPE FIELD=JSON:KIND …`, where KIND is `string`,
//! `int`, `bool`, `json` (prints itself) or a type, after `*` (pointer), `[` (list) and `%` (map). `^` is an embedded
//! struct; `!` marks types that print under their JSON names, and fields that the versioned type has also when empty.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::Value;

static TYPES: LazyLock<HashMap<&'static str, Type>> = LazyLock::new(|| {
    include_str!("go_types.txt")
        .lines()
        .filter_map(|line| {
            let (name, fields) = line.split_once(' ')?;
            let fields = fields
                .split(' ')
                .filter_map(|field| {
                    let (go, rest) = field.split_once('=')?;
                    let (json, kind) = rest.split_once(':')?;
                    Some(Field { go, json: json.trim_end_matches('!'), kind, always: json.ends_with('!') })
                })
                .collect();
            Some((name.trim_start_matches('!'), Type { tagged: name.starts_with('!'), fields }))
        })
        .collect()
});

struct Type {
    tagged: bool,
    fields: Vec<Field>,
}

struct Field {
    go: &'static str,
    json: &'static str,
    kind: &'static str,
    /// Printed in the versioned form also when it is empty.
    always: bool,
}

/// Which of Go's two forms of an object is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The internal type: Go's field names, every field.
    Internal,
    /// The versioned type: JSON names, empty fields left out.
    Versioned,
}

/// A value of the named type as `json.Marshal` prints it.
pub(crate) fn print(kind: &str, value: &Value, form: Form) -> String {
    let mut out = String::new();
    Printer { form, indent: None }.value(kind, value, &mut out);
    out
}

/// A value of the named internal type as `json.MarshalIndent` with an indent of one space prints it.
pub(crate) fn print_indented(kind: &str, value: &Value) -> String {
    let mut out = String::new();
    Printer { form: Form::Internal, indent: Some(0) }.value(kind, value, &mut out);
    out
}

/// Any JSON value as `json.Marshal` prints it.
pub(crate) fn compact(value: &Value) -> String {
    let mut out = String::new();
    Printer { form: Form::Versioned, indent: None }.any(value, &mut out);
    out
}

struct Printer {
    form: Form,
    /// Depth of the enclosing brackets, `None` for one line.
    indent: Option<usize>,
}

impl Printer {
    fn deeper(&self) -> Printer {
        Printer { form: self.form, indent: self.indent.map(|depth| depth + 1) }
    }

    fn open_line(&self, out: &mut String) {
        if let Some(depth) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', depth));
        }
    }

    fn colon(&self, out: &mut String) {
        out.push_str(if self.indent.is_some() { ": " } else { ":" });
    }

    fn value(&self, kind: &str, value: &Value, out: &mut String) {
        if let Some(inner) = kind.strip_prefix('*') {
            if value.is_null() {
                out.push_str("null");
            } else {
                self.value(inner, value, out);
            }
        } else if let Some(inner) = kind.strip_prefix('[') {
            match value.as_array() {
                Some(items) => self.list(items, out, |printer, item, out| printer.value(inner, item, out)),
                None => out.push_str("null"),
            }
        } else if let Some(inner) = kind.strip_prefix('%') {
            match value.as_object() {
                Some(map) => self.entries(map.iter().map(|(key, item)| (key.as_str(), item, inner)).collect(), out),
                None => out.push_str("null"),
            }
        } else {
            match (kind, value) {
                ("string", Value::Null) => out.push_str("\"\""),
                ("int", Value::Null) => out.push('0'),
                ("bool", Value::Null) => out.push_str("false"),
                ("string" | "int" | "bool" | "json", value) => self.any(value, out),
                (kind, value) => match TYPES.get(kind) {
                    Some(described) => {
                        let mut fields = Vec::new();
                        self.fields(described, value, &mut fields);
                        self.entries(fields, out);
                    }
                    None => self.any(value, out),
                },
            }
        }
    }

    fn fields<'a>(&self, described: &'static Type, value: &'a Value, into: &mut Vec<(&'static str, &'a Value, &'static str)>) {
        for field in &described.fields {
            if field.go == "^" {
                let inner = if field.json.is_empty() { value } else { value.get(field.json).unwrap_or(&Value::Null) };
                if let Some(embedded) = TYPES.get(field.kind) {
                    self.fields(embedded, inner, into);
                }
                continue;
            }
            let found = value.get(field.json).unwrap_or(&Value::Null);
            let by_json = described.tagged || self.form == Form::Versioned;
            if !by_json {
                into.push((field.go, found, field.kind));
            } else if !found.is_null() || field.always {
                into.push((field.json, found, field.kind));
            }
        }
    }

    fn entries(&self, entries: Vec<(&str, &Value, &str)>, out: &mut String) {
        if entries.is_empty() {
            out.push_str("{}");
            return;
        }
        out.push('{');
        let inner = self.deeper();
        for (number, (name, value, kind)) in entries.into_iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            inner.open_line(out);
            json_string(name, out);
            self.colon(out);
            inner.value(kind, value, out);
        }
        self.open_line(out);
        out.push('}');
    }

    fn list(&self, items: &[Value], out: &mut String, print: impl Fn(&Printer, &Value, &mut String)) {
        if items.is_empty() {
            out.push_str("[]");
            return;
        }
        out.push('[');
        let inner = self.deeper();
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            inner.open_line(out);
            print(&inner, item, out);
        }
        self.open_line(out);
        out.push(']');
    }

    fn any(&self, value: &Value, out: &mut String) {
        match value {
            Value::String(text) => json_string(text, out),
            Value::Array(items) => self.list(items, out, Printer::any),
            Value::Object(map) => self.entries(map.iter().map(|(key, item)| (key.as_str(), item, "json")).collect(), out),
            other => out.push_str(&other.to_string()),
        }
    }
}

/// A string as `encoding/json` prints it, with its escapes for HTML.
fn json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A string as `strconv.Quote` (`%q`) prints it.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if c.is_control() || matches!(c, '\u{a0}' | '\u{ad}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{feff}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::{Form, TYPES, compact, print, print_indented, quote};
    use serde_json::json;

    #[test]
    fn every_type_that_is_named_is_described() {
        for (name, described) in TYPES.iter() {
            for field in &described.fields {
                let kind = field.kind.trim_start_matches(['*', '[', '%']);
                let known = matches!(kind, "string" | "int" | "bool" | "json") || TYPES.contains_key(kind);
                assert!(known, "{name}.{} is of unknown type {kind}", field.go);
            }
        }
    }

    #[test]
    fn values_print_as_go_prints_them() {
        assert_eq!(quote("a\"b\\c\n\u{1}é"), r#""a\"b\\c\n\x01é""#);
        assert_eq!(compact(&json!({"b": ["<&>", null], "a": 1})), r#"{"a":1,"b":["\u003c\u0026\u003e",null]}"#);
        let claim = json!({"name": "gpu", "resourceClaimName": "good"});
        assert_eq!(
            print("PodResourceClaim", &claim, Form::Internal),
            r#"{"Name":"gpu","ResourceClaimName":"good","ResourceClaimTemplateName":null}"#
        );
        let request = json!({"name": "a", "exactly": {"count": 1, "deviceClassName": "c"}});
        assert_eq!(print("DeviceRequest", &request, Form::Versioned), r#"{"name":"a","exactly":{"deviceClassName":"c","count":1}}"#);
        assert_eq!(print_indented("[PodResourceClaim", &json!([])), "[]");
    }
}
