//! Reads the literals of CEL: escapes of strings and bytes, numbers.

/// The text of a string literal, quotes included. The error is cel-go's message.
pub(crate) fn string(token: &str) -> Result<String, &'static str> {
    let bytes = decode(token, false)?;
    String::from_utf8(bytes).map_err(|_| "unable to unescape string")
}

/// The content of a bytes literal, prefix and quotes included.
pub(crate) fn bytes(token: &str) -> Result<Vec<u8>, &'static str> {
    decode(token.get(1..).unwrap_or_default(), true)
}

fn decode(token: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    // All line ends count as one newline.
    let token = token.replace("\r\n", "\n").replace('\r', "\n");
    let (token, raw) = match token.strip_prefix(['r', 'R']) {
        Some(rest) => (rest, true),
        None => (token.as_str(), false),
    };
    let quotes = if token.len() >= 6 && (token.starts_with("\"\"\"") || token.starts_with("'''")) { 3 } else { 1 };
    let body = token.get(quotes..token.len().saturating_sub(quotes)).ok_or("unable to unescape string")?;
    if raw || !body.contains('\\') {
        return Ok(body.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            push(&mut out, c);
            continue;
        }
        let escape = rest.next().ok_or("unable to unescape string, found '\\' as last character")?;
        let simple = match escape {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '\\' | '\'' | '"' | '`' | '?' => Some(escape as u8),
            _ => None,
        };
        if let Some(byte) = simple {
            out.push(byte);
            continue;
        }
        let (base, digits) = match escape {
            'x' | 'X' => (16, 2),
            'u' if !is_bytes => (16, 4),
            'U' if !is_bytes => (16, 8),
            '0'..='3' => (8, 2),
            _ => return Err("unable to unescape string"),
        };
        let mut value = escape.to_digit(4).filter(|_| base == 8).unwrap_or(0);
        for _ in 0..digits {
            let digit = rest.next().and_then(|c| c.to_digit(base)).ok_or("unable to unescape string")?;
            value = value.wrapping_mul(base) | digit;
        }
        if is_bytes {
            out.push(value as u8);
        } else {
            push(&mut out, char::from_u32(value).ok_or("invalid unicode code point")?);
        }
    }
    Ok(out)
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// An integer literal, with its sign.
pub(crate) fn int(token: &str, negative: bool) -> Option<i64> {
    let (digits, base) = radix(token);
    let signed = if negative { format!("-{digits}") } else { digits.to_owned() };
    i64::from_str_radix(&signed, base).ok()
}

/// An unsigned literal, with its suffix `u`.
pub(crate) fn uint(token: &str) -> Option<u64> {
    let (digits, base) = radix(token.strip_suffix(['u', 'U']).unwrap_or(token));
    u64::from_str_radix(digits, base).ok()
}

/// A floating point literal. Too large ones are errors, too small ones 0, as in Go.
pub(crate) fn double(token: &str) -> Option<f64> {
    token.parse().ok().filter(|value: &f64| value.is_finite())
}

fn radix(token: &str) -> (&str, u32) {
    token.strip_prefix("0x").map_or((token, 10), |digits| (digits, 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings() {
        for (token, text) in [
            (r#""a""#, Ok("a")),
            (r#"'a\'b'"#, Ok("a'b")),
            (r#"r"a\n""#, Ok(r"a\n")),
            (r#""""a"b""""#, Ok("a\"b")),
            (r#""\u00e9\x41\101\n""#, Ok("éAA\n")),
            (r#""\ud800""#, Err("invalid unicode code point")),
            ("\"\"\"a\r\nb\"\"\"", Ok("a\nb")),
            (r#""""#, Ok("")),
        ] {
            assert_eq!(string(token), text.map(str::to_owned), "{token}");
        }
        assert_eq!(bytes(r#"b"\xff\377é""#), Ok(vec![0xff, 0xff, 0xc3, 0xa9]));
    }

    #[test]
    fn numbers() {
        assert_eq!(int("9223372036854775808", true), Some(i64::MIN));
        assert_eq!(int("9223372036854775808", false), None);
        assert_eq!(int("0x7F", false), Some(127));
        assert_eq!(uint("0xFFu"), Some(255));
        assert_eq!(double("1e400"), None);
        assert_eq!(double(".5"), Some(0.5));
    }
}
