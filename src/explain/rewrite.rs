//! Selectors put in other words: names that exist, guards, values that were seen. Whether they help is tried, not claimed.

use super::names::{Names, used};
use super::reason::Reason;
use super::selector::FalsePart;

/// The expression with names that nobody publishes replaced by the nearest.
pub(super) fn renamed(names: &Names, expression: &str) -> Option<String> {
    let mut renamed = expression.to_owned();
    for remark in names.remarks(expression) {
        let value = |name: &str| remark.values.get(name).cloned();
        let Some(near) = value("nearest") else { continue };
        match (remark.variant, value("name"), value("domain")) {
            ("near" | "case", Some(name), Some(domain)) => {
                for quote in ['"', '\''] {
                    renamed = renamed.replace(&format!("[{quote}{domain}{quote}].{name}"), &format!("[{quote}{domain}{quote}].{near}"));
                    renamed = renamed.replace(&format!("[{quote}{domain}{quote}].?{name}"), &format!("[{quote}{domain}{quote}].?{near}"));
                }
            }
            ("near" | "case", None, Some(domain)) => renamed = renamed.replace(&domain, &near),
            ("other-field", Some(name), Some(domain)) => {
                let field = value("field").unwrap_or_default();
                for quote in ['"', '\''] {
                    let of = |field: &str| format!("device.{field}[{quote}{domain}{quote}].{name}");
                    renamed = renamed.replace(&of(&field), &of(&near));
                }
            }
            _ => {}
        }
    }
    if renamed == expression {
        // A domain that nothing is near to: the only one there is.
        let drivers: Vec<&String> = names.drivers.iter().collect();
        let unknown = names.remarks(expression).into_iter().find(|r| r.reason == Reason::UnknownDomain)?;
        let ([driver], Some(domain)) = (drivers.as_slice(), unknown.values.get("domain")) else { return None };
        renamed = expression.replace(domain.as_str(), driver);
    }
    (renamed != expression).then_some(renamed)
}

/// The expression where devices without the names that it uses do not match instead of failing.
pub(super) fn guarded(expression: &str) -> Option<String> {
    let mut guards = Vec::new();
    for name in used(expression).into_iter().filter(|used| !used.guarded) {
        let Some(id) = &name.name else { continue };
        guards.push(format!("has(device.{}[\"{}\"].{id})", name.sort.field(), name.domain));
    }
    if guards.is_empty() {
        return None;
    }
    let whole = if expression.contains("||") || expression.contains('?') { format!("({expression})") } else { expression.to_owned() };
    Some(format!("{} && {whole}", guards.join(" && ")))
}

/// The expression with the literal of a false comparison replaced by a value that was seen.
pub(super) fn with_seen(expression: &str, part: &FalsePart) -> Vec<String> {
    let mut found = Vec::new();
    for seen in part.seen.iter().take(2) {
        // `X.compareTo(quantity("100Gi")) >= 0`, `X == "literal"`: the literal stands behind what was looked at.
        let Some(after) = part.text.find(&seen.what).map(|at| at + seen.what.len()) else { continue };
        let Some(literal) = literal_of_kind(&part.text[after..], &seen.value) else { continue };
        let replaced = format!("{}{}", &part.text[..after], part.text[after..].replacen(&literal, &seen.value, 1));
        let rewritten = expression.replacen(&part.text, &replaced, 1);
        if rewritten != expression && !found.contains(&rewritten) {
            found.push(rewritten);
        }
    }
    found
}

/// The first literal in a text of the kind of `value`: `quantity("…")`, `semver("…")`, a string, a number.
fn literal_of_kind(text: &str, value: &str) -> Option<String> {
    let quoted = |from: usize| -> Option<&str> {
        let rest = &text[from..];
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let end = rest[1..].find(quote)? + 2;
        Some(&rest[..end])
    };
    for call in ["quantity(", "semver("] {
        if value.starts_with(call) {
            let at = text.find(call)?;
            let literal = quoted(at + call.len())?;
            return Some(format!("{call}{literal})")).filter(|whole| text.contains(whole.as_str()));
        }
    }
    if value.starts_with('"') {
        return quoted(text.find(['"', '\''])?).map(str::to_owned);
    }
    if value.parse::<i64>().is_ok() {
        let at = text.find(|c: char| c.is_ascii_digit())?;
        return Some(text[at..].chars().take_while(char::is_ascii_digit).collect());
    }
    None
}
