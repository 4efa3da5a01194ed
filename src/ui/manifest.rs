//! How findings in manifests are written.

use std::fmt::Display;

use crate::lint::manifest::ManifestFinding;
use crate::lint::selector::Severity;
use crate::ui::selector;
use crate::ui::terminal::{Style, Terminal};

/// The id that a reader sees: the rule's, or that of the trap in a selector.
#[must_use]
pub fn id(finding: &ManifestFinding) -> &'static str {
    finding.selector.as_ref().map_or_else(|| finding.rule.id(), |trap| trap.trap.id())
}

/// The sentence of a finding.
#[must_use]
pub fn sentence(terminal: &Terminal, finding: &ManifestFinding) -> String {
    if let Some(trap) = &finding.selector {
        return selector::sentence(terminal, trap);
    }
    let values: Vec<(&str, &dyn Display)> = finding.values.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
    terminal.text(finding.rule.text(), &values)
}

/// A finding, line by line: `file:line:column: error: sentence [id]`, then object and field, a rewrite, the converted object.
#[must_use]
pub fn lines(terminal: &Terminal, finding: &ManifestFinding) -> Vec<String> {
    let (word, style) = match finding.severity {
        Severity::Error => ("lint.error", Style::Bad),
        Severity::Warning => ("lint.warning", Style::Warn),
        Severity::Note => ("lint.note", Style::Dim),
    };
    let place = finding.place.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
    let label = terminal.styled(style, &terminal.text(word, &[]));
    let mut lines = vec![format!("{}{place}: {label}: {} [{}]", finding.file, sentence(terminal, finding), id(finding))];
    if !finding.object.is_empty() {
        let colon = if finding.path.is_empty() { "" } else { ": " };
        lines.push(format!("  {}{colon}{}", finding.object, finding.path));
    }
    if let Some(fix) = finding.selector.as_ref().and_then(|trap| trap.fix.as_ref()) {
        lines.push(format!("  {}: {}", terminal.text("cel.try", &[]), terminal.styled(Style::Literal, fix.expression.trim_end())));
        if fix.devices.asked() > 0 {
            lines.push(format!("  {}", terminal.text("cel.tried", &[("tally", &selector::tally(terminal, fix.devices))])));
        }
    }
    if let Some(yaml) = finding.converted.as_ref().and_then(|object| serde_saphyr::to_string(object).ok()) {
        lines.push(format!("  {}", terminal.text("lint.converted", &[])));
        lines.extend(yaml.trim_end().lines().map(|line| format!("    {line}")));
    }
    lines.push(String::new());
    lines
}
