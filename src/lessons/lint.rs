//! The proof of every lesson: its files and prose by reading them, and on a lab red at the start, green after the solution,
//! red after a reset, and every diagnosis reached.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use crate::client::manifests;
use crate::lessons::library::Entry;
use crate::lessons::progress::Progress;
use crate::lessons::session::Session;
use crate::lessons::template::{Names, Place};
use crate::lessons::verify::{Patience, Report, Verdict, verify};
use crate::lessons::{LessonError, actions, check};

/// What a lesson's files lack. `parse` says whether a command is one that dralab or kubectl has.
#[must_use]
pub fn files(entry: &Entry, parse: &dyn Fn(&str) -> Result<(), String>) -> Vec<String> {
    let mut faults = Vec::new();
    let lesson = &entry.lesson;
    let names = Names::new(&Place::of_lab("dra-lab"), "lint", "/work", "dralab");
    if lesson.minutes == 0 || !(1..=3).contains(&lesson.difficulty) {
        faults.push("minutes and difficulty (1 to 3) are needed".to_owned());
    }
    let (english, chinese): (BTreeSet<&str>, BTreeSet<&str>) = (entry.english.headings().collect(), entry.chinese.headings().collect());
    for missing in english.symmetric_difference(&chinese) {
        let language = if english.contains(missing) { "zh.md" } else { "en.md" };
        faults.push(format!("{language} has no section \"{missing}\""));
    }
    let mut wanted: BTreeSet<String> = ["intro".to_owned(), "done".to_owned()].into();
    let mut ids = BTreeSet::new();
    for step in &lesson.steps {
        wanted.insert(format!("step {}", step.id));
        wanted.extend(step.hints.iter().map(|h| format!("hint {h}")));
        wanted.extend(step.predict.iter().map(|p| format!("ask {}", p.ask)));
        if !ids.insert(format!("step {}", step.id)) {
            faults.push(format!("step {} is there twice", step.id));
        }
        if step.checks.is_empty() && step.expect.is_empty() {
            faults.push(format!("step {} has no check", step.id));
        }
        if step.hints.is_empty() {
            faults.push(format!("step {} has no hints", step.id));
        }
        if let Some(predict) = &step.predict
            && !predict.choose.contains(&predict.is)
        {
            faults.push(format!("step {}: the right prediction is none of the choices", step.id));
        }
        for check in &step.checks {
            wanted.insert(format!("check {}", check.id));
            wanted.extend(check.wrong.iter().map(|w| format!("say {}", w.say)));
            if !ids.insert(format!("check {}", check.id)) {
                faults.push(format!("check {} is there twice", check.id));
            }
            for expression in std::iter::once(&check.that).chain(check.wrong.iter().map(|w| &w.when)) {
                if let Err(error) = check::compiles(&names.fill(expression)) {
                    faults.push(format!("check {}: {error}", check.id));
                }
            }
            for wrong in check.wrong.iter().filter(|w| w.attempt.is_empty() && w.when != "true") {
                faults.push(format!("check {}: nothing shows that \"{}\" can be reached (`try` is missing)", check.id, wrong.say));
            }
        }
        for command in step.run.iter().chain(&step.look) {
            if let Err(error) = parse(&names.fill(command)) {
                faults.push(format!("step {}: `{command}`: {error}", step.id));
            }
        }
        let tried = step.checks.iter().flat_map(|c| &c.wrong).flat_map(|w| &w.attempt);
        let paths = (step.start.iter().map(|f| format!("start/{f}")))
            .chain(step.work.iter().map(|f| format!("work/{f}")))
            .chain(step.solve.iter().filter_map(|a| a.manifest("solution")))
            .chain(tried.filter_map(|a| a.manifest("wrong")));
        for path in paths {
            let read = entry.file(&path).map_err(|e| e.to_string()).and_then(|t| {
                let unknown = Names::unknown(t);
                if unknown.is_empty() {
                    manifests::read(&path, &names.fill(t)).map_err(|e| e.to_string())
                } else {
                    Err(format!("{path}: nothing fills {}", unknown.join(", ")))
                }
            });
            if let Err(error) = read {
                faults.push(error);
            }
        }
    }
    for heading in wanted.iter().filter(|h| entry.english.section(h).is_none_or(str::is_empty)) {
        faults.push(format!("en.md has no text under \"{heading}\""));
    }
    for heading in english.iter().filter(|h| !wanted.contains(**h)) {
        faults.push(format!("en.md: nothing refers to \"{heading}\""));
    }
    for prose in [&entry.english, &entry.chinese] {
        for heading in prose.headings() {
            let unknown = prose.section(heading).map(Names::unknown).unwrap_or_default();
            if !unknown.is_empty() {
                faults.push(format!("{heading}: nothing fills {}", unknown.join(", ")));
            }
        }
    }
    faults
}

/// Plays a lesson on a lab and says what is not as it should be.
///
/// # Errors
/// When the server cannot be reached or refuses something that should work.
pub async fn play(session: &Session<'_>, now: Timestamp) -> Result<Vec<String>, LessonError> {
    let mut faults = Vec::new();
    let quick = Patience { bound: Some(Duration::from_secs(20)), settled: Duration::from_millis(250) };
    let mut progress = Progress::default();
    session.reset(&mut progress, now).await?;
    for (index, step) in session.entry.lesson.steps.iter().enumerate() {
        if index > 0 {
            session.begin(step, &mut progress, now).await?;
        }
        let report = look(session, index, &progress, quick).await?;
        if report.result == Verdict::Passed {
            faults.push(format!("step {} passes untouched", step.id));
        }
        solve(session, index).await?;
        let report = look(session, index, &progress, quick).await?;
        if report.result != Verdict::Passed {
            let red: Vec<String> = report.checks.iter().filter(|c| !c.passed).map(|c| format!("{} ({})", c.id, c.observed)).collect();
            faults.push(format!("step {} is not green after its solution: {}", step.id, red.join(", ")));
            return Ok(faults);
        }
    }
    session.reset(&mut progress, now).await?;
    if look(session, 0, &progress, quick).await?.result == Verdict::Passed {
        faults.push("the first step is green after a reset".to_owned());
    }
    for (index, step) in session.entry.lesson.steps.iter().enumerate() {
        for wrong in step.checks.iter().flat_map(|c| &c.wrong).filter(|w| !w.attempt.is_empty()) {
            let mut progress = Progress::default();
            session.reset(&mut progress, now).await?;
            for before in 0..index {
                solve(session, before).await?;
                look(session, before, &progress, quick).await?;
                session.begin(&session.entry.lesson.steps[before + 1], &mut progress, now).await?;
            }
            for action in &wrong.attempt {
                actions::perform(&session.client, &session.kinds, session.entry, "wrong", &session.names, session.manager, action).await?;
            }
            let report = look(session, index, &progress, quick).await?;
            let said = report.diagnosis.as_ref().map(|d| d.say.as_str());
            if said != Some(wrong.say.as_str()) {
                faults.push(format!("step {}: what should lead to \"{}\" leads to {}", step.id, wrong.say, said.unwrap_or("no diagnosis")));
            }
        }
    }
    session.clean().await?;
    Ok(faults)
}

async fn solve(session: &Session<'_>, index: usize) -> Result<(), LessonError> {
    for action in &session.entry.lesson.steps[index].solve {
        actions::perform(&session.client, &session.kinds, session.entry, "solution", &session.names, session.manager, action).await?;
    }
    Ok(())
}

async fn look(session: &Session<'_>, index: usize, progress: &Progress, patience: Patience) -> Result<Report, LessonError> {
    let since = progress.lessons.get(&session.entry.lesson.id).cloned().unwrap_or_default();
    verify(session, &session.entry.lesson.steps[index], &since, patience, &mut |_| {}).await
}
