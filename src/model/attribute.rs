//! Device attributes: qualified names, and values with their types.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::DeviceAttribute;

/// A qualified name taken apart: `(domain, identifier)`. A name without a domain belongs to `default_domain`, which for
/// attributes and capacities of a device is the driver's name.
#[must_use]
pub fn split_name<'a>(name: &'a str, default_domain: &'a str) -> (&'a str, &'a str) {
    name.split_once('/').unwrap_or((default_domain, name))
}

/// The attribute with the fully qualified name `name` of a device of `driver`: the exact name, else the bare identifier
/// where the domain is the driver's name (upstream `lookupAttribute`).
#[must_use]
pub fn lookup<'a>(attributes: &'a BTreeMap<String, DeviceAttribute>, driver: &str, name: &str) -> Option<&'a DeviceAttribute> {
    if let Some(attribute) = attributes.get(name) {
        return Some(attribute);
    }
    let (domain, id) = name.split_once('/')?;
    if domain == driver { attributes.get(id) } else { None }
}

/// One value. Values of different types are never equal; versions compare as text, as upstream does in constraints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar<'a> {
    /// A string.
    String(Cow<'a, str>),
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
    /// A semantic version.
    Version(Cow<'a, str>),
}

impl Scalar<'_> {
    /// Whether both have the same type.
    #[must_use]
    pub fn same_type(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The same value, holding its own text.
    #[must_use]
    pub fn into_owned(self) -> Scalar<'static> {
        match self {
            Self::String(text) => Scalar::String(Cow::Owned(text.into_owned())),
            Self::Int(value) => Scalar::Int(value),
            Self::Bool(value) => Scalar::Bool(value),
            Self::Version(text) => Scalar::Version(Cow::Owned(text.into_owned())),
        }
    }
}

/// What an attribute holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// One value.
    One(Scalar<'a>),
    /// A list of values of one type (gate `DRAListTypeAttributes`), never empty.
    Many(Vec<Scalar<'a>>),
    /// Nothing that this version knows.
    Unknown,
}

impl<'a> AttributeValue<'a> {
    /// The typed value of an attribute of the API. Where several fields are set, which validation refuses, the first of
    /// string, int, bool and version counts.
    #[must_use]
    pub fn of(attribute: &'a DeviceAttribute) -> Self {
        fn text(value: &str) -> Cow<'_, str> {
            Cow::Borrowed(value)
        }
        if let Some(value) = &attribute.string {
            return Self::One(Scalar::String(text(value)));
        }
        if let Some(value) = attribute.int {
            return Self::One(Scalar::Int(value));
        }
        if let Some(value) = attribute.bool {
            return Self::One(Scalar::Bool(value));
        }
        if let Some(value) = &attribute.version {
            return Self::One(Scalar::Version(text(value)));
        }
        let many: Vec<_> = if let Some(values) = &attribute.strings {
            values.iter().map(|value| Scalar::String(text(value))).collect()
        } else if let Some(values) = &attribute.ints {
            values.iter().map(|value| Scalar::Int(*value)).collect()
        } else if let Some(values) = &attribute.bools {
            values.iter().map(|value| Scalar::Bool(*value)).collect()
        } else if let Some(values) = &attribute.versions {
            values.iter().map(|value| Scalar::Version(text(value))).collect()
        } else {
            Vec::new()
        };
        if many.is_empty() { Self::Unknown } else { Self::Many(many) }
    }

    /// The values as a set, which for a scalar has one element; empty when unknown.
    #[must_use]
    pub fn values(&self) -> &[Scalar<'a>] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
            Self::Unknown => &[],
        }
    }

    /// The same value, holding its own text.
    #[must_use]
    pub fn into_owned(self) -> AttributeValue<'static> {
        match self {
            Self::One(value) => AttributeValue::One(value.into_owned()),
            Self::Many(values) => AttributeValue::Many(values.into_iter().map(Scalar::into_owned).collect()),
            Self::Unknown => AttributeValue::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(value: &str) -> DeviceAttribute {
        DeviceAttribute { string: Some(value.to_owned()), ..Default::default() }
    }

    #[test]
    fn names_without_a_domain_belong_to_the_driver() {
        assert_eq!(split_name("model", "gpu.example.com"), ("gpu.example.com", "model"));
        assert_eq!(split_name("resource.kubernetes.io/pcieRoot", "gpu.example.com"), ("resource.kubernetes.io", "pcieRoot"));
    }

    #[test]
    fn lookup_prefers_the_exact_name() {
        let both = BTreeMap::from([("d/a".to_owned(), string("exact")), ("a".to_owned(), string("bare"))]);
        let bare = BTreeMap::from([("a".to_owned(), string("bare"))]);
        assert_eq!(lookup(&both, "d", "d/a"), Some(&string("exact")));
        assert_eq!(lookup(&bare, "d", "d/a"), Some(&string("bare")));
        assert_eq!(lookup(&bare, "other", "d/a"), None);
        assert_eq!(lookup(&bare, "d", "b"), None);
    }

    #[test]
    fn typed_values() {
        let ints = DeviceAttribute { ints: Some(vec![1, 2]), ..Default::default() };
        assert_eq!(AttributeValue::of(&ints), AttributeValue::Many(vec![Scalar::Int(1), Scalar::Int(2)]));
        assert_eq!(AttributeValue::of(&string("x")).values(), [Scalar::String("x".into())]);
        assert_eq!(AttributeValue::of(&DeviceAttribute::default()), AttributeValue::Unknown);
        assert!(!Scalar::String("1.0.0".into()).same_type(&Scalar::Version("1.0.0".into())));
        assert_ne!(Scalar::String("1.0.0".into()), Scalar::Version("1.0.0".into()));
    }
}
