//! Semantic versions as device attributes carry them.
//!
//! Parsing and precedence are those of `github.com/blang/semver/v4` (which Kubernetes uses), the tolerant form is that
//! of Kubernetes' own CEL function `semver(text, true)` (`apiserver/pkg/cel/library/semverlib.go`).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A text that is not a version. `Display` is the message of the Go library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SemverError {
    message: String,
}

impl SemverError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// One part of a pre-release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identifier {
    /// Digits only: compared as a number, and lower than any text.
    Number(u64),
    /// Anything else: compared byte by byte.
    Text(String),
}

/// A version. Order and equality ignore the build metadata.
#[derive(Clone, Debug)]
pub struct Semver {
    /// First part; up to u64, though CEL shows it as int and wraps.
    pub major: u64,
    /// Second part.
    pub minor: u64,
    /// Third part.
    pub patch: u64,
    /// What follows `-`.
    pub pre: Vec<Identifier>,
    /// What follows `+`.
    pub build: Vec<String>,
}

impl Semver {
    /// Parses strictly: three numbers without leading zeros.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        if text.is_empty() {
            return Err(SemverError::new("Version string empty"));
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(SemverError::new("No Major.Minor.Patch elements found"));
        };
        let major = number(major, "major", "Major")?;
        let minor = number(minor, "minor", "Minor")?;
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let patch = number(patch, "patch", "Patch")?;
        let pre = pre.map(|pre| pre.split('.').map(identifier).collect()).transpose()?.unwrap_or_default();
        let build = build.map(|build| build.split('.').map(metadata).collect()).transpose()?.unwrap_or_default();
        Ok(Self { major, minor, patch, pre, build })
    }

    /// Parses tolerantly: a leading `v` and leading zeros are dropped, missing parts are 0. White space is not trimmed.
    pub fn parse_normalized(text: &str) -> Result<Self, SemverError> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err(SemverError::new("short version cannot contain PreRelease/Build meta data"));
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

fn number(text: &str, name: &str, title: &str) -> Result<u64, SemverError> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(SemverError::new(format!("Invalid character(s) found in {name} number {}", quoted(text))));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(SemverError::new(format!("{title} number must not contain leading zeroes {}", quoted(text))));
    }
    parse_u64(text)
}

fn parse_u64(text: &str) -> Result<u64, SemverError> {
    text.parse().map_err(|_| {
        let reason = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        SemverError::new(format!("strconv.ParseUint: parsing {}: {reason}", quoted(text)))
    })
}

fn identifier(text: &str) -> Result<Identifier, SemverError> {
    if text.is_empty() {
        return Err(SemverError::new("Prerelease is empty"));
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(SemverError::new(format!("Numeric PreRelease version must not contain leading zeroes {}", quoted(text))));
        }
        return parse_u64(text).map(Identifier::Number);
    }
    if text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Ok(Identifier::Text(text.to_owned()));
    }
    Err(SemverError::new(format!("Invalid character(s) found in prerelease {}", quoted(text))))
}

fn metadata(text: &str) -> Result<String, SemverError> {
    if text.is_empty() {
        return Err(SemverError::new("Build meta data is empty"));
    }
    if text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Ok(text.to_owned());
    }
    Err(SemverError::new(format!("Invalid character(s) found in build meta data {}", quoted(text))))
}

/// A text as Go's `%q` shows it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if is_unprintable(c) && (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if is_unprintable(c) => out.push_str(&format!("\\U{:08x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Characters that Go does not print: controls, formats, private use, and spaces other than the ASCII one.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}')
        || matches!(c, '\u{e0001}'..='\u{e007f}' | '\u{f0000}'..)
}

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch)).then_with(|| {
            match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.pre.cmp(&other.pre),
            }
        })
    }
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Semver {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Semver {}

impl FromStr for Semver {
    type Err = SemverError;
    fn from_str(text: &str) -> Result<Self, SemverError> {
        Self::parse(text)
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (index, part) in self.pre.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Text(text) => f.write_str(text)?,
            }
        }
        for (index, part) in self.build.iter().enumerate() {
            f.write_str(if index == 0 { "+" } else { "." })?;
            f.write_str(part)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn orders_by_precedence() {
        let ordered = [
            "0.0.1",
            "0.1.0",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0",
            "1.0.10",
            "1.2.0",
            "18446744073709551615.0.0",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                let (a, b) = (Semver::parse(a).expect("a version"), Semver::parse(b).expect("a version"));
                assert_eq!(a.cmp(&b), i.cmp(&j), "{a} and {b}");
            }
        }
        assert_eq!(Semver::parse("1.0.0+a"), Semver::parse("1.0.0+b"), "build metadata has no precedence");
    }

    #[test]
    fn refuses_with_the_words_of_the_library() {
        for (text, message) in [
            ("", "Version string empty"),
            ("1.2", "No Major.Minor.Patch elements found"),
            ("v1.2.3", "Invalid character(s) found in major number \"v1\""),
            ("01.2.3", "Major number must not contain leading zeroes \"01\""),
            ("550.127.08", "Patch number must not contain leading zeroes \"08\""),
            ("1.2.3.4", "Invalid character(s) found in patch number \"3.4\""),
            ("1.2.3-", "Prerelease is empty"),
            ("1.2.3-01", "Numeric PreRelease version must not contain leading zeroes \"01\""),
            ("1.2.3-a_b", "Invalid character(s) found in prerelease \"a_b\""),
            ("1.2.3+", "Build meta data is empty"),
            ("1..3", "strconv.ParseUint: parsing \"\": invalid syntax"),
            ("99999999999999999999.0.0", "strconv.ParseUint: parsing \"99999999999999999999\": value out of range"),
            (" 1.2.3", "Invalid character(s) found in major number \" 1\""),
        ] {
            assert_eq!(Semver::parse(text).map(|v| v.to_string()), Err(SemverError::new(message)), "{text}");
        }
    }

    #[test]
    fn normalizes() {
        for (text, normal) in
            [("v1", "1.0.0"), ("9.0", "9.0.0"), ("550.127.08", "550.127.8"), ("00.1.0-rc", "0.1.0-rc"), ("v1.2.3+b", "1.2.3+b")]
        {
            assert_eq!(Semver::parse_normalized(text).map(|v| v.to_string()), Ok(normal.to_owned()), "{text}");
        }
        for text in ["", " 1.2.3", "570.86.15.1", "1-rc", "vv1", "1.2.3.4"] {
            assert!(Semver::parse_normalized(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_prints_the_same(text in "[0-9]{1,3}\\.[0-9]{1,2}\\.[0-9]{1,2}(-[0-9a-z.-]{1,6})?(\\+[0-9a-z.]{1,6})?") {
            if let Ok(version) = Semver::parse(&text) {
                prop_assert_eq!(version.to_string(), text);
            }
        }

        #[test]
        fn any_string_is_answered(text in "\\PC{0,30}") {
            let _ = (Semver::parse(&text), Semver::parse_normalized(&text));
        }
    }
}
