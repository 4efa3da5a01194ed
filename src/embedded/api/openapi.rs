//! `/openapi/v3`: the index and one document per group and version.

use super::document::Document;

/// The answer to a GET below `/openapi`, `None` where there is no such document.
#[must_use]
pub fn serve(path: &str, accept: &str) -> Option<Document> {
    let _ = (path, accept);
    None
}
