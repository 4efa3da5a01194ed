//! Lessons and verify on the terminal.

use std::fmt::Display;

use crate::base::failure::Failure;
use crate::lessons::format::Step;
use crate::lessons::journal::Entry as Transition;
use crate::lessons::library::Entry;
use crate::lessons::template::Names;
use crate::lessons::verify::{Report, Verdict};
use crate::ui::markdown;
use crate::ui::table;
use crate::ui::terminal::{Style, Terminal};

/// How wide prose is set.
const COLUMNS: usize = 96;

/// The heading of a lesson's step, its intro for the first one, its text, and the files to edit.
///
/// # Errors
/// When stdout cannot be written.
pub fn step(terminal: &Terminal, entry: &Entry, names: &Names, step: &Step) -> Result<(), Failure> {
    let language = terminal.texts.language().code();
    let (index, _) = entry.lesson.step(&step.id).unwrap_or((0, step));
    let heading = terminal.text("lesson.heading", &[("number", &entry.number), ("title", &entry.title(language))]);
    terminal.line(terminal.styled(Style::Strong, &heading))?;
    let place =
        terminal.text("lesson.place", &[("step", &(index + 1)), ("steps", &entry.lesson.steps.len()), ("minutes", &entry.lesson.minutes)]);
    terminal.line(terminal.styled(Style::Dim, &place))?;
    terminal.line("")?;
    if index == 0 {
        section(terminal, entry, names, "intro")?;
    }
    section(terminal, entry, names, &format!("step {}", step.id))?;
    if let Some(predict) = &step.predict {
        terminal.line(terminal.styled(Style::Strong, &terminal.text("lesson.predict", &[])))?;
        section(terminal, entry, names, &format!("ask {}", predict.ask))?;
        terminal.line(format!("  {}", predict.choose.join(" | ")))?;
        terminal.line("")?;
    }
    Ok(())
}

/// A section of the prose.
///
/// # Errors
/// When stdout cannot be written.
pub fn section(terminal: &Terminal, entry: &Entry, names: &Names, heading: &str) -> Result<(), Failure> {
    if let Some(text) = entry.section(terminal.texts.language().code(), heading).filter(|t| !t.is_empty()) {
        terminal.line(markdown::render(terminal, &names.fill(text), COLUMNS))?;
        terminal.line("")?;
    }
    Ok(())
}

/// One transition, as a line.
#[must_use]
pub fn transition(terminal: &Terminal, transition: &Transition) -> String {
    let time = transition.at.get(11..19).unwrap_or("--:--:--");
    let change = format!("{} {} {}", transition.from, terminal.arrow(), transition.to);
    let by = if transition.result == "not-observed" {
        terminal.text("verify.not-observed", &[])
    } else if transition.by.is_empty() {
        String::new()
    } else {
        terminal.text("verify.by", &[("who", &transition.by)])
    };
    format!("  {time}  {}  {}  {}", table::pad(&transition.object, 24), table::pad(&change, 34), terminal.styled(Style::Dim, &by))
        .trim_end()
        .to_owned()
}

/// A verify report: transitions, checks, Kubernetes' own words, the diagnosis.
///
/// # Errors
/// When stdout cannot be written.
pub fn report(terminal: &Terminal, entry: &Entry, names: &Names, report: &Report, with_transitions: bool) -> Result<(), Failure> {
    let text = |id: &str, values: &[(&str, &dyn Display)]| terminal.text(id, values);
    let language = terminal.texts.language().code();
    let title = text(
        "verify.heading",
        &[("number", &entry.number), ("title", &entry.title(language)), ("step", &report.step_number), ("steps", &report.steps)],
    );
    terminal.line(terminal.styled(Style::Strong, &title))?;
    terminal.line("")?;
    if with_transitions && !report.transitions.is_empty() {
        for entry in &report.transitions {
            terminal.line(transition(terminal, entry))?;
        }
        if !report.history_complete {
            terminal.line(format!("  {}", text("verify.history-cut", &[])))?;
        }
        terminal.line("")?;
    }
    for outcome in &report.checks {
        let prose = entry.section(language, &format!("check {}", outcome.id)).map(|t| names.fill(t).replace('\n', " "));
        let what = prose.unwrap_or_else(|| {
            text("verify.state", &[("object", &outcome.object.clone().unwrap_or_default()), ("state", &outcome.expected)])
        });
        let (mark, style) = if outcome.passed { (terminal.good_mark(), Style::Good) } else { (terminal.bad_mark(), Style::Bad) };
        terminal.line(format!(" {} {what}", terminal.styled(style, mark)))?;
        if !outcome.passed {
            terminal.line(format!("     {}  {}", text("verify.expected", &[]), outcome.expected))?;
            terminal.line(format!("     {}  {}", text("verify.observed", &[]), outcome.observed))?;
        }
    }
    terminal.line("")?;
    if report.result == Verdict::Passed {
        return Ok(());
    }
    for quote in &report.kubernetes {
        terminal.line(text("verify.kubernetes", &[("who", &quote.from), ("object", &quote.object)]))?;
        terminal.line(format!("    {}", quote.message))?;
        terminal.line("")?;
    }
    if let Some(diagnosis) = &report.diagnosis {
        section(terminal, entry, names, &format!("say {}", diagnosis.say))?;
    }
    let passed = report.checks.iter().filter(|c| c.passed).count();
    terminal.line(text("verify.count", &[("passed", &passed), ("all", &report.checks.len())]))
}
