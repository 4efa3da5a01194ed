//! Manifests with the place of every field.

use std::thread;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// Line and column, both from 1.
pub type Place = (u64, u64);

/// A YAML value with places.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<(Place, Tree)>),
    /// Key, its place, value.
    Map(Vec<(String, Place, Tree)>),
}

/// A document: an object, or an entry of a List.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// Which of the documents that hold anything, from 1.
    pub(super) number: usize,
    /// Where it begins.
    pub(super) place: Place,
    pub(super) tree: Tree,
    pub(super) object: Value,
}

/// A text that is no YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub(super) place: Option<Place>,
    pub(super) reason: String,
}

/// Room for the deepest text that the parser takes (64 levels, each with many calls when unoptimized).
const ROOM: usize = 32 << 20;

/// Reads the documents of a text. Empty ones are left out, a `List` gives its items.
pub(super) fn read(text: &str) -> Result<Vec<Document>, Unreadable> {
    let no_room = || Unreadable { place: None, reason: "it is nested too deeply for the memory at hand".to_owned() };
    thread::scope(|scope| {
        let reader = thread::Builder::new().stack_size(ROOM).spawn_scoped(scope, || read_here(text));
        reader.map_err(|_| no_room())?.join().map_err(|_| no_room())?
    })
}

fn read_here(text: &str) -> Result<Vec<Document>, Unreadable> {
    let documents: Vec<Spanned<Tree>> = serde_saphyr::from_multiple(text).map_err(|error| {
        let place = error.location().map(|at| (at.line(), at.column()));
        let message = error.to_string();
        let reason = message.lines().next().unwrap_or_default().trim_start_matches("error: ").trim_end().to_owned();
        Unreadable { place, reason }
    })?;
    let mut found = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        let place = at(&document);
        let number = index + 1;
        let object = document.value.value();
        let is_list = object.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
        match (object, document.value) {
            (Value::Null, _) => {}
            (Value::Object(map), Tree::Map(fields)) if is_list && map.get("items").is_some_and(Value::is_array) => {
                let items = fields.into_iter().find(|(name, ..)| name == "items");
                if let Some((_, _, Tree::List(items))) = items {
                    found.extend(items.into_iter().map(|(place, tree)| Document { number, place, object: tree.value(), tree }));
                }
            }
            (object, tree) => found.push(Document { number, place, tree, object }),
        }
    }
    Ok(found)
}

fn at<T>(spanned: &Spanned<T>) -> Place {
    (spanned.referenced.line(), spanned.referenced.column())
}

impl Tree {
    /// The value without places.
    pub(super) fn value(&self) -> Value {
        match self {
            Tree::Null => Value::Null,
            Tree::Bool(value) => Value::Bool(*value),
            Tree::Number(value) => Value::Number(value.clone()),
            Tree::Text(text) => Value::String(text.clone()),
            Tree::List(items) => Value::Array(items.iter().map(|(_, item)| item.value()).collect()),
            Tree::Map(fields) => Value::Object(fields.iter().map(|(name, _, value)| (name.clone(), value.value())).collect::<Map<_, _>>()),
        }
    }

    /// The place of a path such as `spec.devices[0].attributes[a.b/c]`, or of the nearest field above that is there. `exactly` may
    /// be missing and `basic` in between, as in older versions.
    pub(super) fn place(&self, path: &str) -> Option<Place> {
        let rest = path.strip_prefix('.').unwrap_or(path);
        if rest.is_empty() {
            return None;
        }
        match self {
            // Go's messages leave the number out: any entry that has the field.
            Tree::List(items) if !rest.starts_with('[') => items.iter().find_map(|(_, item)| item.place(rest)),
            Tree::List(items) => {
                let (number, rest) = rest.strip_prefix('[')?.split_once(']')?;
                let (place, item) = items.get(number.parse::<usize>().ok()?)?;
                item.place(rest).or(Some(*place))
            }
            Tree::Map(fields) => {
                let mut best: Option<(usize, Place, &Tree, &str)> = None;
                for (name, place, value) in fields {
                    let bracketed = rest.strip_prefix('[').and_then(|rest| rest.strip_prefix(name.as_str())?.strip_prefix(']'));
                    let dotted = rest.strip_prefix(name.as_str()).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
                    if let Some(below) = bracketed.or(dotted)
                        && best.is_none_or(|(length, ..)| name.len() > length)
                    {
                        best = Some((name.len(), *place, value, below));
                    }
                }
                if let Some((_, place, value, below)) = best {
                    return value.place(below).or(Some(place));
                }
                if let Some(below) = rest.strip_prefix("exactly") {
                    return self.place(below);
                }
                fields.iter().find(|(name, ..)| name == "basic").and_then(|(_, _, basic)| basic.place(rest))
            }
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Number::from_f64(value).map_or(Tree::Null, Tree::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<Tree>>()? {
            items.push((at(&item), item.value));
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let value = map.next_value::<Tree>()?;
            let place = at(&key);
            fields.push((key.value, place, value));
        }
        Ok(Tree::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn every_field_has_its_place() {
        let text = "# comment\nkind: A\nspec:\n  list:\n  - name: x\n    attributes: {a.b/c: {int: 1}}\n---\n---\nkind: List\nitems:\n- kind: B\n- {kind: C, basic: {x: 1}}\n";
        let documents = read(text).expect("reads");
        let kinds: Vec<&str> = documents.iter().filter_map(|d| d.object["kind"].as_str()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        for (path, place) in [
            ("spec", Some((3, 1))),
            ("spec.list[0]", Some((5, 5))),
            ("spec.list[0].name", Some((5, 5))),
            ("spec.list[0].attributes[a.b/c].int", Some((6, 26))),
            ("spec.list[0].attributes.a.b/c", Some((6, 18))),
            ("spec.list[7].name", Some((4, 3))),
            ("spec.exactly.list", Some((4, 3))),
            ("nothing", None),
        ] {
            assert_eq!(documents[0].tree.place(path), place, "{path}");
        }
        assert_eq!(documents[2].tree.place("x"), Some((12, 21)));
        assert_eq!((documents[1].number, documents[1].place), (2, (11, 3)));
    }

    #[test]
    fn what_is_no_yaml_has_a_place_too() {
        let error = read("a: [1\nb: }").expect_err("no YAML");
        assert!(error.place.is_some() && !error.reason.is_empty(), "{error:?}");
    }
}
