//! Answers: bodies, headers, lists and objects in the form that was asked for.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WARNING};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::negotiate::{Format, Shape};
use crate::embedded::api::{Object, Page, Resource, Status, meta, table};

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An answer.
pub(super) type Answer = Response<Body>;

/// A body of one piece.
pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

/// An answer with the headers that all answers have.
pub(super) fn answer(code: u16, content_type: &str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Ok(value) = HeaderValue::from_str(content_type) {
        headers.insert(CONTENT_TYPE, value);
    }
    answer
}

/// An answer of plain text, as `/healthz` and a plain 404 are.
pub(super) fn text(code: u16, body: &'static str) -> Answer {
    let mut answer = answer(code, "text/plain; charset=utf-8", full(body));
    answer.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
}

/// 204.
pub(super) fn nothing() -> Answer {
    let mut answer = answer(204, "", Empty::new().boxed_unsync());
    answer.headers_mut().remove(CONTENT_TYPE);
    answer
}

/// A value as JSON or YAML.
pub(super) fn value<T: Serialize>(code: u16, format: &Format, value: &T) -> Answer {
    if format.yaml {
        return match serde_saphyr::to_string(value) {
            Ok(text) => answer(code, "application/yaml", full(text)),
            Err(error) => failure(&Status::internal(error)),
        };
    }
    let bytes = if format.pretty { serde_json::to_vec_pretty(value) } else { serde_json::to_vec(value) };
    match bytes {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            answer(code, "application/json", full(bytes))
        }
        Err(error) => failure(&Status::internal(error)),
    }
}

/// A Status; always JSON.
pub(super) fn failure(status: &Status) -> Answer {
    let mut body = status.body().to_string();
    body.push('\n');
    let mut answer = answer(status.code, "application/json", full(body));
    if let Some(seconds) = status.details["retryAfterSeconds"].as_i64()
        && let Ok(value) = HeaderValue::from_str(&seconds.to_string())
    {
        answer.headers_mut().insert(http::header::RETRY_AFTER, value);
    }
    answer
}

/// Adds `Warning` headers (RFC 7234, code 299).
pub(super) fn warn(answer: &mut Answer, warnings: &[String]) {
    for text in warnings {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let printable: String = quoted.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{printable}\"")) {
            answer.headers_mut().append(WARNING, value);
        }
    }
}

/// One object in the form that was asked for.
pub(super) fn object(code: u16, format: &Format, resource: &'static Resource, object: &Object, now: jiff::Timestamp) -> Answer {
    match &format.shape {
        Shape::Object => value(code, format, object),
        shape => value(code, format, &shaped(shape, resource, object, true, now)),
    }
}

/// An object as a Table or as its metadata.
pub(super) fn shaped(shape: &Shape, resource: &'static Resource, object: &Object, columns: bool, now: jiff::Timestamp) -> Value {
    match shape {
        Shape::Object => (**object).clone(),
        Shape::Metadata(version) => partial(object, version),
        Shape::Table(version, include) => {
            let metadata = json!({"resourceVersion": meta::text(object, "resourceVersion")});
            table::render(resource, version, std::slice::from_ref(object), metadata, *include, columns, now)
        }
    }
}

fn partial(object: &Value, version: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": object["metadata"]})
}

/// A page of a list.
pub(super) fn list(format: &Format, resource: &'static Resource, page: &Page, now: jiff::Timestamp) -> Answer {
    match &format.shape {
        Shape::Object => {
            let items: Vec<Item<'_>> = page.items.iter().map(|object| Item(object)).collect();
            let list =
                TypedList { kind: format!("{}List", resource.kind), api_version: resource.api_version(), metadata: page.metadata(), items };
            value(200, format, &list)
        }
        Shape::Metadata(version) => {
            let items: Vec<Value> = page.items.iter().map(|object| partial(object, version)).collect();
            let list = json!({
                "kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": page.metadata(), "items": items,
            });
            value(200, format, &list)
        }
        Shape::Table(version, include) => {
            value(200, format, &table::render(resource, version, &page.items, page.metadata(), *include, true, now))
        }
    }
}

#[derive(Serialize)]
struct TypedList<'a> {
    kind: String,
    #[serde(rename = "apiVersion")]
    api_version: String,
    metadata: Value,
    items: Vec<Item<'a>>,
}

/// An object in a list: the list says what it is.
struct Item<'a>(&'a Value);

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(fields) = self.0.as_object() else { return self.0.serialize(serializer) };
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in fields.iter().filter(|(name, _)| *name != "kind" && *name != "apiVersion") {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
