//! What `doctor` found, for people and as JSON. Computes nothing.

use std::fmt::Display;

use serde_json::{Value, json};

use crate::base::failure::Failure;
use crate::cluster::steps::Say;
use crate::doctor::checks::CHECKS;
use crate::doctor::{Blind, Check, Examined, Facts, Finding, Group, Report, Severity};
use crate::ui::table;
use crate::ui::terminal::{Style, Terminal};

/// So much evidence of one finding is shown.
const SHOWN: usize = 5;

/// A text of a layer below, in the terminal's language.
#[must_use]
pub fn say(terminal: &Terminal, say: &Say) -> String {
    let values: Vec<(&str, &dyn Display)> = say.values.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
    terminal.text(say.id, &values)
}

fn title(terminal: &Terminal, check: &Check) -> String {
    terminal.text(&format!("doctor.{}", check.slug), &[])
}

fn severity_word(terminal: &Terminal, severity: Severity) -> String {
    terminal.text(&format!("doctor.severity.{}", severity.word()), &[])
}

/// All checks: id, what they may find, what they look at.
///
/// # Errors
/// When standard output cannot be written.
pub fn list(terminal: &Terminal) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = CHECKS
        .iter()
        .map(|check| {
            let most = severity_word(terminal, check.most);
            let range = if check.least == check.most { most } else { format!("{}-{most}", severity_word(terminal, check.least)) };
            vec![check.id.to_owned(), range, title(terminal, check)]
        })
        .collect();
    let header = ["doctor.list.id", "doctor.list.severity", "doctor.list.title"].map(|id| terminal.text(id, &[]));
    terminal.write(table::render(&[&header[0], &header[1], &header[2]], &rows).as_bytes())
}

/// All checks as JSON.
#[must_use]
pub fn list_as_json(terminal: &Terminal) -> Value {
    let checks = CHECKS.iter().map(|check| {
        json!({"id": check.id, "group": check.group, "title": title(terminal, check), "severities": {"least": check.least, "most": check.most}})
    });
    json!({"apiVersion": "dralab/v1", "kind": "DoctorChecks", "checks": checks.collect::<Vec<_>>()})
}

/// The report as one JSON document.
#[must_use]
pub fn as_json(terminal: &Terminal, facts: &Facts, report: &Report) -> Value {
    let finding = |finding: &Finding| {
        json!({"severity": finding.severity, "what": say(terminal, &finding.what), "whatId": finding.what.id, "evidence": finding.evidence,
            "advice": say(terminal, &finding.advice), "adviceId": finding.advice.id})
    };
    let check = |one: &Examined| {
        let (result, findings, reason) = match &one.outcome {
            Ok(findings) if findings.is_empty() => ("fine", Vec::new(), None),
            Ok(findings) => ("found", findings.iter().map(finding).collect(), None),
            Err(Blind::NotHere(absent)) => ("not-here", Vec::new(), Some(terminal.text(absent.text(), &[]))),
            Err(Blind::CouldNotLook(reason)) => ("could-not-look", Vec::new(), Some(reason.clone())),
        };
        json!({"id": one.check.id, "group": one.check.group, "title": title(terminal, one.check), "result": result, "findings": findings, "reason": reason})
    };
    let cluster = facts.cluster.as_ref().ok().map(|c| json!({"server": c.server, "version": c.version, "embedded": c.embedded}));
    json!({"apiVersion": "dralab/v1", "kind": "DoctorReport", "at": facts.now, "worst": report.worst(), "cluster": cluster,
        "checks": report.examined.iter().map(check).collect::<Vec<_>>()})
}

/// The report for people: by group, findings in full and one line for what is fine.
///
/// # Errors
/// When standard output cannot be written.
pub fn render(terminal: &Terminal, facts: &Facts, report: &Report, columns: usize) -> Result<(), Failure> {
    let mut first = true;
    for group in Group::ALL {
        let of_group: Vec<&Examined> = report.examined.iter().filter(|one| one.check.group == group).collect();
        if of_group.is_empty() {
            continue;
        }
        if !first {
            terminal.line("")?;
        }
        first = false;
        let heading = terminal.text(&format!("doctor.group.{}", group.word()), &[]);
        let about = facts.cluster.as_ref().ok().filter(|_| group == Group::Cluster).map(|c| format!("  {} {}", c.server, c.version));
        terminal.line(format!("{}{}", terminal.styled(Style::Strong, &heading), about.unwrap_or_default()))?;
        let mut findings: Vec<(&Check, &Finding)> =
            of_group.iter().flat_map(|one| one.outcome.iter().flatten().map(|finding| (one.check, finding))).collect();
        findings.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.severity));
        for (check, finding) in findings {
            one(terminal, check, finding, columns)?;
        }
        for one in &of_group {
            if let Err(Blind::CouldNotLook(reason)) = &one.outcome {
                let text = format!("{}: {} [{}]: {reason}", terminal.text("doctor.blind", &[]), title(terminal, one.check), one.check.id);
                folded(terminal, &format!(" {} ", terminal.styled(Style::Warn, "?")), 3, &text, columns)?;
            }
        }
        summary(terminal, &of_group, columns)?;
    }
    Ok(())
}

/// One line each for what is fine and for what there is nothing of.
fn summary(terminal: &Terminal, examined: &[&Examined], columns: usize) -> Result<(), Failure> {
    let join = terminal.text("doctor.join", &[]);
    let fine: Vec<String> =
        examined.iter().filter(|e| e.outcome.as_ref().is_ok_and(Vec::is_empty)).map(|e| title(terminal, e.check)).collect();
    if !fine.is_empty() {
        let mark = terminal.good_mark();
        let text = terminal.text("doctor.fine", &[("count", &fine.len()), ("titles", &fine.join(&join))]);
        folded(terminal, &format!(" {} ", terminal.styled(Style::Good, mark)), table::width(mark) + 2, &text, columns)?;
    }
    let mut absent: Vec<(&str, Vec<String>)> = Vec::new();
    for one in examined {
        if let Err(Blind::NotHere(why)) = &one.outcome {
            match absent.iter_mut().find(|(id, _)| *id == why.text()) {
                Some((_, titles)) => titles.push(title(terminal, one.check)),
                None => absent.push((why.text(), vec![title(terminal, one.check)])),
            }
        }
    }
    for (why, titles) in absent {
        let titles = if titles.len() == examined.len() {
            terminal.text(why, &[])
        } else {
            format!("{} ({})", titles.join(&join), terminal.text(why, &[]))
        };
        let text = terminal.text("doctor.not-here", &[("titles", &titles)]);
        folded(terminal, " - ", 3, &terminal.styled(Style::Dim, &text), columns)?;
    }
    Ok(())
}

fn one(terminal: &Terminal, check: &Check, finding: &Finding, columns: usize) -> Result<(), Failure> {
    let (mark, style) = match finding.severity {
        Severity::Blocker => (terminal.bad_mark(), Style::Bad),
        Severity::Warning => ("!", Style::Warn),
        Severity::Note => (terminal.item_mark(), Style::Literal),
    };
    let word = severity_word(terminal, finding.severity);
    let lead = format!(" {} ", terminal.styled(style, mark));
    let text = format!("{word}: {} [{}]", say(terminal, &finding.what), check.id);
    folded(terminal, &lead, table::width(mark) + 2, &text, columns)?;
    for evidence in finding.evidence.iter().take(SHOWN) {
        folded(terminal, "     ", 7, &format!("{}: {}", evidence.of, evidence.seen), columns)?;
    }
    if finding.evidence.len() > SHOWN {
        let text = terminal.text("doctor.more", &[("count", &(finding.evidence.len() - SHOWN))]);
        folded(terminal, "     ", 7, &text, columns)?;
    }
    let arrow = terminal.arrow();
    folded(terminal, &format!("   {arrow} "), table::width(arrow) + 4, &say(terminal, &finding.advice), columns)
}

/// Writes a text after a lead, and the lines that follow indented.
pub(super) fn folded(terminal: &Terminal, lead: &str, indent: usize, text: &str, columns: usize) -> Result<(), Failure> {
    for (index, line) in fold(text, columns.saturating_sub(indent).max(20)).into_iter().enumerate() {
        if index == 0 {
            terminal.line(format!("{lead}{line}"))?;
        } else {
            terminal.line(format!("{}{line}", " ".repeat(indent)))?;
        }
    }
    Ok(())
}

/// Folds a text by display width: at spaces, and between wide characters, but not before what closes.
pub(super) fn fold(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        let mut used = 0;
        // The byte after which the line may be broken.
        let mut chance = None;
        let mut last = ' ';
        for c in paragraph.chars() {
            let width = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
            let closes = "，。、；：）」？！.,;:)".contains(c);
            if (last == ' ' || (width == 2 || unicode_width::UnicodeWidthChar::width(last) == Some(2)))
                && !closes
                && c != ' '
                && !line.is_empty()
            {
                chance = Some(line.len());
            }
            if used + width > columns && c != ' ' {
                let rest = line.split_off(chance.unwrap_or(line.len()));
                lines.push(line.trim_end().to_owned());
                line = rest;
                used = table::width(&line);
                chance = None;
            }
            line.push(c);
            used += width;
            last = c;
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{as_json, fold, render};
    use crate::doctor::testing::{cases, sound};
    use crate::doctor::{Absent, Severity, checks, examine};
    use crate::ui::table::width;
    use crate::ui::terminal::{Manners, Terminal};
    use crate::ui::text::{Language, Texts};

    fn shown(facts: &crate::doctor::Facts, language: Language, columns: usize, unicode: bool) -> String {
        let manners = Manners { unicode, plain: !unicode, ..Manners::default() };
        let (terminal, out, _) = Terminal::in_memory(manners, Texts::new(language));
        render(&terminal, facts, &examine(facts, &[]), columns).expect("written");
        String::from_utf8(out.lock().expect("no panic").clone()).expect("text")
    }

    #[test]
    fn every_finding_has_its_texts_in_both_languages_and_fits() {
        for case in cases() {
            for (language, columns) in [(Language::English, 60), (Language::Chinese, 60), (Language::English, 100)] {
                let text = shown(&case.facts, language, columns, language == Language::Chinese);
                assert!(!text.contains("doctor."), "{} {}: {text}", case.check, case.name);
                assert!(!text.contains('{') && !text.contains('}'), "{} {}: {text}", case.check, case.name);
                // A word that is longer than the line is not broken.
                let long = text.lines().find(|l| width(l) > columns && l.split_whitespace().count() > 3);
                assert_eq!(long, None, "{} {}", case.check, case.name);
                if language == Language::English && columns == 60 {
                    assert!(text.is_ascii(), "plain is ASCII: {text}");
                }
            }
        }
    }

    #[test]
    fn titles_and_absences_have_texts() {
        for language in Language::ALL {
            let texts = Texts::new(language);
            for check in checks::CHECKS {
                assert!(texts.has(&format!("doctor.{}", check.slug)), "{}", check.slug);
            }
            for severity in [Severity::Note, Severity::Warning, Severity::Blocker] {
                assert!(texts.has(&format!("doctor.severity.{}", severity.word())));
            }
            for absent in Absent::ALL {
                assert!(texts.has(absent.text()), "{}", absent.text());
            }
        }
    }

    #[test]
    fn the_json_keeps_the_outcomes_apart() {
        let (terminal, _, _) = Terminal::in_memory(Manners::default(), Texts::new(Language::English));
        let mut facts = sound();
        facts.cluster.as_mut().expect("a cluster").version = "v1.33.0".to_owned();
        facts.cluster.as_mut().expect("a cluster").probe = Err(crate::doctor::Blind::because("forbidden"));
        facts.cluster.as_mut().expect("a cluster").objects.remove("devicetaintrules");
        let answer = as_json(&terminal, &facts, &examine(&facts, &[]));
        let result = |id: &str| {
            let checks = answer["checks"].as_array().expect("checks");
            checks.iter().find(|c| c["id"] == id).expect(id)["result"].as_str().expect("a result").to_owned()
        };
        assert_eq!(
            ["DL-DOC-401", "DL-DOC-402", "DL-DOC-464", "DL-DOC-411"].map(result),
            ["found", "could-not-look", "not-here", "fine"].map(str::to_owned)
        );
        assert_eq!(answer["worst"], "blocker");
    }

    #[test]
    fn texts_are_folded_by_display_width() {
        assert_eq!(fold("one two three", 7), ["one two", "three"]);
        assert_eq!(fold("驱动没有就绪，等待。", 12), ["驱动没有就", "绪，等待。"]);
        assert_eq!(fold("averylongword", 5), ["avery", "longw", "ord"]);
    }
}
