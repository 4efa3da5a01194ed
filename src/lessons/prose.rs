//! The prose of a lesson: plain Markdown, one map from heading to text, parsed by headings only.
//!
//! `# title`, `## intro`, `## step ID`, `### check ID`, `### say ID`, `### hint ID`, `### ask ID`, `### choice VALUE`, `## done`.

use std::collections::BTreeMap;

/// The sections of one language, by heading such as `step look` or `hint read-the-event`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prose {
    /// The text of `# …`.
    pub title: String,
    sections: BTreeMap<String, String>,
}

const WORDS: &[&str] = &["intro", "step", "check", "say", "hint", "ask", "done"];

impl Prose {
    /// Reads the sections. A heading inside a code block is text, and so is one whose first word is not one of ours.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut prose = Prose::default();
        let mut key: Option<String> = None;
        let mut fenced = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            if !fenced && let Some(heading) = heading(line) {
                if line.starts_with("# ") && prose.title.is_empty() {
                    heading.clone_into(&mut prose.title);
                    key = None;
                    continue;
                }
                let first = heading.split_whitespace().next().unwrap_or_default();
                if WORDS.contains(&first) {
                    let name = heading.split_whitespace().collect::<Vec<_>>().join(" ");
                    prose.sections.entry(name.clone()).or_default();
                    key = Some(name);
                    continue;
                }
            }
            if let Some(key) = &key
                && let Some(section) = prose.sections.get_mut(key)
            {
                section.push_str(line);
                section.push('\n');
            }
        }
        for section in prose.sections.values_mut() {
            *section = section.trim().to_owned();
        }
        prose
    }

    /// The text under a heading.
    #[must_use]
    pub fn section(&self, heading: &str) -> Option<&str> {
        self.sections.get(heading).map(String::as_str)
    }

    /// All headings, sorted.
    pub fn headings(&self) -> impl Iterator<Item = &str> {
        self.sections.keys().map(String::as_str)
    }
}

fn heading(line: &str) -> Option<&str> {
    let level = line.bytes().take_while(|b| *b == b'#').count();
    (1..=4).contains(&level).then(|| line[level..].strip_prefix(' ')).flatten().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::Prose;

    #[test]
    fn sections_by_heading() {
        let prose = Prose::read(
            "# Title\n\n## intro\nHello.\n\n## step look\nDo.\n\n```\n# not a heading\n```\n### A heading of the text\nmore\n#### hint one\nLook.\n",
        );
        assert_eq!(prose.title, "Title");
        assert_eq!(prose.section("intro"), Some("Hello."));
        assert_eq!(prose.section("step look"), Some("Do.\n\n```\n# not a heading\n```\n### A heading of the text\nmore"));
        assert_eq!(prose.section("hint one"), Some("Look."));
        assert_eq!(prose.headings().count(), 3);
    }
}
