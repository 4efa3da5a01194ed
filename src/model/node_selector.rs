//! Node selectors: parsing, with the messages of Kubernetes, and matching (upstream `nodeaffinity`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

/// A selector that does not parse. `Display` lists what is wrong as Kubernetes does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", aggregate(.messages))]
pub struct NodeSelectorError {
    /// One message per fault, each with its field path, in the order of the selector.
    pub messages: Vec<String>,
}

fn aggregate(messages: &[String]) -> String {
    match messages {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// A parsed selector: terms are alternatives, the requirements of a term must all hold.
#[derive(Clone, Debug, Default)]
pub struct ParsedNodeSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, Default)]
struct Term {
    labels: Vec<(String, Test)>,
    fields: Vec<(String, Test)>,
}

#[derive(Clone, Debug)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
            Self::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| v != value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Self::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl ParsedNodeSelector {
    /// Parses a selector of the API. Terms without any requirement match nothing and are left out. The syntax of label
    /// keys and values is API validation's business and not looked at here.
    ///
    /// # Errors
    /// An operator is not known or not allowed for fields, or the number or form of values does not fit the operator.
    pub fn parse(selector: &NodeSelector) -> Result<Self, NodeSelectorError> {
        let mut messages = Vec::new();
        let mut terms = Vec::new();
        for (index, term) in selector.node_selector_terms.iter().enumerate() {
            let (expressions, fields) = requirements(term);
            if expressions.is_empty() && fields.is_empty() {
                continue;
            }
            let path = format!("nodeSelectorTerms[{index}]");
            let mut parsed = Term::default();
            for (number, requirement) in expressions.iter().enumerate() {
                match label_test(requirement, &format!("{path}.matchExpressions[{number}]")) {
                    Ok(test) => parsed.labels.push((requirement.key.clone(), test)),
                    Err(message) => messages.push(message),
                }
            }
            for (number, requirement) in fields.iter().enumerate() {
                match field_test(requirement, &format!("{path}.matchFields[{number}]")) {
                    Ok(test) => parsed.fields.push((requirement.key.clone(), test)),
                    Err(message) => messages.push(message),
                }
            }
            terms.push(parsed);
        }
        if messages.is_empty() { Ok(Self { terms }) } else { Err(NodeSelectorError { messages }) }
    }

    /// Whether the selector selects the node.
    #[must_use]
    pub fn matches(&self, node: &Node) -> bool {
        let none = BTreeMap::new();
        self.matches_labels(node.metadata.name.as_deref().unwrap_or_default(), node.metadata.labels.as_ref().unwrap_or(&none))
    }

    /// Whether the selector selects a node of that name and those labels.
    #[must_use]
    pub fn matches_labels(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.terms.iter().any(|term| {
            term.labels.iter().all(|(key, test)| test.holds(labels.get(key).map(String::as_str)))
                && term.fields.iter().all(|(key, test)| test.holds(Some(if key == "metadata.name" { name } else { "" })))
        })
    }
}

/// The requirements of a term: expressions on labels, and on fields.
#[must_use]
pub fn requirements(term: &NodeSelectorTerm) -> (&[NodeSelectorRequirement], &[NodeSelectorRequirement]) {
    (term.match_expressions.as_deref().unwrap_or_default(), term.match_fields.as_deref().unwrap_or_default())
}

fn label_test(requirement: &NodeSelectorRequirement, path: &str) -> Result<Test, String> {
    let values = requirement.values.clone().unwrap_or_default();
    let wrong = |why: &str| {
        let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        Err(format!("{path}.values: Invalid value: [{}]: {why}", quoted.join(",")))
    };
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => wrong("for 'in', 'notin' operators, values set can't be empty"),
        "In" => Ok(Test::In(values)),
        "NotIn" => Ok(Test::NotIn(values)),
        "Exists" | "DoesNotExist" if !values.is_empty() => wrong("values set must be empty for exists and does not exist"),
        "Exists" => Ok(Test::Exists),
        "DoesNotExist" => Ok(Test::DoesNotExist),
        operator @ ("Gt" | "Lt") => {
            let [value] = values.as_slice() else {
                return wrong("for 'Gt', 'Lt' operators, exactly one value is required");
            };
            match value.parse() {
                Ok(bound) if operator == "Gt" => Ok(Test::GreaterThan(bound)),
                Ok(bound) => Ok(Test::LessThan(bound)),
                Err(_) => {
                    Err(format!("{path}.values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"))
                }
            }
        }
        operator => Err(format!(
            "{path}.operator: Unsupported value: {operator:?}: supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\""
        )),
    }
}

fn field_test(requirement: &NodeSelectorRequirement, path: &str) -> Result<Test, String> {
    let values = requirement.values.clone().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.len() != 1 => {
            let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            Err(format!("{path}.values: Invalid value: [{}]: must have one element", quoted.join(",")))
        }
        "In" => Ok(Test::In(values)),
        "NotIn" => Ok(Test::NotIn(values)),
        operator => Err(format!("{path}.operator: Unsupported value: {operator:?}: supported values: \"In\", \"NotIn\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
        NodeSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|&v| v.to_owned()).collect()),
        }
    }

    fn selector(terms: Vec<(Vec<NodeSelectorRequirement>, Vec<NodeSelectorRequirement>)>) -> NodeSelector {
        NodeSelector {
            node_selector_terms: terms
                .into_iter()
                .map(|(labels, fields)| NodeSelectorTerm { match_expressions: Some(labels), match_fields: Some(fields) })
                .collect(),
        }
    }

    fn matches(terms: Vec<(Vec<NodeSelectorRequirement>, Vec<NodeSelectorRequirement>)>) -> bool {
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned()), ("gpus".to_owned(), "8".to_owned())]);
        ParsedNodeSelector::parse(&selector(terms)).unwrap().matches_labels("n1", &labels)
    }

    #[test]
    fn operators() {
        for (key, operator, values, expected) in [
            ("zone", "In", &["a", "b"][..], true),
            ("zone", "In", &["b"], false),
            ("rack", "In", &["a"], false),
            ("zone", "NotIn", &["a"], false),
            ("rack", "NotIn", &["a"], true),
            ("zone", "Exists", &[], true),
            ("rack", "Exists", &[], false),
            ("rack", "DoesNotExist", &[], true),
            ("gpus", "Gt", &["7"], true),
            ("gpus", "Gt", &["8"], false),
            ("gpus", "Lt", &["9"], true),
            ("zone", "Lt", &["9"], false),
        ] {
            assert_eq!(matches(vec![(vec![requirement(key, operator, values)], vec![])]), expected, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn terms_are_alternatives_and_requirements_all_hold() {
        let yes = || requirement("zone", "In", &["a"]);
        let no = || requirement("zone", "In", &["b"]);
        let here = || requirement("metadata.name", "In", &["n1"]);
        let elsewhere = || requirement("metadata.name", "NotIn", &["n1"]);
        assert!(matches(vec![(vec![no()], vec![]), (vec![yes()], vec![])]));
        assert!(!matches(vec![(vec![yes(), no()], vec![])]));
        assert!(matches(vec![(vec![yes()], vec![here()])]));
        assert!(!matches(vec![(vec![yes()], vec![elsewhere()])]));
        assert!(!matches(vec![(vec![], vec![])]), "an empty term matches nothing");
        assert!(!matches(vec![]));
    }

    #[test]
    fn faults_are_worded_as_kubernetes_does() {
        for (labels, fields, expected) in [
            (
                vec![requirement("a", "Near", &["b"])],
                vec![],
                "nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: \"Near\": supported values: \"In\", \"NotIn\", \
                 \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\"",
            ),
            (
                vec![requirement("a", "Gt", &["x"])],
                vec![],
                "nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            (
                vec![],
                vec![requirement("metadata.name", "Exists", &[])],
                "nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: \"Exists\": supported values: \"In\", \"NotIn\"",
            ),
        ] {
            assert_eq!(ParsedNodeSelector::parse(&selector(vec![(labels, fields)])).unwrap_err().to_string(), expected);
        }
        let two = selector(vec![(vec![requirement("a", "In", &[]), requirement("b", "Exists", &["x"])], vec![])]);
        assert_eq!(
            ParsedNodeSelector::parse(&two).unwrap_err().to_string(),
            "[nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty, \
             nodeSelectorTerms[0].matchExpressions[1].values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist]"
        );
    }
}
