//! `/api`, `/apis`, `/api/v1`, `/apis/GROUP`, `/apis/GROUP/VERSION`, plain and aggregated, from the resource table.

use super::document::Document;

/// The answer to a GET of a discovery path, `None` where the path is none (the caller answers 404).
/// `accept` is the request's `Accept` header, `host` its `Host` (for `serverAddressByClientCIDRs`).
#[must_use]
pub fn serve(path: &str, accept: &str, host: &str) -> Option<Document> {
    let _ = (path, accept, host);
    None
}
