//! Texts that are meant to be quantities and versions.

use super::super::Case;
use super::super::finding::{Finding, Severity, Trap};
use super::super::rewrite::{better, fix, literal, replaced};
use crate::cel::{Part, PartKind, Span};
use crate::model::quantity::Quantity;
use crate::model::semver::Semver;

/// The literal that a function of one text is called with.
fn argument<'p>(part: &'p Part, functions: &[&str]) -> Option<(&'p str, Option<Span>, &'p [Part])> {
    let PartKind::Call { function, target: None, args } = &part.kind else { return None };
    if !functions.contains(&function.as_str()) {
        return None;
    }
    let first = args.first()?;
    match &first.kind {
        PartKind::Text(text) => Some((text, first.span, args)),
        _ => None,
    }
}

pub(super) fn find(case: &Case<'_>, outline: &Part, found: &mut Vec<Finding>) {
    outline.walk(&mut |part| {
        if let Some((text, span, _)) = argument(part, &["quantity", "isQuantity"])
            && let Err(error) = Quantity::parse(text)
        {
            let near = nearest_quantity(text);
            let fixed = near.as_ref().zip(span).and_then(|(near, span)| fix(case, replaced(case.expression, vec![(span, literal(near))])));
            found.push(
                Finding::new(Trap::NotAQuantity, severity(part), span)
                    .with("text", text)
                    .with("near", near.unwrap_or_else(|| "-".to_owned()))
                    .with("why", error)
                    .fixed(fixed),
            );
        }
        if let Some((text, span, args)) = argument(part, &["semver", "isSemver"]) {
            let tolerant = matches!(args.get(1).map(|arg| &arg.kind), Some(PartKind::Literal(value)) if value.text == "true");
            let parsed = if tolerant { Semver::parse_normalized(text) } else { Semver::parse(text) };
            if let Err(error) = parsed {
                let near = nearest_version(text);
                let fixed =
                    near.as_ref().zip(span).and_then(|(near, span)| fix(case, replaced(case.expression, vec![(span, literal(near))])));
                found.push(
                    Finding::new(Trap::NotAVersion, severity(part), span)
                        .with("text", text)
                        .with("near", near.unwrap_or_else(|| "-".to_owned()))
                        .with("why", error)
                        .fixed(fixed),
                );
            }
        }
    });
}

/// `quantity("40GiB")` fails, `isQuantity("40GiB")` is only false.
fn severity(part: &Part) -> Severity {
    match &part.kind {
        PartKind::Call { function, .. } if function.starts_with("is") => Severity::Warning,
        _ => Severity::Error,
    }
}

/// A quantity that a text was most likely meant to be: `40GiB` is `40Gi`, `40 Gi` is `40Gi`, `40gi` is `40Gi`.
pub(in crate::lint) fn nearest_quantity(text: &str) -> Option<String> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace() && *c != '_').collect();
    let split = compact.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '+' | '-'))).unwrap_or(compact.len());
    let (number, suffix) = compact.split_at(split);
    let number = number.replace(',', ".");
    let lower = suffix.to_ascii_lowercase();
    let suffix = match lower.trim_end_matches("bytes").trim_end_matches('b') {
        "" => "",
        "k" => "k",
        "ki" => "Ki",
        "m" | "mega" => "M",
        "mi" => "Mi",
        "g" | "giga" => "G",
        "gi" => "Gi",
        "t" => "T",
        "ti" => "Ti",
        "p" => "P",
        "pi" => "Pi",
        _ => return None,
    };
    Some(format!("{number}{suffix}")).filter(|near| near != text && Quantity::parse(near).is_ok())
}

/// A version that a text was most likely meant to be: three numbers without leading zeros.
#[must_use]
pub(in crate::lint) fn nearest_version(text: &str) -> Option<String> {
    if let Ok(version) = Semver::parse_normalized(text) {
        return Some(version.to_string()).filter(|near| near != text);
    }
    let plain = text.trim().trim_start_matches(['v', 'V']);
    let (numbers, rest) = plain.split_at(plain.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(plain.len()));
    let mut parts: Vec<String> = numbers
        .split('.')
        .filter(|part| !part.is_empty())
        .take(3)
        .map(|part| Some(part.trim_start_matches('0')).filter(|part| !part.is_empty()).unwrap_or("0").to_owned())
        .collect();
    if parts.is_empty() {
        return None;
    }
    while parts.len() < 3 {
        parts.push("0".to_owned());
    }
    let rest = if rest.starts_with(['-', '+']) { rest } else { "" };
    [format!("{}{rest}", parts.join(".")), parts.join(".")].into_iter().find(|near| near != text && Semver::parse(near).is_ok())
}

/// `80G` where the devices have `80Gi`, or the reverse, where that changes what matches.
pub(super) fn suffixes(case: &Case<'_>, outline: &Part, found: &mut Vec<Finding>) {
    outline.walk(&mut |part| {
        let Some((text, Some(span), _)) = argument(part, &["quantity"]) else { return };
        let Some(other) = other_suffix(text) else { return };
        let has = case.fleet.devices.iter().flat_map(|device| device.capacity.values()).any(|capacity| capacity.value.0.trim() == other);
        if !has {
            return;
        }
        if let Some(fix) = better(case, &[(span, literal(&other))]) {
            let bytes = |text: &str| Quantity::parse(text).ok().and_then(|amount| amount.as_i64()).map_or_else(|| "-".to_owned(), grouped);
            found.push(
                Finding::new(Trap::DecimalSuffix, Severity::Warning, Some(span))
                    .with("text", text)
                    .with("bytes", bytes(text))
                    .with("other", &other)
                    .with("otherBytes", bytes(&other))
                    .fixed(Some(fix)),
            );
        }
    });
}

fn other_suffix(text: &str) -> Option<String> {
    if let Some(number) = text.strip_suffix('i') {
        return Some(if let Some(kilo) = number.strip_suffix('K') { format!("{kilo}k") } else { number.to_owned() });
    }
    match text.chars().last()? {
        'k' => Some(format!("{}Ki", text.trim_end_matches('k'))),
        'M' | 'G' | 'T' | 'P' | 'E' => Some(format!("{text}i")),
        _ => None,
    }
}

/// Digits in groups of three.
fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
