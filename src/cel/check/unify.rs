//! Which types fit which: assignment, type variables and their values (checker/types.go of cel-go).

use crate::cel::types::Type;

/// The values of type variables, with an undo log so that an attempt can be taken back.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    values: Vec<Option<Type>>,
    log: Vec<(u32, Option<Type>)>,
}

impl Bindings {
    /// A fresh type variable.
    pub(super) fn fresh(&mut self) -> Type {
        self.values.push(None);
        Type::Var((self.values.len() - 1) as u32)
    }

    fn find(&self, type_: &Type) -> Option<&Type> {
        match type_ {
            Type::Var(number) => self.values.get(*number as usize)?.as_ref(),
            _ => None,
        }
    }

    fn bind(&mut self, variable: &Type, value: Type) {
        if let Type::Var(number) = variable
            && let Some(slot) = self.values.get_mut(*number as usize)
        {
            self.log.push((*number, slot.replace(value)));
        }
    }

    /// Runs `attempt`; what it bound stays only if it succeeds.
    fn attempt(&mut self, attempt: impl FnOnce(&mut Self) -> bool) -> bool {
        let start = self.log.len();
        let success = attempt(self);
        if !success {
            for (number, previous) in self.log.drain(start..).rev() {
                self.values[number as usize] = previous;
            }
        }
        self.log.truncate(start);
        success
    }

    /// Whether `from` fits `to`, binding variables on the way.
    pub(super) fn assignable(&mut self, from: &Type, to: &Type) -> bool {
        self.attempt(|bindings| bindings.fits(from, to))
    }

    /// The same for each pair of the lists.
    pub(super) fn all_assignable(&mut self, from: &[Type], to: &[Type]) -> bool {
        self.attempt(|bindings| bindings.all_fit(from, to))
    }

    fn all_fit(&mut self, from: &[Type], to: &[Type]) -> bool {
        from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.fits(from, to))
    }

    fn fits(&mut self, t1: &Type, t2: &Type) -> bool {
        if matches!(t2, Type::Var(_)) {
            let (valid, known) = self.substitutes(t1, t2);
            if valid || known {
                return valid;
            }
        }
        if matches!(t1, Type::Var(_)) {
            return self.substitutes(t2, t1).0;
        }
        if t1.is_dyn_or_error() || t2.is_dyn_or_error() {
            return true;
        }
        match (t1, t2) {
            (Type::Null, other) | (other, Type::Null) => {
                matches!(other, Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp)
            }
            (Type::Type(_), _) => matches!(t2, Type::Type(_)),
            (Type::List(a), Type::List(b)) => self.fits(a, b),
            (Type::Map(k1, v1), Type::Map(k2, v2)) => self.fits(k1, k2) && self.fits(v1, v2),
            (Type::Opaque(n1, p1), Type::Opaque(n2, p2)) => n1 == n2 && self.all_fit(p1, p2),
            _ => t1 == t2,
        }
    }

    /// Whether the variable `t2` can stand for `t1`, and whether it had a value already.
    fn substitutes(&mut self, t1: &Type, t2: &Type) -> (bool, bool) {
        if t1 == t2 {
            return (true, true);
        }
        if let Some(value) = self.find(t2).cloned() {
            if *t1 == value {
                return (true, true);
            }
            if self.fits(t1, &value) {
                let general = most_general(t1, &value);
                if self.absent(t2, &general) {
                    self.bind(t2, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.absent(t2, t1) {
            self.bind(t2, t1.clone());
            return (true, false);
        }
        (false, false)
    }

    /// The occurs check: `variable` is nowhere in `within`.
    fn absent(&self, variable: &Type, within: &Type) -> bool {
        if variable == within {
            return false;
        }
        match within {
            Type::Var(_) => self.find(within).is_none_or(|value| self.absent(variable, value)),
            Type::List(inner) => self.absent(variable, inner),
            Type::Map(key, value) => self.absent(variable, key) && self.absent(variable, value),
            Type::Type(inner) => inner.as_ref().is_none_or(|inner| self.absent(variable, inner)),
            Type::Opaque(_, parameters) => parameters.iter().all(|p| self.absent(variable, p)),
            _ => true,
        }
    }

    /// Replaces variables by their values; free ones by `dyn` if `close`.
    pub(super) fn substitute(&self, type_: &Type, close: bool) -> Type {
        type_.rewritten(&mut |inner| match inner {
            Type::Var(_) => match self.find(inner) {
                Some(value) => Some(self.substitute(value, close)),
                None => Some(if close { Type::Dyn } else { inner.clone() }),
            },
            _ => None,
        })
    }
}

/// The more general of two types that fit each other.
pub(super) fn most_general(t1: &Type, t2: &Type) -> Type {
    if less_specific(t1, t2) { t1.clone() } else { t2.clone() }
}

fn less_specific(t1: &Type, t2: &Type) -> bool {
    if t1.is_dyn() || matches!(t1, Type::Var(_)) {
        return true;
    }
    if t2.is_dyn() || matches!(t2, Type::Var(_)) {
        return false;
    }
    match (t1, t2) {
        (Type::List(a), Type::List(b)) => less_specific(a, b),
        (Type::Map(k1, v1), Type::Map(k2, v2)) => less_specific(k1, k2) && less_specific(v1, v2),
        (Type::Opaque(n1, p1), Type::Opaque(n2, p2)) => {
            n1 == n2 && p1.len() == p2.len() && p1.iter().zip(p2.iter()).all(|(a, b)| less_specific(a, b))
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => t1 == t2,
    }
}
