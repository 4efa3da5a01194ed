//! The text catalogue: everything a learner reads, by id, in English and Chinese (`assets/text/*.yaml`).
//!
//! A text may have placeholders in braces: `{lab}`. Kubernetes' terms (ResourceClaim, DeviceClass) stay English in both.

use std::collections::BTreeMap;
use std::fmt::Display;

/// A language that dralab speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Language {
    /// English.
    English,
    /// Chinese (simplified).
    Chinese,
}

impl Language {
    /// The language of a locale or language tag such as `zh_CN.UTF-8`, where dralab speaks it.
    #[must_use]
    pub fn of_locale(locale: &str) -> Option<Self> {
        let tag = locale.split(['_', '-', '.', '@']).next().unwrap_or_default().to_ascii_lowercase();
        match tag.as_str() {
            "zh" => Some(Language::Chinese),
            "en" | "c" | "posix" => Some(Language::English),
            _ => None,
        }
    }

    /// The code that file names use: `en` or `zh`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::Chinese => "zh",
        }
    }

    /// Both languages.
    pub const ALL: [Language; 2] = [Language::English, Language::Chinese];
}

/// The texts of one language, with English behind them.
#[derive(Clone, Debug)]
pub struct Texts {
    language: Language,
    own: BTreeMap<String, String>,
    english: BTreeMap<String, String>,
}

const ENGLISH: &str = include_str!("../../assets/text/en.yaml");
const CHINESE: &str = include_str!("../../assets/text/zh.yaml");

impl Texts {
    /// The catalogue of a language. The files are part of the binary; a test proves that they parse and agree.
    #[must_use]
    pub fn new(language: Language) -> Self {
        let english = parse(ENGLISH);
        let own = match language {
            Language::English => BTreeMap::new(),
            Language::Chinese => parse(CHINESE),
        };
        Texts { language, own, english }
    }

    /// The language of this catalogue.
    #[must_use]
    pub fn language(&self) -> Language {
        self.language
    }

    /// The text of an id with its placeholders filled in. An id without a text shows itself, so that a gap is seen.
    #[must_use]
    pub fn get(&self, id: &str, values: &[(&str, &dyn Display)]) -> String {
        let template = self.own.get(id).or_else(|| self.english.get(id));
        let Some(template) = template else { return id.to_owned() };
        let mut text = String::with_capacity(template.len());
        let mut rest = template.as_str();
        while let Some(open) = rest.find('{') {
            text.push_str(&rest[..open]);
            let after = &rest[open + 1..];
            let filled = after.find('}').and_then(|close| {
                let value = values.iter().find(|(name, _)| *name == &after[..close])?;
                Some((close, value.1.to_string()))
            });
            match filled {
                Some((close, value)) => {
                    text.push_str(&value);
                    rest = &after[close + 1..];
                }
                None => {
                    text.push('{');
                    rest = after;
                }
            }
        }
        text.push_str(rest);
        text
    }

    /// True if the id has a text.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.own.contains_key(id) || self.english.contains_key(id)
    }
}

fn parse(text: &str) -> BTreeMap<String, String> {
    serde_saphyr::from_str(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{CHINESE, ENGLISH, Language, Texts, parse};
    use std::collections::BTreeSet;

    fn placeholders(text: &str) -> BTreeSet<String> {
        text.split('{').skip(1).filter_map(|t| t.split_once('}')).map(|(name, _)| name.to_owned()).collect()
    }

    #[test]
    fn both_languages_have_the_same_ids_and_placeholders() {
        let (english, chinese) = (parse(ENGLISH), parse(CHINESE));
        assert!(english.len() > 30, "the English catalogue parses");
        assert_eq!(english.keys().collect::<Vec<_>>(), chinese.keys().collect::<Vec<_>>());
        for (id, text) in &english {
            assert_eq!(placeholders(text), placeholders(&chinese[id]), "placeholders of {id}");
        }
    }

    #[test]
    fn every_advice_has_a_text() {
        let texts = Texts::new(Language::English);
        for cause in crate::cluster::kind::causes::all() {
            assert!(texts.has(cause.advice().id), "{}", cause.advice().id);
        }
    }

    #[test]
    fn placeholders_are_filled_and_unknown_braces_stay() {
        let texts = Texts::new(Language::English);
        assert_eq!(texts.get("up.ready", &[("seconds", &"0.4")]), "Lab ready in 0.4 s.");
        assert_eq!(texts.get("no.such.id", &[]), "no.such.id");
    }

    #[test]
    fn locales_choose_a_language() {
        assert_eq!(Language::of_locale("zh_CN.UTF-8"), Some(Language::Chinese));
        assert_eq!(Language::of_locale("en_GB"), Some(Language::English));
        assert_eq!(Language::of_locale("de_DE"), None);
    }
}
