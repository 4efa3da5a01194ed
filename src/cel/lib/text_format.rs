//! `"%s".format([...])`: reading of templates, and the clauses (ext/formatting.go, locale en_US).

use super::numbers;
use crate::cel::ast::{Expr, Id, Kind};
use crate::cel::check::Checked;
use crate::cel::types::Type;
use crate::cel::value::{Fault, Value};
use crate::model::semver::quoted;

const DEFAULT_PRECISION: usize = 6;
/// More digits than any double has; longer requests are cut here instead of filling memory.
const MAX_PRECISION: usize = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clause {
    String,
    Decimal,
    Fixed(Option<usize>),
    Scientific(Option<usize>),
    Binary,
    Hex(bool),
    Octal,
}

enum Piece<'t> {
    Text(&'t str),
    Clause(Clause),
}

/// Splits the template, calling `take` for each piece; the error is a message.
fn read<'t>(template: &'t str, arguments: usize, mut take: impl FnMut(Piece<'t>) -> Result<(), String>) -> Result<usize, String> {
    let mut rest = template;
    let mut used = 0;
    while let Some(at) = rest.find('%') {
        take(Piece::Text(&rest[..at]))?;
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            take(Piece::Text("%"))?;
            rest = behind;
            continue;
        }
        if rest.is_empty() && used < arguments {
            return Err("unexpected end of string".to_owned());
        }
        if used >= arguments {
            return Err(format!("index {used} out of range"));
        }
        let (clause, behind) = clause(rest).map_err(|reason| format!("could not parse formatting clause: {reason}"))?;
        rest = behind;
        used += 1;
        take(Piece::Clause(clause))?;
    }
    take(Piece::Text(rest))?;
    Ok(used)
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(rest) => {
            let length = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, behind) = rest.split_at(length);
            if behind.is_empty() {
                return Err("error while parsing precision: could not find end of precision specifier".to_owned());
            }
            let precision: i64 = digits.parse().map_err(|_| {
                let reason = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
                format!("error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \"{digits}\": {reason}")
            })?;
            (Some(usize::try_from(precision).unwrap_or(usize::MAX).min(MAX_PRECISION)), behind)
        }
    };
    let mut characters = rest.chars();
    let clause = match characters.next() {
        Some('s') => Clause::String,
        Some('d') => Clause::Decimal,
        Some('f') => Clause::Fixed(precision),
        Some('e') => Clause::Scientific(precision),
        Some('b') => Clause::Binary,
        Some(x @ ('x' | 'X')) => Clause::Hex(x == 'X'),
        Some('o') => Clause::Octal,
        // cel-go looks at one byte only.
        other => {
            return Err(format!("unrecognized formatting clause \"{}\"", other.map_or('\0', |c| char::from(c.to_string().as_bytes()[0]))));
        }
    };
    Ok((clause, characters.as_str()))
}

fn complaint(clause: Clause, found: &str) -> String {
    let rule = match clause {
        Clause::String => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        Clause::Decimal => "decimal clause can only be used on integers",
        Clause::Fixed(_) => "fixed-point clause can only be used on doubles",
        Clause::Scientific(_) => "scientific clause can only be used on doubles",
        Clause::Binary => "only integers and bools can be formatted as binary",
        Clause::Hex(_) => "only integers, byte buffers, and strings can be formatted as hex",
        Clause::Octal => "octal clause can only be used on integers",
    };
    format!("{rule}, was given {found}")
}

/// Formats values by a template.
pub(super) fn format(template: &str, values: &[Value]) -> Result<String, Fault> {
    let mut out = String::new();
    let mut next = values.iter();
    let result = read(template, values.len(), |piece| {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Clause(clause) => {
                let Some(value) = next.next() else { return Err("index out of range".to_owned()) };
                out.push_str(&formatted(clause, value).map_err(|reason| format!("error during formatting: {reason}"))?);
            }
        }
        Ok(())
    });
    result.map(|_| out).map_err(Fault::error)
}

fn formatted(clause: Clause, value: &Value) -> Result<String, String> {
    match (clause, value) {
        (Clause::String, _) => plain(value),
        (Clause::Decimal, Value::Int(_) | Value::Uint(_)) => Ok(value.to_string()),
        (Clause::Fixed(precision), _) if double(value).is_some() => {
            Ok(fixed(double(value).unwrap_or_default(), precision.unwrap_or(DEFAULT_PRECISION)))
        }
        (Clause::Scientific(precision), _) if double(value).is_some() => {
            // What is given as precision is used as width.
            Ok(format!("{:>width$}", scientific(double(value).unwrap_or_default()), width = precision.unwrap_or(DEFAULT_PRECISION)))
        }
        (Clause::Binary, Value::Int(number)) => Ok(signed(*number, |magnitude| format!("{magnitude:b}"))),
        (Clause::Binary, Value::Uint(number)) => Ok(format!("{number:b}")),
        (Clause::Binary, Value::Bool(value)) => Ok(if *value { "1" } else { "0" }.to_owned()),
        (Clause::Hex(upper), _) => {
            let text = match value {
                Value::Int(number) => signed(*number, |magnitude| format!("{magnitude:x}")),
                Value::Uint(number) => format!("{number:x}"),
                Value::String(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                other => return Err(complaint(clause, other.type_name())),
            };
            Ok(if upper { text.to_uppercase() } else { text })
        }
        (Clause::Octal, Value::Int(number)) => Ok(signed(*number, |magnitude| format!("{magnitude:o}"))),
        (Clause::Octal, Value::Uint(number)) => Ok(format!("{number:o}")),
        (_, other) => Err(complaint(clause, other.type_name())),
    }
}

fn signed(number: i64, show: impl Fn(u64) -> String) -> String {
    format!("{}{}", if number < 0 { "-" } else { "" }, show(number.unsigned_abs()))
}

fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(value: f64) -> Option<&'static str> {
    match value {
        v if v.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// With grouped thousands.
fn fixed(value: f64, precision: usize) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    // Beyond the exact integers only the shortest digits are shown, then zeros.
    let text = if value.abs() >= 9_007_199_254_740_992.0 {
        let zeros = "0".repeat(precision);
        if precision > 0 { format!("{value}.{zeros}") } else { format!("{value}") }
    } else {
        format!("{value:.precision$}")
    };
    let unsigned = text.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').map_or((unsigned, ""), |(whole, _)| (whole, &unsigned[whole.len()..]));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{}{grouped}{fraction}", if text.starts_with('-') { "-" } else { "" })
}

fn scientific(value: f64) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    let text = format!("{value:.6e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
    let raised: String =
        format!("{digits:0>2}").chars().map(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(c.to_digit(10).unwrap_or(0) as usize).unwrap_or('⁰')).collect();
    format!("{mantissa}×10{sign}{raised}")
}

fn plain(value: &Value) -> Result<String, String> {
    match value {
        Value::List(values) => {
            let shown: Result<Vec<String>, String> = values.iter().map(element).collect();
            Ok(format!("[{}]", shown?.join(", ")))
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in map.iter() {
                if !matches!(key, Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_)) {
                    return Err(format!("no formatting function for map key of type {}", key.type_name()));
                }
                entries.push((element(key)?, element(value)?));
            }
            entries.sort();
            let shown: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            Ok(format!("{{{}}}", shown.join(", ")))
        }
        Value::Null => Ok("null".to_owned()),
        Value::Double(value) if value.is_infinite() => Ok(if *value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()),
        Value::Duration(nanos) => Ok(format!("{}s", numbers::seconds_text(*nanos))),
        Value::Bytes(bytes) => std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string".to_owned()),
        Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Bool(_) | Value::String(_) | Value::Timestamp(_) | Value::Type(_) => {
            Ok(value.to_string())
        }
        other => Err(complaint(Clause::String, other.type_name())),
    }
}

/// A value inside a list or map, as CEL would write it.
fn element(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(quoted(text)),
        Value::Bytes(_) => plain(value).map(|text| format!("b{}", quoted(&text))),
        Value::Timestamp(_) => plain(value).map(|text| format!("timestamp({})", quoted(&text))),
        Value::Duration(_) => plain(value).map(|text| format!("duration({})", quoted(&text))),
        Value::Double(number) if number.is_finite() => Ok(format!("{number:.6}")),
        Value::Double(_) => Ok(format!("\"{value}\"")),
        Value::Optional(_)
        | Value::Quantity { .. }
        | Value::Semver(_)
        | Value::Url(_)
        | Value::Ip(_)
        | Value::Cidr(..)
        | Value::Format(_) => Err(format!("no formatting function for {}", value.type_name())),
        _ => plain(value),
    }
}

/// Checks a literal template against literal arguments: how many it uses, or what is wrong and where.
pub(crate) fn check_template(template: &str, args: &[&Expr], checked: &Checked) -> Result<usize, (Option<Id>, String)> {
    let mut next = args.iter();
    let mut place = None;
    let result = read(template, args.len(), |piece| {
        let Piece::Clause(clause) = piece else { return Ok(()) };
        let Some(arg) = next.next() else { return Ok(()) };
        match misfit(clause, arg, checked) {
            Some(id) => {
                place = Some(id);
                Err(format!("error during formatting: {}", complaint(clause, &checked.type_of(id).name())))
            }
            None => Ok(()),
        }
    });
    result.map_err(|message| (place, message))
}

/// The part of an argument that a clause cannot format.
fn misfit(clause: Clause, arg: &Expr, checked: &Checked) -> Option<Id> {
    let type_ = checked.type_of(arg.id);
    let fits = *type_ == Type::Dyn
        || match clause {
            Clause::String => matches!(
                type_,
                Type::List(_)
                    | Type::Map(..)
                    | Type::Int
                    | Type::Uint
                    | Type::Double
                    | Type::Bool
                    | Type::String
                    | Type::Timestamp
                    | Type::Bytes
                    | Type::Duration
                    | Type::Type(_)
                    | Type::Null
            ),
            Clause::Decimal | Clause::Octal => matches!(type_, Type::Int | Type::Uint),
            Clause::Fixed(_) | Clause::Scientific(_) => matches!(type_, Type::Double | Type::String),
            Clause::Binary => matches!(type_, Type::Int | Type::Uint | Type::Bool),
            Clause::Hex(_) => matches!(type_, Type::Int | Type::Uint | Type::String | Type::Bytes),
        };
    if !fits {
        return Some(arg.id);
    }
    if clause != Clause::String {
        return None;
    }
    match &arg.kind {
        Kind::List(elements) => elements.iter().find_map(|e| misfit(clause, &e.value, checked)),
        Kind::Map(entries) => entries.iter().find_map(|e| misfit(clause, &e.key, checked).or_else(|| misfit(clause, &e.value, checked))),
        _ => None,
    }
}
