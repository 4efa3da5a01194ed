//! The syntax tree after macro expansion. Every node has an id; the table of [`Ids`] says where it comes from.

use std::sync::Arc;

use super::source::Span;
use super::value::Value;

/// Number of a node. Given out in the same order as cel-go's parser does, because one of its messages shows it.
pub(crate) type Id = u32;

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Stands for something that has an error.
    Unspecified,
    Literal(Value),
    Ident(Arc<str>),
    Select(Box<Select>),
    Call(Box<Call>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct(Box<Struct>),
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) operand: Expr,
    pub(crate) field: Arc<str>,
    /// `has(operand.field)`
    pub(crate) test_only: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: Arc<str>,
    pub(crate) target: Option<Expr>,
    pub(crate) args: Vec<Expr>,
}

/// An element of a list, `[?element]` if optional.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Struct {
    pub(crate) name: Arc<str>,
    pub(crate) fields: Vec<Field>,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) id: Id,
    pub(crate) name: Arc<str>,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A loop over `range`; macros and `cel.bind` expand to it.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) iter_var: Arc<str>,
    pub(crate) iter_var2: Option<Arc<str>>,
    pub(crate) accu_var: Arc<str>,
    pub(crate) accu_init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// Name of the accumulator of macros; no expression can spell it.
pub(crate) const ACCUMULATOR: &str = "@result";
/// Its old name, which iteration variables must not have either.
pub(crate) const OLD_ACCUMULATOR: &str = "__result__";

impl Expr {
    /// The literal in it.
    pub(crate) fn literal(&self) -> Option<&Value> {
        match &self.kind {
            Kind::Literal(value) => Some(value),
            _ => None,
        }
    }

    /// Its name if it is an identifier.
    pub(crate) fn ident(&self) -> Option<&Arc<str>> {
        match &self.kind {
            Kind::Ident(name) => Some(name),
            _ => None,
        }
    }

    /// Calls `visit` for the children, in the order of the source.
    pub(crate) fn for_children<'e>(&'e self, visit: &mut dyn FnMut(&'e Self)) {
        match &self.kind {
            Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select(select) => visit(&select.operand),
            Kind::Call(call) => call.target.iter().chain(&call.args).for_each(visit),
            Kind::List(elements) => elements.iter().for_each(|element| visit(&element.value)),
            Kind::Map(entries) => entries.iter().for_each(|entry| {
                visit(&entry.key);
                visit(&entry.value);
            }),
            Kind::Struct(object) => object.fields.iter().for_each(|field| visit(&field.value)),
            Kind::Comprehension(loop_) => {
                for child in [&loop_.range, &loop_.accu_init, &loop_.condition, &loop_.step, &loop_.result] {
                    visit(child);
                }
            }
        }
    }
}

/// Where each node starts and ends; index is the id, 0 is unused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    spans: Vec<Option<Span>>,
    /// The whole text of a node, where the parser knows it.
    extents: Vec<Option<Span>>,
}

impl Ids {
    pub(crate) fn new() -> Self {
        Self { spans: vec![None], extents: Vec::new() }
    }

    pub(crate) fn next(&mut self, span: Option<Span>) -> Id {
        self.spans.push(span);
        (self.spans.len() - 1) as Id
    }

    pub(crate) fn place(&mut self, id: Id, span: Span) {
        if let Some(slot) = self.spans.get_mut(id as usize) {
            *slot = Some(span);
        }
    }

    /// Forgets an id; it is given out again if it was the last one.
    pub(crate) fn forget(&mut self, id: Id) {
        if id as usize == self.spans.len() - 1 {
            self.spans.pop();
        } else if let Some(slot) = self.spans.get_mut(id as usize) {
            *slot = None;
        }
    }

    pub(crate) fn span(&self, id: Id) -> Option<Span> {
        self.spans.get(id as usize).copied().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn set_extent(&mut self, id: Id, extent: Span) {
        let at = id as usize;
        if at >= self.extents.len() {
            self.extents.resize(at + 1, None);
        }
        self.extents[at] = Some(extent);
    }

    pub(crate) fn extent(&self, id: Id) -> Option<Span> {
        self.extents.get(id as usize).copied().flatten()
    }
}
