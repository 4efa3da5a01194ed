//! JSON as values: whole numbers are int (or double beyond its range), all others double.

use serde_json::Value as Json;

use super::{Map, Value};

impl From<&Json> for Value {
    fn from(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(value) => Self::Int(value),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::string(text),
            Json::Array(items) => Self::list(items.iter().map(Self::from).collect()),
            Json::Object(fields) => {
                let entries = fields.iter().map(|(key, value)| (Self::string(key), Self::from(value))).collect();
                Self::Map(std::sync::Arc::new(Map::new(entries)))
            }
        }
    }
}
