//! The syntax of RE2, as Go's `regexp` has it, in the syntax of the `regex` crate.
//!
//! The two agree in most things. They differ here: in RE2 `\d`, `\w`, `\s` and `\b` are ASCII, classes do not nest and
//! have no set operators, `\Q…\E` quotes, a brace that is no repetition is a brace, counts end at 1000, and repetitions do
//! not repeat.

/// The pattern for the `regex` crate. Errors are Go's, without the part it quotes from the pattern.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    // Whether the last item is a repetition.
    let mut repeated = false;
    // How often the last item counts, and the most that something in each open group does.
    let mut last = 1;
    let mut groups = vec![1];
    while let Some(c) = rest.chars().next() {
        let mut step = c.len_utf8();
        let mut repeats = false;
        match c {
            '\\' => step = escape(rest, &mut out, false)?,
            '[' => step = class(rest, &mut out)?,
            '(' => {
                check_flags(rest)?;
                groups.push(1);
                out.push(c);
            }
            ')' => {
                last = groups.pop().unwrap_or(1);
                groups.iter_mut().rev().take(1).for_each(|group| *group = last.max(*group));
                out.push(c);
            }
            '*' | '+' | '?' | '{' => match repetition(rest)? {
                Some((length, count)) => {
                    if repeated {
                        return Err("invalid nested repetition operator".to_owned());
                    }
                    last = count.max(1).saturating_mul(last);
                    if last > 1000 {
                        return Err("invalid repeat count".to_owned());
                    }
                    groups.iter_mut().rev().take(1).for_each(|group| *group = last.max(*group));
                    // A question mark behind it makes it lazy.
                    step = length + usize::from(rest[length..].starts_with('?'));
                    out.push_str(&rest[..step]);
                    repeats = true;
                }
                None => out.push_str("\\{"),
            },
            '}' => out.push_str("\\}"),
            other => out.push(other),
        }
        repeated = repeats;
        if !repeats && c != ')' {
            last = 1;
        }
        rest = &rest[step..];
    }
    Ok(out)
}

/// The length of a repetition operator and its count, `None` for a brace that is none.
fn repetition(rest: &str) -> Result<Option<(usize, u32)>, String> {
    if !rest.starts_with('{') {
        return Ok(Some((1, 1)));
    }
    let Some(end) = rest.find('}') else { return Ok(None) };
    let (min, max) = match rest[1..end].split_once(',') {
        Some((min, max)) => (min, Some(max)),
        None => (&rest[1..end], None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if min.is_empty() || !digits(min) || !max.is_none_or(digits) {
        return Ok(None);
    }
    let count = |text: &str| text.parse().unwrap_or(u32::MAX);
    let upper = max.filter(|max| !max.is_empty()).map(count);
    if count(min) > 1000 || upper.is_some_and(|upper| upper > 1000 || upper < count(min)) {
        return Err("invalid repeat count".to_owned());
    }
    Ok(Some((end + 1, upper.unwrap_or_else(|| count(min)))))
}

/// Refuses flags that only the crate has.
fn check_flags(rest: &str) -> Result<(), String> {
    let Some(flags) = rest.strip_prefix("(?") else { return Ok(()) };
    if flags.starts_with(['P', '<']) {
        return Ok(());
    }
    let end = flags.find([':', ')']).unwrap_or(flags.len());
    if flags[..end].chars().all(|flag| matches!(flag, 'i' | 'm' | 's' | 'U' | '-')) {
        return Ok(());
    }
    Err("invalid or unsupported Perl syntax".to_owned())
}

/// Writes an escape sequence; its length.
fn escape(rest: &str, out: &mut String, in_class: bool) -> Result<usize, String> {
    let Some(c) = rest[1..].chars().next() else { return Err("trailing backslash at end of expression".to_owned()) };
    let ascii = match c {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        's' => "\\t\\n\\x0c\\r ",
        'D' => "^0-9",
        'W' => "^0-9A-Za-z_",
        'S' => "^\\t\\n\\x0c\\r ",
        _ => "",
    };
    if !ascii.is_empty() {
        let plain = in_class && !ascii.starts_with('^');
        out.push_str(&if plain { ascii.to_owned() } else { format!("[{ascii}]") });
        return Ok(2);
    }
    match c {
        'Q' if !in_class => {
            let quoted = &rest[2..];
            let (text, length) = quoted.find("\\E").map_or((quoted, quoted.len()), |end| (&quoted[..end], end + 2));
            out.push_str(&regex::escape(text));
            return Ok(2 + length);
        }
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        'A' | 'z' | 'B' if !in_class => out.push_str(&rest[..2]),
        'x' | 'p' | 'P' => {
            let braced = if rest[2..].starts_with('{') { rest.find('}').map(|end| end + 1) } else { None };
            let length = braced.unwrap_or(2);
            out.push_str(&rest[..length]);
            return Ok(length);
        }
        'a' | 'f' | 't' | 'n' | 'r' | 'v' => out.push_str(&rest[..2]),
        '<' | '>' => out.push(c),
        c if c.is_ascii_punctuation() => out.push_str(&rest[..2]),
        c if !c.is_ascii() || c.is_ascii_alphanumeric() => return Err("invalid escape sequence".to_owned()),
        c => out.push_str(&regex::escape(&c.to_string())),
    }
    Ok(1 + c.len_utf8())
}

/// The classes with names.
const POSIX: &[&str] =
    &["alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word", "xdigit"];

/// Writes a character class; its length.
fn class(rest: &str, out: &mut String) -> Result<usize, String> {
    let mut at = 1;
    out.push('[');
    if rest[at..].starts_with('^') {
        out.push('^');
        at += 1;
    }
    let first = at;
    while let Some(c) = rest[at..].chars().next() {
        match c {
            ']' if at > first => {
                out.push(']');
                return Ok(at + 1);
            }
            '\\' => at += escape(&rest[at..], out, true)?,
            '[' if rest[at..].starts_with("[:") && rest[at..].contains(":]") => {
                let end = at + rest[at..].find(":]").unwrap_or(0) + 2;
                let name = rest[at + 2..end - 2].trim_start_matches('^');
                if !POSIX.contains(&name) {
                    return Err("invalid character class range".to_owned());
                }
                out.push_str(&rest[at..end]);
                at = end;
            }
            '[' | ']' | '&' | '~' => {
                out.push('\\');
                out.push(c);
                at += 1;
            }
            // A dash between two others would be a set operator.
            '-' if rest[at + 1..].starts_with('-') => {
                out.push_str("\\-");
                at += 1;
            }
            other => {
                out.push(other);
                at += other.len_utf8();
            }
        }
    }
    Err("missing closing ]".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(pattern: &str, text: &str) -> Result<bool, String> {
        let translated = translate(pattern)?;
        regex::Regex::new(&translated).map(|regex| regex.is_match(text)).map_err(|error| error.to_string())
    }

    #[test]
    fn differences_are_translated() {
        for (pattern, text, expected) in [
            (r"^\d+$", "١٢", false),
            (r"^\w$", "é", false),
            (r"^[\w-]+$", "a-b", true),
            (r"^[^\d]$", "x", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^\Qa.b*\E$", "a.b*", true),
            (r"^[a[b]$", "[", true),
            (r"^[a&&b]$", "&", true),
            (r"^[]a]$", "]", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^{$", "{", true),
            (r"^a{2}$", "aa", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^\<a\>$", "<a>", true),
            (r"^a+?$", "aa", true),
            (r"(?i)ABC", "abc", true),
            (r"(?P<n>a)(?<m>b)", "ab", true),
            (r"^[\S]+$", "ab", true),
            (r"^\p{Greek}\x{41}\x42[\p{Lu}]$", "λABC", true),
        ] {
            assert_eq!(finds(pattern, text), Ok(expected), "{pattern} on {text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for pattern in [
            r"a**",
            r"a{1001}",
            r"a{2,1}",
            r"(?x)a",
            r"(?=a)",
            r"(a",
            r"[a",
            r"a\",
            r"\1",
            r"\Z",
            r"*a",
            r"(?<!a)b",
            r"[[:nope:]]",
            r"(a{100}){20}",
        ] {
            assert!(finds(pattern, "").is_err(), "{pattern}");
        }
    }
}
