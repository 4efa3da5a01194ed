//! The syntax tree of the small shell that simulated containers speak: the part of POSIX `sh` (and a little of
//! bash) that people put in the pods of a lab.

/// A list of commands, run one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Script {
    pub(super) items: Vec<Item>,
}

/// One entry of a list: a chain of pipelines, in the background or not.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) first: Pipeline,
    pub(super) rest: Vec<(Link, Pipeline)>,
    pub(super) background: bool,
}

/// How a pipeline depends on the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Link {
    /// `&&`.
    And,
    /// `||`.
    Or,
}

/// Commands whose output feeds the next one's input.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pipeline {
    pub(super) negated: bool,
    pub(super) commands: Vec<Command>,
}

/// One command with its redirections.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Command {
    pub(super) kind: Kind,
    pub(super) redirects: Vec<Redirect>,
}

/// The kinds of commands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Assignments, then a name and its arguments.
    Simple { assignments: Vec<(String, Word)>, words: Vec<Word> },
    /// `{ …; }`.
    Group(Script),
    /// `( … )`.
    Subshell(Script),
    /// `if … then … [elif … then …] [else …] fi`: the arms, then what runs when none holds.
    If { arms: Vec<(Script, Script)>, otherwise: Option<Script> },
    /// `while …` or `until …`.
    Loop { condition: Script, until: bool, body: Script },
    /// `for NAME in WORDS`.
    For { variable: String, words: Vec<Word>, body: Script },
    /// `NAME() …`.
    Function { name: String, body: Box<Command> },
}

/// A redirection of one descriptor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Redirect {
    pub(super) descriptor: u8,
    pub(super) target: Target,
}

/// Where a redirection leads.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    /// `< FILE`.
    Read(Word),
    /// `> FILE`, or `>> FILE` when appending.
    Write { file: Word, append: bool },
    /// `>&N`.
    Duplicate(u8),
}

/// A word: pieces that are expanded and joined.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Word {
    pub(super) pieces: Vec<Piece>,
}

/// A piece of a word. `quoted` pieces are not split into fields.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// Text as it stands.
    Text { text: String, quoted: bool },
    /// `$NAME`, `${NAME}`, `${NAME:-word}` and its relatives.
    Variable { name: String, default: Option<(Default_, Word)>, quoted: bool },
    /// `${#NAME}`.
    Length { name: String },
    /// `$( … )` or backquotes.
    Command { script: Script, quoted: bool },
    /// `$(( … ))`.
    Arithmetic { expression: String },
}

/// What `${NAME…}` does when the variable is unset (or, with a colon, empty).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Default_ {
    /// Empty counts as unset.
    pub(super) colon: bool,
    /// Which of the operators.
    pub(super) operator: Operator,
}

/// The operators of `${NAME…}`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    /// `-`: use the word.
    Use,
    /// `=`: use the word and assign it.
    Assign,
    /// `+`: use the word when it is set.
    Alternative,
    /// `?`: fail with the word as message.
    Fail,
}

/// Why a script cannot be run here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotUnderstood {
    /// The script ends where more is needed.
    #[error("the script ends in the middle of {0}")]
    Unfinished(&'static str),
    /// A word or sign that this shell has no meaning for.
    #[error("`{0}` is not understood here")]
    Unexpected(String),
    /// Nested deeper than any script of a lab.
    #[error("the script is nested too deeply")]
    TooDeep,
}
