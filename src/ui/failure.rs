//! The one place where a failure is rendered.

use crate::base::failure::Failure;
use crate::ui::terminal::{Style, Terminal};

/// Writes a failure to stderr: `error:`, its causes, a blank line and the hints.
pub fn render(terminal: &Terminal, failure: &Failure) {
    let label = terminal.styled_err(Style::Bad, &terminal.text("failure.error", &[]));
    // The id stands at the end of the first line; a parser's message goes on with the place in the file.
    let (first, rest) = failure.message.split_once('\n').map_or((failure.message.as_str(), ""), |(first, rest)| (first, rest));
    terminal.note(format!("{label}: {first} [{}]", failure.id));
    if !rest.is_empty() {
        terminal.note(rest);
    }
    for cause in &failure.causes {
        terminal.note(format!("  {}: {cause}", terminal.text("failure.cause", &[])));
    }
    if !failure.hints.is_empty() && !terminal.manners.quiet {
        terminal.note("");
        for hint in &failure.hints {
            let label = terminal.styled_err(Style::Literal, &terminal.text("failure.hint", &[]));
            terminal.note(format!("{label}: {hint}"));
        }
    }
}

/// The same failure as one JSON document, for `-o json`.
#[must_use]
pub fn as_json(failure: &Failure) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "dralab/v1", "kind": "Failure", "id": failure.id, "result": failure.kind,
        "message": failure.message, "causes": failure.causes, "hints": failure.hints,
        "exitCode": failure.kind.exit_code(),
    })
}
