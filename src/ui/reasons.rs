//! The pages of the reasons that `explain` gives (`assets/reasons/{en,zh}/ID.md`), part of the binary.

use include_dir::{Dir, include_dir};

use crate::explain::Reason;
use crate::ui::text::Language;

static PAGES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/assets/reasons");

/// The page of a reason, as Markdown; `None` if there is none, which a test forbids.
#[must_use]
pub fn page(reason: Reason, language: Language) -> Option<&'static str> {
    PAGES.get_file(format!("{}/{}.md", language.code(), reason.id()))?.contents_utf8()
}

/// The title of a reason's page.
#[must_use]
pub fn title(reason: Reason, language: Language) -> String {
    let first = page(reason, language).and_then(|page| page.lines().next()).unwrap_or_default();
    first.trim_start_matches("# ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::page;
    use crate::explain::Reason;
    use crate::ui::text::{Language, Texts};

    #[test]
    fn every_reason_has_a_page_in_both_languages_and_no_page_is_left_over() {
        for language in Language::ALL {
            let mut pages = 0;
            for reason in Reason::all() {
                let text = page(reason, language).unwrap_or_else(|| panic!("{} has no page in {}", reason.id(), language.code()));
                let heading = text.lines().next().unwrap_or_default();
                assert!(heading.starts_with("# ") && heading.len() > 6, "{}", reason.id());
                assert_eq!(text.lines().filter(|line| line.starts_with("## ")).count(), 4, "{} {}", reason.id(), language.code());
                pages += 1;
            }
            let folder = super::PAGES.get_dir(language.code()).expect("a folder");
            assert_eq!(folder.files().count(), pages, "pages without a reason in {}", language.code());
        }
    }

    #[test]
    fn every_reason_has_a_sentence() {
        for language in Language::ALL {
            let texts = Texts::new(language);
            for reason in Reason::all() {
                let id = format!("explain.say.{}", reason.slug());
                assert!(texts.has(&id), "{id}");
            }
        }
    }
}
