//! The two streams and their manners: stdout is the answer, stderr is progress, hints and failures.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::failure::{Failure, Kind};
use crate::ui::text::Texts;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// Where the stream is a terminal that wants it.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A meaning that may be shown by colour, never by colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// It worked.
    Good,
    /// It did not.
    Bad,
    /// Worth a look.
    Warn,
    /// A command, a path, a literal.
    Literal,
    /// A heading.
    Strong,
    /// Beside the point.
    Dim,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Style::Good => "32",
            Style::Bad => "31",
            Style::Warn => "33",
            Style::Literal => "36",
            Style::Strong => "1",
            Style::Dim => "2",
        }
    }
}

/// How the terminal is to behave; decided once from flags and environment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// Colour on stdout.
    pub color_out: bool,
    /// Colour on stderr.
    pub color_err: bool,
    /// No colour, box drawing, emoji or redrawing.
    pub plain: bool,
    /// Characters beyond ASCII may be used for marks.
    pub unicode: bool,
    /// No progress and no hints.
    pub quiet: bool,
    /// Spinners may redraw stderr.
    pub redraw: bool,
}

/// What was written to a stream in memory.
pub type Memory = Arc<Mutex<Vec<u8>>>;

/// The streams of one command.
#[derive(Clone)]
pub struct Terminal {
    /// Manners, decided once.
    pub manners: Manners,
    /// The text catalogue.
    pub texts: Texts,
    out: Arc<Mutex<dyn Write + Send>>,
    err: Arc<Mutex<dyn Write + Send>>,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("manners", &self.manners).finish_non_exhaustive()
    }
}

impl Terminal {
    /// The terminal of this process.
    #[must_use]
    pub fn of_this_process(manners: Manners, texts: Texts) -> Self {
        Terminal { manners, texts, out: Arc::new(Mutex::new(io::stdout())), err: Arc::new(Mutex::new(io::stderr())) }
    }

    /// A terminal that writes into memory, for tests.
    #[must_use]
    pub fn in_memory(manners: Manners, texts: Texts) -> (Self, Memory, Memory) {
        let (out, err) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        (Terminal { manners, texts, out: out.clone(), err: err.clone() }, out, err)
    }

    /// A text of the catalogue.
    #[must_use]
    pub fn text(&self, id: &str, values: &[(&str, &dyn Display)]) -> String {
        self.texts.get(id, values)
    }

    /// Writes text and a newline to stdout.
    ///
    /// # Errors
    /// When stdout cannot be written; a closed pipe is [`closed_pipe`], which ends the command quietly.
    pub fn line(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        let mut text = text.as_ref().to_owned();
        text.push('\n');
        self.write(text.as_bytes())
    }

    /// Writes bytes to stdout as they are.
    ///
    /// # Errors
    /// As [`Terminal::line`].
    pub fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => closed_pipe(),
            _ => Failure::new(Kind::Failed, "DL-OUT-01", "cannot write to standard output").because(&error),
        })
    }

    /// Writes a line to stderr. A stderr that cannot be written is no reason to fail.
    pub fn note(&self, text: impl AsRef<str>) {
        let mut err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(err, "{}", text.as_ref());
    }

    /// Writes a line to stderr unless quiet.
    pub fn progress(&self, text: impl AsRef<str>) {
        if !self.manners.quiet {
            self.note(text);
        }
    }

    /// Styles text that goes to stdout.
    #[must_use]
    pub fn styled(&self, style: Style, text: &str) -> String {
        paint(self.manners.color_out, style, text)
    }

    /// Styles text that goes to stderr.
    #[must_use]
    pub fn styled_err(&self, style: Style, text: &str) -> String {
        paint(self.manners.color_err, style, text)
    }

    /// The mark of a thing that is right.
    #[must_use]
    pub fn good_mark(&self) -> &'static str {
        if self.manners.unicode && !self.manners.plain { "✓" } else { "[ok]" }
    }

    /// The mark of a thing that is not right.
    #[must_use]
    pub fn bad_mark(&self) -> &'static str {
        if self.manners.unicode && !self.manners.plain { "✗" } else { "[no]" }
    }

    /// The mark of a thing that goes on, or a list item.
    #[must_use]
    pub fn item_mark(&self) -> &'static str {
        if self.manners.unicode && !self.manners.plain { "•" } else { "-" }
    }

    /// The arrow between two states.
    #[must_use]
    pub fn arrow(&self) -> &'static str {
        if self.manners.unicode && !self.manners.plain { "→" } else { "->" }
    }
}

fn paint(color: bool, style: Style, text: &str) -> String {
    if color { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
}

const CLOSED_PIPE: &str = "DL-OUT-00";

/// The reader of stdout has gone: the command ends quietly and this is not an error.
#[must_use]
pub fn closed_pipe() -> Failure {
    Failure::new(Kind::Failed, CLOSED_PIPE, "standard output was closed")
}

/// True for [`closed_pipe`].
#[must_use]
pub fn is_closed_pipe(failure: &Failure) -> bool {
    failure.id == CLOSED_PIPE
}
