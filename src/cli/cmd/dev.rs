//! `dev`: for builders of dralab.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::base::clock::{Clock as _, SystemClock};
use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::cmd::tour::parses;
use crate::lessons::{Library, lint};
use crate::ui::terminal::Terminal;

/// Answers case files; the summary is the last line of stdout. Exit code 1 when a case disagrees.
///
/// # Errors
/// When a file cannot be read, or is not a case file.
pub fn cases(terminal: &Terminal, files: &[PathBuf], answers: Option<&Path>) -> Result<u8, Failure> {
    let mut texts = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(Kind::Usage, "DL-CASE-01", format!("cannot read {}", path.display())).because(&error))?;
        let name = path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        texts.push((name, text));
    }
    let mut sink: Box<dyn Write> = match answers {
        Some(path) => {
            let file = File::create(path)
                .map_err(|error| Failure::new(Kind::Failed, "DL-CASE-02", format!("cannot write {}", path.display())).because(&error))?;
            Box::new(BufWriter::new(file))
        }
        None => Box::new(std::io::sink()),
    };
    let summary = crate::cases::run(&texts, &mut sink).map_err(|error| Failure::new(Kind::Usage, "DL-CASE-03", error.to_string()))?;
    sink.flush().map_err(|error| Failure::new(Kind::Failed, "DL-CASE-02", "cannot write the answers").because(&error))?;
    terminal.line(summary.to_string())?;
    Ok(u8::from(summary.failed > 0))
}

/// Proves lessons on the embedded lab of this name: exit code 1 when something is not as it should be.
///
/// # Errors
/// When the lab is not up, or there is no such lesson.
pub async fn lint(app: &App, ids: &[String]) -> Result<u8, Failure> {
    let library = Library::embedded().map_err(Failure::from)?;
    let entries: Vec<_> = if ids.is_empty() {
        library.entries().iter().collect()
    } else {
        ids.iter().map(|id| library.find(id)).collect::<Result<_, _>>().map_err(Failure::from)?
    };
    let (mut passed, mut failed, mut skipped) = (0usize, 0usize, 0usize);
    for entry in entries {
        let mut faults = lint::files(entry, &parses);
        let session = super::lesson::session(app, entry).await?;
        match session.lacks().await.map_err(Failure::from)? {
            Some(lack) => {
                skipped += 1;
                app.terminal.line(format!("{}: skipped, it needs {}", entry.folder, lack.need))?;
                continue;
            }
            None => faults.extend(lint::play(&session, SystemClock.now()).await.map_err(Failure::from)?),
        }
        for fault in &faults {
            app.terminal.line(format!("{}: {fault}", entry.folder))?;
        }
        if faults.is_empty() {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    app.terminal.line(format!("{passed} passed, {failed} failed, {skipped} skipped"))?;
    Ok(u8::from(failed > 0 || passed == 0))
}
