//! Regular expressions: `matches`, `find` and `findAll` with the syntax of RE2 as far as the `regex` crate shares it.

use std::sync::Arc;

use super::{Native, re2};
use crate::cel::value::{Fault, Value};

/// A compiled pattern, compiled once where it is a literal.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Arc<regex::Regex>);

impl Pattern {
    /// Compiles; the error is worded as Go's up to the part that differs.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        let translated = re2::translate(pattern).map_err(|reason| format!("error parsing regexp: {reason}"))?;
        regex::RegexBuilder::new(&translated)
            .size_limit(8 << 20)
            .dfa_size_limit(4 << 20)
            .build()
            .map(|regex| Self(Arc::new(regex)))
            .map_err(|error| {
                format!("error parsing regexp: {}", error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: "))
            })
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    pub(crate) fn find(&self, text: &str) -> Value {
        Value::string(self.0.find(text).map_or("", |found| found.as_str()))
    }

    pub(crate) fn find_all(&self, text: &str, count: i64) -> Value {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Value::strings(self.0.find_iter(text).take(count).map(|found| found.as_str()))
    }

    /// Runs the function named `function` with this pattern.
    pub(crate) fn run(&self, function: &str, args: &[Value]) -> Result<Value, Fault> {
        match (function, args) {
            ("matches", [Value::String(text), _]) => Ok(Value::Bool(self.is_match(text))),
            ("find", [Value::String(text), _]) => Ok(self.find(text)),
            ("findAll", [Value::String(text), _]) => Ok(self.find_all(text, -1)),
            ("findAll", [Value::String(text), _, Value::Int(count)]) => Ok(self.find_all(text, *count)),
            _ => Err(Fault::no_such_overload()),
        }
    }
}

pub(super) fn matches(args: &[Value]) -> Result<Value, Fault> {
    match args {
        [Value::String(text), Value::String(pattern)] => match Pattern::new(pattern) {
            Ok(pattern) => Ok(Value::Bool(pattern.is_match(text))),
            Err(message) => Err(Fault::error(message)),
        },
        [Value::String(_), _] => Err(Fault::no_such_overload()),
        _ => Err(super::numbers::unsupported("matches", args)),
    }
}

pub(super) fn native(overload: &str) -> Option<Native> {
    Some(match overload {
        "string_find_string" => |args| dynamic("find", args),
        "string_find_all_string" | "string_find_all_string_int" => |args| dynamic("findAll", args),
        _ => return None,
    })
}

fn dynamic(function: &str, args: &[Value]) -> Result<Value, Fault> {
    match args.get(1) {
        Some(Value::String(pattern)) => {
            Pattern::new(pattern).map_err(|message| Fault::error(format!("Illegal regex: {message}")))?.run(function, args)
        }
        _ => Err(Fault::no_such_overload()),
    }
}
