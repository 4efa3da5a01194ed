//! The types of CEL, as the checker reasons about them and as messages name them.

use std::fmt;
use std::sync::Arc;

#[expect(clippy::enum_variant_names, reason = "the type of a type is called type")]
/// A type. Parameters are shared, so that copies are cheap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Null,
    /// Anything, decided at run time.
    Dyn,
    /// `google.protobuf.Any`: anything as well, but an exact type of its own.
    Any,
    /// The type of an expression in which an error was found already.
    Error,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    /// The type of a type.
    Type(Option<Arc<Type>>),
    /// An opaque type with parameters: `optional_type(T)`, `net.IP`.
    Opaque(&'static str, Arc<[Type]>),
    /// An object type by name: `kubernetes.Quantity`.
    Object(&'static str),
    /// A type parameter of a declaration.
    Param(char),
    /// A type variable of the checker.
    Var(u32),
}

/// Name of the optional type.
pub(crate) const OPTIONAL: &str = "optional_type";
/// Name of the device's type.
pub(crate) const DEVICE: &str = "kubernetes.DRADevice";

impl Type {
    pub(crate) fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(crate) fn optional(inner: Self) -> Self {
        Self::Opaque(OPTIONAL, Arc::new([inner]))
    }

    pub(crate) fn type_of(inner: Self) -> Self {
        Self::Type(Some(Arc::new(inner)))
    }

    /// The type inside an optional.
    pub(crate) fn unwrapped(&self) -> Option<&Self> {
        match self {
            Self::Opaque(OPTIONAL, parameters) => parameters.first(),
            _ => None,
        }
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        self.is_dyn() || *self == Self::Error
    }

    /// Whether it has type variables inside.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Var(_) | Self::Param(_) => true,
            Self::List(inner) => inner.is_open(),
            Self::Map(key, value) => key.is_open() || value.is_open(),
            Self::Type(inner) => inner.as_ref().is_some_and(|inner| inner.is_open()),
            Self::Opaque(_, parameters) => parameters.iter().any(Self::is_open),
            _ => false,
        }
    }

    /// The same type with every variable or parameter replaced by what `replace` gives.
    pub(crate) fn rewritten(&self, replace: &mut impl FnMut(&Self) -> Option<Self>) -> Self {
        if !self.is_open() {
            return self.clone();
        }
        if let Some(replaced) = replace(self) {
            return replaced;
        }
        match self {
            Self::List(inner) => Self::list(inner.rewritten(replace)),
            Self::Map(key, value) => Self::map(key.rewritten(replace), value.rewritten(replace)),
            Self::Type(Some(inner)) => Self::type_of(inner.rewritten(replace)),
            Self::Opaque(name, parameters) => Self::Opaque(name, parameters.iter().map(|p| p.rewritten(replace)).collect()),
            other => other.clone(),
        }
    }

    /// The name at run time, without parameters (`TypeName` of cel-go).
    pub(crate) fn name(&self) -> String {
        match self {
            Self::List(_) => "list".to_owned(),
            Self::Map(..) => "map".to_owned(),
            Self::Type(_) => "type".to_owned(),
            Self::Opaque(name, _) => (*name).to_owned(),
            other => other.to_string(),
        }
    }

    /// The name as error messages of the checker have it (`FormatCELType`): `any`, `null`, `duration`.
    pub(crate) fn in_messages(&self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::Error => "!error!".to_owned(),
            Self::List(inner) => format!("list({})", inner.in_messages()),
            Self::Map(key, value) => format!("map({}, {})", key.in_messages(), value.in_messages()),
            Self::Type(Some(inner)) => format!("type({})", inner.in_messages()),
            Self::Opaque(name, parameters) if !parameters.is_empty() => {
                let parameters: Vec<String> = parameters.iter().map(Self::in_messages).collect();
                format!("{name}({})", parameters.join(", "))
            }
            other => other.to_string(),
        }
    }
}

/// The declared name (`Type.String()` of cel-go): `google.protobuf.Any`, `null_type`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Null => f.write_str("null_type"),
            Self::Dyn => f.write_str("dyn"),
            Self::Any => f.write_str("google.protobuf.Any"),
            Self::Error => f.write_str("error"),
            Self::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Self::Duration => f.write_str("google.protobuf.Duration"),
            Self::List(inner) => write!(f, "list({inner})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Type(None) => f.write_str("type"),
            Self::Type(Some(inner)) => write!(f, "type({inner})"),
            Self::Opaque(name, parameters) => {
                f.write_str(name)?;
                for (index, parameter) in parameters.iter().enumerate() {
                    write!(f, "{}{parameter}", if index == 0 { "(" } else { ", " })?;
                }
                f.write_str(if parameters.is_empty() { "" } else { ")" })
            }
            Self::Object(name) => f.write_str(name),
            Self::Param(name) => write!(f, "{name}"),
            Self::Var(number) => write!(f, "_var{number}"),
        }
    }
}
