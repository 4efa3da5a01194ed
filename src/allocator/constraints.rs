//! Constraints of a claim between its devices (section 10).

use k8s_openapi::api::resource::v1::DeviceConstraint;

use crate::model::attribute::{AttributeValue, Scalar};

/// A constraint, with the devices that were added so far.
#[derive(Debug)]
pub(super) struct Constraint<'a> {
    kind: Kind,
    /// The fully qualified name of the attribute.
    pub(super) attribute: &'a str,
    requests: &'a [String],
    /// Gate `DRAListTypeAttributes`: values are sets.
    sets: bool,
    /// The values of the devices that were added; for `Match` on sets, what they have in common with all before.
    values: Vec<Added<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Match,
    Distinct,
}

#[derive(Debug)]
enum Added<'a> {
    Value(AttributeValue<'a>),
    Common(Vec<Scalar<'a>>),
}

impl<'a> Constraint<'a> {
    /// The constraint of the API; `None` if it is of a kind that this version does not know.
    pub(super) fn new(constraint: &'a DeviceConstraint, sets: bool) -> Option<Self> {
        let (kind, attribute) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(attribute), _) => (Kind::Match, attribute),
            (None, Some(attribute)) => (Kind::Distinct, attribute),
            (None, None) => return None,
        };
        Some(Self { kind, attribute, requests: constraint.requests.as_deref().unwrap_or_default(), sets, values: Vec::new() })
    }

    /// Whether the constraint is about devices of the request, or of the request's alternative.
    pub(super) fn applies_to(&self, request: &str, alternative: Option<&str>) -> bool {
        self.requests.is_empty()
            || self.requests.iter().any(|name| {
                name == request
                    || alternative.is_some_and(|alternative| {
                        name.strip_prefix(request).and_then(|rest| rest.strip_prefix('/')).is_some_and(|rest| rest == alternative)
                    })
            })
    }

    /// Adds a device's value if the constraint still holds then.
    pub(super) fn add(&mut self, value: &AttributeValue<'a>) -> bool {
        let added = match (self.kind, self.sets) {
            (Kind::Match, true) => self.common(value).map(Added::Common),
            (Kind::Match, false) => self.equals_first(value).then(|| Added::Value(value.clone())),
            (Kind::Distinct, sets) => self.differs(value, sets).then(|| Added::Value(value.clone())),
        };
        match added {
            Some(added) => {
                self.values.push(added);
                true
            }
            None => false,
        }
    }

    /// Takes away the device that was added last.
    pub(super) fn remove(&mut self) {
        self.values.pop();
    }

    /// Whether no device is added.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// What the value has in common with all before; nothing in common is a refusal.
    fn common(&self, value: &AttributeValue<'a>) -> Option<Vec<Scalar<'a>>> {
        let common: Vec<Scalar<'a>> = match self.values.last() {
            Some(Added::Common(before)) => before.iter().filter(|element| value.values().contains(element)).cloned().collect(),
            _ => value.values().to_vec(),
        };
        (!common.is_empty()).then_some(common)
    }

    /// The first device is always accepted; later ones must have one value, the same as the first.
    fn equals_first(&self, value: &AttributeValue<'a>) -> bool {
        match self.values.first() {
            Some(Added::Value(first)) => matches!(value, AttributeValue::One(_)) && value == first,
            _ => true,
        }
    }

    fn differs(&self, value: &AttributeValue<'a>, sets: bool) -> bool {
        if sets && value.values().is_empty() {
            return false;
        }
        self.values.iter().all(|added| {
            let Added::Value(before) = added else { return true };
            if sets {
                before.values().iter().all(|element| !value.values().contains(element))
            } else {
                matches!(value, AttributeValue::One(_)) && value != before
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: &str) -> AttributeValue<'_> {
        AttributeValue::One(Scalar::String(value.into()))
    }

    fn many(values: &[i64]) -> AttributeValue<'static> {
        AttributeValue::Many(values.iter().map(|&value| Scalar::Int(value)).collect())
    }

    fn run(kind: Kind, sets: bool, values: &[AttributeValue<'static>]) -> Vec<bool> {
        let mut constraint = Constraint { kind, attribute: "d/a", requests: &[], sets, values: Vec::new() };
        values.iter().map(|value| constraint.add(value)).collect()
    }

    #[test]
    fn matching() {
        let version = AttributeValue::One(Scalar::Version("a".into()));
        assert_eq!(run(Kind::Match, false, &[one("a"), one("b"), one("a"), version]), [true, false, true, false]);
        assert_eq!(run(Kind::Match, false, &[many(&[1]), many(&[1]), one("a")]), [true, false, false], "lists are of unknown type");
        assert_eq!(run(Kind::Match, true, &[many(&[1, 2]), many(&[2, 3]), many(&[1]), many(&[3, 2])]), [true, true, false, true]);
        assert_eq!(run(Kind::Match, true, &[AttributeValue::Unknown, one("a"), many(&[1])]), [false, true, false]);
    }

    #[test]
    fn distinct() {
        assert_eq!(run(Kind::Distinct, false, &[one("a"), one("b"), one("a")]), [true, true, false]);
        assert_eq!(run(Kind::Distinct, false, &[many(&[1]), many(&[2]), one("a")]), [true, false, true], "a list is only ever first");
        assert_eq!(run(Kind::Distinct, true, &[many(&[1, 2]), many(&[2, 3]), many(&[3]), one("a")]), [true, false, true, true]);
        assert_eq!(run(Kind::Distinct, true, &[AttributeValue::Unknown]), [false]);
    }

    #[test]
    fn removing_restores_what_was_before() {
        let mut constraint = Constraint { kind: Kind::Match, attribute: "d/a", requests: &[], sets: true, values: Vec::new() };
        assert!(constraint.add(&many(&[1, 2])));
        assert!(constraint.add(&many(&[2])));
        assert!(!constraint.add(&many(&[1])));
        constraint.remove();
        assert!(constraint.add(&many(&[1])));
    }

    #[test]
    fn requests_are_named_whole_or_by_alternative() {
        let names = ["r".to_owned(), "q/big".to_owned()];
        let constraint = Constraint { kind: Kind::Match, attribute: "d/a", requests: &names, sets: false, values: Vec::new() };
        for (request, alternative, applies) in
            [("r", None, true), ("r", Some("any"), true), ("q", Some("big"), true), ("q", Some("small"), false), ("q", None, false)]
        {
            assert_eq!(constraint.applies_to(request, alternative), applies, "{request} {alternative:?}");
        }
    }
}
