//! Answers the shared case files for `dralab dev cases`.
//!
//! A case file holds inputs with the outcome that Kubernetes' own code had for them. Each case gets one answer, one JSON
//! object per line; the outcome that is recorded is used for the summary only, never for the answer.

mod alloc;
mod cel;

use std::io::{self, Write};

use serde_json::{Value, json};

/// How many cases came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The answer agrees with the recorded outcome, as far as this program looks.
    pub passed: usize,
    /// It does not.
    pub failed: usize,
    /// The case needs something that is not built.
    pub skipped: usize,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Why case files cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum CasesError {
    /// The file is not JSON.
    #[error("{file}: not a case file: {source}")]
    Json {
        /// The file's name.
        file: String,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// The file is of another format.
    #[error("{file}: not a case file: its format is {found}, known are {ALLOCATOR_FORMAT} and {CEL_FORMAT}")]
    Format {
        /// The file's name.
        file: String,
        /// The format that it names.
        found: String,
    },
    /// The file has no list of cases.
    #[error("{file}: not a case file: it has no list \"cases\"")]
    NoCases {
        /// The file's name.
        file: String,
    },
    /// A case has no name.
    #[error("{file}: case {number} has no name")]
    NoName {
        /// The file's name.
        file: String,
        /// The place in the list, from 0.
        number: usize,
    },
    /// The answers cannot be written.
    #[error("the answers cannot be written: {0}")]
    Write(#[from] io::Error),
}

const ALLOCATOR_FORMAT: &str = "dralab-allocator-cases/1";
const CEL_FORMAT: &str = "dralab-cel-cases/1";

/// Answers the cases of all files, given by name and text, one line per case into `answers`.
///
/// # Errors
/// A file is no case file (no answer of that file is written then), or the answers cannot be written.
pub fn run(files: &[(String, String)], answers: &mut dyn Write) -> Result<Summary, CasesError> {
    let mut summary = Summary::default();
    for (path, text) in files {
        let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
        for (case, answer_case, verdict) in cases(file, text)? {
            let mut answer = answer_case(&case);
            if let Some(fields) = answer.as_object_mut() {
                fields.insert("file".to_owned(), json!(file));
                fields.insert("name".to_owned(), case["name"].clone());
            }
            if answer.get("skippedBecause").is_some() {
                summary.skipped += 1;
            } else if verdict(&case, &answer) {
                summary.passed += 1;
            } else {
                summary.failed += 1;
            }
            serde_json::to_writer(&mut *answers, &answer).map_err(io::Error::from)?;
            answers.write_all(b"\n")?;
        }
    }
    answers.flush()?;
    Ok(summary)
}

type Answer = fn(&Value) -> Value;
type Verdict = fn(&Value, &Value) -> bool;

/// The cases of a file, with what answers them and what judges the answers.
fn cases(file: &str, text: &str) -> Result<Vec<(Value, Answer, Verdict)>, CasesError> {
    let mut document: Value = serde_json::from_str(text).map_err(|source| CasesError::Json { file: file.to_owned(), source })?;
    let (answer, verdict): (Answer, Verdict) = match document["format"].as_str() {
        Some(ALLOCATOR_FORMAT) => (alloc::answer, alloc::agrees),
        Some(CEL_FORMAT) => (cel::answer, cel::agrees),
        _ => {
            let found = document.get("format").map_or_else(|| "missing".to_owned(), Value::to_string);
            return Err(CasesError::Format { file: file.to_owned(), found });
        }
    };
    let Value::Array(cases) = document["cases"].take() else { return Err(CasesError::NoCases { file: file.to_owned() }) };
    if let Some(number) = cases.iter().position(|case| !case["name"].is_string()) {
        return Err(CasesError::NoName { file: file.to_owned(), number });
    }
    Ok(cases.into_iter().map(|case| (case, answer, verdict)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_text(text: &str) -> Result<Summary, String> {
        let mut out = Vec::new();
        run(&[("folder/file.json".to_owned(), text.to_owned())], &mut out).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_no_case_file_is_a_clear_error() {
        for (text, expected) in [
            ("{", "file.json: not a case file: EOF while parsing an object at line 1 column 1"),
            ("[]", "file.json: not a case file: its format is missing, known are dralab-allocator-cases/1 and dralab-cel-cases/1"),
            (
                r#"{"format":"x"}"#,
                "file.json: not a case file: its format is \"x\", known are dralab-allocator-cases/1 and dralab-cel-cases/1",
            ),
            (r#"{"format":"dralab-allocator-cases/1"}"#, "file.json: not a case file: it has no list \"cases\""),
            (r#"{"format":"dralab-allocator-cases/1","cases":[{}]}"#, "file.json: case 0 has no name"),
        ] {
            assert_eq!(run_text(text).unwrap_err(), expected);
        }
        assert_eq!(run_text(r#"{"format":"dralab-allocator-cases/1","cases":[]}"#).unwrap().to_string(), "0 passed, 0 failed, 0 skipped");
    }
}
