//! A device as expressions see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{DeviceAttribute, DeviceCapacity};

use super::value::{Map, Value};
use crate::model::quantity::Quantity;
use crate::model::semver::Semver;

/// A device as expressions see it, converted once. Attributes that cannot be converted fail each evaluation, as upstream.
#[derive(Clone, Debug)]
pub struct DeviceInput {
    pub(super) value: Result<[Value; 1], String>,
}

impl DeviceInput {
    /// Converts a device of `driver`. Names without a domain belong to the driver's; where an attribute is published
    /// both ways the qualified one counts (upstream it is random).
    #[must_use]
    pub fn new(
        driver: &str,
        attributes: &BTreeMap<String, DeviceAttribute>,
        capacity: &BTreeMap<String, DeviceCapacity>,
        allow_multiple_allocations: bool,
    ) -> Self {
        Self { value: convert(driver, attributes, capacity, allow_multiple_allocations).map(|device| [device]) }
    }

    /// Whether it could be converted; if not, every evaluation fails and costs nothing.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.value.is_ok()
    }
}

fn convert(
    driver: &str,
    attributes: &BTreeMap<String, DeviceAttribute>,
    capacity: &BTreeMap<String, DeviceCapacity>,
    shared: bool,
) -> Result<Value, String> {
    let mut attribute_domains = Domains::default();
    for (name, attribute) in attributes {
        let value = attribute_value(attribute).map_err(|reason| format!("attribute {name}: {reason}"))?;
        attribute_domains.add(name, driver, value);
    }
    let mut capacity_domains = Domains::default();
    for (name, capacity) in capacity {
        let amount = Quantity::parse(capacity.value.0.trim()).map_err(|error| format!("capacity {name}: {error}"))?;
        capacity_domains.add(name, driver, Value::quantity(amount));
    }
    let fields = vec![
        (Value::string("driver"), Value::string(driver)),
        (Value::string("attributes"), attribute_domains.into_value()),
        (Value::string("capacity"), capacity_domains.into_value()),
        (Value::string("allowMultipleAllocations"), Value::Bool(shared)),
    ];
    Ok(Value::Map(Arc::new(Map::new(fields))))
}

/// Values by domain and name.
#[derive(Default)]
struct Domains<'d> {
    domains: BTreeMap<&'d str, BTreeMap<&'d str, (bool, Value)>>,
}

impl<'d> Domains<'d> {
    fn add(&mut self, name: &'d str, driver: &'d str, value: Value) {
        let qualified = name.contains('/');
        let (domain, id) = name.split_once('/').unwrap_or((driver, name));
        let ids = self.domains.entry(domain).or_default();
        if ids.get(id).is_none_or(|(known_qualified, _)| qualified || !known_qualified) {
            ids.insert(id, (qualified, value));
        }
    }

    fn into_value(self) -> Value {
        let domains = self.domains.into_iter().map(|(domain, ids)| {
            let ids = ids.into_iter().map(|(id, (_, value))| (Value::string(id), value)).collect();
            (Value::string(domain), Value::Map(Arc::new(Map::new(ids))))
        });
        Value::Map(Arc::new(Map::lenient(domains.collect())))
    }
}

/// The one value of an attribute; lists win over single values, as upstream asks for them in this order.
fn attribute_value(attribute: &DeviceAttribute) -> Result<Value, String> {
    let version = |text: &String| {
        Semver::parse(text).map(|version| Value::Semver(Arc::new(version))).map_err(|error| format!("parse semantic version: {error}"))
    };
    if let Some(values) = &attribute.ints {
        return Ok(Value::list(values.iter().copied().map(Value::Int).collect()));
    }
    if let Some(values) = &attribute.bools {
        return Ok(Value::list(values.iter().copied().map(Value::Bool).collect()));
    }
    if let Some(values) = &attribute.strings {
        return Ok(Value::strings(values));
    }
    if let Some(values) = &attribute.versions {
        return Ok(Value::list(values.iter().map(version).collect::<Result<_, _>>()?));
    }
    if let Some(value) = attribute.int {
        return Ok(Value::Int(value));
    }
    if let Some(value) = attribute.bool {
        return Ok(Value::Bool(value));
    }
    if let Some(value) = &attribute.string {
        return Ok(Value::string(value));
    }
    if let Some(value) = &attribute.version {
        return version(value);
    }
    Err("unsupported attribute value".to_owned())
}

/// A value as an attribute; the error is upstream's.
pub(super) fn to_attribute(value: &Value) -> Result<DeviceAttribute, String> {
    let mut attribute = DeviceAttribute::default();
    match value {
        Value::Bool(value) => attribute.bool = Some(*value),
        Value::Int(value) => attribute.int = Some(*value),
        Value::String(text) => attribute.string = Some(text.to_string()),
        Value::Semver(version) => attribute.version = Some(version.to_string()),
        Value::List(values) => return list_attribute(values),
        other => return Err(format!("unsupported CEL return type: {}", native_type(other))),
    }
    Ok(attribute)
}

fn list_attribute(values: &[Value]) -> Result<DeviceAttribute, String> {
    fn all<T>(values: &[Value], kind: &str, get: impl Fn(&Value) -> Option<T>) -> Result<Option<Vec<T>>, String> {
        let elements = values.iter().enumerate().map(|(index, value)| {
            get(value).ok_or_else(|| format!("expected list element at index {index} to be {kind}, got {}", native_type(value)))
        });
        elements.collect::<Result<Vec<T>, String>>().map(Some)
    }
    let mut attribute = DeviceAttribute::default();
    match values.first() {
        None => attribute.strings = Some(Vec::new()),
        Some(Value::Bool(_)) => attribute.bools = all(values, "bool", |v| if let Value::Bool(v) = v { Some(*v) } else { None })?,
        Some(Value::Int(_)) => attribute.ints = all(values, "int64", |v| if let Value::Int(v) = v { Some(*v) } else { None })?,
        Some(Value::String(_)) => {
            attribute.strings = all(values, "string", |v| if let Value::String(v) = v { Some(v.to_string()) } else { None })?;
        }
        Some(Value::Semver(_)) => {
            attribute.versions = all(values, "semver", |v| if let Value::Semver(v) = v { Some(v.to_string()) } else { None })?;
        }
        Some(other) => return Err(format!("unsupported list element type: {}", native_type(other))),
    }
    Ok(attribute)
}

/// The Go type of a value, as messages name it.
fn native_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        Value::String(_) => "string",
        Value::Bytes(_) => "[]uint8",
        Value::Null => "structpb.NullValue",
        Value::Duration(_) => "time.Duration",
        Value::Timestamp(_) => "time.Time",
        Value::List(_) => "[]ref.Val",
        Value::Map(_) => "map[ref.Val]ref.Val",
        Value::Optional(Some(inner)) => native_type(inner),
        Value::Optional(None) => "<nil>",
        Value::Type(_) => "string",
        Value::Quantity { .. } => "*resource.Quantity",
        Value::Semver(_) => "semver.Version",
        Value::Url(_) => "*url.URL",
        Value::Ip(_) => "netip.Addr",
        Value::Cidr(..) => "netip.Prefix",
        Value::Format(_) => "cel.Format",
    }
}
