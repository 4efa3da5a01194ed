//! Server-side apply: merge, removal of fields that were given up, conflicts.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::schema::{Node, Schema};
use super::super::{Resource, Status, Subresource, schema};
use super::managers::{self, Entry, Operation};
use super::set::FieldSet;
use super::typed::Typed;
use super::{blank, compare, disown, refuse, store, subresource_name};

/// Where `kubectl apply` without `--server-side` keeps what was applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager whose applies keep that annotation right.
const KUBECTL: &str = "kubectl";
/// The manager of what was there before anybody's fields were tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Annotations may not be longer than this in all.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

/// Merges an applied configuration into the live object (`None`: there is none yet) by field ownership.
///
/// The result has its managedFields updated for the apply. Admission runs on it afterwards.
///
/// # Errors
/// 409 with a cause per conflict, 400 for a malformed configuration.
pub fn server_side_apply(
    resource: &'static Resource,
    subresource: Subresource,
    manager: &str,
    live: Option<&Value>,
    applied: &Value,
    force: bool,
    now: Timestamp,
) -> Result<Value, Status> {
    if applied["metadata"]["managedFields"].as_array().is_some_and(|list| !list.is_empty()) {
        return Err(refuse(400, "BadRequest", "metadata.managedFields must be nil"));
    }
    let apply = Apply { resource, subresource, manager, applied, now };
    let Some(live) = live else {
        let mut object = applied.clone();
        store(vec![apply.entry(Some(managers::seconds(now)))], &mut object);
        return Ok(object);
    };
    let annotation = &live["metadata"]["annotations"][LAST_APPLIED];
    let mut object = match apply.merge(live, force) {
        Err(conflicts) if manager == KUBECTL && annotation.is_string() => {
            let rest = conflicts.without(&apply.last_applied(annotation));
            if rest.0.is_empty() { apply.merge(live, true) } else { Err(rest) }
        }
        other => other,
    }
    .map_err(Conflicts::status)?;
    if manager == KUBECTL && annotation.is_string() {
        keep_last_applied(&mut object, applied);
    }
    Ok(object)
}

struct Apply<'a> {
    resource: &'static Resource,
    subresource: Subresource,
    manager: &'a str,
    applied: &'a Value,
    now: Timestamp,
}

/// Fields that others own, with how messages name the owner.
struct Conflicts(Vec<(String, FieldSet)>);

impl Apply<'_> {
    fn entry(&self, time: Option<String>) -> Entry {
        let table = schema::table();
        let node = table.kind(self.resource);
        let set = Typed { schema: table, node: &node }.paths(self.applied);
        Entry {
            manager: self.manager.to_owned(),
            operation: Operation::Apply,
            api_version: self.resource.api_version(),
            subresource: subresource_name(self.subresource).to_owned(),
            time,
            set: set.difference(&blank::unowned()).recursive_difference(&blank::ignored(self.resource, self.subresource)),
        }
    }

    /// An object without managedFields: what is in it belongs to whoever made it before.
    fn before_first(&self, live: &Value) -> Option<Entry> {
        let comparison = compare(self.resource, self.subresource, &blank::blank(self.resource), live);
        let set = comparison.added.union(&comparison.modified).difference(&blank::unowned());
        (!set.is_empty()).then(|| Entry {
            manager: BEFORE_FIRST_APPLY.to_owned(),
            operation: Operation::Update,
            api_version: self.resource.api_version(),
            subresource: subresource_name(self.subresource).to_owned(),
            time: Some(managers::seconds(self.now)),
            set,
        })
    }

    /// The fields of the configuration that the annotation holds.
    fn last_applied(&self, annotation: &Value) -> FieldSet {
        let table = schema::table();
        let node = table.kind(self.resource);
        let config = annotation.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()).unwrap_or_default();
        Typed { schema: table, node: &node }.paths(&config)
    }

    fn merge(&self, live: &Value, force: bool) -> Result<Value, Conflicts> {
        let table = schema::table();
        let node = table.kind(self.resource);
        let typed = Typed { schema: table, node: &node };
        let mut entries = managers::decode(&live["metadata"]["managedFields"]).unwrap_or_default();
        if entries.is_empty() {
            entries.extend(self.before_first(live));
        }
        let mut own = self.entry(None);
        let last = match entries.iter().position(|entry| entry.is(&own)) {
            Some(at) => {
                let last = entries.remove(at);
                own.time.clone_from(&last.time);
                Some(last.set)
            }
            None => None,
        };
        entries.push(own);
        let mine = entries.len() - 1;
        let mut merged = typed.merge(live, self.applied);
        if let Some(last) = last.filter(|last| !last.is_empty()) {
            // Name and the like are nobody's in managedFields, but the configuration has them: metadata must not go
            // with the last label that is given up.
            let applied = typed.paths(self.applied);
            merged = prune(typed, &merged, &entries, &applied, &last);
        }
        drop_nulls(table, &node, &mut merged);
        let comparison = compare(self.resource, self.subresource, live, &merged);
        let changed = comparison.modified.union(&comparison.added);
        let conflicts: Vec<(String, FieldSet)> = entries
            .iter()
            .take(mine)
            .map(|entry| (entry.show(), entry.set.intersection(&changed)))
            .filter(|(_, set)| !set.is_empty())
            .collect();
        if !force && !conflicts.is_empty() {
            return Err(Conflicts(conflicts));
        }
        let same = comparison.is_same();
        disown(&mut entries, &comparison, Some(mine));
        let mut object = if same { live.clone() } else { merged };
        if let (false, Some(own)) = (same, entries.get_mut(mine)) {
            own.time = Some(managers::seconds(self.now));
        }
        store(entries, &mut object);
        Ok(object)
    }
}

/// Removes what the manager owned before, does not apply any more, and nobody else owns.
fn prune(typed: Typed<'_>, merged: &Value, entries: &[Entry], applied: &FieldSet, last: &FieldSet) -> Value {
    let empty = || Value::Object(serde_json::Map::new());
    let last = typed.with_named_fields(last);
    let pruned = typed.remove(merged, &last).unwrap_or_else(empty);
    let owned = entries.iter().fold(applied.clone(), |all, entry| all.union(&entry.set));
    let all = typed.with_named_fields(&typed.paths(merged));
    let kept = typed.with_named_fields(&typed.paths(&pruned)).union(&typed.with_named_fields(&owned));
    // Back comes what others own or the manager still applies …
    let pruned = typed.remove(merged, &all.difference(&kept)).unwrap_or_else(empty);
    // … and what the manager did not own before.
    let kept = typed.with_named_fields(&typed.paths(&pruned));
    typed.remove(merged, &all.difference(&kept).intersection(&last)).unwrap_or_else(empty)
}

/// Fields of structs that removal left empty are not written.
fn drop_nulls(schema: &Schema, node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            if matches!(node, Node::Struct(_)) {
                map.retain(|_, value| !value.is_null());
            }
            for (key, value) in map.iter_mut() {
                if let Some(child) = node.child(schema, key) {
                    drop_nulls(schema, child, value);
                }
            }
        }
        Value::Array(items) => {
            if let Node::List { items: child, .. } = node {
                items.iter_mut().for_each(|item| drop_nulls(schema, child, item));
            }
        }
        _ => {}
    }
}

/// The annotation of client-side apply follows what kubectl applies from the server's side.
fn keep_last_applied(object: &mut Value, applied: &Value) {
    let mut config = applied.clone();
    if let Some(annotations) = config["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    let escaped = config.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let Some(annotations) = object["metadata"].get_mut("annotations").and_then(Value::as_object_mut) else { return };
    if escaped.len() > MOST_ANNOTATION_BYTES {
        annotations.remove(LAST_APPLIED);
    } else {
        annotations.insert(LAST_APPLIED.to_owned(), json!(format!("{escaped}\n")));
    }
}

impl Conflicts {
    fn without(self, set: &FieldSet) -> Self {
        let rest = self.0.into_iter().map(|(manager, fields)| (manager, fields.difference(set)));
        Conflicts(rest.filter(|(_, fields)| !fields.is_empty()).collect())
    }

    fn status(mut self) -> Status {
        self.0.sort_by(|(a, _), (b, _)| a.cmp(b));
        let all: Vec<(&String, String)> =
            self.0.iter().flat_map(|(manager, set)| set.paths().into_iter().map(move |path| (manager, path))).collect();
        let message = match all.as_slice() {
            [(manager, path)] => format!("Apply failed with 1 conflict: conflict with {manager}: {path}"),
            _ => {
                let mut lines = Vec::new();
                for (manager, set) in &self.0 {
                    lines.push(format!("conflicts with {manager}:"));
                    lines.extend(set.paths().into_iter().map(|path| format!("- {path}")));
                }
                format!("Apply failed with {} conflicts: {}", all.len(), lines.join("\n"))
            }
        };
        let causes: Vec<Value> = all
            .iter()
            .map(|(manager, path)| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": path}))
            .collect();
        let mut status = refuse(409, "Conflict", message);
        status.details = json!({"causes": causes});
        status
    }
}

/// Checks an applied configuration against the kind's schema, as the server does before it merges.
///
/// # Errors
/// 400 for another kind; 500 (upstream gives it no reason) that names fields which the kind does not have, and values of
/// a wrong type.
pub fn check_applied(resource: &'static Resource, applied: &Value) -> Result<(), Status> {
    let named = |field: &str| applied[field].as_str().unwrap_or_default();
    if named("apiVersion") != resource.api_version() || named("kind") != resource.kind {
        let (group, version) = named("apiVersion").rsplit_once('/').unwrap_or(("", named("apiVersion")));
        return Err(refuse(400, "BadRequest", format!("invalid object type: {group}/{version}, Kind={}", named("kind"))));
    }
    let table = schema::table();
    let mut faults = Vec::new();
    faults_of(table, &table.kind(resource), applied, &mut String::new(), &mut faults);
    if faults.is_empty() {
        return Ok(());
    }
    let why = match faults.as_slice() {
        [fault] => fault.clone(),
        _ => format!("errors:\n{}", faults.iter().map(|fault| format!("  {fault}")).collect::<Vec<_>>().join("\n")),
    };
    let metadata = &applied["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let message = format!(
        "failed to create typed patch object ({}/{}; {}/{}, Kind={}): {why}",
        text(&metadata["namespace"]),
        text(&metadata["name"]),
        resource.group,
        resource.version,
        resource.kind
    );
    Err(refuse(500, "", message))
}

fn faults_of(schema: &Schema, node: &Node, value: &Value, path: &mut String, faults: &mut Vec<String>) {
    let length = path.len();
    let expected = match (node, value) {
        (Node::Any, _) | (_, Value::Null) => return,
        (Node::Struct(_) | Node::Map { .. }, Value::Object(map)) => {
            for (key, value) in map {
                path.push_str(&format!(".{key}"));
                match node.child(schema, key) {
                    Some(child) => faults_of(schema, child, value, path, faults),
                    None => {
                        // Upstream looks no further in this struct.
                        faults.push(format!("{path}: field not declared in schema"));
                        path.truncate(length);
                        return;
                    }
                }
                path.truncate(length);
            }
            return;
        }
        (Node::List { items, rule }, Value::Array(list)) => {
            for (index, item) in list.iter().enumerate() {
                let keys = match rule.keys {
                    schema::Keys::Map(keys) => keys.iter().filter_map(|key| item.get(*key).map(|value| format!("{key}={value}"))).collect(),
                    _ => Vec::new(),
                };
                path.push_str(&if keys.is_empty() { format!("[{index}]") } else { format!("[{}]", keys.join(",")) });
                faults_of(schema, items, item, path, faults);
                path.truncate(length);
            }
            return;
        }
        (Node::Struct(_) | Node::Map { .. }, _) => "map",
        (Node::List { .. }, _) => "list",
        (Node::Text { .. } | Node::Time | Node::MicroTime, Value::String(_))
        | (Node::Integer { .. } | Node::Number, Value::Number(_))
        | (Node::Boolean, Value::Bool(_))
        | (Node::Quantity | Node::IntOrString, Value::String(_) | Value::Number(_)) => return,
        (Node::Text { .. } | Node::Time | Node::MicroTime | Node::Quantity | Node::IntOrString, _) => "string",
        (Node::Integer { .. } | Node::Number, _) => "numeric (int or float)",
        (Node::Boolean, _) => "boolean",
    };
    let found = match value {
        Value::String(_) => "string".to_owned(),
        other => format!("&value.valueUnstructured{{Value:{other}}}"),
    };
    faults.push(format!("{path}: expected {expected}, got {found}"));
}
