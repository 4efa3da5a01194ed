//! `echo`, `printf` and `date`.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The output of `echo`. dash reads backslashes without `-e`, bash only with it.
pub(super) fn echo(arguments: &[String], always_escapes: bool) -> String {
    let mut newline = true;
    let mut escapes = always_escapes;
    let mut rest = arguments;
    while let Some((flag, more)) = rest.split_first() {
        match flag.as_str() {
            "-n" => newline = false,
            "-e" => escapes = true,
            "-E" => escapes = false,
            "-ne" | "-en" => (newline, escapes) = (false, true),
            _ => break,
        }
        rest = more;
    }
    let mut text = rest.join(" ");
    if escapes {
        text = unescape(&text);
    }
    if newline {
        text.push('\n');
    }
    text
}

/// Backslash sequences.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
    }
    out
}

/// The output of `printf`; the format is used again while arguments remain.
pub(super) fn printf(format: &str, arguments: &[String]) -> String {
    let format = unescape(format);
    let mut out = String::new();
    let mut rest = arguments.iter();
    loop {
        let mut used = false;
        let mut chars = format.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut width = String::new();
            while let Some(c) = chars.next_if(|c| c.is_ascii_digit() || "-.+0 ".contains(*c)) {
                width.push(c);
            }
            match chars.next() {
                Some('%') => out.push('%'),
                Some('s' | 'd' | 'i' | 'u' | 'f' | 'q' | 'b') => {
                    used = true;
                    let value = rest.next().map(String::as_str).unwrap_or_default();
                    let size = width
                        .trim_start_matches(['-', '0', '+', ' '])
                        .split('.')
                        .next()
                        .and_then(|n| n.parse::<usize>().ok())
                        .unwrap_or(0)
                        .min(1000);
                    if width.starts_with('-') {
                        out.push_str(&format!("{value:<size$}"));
                    } else if width.starts_with('0') {
                        out.push_str(&format!("{value:0>size$}"));
                    } else {
                        out.push_str(&format!("{value:>size$}"));
                    }
                }
                Some(other) => out.extend(['%', other]),
                None => out.push('%'),
            }
        }
        if !used || rest.len() == 0 {
            return out;
        }
    }
}

/// The output of `date`, in UTC as containers have it.
pub(super) fn date(now: Timestamp, arguments: &[String]) -> String {
    let zoned = now.to_zoned(TimeZone::UTC);
    let format = arguments.iter().find_map(|a| a.strip_prefix('+')).unwrap_or("%a %b %e %H:%M:%S UTC %Y");
    jiff::fmt::strtime::format(format, &zoned).unwrap_or_else(|_| zoned.to_string())
}

#[cfg(test)]
mod tests {
    use super::{echo, printf};

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|t| (*t).to_owned()).collect()
    }

    #[test]
    fn echo_and_printf() {
        assert_eq!(echo(&words(&["a", "b"]), false), "a b\n");
        assert_eq!(echo(&words(&["-n", "a\\tb"]), false), "a\\tb");
        assert_eq!(echo(&words(&["-e", "a\\tb"]), false), "a\tb\n");
        assert_eq!(echo(&words(&["a\\nb"]), true), "a\nb\n");
        assert_eq!(printf("%s=%d\\n", &words(&["a", "1", "b", "2"])), "a=1\nb=2\n");
        assert_eq!(printf("%-4s|%03d%%\\n", &words(&["a", "7"])), "a   |007%\n");
        assert_eq!(printf("none\\n", &words(&["x"])), "none\n");
    }
}
