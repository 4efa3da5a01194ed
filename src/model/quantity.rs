//! Kubernetes quantities: exact parse, compare and print.
//!
//! The rules are those of `k8s.io/apimachinery/pkg/api/resource` (quantity.go, amount.go, suffix.go), including
//! which of its two forms a value is kept in: the form decides whether [`Quantity::as_i64`] succeeds and how
//! [`Quantity::approximate_f64`] rounds.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use self::parse::{Parts, suffix};
use super::decimal::BigDecimal;

mod parse;

/// How a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// A text that is not a quantity. `Display` is the message of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text has another form.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number cannot be read.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// Powers of ten above this are kept apart from the mantissa, so that `1e999999999` costs nothing.
const MAX_SHIFT: i64 = 5_000;
/// Sums of numbers further apart than this are the larger one. (Kubernetes runs out of memory there.)
const MAX_ALIGN: i64 = 100_000;
const NANO: i32 = -9;

#[derive(Clone, Debug)]
enum Amount {
    /// `value * 10^scale`
    Small { value: i64, scale: i32 },
    /// `unscaled * 10^scale`
    Big { unscaled: BigDecimal, scale: i64 },
}

/// An exact amount with the format it was written in. Equality and order are by value.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text as it was given, where Kubernetes prints it unchanged.
    text: Option<Box<str>>,
}

impl Quantity {
    /// An integer.
    #[must_use]
    pub fn from_i64(value: i64, format: Format) -> Self {
        Self { amount: Amount::Small { value, scale: 0 }, format, text: None }
    }

    /// Thousandths.
    #[must_use]
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self { amount: Amount::Small { value, scale: -3 }, format, text: None }
    }

    /// Whether Go's `==` holds, which compares how a quantity is kept rather than what it is worth: value, scale, format
    /// and the cached text. Upstream compares so in one place. Quantities in the big form are never the same.
    #[must_use]
    pub fn is_kept_like(&self, other: &Self) -> bool {
        match (&self.amount, &other.amount) {
            (Amount::Small { value: a, scale: sa }, Amount::Small { value: b, scale: sb }) => {
                (a, sa, self.format, &self.text) == (b, sb, other.format, &other.text)
            }
            _ => false,
        }
    }

    /// Parses a quantity. Fractions finer than nano are rounded away from zero; numbers with a binary suffix that
    /// need the big form are capped at 2^63-1.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text == "0" {
            return Ok(Self { amount: Amount::Small { value: 0, scale: 0 }, format: Format::DecimalSi, text: Some("0".into()) });
        }
        let parts = Parts::split(text)?;
        let (exponent, format) = suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
        if let Some(quantity) = parts.small(text, exponent, format)? {
            return Ok(quantity);
        }
        parts.big(exponent, format)
    }

    /// The format it was written in.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn sign(&self) -> i64 {
        match &self.amount {
            Amount::Small { value, .. } => value.signum(),
            Amount::Big { unscaled, .. } if unscaled.is_zero() => 0,
            Amount::Big { unscaled, .. } => 1 - 2 * i64::from(unscaled.is_negative()),
        }
    }

    /// Whether it is 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    /// The integer, as `AsInt64` gives it: only where the quantity is kept in the small form (up to 18 digits) with no
    /// fraction in its scale, so that neither `1000m` nor `9223372036854775807` are integers.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match &self.amount {
            Amount::Small { value, scale } if *scale >= 0 => scaled_up(*value, *scale),
            _ => None,
        }
    }

    /// The value in whole units, rounded up (negative ones away from zero); saturates beyond the range of i64.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.rounded_up(0)
    }

    /// The value in thousandths, rounded up like [`Self::value`].
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.rounded_up(-3)
    }

    fn rounded_up(&self, to: i64) -> i64 {
        let (unscaled, scale) = self.parts();
        let saturated = if unscaled.is_negative() { i64::MIN } else { i64::MAX };
        if scale >= to {
            if unscaled.is_zero() {
                return 0;
            }
            if scale - to > 19 {
                return saturated;
            }
            return unscaled.shifted_up((scale - to) as usize).to_i64().unwrap_or(saturated);
        }
        round_away(&unscaled, to - scale).0.to_i64().unwrap_or(saturated)
    }

    /// The nearest float, computed as `AsApproximateFloat64` does (mantissa times a power of ten).
    #[must_use]
    pub fn approximate_f64(&self) -> f64 {
        let (base, exponent) = match &self.amount {
            Amount::Small { value, scale } => (*value as f64, i64::from(*scale)),
            Amount::Big { unscaled, scale } => (unscaled.to_string().parse().unwrap_or(f64::INFINITY), *scale),
        };
        if exponent == 0 {
            return base;
        }
        let power = match exponent {
            ..-323 => 0.0,
            309.. => f64::INFINITY,
            _ => format!("1e{exponent}").parse().unwrap_or(f64::INFINITY),
        };
        base * power
    }

    fn parts(&self) -> (BigDecimal, i64) {
        match &self.amount {
            Amount::Small { value, scale } => (BigDecimal::from_i64(*value), i64::from(*scale)),
            Amount::Big { unscaled, scale } => (unscaled.clone(), *scale),
        }
    }

    /// The sum. A zero on the left takes the format of the right.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        if let (Amount::Small { value: a, scale: sa }, Amount::Small { value: b, scale: sb }) = (&self.amount, &other.amount)
            && let Some((value, scale)) = small_sum((*a, *sa), (*b, *sb))
        {
            return Self { amount: Amount::Small { value, scale }, format, text: None };
        }
        let (unscaled, scale) = big_sum(self.parts(), other.parts());
        Self { amount: Amount::Big { unscaled, scale }, format, text: None }
    }

    /// The difference. A zero on the left takes the format of the right.
    #[must_use]
    pub fn sub(&self, other: &Self) -> Self {
        let amount = match &other.amount {
            Amount::Small { value, scale } if *value != i64::MIN => Amount::Small { value: -value, scale: *scale },
            _ => {
                let (unscaled, scale) = other.parts();
                Amount::Big { unscaled: unscaled.negated(), scale }
            }
        };
        self.add(&Self { amount, format: other.format, text: None })
    }
}

fn small_sum(a: (i64, i32), b: (i64, i32)) -> Option<(i64, i32)> {
    if b.0 == 0 {
        return Some(a);
    }
    if a.0 == 0 {
        return Some(b);
    }
    let scale = a.1.min(b.1);
    let left = scaled_up(a.0, a.1.checked_sub(scale)?)?;
    let right = scaled_up(b.0, b.1.checked_sub(scale)?)?;
    Some((left.checked_add(right)?, scale))
}

fn big_sum((a, sa): (BigDecimal, i64), (b, sb): (BigDecimal, i64)) -> (BigDecimal, i64) {
    if (sa - sb).abs() > MAX_ALIGN {
        return if (sa > sb && !a.is_zero()) || b.is_zero() { (a, sa) } else { (b, sb) };
    }
    let scale = sa.min(sb);
    (a.shifted_up((sa - scale) as usize).plus(&b.shifted_up((sb - scale) as usize)), scale)
}

fn scaled_up(value: i64, scale: i32) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10i64.checked_pow(u32::try_from(scale).ok()?)?)
}

/// Divides by 10^power, rounding away from zero; whether it is exact.
fn round_away(unscaled: &BigDecimal, power: i64) -> (BigDecimal, bool) {
    let (quotient, exact) = unscaled.shifted_down(usize::try_from(power).unwrap_or(usize::MAX));
    if exact { (quotient, true) } else { (quotient.away_from_zero(unscaled.is_negative()), false) }
}

/// Compares `unscaled * 10^scale` without writing out large powers of ten.
fn compare((a, sa): (&BigDecimal, i64), (b, sb): (&BigDecimal, i64)) -> Ordering {
    if a.is_zero() || b.is_zero() || a.is_negative() != b.is_negative() {
        return a.cmp(b);
    }
    let magnitude = (a.digits() as i64 + sa).cmp(&(b.digits() as i64 + sb));
    if magnitude != Ordering::Equal {
        return if a.is_negative() { magnitude.reverse() } else { magnitude };
    }
    let scale = sa.min(sb);
    a.shifted_up((sa - scale) as usize).cmp(&b.shifted_up((sb - scale) as usize))
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Amount::Small { value: a, scale: sa }, Amount::Small { value: b, scale: sb }) = (&self.amount, &other.amount) {
            if sa == sb {
                return a.cmp(b);
            }
            let difference = sa.abs_diff(*sb);
            if difference <= 19 {
                let power = 10i128.pow(difference);
                let (a, b) = (i128::from(*a), i128::from(*b));
                return if sa > sb { (a * power).cmp(&b) } else { a.cmp(&(b * power)) };
            }
        }
        let (a, sa) = self.parts();
        let (b, sb) = other.parts();
        compare((&a, sa), (&b, sb))
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl FromStr for Quantity {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

/// The canonical text: the largest suffix that leaves no fraction, in the format it was written in.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        let (mut unscaled, mut scale) = self.parts();
        if unscaled.is_zero() {
            return f.write_str("0");
        }
        let mut format = self.format;
        if format == Format::BinarySi {
            let whole = if scale >= 0 { scale <= MAX_ALIGN } else { unscaled.shifted_down(scale.unsigned_abs() as usize).1 };
            let kilo = BigDecimal::from_i64(1024);
            let magnitude = if unscaled.is_negative() { unscaled.clone().negated() } else { unscaled.clone() };
            if !whole || compare((&magnitude, scale), (&kilo, 0)) == Ordering::Less {
                format = Format::DecimalSi;
            }
        }
        if format == Format::BinarySi {
            unscaled =
                if scale >= 0 { unscaled.shifted_up(scale as usize) } else { unscaled.shifted_down(scale.unsigned_abs() as usize).0 };
            let mut times = 0;
            while let (quotient, 0) = unscaled.divided(1024) {
                unscaled = quotient;
                times += 1;
            }
            // Beyond Ei there is no suffix; upstream prints none either.
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(times).copied().unwrap_or("");
            return write!(f, "{unscaled}{suffix}");
        }
        while let (quotient, 0) = unscaled.divided(10) {
            unscaled = quotient;
            scale += 1;
        }
        let up = scale.rem_euclid(3);
        unscaled = unscaled.shifted_up(up as usize);
        scale -= up;
        write!(f, "{unscaled}")?;
        match (format, scale) {
            (_, 0) => Ok(()),
            (Format::DecimalExponent, _) => write!(f, "e{scale}"),
            _ => {
                let index = usize::try_from(scale / 3 + 3).unwrap_or(usize::MAX);
                f.write_str(["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].get(index).copied().unwrap_or(""))
            }
        }
    }
}

#[cfg(test)]
mod tests;
