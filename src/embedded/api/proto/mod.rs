//! `application/vnd.kubernetes.protobuf` request bodies, as typed clients send them (kubectl's `create namespace`,
//! client-go's controllers and drivers): read by the field numbers in `messages.txt` and the kinds' schemas.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::Status;
use super::schema::{self, Node, Schema};

mod wire;

use wire::{Field, Payload, WireError, fields};

/// What a body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// Messages within messages beyond which a body is refused.
const DEEPEST: usize = 64;

/// The object in a protobuf envelope as JSON, with apiVersion and kind.
///
/// # Errors
/// 415 for kinds that this build does not read, 400 for a damaged body.
pub fn decode(body: &[u8]) -> Result<Value, Status> {
    let damaged = |error: WireError| Status::bad_request(format!("error decoding protobuf: {error}"));
    let Some(envelope) = body.strip_prefix(MAGIC) else {
        let message = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
        return Err(Status::bad_request(message));
    };
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in fields(envelope) {
        match field.map_err(damaged)? {
            Field { number: 1, payload: Payload::Bytes(meta) } => {
                for field in fields(meta) {
                    match field.map_err(damaged)? {
                        Field { number: 1, payload: Payload::Bytes(text) } => api_version = String::from_utf8_lossy(text).into_owned(),
                        Field { number: 2, payload: Payload::Bytes(text) } => kind = String::from_utf8_lossy(text).into_owned(),
                        _ => {}
                    }
                }
            }
            Field { number: 2, payload: Payload::Bytes(bytes) } => raw = bytes,
            _ => {}
        }
    }
    let schema = schema::table();
    let Some(node) = root(schema, &api_version, &kind) else {
        let message = format!("protobuf bodies of kind {kind:?} in {api_version:?} are not read by this server: send application/json");
        return Err(Status::new(415, "UnsupportedMediaType", message));
    };
    let mut object = Reader { schema }.structure(raw, &node, 0).map_err(damaged)?;
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(object))
}

/// The type of a kind.
fn root(schema: &Schema, api_version: &str, kind: &str) -> Option<Node> {
    if kind == "DeleteOptions" {
        return schema.named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("core", api_version));
    let package = group.split('.').next().unwrap_or(group);
    schema.named(&format!("io.k8s.api.{package}.{version}.{kind}"))
}

/// The fields of each message by number.
fn messages() -> &'static BTreeMap<&'static str, Vec<&'static str>> {
    static MESSAGES: OnceLock<BTreeMap<&'static str, Vec<&'static str>>> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        let lines = include_str!("messages.txt").lines().filter(|line| !line.starts_with('#'));
        let entries = lines.filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.collect()))
        });
        entries.collect()
    })
}

/// `core.Pod` of `io.k8s.api.core.v1.Pod`.
fn message_name(schema_name: &str) -> String {
    let parts: Vec<&str> = schema_name.rsplit('.').collect();
    match parts.as_slice() {
        [name, _, package, ..] => format!("{package}.{name}"),
        _ => schema_name.to_owned(),
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    schema: &'a Schema,
}

impl Reader<'_> {
    fn structure(self, bytes: &[u8], node: &Node, depth: usize) -> Result<Map<String, Value>, WireError> {
        let mut out = Map::new();
        if let Node::Struct(id) = node
            && let Some(owner) = self.schema.get(*id)
        {
            self.message(bytes, &message_name(&owner.name), node, &mut out, depth)?;
        }
        Ok(out)
    }

    /// Reads the fields of message `name` into `out`, which is of type `node`. Fields that this build does not know are
    /// skipped.
    fn message(self, bytes: &[u8], name: &str, node: &Node, out: &mut Map<String, Value>, depth: usize) -> Result<(), WireError> {
        if depth > DEEPEST {
            return Err(WireError::Depth);
        }
        let names = messages().get(name).map_or(&[][..], Vec::as_slice);
        for field in fields(bytes) {
            let Field { number, payload } = field?;
            let Some(word) = number.checked_sub(1).and_then(|at| names.get(at)) else { continue };
            if let (Some(embedded), Payload::Bytes(bytes)) = (word.strip_prefix('*'), payload) {
                let package = name.split('.').next().unwrap_or_default();
                self.message(bytes, &format!("{package}.{embedded}"), node, out, depth + 1)?;
                continue;
            }
            let key = word.trim_start_matches('?');
            let Some(child) = node.child(self.schema, key) else { continue };
            self.field(payload, key, child, word.starts_with('?'), out, depth)?;
        }
        Ok(())
    }

    fn field(
        self,
        payload: Payload<'_>,
        key: &str,
        node: &Node,
        pointer: bool,
        out: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), WireError> {
        match node {
            Node::List { items, .. } => {
                let list = out.entry(key).or_insert_with(|| json!([]));
                if let Value::Array(list) = list {
                    self.items(payload, items, list, depth)?;
                }
            }
            Node::Map { values, .. } => {
                let Payload::Bytes(entry) = payload else { return Err(WireError::Type) };
                let map = out.entry(key).or_insert_with(|| json!({}));
                let (name, value) = self.entry(entry, values, depth)?;
                map[name] = value;
            }
            _ => {
                let value = self.value(payload, node, depth)?;
                let zero = match &value {
                    Value::Null => true,
                    Value::String(text) => text.is_empty(),
                    Value::Number(number) => number.as_i64() == Some(0),
                    Value::Bool(yes) => !yes,
                    _ => false,
                };
                if !value.is_null() && (pointer || !zero) {
                    out.insert(key.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    /// One item, or several numbers that are packed into one field.
    fn items(self, payload: Payload<'_>, node: &Node, list: &mut Vec<Value>, depth: usize) -> Result<(), WireError> {
        match (node, payload) {
            (Node::Integer { .. } | Node::Boolean, Payload::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    let (number, rest) = wire::varint(packed)?;
                    list.push(self.value(Payload::Number(number), node, depth)?);
                    packed = rest;
                }
            }
            (_, payload) => list.push(self.value(payload, node, depth)?),
        }
        Ok(())
    }

    /// A map's entry: key 1, value 2.
    fn entry(self, bytes: &[u8], values: &Node, depth: usize) -> Result<(String, Value), WireError> {
        let (mut key, mut value) = (String::new(), None);
        for field in fields(bytes) {
            match field? {
                Field { number: 1, payload: Payload::Bytes(text) } => key = wire::text(text)?,
                Field { number: 2, payload } => value = Some(self.value(payload, values, depth)?),
                _ => {}
            }
        }
        let empty = || if matches!(values, Node::Text { .. }) { json!("") } else { Value::Null };
        Ok((key, value.unwrap_or_else(empty)))
    }

    fn value(self, payload: Payload<'_>, node: &Node, depth: usize) -> Result<Value, WireError> {
        Ok(match (node, payload) {
            (Node::Struct(_), Payload::Bytes(bytes)) => Value::Object(self.structure(bytes, node, depth + 1)?),
            (Node::Text { bytes: false }, Payload::Bytes(text)) => json!(wire::text(text)?),
            (Node::Text { bytes: true }, Payload::Bytes(bytes)) => json!(BASE64_STANDARD.encode(bytes)),
            (Node::Boolean, Payload::Number(number)) => json!(number != 0),
            // Negative numbers of 32 bits come sign-extended to 64.
            (Node::Integer { .. }, Payload::Number(number)) => json!(number.cast_signed()),
            (Node::Number, Payload::Fixed64(bits)) => json!(f64::from_bits(bits)),
            (Node::Quantity, Payload::Bytes(message)) => match wire::first(message, 1)? {
                Some(Payload::Bytes(text)) => json!(wire::text(text)?),
                _ => json!("0"),
            },
            (Node::Time, Payload::Bytes(message)) => wire::time(message, false)?,
            (Node::MicroTime, Payload::Bytes(message)) => wire::time(message, true)?,
            (Node::IntOrString, Payload::Bytes(message)) => {
                match (wire::first(message, 1)?, wire::first(message, 2)?, wire::first(message, 3)?) {
                    (Some(Payload::Number(1)), _, Some(Payload::Bytes(text))) => json!(wire::text(text)?),
                    (_, Some(Payload::Number(number)), _) => json!(number.cast_signed()),
                    _ => json!(0),
                }
            }
            // RawExtension and FieldsV1 carry JSON.
            (Node::Any, Payload::Bytes(message)) => match wire::first(message, 1)? {
                Some(Payload::Bytes(raw)) if !raw.is_empty() => serde_json::from_slice(raw).map_err(|_| WireError::Json)?,
                _ => Value::Null,
            },
            // A list as the value of a map is a message of its items.
            (Node::List { items, .. }, Payload::Bytes(message)) => {
                let mut list = Vec::new();
                for field in fields(message) {
                    self.items(field?.payload, items, &mut list, depth + 1)?;
                }
                Value::Array(list)
            }
            _ => return Err(WireError::Type),
        })
    }
}

#[cfg(test)]
mod tests;
