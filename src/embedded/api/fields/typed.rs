//! Objects under their schema: which paths they have, how two differ, how they merge, what stays when paths are
//! removed (sigs.k8s.io/structured-merge-diff, `typed`).

use serde_json::{Map, Value};

use super::super::schema::{Keys, Node, Schema, lists};
use super::set::{FieldSet, Step};

/// A schema and where in it one is.
#[derive(Clone, Copy)]
pub(super) struct Typed<'a> {
    pub(super) schema: &'a Schema,
    pub(super) node: &'a Node,
}

/// What differs between two objects.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    pub(super) fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Without the paths in `ignored` and below them.
    pub(super) fn exclude(self, ignored: &FieldSet) -> Self {
        Comparison {
            added: self.added.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            removed: self.removed.recursive_difference(ignored),
        }
    }
}

impl<'a> Typed<'a> {
    fn at(self, node: &'a Node) -> Self {
        Typed { node, ..self }
    }

    fn child(self, name: &str) -> Self {
        self.at(self.node.child(self.schema, name).unwrap_or(&Node::Any))
    }

    fn items(self) -> Self {
        match self.node {
            Node::List { items, .. } => self.at(items),
            _ => self.at(&Node::Any),
        }
    }

    fn is_struct_field(self, name: &str) -> bool {
        matches!(self.node, Node::Struct(_)) && self.node.child(self.schema, name).is_some()
    }

    /// The step to an item of this list; `None` where the item has none of the key fields.
    fn item_step(self, item: &Value) -> Option<Step> {
        let Node::List { rule, .. } = self.node else { return None };
        match rule.keys {
            Keys::Atomic => None,
            Keys::Set => (!item.is_object() && !item.is_array()).then(|| Step::Value(item.to_string())),
            Keys::Map(names) => {
                let mut keys = Map::new();
                for name in names {
                    let default = || lists::KEY_DEFAULTS.iter().find(|(key, _)| key == name).map(|(_, value)| Value::from(*value));
                    if let Some(value) = item.get(*name).filter(|value| !value.is_null()).cloned().or_else(default) {
                        keys.insert((*name).to_owned(), value);
                    }
                }
                (!keys.is_empty()).then(|| Step::Key(Value::Object(keys).to_string()))
            }
        }
    }

    /// The steps to all items; `None` where they are not unique, so that the list has to be taken as a whole.
    fn steps(self, items: &[Value]) -> Option<Vec<Step>> {
        let mut steps: Vec<Step> = Vec::with_capacity(items.len());
        for item in items {
            let step = self.item_step(item)?;
            if steps.contains(&step) {
                return None;
            }
            steps.push(step);
        }
        Some(steps)
    }

    /// All paths of an applied configuration.
    pub(super) fn paths(self, value: &Value) -> FieldSet {
        let mut set = FieldSet::default();
        self.collect(value, &mut set);
        set
    }

    /// Adds what is below `value`; true when the value itself is one owned thing.
    fn collect(self, value: &Value, set: &mut FieldSet) -> bool {
        if self.node.is_atomic(self.schema) {
            return true;
        }
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let step = Step::Field(key.clone());
                    let mut below = FieldSet::default();
                    let whole = self.child(key).collect(value, &mut below);
                    let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                    if whole || empty || !self.is_struct_field(key) {
                        set.add_member(step.clone());
                    }
                    set.add_child(step, below);
                }
                false
            }
            Value::Array(items) => {
                let Some(steps) = self.steps(items) else { return true };
                for (item, step) in items.iter().zip(steps) {
                    let mut below = FieldSet::default();
                    self.items().collect(item, &mut below);
                    set.add_member(step.clone());
                    set.add_child(step, below);
                }
                false
            }
            Value::Null => false,
            _ => true,
        }
    }

    /// What is different in `new`.
    pub(super) fn compare(self, old: &Value, new: &Value) -> Comparison {
        let mut comparison = Comparison::default();
        self.walk(Some(old), Some(new), &mut Vec::new(), &mut comparison);
        comparison
    }

    fn walk(self, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<Step>, out: &mut Comparison) {
        if old == new {
            return;
        }
        let leaf = !self.descend(old, new, path, out);
        match (old, new) {
            (None, Some(_)) => out.added.insert(path),
            (Some(_), None) => out.removed.insert(path),
            _ if leaf => out.modified.insert(path),
            _ => {}
        }
    }

    /// Walks into a map or list; false where the values are to be compared as wholes.
    fn descend(self, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<Step>, out: &mut Comparison) -> bool {
        if self.node.is_atomic(self.schema) {
            return false;
        }
        let is_map = matches!(self.node, Node::Struct(_) | Node::Map { .. });
        let fits = |value: Option<&Value>| value.is_none_or(|v| v.is_null() || if is_map { v.is_object() } else { v.is_array() });
        if !fits(old) || !fits(new) {
            return false;
        }
        if is_map {
            let empty = Map::new();
            let old = old.and_then(Value::as_object).unwrap_or(&empty);
            let new = new.and_then(Value::as_object).unwrap_or(&empty);
            if old.is_empty() && new.is_empty() {
                return false;
            }
            for key in old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))) {
                path.push(Step::Field(key.clone()));
                self.child(key).walk(old.get(key), new.get(key), path, out);
                path.pop();
            }
            return true;
        }
        let old = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let new = new.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let (Some(old_steps), Some(new_steps)) = (self.steps(old), self.steps(new)) else { return false };
        if old.is_empty() && new.is_empty() {
            return false;
        }
        let find =
            |steps: &[Step], items: &'_ [Value], step: &Step| steps.iter().position(|s| s == step).and_then(|at| items.get(at).cloned());
        for step in old_steps.iter().chain(new_steps.iter().filter(|step| !old_steps.contains(step))) {
            path.push(step.clone());
            let (old, new) = (find(&old_steps, old, step), find(&new_steps, new, step));
            self.items().walk(old.as_ref(), new.as_ref(), path, out);
            path.pop();
        }
        true
    }

    /// `live` with `applied` merged into it.
    pub(super) fn merge(self, live: &Value, applied: &Value) -> Value {
        if self.node.is_atomic(self.schema) {
            return applied.clone();
        }
        match (live, applied) {
            (Value::Object(live), Value::Object(applied)) => {
                let mut out = live.clone();
                for (key, value) in applied {
                    let merged = live.get(key).map_or_else(|| value.clone(), |old| self.child(key).merge(old, value));
                    out.insert(key.clone(), merged);
                }
                Value::Object(out)
            }
            (Value::Array(live), Value::Array(applied)) => match (self.steps(live), self.steps(applied)) {
                (Some(live_steps), Some(applied_steps)) => Value::Array(self.merge_items((live, &live_steps), (applied, &applied_steps))),
                _ => Value::Array(applied.clone()),
            },
            _ => applied.clone(),
        }
    }

    /// Items of both lists: the applied ones in their order, the others where they stood among them.
    fn merge_items(self, live: (&[Value], &[Step]), applied: (&[Value], &[Step])) -> Vec<Value> {
        let (live, live_steps) = live;
        let (applied, applied_steps) = applied;
        let take = |at: usize| -> Option<Value> {
            let value = applied.get(at)?;
            let old = live_steps.iter().position(|step| Some(step) == applied_steps.get(at)).and_then(|at| live.get(at));
            Some(old.map_or_else(|| value.clone(), |old| self.items().merge(old, value)))
        };
        let mut shared = applied_steps.iter().filter(|step| live_steps.contains(step));
        let mut next_shared = shared.next();
        let mut done: Vec<&Step> = Vec::new();
        let mut out = Vec::new();
        let (mut l, mut r) = (0, 0);
        while l < live.len() || r < applied.len() {
            if let (Some(left), Some(right)) = (live_steps.get(l), applied_steps.get(r)) {
                if left == right {
                    done.push(right);
                    out.extend(take(r));
                    (l, r) = (l + 1, r + 1);
                    next_shared = shared.next();
                    continue;
                }
                if applied_steps.contains(left) && next_shared.is_some_and(|next| next != left) {
                    l += 1;
                    continue;
                }
            }
            if let Some(left) = live_steps.get(l) {
                if !applied_steps.contains(left) {
                    out.extend(live.get(l).cloned());
                    l += 1;
                    continue;
                }
                if done.contains(&left) {
                    l += 1;
                }
            }
            if let Some(right) = applied_steps.get(r) {
                done.push(right);
                out.extend(take(r));
                r += 1;
                if next_shared == Some(right) {
                    next_shared = shared.next();
                }
            }
        }
        out
    }

    /// `value` without the members of `gone`; `None` when nothing is left of a list or map.
    pub(super) fn remove(self, value: &Value, gone: &FieldSet) -> Option<Value> {
        if self.node.is_atomic(self.schema) {
            return Some(value.clone());
        }
        match value {
            Value::Object(map) => {
                let kept = map.iter().filter_map(|(key, value)| {
                    let step = Step::Field(key.clone());
                    if gone.has_step(&step) {
                        return None;
                    }
                    match gone.below(&step) {
                        Some(below) => self.child(key).remove(value, below).map(|value| (key.clone(), value)),
                        None => Some((key.clone(), value.clone())),
                    }
                });
                let kept: Map<String, Value> = kept.collect();
                (!kept.is_empty() || map.is_empty()).then_some(Value::Object(kept))
            }
            Value::Array(items) => {
                let kept = items.iter().filter_map(|item| {
                    let Some(step) = self.item_step(item) else { return Some(item.clone()) };
                    if gone.has_step(&step) {
                        return None;
                    }
                    match gone.below(&step) {
                        Some(below) => self.items().remove(item, below),
                        None => Some(item.clone()),
                    }
                });
                let kept: Vec<Value> = kept.collect();
                (!kept.is_empty() || items.is_empty()).then_some(Value::Array(kept))
            }
            other => Some(other.clone()),
        }
    }

    /// The set with every struct field that has children as a member too.
    pub(super) fn with_named_fields(self, set: &FieldSet) -> FieldSet {
        let mut out = set.members_only();
        for (step, child) in set.children() {
            let below = match step {
                Step::Field(name) => {
                    if self.is_struct_field(name) {
                        out.add_member(step.clone());
                    }
                    self.child(name)
                }
                _ => self.items(),
            };
            out.add_child(step.clone(), below.with_named_fields(child));
        }
        out
    }
}
