//! Lesson prose for the terminal: headings, paragraphs, lists, tables, code. Wrapped by display width.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::ui::table;
use crate::ui::terminal::{Style, Terminal};

/// Renders Markdown for stdout, wrapped at `columns`.
#[must_use]
pub fn render(terminal: &Terminal, text: &str, columns: usize) -> String {
    // Signs that prose has beyond ASCII, where the terminal or the reader wants none of them.
    let ascii;
    let text = if terminal.manners.plain || !terminal.manners.unicode {
        ascii = text.replace('→', "->").replace('…', "...");
        &ascii
    } else {
        text
    };
    let mut page = Page {
        terminal,
        columns: columns.max(20),
        out: String::new(),
        inline: Vec::new(),
        indent: Vec::new(),
        style: Vec::new(),
        code: None,
        rows: None,
    };
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        page.event(event);
    }
    page.out.trim_end().to_owned()
}

/// A piece of a line: text without spaces at its ends, its style, and whether a space comes before it.
struct Word {
    text: String,
    style: Option<Style>,
    space: bool,
}

struct Page<'t> {
    terminal: &'t Terminal,
    columns: usize,
    out: String,
    inline: Vec<Word>,
    /// The prefix of each open block: first line, other lines.
    indent: Vec<(String, String, bool)>,
    style: Vec<Style>,
    code: Option<String>,
    rows: Option<Vec<Vec<String>>>,
}

impl Page<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(Tag::Heading { .. } | Tag::Strong) => self.style.push(Style::Strong),
            Event::End(TagEnd::Heading(_)) => {
                self.flush();
                self.style.pop();
                self.out.push('\n');
            }
            Event::End(TagEnd::Strong | TagEnd::Emphasis) => {
                self.style.pop();
            }
            Event::Start(Tag::Emphasis) => self.style.push(Style::Strong),
            Event::End(TagEnd::Paragraph) => {
                self.flush();
                if self.indent.is_empty() {
                    self.out.push('\n');
                }
            }
            Event::Start(Tag::Item) => {
                self.flush();
                let depth = "  ".repeat(self.indent.len());
                self.indent.push((format!("{depth}{} ", self.terminal.item_mark()), format!("{depth}  "), true));
            }
            Event::End(TagEnd::Item) => {
                self.flush();
                self.indent.pop();
            }
            Event::Start(Tag::List(_)) => self.flush(),
            Event::End(TagEnd::List(_)) if self.indent.is_empty() => self.out.push('\n'),
            Event::Start(Tag::BlockQuote(_)) => {
                let bar = if self.terminal.manners.plain || !self.terminal.manners.unicode { "> " } else { "│ " };
                self.indent.push((bar.to_owned(), bar.to_owned(), false));
            }
            Event::End(TagEnd::BlockQuote(_)) => {
                self.flush();
                self.indent.pop();
                self.out.push('\n');
            }
            Event::Start(Tag::CodeBlock(_)) => {
                self.flush();
                self.code = Some(String::new());
            }
            Event::End(TagEnd::CodeBlock) => {
                let depth = "  ".repeat(self.indent.len());
                for line in self.code.take().unwrap_or_default().lines() {
                    let line = format!("{depth}    {}", self.terminal.styled(Style::Literal, line));
                    self.out.push_str(line.trim_end());
                    self.out.push('\n');
                }
                self.out.push('\n');
            }
            Event::Start(Tag::Table(_)) => self.rows = Some(Vec::new()),
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                if let Some(rows) = &mut self.rows {
                    rows.push(Vec::new());
                }
            }
            Event::End(TagEnd::TableCell) => {
                let cell: String = self.inline.drain(..).map(|w| if w.space { format!(" {}", w.text) } else { w.text }).collect();
                if let Some(row) = self.rows.as_mut().and_then(|r| r.last_mut()) {
                    row.push(cell.trim().to_owned());
                }
            }
            Event::End(TagEnd::Table) => {
                let rows = self.rows.take().unwrap_or_default();
                if let Some((header, rows)) = rows.split_first() {
                    let header: Vec<&str> = header.iter().map(String::as_str).collect();
                    for line in table::render(&header, rows).lines() {
                        self.out.push_str("    ");
                        self.out.push_str(line);
                        self.out.push('\n');
                    }
                }
                self.out.push('\n');
            }
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.words(&text, self.style.last().copied()),
            },
            Event::Code(text) => {
                // Without colour only the marks tell a literal from prose.
                let styled = self.terminal.styled(Style::Literal, "x") != "x";
                let text = if styled { text.to_string() } else { format!("`{text}`") };
                self.push(Word { text, style: Some(Style::Literal), space: false });
            }
            Event::SoftBreak => self.words(" ", None),
            Event::HardBreak => self.flush(),
            _ => {}
        }
    }

    /// Splits text into words. Chinese may be broken between characters, so each is a word of its own.
    fn words(&mut self, text: &str, style: Option<Style>) {
        let mut space = false;
        let mut word = String::new();
        for c in text.chars() {
            if c.is_whitespace() {
                if !word.is_empty() {
                    self.push(Word { text: std::mem::take(&mut word), style, space });
                }
                space = true;
            } else if is_wide(c) {
                if !word.is_empty() {
                    self.push(Word { text: std::mem::take(&mut word), style, space });
                    space = false;
                }
                self.push(Word { text: c.to_string(), style, space });
                space = false;
            } else {
                word.push(c);
                continue;
            }
            if !c.is_whitespace() {
                space = false;
            }
        }
        if !word.is_empty() {
            self.push(Word { text: word, style, space });
        } else if space {
            // A space at the end belongs before the next word.
            self.push(Word { text: String::new(), style: None, space: true });
        }
    }

    fn push(&mut self, mut word: Word) {
        if let Some(last) = self.inline.last()
            && last.text.is_empty()
        {
            word.space = word.space || last.space;
            self.inline.pop();
        }
        self.inline.push(word);
    }

    fn flush(&mut self) {
        let words = std::mem::take(&mut self.inline);
        if words.iter().all(|w| w.text.is_empty()) {
            return;
        }
        let mut line = self.prefix();
        let mut used = table::width(&line);
        let mut empty = true;
        for (index, word) in words.iter().enumerate() {
            // What no line may break within stays together: a bracket with its word, closing punctuation with what it closes.
            let together = (index + 1..words.len()).find(|next| may_break(&words, *next)).unwrap_or(words.len());
            let width: usize =
                words[index..together].iter().enumerate().map(|(n, w)| table::width(&w.text) + usize::from(n > 0 && w.space)).sum();
            let space = usize::from(word.space && !empty);
            if !empty && may_break(&words, index) && used + space + width > self.columns {
                self.out.push_str(line.trim_end());
                self.out.push('\n');
                line = self.prefix();
                used = table::width(&line);
                empty = true;
            }
            if word.space && !empty {
                line.push(' ');
                used += 1;
            }
            used += table::width(&word.text);
            match word.style {
                Some(style) => line.push_str(&self.terminal.styled(style, &word.text)),
                None => line.push_str(&word.text),
            }
            empty = false;
        }
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// The prefix of the next line: an item's mark once, then its indent.
    fn prefix(&mut self) -> String {
        let last = self.indent.len().saturating_sub(1);
        let mut prefix = String::new();
        for (index, (first, rest, fresh)) in self.indent.iter_mut().enumerate() {
            if index == last {
                prefix = if *fresh { first.clone() } else { rest.clone() };
                *fresh = false;
            }
        }
        prefix
    }
}

fn is_wide(c: char) -> bool {
    unicode_width::UnicodeWidthChar::width(c) == Some(2)
}

fn is_wide_text(text: &str) -> bool {
    text.chars().next().is_some_and(is_wide)
}

/// Whether a line may end before this word: at a space, and on either side of a wide character that is no bracket or punctuation.
fn may_break(words: &[Word], index: usize) -> bool {
    let (Some(word), Some(before)) = (words.get(index), index.checked_sub(1).and_then(|i| words.get(i))) else { return true };
    let after_wide = before.text.chars().next_back().is_some_and(is_wide);
    let opens = before.text.chars().next_back().is_some_and(|c| "(（“‘《「【".contains(c));
    word.space || (!opens && !must_not_begin(&word.text) && (after_wide || is_wide_text(&word.text)))
}

fn must_not_begin(text: &str) -> bool {
    text.chars().next().is_some_and(|c| ".,;:!?)。，；：！？、）”’…".contains(c))
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::ui::terminal::{Manners, Terminal};
    use crate::ui::text::{Language, Texts};

    fn plain(text: &str, columns: usize) -> String {
        let manners = Manners { plain: true, ..Manners::default() };
        let (terminal, _, _) = Terminal::in_memory(manners, Texts::new(Language::English));
        render(&terminal, text, columns)
    }

    #[test]
    fn paragraphs_wrap_and_code_stays() {
        let text = plain("One two three\nfour `five`, six.\n\n```\nkubectl get   pods\n```\n\n- a\n- b `c`\n", 20);
        assert_eq!(text, "One two three four\n`five`, six.\n\n    kubectl get   pods\n\n- a\n- b `c`");
    }

    #[test]
    fn a_bracket_stays_with_what_it_encloses() {
        assert_eq!(plain("Let it ask for all (`mode: All`), and run.", 24), "Let it ask for all\n(`mode: All`), and run.");
    }

    #[test]
    fn chinese_wraps_by_display_width_and_no_line_begins_with_punctuation() {
        assert_eq!(plain("`pending` → `allocated` …", 40), "`pending` -> `allocated` ...");
        let text = plain("调度器只试了一次，然后等待变化。", 20);
        for line in text.lines() {
            assert!(crate::ui::table::width(line) <= 20, "{line}");
            assert!(!line.starts_with('，') && !line.starts_with('。'), "{line}");
        }
        assert_eq!(text.replace('\n', ""), "调度器只试了一次，然后等待变化。");
        let mixed = plain("两个量之间没有这个运算符。quantity要用方法来比较：`compareTo`、`isLessThan`。", 30);
        assert!(mixed.lines().all(|line| crate::ui::table::width(line) <= 30), "{mixed}");
    }

    #[test]
    fn tables_are_laid_out() {
        assert_eq!(plain("| a | b |\n|---|---|\n| 显存 | 1 |\n", 40), "    a      b\n    显存   1");
    }
}
