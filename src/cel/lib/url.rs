//! URLs as Go's `net/url` reads them (apiserver/pkg/cel/library/urls.go).

use std::fmt;
use std::sync::Arc;

use super::Native;
use crate::cel::value::{Fault, Map, Value};
use crate::model::semver::quoted;

/// A parsed URL. Parts are kept as written; hosts unescaped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Url {
    scheme: String,
    opaque: String,
    user: Option<String>,
    host: String,
    path: String,
    query: Option<String>,
    fragment: Option<String>,
}

impl Url {
    /// Reads an absolute URL or an absolute path (`ParseRequestURI`, then `Parse`).
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|reason| format!("parse {}: {reason}", quoted(text)))
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.chars().any(|c| (c as u32) < 0x20 || c as u32 == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        let mut url = Self::default();
        if text == "*" {
            url.path = text.to_owned();
            return Ok(url);
        }
        let mut rest = text;
        if let Some((scheme, behind)) = scheme(text)? {
            url.scheme = scheme.to_ascii_lowercase();
            rest = behind;
        }
        // The fragment counts for the parts, though a request has none.
        if let Some((before, fragment)) = rest.split_once('#') {
            rest = before;
            url.fragment = Some(fragment.to_owned());
        }
        if let Some((before, query)) = rest.split_once('?') {
            rest = before;
            url.query = Some(query.to_owned());
        }
        if !rest.starts_with('/') {
            if url.scheme.is_empty() {
                return Err("invalid URI for request".to_owned());
            }
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if !url.scheme.is_empty()
            && let Some(authority) = rest.strip_prefix("//")
        {
            let end = authority.find('/').unwrap_or(authority.len());
            let (authority, path) = authority.split_at(end);
            url.authority(authority)?;
            rest = path;
        }
        check_escapes(rest)?;
        url.path = rest.to_owned();
        Ok(url)
    }

    fn authority(&mut self, authority: &str) -> Result<(), String> {
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                let good = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
                if !user.chars().all(good) {
                    return Err("net/url: invalid userinfo".to_owned());
                }
                self.user = Some(user.to_owned());
                host
            }
            None => authority,
        };
        let port = match host.strip_prefix('[') {
            Some(inner) => match inner.rsplit_once(']') {
                Some((_, port)) => port,
                None => return Err("missing ']' in host".to_owned()),
            },
            None => host.find(':').map_or("", |at| &host[at..]),
        };
        let good_port = port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        if !good_port {
            return Err(format!("invalid port {} after host", quoted(port)));
        }
        check_escapes(host)?;
        if let Some(bad) = host.chars().find(|c| " \"\\^`{|}<>".contains(*c)) {
            return Err(format!("invalid character {} in host name", quoted(&bad.to_string())));
        }
        self.host = host.to_owned();
        Ok(())
    }

    fn hostname(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|inner| inner.rsplit_once(']')) {
            Some((inner, _)) => inner,
            None => self.host.split(':').next().unwrap_or_default(),
        }
    }

    fn port(&self) -> &str {
        let behind = self.host.rsplit_once(']').map_or(self.host.as_str(), |(_, behind)| behind);
        behind.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// The path as written, or encoded if it has characters that a path must not have.
    fn escaped_path(&self) -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b);
        if self.path.bytes().all(|b| plain(b) || b"!'()*[]%".contains(&b)) {
            return self.path.clone();
        }
        let decoded = unescape_bytes(&self.path, false).unwrap_or_default();
        decoded.iter().map(|b| if plain(*b) { char::from(*b).to_string() } else { format!("%{b:02X}") }).collect()
    }

    fn queries(&self) -> Value {
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for pair in self.query.iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(key), Some(value)) = (unescape(key), unescape(value)) else { continue };
            match found.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value),
                None => found.push((key, vec![value])),
            }
        }
        Value::Map(Arc::new(Map::new(found.into_iter().map(|(key, values)| (Value::string(&key), Value::strings(values))).collect())))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if !self.opaque.is_empty() {
            f.write_str(&self.opaque)?;
        } else {
            if !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some() {
                f.write_str(if self.host.is_empty() && self.path.is_empty() { "" } else { "//" })?;
                if let Some(user) = &self.user {
                    write!(f, "{user}@")?;
                }
                f.write_str(&self.host)?;
            }
            f.write_str(&self.path)?;
        }
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        if let Some(fragment) = &self.fragment {
            write!(f, "#{fragment}")?;
        }
        Ok(())
    }
}

fn scheme(text: &str) -> Result<Option<(&str, &str)>, String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok(Some((&text[..at], &text[at + 1..]))),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn check_escapes(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let good = rest.as_bytes().get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        if !good {
            let bad: String = rest[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quoted(&bad)));
        }
        rest = &rest[at + 3..];
    }
    Ok(())
}

fn unescape(text: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&unescape_bytes(text, true)?).into_owned())
}

fn unescape_bytes(text: &str, query: bool) -> Option<Vec<u8>> {
    check_escapes(text).ok()?;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' if query => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    Some(bytes)
}

pub(super) fn native(overload: &str) -> Option<Native> {
    Some(match overload {
        "string_to_url" => |args| match args {
            [Value::String(text)] => match Url::parse(text) {
                Ok(url) => Ok(Value::Url(Arc::new(url))),
                Err(reason) => Err(Fault::error(format!("URL parse error during conversion from string: {reason}"))),
            },
            _ => Err(Fault::no_such_overload()),
        },
        "is_url_string" => |args| match args {
            [Value::String(text)] => Ok(Value::Bool(Url::parse(text).is_ok())),
            _ => Err(Fault::no_such_overload()),
        },
        "url_get_scheme" => |args| url(args, |url| Value::string(&url.scheme)),
        "url_get_host" => |args| url(args, |url| Value::string(&url.host)),
        "url_get_hostname" => |args| url(args, |url| Value::string(url.hostname())),
        "url_get_port" => |args| url(args, |url| Value::string(url.port())),
        "url_get_escaped_path" => |args| url(args, |url| Value::string(&url.escaped_path())),
        "url_get_query" => |args| url(args, Url::queries),
        _ => return None,
    })
}

fn url(args: &[Value], get: impl Fn(&Url) -> Value) -> Result<Value, Fault> {
    match args {
        [Value::Url(url)] => Ok(get(url)),
        _ => Err(Fault::no_such_overload()),
    }
}
