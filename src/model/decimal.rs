//! Integers of any size in base 10^9, as far as quantities need them: exact sums, comparison, powers of ten.

use std::cmp::Ordering;
use std::fmt;

const BASE: u64 = 1_000_000_000;
const DIGITS: usize = 9;

/// A signed integer of any size. Zero is never negative; the most significant limb is never 0.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct BigDecimal {
    negative: bool,
    /// Least significant limb first.
    limbs: Vec<u32>,
}

impl BigDecimal {
    /// From decimal digits (ASCII, no sign). Other characters are not allowed and count as 0.
    pub(crate) fn from_digits(digits: &str) -> Self {
        let mut limbs = Vec::with_capacity(digits.len() / DIGITS + 1);
        for chunk in digits.as_bytes().rchunks(DIGITS) {
            let limb = chunk.iter().fold(0u32, |sum, digit| sum * 10 + u32::from(digit.saturating_sub(b'0').min(9)));
            limbs.push(limb);
        }
        Self { negative: false, limbs }.trimmed()
    }

    pub(crate) fn from_i64(value: i64) -> Self {
        let mut rest = value.unsigned_abs();
        let mut limbs = Vec::with_capacity(3);
        while rest > 0 {
            limbs.push((rest % BASE) as u32);
            rest /= BASE;
        }
        Self { negative: value < 0, limbs }
    }

    fn trimmed(mut self) -> Self {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
        if self.limbs.is_empty() {
            self.negative = false;
        }
        self
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.negative
    }

    pub(crate) fn negated(mut self) -> Self {
        self.negative = !self.negative && !self.is_zero();
        self
    }

    /// The number of decimal digits; 0 for zero.
    pub(crate) fn digits(&self) -> usize {
        match self.limbs.last() {
            None => 0,
            Some(top) => (self.limbs.len() - 1) * DIGITS + top.ilog10() as usize + 1,
        }
    }

    pub(crate) fn times(&self, factor: u32) -> Self {
        let mut limbs = Vec::with_capacity(self.limbs.len() + 2);
        let mut carry = 0u64;
        for limb in &self.limbs {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            limbs.push((product % BASE) as u32);
            carry = product / BASE;
        }
        while carry > 0 {
            limbs.push((carry % BASE) as u32);
            carry /= BASE;
        }
        Self { negative: self.negative, limbs }.trimmed()
    }

    /// Times 10^power.
    pub(crate) fn shifted_up(&self, power: usize) -> Self {
        if self.is_zero() {
            return Self::default();
        }
        let mut limbs = vec![0; power / DIGITS];
        limbs.extend_from_slice(&self.limbs);
        Self { negative: self.negative, limbs }.times(10u32.pow((power % DIGITS) as u32))
    }

    /// Divides by a small number: the quotient rounded towards zero, and the magnitude of the remainder.
    pub(crate) fn divided(&self, divisor: u32) -> (Self, u32) {
        let divisor = u64::from(divisor.max(1));
        let mut limbs = vec![0; self.limbs.len()];
        let mut rest = 0u64;
        for (index, limb) in self.limbs.iter().enumerate().rev() {
            let value = rest * BASE + u64::from(*limb);
            limbs[index] = (value / divisor) as u32;
            rest = value % divisor;
        }
        (Self { negative: self.negative, limbs }.trimmed(), rest as u32)
    }

    /// Divides by 10^power: the quotient rounded towards zero, and whether it is exact.
    pub(crate) fn shifted_down(&self, power: usize) -> (Self, bool) {
        if power >= self.digits() {
            return (Self::default(), self.is_zero());
        }
        let whole = power / DIGITS;
        let exact = self.limbs[..whole].iter().all(|limb| *limb == 0);
        let upper = Self { negative: self.negative, limbs: self.limbs[whole..].to_vec() };
        let (quotient, rest) = upper.divided(10u32.pow((power % DIGITS) as u32));
        (quotient, exact && rest == 0)
    }

    /// One further away from zero, in the direction of `negative`.
    pub(crate) fn away_from_zero(&self, negative: bool) -> Self {
        self.plus(&Self { negative, limbs: vec![1] })
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        self.limbs.len().cmp(&other.limbs.len()).then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        if self.negative == other.negative {
            let (long, short) = if self.limbs.len() >= other.limbs.len() { (self, other) } else { (other, self) };
            let mut limbs = Vec::with_capacity(long.limbs.len() + 1);
            let mut carry = 0u64;
            for (index, limb) in long.limbs.iter().enumerate() {
                let sum = u64::from(*limb) + u64::from(short.limbs.get(index).copied().unwrap_or(0)) + carry;
                limbs.push((sum % BASE) as u32);
                carry = sum / BASE;
            }
            if carry > 0 {
                limbs.push(carry as u32);
            }
            return Self { negative: self.negative, limbs }.trimmed();
        }
        let (large, small) = match self.cmp_magnitude(other) {
            Ordering::Equal => return Self::default(),
            Ordering::Greater => (self, other),
            Ordering::Less => (other, self),
        };
        let mut limbs = Vec::with_capacity(large.limbs.len());
        let mut borrow = 0i64;
        for (index, limb) in large.limbs.iter().enumerate() {
            let mut rest = i64::from(*limb) - i64::from(small.limbs.get(index).copied().unwrap_or(0)) - borrow;
            borrow = i64::from(rest < 0);
            if rest < 0 {
                rest += BASE as i64;
            }
            limbs.push(rest as u32);
        }
        Self { negative: large.negative, limbs }.trimmed()
    }

    /// The value if it fits.
    pub(crate) fn to_i64(&self) -> Option<i64> {
        let mut value: i128 = 0;
        for limb in self.limbs.iter().rev() {
            value = value.checked_mul(i128::from(BASE))?.checked_add(i128::from(*limb))?;
        }
        i64::try_from(if self.negative { -value } else { value }).ok()
    }
}

impl PartialOrd for BigDecimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BigDecimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.cmp_magnitude(other),
            (true, true) => other.cmp_magnitude(self),
        }
    }
}

impl fmt::Display for BigDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((top, rest)) = self.limbs.split_last() else {
            return f.write_str("0");
        };
        if self.negative {
            f.write_str("-")?;
        }
        write!(f, "{top}")?;
        rest.iter().rev().try_for_each(|limb| write!(f, "{limb:09}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn big(value: i128) -> BigDecimal {
        let magnitude = BigDecimal::from_digits(&value.unsigned_abs().to_string());
        if value < 0 { magnitude.negated() } else { magnitude }
    }

    proptest! {
        #[test]
        fn agrees_with_i128(a in -10i128.pow(30)..10i128.pow(30), b in -10i128.pow(20)..10i128.pow(20), power in 0usize..35, small in 1u32..5000) {
            prop_assert_eq!(big(a).to_string(), a.to_string());
            prop_assert_eq!(big(a).plus(&big(b)).to_string(), (a + b).to_string());
            prop_assert_eq!(big(a).cmp(&big(b)), a.cmp(&b));
            prop_assert_eq!(big(a).times(small).to_string(), (a * i128::from(small)).to_string());
            let (quotient, rest) = big(a).divided(small);
            prop_assert_eq!((quotient.to_string(), i128::from(rest)), ((a / i128::from(small)).to_string(), (a % i128::from(small)).abs()));
            let (down, exact) = big(a).shifted_down(power);
            let divisor = 10i128.pow(power as u32);
            prop_assert_eq!((down.to_string(), exact), ((a / divisor).to_string(), a % divisor == 0));
            let digits = if a == 0 { 0 } else { a.unsigned_abs().to_string().len() };
            prop_assert_eq!(big(a).digits(), digits);
            prop_assert_eq!(big(a).shifted_up(power).shifted_down(power).0, big(a));
            prop_assert_eq!(big(b).to_i64(), i64::try_from(b).ok());
        }
    }
}
