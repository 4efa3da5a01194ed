//! What calls cost and how large their results are: Kubernetes' estimator (apiserver/pkg/cel/library/cost.go), the list
//! extensions, then cel-go's own rules.

use std::sync::Arc;

use super::range::Range;
use super::{Coster, Entries, LIST_COST, Node};
use crate::cel::ast::Expr;
use crate::cel::types::Type;
use crate::cel::value::Value;

/// Cost of looking at one character.
const TRAVERSAL: f64 = 0.1;
/// Cost of one character of a pattern, per character of the text.
const PATTERN: f64 = 0.25;
/// The longest pattern of a named format.
const FORMAT_PATTERN: f64 = 128.0;
/// An authorization check; two of them are too much for an expression.
const AUTHORIZATION_CHECK: u64 = 350_000;
/// The longest name of a format.
const FORMAT_NAME: u64 = 64;

/// A cost, and the size of the result where it is known.
type Estimate = (Range, Option<Range>);

impl Coster<'_> {
    pub(super) fn function_cost(
        &mut self,
        expr: &Expr,
        function: &str,
        overload: &str,
        target: Option<&Node<'_>>,
        args: &[Node<'_>],
        arg_costs: &[Range],
    ) -> Estimate {
        let args_cost = arg_costs.iter().fold(Range::ZERO, |sum, cost| sum.plus(*cost));
        let known = self.extension_cost(overload, target, args).or_else(|| self.kubernetes_cost(function, overload, target, args));
        if let Some((cost, size)) = known {
            return (cost.plus(args_cost), size);
        }
        self.standard_cost(expr, overload, target, args, arg_costs, args_cost)
    }

    fn sized(&self, node: &Node<'_>) -> Range {
        node.size.or_else(|| self.path_size(&node.path)).unwrap_or(Range::UNKNOWN)
    }

    fn extension_cost(&self, overload: &str, target: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<Estimate> {
        let list = |factor: f64, size: Range| (size.factor(factor).plus(Range::ONE).plus(Range::fixed(LIST_COST)), Some(size));
        match (overload, target, args) {
            ("list_slice", Some(target), [start, end]) => {
                let size = self.sized(target);
                let (start, end) = (literal_int(start, 0), literal_int(end, size.max));
                Some(list(1.0, Range::fixed(end.wrapping_sub(start))))
            }
            ("list_flatten" | "list_flatten_int", Some(target), _) => {
                let depth = args.first().map_or(1, |depth| literal_int(depth, u64::MAX));
                Some(list(depth as f64, self.sized(target)))
            }
            ("lists_range", None, [size]) => Some(list(1.0, Range::fixed(literal_int(size, u64::MAX)))),
            ("list_reverse", Some(target), []) => Some(list(1.0, self.sized(target))),
            ("list_distinct", Some(target), []) => {
                let size = self.sized(target);
                Some(list(2.0, size.times(size)))
            }
            (_, Some(target), _) if overload.ends_with("_sort") || overload.ends_with("_sortByAssociatedKeys") => {
                let size = self.sized(args.first().unwrap_or(target));
                let texts = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
                Some(list(if texts { 2.0 + TRAVERSAL } else { 2.0 }, size.times(size)))
            }
            ("list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list", _, [a, b]) => {
                let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
                Some((self.sized(a).times(self.sized(b)).factor(factor).plus(Range::ONE), None))
            }
            _ => None,
        }
    }

    fn kubernetes_cost(&self, function: &str, overload: &str, target: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<Estimate> {
        let one = Some((Range::ONE, None));
        match (function, target, args) {
            ("check", ..) => Some((Range::fixed(AUTHORIZATION_CHECK), None)),
            ("fieldSelector" | "labelSelector", _, [selector]) => {
                let size = self.sized(selector);
                let requirements = size.factor(0.5).factor(50.0);
                Some((Range::fixed(LIST_COST).plus(size.factor(TRAVERSAL)).plus(requirements), None))
            }
            (
                "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name" | "allowed" | "reason" | "error"
                | "errored",
                ..,
            ) => one,
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes", Some(target), _) => {
                let size = self.sized(target);
                let cost = match self.element_of(target) {
                    Some(element) if matches!(element.type_, Type::String | Type::Bytes) => {
                        size.times(Range::ONE.plus(self.sized(&element).factor(TRAVERSAL)))
                    }
                    Some(_) => size,
                    None if function == "includes" => size,
                    None => size.factor(TRAVERSAL),
                };
                Some((cost, None))
            }
            ("url", _, [arg]) => {
                let size = self.sized(arg);
                Some((size.factor(TRAVERSAL), Some(size)))
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
                let size = self.sized(target);
                Some((size.factor(TRAVERSAL), Some(size)))
            }
            ("replace", Some(target), [old, new, ..]) => {
                let size = self.sized(target);
                let result = replaced_size(size, self.sized(old), self.sized(new));
                Some((size.factor(2.0 * TRAVERSAL), Some(result)))
            }
            ("split", Some(target), _) => {
                let size = self.sized(target);
                let limit = args.get(1).and_then(|limit| match limit.expr.literal() {
                    Some(Value::Int(limit)) => Some(*limit as u64),
                    _ => None,
                });
                Some((size.factor(2.0 * TRAVERSAL), Some(Range { min: 0, max: limit.unwrap_or(size.max) })))
            }
            ("join", Some(target), _) => {
                let count = self.sized(target);
                let mut size = self.element_of(target).map_or(Range::ZERO, |element| count.times(self.sized(&element)));
                if let Some(separator) = args.first() {
                    let separators = Range { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
                    size = size.plus(self.sized(separator).times(separators));
                }
                Some((size.factor(TRAVERSAL), Some(size)))
            }
            ("find" | "findAll", Some(target), [pattern, ..]) => {
                let size = self.sized(target);
                let text = size.plus(Range::ONE).factor(TRAVERSAL);
                Some((text.times(self.sized(pattern).factor(PATTERN)), Some(Range { min: 0, max: size.max })))
            }
            ("ip", ..) if overload == "cidr_ip" => one,
            ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", _, [arg, ..]) => {
                Some((self.sized(arg).factor(TRAVERSAL), None))
            }
            ("ip.isCanonical", _, [arg, ..]) => Some((self.sized(arg).factor(2.0 * TRAVERSAL), None)),
            ("containsIP" | "containsCIDR", _, [arg, ..]) => {
                let address = Range { min: 4, max: 16 };
                let mut cost = address.plus(address).factor(TRAVERSAL);
                if function == "containsCIDR" {
                    cost = cost.plus(address.factor(TRAVERSAL)).plus(Range::ONE);
                }
                if overload.ends_with("_string") {
                    cost = cost.plus(self.sized(arg).factor(TRAVERSAL));
                }
                Some((cost, None))
            }
            ("validate", _, [arg, ..]) => Some((self.sized(arg).factor(TRAVERSAL).factor(FORMAT_PATTERN * PATTERN), None)),
            (
                "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast"
                | "format.named"
                | "sign"
                | "asInteger"
                | "isInteger"
                | "asApproximateFloat"
                | "isGreaterThan"
                | "isLessThan"
                | "compareTo"
                | "add"
                | "sub"
                | "major"
                | "minor"
                | "patch"
                | "getScheme"
                | "getHostname"
                | "getHost"
                | "getPort"
                | "getEscapedPath"
                | "getQuery",
                ..,
            ) => one,
            ("_==_", _, [left, right]) if left.type_.name() == right.type_.name() => match &left.type_ {
                Type::Opaque("net.IP" | "net.CIDR", _) | Type::Object("kubernetes.Quantity" | "kubernetes.Semver") => one,
                Type::Object("kubernetes.NamedFormat") => Some((Range { min: 1, max: FORMAT_NAME }.factor(TRAVERSAL), None)),
                Type::Object("kubernetes.URL") => {
                    // Upstream takes the right side twice.
                    let max = right.size.map_or(1, |size| size.max);
                    Some((Range { min: 1, max }.factor(TRAVERSAL), None))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The elements of a list, by path if it has one. Anything with type parameters counts, as upstream.
    fn element_of<'e>(&self, list: &Node<'e>) -> Option<Node<'e>> {
        let type_ = match &list.type_ {
            Type::List(element) => (**element).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Opaque(_, parameters) => parameters.first()?.clone(),
            Type::Type(Some(inner)) => (**inner).clone(),
            _ => return None,
        };
        let mut path = (*list.path).clone();
        if !path.is_empty() {
            path.push("@items".into());
        }
        Some(Node { expr: list.expr, path: Arc::new(path), type_, size: None })
    }

    fn standard_cost(
        &mut self,
        expr: &Expr,
        overload: &str,
        target: Option<&Node<'_>>,
        args: &[Node<'_>],
        arg_costs: &[Range],
        args_cost: Range,
    ) -> Estimate {
        let size = |node: &Node<'_>| node.size.unwrap_or(Range::UNKNOWN);
        let plain = |cost: Range| (cost.plus(args_cost), None);
        match (overload, target, args) {
            ("string_format", Some(target), _) => plain(size(target).factor(TRAVERSAL)),
            ("string_to_bytes", _, [arg]) => {
                let size = size(arg);
                (size.factor(TRAVERSAL).plus(args_cost), Some(Range { min: size.min, max: size.max.wrapping_mul(4) }))
            }
            ("bytes_to_string", _, [arg]) => {
                let size = size(arg);
                (size.factor(TRAVERSAL).plus(args_cost), Some(Range { min: size.min / 4, max: size.max }))
            }
            ("strings_quote", _, [arg]) => {
                let size = size(arg);
                let result = Range { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
                (size.factor(TRAVERSAL).plus(args_cost), Some(result))
            }
            ("starts_with_string" | "ends_with_string", _, [arg]) => plain(size(arg).factor(TRAVERSAL)),
            ("in_list", _, [_, list]) => plain(size(list)),
            ("matches_string", Some(text), [pattern]) | ("matches", None, [text, pattern]) => {
                let text = size(text).plus(Range::ONE).factor(TRAVERSAL);
                plain(text.times(size(pattern).factor(PATTERN)))
            }
            ("contains_string", Some(text), [wanted]) => plain(size(text).factor(TRAVERSAL).times(size(wanted).factor(TRAVERSAL))),
            ("logical_or" | "logical_and", ..) => {
                let [left, right] = arg_costs else { return plain(Range::ONE) };
                (Range { min: left.min, max: left.plus(*right).max }, None)
            }
            ("conditional", _, [_, then, otherwise]) => {
                let result = size(then).union(size(otherwise));
                if let (Some(a), Some(b)) = (self.entries_of(then.expr), self.entries_of(otherwise.expr)) {
                    self.entries.insert(expr.id, united(a, b));
                }
                let [condition, then, otherwise] = arg_costs else { return plain(Range::ONE) };
                (condition.plus(then.union(*otherwise)), Some(result))
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let result = size(left).plus(size(right));
                if let (Some(a), Some(b)) = (self.entries_of(left.expr), self.entries_of(right.expr)) {
                    self.entries.insert(expr.id, united(a, b));
                }
                let cost = if overload == "add_list" { Range::ONE } else { result.factor(TRAVERSAL) };
                (cost.plus(args_cost), Some(result))
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                [left, right],
            ) => {
                let max = size(left).max.min(size(right).max);
                plain(Range { min: u64::from(max > 0), max }.factor(TRAVERSAL))
            }
            _ => plain(Range::ONE),
        }
    }
}

fn united(a: Entries, b: Entries) -> Entries {
    Entries { is_list: a.is_list, key: a.key.union(b.key), value: a.value.union(b.value) }
}

/// The value of a literal int that is not negative, else the default.
fn literal_int(node: &Node<'_>, default: u64) -> u64 {
    match node.expr.literal() {
        Some(Value::Int(value)) => u64::try_from(*value).unwrap_or(0),
        _ => default,
    }
}

/// The size of a text in which `old` is replaced by `new`.
fn replaced_size(text: Range, old: Range, new: Range) -> Range {
    let (mut count, mut kept) = (Range::ZERO, Range::ZERO);
    if old.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if new.max <= old.min {
        kept.max = text.max;
    } else {
        count.max = (text.max as f64 / old.min as f64).ceil() as u64;
    }
    if old.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if old.max <= new.min {
        kept.min = text.min;
    } else {
        count.min = (text.min as f64 / old.max as f64).ceil() as u64;
    }
    count.times(new).plus(kept)
}
