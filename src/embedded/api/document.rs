//! A ready answer of the discovery and OpenAPI endpoints.

use bytes::Bytes;

/// A body with its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// `Content-Type`.
    pub content_type: String,
    /// `ETag`, with its quotes.
    pub etag: Option<String>,
    /// Further headers, such as `Cache-Control` and `Vary`.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}
