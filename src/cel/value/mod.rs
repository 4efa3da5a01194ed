//! Values of CEL at run time.

mod equal;
mod json;
mod map;
mod show;

use std::net::IpAddr;
use std::sync::Arc;

pub(crate) use self::equal::{compare, equal, is_ordered};
pub(crate) use self::map::Map;

use super::lib::{Format, Url};
use super::types::Type;
use crate::model::quantity::Quantity;
use crate::model::semver::Semver;

/// A value. Copies are cheap: what is large is shared.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(Arc<Vec<Value>>),
    Map(Arc<Map>),
    Optional(Option<Arc<Value>>),
    Type(Arc<str>),
    /// `derived` is set on the results of `add` and `sub`: upstream they are pointers, which do not compare on the
    /// right side of `==`.
    Quantity {
        amount: Arc<Quantity>,
        derived: bool,
    },
    Semver(Arc<Semver>),
    Url(Arc<Url>),
    Ip(IpAddr),
    /// Address and length of the prefix.
    Cidr(IpAddr, u8),
    Format(&'static Format),
}

/// A point in time, with the offset it was written in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamp {
    /// Seconds since 1970.
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
    /// Seconds east of UTC.
    pub(crate) offset: i32,
}

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An error of CEL, which `||`, `&&` and loops may absorb.
    Error(Arc<str>),
    /// The end of the evaluation, come what may.
    Abort(Arc<str>),
}

impl Fault {
    pub(crate) fn error(message: impl Into<Arc<str>>) -> Self {
        Self::Error(message.into())
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::error("no such overload")
    }

    pub(crate) fn no_such_key(key: &Value) -> Self {
        Self::error(format!("no such key: {key}"))
    }

    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Error(message) | Self::Abort(message) => message,
        }
    }
}

impl Value {
    pub(crate) fn string(text: &str) -> Self {
        Self::String(text.into())
    }

    pub(crate) fn list(values: Vec<Self>) -> Self {
        Self::List(Arc::new(values))
    }

    pub(crate) fn strings(values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self::list(values.into_iter().map(|text| Self::string(text.as_ref())).collect())
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) fn quantity(amount: Quantity) -> Self {
        Self::Quantity { amount: Arc::new(amount), derived: false }
    }

    /// The type of a literal.
    pub(crate) fn static_type(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            _ => Type::Dyn,
        }
    }

    /// The name of its type at run time.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity { .. } => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// Whether it may be an argument where a signature says `type_`: elements are judged by the first one only.
    pub(crate) fn fits(&self, type_: &Type) -> bool {
        match (type_, self) {
            (Type::Dyn | Type::Any | Type::Param(_) | Type::Var(_), _) => true,
            (Type::List(element), Self::List(values)) => values.first().is_none_or(|first| first.fits(element)),
            (Type::Map(key, value), Self::Map(map)) => map.iter().next().is_none_or(|(k, v)| k.fits(key) && v.fits(value)),
            (Type::Bool, Self::Bool(_)) | (Type::Int, Self::Int(_)) | (Type::String, Self::String(_)) => true,
            (Type::Opaque(name, _) | Type::Object(name), _) => self.type_name() == *name,
            (Type::Type(_), Self::Type(_)) => true,
            (Type::List(_) | Type::Map(..) | Type::Type(_), _) => false,
            _ => self.type_name() == type_.to_string(),
        }
    }

    /// Its size as the cost of an evaluation counts it.
    pub(crate) fn cost_size(&self) -> u64 {
        match self {
            Self::Optional(Some(inner)) => inner.cost_size(),
            other => other.size().unwrap_or(1),
        }
    }

    /// Number of characters, bytes, elements or entries.
    pub(crate) fn size(&self) -> Option<u64> {
        Some(match self {
            Self::String(text) if text.is_ascii() => text.len() as u64,
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(values) => values.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(_, bits) => u64::from(*bits).div_ceil(8),
            _ => return None,
        })
    }

    /// The cost of looking at all of it once.
    pub(crate) fn traversal_cost(&self) -> u64 {
        match self {
            Self::String(text) => (text.len() as f64 * 0.1) as u64,
            Self::Bytes(bytes) => (bytes.len() as f64 * 0.1) as u64,
            Self::List(values) => values.iter().map(Self::traversal_cost).sum(),
            Self::Map(map) => map.iter().map(|(key, value)| key.traversal_cost() + value.traversal_cost()).sum(),
            _ => 1,
        }
    }

    /// Whether Go could use it as the key of a map.
    pub(crate) fn is_hashable(&self) -> bool {
        !matches!(self, Self::Semver(_) | Self::Bytes(_) | Self::Format(_))
    }
}
