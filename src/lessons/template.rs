//! Names that are filled into manifests, commands and prose: `{{ns}}`, `{{work}}`, `{{kubectl}}`, `{{lab}}`, `{{worker}}`, `{{control}}`.

use std::collections::BTreeMap;

/// Where lessons play: the lab, the nodes that they speak of, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The lab's name.
    pub lab: String,
    /// A node with devices.
    pub worker: String,
    /// A node without, or at least another one.
    pub control_plane: String,
    /// The learner, on a cluster that several share.
    pub learner: Option<String>,
}

impl Place {
    /// A lab on a cluster of its own, whose nodes are named after it.
    #[must_use]
    pub fn of_lab(lab: &str) -> Self {
        Place { lab: lab.to_owned(), worker: format!("{lab}-worker"), control_plane: format!("{lab}-control-plane"), learner: None }
    }

    /// The namespace of a lesson here: each learner has their own.
    #[must_use]
    pub fn namespace(&self, of_lesson: &str) -> String {
        self.learner.as_ref().map_or_else(|| of_lesson.to_owned(), |learner| format!("{of_lesson}-{learner}"))
    }
}

/// The values of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    values: BTreeMap<&'static str, String>,
}

impl Names {
    /// `namespace` is the lesson's, `work` the learner's folder, `kubectl` the command that lists objects on this machine.
    #[must_use]
    pub fn new(place: &Place, namespace: &str, work: &str, kubectl: &str) -> Self {
        let values = [
            ("ns", place.namespace(namespace).as_str()),
            ("work", work),
            ("kubectl", kubectl),
            ("lab", &place.lab),
            ("worker", &place.worker),
            ("control", &place.control_plane),
        ]
        .map(|(name, value)| (name, value.to_owned()));
        Names { values: values.into() }
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.values.get("ns").map_or("", String::as_str)
    }

    /// Fills the names in. What is not a name stays as it is.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.values {
            filled = filled.replace(&format!("{{{{{name}}}}}"), value);
        }
        filled
    }

    /// Names in a text that nothing fills.
    #[must_use]
    pub fn unknown(text: &str) -> Vec<String> {
        let known = ["ns", "work", "kubectl", "lab", "worker", "control"];
        text.split("{{")
            .skip(1)
            .filter_map(|rest| rest.split_once("}}"))
            .map(|(name, _)| name.to_owned())
            .filter(|n| !known.contains(&n.as_str()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, Place};

    #[test]
    fn names_are_filled_in() {
        let names = Names::new(&Place::of_lab("dra-lab"), "dra-tutorial", "/w", "kubectl");
        assert_eq!(names.fill("{{kubectl}} get pods -n {{ns}} {{other}}"), "kubectl get pods -n dra-tutorial {{other}}");
        assert_eq!(Names::unknown("{{ns}} {{other}}"), ["other"]);
    }

    #[test]
    fn learners_have_namespaces_of_their_own() {
        let ann = Place { learner: Some("ann".to_owned()), ..Place::of_lab("dra-lab") };
        assert_eq!(
            Names::new(&ann, "dra-tutorial", "/w", "kubectl").fill("{{ns}} {{worker}} {{control}}"),
            "dra-tutorial-ann dra-lab-worker dra-lab-control-plane"
        );
        assert_eq!(Place::of_lab("dra-lab").namespace("dra-tutorial"), "dra-tutorial");
    }
}
