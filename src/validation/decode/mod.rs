//! A deserializer that follows a kind's schema, keeps what it knows and notes what it does not.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

mod scalar;

use super::schema::{Node, Schema};

/// Upstream gives up naming unknown fields after this many.
const MOST_NAMED: usize = 100;

/// Where the reader is and what it found.
pub(crate) struct Sink<'a> {
    schema: &'a Schema,
    path: Vec<Step>,
    structs: Vec<String>,
    /// `unknown field "…"` and `duplicate field "…"`, in the body's order.
    pub(crate) unknown: Vec<String>,
    /// The first value of a wrong type, in Go's words.
    wrong: Option<String>,
    /// The same in the words of the conversion that strategic merge patches go through.
    pub(crate) plain: Option<String>,
    /// The first text that is not what its type asks for. Go's decoder stops there, so that it wins over `wrong`.
    invalid: Option<String>,
}

enum Step {
    Field(String),
    Key(String),
    Index(usize),
}

impl<'a> Sink<'a> {
    pub(crate) fn new(schema: &'a Schema) -> Self {
        Sink { schema, path: Vec::new(), structs: Vec::new(), unknown: Vec::new(), wrong: None, plain: None, invalid: None }
    }

    /// What is wrong with the body, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        self.invalid.clone().or_else(|| self.wrong.clone())
    }

    fn note(&mut self, what: &str, field: &str) {
        if self.unknown.len() >= MOST_NAMED {
            return;
        }
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) | Step::Key(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                }
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        let dot = if path.is_empty() { "" } else { "." };
        let text = format!("{what} field \"{path}{dot}{field}\"");
        if !self.unknown.contains(&text) {
            self.unknown.push(text);
        }
    }

    fn mismatch(&mut self, found: &str, node: &Node) {
        if matches!(node, Node::Quantity) {
            return self.invalid(scalar::quantity("").err().unwrap_or_default());
        }
        if self.wrong.is_some() {
            return;
        }
        let fields: Vec<&str> =
            self.path.iter().filter_map(|s| if let Step::Field(name) = s { Some(name.as_str()) } else { None }).collect();
        let wanted = match (self.structs.last(), self.path.last()) {
            (Some(owner), Some(Step::Field(field))) => scalar::named_type(owner, field).map(str::to_owned),
            _ => None,
        };
        let wanted = wanted.unwrap_or_else(|| node.go_type(self.schema));
        let scalar = !matches!(node, Node::Struct(_) | Node::Map { .. } | Node::List { .. });
        self.plain = match found {
            "string" | "bool" if scalar => Some(format!("cannot convert {found} to {wanted}")),
            "number" if scalar => Some(format!("cannot convert int64 to {wanted}")),
            _ => None,
        };
        self.wrong = Some(match self.structs.last() {
            Some(owner) if !fields.is_empty() => {
                format!("json: cannot unmarshal {found} into Go struct field {owner}.{} of type {wanted}", fields.join("."))
            }
            _ => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
        });
    }

    fn invalid(&mut self, why: String) {
        self.invalid.get_or_insert(why);
    }
}

/// Reads one value of type `node`. A value of a wrong type reads as null.
pub(crate) struct Reader<'n, 's, 'a> {
    node: &'n Node,
    sink: &'s mut Sink<'a>,
}

impl<'n, 's, 'a> Reader<'n, 's, 'a> {
    pub(crate) fn new(node: &'n Node, sink: &'s mut Sink<'a>) -> Self {
        Reader { node, sink }
    }

    fn mismatch(self, found: &str) -> Value {
        self.sink.mismatch(found, self.node);
        Value::Null
    }

    fn number(self, number: Number) -> Value {
        let fits = match self.node {
            Node::Integer { bits: 32 } => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            Node::Integer { .. } | Node::IntOrString => number.as_i64().is_some(),
            Node::Number | Node::Any => true,
            Node::Quantity => {
                return match scalar::quantity(&number.to_string()) {
                    Ok(text) => Value::String(text),
                    Err(why) => {
                        self.sink.invalid(why);
                        Value::Null
                    }
                };
            }
            _ => return self.mismatch("number"),
        };
        if fits { Value::Number(number) } else { self.mismatch(&format!("number {number}")) }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_, '_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_, '_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(if matches!(self.node, Node::Boolean | Node::Any) { Value::Bool(value) } else { self.mismatch("bool") })
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(self.number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(self.number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(match Number::from_f64(value) {
            Some(number) => self.number(number),
            None => self.mismatch("number"),
        })
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        let checked = match self.node {
            Node::Text { bytes: false } | Node::IntOrString | Node::Any => Ok(value),
            Node::Text { bytes: true } => scalar::base64(&value).map(|()| value),
            Node::Quantity => scalar::quantity(&value),
            Node::Time | Node::MicroTime => scalar::time(&value).map(|()| value),
            _ => return Ok(self.mismatch("string")),
        };
        Ok(match checked {
            Ok(value) => Value::String(value),
            Err(why) => {
                self.sink.invalid(why);
                Value::Null
            }
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let items = match self.node {
            Node::List { items, .. } => items.as_ref(),
            Node::Any => self.node,
            _ => {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(self.mismatch("array"));
            }
        };
        let mut out = Vec::new();
        loop {
            self.sink.path.push(Step::Index(out.len()));
            let item = seq.next_element_seed(Reader::new(items, self.sink))?;
            self.sink.path.pop();
            match item {
                Some(Value::Null) => out.push(zero(items)),
                Some(item) => out.push(item),
                None => break,
            }
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let owner = match self.node {
            Node::Struct(id) => self.sink.schema.get(*id),
            Node::Map { .. } | Node::Any => None,
            _ => {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                return Ok(self.mismatch("object"));
            }
        };
        let mut out = Map::new();
        let mut seen = Vec::new();
        if let Some(owner) = owner {
            self.sink.structs.push(owner.go_name().to_owned());
        }
        while let Some(key) = map.next_key::<String>()? {
            let child = match (self.node, owner) {
                (Node::Map { values, .. }, _) => Some(values.as_ref()),
                (_, Some(owner)) => owner.fields.get(&key),
                _ => Some(self.node),
            };
            if !matches!(self.node, Node::Any) && seen.contains(&key) {
                self.sink.note("duplicate", &key);
            }
            let Some(child) = child else {
                map.next_value::<IgnoredAny>()?;
                self.sink.note("unknown", &key);
                seen.push(key);
                continue;
            };
            self.sink.path.push(if owner.is_some() { Step::Field(key.clone()) } else { Step::Key(key.clone()) });
            let value = map.next_value_seed(Reader::new(child, self.sink))?;
            self.sink.path.pop();
            seen.push(key.clone());
            match value {
                Value::Null if owner.is_some() => {}
                Value::Null if !matches!(self.node, Node::Any) => {
                    out.insert(key, zero(child));
                }
                Value::Array(items) if items.is_empty() && owner.is_some() => {}
                Value::Object(entries) if entries.is_empty() && owner.is_some() && matches!(child, Node::Map { .. }) => {}
                value => {
                    out.insert(key, value);
                }
            }
        }
        if owner.is_some() {
            self.sink.structs.pop();
        }
        Ok(Value::Object(out))
    }
}

/// What null reads as in a list or map: Go's zero value.
fn zero(node: &Node) -> Value {
    match node {
        Node::Struct(_) | Node::Map { .. } => Value::Object(Map::new()),
        Node::Text { .. } => Value::String(String::new()),
        Node::Quantity => Value::String("0".to_owned()),
        Node::Integer { .. } | Node::IntOrString => Value::Number(0.into()),
        Node::Boolean => Value::Bool(false),
        _ => Value::Null,
    }
}
