//! Sets of field paths and their JSON form, FieldsV1 (sigs.k8s.io/structured-merge-diff, `fieldpath`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// A field of a struct, or a key of a map.
    Field(String),
    /// A list item by its key fields, as compact JSON with sorted keys.
    Key(String),
    /// An item of a set, as JSON.
    Value(String),
    /// An item by position.
    Index(i64),
}

impl Step {
    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        Some(match kind {
            "f" => Step::Field(rest.to_owned()),
            "k" => Step::Key(serde_json::from_str::<Map<String, Value>>(rest).ok().map(|keys| Value::Object(keys).to_string())?),
            "v" => Step::Value(serde_json::from_str::<Value>(rest).ok()?.to_string()),
            "i" => Step::Index(rest.parse().ok()?),
            _ => return None,
        })
    }

    fn encode(&self) -> String {
        match self {
            Step::Field(name) => format!("f:{name}"),
            Step::Key(keys) => format!("k:{keys}"),
            Step::Value(value) => format!("v:{value}"),
            Step::Index(index) => format!("i:{index}"),
        }
    }

    /// As messages show it: `.name`, `[name="a"]`, `[="v"]`, `[3]`.
    fn show(&self) -> String {
        match self {
            Step::Field(name) => format!(".{name}"),
            Step::Key(keys) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("[{}]", pairs.join(","))
            }
            Step::Value(value) => format!("[={value}]"),
            Step::Index(index) => format!("[{index}]"),
        }
    }
}

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    members: BTreeSet<Step>,
    children: BTreeMap<Step, FieldSet>,
}

impl FieldSet {
    /// A set from FieldsV1; `None` when it is not that.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let mut set = FieldSet::default();
        for (key, below) in value.as_object()? {
            if key == "." {
                continue;
            }
            let step = Step::parse(key)?;
            let fields = below.as_object()?;
            if fields.is_empty() || fields.contains_key(".") {
                set.members.insert(step.clone());
            }
            let child = FieldSet::from_json(below)?;
            if !child.is_empty() {
                set.children.insert(step, child);
            }
        }
        Some(set)
    }

    /// The set as FieldsV1.
    pub(super) fn to_json(&self) -> Value {
        let mut out: Map<String, Value> = self.members.iter().map(|step| (step.encode(), Value::Object(Map::new()))).collect();
        for (step, child) in &self.children {
            let mut below = child.to_json();
            if let (true, Value::Object(fields)) = (self.members.contains(step), &mut below) {
                fields.insert(".".to_owned(), Value::Object(Map::new()));
            }
            out.insert(step.encode(), below);
        }
        Value::Object(out)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(FieldSet::is_empty)
    }

    /// Adds a path; the empty path is not one.
    pub(super) fn insert(&mut self, path: &[Step]) {
        match path {
            [] => {}
            [step] => drop(self.members.insert(step.clone())),
            [step, rest @ ..] => self.children.entry(step.clone()).or_default().insert(rest),
        }
    }

    /// Whether the step is a member.
    pub(super) fn has_step(&self, step: &Step) -> bool {
        self.members.contains(step)
    }

    /// What the set has below a step.
    pub(super) fn below(&self, step: &Step) -> Option<&FieldSet> {
        self.children.get(step).filter(|child| !child.is_empty())
    }

    pub(super) fn children(&self) -> impl Iterator<Item = (&Step, &FieldSet)> {
        self.children.iter()
    }

    pub(super) fn add_member(&mut self, step: Step) {
        self.members.insert(step);
    }

    pub(super) fn add_child(&mut self, step: Step, child: FieldSet) {
        if !child.is_empty() {
            self.children.insert(step, child);
        }
    }

    /// The members alone.
    pub(super) fn members_only(&self) -> FieldSet {
        FieldSet { members: self.members.clone(), children: BTreeMap::new() }
    }

    pub(super) fn union(&self, other: &FieldSet) -> FieldSet {
        let mut out = self.clone();
        out.members.extend(other.members.iter().cloned());
        for (step, child) in &other.children {
            let merged = out.children.get(step).map_or_else(|| child.clone(), |mine| mine.union(child));
            out.children.insert(step.clone(), merged);
        }
        out
    }

    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        let members = self.members.intersection(&other.members).cloned().collect();
        let children = self.children.iter().filter_map(|(step, child)| {
            let common = child.intersection(other.children.get(step)?);
            (!common.is_empty()).then(|| (step.clone(), common))
        });
        FieldSet { members, children: children.collect() }
    }

    /// The paths that are not in `other`.
    pub(super) fn difference(&self, other: &FieldSet) -> FieldSet {
        self.without(other, false)
    }

    /// The paths that are neither in `other` nor below one of its members.
    pub(super) fn recursive_difference(&self, other: &FieldSet) -> FieldSet {
        self.without(other, true)
    }

    fn without(&self, other: &FieldSet, recursive: bool) -> FieldSet {
        let members = self.members.difference(&other.members).cloned().collect();
        let children = self.children.iter().filter(|(step, _)| !(recursive && other.members.contains(step))).filter_map(|(step, child)| {
            let rest = other.children.get(step).map_or_else(|| child.clone(), |gone| child.without(gone, recursive));
            (!rest.is_empty()).then(|| (step.clone(), rest))
        });
        FieldSet { members, children: children.collect() }
    }

    /// All paths as messages show them.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut out: Vec<String> = self.members.iter().map(Step::show).collect();
        for (step, child) in &self.children {
            let prefix = step.show();
            out.extend(child.paths().into_iter().map(|path| format!("{prefix}{path}")));
        }
        out
    }
}

/// A path of fields only, such as `["metadata", "name"]`.
pub(super) fn fields(names: &[&str]) -> Vec<Step> {
    names.iter().map(|name| Step::Field((*name).to_owned())).collect()
}
