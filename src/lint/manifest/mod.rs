//! Manifests: claims, templates, classes, slices, pods and what makes pods, judged before anything is applied.

mod claims;
mod fields;
mod finding;
mod gates;
mod pods;
mod slices;
mod subject;
mod tree;

use k8s_openapi::api::resource::v1::ResourceSlice;
use serde_json::Value;

pub use self::finding::{ManifestFinding, Rule};
pub use self::tree::Place;

use self::subject::{Subject, World};
use super::convert::to_v1;
use super::fleet::Fleet;
use super::selector::Severity;
use crate::model::features::Features;

/// A file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name for messages.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// What manifests are judged for.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The minor version of Kubernetes.
    pub minor: u32,
    /// The gates that are on.
    pub features: Features,
}

/// What is known of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The published devices.
    pub fleet: Fleet,
    /// DeviceClasses.
    pub classes: Vec<Value>,
    /// Namespaces.
    pub namespaces: Vec<Value>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// How many objects were looked at.
    pub objects: usize,
    /// The findings, by file, line and severity.
    pub findings: Vec<ManifestFinding>,
}

impl Judgement {
    /// How many findings have this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// Judges the objects of all files together. Nothing in them can make this fail.
#[must_use]
pub fn lint(sources: &[Source], target: Target, cluster: Option<&Cluster>) -> Judgement {
    let mut findings = Vec::new();
    let mut subjects = Vec::new();
    for source in sources {
        match tree::read(&source.text) {
            Ok(documents) => {
                subjects.extend(documents.into_iter().map(|document| Subject::new(&source.name, document)));
            }
            Err(error) => {
                findings.push(subject::unreadable(&source.name, &error));
            }
        }
    }
    let own = own_fleet(&subjects);
    let world = World::new(&subjects, target, cluster, &own);
    for subject in &subjects {
        if subject.kind().is_empty() || subject.api_version().is_empty() {
            let missing = if subject.kind().is_empty() { "kind" } else { "apiVersion" };
            findings.push(subject.finding(Rule::NotAnObject, "", |finding| {
                finding.with("field", missing);
            }));
            continue;
        }
        fields::check(subject, &world, &mut findings);
        gates::check(subject, &world, &mut findings);
        claims::check(subject, &world, &mut findings);
        slices::check(subject, &world, &mut findings);
        pods::check(subject, &world, &mut findings);
    }
    slices::check_pools(&subjects, &mut findings);
    let order = |finding: &ManifestFinding| sources.iter().position(|source| source.name == finding.file);
    findings.sort_by_key(|finding| (order(finding), finding.place, finding.severity));
    findings.dedup();
    Judgement { objects: subjects.len(), findings }
}

/// The devices of the slices among the objects.
fn own_fleet(subjects: &[Subject]) -> Fleet {
    let slices: Vec<ResourceSlice> = subjects
        .iter()
        .filter(|subject| subject.kind() == "ResourceSlice")
        .filter_map(|subject| to_v1(&subject.document.object))
        .filter_map(|slice| serde_json::from_value(slice).ok())
        .collect();
    Fleet::new(&slices)
}
