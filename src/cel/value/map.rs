//! Maps, small ones searched and large ones hashed.

use std::collections::HashMap;
use std::sync::Arc;

use super::Value;

/// From this size on keys are hashed.
const HASHED: usize = 16;

/// A map. Keys are looked up across number types: `1`, `1u` and `1.0` are one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    entries: Vec<(Value, Value)>,
    index: HashMap<Key, usize>,
    /// Unknown keys have an empty map as value; only lookups see it, not `in`.
    lenient: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Bool(bool),
    Number(i128),
    Fraction(u64),
    Text(Arc<str>),
}

fn key(value: &Value) -> Option<Key> {
    Some(match value {
        Value::Bool(value) => Key::Bool(*value),
        Value::Int(value) => Key::Number(i128::from(*value)),
        Value::Uint(value) => Key::Number(i128::from(*value)),
        Value::Double(value) if value.fract() == 0.0 && value.abs() < 1.9e19 => Key::Number(*value as i128),
        Value::Double(value) => Key::Fraction(value.to_bits()),
        Value::String(text) => Key::Text(text.clone()),
        _ => return None,
    })
}

impl Map {
    /// From entries; a later one replaces an earlier one of the same key.
    pub(crate) fn new(entries: Vec<(Value, Value)>) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }

    /// The same, but looking up an unknown key gives an empty map.
    pub(crate) fn lenient(entries: Vec<(Value, Value)>) -> Self {
        Self { lenient: true, ..Self::new(entries) }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Value, Value)> {
        self.entries.iter()
    }

    fn position(&self, wanted: &Value) -> Option<usize> {
        if let Value::String(text) = wanted
            && self.index.is_empty()
        {
            return self.entries.iter().position(|(key, _)| matches!(key, Value::String(key) if key == text));
        }
        let wanted = key(wanted)?;
        if self.index.is_empty() {
            return self.entries.iter().position(|(found, _)| key(found).as_ref() == Some(&wanted));
        }
        self.index.get(&wanted).copied()
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &Value) -> Option<&Value> {
        self.position(key).map(|at| &self.entries[at].1)
    }

    /// The value of a key as selections and indices see it.
    pub(crate) fn find(&self, key: &Value) -> Option<Value> {
        match self.get(key) {
            None if self.lenient => Some(Value::Map(Arc::new(Self::default()))),
            found => found.cloned(),
        }
    }

    /// Sets a key; true if it was there already.
    pub(crate) fn insert(&mut self, new: Value, value: Value) -> bool {
        if let Some(at) = self.position(&new) {
            self.entries[at].1 = value;
            return true;
        }
        if self.index.is_empty() && self.entries.len() + 1 >= HASHED {
            self.index = self.entries.iter().enumerate().filter_map(|(at, (found, _))| Some((key(found)?, at))).collect();
        }
        if let (false, Some(key)) = (self.index.is_empty(), key(&new)) {
            self.index.insert(key, self.entries.len());
        }
        self.entries.push((new, value));
        false
    }

    /// Removes a key of a literal under construction.
    pub(crate) fn remove(&mut self, key: &Value) {
        if let Some(at) = self.position(key) {
            self.entries.remove(at);
            let entries = std::mem::take(&mut self.entries);
            *self = Self { lenient: self.lenient, ..Self::new(entries) };
        }
    }
}
