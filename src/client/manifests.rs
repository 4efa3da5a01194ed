//! YAML and JSON manifests: several documents, lists, clear errors with line and column.

use serde_json::Value;

use crate::client::ClientError;

/// Reads the objects of a manifest. Empty documents are skipped, a `List` gives its items.
///
/// # Errors
/// When it is not YAML, or a document is not a Kubernetes object.
pub fn read(file: &str, text: &str) -> Result<Vec<Value>, ClientError> {
    let wrong = |reason: String| ClientError::Manifest { file: file.to_owned(), reason };
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| wrong(plain(&error.to_string())))?;
    let mut objects = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        if document.is_null() {
            continue;
        }
        let number = index + 1;
        let Some(map) = document.as_object() else {
            return Err(wrong(format!("document {number} is not an object with apiVersion and kind")));
        };
        for field in ["apiVersion", "kind"] {
            if map.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                return Err(wrong(format!("document {number} has no {field}")));
            }
        }
        if map["kind"].as_str().is_some_and(|k| k.ends_with("List")) && map.get("items").is_some_and(Value::is_array) {
            objects.extend(map["items"].as_array().into_iter().flatten().cloned());
        } else {
            objects.push(document);
        }
    }
    Ok(objects)
}

/// The parser's own words without its heading and its end of line.
fn plain(text: &str) -> String {
    text.trim_start_matches("error: ").trim_end().trim_end_matches('|').trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn several_documents_and_lists() {
        let text = "# only a comment\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n";
        let names: Vec<String> = read("x.yaml", text).expect("reads").iter().map(|o| o["metadata"]["name"].to_string()).collect();
        assert_eq!(names, ["\"a\"", "\"b\""]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in
            [("a: [", "line 1"), ("- 1\n", "document 1 is not an object"), ("kind: Pod\n", "document 1 has no apiVersion")]
        {
            let error = read("x.yaml", text).expect_err(text).to_string();
            assert!(error.starts_with("x.yaml: ") && error.contains(expected), "{text}: {error}");
        }
    }
}
