//! Words an explanation, and shows it. Computes nothing.

use std::fmt::Display;

use crate::base::failure::Failure;
use crate::explain::Reason;
use crate::explain::finding::{Cure, Explanation, Finding, Funnel, Held, NodeGroup};
use crate::ui::doctor::folded;
use crate::ui::terminal::{Style, Terminal};
use crate::ui::text::Texts;

/// How many groups of nodes are shown unless all are wanted.
const GROUPS: usize = 4;
/// From this width on a funnel stands in one line.
const WIDE: usize = 80;

/// Fills in every sentence, in the language of the texts.
pub fn tell(explanation: &mut Explanation, texts: &Texts) {
    let nodes = explanation.verdict.values.get("nodes").and_then(|nodes| nodes.parse::<usize>().ok()).unwrap_or_default();
    word(&mut explanation.verdict, texts);
    if nodes > 1 && !explanation.satisfied {
        let id =
            if explanation.nodes.iter().any(|group| group.answer == "error") { "explain.verdict.error" } else { "explain.verdict.none" };
        explanation.verdict.message = texts.get(id, &[("nodes", &nodes), ("why", &explanation.verdict.message)]);
    }
    explanation.findings.iter_mut().for_each(|finding| word(finding, texts));
    for group in &mut explanation.nodes {
        group.causes.iter_mut().for_each(|finding| word(finding, texts));
    }
    for cure in &mut explanation.cures {
        let values: Vec<(&str, &dyn Display)> = cure.values.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
        cure.message = texts.get(&format!("explain.cure.{}", cure.change), &values);
        if let Some(together) = cure.values.get("together") {
            cure.message = texts.get("explain.cure.together", &[("what", &cure.message), ("count", together)]);
        }
    }
}

fn word(finding: &mut Finding, texts: &Texts) {
    let values: Vec<(&str, &dyn Display)> = finding.values.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
    finding.message = texts.get(&finding.text_id(), &values);
    finding.details.iter_mut().for_each(|detail| word(detail, texts));
}

/// Shows an explanation that was worded.
///
/// # Errors
/// When standard output cannot be written.
pub fn render(terminal: &Terminal, explanation: &Explanation, columns: usize, all: bool) -> Result<(), Failure> {
    let state = if explanation.state.is_empty() { terminal.text("explain.state.absent", &[]) } else { explanation.state.clone() };
    let name = format!("{} -n {}", explanation.target, explanation.namespace);
    let head = terminal.text("explain.head", &[("target", &name), ("state", &state)]);
    terminal.line(terminal.styled(Style::Strong, &head))?;
    let (mark, style) = if explanation.satisfied { (terminal.good_mark(), Style::Good) } else { (terminal.bad_mark(), Style::Bad) };
    finding(terminal, &explanation.verdict, (mark, style), 0, columns)?;
    for one in &explanation.findings {
        finding(terminal, one, (terminal.item_mark(), Style::Literal), 0, columns)?;
    }
    if !explanation.quotes.is_empty() {
        heading(terminal, "explain.heading.kubernetes")?;
        for quote in &explanation.quotes {
            let who = format!("{}, {}, {}:", quote.from, quote.object, quote.reason);
            folded(terminal, "  ", 4, &terminal.styled(Style::Dim, &who), columns)?;
            folded(terminal, "    ", 4, &quote.message, columns)?;
        }
    }
    if !explanation.devices.is_empty() {
        heading(terminal, "explain.heading.devices")?;
        for held in &explanation.devices {
            device(terminal, held, columns)?;
        }
    }
    if !explanation.nodes.is_empty() {
        heading(terminal, "explain.heading.nodes")?;
        let shown = if all { explanation.nodes.len() } else { GROUPS.min(explanation.nodes.len()) };
        for group in &explanation.nodes[..shown] {
            node(terminal, group, explanation, columns)?;
        }
        let more: usize = explanation.nodes[shown..].iter().map(|group| group.count).sum();
        if more > 0 {
            folded(terminal, "  ", 2, &terminal.text("explain.node.more", &[("count", &more)]), columns)?;
        }
    }
    if !explanation.cures.is_empty() {
        heading(terminal, "explain.heading.cures")?;
        for (number, one) in explanation.cures.iter().enumerate() {
            cure(terminal, number + 1, one, columns)?;
        }
    }
    Ok(())
}

fn heading(terminal: &Terminal, id: &str) -> Result<(), Failure> {
    terminal.line("")?;
    terminal.line(terminal.styled(Style::Strong, &terminal.text(id, &[])))
}

fn finding(terminal: &Terminal, finding: &Finding, mark: (&str, Style), depth: usize, columns: usize) -> Result<(), Failure> {
    let (mark, style) = mark;
    let indent = depth * 3;
    let lead = format!("{}{} ", " ".repeat(indent), terminal.styled(style, mark));
    let id = if depth == 0 { format!("  [{}]", finding.reason.id()) } else { String::new() };
    let hanging = indent + crate::ui::table::width(mark) + 1;
    folded(terminal, &lead, hanging, &format!("{}{}", finding.message, terminal.styled(Style::Dim, &id)), columns)?;
    for detail in &finding.details {
        self::finding(terminal, detail, (terminal.item_mark(), Style::Literal), depth + 1, columns)?;
    }
    Ok(())
}

fn node(terminal: &Terminal, group: &NodeGroup, explanation: &Explanation, columns: usize) -> Result<(), Failure> {
    let others = group.count - 1;
    let mut title = terminal.styled(Style::Strong, &group.node);
    if others > 0 {
        title = format!("{title} {}", terminal.text("explain.node.like", &[("count", &others)]));
    }
    let answer = terminal.text(&format!("explain.node.{}", group.answer), &[]);
    let near = if group.nearest { terminal.text("explain.node.nearest", &[]) } else { String::new() };
    folded(terminal, "  ", 4, &format!("{title}: {answer}{near}"), columns)?;
    for funnel in &group.funnels {
        show_funnel(terminal, funnel, columns)?;
    }
    for cause in &group.causes {
        // What the verdict says already is not said again.
        let said = cause.reason == explanation.verdict.reason && cause.details == explanation.verdict.details && group.nearest;
        if !said && !explanation.findings.contains(cause) {
            folded(terminal, &format!("    {} ", terminal.item_mark()), 6, &cause.message, columns)?;
        }
    }
    Ok(())
}

fn show_funnel(terminal: &Terminal, funnel: &Funnel, columns: usize) -> Result<(), Failure> {
    let wanted = funnel.wanted.map_or_else(|| terminal.text("explain.funnel.all", &[]), |count| count.to_string());
    let head = terminal.text(
        "explain.funnel.head",
        &[("request", &funnel.request), ("class", &funnel.device_class), ("wanted", &wanted), ("seen", &funnel.seen)],
    );
    let stages: Vec<String> = funnel
        .stages
        .iter()
        .map(|stage| {
            let name = terminal.text(&format!("explain.stage.{}", stage.stage), &[("which", &stage.which)]);
            terminal.text("explain.funnel.stage", &[("stage", &name.trim_end()), ("left", &stage.left), ("stopped", &stage.stopped)])
        })
        .collect();
    if columns >= WIDE {
        let arrow = format!(" {} ", terminal.arrow());
        let parts: Vec<String> = std::iter::once(head).chain(stages).collect();
        return folded(terminal, "    ", 6, &parts.join(&arrow), columns);
    }
    folded(terminal, "    ", 6, &head, columns)?;
    for stage in stages {
        folded(terminal, &format!("      {} ", terminal.arrow()), 8, &stage, columns)?;
    }
    Ok(())
}

fn device(terminal: &Terminal, held: &Held, columns: usize) -> Result<(), Failure> {
    let mut text = terminal.text("explain.device", &[("request", &held.request), ("device", &held.device)]);
    if !held.consumed.is_empty() {
        let amounts: Vec<String> = held.consumed.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
        text = format!("{text} ({})", amounts.join(", "));
    }
    folded(terminal, &format!("  {} ", terminal.item_mark()), 4, &text, columns)?;
    let why = match held.place {
        None => terminal.text("explain.device.unpublished", &[]),
        Some(place) if held.passed_over.is_empty() => terminal.text("explain.device.first", &[("place", &place)]),
        Some(place) => terminal.text("explain.device.place", &[("place", &place)]),
    };
    folded(terminal, "    ", 4, &why, columns)?;
    for stage in &held.passed_over {
        let name = terminal.text(&format!("explain.stage.{}", stage.stage), &[("which", &"")]);
        let text = format!("{}: {}", name.trim_end(), stage.which);
        folded(terminal, &format!("      {} ", terminal.item_mark()), 8, &text, columns)?;
    }
    Ok(())
}

fn cure(terminal: &Terminal, number: usize, cure: &Cure, columns: usize) -> Result<(), Failure> {
    folded(terminal, &format!("  {number}. "), 5, &cure.message, columns)?;
    let devices = crate::explain::describe::list(&cure.devices);
    let found = terminal.text("explain.cure.found", &[("node", &cure.node), ("devices", &devices)]);
    folded(terminal, &format!("     {} ", terminal.arrow()), 7, &terminal.styled(Style::Dim, &found), columns)?;
    if let Some(command) = &cure.command {
        terminal.line(format!("     {}", terminal.styled(Style::Literal, command)))?;
    }
    Ok(())
}

/// All reasons with the first line of their pages.
///
/// # Errors
/// When standard output cannot be written.
pub fn list_reasons(terminal: &Terminal) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> =
        Reason::all().map(|reason| vec![reason.id().to_owned(), crate::ui::reasons::title(reason, terminal.texts.language())]).collect();
    let header = ["explain.reasons.id", "explain.reasons.title"].map(|id| terminal.text(id, &[]));
    terminal.write(crate::ui::table::render(&[&header[0], &header[1]], &rows).as_bytes())
}
