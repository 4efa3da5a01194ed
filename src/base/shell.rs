//! Words of a shell's command line.

use std::path::Path;

/// Quotes a path for a shell, where it needs it.
#[must_use]
pub fn quote(path: &Path) -> String {
    let text = path.display().to_string();
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c)) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quote;
    use std::path::Path;

    #[test]
    fn only_what_needs_it_is_quoted() {
        for (path, quoted) in [("/home/me/x-1.yaml", "/home/me/x-1.yaml"), ("/a b", "'/a b'"), ("/it's", "'/it'\\''s'"), ("", "''")] {
            assert_eq!(quote(Path::new(path)), quoted);
        }
    }
}
