//! Strings: the standard functions and version 2 of the strings extension (ext/strings.go). Positions count characters.

use super::{Native, text_format};
use crate::cel::value::{Fault, Value};

type Answer = Result<Value, Fault>;

pub(super) fn native(overload: &str) -> Option<Native> {
    Some(match overload {
        "contains_string" => |args| two(args, |text, other| Ok(Value::Bool(text.contains(other)))),
        "starts_with_string" => |args| two(args, |text, other| Ok(Value::Bool(text.starts_with(other)))),
        "ends_with_string" => |args| two(args, |text, other| Ok(Value::Bool(text.ends_with(other)))),
        "string_char_at_int" => |args| match args {
            [Value::String(text), Value::Int(index)] => char_at(text, *index),
            _ => Err(Fault::no_such_overload()),
        },
        "string_index_of_string" => |args| two(args, |text, wanted| index_of(text, wanted, 0)),
        "string_index_of_string_int" => |args| match args {
            [Value::String(text), Value::String(wanted), Value::Int(from)] => index_of(text, wanted, *from),
            _ => Err(Fault::no_such_overload()),
        },
        "string_last_index_of_string" => |args| two(args, last_index_of),
        "string_last_index_of_string_int" => |args| match args {
            [Value::String(text), Value::String(wanted), Value::Int(from)] => last_index_of_from(text, wanted, *from),
            _ => Err(Fault::no_such_overload()),
        },
        "string_lower_ascii" => |args| one(args, str::to_ascii_lowercase),
        "string_upper_ascii" => |args| one(args, str::to_ascii_uppercase),
        "string_trim" => |args| one(args, |text| text.trim_matches(is_space).to_owned()),
        "strings_quote" => |args| one(args, quote),
        "string_replace_string_string" | "string_replace_string_string_int" => |args| match args {
            [Value::String(text), Value::String(old), Value::String(new)] => replace(text, old, new, -1),
            [Value::String(text), Value::String(old), Value::String(new), Value::Int(count)] => replace(text, old, new, *count),
            _ => Err(Fault::no_such_overload()),
        },
        "string_split_string" => |args| two(args, |text, separator| Ok(split(text, separator, -1))),
        "string_split_string_int" => |args| match args {
            [Value::String(text), Value::String(separator), Value::Int(count)] => Ok(split(text, separator, *count)),
            _ => Err(Fault::no_such_overload()),
        },
        "string_substring_int" => |args| match args {
            [Value::String(text), Value::Int(start)] => {
                let length = text.chars().count() as i64;
                substring(text, *start, length.max(*start), *start)
            }
            _ => Err(Fault::no_such_overload()),
        },
        "string_substring_int_int" => |args| match args {
            [Value::String(_), Value::Int(start), Value::Int(end)] if start > end => {
                Err(Fault::error(format!("invalid substring range. start: {start}, end: {end}")))
            }
            [Value::String(text), Value::Int(start), Value::Int(end)] => substring(text, *start, *end, *end),
            _ => Err(Fault::no_such_overload()),
        },
        "list_join" => |args| join(args, ""),
        "list_join_string" => |args| match args {
            [list, Value::String(separator)] => join(std::slice::from_ref(list), separator),
            _ => Err(Fault::no_such_overload()),
        },
        "string_format" => |args| match args {
            [Value::String(template), Value::List(values)] => text_format::format(template, values).map(|text| Value::String(text.into())),
            _ => Err(Fault::no_such_overload()),
        },
        _ => return None,
    })
}

fn one(args: &[Value], get: impl Fn(&str) -> String) -> Answer {
    match args {
        [Value::String(text)] => Ok(Value::String(get(text).into())),
        _ => Err(Fault::no_such_overload()),
    }
}

fn two(args: &[Value], get: impl Fn(&str, &str) -> Answer) -> Answer {
    match args {
        [Value::String(a), Value::String(b)] => get(a, b),
        _ => Err(Fault::no_such_overload()),
    }
}

/// White space as Go's `unicode.IsSpace` has it.
fn is_space(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ' | '\u{85}' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

fn out_of_range(index: i64) -> Fault {
    Fault::error(format!("index out of range: {index}"))
}

fn char_at(text: &str, index: i64) -> Answer {
    let length = text.chars().count() as i64;
    if index < 0 || index > length {
        return Err(out_of_range(index));
    }
    Ok(Value::String(text.chars().nth(index as usize).map(String::from).unwrap_or_default().into()))
}

fn index_of(text: &str, wanted: &str, from: i64) -> Answer {
    if from < 0 {
        return Err(out_of_range(from));
    }
    let length = text.chars().count() as i64;
    if wanted.is_empty() {
        return Ok(Value::Int(from.min(length)));
    }
    let Some((start, _)) = text.char_indices().nth(from as usize) else { return Ok(Value::Int(-1)) };
    Ok(Value::Int(text[start..].find(wanted).map_or(-1, |at| from + text[start..start + at].chars().count() as i64)))
}

fn last_index_of(text: &str, wanted: &str) -> Answer {
    let length = text.chars().count() as i64;
    if wanted.is_empty() {
        return Ok(Value::Int(length));
    }
    if text.len() < wanted.len() {
        return Ok(Value::Int(-1));
    }
    last_index_of_from(text, wanted, length - 1)
}

fn last_index_of_from(text: &str, wanted: &str, from: i64) -> Answer {
    if from < 0 {
        return Err(out_of_range(from));
    }
    let length = text.chars().count() as i64;
    if wanted.is_empty() {
        return Ok(Value::Int(from.min(length)));
    }
    if from >= length {
        return Ok(Value::Int(-1));
    }
    // A match may start at `from` at the latest, and so end this far on.
    let end = (from as usize).saturating_add(wanted.chars().count());
    let end = text.char_indices().nth(end).map_or(text.len(), |(at, _)| at);
    Ok(Value::Int(text[..end].rfind(wanted).map_or(-1, |at| text[..at].chars().count() as i64)))
}

/// The results of strings grow at most this far; beyond, cel-go would run out of memory.
const MAX_LENGTH: usize = 64 << 20;

fn too_long() -> Fault {
    Fault::Abort("operation cancelled: string too long".into())
}

fn replace(text: &str, old: &str, new: &str, count: i64) -> Answer {
    let matches = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
    let count = if count < 0 { matches } else { matches.min(count as usize) };
    if count.saturating_mul(new.len()).saturating_add(text.len()) > MAX_LENGTH {
        return Err(too_long());
    }
    Ok(Value::String(text.replacen(old, new, count).into()))
}

fn split(text: &str, separator: &str, count: i64) -> Value {
    if count == 0 {
        return Value::list(Vec::new());
    }
    if !separator.is_empty() {
        return match usize::try_from(count) {
            Ok(count) => Value::strings(text.splitn(count, separator)),
            Err(_) => Value::strings(text.split(separator)),
        };
    }
    // An empty separator splits after each character.
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let end = if parts.len() + 1 == limit { rest.len() } else { c.len_utf8() };
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    Value::strings(parts)
}

fn substring(text: &str, start: i64, end: i64, shown_end: i64) -> Answer {
    let length = text.chars().count() as i64;
    if start < 0 || start > length {
        return Err(out_of_range(start));
    }
    if end < 0 || end > length {
        return Err(out_of_range(shown_end));
    }
    let part: String = text.chars().skip(start as usize).take((end - start) as usize).collect();
    Ok(Value::String(part.into()))
}

fn join(args: &[Value], separator: &str) -> Answer {
    let [Value::List(values)] = args else { return Err(Fault::no_such_overload()) };
    let mut joined = String::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        match value {
            Value::String(text) => joined.push_str(text),
            other => return Err(Fault::error(format!("join: invalid input: {other}"))),
        }
        if joined.len() > MAX_LENGTH {
            return Err(too_long());
        }
    }
    Ok(Value::String(joined.into()))
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
