//! CEL for devices: parser, checker, cost, evaluator and trace behind one [`Program`] type.
//!
//! The language is that of Kubernetes 1.37 (cel-go 0.29 with Kubernetes' libraries): same verdicts, same messages, same
//! estimated and actual costs. The order of reading is the way of an expression:
//!
//! | step | module |
//! |---|---|
//! | text to tokens to syntax tree | `lexer`, `literal`, `parser`, `macros`, `ast`, `source` |
//! | types and overloads | `types`, `declare`, `check` |
//! | estimated cost | `cost` |
//! | plan and evaluation, actual cost | `eval`, `value`, `lib` |
//! | devices in, verdicts out | `device`, `program`, `trace`, `outline` |
//!
//! Where the order of a map would make Kubernetes' answer random, ours is the order of the names. Known not to be the same:
//! the protobuf wrapper types (`google.protobuf.Int64Value{…}`), some errors of macros behind an earlier syntax error,
//! lists under construction that `cel.bind` names (upstream changes them in place), octal escapes in patterns.
//!
//! The parser is our own. The `cel` crate would add its ANTLR runtime and generated parser (about 200 CPU seconds of a
//! cold release build on the machine this was decided on), has neither a type checker nor costs, and its tree does not
//! have the node ids that cel-go's cost tracking and one of its messages depend on.
//!
//! Nothing an expression says can make this panic, overflow the stack or run on: nesting is limited as in cel-go and deep
//! expressions get a stack of their own, macros may not expand beyond a number of nodes, evaluation stops at the cost limit.

mod ast;
mod check;
mod cost;
mod declare;
mod device;
mod eval;
mod lexer;
mod lib;
mod literal;
mod macros;
mod outline;
mod parser;
mod program;
mod source;
mod stack;
mod trace;
mod types;
mod value;

pub use self::device::DeviceInput;
pub use self::outline::{Part, PartKind};
pub use self::program::{MAX_COST, MAX_LENGTH, Program};
pub use self::source::Span;
pub use self::trace::{Trace, TraceStep, TraceValue};

/// Which expressions an environment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// New or changed objects, as the API server checks them (limited by gates and minimum version).
    New,
    /// Objects that are stored already: everything that ever existed is allowed, gates are ignored.
    Stored,
}

/// What an expression is compiled against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Environment {
    /// New or stored expressions.
    pub purpose: Purpose,
    /// Gate `DRAConsumableCapacity`.
    pub consumable_capacity: bool,
    /// Gate `DRAListTypeAttributes`.
    pub list_type_attributes: bool,
}

/// An expression that does not compile. `Display` is upstream's message without the allocator's prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// The message, as cel-go and the API server word it.
    pub message: String,
}

/// An expression that failed on a device. `Display` is upstream's message without the allocator's prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// The message, hint for missing keys included.
    pub message: String,
}
