//! The text of an expression: offsets, lines and columns, and how errors are shown with them.

use super::CompileError;

/// An expression as characters, with the starts of its lines.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    characters: Vec<char>,
    /// Offsets (in characters) of the first character of each line.
    lines: Vec<u32>,
}

/// A range of characters: start and end (exclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Span {
    /// Offset of the first character.
    pub start: u32,
    /// Offset behind the last character.
    pub end: u32,
}

/// One error, at an offset or (`None`) at no place at all.
#[derive(Clone, Debug)]
pub(crate) struct Issue {
    pub(crate) offset: Option<u32>,
    pub(crate) message: String,
}

/// cel-go reports at most this many errors.
const MAX_ISSUES: usize = 100;
/// Longer lines are not shown below a message.
const MAX_SNIPPET: usize = 16_384;

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let mut lines = vec![0];
        lines.extend(characters.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(at, _)| at as u32 + 1));
        Self { characters, lines }
    }

    pub(crate) fn characters(&self) -> &[char] {
        &self.characters
    }

    pub(crate) fn text(&self, span: Span) -> String {
        self.characters.get(span.start as usize..span.end as usize).unwrap_or_default().iter().collect()
    }

    /// Line and column, both from 1.
    pub(crate) fn position(&self, offset: u32) -> (u32, u32) {
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        (line as u32, offset - start + 1)
    }

    fn line(&self, line: u32) -> Option<&[char]> {
        let start = *self.lines.get((line as usize).checked_sub(1)?)? as usize;
        let rest = self.characters.get(start..)?;
        Some(rest.split(|c| *c == '\n').next().unwrap_or_default())
    }

    fn show(&self, issue: &Issue) -> String {
        let Some(offset) = issue.offset else {
            return format!("ERROR: <input>:-1:0: {}", issue.message);
        };
        let (line, mut column) = self.position(offset);
        if self.characters.is_empty() {
            // The end of nothing lies before the first column.
            column = 0;
        }
        let mut text = format!("ERROR: <input>:{line}:{column}: {}", issue.message);
        let Some(snippet) = self.line(line).filter(|l| l.iter().map(|c| c.len_utf8()).sum::<usize>() <= MAX_SNIPPET) else {
            return text;
        };
        text.push_str("\n | ");
        text.extend(snippet.iter().map(|c| if *c == '\t' { ' ' } else { *c }));
        text.push_str("\n | ");
        // Wide characters get wide marks, so that the marks line up.
        text.extend(snippet.iter().take((column as usize).saturating_sub(1)).map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' }));
        text.push(match snippet.get((column as usize).saturating_sub(1)) {
            Some(c) if !c.is_ascii() => '\u{ff3e}',
            _ => '^',
        });
        text
    }

    /// All errors as one, in the order of their places.
    pub(crate) fn failure(&self, mut issues: Vec<Issue>) -> CompileError {
        let surplus = issues.len().saturating_sub(MAX_ISSUES);
        issues.truncate(MAX_ISSUES);
        issues.sort_by_key(|issue| issue.offset.map(|offset| self.position(offset)));
        let mut shown: Vec<String> = issues.iter().map(|issue| self.show(issue)).collect();
        if surplus > 0 {
            shown.push(format!("{surplus} more errors were truncated"));
        }
        CompileError { message: format!("compilation failed: {}", shown.join("\n")) }
    }
}
