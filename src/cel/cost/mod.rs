//! Estimates what an expression can cost at most (checker/cost.go of cel-go, with Kubernetes' function costs and the
//! sizes of a device).

mod calls;
mod range;
mod sizes;

use std::collections::HashMap;
use std::sync::Arc;

use self::range::Range;
use super::ast::{ACCUMULATOR, Call, Comprehension, Expr, Id, Kind, OLD_ACCUMULATOR};
use super::check::{Checked, Scope};
use super::types::{OPTIONAL, Type};
use super::value::Value;

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STRUCT_COST: u64 = 40;

/// The greatest cost of evaluating `expr`; `u64::MAX` if there is no bound.
pub(crate) fn estimate(expr: &Expr, checked: &Checked, scope: &Scope) -> u64 {
    Coster::new(checked, scope).cost(expr).max
}

/// The greatest cost of each node, by id.
pub(crate) fn of_parts(expr: &Expr, checked: &Checked, scope: &Scope) -> HashMap<Id, u64> {
    let mut coster = Coster::new(checked, scope);
    coster.parts = Some(HashMap::new());
    coster.cost(expr);
    coster.parts.unwrap_or_default()
}

/// Where a value comes from: the variable and the steps from it. Shared, because paths extend each other.
type Path = Arc<Vec<Arc<str>>>;

/// Sizes of the keys and values of a collection.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

#[derive(Debug)]
struct Local {
    name: Arc<str>,
    path: Path,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Coster<'c> {
    checked: &'c Checked,
    shared: bool,
    paths: HashMap<Id, Path>,
    locals: Vec<Local>,
    sizes: HashMap<Id, Range>,
    entries: HashMap<Id, Entries>,
    /// The greatest cost of each node, where it is asked for.
    parts: Option<HashMap<Id, u64>>,
}

/// An argument as the costs of functions see it.
struct Node<'e> {
    expr: &'e Expr,
    path: Path,
    type_: Type,
    size: Option<Range>,
}

impl<'c> Coster<'c> {
    fn new(checked: &'c Checked, scope: &Scope) -> Self {
        let shared = scope.device_fields.iter().any(|(name, _)| *name == "allowMultipleAllocations");
        let (paths, sizes, entries) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { checked, shared, paths, locals: Vec::new(), sizes, entries, parts: None }
    }

    fn cost(&mut self, expr: &Expr) -> Range {
        let cost = self.cost_of(expr);
        if let Some(parts) = &mut self.parts {
            parts.insert(expr.id, cost.max);
        }
        cost
    }

    fn cost_of(&mut self, expr: &Expr) -> Range {
        match &expr.kind {
            Kind::Unspecified | Kind::Literal(_) => Range::ZERO,
            Kind::Ident(name) => {
                let path = self.local(name).map_or_else(|| Arc::new(vec![name.clone()]), |local| local.path.clone());
                self.paths.insert(expr.id, path);
                Range::ONE
            }
            Kind::Select(select) => {
                let mut sum = self.cost(&select.operand);
                if !select.test_only {
                    if matches!(self.checked.type_of(select.operand.id), Type::Map(..) | Type::Object(_) | Type::Var(_) | Type::Param(_)) {
                        sum = sum.plus(Range::ONE);
                    }
                    let path = self.extended(&select.operand, &select.field);
                    self.paths.insert(expr.id, path);
                }
                sum
            }
            Kind::Call(call) => self.call(expr, call),
            Kind::List(elements) => {
                let mut sum = Range::fixed(LIST_COST);
                let mut sizes = if elements.is_empty() { Range::ZERO } else { Range::EMPTY };
                for element in elements {
                    sum = sum.plus(self.cost(&element.value));
                    sizes = sizes.union(self.size_or_unknown(&element.value));
                }
                self.entries.insert(expr.id, Entries { is_list: true, key: Range::ONE, value: sizes });
                sum
            }
            Kind::Map(entries) => {
                let mut sum = Range::fixed(MAP_COST);
                let start = if entries.is_empty() { Range::ZERO } else { Range::EMPTY };
                let (mut keys, mut values) = (start, start);
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    keys = keys.union(self.size_or_unknown(&entry.key));
                    values = values.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, Entries { is_list: false, key: keys, value: values });
                sum
            }
            Kind::Struct(object) => object.fields.iter().fold(Range::fixed(STRUCT_COST), |sum, field| sum.plus(self.cost(&field.value))),
            Kind::Comprehension(comprehension) if is_binding(comprehension) => self.binding(expr, comprehension),
            Kind::Comprehension(comprehension) => self.comprehension(expr, comprehension),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| &*local.name == name)
    }

    fn path(&self, expr: &Expr) -> Path {
        let local = expr.ident().and_then(|name| self.local(name));
        local.map(|local| local.path.clone()).or_else(|| self.paths.get(&expr.id).cloned()).unwrap_or_default()
    }

    fn extended(&self, expr: &Expr, step: &str) -> Path {
        let mut path = (*self.path(expr)).clone();
        path.push(step.into());
        Arc::new(path)
    }

    fn node<'e>(&mut self, expr: &'e Expr) -> Node<'e> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| matches!(&**first, ACCUMULATOR | OLD_ACCUMULATOR)) {
            path = Path::default();
        }
        let size = self.size(expr);
        Node { expr, path, type_: self.checked.type_of(expr.id).clone(), size }
    }

    /// What is known of the size of a value.
    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        let literal = match &expr.kind {
            Kind::Literal(value @ (Value::String(_) | Value::Bytes(_))) => value.size(),
            Kind::Literal(_) => Some(1),
            Kind::List(elements) => Some(elements.len() as u64),
            Kind::Map(entries) => Some(entries.len() as u64),
            _ => None,
        };
        if let Some(size) = literal {
            return Some(Range::fixed(size));
        }
        if let Some(size) = self.path_size(&self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expr.id)) {
            return Some(Range::ONE);
        }
        expr.ident().and_then(|name| self.local(name)).and_then(|local| local.size)
    }

    fn path_size(&self, path: &Path) -> Option<Range> {
        sizes::of_path(path.iter().map(|step| &**step), self.shared).map(|max| Range { min: 0, max })
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        let known = self.entries.get(&expr.id).copied();
        known.or_else(|| expr.ident().and_then(|name| self.local(name)).and_then(|local| local.entries))
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Range {
        if let ("dyn", [arg]) = (&*call.function, call.args.as_slice()) {
            let cost = self.cost(arg);
            self.copy_sizes(expr, arg);
            return cost.plus(Range::ONE);
        }
        let mut args = Vec::with_capacity(call.args.len());
        let mut arg_costs = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            arg_costs.push(self.cost(arg));
            args.push(self.node(arg));
        }
        let overloads = self.checked.overloads(expr.id);
        if overloads.is_empty() {
            return Range::ZERO;
        }
        let mut sum = Range::ZERO;
        let target = match &call.target {
            Some(target) => {
                sum = self.cost(target);
                Some(self.node(target))
            }
            None => None,
        };
        let mut cost = Range::EMPTY;
        let mut size: Option<Range> = None;
        for overload in overloads {
            let (own, result) = self.function_cost(expr, &call.function, overload.id, target.as_ref(), &args, &arg_costs);
            cost = cost.union(own);
            if let Some(result) = result {
                size = Some(size.map_or(result, |size| size.union(result)));
            }
            if let ("index_list" | "index_map", Some(collection)) = (overload.id, call.args.first()) {
                size = self.entries_of(collection).map(|entries| entries.value);
                let step = if overload.id == "index_list" { "@items" } else { "@values" };
                let path = self.extended(collection, step);
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        sum.plus(cost)
    }

    fn push(&mut self, name: &Arc<str>, path: Path, size: Option<Range>, entries: Option<Entries>) {
        self.locals.push(Local { name: name.clone(), path, size, entries });
    }

    /// Gives the loop variable a size: of the keys (`keys`) or of the values of the range.
    fn push_iteration(&mut self, name: &Arc<str>, range: &Expr, keys: Option<bool>) {
        let entries = self.entries_of(range);
        let is_list = entries.map_or(matches!(self.checked.type_of(range.id), Type::List(_)), |entries| entries.is_list);
        // With one variable it is the element of a list and the key of a map.
        let keys = keys.unwrap_or(!is_list);
        let size = entries.map(|entries| if keys { entries.key } else { entries.value });
        let step = match (keys, is_list) {
            (true, true) => "@indices",
            (true, false) => "@keys",
            (false, true) => "@items",
            (false, false) => "@values",
        };
        let path = self.extended(range, step);
        self.push(name, path, size, None);
    }

    fn comprehension(&mut self, expr: &Expr, comprehension: &Comprehension) -> Range {
        let Comprehension { range, iter_var, iter_var2, accu_var, accu_init, condition, step, result } = comprehension;
        let mut sum = self.cost(range).plus(self.cost(accu_init));
        let outer = self.locals.len();
        let (path, size, entries) = (self.path(accu_init), self.size(accu_init), self.entries_of(accu_init));
        self.push(accu_var, path, size, entries);
        match iter_var2 {
            Some(second) => {
                self.push_iteration(iter_var, range, Some(true));
                self.push_iteration(second, range, Some(false));
            }
            None => self.push_iteration(iter_var, range, None),
        }
        let loop_cost = self.cost(condition);
        let step_cost = self.cost(step);
        self.locals.truncate(outer + 1);
        sum = sum.plus(self.cost(result));
        self.locals.truncate(outer);
        let count = self.size_or_unknown(range);
        match &accu_init.kind {
            Kind::Literal(_) => {
                if let Some(size) = self.size(accu_init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            Kind::List(_) | Kind::Map(_) => {
                self.sizes.insert(expr.id, count);
                if let Some(entries) = self.entries_of(step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum.plus(count.times(step_cost.plus(loop_cost)))
    }

    fn binding(&mut self, expr: &Expr, comprehension: &Comprehension) -> Range {
        let sum = self.cost(&comprehension.range).plus(self.cost(&comprehension.accu_init));
        let init = &comprehension.accu_init;
        let (path, size, entries) = (self.path(init), self.size(init), self.entries_of(init));
        self.push(&comprehension.accu_var, path, size, entries);
        let sum = sum.plus(self.cost(&comprehension.result));
        self.locals.pop();
        self.copy_sizes(expr, &comprehension.result);
        sum
    }
}

/// Whether it is what `cel.bind` expands to.
pub(crate) fn is_binding(comprehension: &Comprehension) -> bool {
    matches!(&comprehension.range.kind, Kind::List(elements) if elements.is_empty())
        && matches!(comprehension.condition.literal(), Some(Value::Bool(false)))
        && &*comprehension.accu_var != OLD_ACCUMULATOR
}

fn is_scalar(type_: &Type) -> bool {
    match type_ {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Opaque(OPTIONAL, parameters) => parameters.first().is_some_and(is_scalar),
        _ => false,
    }
}
