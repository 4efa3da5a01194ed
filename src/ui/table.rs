//! Plain tables: columns padded by display width (a CJK character is two columns), three spaces between, no lines.

use unicode_width::UnicodeWidthStr as _;

/// The display width of a text.
#[must_use]
pub fn width(text: &str) -> usize {
    text.width()
}

/// Pads a text with spaces to a display width.
#[must_use]
pub fn pad(text: &str, to: usize) -> String {
    let mut padded = text.to_owned();
    padded.extend(std::iter::repeat_n(' ', to.saturating_sub(width(text))));
    padded
}

/// Lays out rows under a header. Trailing spaces are left out.
#[must_use]
pub fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let columns = header.len();
    let mut widths: Vec<usize> = header.iter().map(|h| width(h)).collect();
    for row in rows {
        for (index, cell) in row.iter().enumerate().take(columns) {
            widths[index] = widths[index].max(width(cell));
        }
    }
    let mut text = String::new();
    let line = |cells: Vec<&str>, text: &mut String| {
        let mut out = String::new();
        for (index, cell) in cells.iter().enumerate().take(columns) {
            if index > 0 {
                out.push_str("   ");
            }
            out.push_str(&pad(cell, widths[index]));
        }
        text.push_str(out.trim_end());
        text.push('\n');
    };
    line(header.to_vec(), &mut text);
    for row in rows {
        line(row.iter().map(String::as_str).collect(), &mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn columns_line_up_with_wide_characters() {
        let text = render(&["NAME", "AGE"], &[vec!["显存".to_owned(), "1s".to_owned()], vec!["gpu-0".to_owned(), "12s".to_owned()]]);
        assert_eq!(text, "NAME    AGE\n显存    1s\ngpu-0   12s\n");
    }
}
