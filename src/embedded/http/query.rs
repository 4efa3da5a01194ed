//! Percent-encoding and query parameters.

use std::time::Duration;

use crate::embedded::api::Status;

/// Decodes `%XX`; with `plus`, also `+` as a space (queries). `None` when the result is no UTF-8.
pub(super) fn decode(text: &str, plus: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let hex = (*first == b'%').then(|| more.get(..2)).flatten().and_then(|digits| std::str::from_utf8(digits).ok());
        match hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(if plus && *first == b'+' { b' ' } else { *first });
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// The parameters of a query, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Some((decode(name, true)?, decode(value, true)?))
        };
        Query { pairs: text.split('&').filter(|part| !part.is_empty()).filter_map(pair).collect() }
    }

    /// The first value of a parameter, empty when there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// A boolean as the API server reads it: everything but `false` and `0` is true, the empty value too.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A whole number.
    ///
    /// # Errors
    /// 400 in Go's words.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(value) = self.get(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        let quoted = serde_json::Value::from(value);
        value.parse().map(Some).map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {quoted}: invalid syntax")))
    }

    /// A number of seconds, 0 or less being none.
    ///
    /// # Errors
    /// 400 in Go's words.
    pub(super) fn seconds(&self, name: &str) -> Result<Option<Duration>, Status> {
        let seconds = self.number(name)?.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs))
    }
}

#[cfg(test)]
mod tests {
    use super::{Query, decode};

    #[test]
    fn parameters() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&limit=5&watch&follow=false&x=a+b&y=%zz&dryRun=All&dryRun=All");
        assert_eq!(query.text("labelSelector"), "a=b,c");
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.flag("watch"), Some(true));
        assert_eq!(query.flag("follow"), Some(false));
        assert_eq!(query.flag("none"), None);
        assert_eq!(query.text("x"), "a b");
        assert_eq!(query.text("y"), "%zz");
        assert_eq!(query.all("dryRun").count(), 2);
        let error = Query::parse("limit=x").number("limit").unwrap_err();
        assert_eq!(error.message, "strconv.ParseInt: parsing \"x\": invalid syntax");
        assert_eq!(decode("a+b%2Fc", false).as_deref(), Some("a+b/c"));
        assert_eq!(decode("%ff", false), None);
    }
}
