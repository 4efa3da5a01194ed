//! `fieldSelector`: the few fields that each kind can be selected by (`pkg/apis/*/v1/conversion.go`).

use serde_json::Value;

use super::super::resource::{EVENTS, NAMESPACES, NODES, PODS, RESOURCESLICES, SECRETS};
use super::Resource;

/// `field=value` or `field!=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pointers: &'static [&'static str],
    value: String,
    equal: bool,
}

impl Term {
    pub(super) fn matches(&self, object: &Value) -> bool {
        let mut found = self.pointers.iter().filter_map(|pointer| object.pointer(pointer)).map(shown).filter(|text| !text.is_empty());
        (found.next().unwrap_or_default() == self.value) == self.equal
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A selectable field: its name and where it is in the object (the first that is set).
type Field = (&'static str, &'static [&'static str]);

const POD: &[Field] = &[
    ("spec.nodeName", &["/spec/nodeName"]),
    ("spec.restartPolicy", &["/spec/restartPolicy"]),
    ("spec.schedulerName", &["/spec/schedulerName"]),
    ("spec.serviceAccountName", &["/spec/serviceAccountName"]),
    ("spec.hostNetwork", &["/spec/hostNetwork"]),
    ("status.phase", &["/status/phase"]),
    ("status.podIP", &["/status/podIP"]),
    ("status.podIPs", &["/status/podIPs/0/ip"]),
    ("status.nominatedNodeName", &["/status/nominatedNodeName"]),
    ("spec.host", &["/spec/nodeName"]),
];
const EVENT: &[Field] = &[
    ("involvedObject.kind", &["/involvedObject/kind"]),
    ("involvedObject.namespace", &["/involvedObject/namespace"]),
    ("involvedObject.name", &["/involvedObject/name"]),
    ("involvedObject.uid", &["/involvedObject/uid"]),
    ("involvedObject.apiVersion", &["/involvedObject/apiVersion"]),
    ("involvedObject.resourceVersion", &["/involvedObject/resourceVersion"]),
    ("involvedObject.fieldPath", &["/involvedObject/fieldPath"]),
    ("reason", &["/reason"]),
    ("reportingComponent", &["/reportingComponent"]),
    ("source", &["/source/component", "/reportingComponent"]),
    ("type", &["/type"]),
];
const NODE: &[Field] = &[("spec.unschedulable", &["/spec/unschedulable"])];
const NAMESPACE: &[Field] = &[("status.phase", &["/status/phase"])];
const SECRET: &[Field] = &[("type", &["/type"])];
const SLICE: &[Field] =
    &[("spec.nodeName", &["/spec/nodeName"]), ("spec.driver", &["/spec/driver"]), ("spec.pool.name", &["/spec/pool/name"])];
const NONE: &[Field] = &[];

/// Reads a selector; empty selects everything.
pub(super) fn parse(resource: &'static Resource, text: &str) -> Result<Vec<Term>, String> {
    split(text).into_iter().filter(|term| !term.is_empty()).map(|term| parse_term(resource, text, &term)).collect()
}

fn parse_term(resource: &'static Resource, text: &str, term: &str) -> Result<Term, String> {
    let (field, operator, value) = operators(term).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
    let mut value = unescape(value)?;
    let pointers = pointers(resource, field)?;
    // Absent booleans are false; the selector's two spellings of it are one.
    if matches!(field, "spec.unschedulable" | "spec.hostNetwork") && value == "false" {
        value.clear();
    }
    Ok(Term { pointers, value, equal: operator != "!=" })
}

fn pointers(resource: &'static Resource, field: &str) -> Result<&'static [&'static str], String> {
    match field {
        "metadata.name" => return Ok(&["/metadata/name"]),
        "metadata.namespace" if resource.namespaced => return Ok(&["/metadata/namespace"]),
        _ => {}
    }
    let fields = if resource == &PODS {
        POD
    } else if resource == &EVENTS {
        EVENT
    } else if resource == &NODES {
        NODE
    } else if resource == &NAMESPACES {
        NAMESPACE
    } else if resource == &SECRETS {
        SECRET
    } else if resource == &RESOURCESLICES {
        SLICE
    } else {
        NONE
    };
    match fields.iter().find(|(name, _)| *name == field) {
        Some((_, pointers)) => Ok(pointers),
        None if fields.is_empty() => {
            Err(format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""))
        }
        None if resource == &RESOURCESLICES => {
            Err(format!("field label not supported for {}, Kind={}: {field}", resource.api_version(), resource.kind))
        }
        None => Err(format!("field label not supported: {field}")),
    }
}

/// Splits at commas that no backslash precedes.
fn split(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(term) = terms.last_mut() {
            term.push(c);
        }
    }
    terms
}

fn operators(term: &str) -> Option<(&str, &'static str, &str)> {
    for (at, _) in term.char_indices() {
        for operator in ["!=", "==", "="] {
            if let Some(value) = term[at..].strip_prefix(operator) {
                return Some((&term[..at], operator, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => text.push(c),
                _ => return Err(format!("invalid field selector: invalid escape sequence in value: {value}")),
            },
            '=' => return Err(format!("invalid field selector: unescaped character in value: {value}")),
            c => text.push(c),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::super::resource::{EVENTS, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES};
    use super::parse;
    use serde_json::json;

    #[test]
    fn what_is_selected() {
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "w"}, "status": {"phase": "Running"}});
        for (selector, selected) in [
            ("", true),
            ("metadata.name=p", true),
            ("metadata.name!=p", false),
            ("spec.nodeName==w,status.phase!=Failed,status.phase!=Succeeded", true),
            ("spec.nodeName=", false),
            ("spec.schedulerName=", true),
            ("spec.hostNetwork=false", true),
        ] {
            assert_eq!(parse(&PODS, selector).unwrap().iter().all(|term| term.matches(&pod)), selected, "{selector}");
        }
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"name": "a,b"}, "source": {"component": "kubelet"}});
        for (selector, selected) in
            [("involvedObject.name=a\\,b", true), ("involvedObject.namespace=", true), ("source=kubelet", true), ("source=x", false)]
        {
            assert_eq!(parse(&EVENTS, selector).unwrap().iter().all(|term| term.matches(&event)), selected, "{selector}");
        }
        let node = json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true}});
        assert!(parse(&NODES, "spec.unschedulable=true").unwrap().iter().all(|term| term.matches(&node)));
    }

    #[test]
    fn complaints() {
        for (resource, selector, complaint) in [
            (&RESOURCECLAIMS, "spec.x=y", "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
            (&PODS, "spec.x=y", "field label not supported: spec.x"),
            (&RESOURCESLICES, "spec.x=y", "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x"),
            (&PODS, "x", "invalid selector: 'x'; can't understand 'x'"),
        ] {
            assert_eq!(parse(resource, selector), Err(complaint.to_owned()));
        }
    }
}
