//! One object of the files, and what is known around it.

use serde_json::Value;

use super::finding::{ManifestFinding, Rule};
use super::tree::{Document, Unreadable};
use super::{Cluster, Target};
use crate::cel::{Environment, Purpose};
use crate::lint::convert::to_v1;
use crate::lint::fleet::Fleet;
use crate::lint::selector::Severity;
use crate::model::features::Feature;

/// An object of a file.
pub(super) struct Subject {
    pub(super) file: String,
    pub(super) document: Document,
    /// In the shape of `resource.k8s.io/v1`, where it is of that group; else as it is.
    pub(super) object: Value,
}

impl Subject {
    pub(super) fn new(file: &str, document: Document) -> Self {
        let object = to_v1(&document.object).unwrap_or_else(|| document.object.clone());
        Subject { file: file.to_owned(), document, object }
    }

    pub(super) fn kind(&self) -> &str {
        self.document.object.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn api_version(&self) -> &str {
        self.document.object.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it is of DRA's group.
    pub(super) fn is_dra(&self) -> bool {
        self.api_version().starts_with("resource.k8s.io/")
    }

    pub(super) fn name(&self) -> &str {
        text_at(&self.object, "/metadata/name")
    }

    /// Its namespace, `default` where it says none.
    pub(super) fn namespace(&self) -> &str {
        match text_at(&self.object, "/metadata/namespace") {
            "" => "default",
            namespace => namespace,
        }
    }

    /// `ResourceClaim default/some-gpu`.
    pub(super) fn title(&self) -> String {
        let namespace = text_at(&self.object, "/metadata/namespace");
        let name = if self.name().is_empty() { text_at(&self.object, "/metadata/generateName") } else { self.name() };
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{} {namespace}{slash}{name}", self.kind()).trim_end().to_owned()
    }

    /// A finding at a field.
    pub(super) fn finding(&self, rule: Rule, path: &str, fill: impl FnOnce(&mut ManifestFinding)) -> ManifestFinding {
        let mut finding = ManifestFinding {
            rule,
            severity: rule.severity(),
            file: self.file.clone(),
            document: self.document.number,
            object: self.title(),
            path: path.to_owned(),
            place: Some(self.document.tree.place(path).unwrap_or(self.document.place)),
            values: Vec::new(),
            selector: None,
            converted: None,
        };
        finding.with("path", path);
        fill(&mut finding);
        finding
    }
}

/// A text at a JSON pointer; empty where there is none.
pub(super) fn text_at<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The entries of a list at a JSON pointer.
pub(super) fn list_at<'o>(object: &'o Value, pointer: &str) -> &'o [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A file that is no YAML.
pub(super) fn unreadable(file: &str, error: &Unreadable) -> ManifestFinding {
    let mut finding = ManifestFinding {
        rule: Rule::Unreadable,
        severity: Severity::Error,
        file: file.to_owned(),
        document: 0,
        object: String::new(),
        path: String::new(),
        place: error.place,
        values: Vec::new(),
        selector: None,
        converted: None,
    };
    finding.with("reason", &error.reason);
    finding
}

/// Everything else that is known.
pub(super) struct World<'w> {
    pub(super) subjects: &'w [Subject],
    pub(super) target: Target,
    pub(super) cluster: Option<&'w Cluster>,
    /// The cluster's devices, else those of the files.
    pub(super) fleet: &'w Fleet,
}

impl<'w> World<'w> {
    pub(super) fn new(subjects: &'w [Subject], target: Target, cluster: Option<&'w Cluster>, own: &'w Fleet) -> Self {
        let fleet = cluster.map(|cluster| &cluster.fleet).filter(|fleet| !fleet.devices.is_empty()).unwrap_or(own);
        World { subjects, target, cluster, fleet }
    }

    /// How the version compiles new selectors.
    pub(super) fn environment(&self) -> Environment {
        Environment {
            purpose: Purpose::New,
            consumable_capacity: self.target.features.has(Feature::ConsumableCapacity),
            list_type_attributes: self.target.features.has(Feature::ListTypeAttributes),
        }
    }

    /// The objects of a kind in the files.
    pub(super) fn of_kind(&self, kind: &'w str) -> impl Iterator<Item = &'w Subject> {
        self.subjects.iter().filter(move |subject| subject.kind() == kind)
    }

    /// The classes of the files and the cluster.
    pub(super) fn classes(&self) -> Vec<&'w Value> {
        let own = self.of_kind("DeviceClass").map(|subject| &subject.object);
        own.chain(self.cluster.iter().flat_map(|cluster| &cluster.classes)).collect()
    }

    /// A namespace of the files or the cluster.
    pub(super) fn namespace(&self, name: &str) -> Option<&'w Value> {
        let own = self.of_kind("Namespace").map(|subject| &subject.object);
        own.chain(self.cluster.iter().flat_map(|cluster| &cluster.namespaces))
            .find(|namespace| text_at(namespace, "/metadata/name") == name)
    }
}
