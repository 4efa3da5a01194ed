//! Requests by path, for what has no typed call: discovery, tables, logs.

use http::Request;
use kube::Client;
use serde_json::Value;

use crate::client::ClientError;

/// Asks for server-side printing.
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/// Asks for aggregated discovery.
pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A GET that answers JSON.
///
/// # Errors
/// When the server cannot be reached, refuses, or answers something else.
pub async fn get_json(client: &Client, path: &str, accept: &str) -> Result<Value, ClientError> {
    let request = Request::get(path)
        .header(http::header::ACCEPT, accept)
        .body(Vec::new())
        .map_err(|error| ClientError::Answer { what: path.to_owned(), reason: error.to_string() })?;
    Ok(client.request::<Value>(request).await?)
}

/// A GET that answers text.
///
/// # Errors
/// As [`get_json`].
pub async fn get_text(client: &Client, path: &str) -> Result<String, ClientError> {
    let request =
        Request::get(path).body(Vec::new()).map_err(|error| ClientError::Answer { what: path.to_owned(), reason: error.to_string() })?;
    Ok(client.request_text(request).await?)
}

/// Escapes a text for use in a query.
#[must_use]
pub fn query_escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
