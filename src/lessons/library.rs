//! The lessons of this build: embedded in the binary, in order of their folders.

use include_dir::{Dir, include_dir};

use crate::base::nearest::levenshtein;
use crate::lessons::LessonError;
use crate::lessons::format::{FORMAT, Lesson};
use crate::lessons::prose::Prose;

static LESSONS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/lessons");

/// A lesson with its prose and files.
#[derive(Clone, Debug)]
pub struct Entry {
    /// 1, 2, 3, … as in the folder's name.
    pub number: u32,
    /// The folder's name.
    pub folder: String,
    /// Structure.
    pub lesson: Lesson,
    /// English prose.
    pub english: Prose,
    /// Chinese prose.
    pub chinese: Prose,
}

impl Entry {
    /// The prose of a language code (`en`, `zh`), section by section with English behind it.
    #[must_use]
    pub fn section(&self, language: &str, heading: &str) -> Option<&str> {
        let own = if language == "zh" { self.chinese.section(heading) } else { None };
        own.or_else(|| self.english.section(heading))
    }

    /// The title in a language.
    #[must_use]
    pub fn title(&self, language: &str) -> &str {
        if language == "zh" && !self.chinese.title.is_empty() { &self.chinese.title } else { &self.english.title }
    }

    /// The text of a file of the lesson, such as `start/claim.yaml`.
    ///
    /// # Errors
    /// When there is none.
    pub fn file(&self, path: &str) -> Result<&'static str, LessonError> {
        LESSONS
            .get_file(format!("{}/{path}", self.folder))
            .and_then(include_dir::File::contents_utf8)
            .ok_or_else(|| LessonError::Broken { file: format!("{}/{path}", self.folder), reason: "there is no such file".to_owned() })
    }

    /// Paths of all files of the lesson below one of its folders.
    #[must_use]
    pub fn files(&self, folder: &str) -> Vec<String> {
        let Some(dir) = LESSONS.get_dir(format!("{}/{folder}", self.folder)) else { return Vec::new() };
        let mut paths: Vec<String> = dir.files().filter_map(|f| f.path().file_name()).map(|n| n.to_string_lossy().into_owned()).collect();
        paths.sort();
        paths
    }
}

/// All lessons.
#[derive(Clone, Debug)]
pub struct Library {
    entries: Vec<Entry>,
}

impl Library {
    /// Reads the lessons of this build.
    ///
    /// # Errors
    /// When one of them is broken (a test keeps that from shipping).
    pub fn embedded() -> Result<Self, LessonError> {
        let mut entries = Vec::new();
        for dir in LESSONS.dirs() {
            let folder = dir.path().display().to_string();
            let broken = |file: &str, reason: String| LessonError::Broken { file: format!("{folder}/{file}"), reason };
            let number =
                folder.split('-').next().and_then(|n| n.parse().ok()).ok_or_else(|| broken("", "a folder is named NN-slug".to_owned()))?;
            let text = |file: &str| {
                LESSONS
                    .get_file(format!("{folder}/{file}"))
                    .and_then(include_dir::File::contents_utf8)
                    .ok_or_else(|| broken(file, "there is no such file".to_owned()))
            };
            let lesson: Lesson = serde_saphyr::from_str(text("lesson.yaml")?).map_err(|error| broken("lesson.yaml", error.to_string()))?;
            if lesson.format != FORMAT {
                return Err(broken("lesson.yaml", format!("its format is {}, and this build reads {FORMAT}", lesson.format)));
            }
            let (english, chinese) = (Prose::read(text("en.md")?), Prose::read(text("zh.md")?));
            entries.push(Entry { number, folder, lesson, english, chinese });
        }
        entries.sort_by_key(|e| e.number);
        Ok(Library { entries })
    }

    /// The lessons in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// A lesson by id or number.
    ///
    /// # Errors
    /// When there is none, with ids that are near.
    pub fn find(&self, name: &str) -> Result<&Entry, LessonError> {
        self.entries.iter().find(|e| e.lesson.id == name || e.number.to_string() == name || e.folder == name).ok_or_else(|| {
            let mut near: Vec<(usize, String)> =
                self.entries.iter().map(|e| (levenshtein(&e.lesson.id, name), e.lesson.id.clone())).filter(|(d, _)| *d <= 4).collect();
            near.sort();
            LessonError::Unknown { name: name.to_owned(), near: near.into_iter().map(|(_, id)| id).take(3).collect() }
        })
    }
}
