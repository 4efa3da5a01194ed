//! The cost of an evaluation (interpreter/runtimecost.go, apiserver/pkg/cel/library/cost.go).
//!
//! As in cel-go the values of arguments lie on a stack under the ids of their nodes until the node above takes them. An
//! argument that is not found there costs nothing, which does happen: the exact order of pushes and drops matters.

use super::Answer;
use super::calls::CallStep;
use crate::cel::ast::Id;
use crate::cel::value::{Fault, Value};

const TRAVERSAL: f64 = 0.1;
const PATTERN: f64 = 0.25;

/// Above this height the stack is counted, so that looking for what is not there costs nothing.
const COUNTED: usize = 64;

pub(super) struct Tracker {
    pub(super) cost: u64,
    limit: u64,
    stack: Vec<(Id, Option<Value>)>,
    /// How many entries each node has; empty while the stack is low.
    counts: Vec<u32>,
}

impl Tracker {
    pub(super) fn new(limit: u64) -> Self {
        Self { cost: 0, limit, stack: Vec::with_capacity(8), counts: Vec::new() }
    }

    pub(super) fn push(&mut self, id: Id, value: Option<&Value>) {
        self.stack.push((id, value.cloned()));
        if !self.counts.is_empty() {
            self.count(id);
        } else if self.stack.len() > COUNTED {
            for at in 0..self.stack.len() {
                self.count(self.stack[at].0);
            }
        }
    }

    fn count(&mut self, id: Id) {
        let at = id as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
    }

    /// Where the last value of a node is.
    fn find(&self, id: Id) -> Option<usize> {
        if !self.counts.is_empty() && self.counts.get(id as usize).is_none_or(|count| *count == 0) {
            return None;
        }
        self.stack.iter().rposition(|(pushed, _)| *pushed == id)
    }

    fn truncate(&mut self, at: usize) {
        if self.counts.is_empty() {
            self.stack.truncate(at);
            return;
        }
        for (id, _) in self.stack.drain(at..) {
            if let Some(count) = self.counts.get_mut(id as usize) {
                *count -= 1;
            }
        }
    }

    /// Removes the last value of a node and everything above it.
    pub(super) fn drop(&mut self, id: Id) {
        if let Some(at) = self.find(id) {
            self.truncate(at);
        }
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.cost > self.limit {
            return Err(Fault::Abort("operation cancelled: actual cost limit exceeded".into()));
        }
        Ok(())
    }

    /// Takes the values of arguments from the stack, last first; `None` if one is missing.
    pub(super) fn take(&mut self, ids: impl DoubleEndedIterator<Item = Id>) -> Option<Vec<Option<Value>>> {
        let mut taken = Vec::new();
        for id in ids.rev() {
            let at = self.find(id)?;
            taken.push(self.stack.get_mut(at).and_then(|(_, value)| value.take()));
            self.truncate(at);
        }
        taken.reverse();
        Some(taken)
    }

    pub(super) fn equality(&mut self, ids: [Id; 2], negated: bool) {
        // Most often the two are on top.
        let sizes = match self.stack.as_slice() {
            [.., (left, left_value), (right, right_value)] if [*left, *right] == ids => {
                Some((costs_one(left_value, negated), size(left_value), size(right_value)))
            }
            _ => None,
        };
        let (one, left, right) = match sizes {
            Some(sizes) => {
                self.truncate(self.stack.len() - 2);
                sizes
            }
            None => match self.take(ids.into_iter()).as_deref() {
                Some([left, right]) => (costs_one(left, negated), size(left), size(right)),
                _ => return,
            },
        };
        self.cost += if one { 1 } else { scaled(left.min(right), TRAVERSAL) };
    }

    pub(super) fn call(&mut self, call: &CallStep, result: &Answer) -> Result<(), Fault> {
        if let Some(args) = self.take(call.args.iter().map(|arg| arg.id)) {
            if is_beyond_counting(call.overload, &args) {
                return Err(Fault::Abort("internal error: interface conversion: ref.Val is not traits.Lister".into()));
            }
            self.cost = self.cost.saturating_add(call_cost(call, &args, result.as_ref().ok()));
        }
        Ok(())
    }
}

/// The costs of these functions are computed from a list (or a depth); cel-go crashes when the argument is an error.
fn is_beyond_counting(overload: &str, args: &[Option<Value>]) -> bool {
    let list = |index: usize| matches!(args.get(index), Some(Some(Value::List(_))));
    match overload {
        "list_distinct" => !list(0),
        "list_flatten_int" => !matches!(args.get(1), Some(Some(Value::Int(_)))),
        _ if overload.ends_with("_sort") => !list(0),
        _ if overload.ends_with("_sortByAssociatedKeys") => !list(1),
        _ => false,
    }
}

/// Values of Kubernetes' types compare at a fixed cost with `==`.
fn costs_one(left: &Option<Value>, negated: bool) -> bool {
    let fixed =
        matches!(left, Some(Value::Quantity { .. } | Value::Ip(_) | Value::Cidr(..) | Value::Format(_) | Value::Url(_) | Value::Semver(_)));
    fixed && !negated
}

fn size(value: &Option<Value>) -> u64 {
    value.as_ref().map_or(1, Value::cost_size)
}

/// The size without looking into optionals.
fn plain_size(value: Option<&Value>) -> u64 {
    value.and_then(Value::size).unwrap_or(1)
}

fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

fn allocation(factor: f64, size: u64) -> u64 {
    let factor = if factor < 0.0 { 1.0 } else { factor };
    ((size as f64 * factor) as u64).saturating_add(11)
}

fn self_comparison(list: Option<&Value>) -> u64 {
    let size = plain_size(list);
    let texts = matches!(list, Some(Value::List(values)) if matches!(values.first(), Some(Value::String(_) | Value::Bytes(_))));
    allocation(if texts { 2.0 + TRAVERSAL } else { 2.0 }, size.saturating_mul(size))
}

fn call_cost(call: &CallStep, args: &[Option<Value>], result: Option<&Value>) -> u64 {
    let arg = |index: usize| args.get(index).and_then(Option::as_ref);
    let plain = |index: usize| plain_size(arg(index));
    match call.overload {
        "list_slice" | "lists_range" | "list_reverse" => return allocation(1.0, plain_size(result)),
        "list_flatten" => return allocation(1.0, plain(0)),
        "list_flatten_int" => {
            let depth = if let Some(Value::Int(depth)) = arg(1) { *depth as f64 } else { 1.0 };
            return allocation(depth, plain(0));
        }
        "list_distinct" => return self_comparison(arg(0)),
        "list_sets_contains_list" | "list_sets_intersects_list" => return plain(0).wrapping_mul(plain(1)).saturating_add(1),
        "list_sets_equivalent_list" => return (plain(0).wrapping_mul(plain(1)) as f64 * 2.0) as u64 + 1,
        overload if overload.ends_with("_sort") => return self_comparison(arg(0)),
        overload if overload.ends_with("_sortByAssociatedKeys") => return self_comparison(arg(1)),
        _ => {}
    }
    match call.function {
        "check" => 350_000,
        "fieldSelector" | "labelSelector" => {
            let size = plain(1);
            10 + scaled(size, TRAVERSAL) + scaled(scaled(size, 0.5), 50.0)
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => arg(0).map_or(1, Value::traversal_cost),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver"
        | "isSemver" => scaled(plain(0), TRAVERSAL),
        "ip" if call.overload == "cidr_ip" => 1,
        "ip" => scaled(plain(0), TRAVERSAL),
        "replace" | "split" | "ip.isCanonical" => scaled(plain(0), 2.0 * TRAVERSAL),
        "join" => scaled(plain_size(result), 2.0 * TRAVERSAL),
        "find" | "findAll" => {
            let text = ((1.0 + plain(0) as f64) * TRAVERSAL).ceil() as u64;
            text.wrapping_mul(scaled(plain(1), PATTERN))
        }
        "containsIP" => {
            let parse = if call.overload == "cidr_contains_ip_string" { scaled(plain(1), TRAVERSAL) } else { 0 };
            scaled(2 * plain(0), TRAVERSAL) + parse
        }
        "containsCIDR" => {
            let parse = if call.overload == "cidr_contains_cidr_string" { scaled(plain(1), TRAVERSAL) } else { 0 };
            scaled(2 * plain(0), TRAVERSAL) + scaled(plain(0), TRAVERSAL) + 1 + parse
        }
        "validate" if matches!(arg(0), Some(Value::Format(_))) => {
            let pattern = if let Some(Value::Format(format)) = arg(0) { format.pattern_size } else { 0 };
            let text = ((1.0 + plain(1) as f64) * TRAVERSAL).ceil() as u64;
            text * scaled(pattern, PATTERN)
        }
        _ => standard_cost(call.overload, args),
    }
}

fn standard_cost(overload: &str, args: &[Option<Value>]) -> u64 {
    let sized = |index: usize| args.get(index).map_or(1, size);
    match overload {
        "starts_with_string" | "ends_with_string" => scaled(sized(1), TRAVERSAL),
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => scaled(sized(0), TRAVERSAL),
        "in_list" => sized(1),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes" => scaled(sized(0).min(sized(1)), TRAVERSAL),
        "add_string" | "add_bytes" => scaled(sized(0).saturating_add(sized(1)), TRAVERSAL),
        "matches" | "matches_string" => {
            let text = ((1.0 + sized(0) as f64) * TRAVERSAL).ceil() as u64;
            text.wrapping_mul(scaled(sized(1), PATTERN))
        }
        "contains_string" => scaled(sized(0), TRAVERSAL).wrapping_mul(scaled(sized(1), TRAVERSAL)),
        _ => 1,
    }
}
