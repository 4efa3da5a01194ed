//! How the report on a selector is written.

use std::fmt::Display;

use serde_json::Value;

use crate::lint::fleet::Fleet;
use crate::lint::selector::{Attempt, Finding, Group, GroupVerdict, Outcome, Report, Seen, Severity, Tally, Verdict};
use crate::ui::terminal::{Style, Terminal};

/// What a report is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Object and field; empty for an expression by itself.
    pub heading: &'a str,
    /// The minor version.
    pub kubernetes: u32,
    /// Judged as a stored expression.
    pub stored: bool,
    /// Where the devices are from; empty where there are none.
    pub source: &'a str,
    /// The devices.
    pub fleet: &'a Fleet,
}

/// `ResourceClaim default/some-gpu`, `DeviceClass gpu.example.com`.
#[must_use]
pub fn object_name(object: &Value) -> String {
    let of = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = of("/metadata/namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    let name = if of("/metadata/name").is_empty() { of("/metadata/generateName") } else { of("/metadata/name") };
    format!("{} {namespace}{slash}{name}", of("/kind")).trim_end().to_owned()
}

/// The report, line by line.
#[must_use]
pub fn lines(terminal: &Terminal, report: &Report, about: &About<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if !about.heading.is_empty() {
        lines.push(terminal.styled(Style::Strong, about.heading));
        lines.extend(report.expression.trim_end().lines().map(|line| format!("  {line}")));
    }
    verdict(terminal, report, about, &mut lines);
    if !report.groups.is_empty() {
        devices(terminal, report, about, &mut lines);
    }
    for finding in &report.findings {
        lines.push(String::new());
        finding_lines(terminal, report, finding, &mut lines);
    }
    lines
}

fn verdict(terminal: &Terminal, report: &Report, about: &About<'_>, lines: &mut Vec<String>) {
    let kind = terminal.text(if about.stored { "cel.stored" } else { "cel.new" }, &[]);
    let values: &[(&str, &dyn Display)] = &[("version", &format!("1.{}", about.kubernetes)), ("kind", &kind)];
    match &report.verdict {
        Verdict::Accepted => {
            lines.push(format!("{} {}", terminal.styled(Style::Good, terminal.good_mark()), terminal.text("cel.accepted", values)));
        }
        refused => {
            lines.push(format!("{} {}", terminal.styled(Style::Bad, terminal.bad_mark()), terminal.text("cel.refused", values)));
            lines.extend(refused.message().unwrap_or_default().lines().map(|line| format!("    {line}")));
        }
    }
    let Some(cost) = &report.cost else { return };
    let shown = |cost: Option<u64>| cost.map_or_else(|| terminal.text("cel.unbounded", &[]), |cost| cost.to_string());
    let mut line = terminal.text("cel.cost", &[("estimate", &shown(cost.estimate)), ("limit", &cost.limit)]);
    if let Some(dearest) = &cost.dearest
        && cost.estimate.is_none_or(|estimate| estimate > 20)
    {
        line.push_str(&terminal.text("cel.dearest", &[("text", &shortened(&dearest.text)), ("cost", &shown(dearest.cost))]));
    }
    lines.push(format!("  {line}"));
}

/// Long texts in one line, shortened.
fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MOST { line } else { line.chars().take(MOST).chain(['…']).collect() }
}

/// `8 match, 0 do not, 0 fail`
#[must_use]
pub fn tally(terminal: &Terminal, tally: Tally) -> String {
    terminal.text("cel.tally", &[("matches", &tally.matches), ("misses", &tally.misses), ("errors", &tally.errors)])
}

fn devices(terminal: &Terminal, report: &Report, about: &About<'_>, lines: &mut Vec<String>) {
    lines.push(String::new());
    let pools = about.fleet.pools();
    let asked = tally(terminal, report.devices);
    let (all, source) = (about.fleet.devices.len(), about.source);
    lines.push(terminal.text("cel.devices", &[("devices", &all), ("pools", &pools), ("source", &source), ("tally", &asked)]));
    for pool in &about.fleet.partial {
        let values: &[(&str, &dyn Display)] = &[("pool", &pool.pool), ("found", &pool.found), ("expected", &pool.expected)];
        lines.push(format!("  {}", terminal.text("cel.partial-pool", values)));
    }
    for group in &report.groups {
        group_lines(terminal, group, lines);
    }
    lines.push(String::new());
    attempt_lines(terminal, report, lines);
}

fn group_lines(terminal: &Terminal, group: &Group, lines: &mut Vec<String>) {
    let (style, mark, id) = match group.verdict {
        GroupVerdict::Match => (Style::Good, terminal.good_mark(), "cel.match"),
        GroupVerdict::NoMatch => (Style::Dim, terminal.item_mark(), "cel.no-match"),
        GroupVerdict::Error => (Style::Bad, terminal.bad_mark(), "cel.error"),
        GroupVerdict::NotAsked => (Style::Dim, terminal.item_mark(), "cel.not-asked"),
    };
    lines.push(format!("  {} {}: {}", terminal.styled(style, mark), terminal.text(id, &[]), device_list(&group.devices)));
    if let Some(message) = &group.message {
        lines.push(format!("      {}", terminal.text("cel.runtime-error", &[("message", message)])));
    }
    for term in &group.terms {
        let text = shortened(&term.text);
        lines.push(match (&term.value, &term.error) {
            (Some(value), _) => format!("      {value:<5}  {text}"),
            (None, error) => format!("      {:<5}  {text}: {}", terminal.text("lint.error", &[]), error.as_deref().unwrap_or_default()),
        });
    }
    // An error of the whole was said already.
    let said = |value: &Seen| value.type_name.is_none() && group.message.is_some();
    for seen in group.values.iter().filter(|seen| !seen.values.iter().all(said)) {
        let several = seen.values.len() > 1;
        let mut values: Vec<String> = seen
            .values
            .iter()
            .take(MOST_VALUES)
            .map(|value| if several && value.devices > 1 { format!("{} ({})", value.value, value.devices) } else { value.value.clone() })
            .collect();
        if seen.values.len() > MOST_VALUES {
            values.push(terminal.text("cel.more", &[("count", &(seen.values.len() - MOST_VALUES))]));
        }
        lines.push(format!("      {} = {}", shortened(&seen.text), values.join(", ")));
    }
}

/// Different values of a look-up that are shown.
const MOST_VALUES: usize = 5;
/// Devices of a pool that are named.
const MOST_DEVICES: usize = 4;
/// Pools whose devices are named.
const MOST_POOLS: usize = 4;

/// `gpu.example.com/n1: gpu-0, gpu-1, …, gpu-7 (8)`
fn device_list(devices: &[String]) -> String {
    let mut pools: Vec<(&str, Vec<&str>)> = Vec::new();
    for device in devices {
        let (pool, name) = device.rsplit_once('/').unwrap_or(("", device));
        match pools.last_mut() {
            Some((last, names)) if *last == pool => names.push(name),
            _ => pools.push((pool, vec![name])),
        }
    }
    let mut shown: Vec<String> = pools
        .iter()
        .take(MOST_POOLS)
        .map(|(pool, names)| match names.as_slice() {
            [first, second, .., last] if names.len() > MOST_DEVICES => format!("{pool}: {first}, {second}, …, {last} ({})", names.len()),
            _ => format!("{pool}: {}", names.join(", ")),
        })
        .collect();
    if pools.len() > MOST_POOLS {
        shown.push(format!("… ({})", devices.len()));
    }
    shown.join("; ")
}

/// What a claim for one device comes to, nodes with the same outcome in one line.
fn attempt_lines(terminal: &Terminal, report: &Report, lines: &mut Vec<String>) {
    for (outcome, id, style) in [
        (Outcome::Fails, "cel.attempt-fails", Style::Bad),
        (Outcome::FitsByOrder, "cel.attempt-by-order", Style::Warn),
        (Outcome::Fits, "cel.attempt-fits", Style::Good),
        (Outcome::DoesNotFit, "cel.attempt-none", Style::Dim),
    ] {
        let same: Vec<&Attempt> = report.attempts.iter().filter(|attempt| attempt.outcome == outcome).collect();
        let Some(first) = same.first() else { continue };
        let mut nodes: Vec<&str> = same.iter().filter_map(|attempt| attempt.node.as_deref()).take(3).collect();
        let more = format!("… ({})", same.len());
        if same.len() > nodes.len() && !nodes.is_empty() {
            nodes.push(&more);
        }
        let nodes = if nodes.is_empty() { terminal.text("cel.any-node", &[]) } else { nodes.join(", ") };
        let (takes, fails) = (first.takes.as_deref().unwrap_or_default(), first.fails_at.as_deref().unwrap_or_default());
        let text = terminal.text(id, &[("nodes", &nodes), ("takes", &takes), ("fails", &fails)]);
        lines.push(terminal.styled(style, &text));
    }
}

/// The sentence of a finding.
#[must_use]
pub fn sentence(terminal: &Terminal, finding: &Finding) -> String {
    let values: Vec<(&str, &dyn Display)> = finding.values.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
    terminal.text(finding.trap.text(), &values)
}

fn finding_lines(terminal: &Terminal, report: &Report, finding: &Finding, lines: &mut Vec<String>) {
    let (id, style) = match finding.severity {
        Severity::Error => ("lint.error", Style::Bad),
        Severity::Warning => ("lint.warning", Style::Warn),
        Severity::Note => ("lint.note", Style::Dim),
    };
    let label = terminal.styled(style, &terminal.text(id, &[]));
    lines.push(format!("{label}: {} [{}]", sentence(terminal, finding), finding.trap.id()));
    if let Some(span) = finding.span {
        let length = span.end.saturating_sub(span.start) as usize;
        let text: String = report.expression.chars().skip(span.start as usize).take(length).collect();
        lines.push(format!("  {}: {}", terminal.text("cel.at", &[]), terminal.styled(Style::Literal, &shortened(&text))));
    }
    if let Some(fix) = &finding.fix {
        let tried = tally(terminal, fix.devices);
        let expression = terminal.styled(Style::Literal, fix.expression.trim_end());
        lines.push(format!("  {}: {expression}", terminal.text("cel.try", &[])));
        if fix.devices.asked() > 0 {
            lines.push(format!("  {}", terminal.text("cel.tried", &[("tally", &tried)])));
        }
    }
}
