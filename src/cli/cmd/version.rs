//! `version`.

use crate::base::failure::Failure;
use crate::cli::args::{Format, VersionArgs};
use crate::ui::terminal::Terminal;

/// The Kubernetes that the embedded cluster is like.
pub const KUBERNETES: &str = "v1.37.2";

/// Prints the version.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(terminal: &Terminal, args: &VersionArgs) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    match args.output {
        Format::Text => terminal.line(format!("dralab {version} (embedded Kubernetes {KUBERNETES})")),
        Format::Json => terminal.line(
            serde_json::json!({"apiVersion": "dralab/v1", "kind": "Version", "dralab": version, "embeddedKubernetes": KUBERNETES})
                .to_string(),
        ),
    }
}
