//! Names that are filled into manifests, commands and prose: `{{ns}}`, `{{work}}`, `{{kubectl}}`, `{{lab}}`.

use std::collections::BTreeMap;

/// The values of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    values: BTreeMap<&'static str, String>,
}

impl Names {
    /// `namespace` is the lesson's, `work` the learner's folder, `kubectl` the command that lists objects on this machine.
    #[must_use]
    pub fn new(namespace: &str, work: &str, kubectl: &str, lab: &str) -> Self {
        let values = [("ns", namespace), ("work", work), ("kubectl", kubectl), ("lab", lab), ("worker", &format!("{lab}-worker"))];
        Names { values: values.into_iter().map(|(k, v)| (k, v.to_owned())).collect() }
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
        let known = ["ns", "work", "kubectl", "lab", "worker"];
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
    use super::Names;

    #[test]
    fn names_are_filled_in() {
        let names = Names::new("dra-tutorial", "/w", "kubectl", "dra-lab");
        assert_eq!(names.fill("{{kubectl}} get pods -n {{ns}} {{other}}"), "kubectl get pods -n dra-tutorial {{other}}");
        assert_eq!(Names::unknown("{{ns}} {{other}}"), ["other"]);
    }
}
