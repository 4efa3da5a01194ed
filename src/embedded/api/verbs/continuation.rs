//! Continue tokens: base64url without padding of `{"v":"meta.k8s.io/v1","rv":N,"start":"/KEY\u0000"}`, the API
//! server's own form (`k8s.io/apiserver/pkg/storage/continue.go`).

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

use super::super::Status;

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Continue {
    /// The state that the list shows; `None` (-1 in the token) for whatever there is.
    pub(super) revision: Option<u64>,
    /// The first key of the page, relative to the list's namespace, with a slash before it.
    pub(super) key: String,
}

impl Continue {
    pub(super) fn token(&self) -> String {
        let revision = self.revision.map_or_else(|| "-1".to_owned(), |revision| revision.to_string());
        let start = Value::from(self.key.as_str());
        BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"v":"meta.k8s.io/v1","rv":{revision},"start":{start}}}"#))
    }

    pub(super) fn parse(token: &str) -> Result<Self, Status> {
        let refused = |why: String| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).map_err(|error| refused(format!("illegal base64 data: {error}")))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| refused(complaint(&bytes, &error)))?;
        if value["v"] != "meta.k8s.io/v1" {
            return Err(refused(format!("server does not recognize this encoded version {}", value["v"])));
        }
        let revision = match value["rv"].as_i64() {
            Some(0) | None => return Err(refused("incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned())),
            Some(revision) => u64::try_from(revision).ok(),
        };
        let key = value["start"].as_str().unwrap_or_default();
        if key.is_empty() {
            return Err(refused("encoded start key empty (version meta.k8s.io/v1)".to_owned()));
        }
        if key.split('/').any(|part| part.trim_end_matches('\0') == "..") {
            return Err(refused(format!("encoded start key {key} is not valid")));
        }
        Ok(Continue { revision, key: key.to_owned() })
    }
}

/// Go's words for the commonest fault.
fn complaint(bytes: &[u8], error: &serde_json::Error) -> String {
    match bytes.first().filter(|byte| !b"{[\"".contains(byte)) {
        Some(first) => format!("invalid character '{}' looking for beginning of value", char::from(*first)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::Continue;

    #[test]
    fn tokens_are_the_recorded_ones() {
        // Scenario 33, steps 2 and 21.
        let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mzk0MSwic3RhcnQiOiIvYzJcdTAwMDAifQ";
        let parsed = Continue::parse(token).unwrap();
        assert_eq!(parsed, Continue { revision: Some(3941), key: "/c2\0".to_owned() });
        assert_eq!(parsed.token(), token);
        let old = Continue { revision: None, key: "c2\0".to_owned() };
        assert_eq!(old.token(), "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYzJcdTAwMDAifQ");
        assert_eq!(Continue::parse(&old.token()).unwrap(), old);
    }

    #[test]
    fn broken_tokens_are_refused() {
        let message = |token: &str| Continue::parse(token).unwrap_err().message;
        assert_eq!(
            message("abc"),
            "invalid continue token: continue key is not valid: invalid character 'i' looking for beginning of value"
        );
        assert!(message("$$$").contains("illegal base64 data"));
        assert!(message("e30").contains("does not recognize this encoded version"));
    }
}
