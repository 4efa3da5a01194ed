//! The types of the served kinds, read once from k8s-openapi's schemas: fields, their types, how lists merge.
//!
//! Strict decoding, strategic merge patches, field ownership and OpenAPI read this one table. k8s-openapi's schemas
//! leave out the list and patch extensions of upstream's; [`lists`] has them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use k8s_openapi::api::{authentication::v1 as authentication, authorization::v1 as authorization};
use k8s_openapi::api::{core::v1 as core, policy::v1 as policy, resource::v1 as dra};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::resource::Resource;

pub mod lists;

pub use lists::{Keys, ListRule};

/// Index of a [`Type`] in [`Schema::types`].
pub type TypeId = usize;

/// A struct of the API.
#[derive(Debug)]
pub struct Type {
    /// The schema's name, such as `io.k8s.api.core.v1.PodSpec`.
    pub name: String,
    /// Fields by JSON name.
    pub fields: BTreeMap<String, Node>,
    /// Owned and merged as a whole (upstream's `structType=atomic`).
    pub atomic: bool,
}

impl Type {
    /// The name without package, such as `PodSpec`.
    #[must_use]
    pub fn go_name(&self) -> &str {
        short(&self.name)
    }
}

/// The last part of a schema's name.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The type of a value.
#[derive(Clone, Debug)]
pub enum Node {
    /// A struct with known fields.
    Struct(TypeId),
    /// Any keys, one type of values.
    Map {
        /// Type of the values.
        values: Box<Node>,
        /// Owned and merged as a whole.
        atomic: bool,
    },
    /// A list.
    List {
        /// Type of the items.
        items: Box<Node>,
        /// How the list is merged.
        rule: &'static ListRule,
    },
    /// A string; `bytes` are base64.
    Text {
        /// Base64 (`format: byte`).
        bytes: bool,
    },
    /// A whole number of 32 or 64 bits.
    Integer {
        /// 32 or 64.
        bits: u8,
    },
    /// A number.
    Number,
    /// true or false.
    Boolean,
    /// A resource quantity.
    Quantity,
    /// A whole number or a string.
    IntOrString,
    /// RFC 3339 time of whole seconds.
    Time,
    /// RFC 3339 time with microseconds.
    MicroTime,
    /// Anything (`RawExtension`, `FieldsV1`).
    Any,
}

impl Node {
    /// True for values that are owned, compared and merged as a whole: scalars, atomic lists, maps and structs.
    #[must_use]
    pub fn is_atomic(&self, schema: &Schema) -> bool {
        match self {
            Node::Struct(id) => schema.get(*id).is_none_or(|t| t.atomic),
            Node::Map { atomic, .. } => *atomic,
            Node::List { rule, .. } => rule.keys == Keys::Atomic,
            _ => true,
        }
    }

    /// The field `name` of a struct, the value type of a map; `None` for a field that a struct does not have.
    #[must_use]
    pub fn child<'a>(&'a self, schema: &'a Schema, name: &str) -> Option<&'a Node> {
        match self {
            Node::Struct(id) => schema.get(*id)?.fields.get(name),
            Node::Map { values, .. } => Some(values),
            _ => None,
        }
    }

    /// How Go names the type in decoding errors, such as `[]v1.ResourceClaim`.
    #[must_use]
    pub fn go_type(&self, schema: &Schema) -> String {
        match self {
            Node::Struct(id) => schema.get(*id).map_or_else(String::new, |t| format!("v1.{}", t.go_name())),
            Node::Map { values, .. } => format!("map[string]{}", values.go_type(schema)),
            Node::List { items, .. } => format!("[]{}", items.go_type(schema)),
            Node::Text { bytes: true } => "[]uint8".to_owned(),
            Node::Text { bytes: false } | Node::IntOrString => "string".to_owned(),
            Node::Integer { bits } => format!("int{bits}"),
            Node::Number => "float64".to_owned(),
            Node::Boolean => "bool".to_owned(),
            Node::Quantity => "resource.Quantity".to_owned(),
            Node::Time => "v1.Time".to_owned(),
            Node::MicroTime => "v1.MicroTime".to_owned(),
            Node::Any => "interface {}".to_owned(),
        }
    }
}

/// All types of the served kinds.
#[derive(Debug)]
pub struct Schema {
    types: Vec<Type>,
    names: BTreeMap<String, TypeId>,
}

impl Schema {
    /// A type by its index.
    #[must_use]
    pub fn get(&self, id: TypeId) -> Option<&Type> {
        self.types.get(id)
    }

    /// A type by its schema name, such as `io.k8s.api.core.v1.Pod`.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Node> {
        self.names.get(name).map(|id| Node::Struct(*id))
    }

    /// The type of a served kind; [`Node::Any`] where the kind has no schema.
    #[must_use]
    pub fn kind(&self, resource: &Resource) -> Node {
        self.named(&schema_name(resource)).unwrap_or(Node::Any)
    }
}

/// The name of a kind's schema, such as `io.k8s.api.resource.v1.ResourceClaim`.
#[must_use]
pub fn schema_name(resource: &Resource) -> String {
    let package = if resource.group.is_empty() { "core" } else { resource.group.split('.').next().unwrap_or("core") };
    format!("io.k8s.api.{package}.{}.{}", resource.version, resource.kind)
}

/// k8s-openapi's schemas of the served kinds and all they refer to, by name, as it gives them.
#[must_use]
pub fn definitions() -> serde_json::Map<String, Value> {
    let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
    macro_rules! kinds {
        ($($kind:ty),+ $(,)?) => { $( let _ = generator.subschema_for::<$kind>(); )+ };
    }
    kinds!(
        core::Binding,
        core::ConfigMap,
        core::Event,
        core::Namespace,
        core::Node,
        core::Pod,
        core::Secret,
        core::ServiceAccount,
        dra::DeviceClass,
        dra::ResourceClaim,
        dra::ResourceClaimTemplate,
        dra::ResourceSlice,
        authentication::SelfSubjectReview,
        authorization::SelfSubjectAccessReview,
        authorization::SelfSubjectRulesReview,
        authorization::SubjectAccessReview,
        policy::Eviction,
        k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions,
        k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta,
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Status,
    );
    generator.take_definitions(false)
}

/// The table, built at the first use.
pub fn table() -> &'static Schema {
    static TABLE: OnceLock<Schema> = OnceLock::new();
    TABLE.get_or_init(|| build(&definitions()))
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

fn build(definitions: &serde_json::Map<String, Value>) -> Schema {
    let structs: Vec<&String> = definitions.iter().filter(|(name, _)| leaf(name).is_none()).map(|(name, _)| name).collect();
    let names: BTreeMap<String, TypeId> = structs.iter().enumerate().map(|(id, name)| ((*name).clone(), id)).collect();
    let types = structs
        .iter()
        .map(|name| {
            let properties = definitions.get(*name).and_then(|d| d["properties"].as_object());
            let fields =
                properties.into_iter().flatten().map(|(field, schema)| (field.clone(), node(schema, short(name), field, &names))).collect();
            Type { name: (*name).clone(), fields, atomic: lists::ATOMIC_STRUCTS.contains(&short(name)) }
        })
        .collect();
    Schema { types, names }
}

/// Types that are written as one value though they have a schema of their own.
fn leaf(name: &str) -> Option<Node> {
    match short(name) {
        "Quantity" => Some(Node::Quantity),
        "IntOrString" => Some(Node::IntOrString),
        "Time" => Some(Node::Time),
        "MicroTime" => Some(Node::MicroTime),
        "RawExtension" => Some(Node::Any),
        "FieldsV1" if name.starts_with(META) => Some(Node::Any),
        _ => None,
    }
}

fn node(schema: &Value, owner: &str, field: &str, names: &BTreeMap<String, TypeId>) -> Node {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return leaf(name).or_else(|| names.get(name).map(|id| Node::Struct(*id))).unwrap_or(Node::Any);
    }
    match schema["type"].as_str() {
        Some("string") => match schema["format"].as_str() {
            Some("date-time") => Node::Time,
            format => Node::Text { bytes: format == Some("byte") },
        },
        Some("integer") => Node::Integer { bits: if schema["format"].as_str() == Some("int32") { 32 } else { 64 } },
        Some("number") => Node::Number,
        Some("boolean") => Node::Boolean,
        Some("array") => {
            let items = Box::new(node(&schema["items"], owner, field, names));
            Node::List { items, rule: lists::rule(owner, field) }
        }
        Some("object") if schema.get("additionalProperties").is_some() => Node::Map {
            values: Box::new(node(&schema["additionalProperties"], owner, field, names)),
            atomic: lists::ATOMIC_MAPS.contains(&(owner, field)),
        },
        _ => Node::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::resource::RESOURCES;

    #[test]
    fn every_served_kind_has_a_schema() {
        for resource in RESOURCES {
            let Node::Struct(id) = table().kind(resource) else { panic!("{} has no schema", resource.kind) };
            let fields = &table().get(id).expect("its type").fields;
            assert!(fields.contains_key("metadata"), "{}", resource.kind);
        }
    }

    #[test]
    fn every_rule_names_a_list_that_exists() {
        let schema = table();
        for (owner, field, rule) in lists::RULES {
            let found = schema.types.iter().find(|t| t.go_name() == *owner).and_then(|t| t.fields.get(*field));
            let Some(Node::List { items, .. }) = found else { panic!("{owner}.{field} is not a list") };
            if let Keys::Map(keys) = rule.keys {
                for key in keys {
                    assert!(items.child(schema, key).is_some(), "{owner}.{field}: items have no {key}");
                }
            }
        }
        for name in lists::ATOMIC_STRUCTS {
            assert!(schema.types.iter().any(|t| t.go_name() == *name), "{name} is not there");
        }
        for (owner, field) in lists::ATOMIC_MAPS {
            let found = schema.types.iter().find(|t| t.go_name() == *owner).and_then(|t| t.fields.get(*field));
            assert!(matches!(found, Some(Node::Map { atomic: true, .. })), "{owner}.{field}");
        }
    }

    #[test]
    fn types_are_read() {
        let schema = table();
        let pod = schema.named("io.k8s.api.core.v1.Pod").expect("Pod");
        let spec = pod.child(schema, "spec").expect("spec");
        let containers = spec.child(schema, "containers").expect("containers");
        assert_eq!(containers.go_type(schema), "[]v1.Container");
        let Node::List { items, rule } = containers else { panic!("a list") };
        assert_eq!(rule.keys, Keys::Map(&["name"]));
        let limits = items.child(schema, "resources").and_then(|r| r.child(schema, "limits")).expect("limits");
        assert!(matches!(limits, Node::Map { values, .. } if matches!(**values, Node::Quantity)));
        assert!(matches!(spec.child(schema, "priority"), Some(Node::Integer { bits: 32 })));
        assert!(spec.child(schema, "nodeSelector").expect("nodeSelector").is_atomic(schema));
    }
}
